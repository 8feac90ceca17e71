package agent_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"stoa/internal/base/extract/extracttest"
	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) {
	if code, ran := extracttest.Child(); ran {
		os.Exit(code)
	}
	if dir := os.Getenv(crashDir); dir != "" {
		os.Exit(crashChild(dir))
	}
	goleak.VerifyTestMain(plans.Checked(storetest.Both(m)))
}
