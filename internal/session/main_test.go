package session_test

import (
	"testing"

	"go.uber.org/goleak"
	"stoa/internal/apitest/plans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(plans.Checked(m)) }
