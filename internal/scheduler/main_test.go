package scheduler_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"stoa/internal/apitest/plans"
	"stoa/internal/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(clockChildren) != "" {
		os.Exit(clockChild())
	}
	goleak.VerifyTestMain(plans.Checked(storetest.Both(m)))
}
