package payment_test

import (
	"testing"

	"go.uber.org/goleak"

	"stoa/internal/apitest/plans"
	"stoa/internal/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(plans.Checked(storetest.Both(m)))
}
