package billing_test

import (
	"context"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// TestAWishIsHeldOnlyOutOfPlenty holds 10 or a wish: it is at most an eighth of what is free, in the account and in each
// budget, and thirty more calls still fit.
func TestAWishIsHeldOnlyOutOfPlenty(t *testing.T) {
	t.Parallel()
	t.Run("one node", func(t *testing.T) {
		wishes(t, func() (*billing.Ledger, *store.Store) {
			st := storetest.New(t).Open()
			l, _ := start(t, st, billing.Config{})
			return l, st
		})
	})
	t.Run("nodes", func(t *testing.T) {
		list, stores := nodes(t, 2, false)
		wishes(t, func() (*billing.Ledger, *store.Store) { return list[0], stores[0] })
	})
}

func wishes(t *testing.T, open func() (*billing.Ledger, *store.Store)) {
	for _, c := range []struct {
		granted, budget, wish stoa.Credits
		held                  bool
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
		{1000, 1000, 126, false},
		{1000, 100_000, 126, false}, // of the account; the budget would have it
		{1000, 0, 5, false},         // it has more already
	} {
		l, st := open()
		a := storetest.Account(t, st, c.granted)
		if c.budget > 0 {
			budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAccount, Limit: c.budget})
		}
		first, err := l.Hold(context.Background(), caller(a), 1, 10) // so that there is a lease, which lacks the second wish
		if err != nil {
			t.Fatal(err)
		}
		first.Release()
		want := stoa.Credits(10)
		if c.held {
			want = c.wish
		}
		for range 2 {
			h, err := l.HoldFor(context.Background(), caller(a), billing.Source{}, 1, 10, c.wish)
			if err != nil {
				t.Fatal(err)
			}
			if h.Amount() != want {
				t.Errorf("%+v: %d held", c, h.Amount())
			}
			wantBalance(t, l, a.ID, stoa.Balance{Available: c.granted - want, Held: want, Granted: c.granted})
			h.Release()
			wantBalance(t, l, a.ID, stoa.Balance{Available: c.granted, Granted: c.granted})
		}
	}
}
