package managed_test

import (
	"os"
	"testing"

	"stoa/internal/apitest/plans"
	"stoa/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(plans.Checked(storetest.Both(m)).Run()) }
