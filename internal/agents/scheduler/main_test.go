package scheduler_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(clockChildren) != "" {
		os.Exit(clockChild())
	}
	goleak.VerifyTestMain(plans.Checked(storetest.Both(m)))
}
