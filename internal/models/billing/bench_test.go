package billing_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// cpu returns the CPU time used by this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSettle compares three ways to charge a call, in one run: a separate transaction
// for each call; a transaction for each call that the store commits in groups (one queue);
// and the ledger, which collects charges and writes each group with shared statements (its
// queue in front of the store's). It uses 1, 8 and 64 concurrent callers of 16 accounts.
func BenchmarkSettle(b *testing.B) {
	stores := map[string]func(testing.TB) storetest.Database{
		"sqlite-full": storetest.New,
		"sqlite-process": func(t testing.TB) storetest.Database {
			d := storetest.New(t)
			d.Config.Durability = db.Process
			return d
		},
	}
	if os.Getenv(storetest.Env) != "" {
		stores["postgres"] = storetest.Postgres
	}
	for _, name := range []string{"sqlite-full", "sqlite-process", "postgres"} {
		database := stores[name]
		if database == nil {
			continue
		}
		for _, callers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d/transaction_per_call", name, callers), func(b *testing.B) {
				st := database(b).Open()
				var turn sync.Mutex // otherwise SQLite would group them
				measure(b, st, callers, func(ctx context.Context, lease string, _ stoa.Account, c stoa.Charge) error {
					if !st.Postgres() {
						turn.Lock()
						defer turn.Unlock()
					}
					return writeCharge(ctx, st, lease, c)
				})
			})
			b.Run(fmt.Sprintf("%s/callers=%d/one_queue", name, callers), func(b *testing.B) {
				st := database(b).Open()
				measure(b, st, callers, func(ctx context.Context, lease string, _ stoa.Account, c stoa.Charge) error {
					return writeCharge(ctx, st, lease, c)
				})
			})
			b.Run(fmt.Sprintf("%s/callers=%d/two_queues", name, callers), func(b *testing.B) {
				st := database(b).Open()
				l, _ := start(b, st, billing.Config{})
				measure(b, st, callers, func(ctx context.Context, _ string, a stoa.Account, c stoa.Charge) error {
					h, err := l.Hold(ctx, caller(a), 5, 50)
					if err != nil {
						return err
					}
					_, err = h.Settle(ctx, c)
					return err
				})
				b.StopTimer()
				wantBooksInOrder(b, l)
			})
		}
	}
}

func measure(b *testing.B, st *store.Store, callers int, call func(ctx context.Context, lease string, a stoa.Account, c stoa.Charge) error) {
	ctx := context.Background()
	var accounts []stoa.Account
	var leases []string
	for range 16 {
		a := storetest.Account(b, st, 1_000_000*stoa.Credit)
		accounts = append(accounts, a)
		if err := st.Write(ctx, func(tx *store.Tx) error {
			lease, _, err := tx.Books().Lease(ctx, a.ID, st.Node())
			leases = append(leases, lease.ID)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	began, used := time.Now(), cpu()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for {
				n := left.Add(-1)
				if n < 0 {
					return
				}
				a, c := accounts[i%len(accounts)], charge(fmt.Sprintf("resp_%026d", n), 5)
				c.AccountID = a.ID
				if err := call(ctx, leases[i%len(leases)], a, c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "wall-µs/charge")
	b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "cpu-µs/charge")
	b.ReportMetric(0, "ns/op")
}

// writeCharge charges a call in a separate transaction, with the statements that a ledger
// without a queue would need.
func writeCharge(ctx context.Context, st *store.Store, lease string, c stoa.Charge) error {
	return st.Write(ctx, func(tx *store.Tx) error {
		alive, err := tx.Operations().NodeAlive(ctx, st.Node())
		if err != nil || !alive {
			return fmt.Errorf("alive %v, %w", alive, err)
		}
		if _, err := tx.Books().InsertCharges(ctx, []store.Receipt{{Charge: c, LeaseID: lease, NodeID: st.Node()}}); err != nil {
			return err
		}
		ok, err := tx.Books().SpendLease(ctx, lease, c.Amount)
		if err == nil && !ok {
			err = fmt.Errorf("the lease is too small")
		}
		return err
	})
}

// BenchmarkHold measures a hold and its release, from memory.
func BenchmarkHold(b *testing.B) {
	st := storetest.New(b).Open()
	l, _ := start(b, st, billing.Config{})
	c := caller(storetest.Account(b, st, stoa.Credit))
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		h, err := l.Hold(ctx, c, 1, 1000)
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

// BenchmarkSettleAlone measures the wait of a single caller for the commit, and the cost of
// an unshared charge.
func BenchmarkSettleAlone(b *testing.B) {
	for name, also := range map[string][]func(context.Context, *store.Tx) error{
		"plain": nil,
		"with_a_closure": {func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Operations().NodeAlive(ctx, "none")
			return err
		}},
	} {
		b.Run(name, func(b *testing.B) {
			st := storetest.New(b).Open()
			l, _ := start(b, st, billing.Config{})
			c := caller(storetest.Account(b, st, 1000*stoa.Credit))
			ctx := context.Background()
			n := 0
			for b.Loop() {
				h, err := l.Hold(ctx, c, 5, 50)
				if err != nil {
					b.Fatal(err)
				}
				n++
				if _, err := h.Settle(ctx, charge(fmt.Sprintf("resp_%026d", n), 5), also...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBudgets measures a call, from the hold to its charge, of an account without budgets and
// with three of them.
func BenchmarkBudgets(b *testing.B) {
	for _, budgets := range []int{0, 3} {
		b.Run(fmt.Sprintf("budgets=%d", budgets), func(b *testing.B) {
			st := storetest.New(b).Open()
			l, _ := start(b, st, billing.Config{})
			var accounts []stoa.Account
			for range 16 {
				a := storetest.Account(b, st, 1_000_000*stoa.Credit)
				accounts = append(accounts, a)
				for _, scope := range []stoa.BudgetScope{stoa.BudgetOfAccount, stoa.BudgetOfAgent, stoa.BudgetOfEndUser}[:budgets] {
					each := stoa.EachSubject
					if scope == stoa.BudgetOfAccount {
						each = ""
					}
					if err := st.Write(context.Background(), func(tx *store.Tx) error {
						_, err := tx.Books().InsertBudget(context.Background(), stoa.Budget{
							AccountID: a.ID, Scope: scope, Subject: each, Period: stoa.BudgetMonth, TimeZone: "Europe/Vienna",
							AtCap: stoa.CapShortens, Limit: 1_000_000 * stoa.Credit, NotifyAt: []int{80, 100},
						})
						return err
					}); err != nil {
						b.Fatal(err)
					}
				}
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			used := cpu()
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					for n := left.Add(-1); n >= 0; n = left.Add(-1) {
						of := billing.Source{AgentID: "agt_1", EndUser: fmt.Sprint("user ", n%4)}
						h, err := l.HoldFor(context.Background(), caller(accounts[i]), of, 5, 50, 0)
						if err != nil {
							b.Error(err)
							return
						}
						c := charge(fmt.Sprintf("resp_%026d", n), 5)
						c.AgentID, c.EndUser = of.AgentID, of.EndUser
						if _, err := h.Settle(context.Background(), c); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(b.N)/1000, "cpu-µs/call")
		})
	}
}
