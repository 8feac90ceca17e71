package retention_test

import (
	"os"
	"testing"

	"stoa/internal/apitest/plans"
)

func TestMain(m *testing.M) { os.Exit(plans.Checked(m).Run()) }
