package managed_test

import (
	"os"
	"testing"

	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { os.Exit(plans.Checked(storetest.Both(m)).Run()) }
