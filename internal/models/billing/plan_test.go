package billing_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// TestIncludedCreditsEndWithTheirMonth renews a plan over three months, on one node and on three.
func TestIncludedCreditsEndWithTheirMonth(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		includedCredits(t, st, func() {}, l)
	})
	t.Run("nodes", func(t *testing.T) {
		list, stores := nodes(t, 3, true)
		var ahead atomic.Int64
		for _, l := range list {
			l.SetNow(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		}
		includedCredits(t, stores[0], func() { ahead.Add(int64(time.Minute)) }, list...)
	})
}

// includedCredits renews plans for some months. pass ends the time in which a node that found no
// credits does not look again: another node may have granted some.
func includedCredits(t *testing.T, st *store.Store, pass func(), list ...*billing.Ledger) {
	ctx := context.Background()
	l := list[0]
	a := storetest.Account(t, st, 50)
	plans := map[string]stoa.Plan{"pro": {ID: "pro", Included: 100}, "free": {ID: "free"}}
	now := time.Now().UTC()
	// renew renews the plans on every node at the same time, twice.
	renew := func(now time.Time) {
		t.Helper()
		var all sync.WaitGroup
		for range 2 {
			for _, l := range list {
				all.Go(func() {
					if err := l.RenewPlans(ctx, plans, now); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		pass()
	}
	renew(now)
	wantBalance(t, l, a.ID, stoa.Balance{Available: 150, Granted: 150})
	if err := call(list[len(list)-1], a, "resp_1", 30, 30, 30); err != nil {
		t.Fatal(err)
	}
	h, err := l.Hold(ctx, caller(a), 90, 90) // of 120, so that only 30 of the unspent 70 are available
	if err != nil {
		t.Fatal(err)
	}
	next := stoa.MonthOf(now).End()
	renew(next)
	h.Release()
	wantBalance(t, l, a.ID, stoa.Balance{Available: 190, Granted: 220, Spent: 30})
	// The whole grant and some more is spent: nothing is withdrawn. What is owed is paid by the next one.
	if err := call(l, a, "resp_2", 130, 130, 130); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Withdraw(ctx, stoa.Withdrawal{AccountID: a.ID, Amount: 80, ExternalRef: "refund", Kind: stoa.Withdrawn}, true, nil); err != nil {
		t.Fatal(err)
	}
	next = stoa.MonthOf(next).End()
	renew(next)
	wantBalance(t, l, a.ID, stoa.Balance{Available: 80, Granted: 240, Spent: 160})
	// The part that paid what was owed is not withdrawn again, and another plan grants nothing.
	if err := st.Write(ctx, func(tx *store.Tx) error { a.Plan = "free"; return tx.Books().UpdateAccount(ctx, a) }); err != nil {
		t.Fatal(err)
	}
	renew(stoa.MonthOf(next).End())
	wantBalance(t, l, a.ID, stoa.Balance{Granted: 160, Spent: 160})
	wantBooksInOrder(t, l)
}
