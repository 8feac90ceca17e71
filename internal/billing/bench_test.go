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

	"stoa/internal/billing"
	"stoa/internal/db"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
)

// cpu is what this process has used of the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSettle compares two ways to charge a call, in one run: a transaction
// that takes the amount from the balance and inserts the charge, for each call;
// and a hold in memory with charges committed in groups. 256 callers of 16
// accounts call at once.
func BenchmarkSettle(b *testing.B) {
	homes := map[string]func(testing.TB) storetest.Home{
		"sqlite-full": storetest.New,
		"sqlite-process": func(t testing.TB) storetest.Home {
			h := storetest.New(t)
			h.Config.Durability = db.Process
			return h
		},
	}
	if os.Getenv(storetest.Env) != "" {
		homes["postgres"] = storetest.Postgres
	}
	for _, name := range []string{"sqlite-full", "sqlite-process", "postgres"} {
		home := homes[name]
		if home == nil {
			continue
		}
		b.Run("transaction_per_call/"+name, func(b *testing.B) {
			st := home(b).Open()
			var ids atomic.Int64
			measure(b, st, func(ctx context.Context, a stoa.Account) error {
				c := charge(fmt.Sprintf("resp_%026d", ids.Add(1)), 5)
				return transactionPerCall(ctx, st, a, c)
			})
		})
		b.Run("group_commit/"+name, func(b *testing.B) {
			st := home(b).Open()
			l, _ := start(b, st, billing.Config{})
			var ids atomic.Int64
			measure(b, st, func(ctx context.Context, a stoa.Account) error {
				h, err := l.Hold(ctx, caller(a), 5, 50)
				if err != nil {
					return err
				}
				_, err = h.Settle(ctx, charge(fmt.Sprintf("resp_%026d", ids.Add(1)), 5))
				return err
			})
			b.StopTimer()
			wantBooksInOrder(b, l)
		})
	}
}

func measure(b *testing.B, st *store.Store, call func(context.Context, stoa.Account) error) {
	ctx := context.Background()
	var accounts []stoa.Account
	for range 16 {
		a := storetest.Account(b, st, 1_000_000*stoa.Credit)
		accounts = append(accounts, a)
		if err := st.Write(ctx, func(tx *store.Tx) error {
			_, _, err := tx.Lease(ctx, a.ID, st.Node())
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
	for i := range 256 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(ctx, accounts[i%len(accounts)]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	b.ReportMetric(float64(b.N)/took.Seconds(), "charges/s")
	b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "cpu-µs/charge")
	b.ReportMetric(0, "ns/op")
}

// transactionPerCall is the plain way: each call its own transaction and commit.
// On SQLite the store would group them; one at a time here keeps them apart.
func transactionPerCall(ctx context.Context, st *store.Store, a stoa.Account, c stoa.Charge) error {
	if !st.Postgres() {
		oneAtATime.Lock()
		defer oneAtATime.Unlock()
	}
	return st.Write(ctx, func(tx *store.Tx) error {
		c.AccountID = a.ID
		lease, alive, err := tx.Lease(ctx, a.ID, st.Node())
		if err != nil || !alive {
			return fmt.Errorf("lease: alive %v, %w", alive, err)
		}
		if _, err := tx.InsertCharges(ctx, []store.Receipt{{Charge: c, LeaseID: lease.ID, NodeID: st.Node()}}); err != nil {
			return err
		}
		ok, err := tx.SpendLease(ctx, lease.ID, c.Amount)
		if err == nil && !ok {
			err = fmt.Errorf("the lease is too small")
		}
		return err
	})
}

var oneAtATime sync.Mutex

// BenchmarkHold is a hold and its release, from memory.
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

// BenchmarkSettleAlone is how long a single caller waits for the commit, and
// what a charge costs when nobody shares it.
func BenchmarkSettleAlone(b *testing.B) {
	for name, also := range map[string][]func(context.Context, *store.Tx) error{
		"plain": nil,
		"with_a_closure": {func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.NodeAlive(ctx, "none")
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
