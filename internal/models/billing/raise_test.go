package billing_test

import (
	"context"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// TestAHoldIsRaisedOnlyOutOfPlenty raises holds of 10: the whole is at most an eighth of what is free, in the account
// and in each budget, and thirty more calls still fit.
func TestAHoldIsRaisedOnlyOutOfPlenty(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		granted, budget, to stoa.Credits
		raised              bool
	}{
		{1000, 0, 125, true},
		{1000, 0, 126, false}, // more than an eighth
		{420, 0, 50, true},    // 370 are left, 300 are needed
		{340, 0, 40, true},
		{339, 0, 40, false}, // thirty more would not fit
		{100_000, 1000, 125, true},
		{100_000, 1000, 126, false},
		{100_000, 340, 40, true},
		{100_000, 339, 40, false},
		{1000, 0, 5, true}, // it has more already
	} {
		st := storetest.New(t).Open()
		l, _ := start(t, st, billing.Config{})
		a := storetest.Account(t, st, c.granted)
		if c.budget > 0 {
			budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAccount, Limit: c.budget})
		}
		h, err := l.Hold(context.Background(), caller(a), 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		want := stoa.Credits(10)
		if c.raised {
			want = max(want, c.to)
		}
		if raised := h.Raise(c.to); raised != c.raised || h.Amount() != want {
			t.Errorf("%+v: raised %t to %d", c, raised, h.Amount())
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: c.granted - want, Held: want, Granted: c.granted})
		h.Release()
		wantBalance(t, l, a.ID, stoa.Balance{Available: c.granted, Granted: c.granted})
		if h.Raise(c.to) {
			t.Error("an ended hold was raised")
		}
	}
}
