package billing_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// start runs a ledger over the store; stop ends it and returns the error of Run.
func start(t testing.TB, st *store.Store, cfg billing.Config) (l *billing.Ledger, stop func() error) {
	t.Helper()
	l = billing.New(st, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return l, stop
}

func caller(a stoa.Account) stoa.Caller {
	return stoa.Caller{Account: a, Key: stoa.Key{ID: "key_1", AccountID: a.ID}}
}

// charge returns a charge of amount output tokens at one micro-credit each.
func charge(id string, amount stoa.Credits) stoa.Charge {
	return stoa.Charge{
		ID: id, Asked: "auto", Served: "beta-3.8-flash", Reason: "auto", Provider: "sandbox",
		Usage: stoa.Usage{OutputTokens: int64(amount)}, Price: stoa.Price{Input: 1, CachedInput: 1, Output: stoa.Credit, Version: "test"},
		Amount: amount, State: "completed", StartedAt: time.Now(), FirstToken: 1500 * time.Microsecond, Duration: time.Second,
	}
}

func wantBalance(t testing.TB, l *billing.Ledger, account string, want stoa.Balance) {
	t.Helper()
	got, err := l.Balance(context.Background(), account)
	if err != nil {
		t.Fatalf("balance: %v", err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("balance (-want +got):\n%s", d)
	}
}

func wantBooksInOrder(t testing.TB, l *billing.Ledger) {
	t.Helper()
	diffs, err := l.Verify(context.Background())
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	for _, d := range diffs {
		t.Errorf("the books are wrong: %v", d)
	}
}

func TestCallIsHeldThenCharged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, stop := start(t, st, billing.Config{})
		a := storetest.Account(t, st, 1000)
		ctx := context.Background()

		h, err := l.Hold(ctx, caller(a), 10, 300)
		if err != nil {
			t.Fatal(err)
		}
		if h.Amount() != 300 {
			t.Errorf("held %d, want 300", h.Amount())
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 700, Held: 300, Granted: 1000})

		in := charge("resp_1", 120)
		out, err := h.Settle(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		want := in
		want.AccountID, want.KeyID, want.StartedAt = a.ID, "key_1", in.StartedAt.UTC().Truncate(time.Microsecond)
		if d := cmp.Diff(want, out); d != "" {
			t.Errorf("charge (-want +got):\n%s", d)
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 880, Granted: 1000, Spent: 120})

		var r store.Receipt
		if err := st.Read(ctx, func(tx *store.Tx) (err error) {
			r, err = tx.Books().Receipt(ctx, a.ID, "resp_1")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, r.Charge); d != "" {
			t.Errorf("receipt (-want +got):\n%s", d)
		}
		if _, err := h.Settle(ctx, in); err == nil {
			t.Error("a settled hold was settled again")
		}
		h.Release()
		wantBalance(t, l, a.ID, stoa.Balance{Available: 880, Granted: 1000, Spent: 120})
		if err := stop(); err != nil {
			t.Errorf("run ended with %v", err)
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 880, Granted: 1000, Spent: 120})
		wantBooksInOrder(t, l)
	})
}

func TestRepeatedChargeIsTheFirstOne(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		a := storetest.Account(t, st, 1000)
		ctx := context.Background()
		settle := func(amount stoa.Credits, also ...func(context.Context, *store.Tx) error) stoa.Charge {
			t.Helper()
			h, err := l.Hold(ctx, caller(a), 1, 200)
			if err != nil {
				t.Fatal(err)
			}
			c, err := h.Settle(ctx, charge("ses_1.1.1", amount), also...)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := settle(120)
		if d := cmp.Diff(first, settle(50)); d != "" {
			t.Errorf("plain repeat (-first +second):\n%s", d)
		}
		ran := false
		if d := cmp.Diff(first, settle(50, func(context.Context, *store.Tx) error { ran = true; return nil })); d != "" {
			t.Errorf("repeat with a closure (-first +second):\n%s", d)
		}
		if ran {
			t.Error("the closure of a repeat ran")
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 880, Granted: 1000, Spent: 120})
		wantBooksInOrder(t, l)
	})
}

func TestClosureCommitsWithItsCharge(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		a := storetest.Account(t, st, 1000)
		ctx := context.Background()
		rename := func(name string, fail error) func(context.Context, *store.Tx) error {
			return func(ctx context.Context, tx *store.Tx) error {
				b := a
				b.Name = name
				if err := tx.Books().UpdateAccount(ctx, b); err != nil {
					return err
				}
				return fail
			}
		}
		name := func() string {
			t.Helper()
			var got stoa.Account
			if err := st.Read(ctx, func(tx *store.Tx) (err error) { got, err = tx.Books().Account(ctx, a.ID); return err }); err != nil {
				t.Fatal(err)
			}
			return got.Name
		}
		h, err := l.Hold(ctx, caller(a), 1, 200)
		if err != nil {
			t.Fatal(err)
		}
		boom := errors.New("boom")
		if _, err := h.Settle(ctx, charge("resp_1", 100), rename("lost", boom)); !errors.Is(err, boom) {
			t.Fatalf("got %v, want the closure's error", err)
		}
		if name() != "test" {
			t.Error("a failed closure left its work behind")
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 800, Held: 200, Granted: 1000})
		if _, err := h.Settle(ctx, charge("resp_1", 100), rename("kept", nil)); err != nil {
			t.Fatalf("settle again: %v", err)
		}
		if name() != "kept" {
			t.Error("the closure's work is missing")
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 900, Granted: 1000, Spent: 100})
		wantBooksInOrder(t, l)
	})
}
