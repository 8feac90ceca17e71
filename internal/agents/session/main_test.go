package session_test

import (
	"testing"

	"go.uber.org/goleak"

	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(plans.Checked(storetest.Both(m))) }
