package scheduler_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	"stoa/internal/apitest/plans"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(clockDir); dir != "" {
		os.Exit(clockChild(dir))
	}
	goleak.VerifyTestMain(plans.Checked(m))
}
