package billing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

func TestAWithdrawalTakesWhatIsAvailable(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		ctx := context.Background()
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		a := storetest.Account(t, st, 100)
		if err := call(l, a, "resp_1", 30, 30, 30); err != nil {
			t.Fatal(err)
		}
		h, err := l.Hold(ctx, caller(a), 20, 20)
		if err != nil {
			t.Fatal(err)
		}
		withdraw := func(ref string, n stoa.Credits, also func(context.Context, *store.Tx, stoa.Withdrawal) error) (stoa.Withdrawal, bool, error) {
			return l.Withdraw(ctx, stoa.Withdrawal{AccountID: a.ID, Amount: n, ExternalRef: ref, Kind: stoa.Withdrawn}, true, also)
		}
		boom := errors.New("boom")
		if _, _, err := withdraw("failed", 10, func(context.Context, *store.Tx, stoa.Withdrawal) error { return boom }); !errors.Is(err, boom) {
			t.Errorf("a failing closure: %v", err)
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 50, Held: 20, Granted: 100, Spent: 30})
		w, created, err := withdraw("one", 60, nil)
		if err != nil || !created || w.Taken != 50 || w.Owed() != 10 {
			t.Errorf("%+v, %v, %v", w, created, err)
		}
		wantBalance(t, l, a.ID, stoa.Balance{Held: 20, Granted: 50, Spent: 30, Owed: 10})
		if _, err := l.Hold(ctx, caller(a), 1, 1); stoa.CodeOf(err) != stoa.CodeQuota {
			t.Errorf("another hold: %v", err)
		}
		h.Release()
		for range 2 {
			if again, created, err := withdraw("one", 60, nil); err != nil || created || again != w {
				t.Errorf("again: %+v, %v, %v", again, created, err)
			}
		}
		if _, _, err := withdraw("one", 61, nil); stoa.CodeOf(err) != stoa.CodeConflict {
			t.Errorf("another amount: %v", err)
		}
		for ref, n := range map[string]stoa.Credits{"": 1, "none": 0, "much": billing.MaxGrant + 1} {
			if _, _, err := withdraw(ref, n, nil); stoa.CodeOf(err) != stoa.CodeInvalidValue {
				t.Errorf("%q of %d: %v", ref, n, err)
			}
		}
		if _, _, err := l.Withdraw(ctx, stoa.Withdrawal{AccountID: "acc_none", Amount: 1, ExternalRef: "x"}, true, nil); stoa.CodeOf(err) != stoa.CodeNotFound {
			t.Errorf("of no account: %v", err)
		}
		for _, want := range []stoa.Balance{{Available: 20, Granted: 50, Spent: 30, Owed: 4}, {Available: 22, Granted: 52, Spent: 30}} {
			if _, _, err := l.Grant(ctx, stoa.Grant{AccountID: a.ID, Amount: 6}); err != nil {
				t.Fatal(err)
			}
			wantBalance(t, l, a.ID, want)
		}
		if err := st.Read(ctx, func(tx *store.Tx) error {
			entries, _, err := tx.Books().Entries(ctx, a.ID, store.Page{Limit: 100})
			var sum stoa.Credits
			for _, e := range entries {
				sum += e.Effect
			}
			if sum != 22 {
				t.Errorf("the ledger has %d: %+v", sum, entries)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		wantBooksInOrder(t, l)
	})
}

// TestWithdrawalsOfSeveralNodes withdraws and grants on three nodes whose leases calls use at the same time.
func TestWithdrawalsOfSeveralNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	list, stores := nodes(t, 3, true)
	a := storetest.Account(t, stores[0], 30_000)
	var taken, owed, granted, charged atomic.Int64
	granted.Store(30_000)
	var running sync.WaitGroup
	for i := range 12 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for n := range 30 {
				l := list[random.IntN(len(list))]
				switch {
				case i == 0:
					// Each reference is sent by two nodes, and counts once.
					ref, amount := fmt.Sprint("w", n), stoa.Credits(1+random.IntN(2_000))
					var both sync.WaitGroup
					for k := range 2 {
						both.Go(func() {
							w, created, err := list[k].Withdraw(ctx, stoa.Withdrawal{AccountID: a.ID, Amount: amount, ExternalRef: ref, Kind: stoa.Withdrawn}, true, nil)
							if err != nil && stoa.CodeOf(err) != stoa.CodeOverloaded {
								t.Error(err)
							}
							if err == nil && created {
								taken.Add(int64(w.Taken))
								owed.Add(int64(w.Amount))
							}
						})
					}
					both.Wait()
				case i == 1 && n%3 == 0:
					if _, _, err := l.Grant(ctx, stoa.Grant{AccountID: a.ID, Amount: 1_000}); err != nil {
						t.Error(err)
					}
					granted.Add(1_000)
				default:
					amount := stoa.Credits(1 + random.IntN(100))
					switch err := call(l, a, fmt.Sprintf("resp_%d_%d", i, n), amount, amount, amount); stoa.CodeOf(err) {
					case "":
						charged.Add(int64(amount))
					case stoa.CodeQuota, stoa.CodeOverloaded:
					default:
						t.Error(err)
					}
				}
			}
		})
	}
	running.Wait()
	b, err := list[0].Balance(ctx, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	// Everything that was asked for is taken, now or from a later grant, or owed.
	if b.Spent != stoa.Credits(charged.Load()) || b.Granted != stoa.Credits(granted.Load()-owed.Load())+b.Owed || taken.Load() == 0 || b.Available < 0 {
		t.Errorf("%+v; granted %d, charged %d, asked %d, taken %d", b, granted.Load(), charged.Load(), owed.Load(), taken.Load())
	}
	wantBooksInOrder(t, list[0])
}
