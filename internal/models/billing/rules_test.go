package billing_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

func TestManyCallersCannotOverspend(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		const price, calls = 40, 5
		a := storetest.Account(t, st, price*calls)
		ctx := context.Background()
		var served, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				h, err := l.Hold(ctx, caller(a), price, price)
				if stoa.CodeOf(err) == stoa.CodeQuota {
					refused.Add(1)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				c, err := h.Settle(ctx, charge(fmt.Sprint("resp_", i), price))
				if err != nil || c.Amount != price {
					t.Errorf("charged %d, %v", c.Amount, err)
				}
				served.Add(1)
			})
		}
		wg.Wait()
		if served.Load() != calls || refused.Load() != 200-calls {
			t.Errorf("%d served and %d refused, want 5 and 195", served.Load(), refused.Load())
		}
		wantBalance(t, l, a.ID, stoa.Balance{Granted: 200, Spent: 200})
		wantBooksInOrder(t, l)

		_, err := l.Hold(ctx, caller(a), 1, 1)
		if stoa.CodeOf(err) != stoa.CodeQuota || !strings.Contains(err.Error(), "0.000001 credits, but only 0.00 are available") {
			t.Errorf("empty: %v", err)
		}
		if _, _, err := l.Grant(ctx, stoa.Grant{AccountID: a.ID, Amount: 7}); err != nil {
			t.Fatal(err)
		}
		h, err := l.Hold(ctx, caller(a), 1, 100)
		if err != nil {
			t.Fatalf("after a top-up: %v", err)
		}
		if h.Amount() != 7 {
			t.Errorf("held %d, want all 7", h.Amount())
		}
		h.Release()
		h.Release()
		if _, err := h.Settle(ctx, charge("resp_x", 1)); err == nil {
			t.Error("settled after the release")
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 7, Granted: 207, Spent: 200})
	})
}

func TestAmountAboveTheHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		granted, held, others, amount stoa.Credits
		wantAmount, wantOff           stoa.Credits
	}{
		"less than the hold":                {100, 50, 0, 30, 30, 0},
		"all of the hold":                   {100, 50, 0, 50, 50, 0},
		"the rest is available":             {100, 50, 0, 80, 80, 0},
		"all that is available":             {100, 50, 0, 100, 100, 0},
		"more than there is":                {100, 50, 0, 130, 100, 30},
		"the rest belongs to another's":     {100, 50, 30, 90, 70, 20},
		"nothing was held and nothing left": {10, 0, 10, 5, 0, 5},
		"an absurd amount":                  {100, 50, 0, 1 << 40, 100, 1<<40 - 100},
	} {
		t.Run(name, func(t *testing.T) {
			st := storetest.New(t).Open()
			l, _ := start(t, st, billing.Config{})
			a := storetest.Account(t, st, c.granted)
			ctx := context.Background()
			h, err := l.Hold(ctx, caller(a), 0, c.held)
			if err != nil {
				t.Fatal(err)
			}
			other, err := l.Hold(ctx, caller(a), 0, c.others)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Settle(ctx, charge("resp_1", c.amount))
			if err != nil {
				t.Fatal(err)
			}
			if got.Amount != c.wantAmount || got.WrittenOff != c.wantOff || got.Clamped != (c.wantOff > 0) {
				t.Errorf("charged %d, wrote off %d, clamped %v; want %d and %d", got.Amount, got.WrittenOff, got.Clamped, c.wantAmount, c.wantOff)
			}
			other.Release()
			wantBalance(t, l, a.ID, stoa.Balance{Available: c.granted - c.wantAmount, Granted: c.granted, Spent: c.wantAmount})
			if c.amount < stoa.MaxTokens {
				wantBooksInOrder(t, l)
			}
		})
	}
}

func TestKeyKeepsItsDailyLimit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, stop := start(t, st, billing.Config{})
		a := storetest.Account(t, st, 1000)
		c := caller(a)
		c.Key.MaxCreditsPerDay = 100
		ctx := context.Background()
		call := func(l *billing.Ledger, id string, held, amount stoa.Credits) {
			t.Helper()
			h, err := l.Hold(ctx, c, 1, held)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Settle(ctx, charge(id, amount)); err != nil {
				t.Fatal(err)
			}
		}
		call(l, "resp_1", 60, 30)
		h, err := l.Hold(ctx, c, 1, 500)
		if err != nil || h.Amount() != 70 {
			t.Fatalf("held %d, want the 70 that the day has left (%v)", h.Amount(), err)
		}
		if _, err := l.Hold(ctx, c, 1, 1); stoa.CodeOf(err) != stoa.CodeKeyBudget {
			t.Errorf("with all of it held: %v", err)
		}
		if other, err := l.Hold(ctx, caller(a), 1, 500); err != nil || other.Amount() != 500 {
			t.Errorf("another limit is not touched: %v", err)
		}
		h.Release()
		call(l, "resp_2", 20, 20)

		stop()
		st.Close()
		st = database.Open()
		l, _ = start(t, st, billing.Config{})
		if h, err = l.Hold(ctx, c, 1, 500); err != nil || h.Amount() != 50 {
			t.Errorf("after a restart held %d, want 50 (%v)", h.Amount(), err)
		}
		h.Release()
		call(l, "resp_3", 50, 50)
		if _, err := l.Hold(ctx, c, 1, 1); stoa.CodeOf(err) != stoa.CodeKeyBudget {
			t.Errorf("with all of it spent: %v", err)
		}
	})
}

func TestGrantWithReferenceIsAddedOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l := billing.New(st, billing.Config{})
		a, b := storetest.Account(t, st, 0), storetest.Account(t, st, 0)
		ctx := context.Background()
		first, created, err := l.Grant(ctx, stoa.Grant{AccountID: a.ID, Amount: 5, ExternalRef: "r"})
		if err != nil || !created {
			t.Fatal(created, err)
		}
		again, created, err := l.Grant(ctx, stoa.Grant{AccountID: a.ID, Amount: 5, ExternalRef: "r"})
		if err != nil || created || again != first {
			t.Errorf("again: %+v, %v, %v", again, created, err)
		}
		for name, c := range map[string]struct {
			grant stoa.Grant
			code  stoa.Code
		}{
			"another amount":   {stoa.Grant{AccountID: a.ID, Amount: 6, ExternalRef: "r"}, stoa.CodeConflict},
			"another account":  {stoa.Grant{AccountID: b.ID, Amount: 5, ExternalRef: "r"}, stoa.CodeConflict},
			"nothing":          {stoa.Grant{AccountID: a.ID}, stoa.CodeInvalidValue},
			"less than that":   {stoa.Grant{AccountID: a.ID, Amount: -1}, stoa.CodeInvalidValue},
			"far too much":     {stoa.Grant{AccountID: a.ID, Amount: billing.MaxGrant + 1}, stoa.CodeInvalidValue},
			"a long reason":    {stoa.Grant{AccountID: a.ID, Amount: 1, Reason: strings.Repeat("é", 501)}, stoa.CodeInvalidValue},
			"a long reference": {stoa.Grant{AccountID: a.ID, Amount: 1, ExternalRef: strings.Repeat("é", 129)}, stoa.CodeInvalidValue},
			"for nobody":       {stoa.Grant{AccountID: "acc_x", Amount: 1}, stoa.CodeNotFound},
			"for nobody, refd": {stoa.Grant{AccountID: "acc_x", Amount: 1, ExternalRef: "s"}, stoa.CodeNotFound},
		} {
			if _, _, err := l.Grant(ctx, c.grant); stoa.CodeOf(err) != c.code {
				t.Errorf("%s: %v, want %s", name, err, c.code)
			}
		}
		if _, err := l.Hold(ctx, caller(stoa.Account{ID: "acc_x"}), 1, 1); stoa.CodeOf(err) != stoa.CodeNotFound {
			t.Errorf("a hold for nobody: %v", err)
		}
		wantBalance(t, l, a.ID, stoa.Balance{Available: 5, Granted: 5})
		wantBooksInOrder(t, l)
	})
}

func TestDisconnectedClientIsCharged(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := start(t, st, billing.Config{})
	a := storetest.Account(t, st, 100)
	ctx, cancel := context.WithCancel(context.Background())
	h, err := l.Hold(ctx, caller(a), 1, 50)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := h.Settle(ctx, charge("resp_1", 20), func(ctx context.Context, tx *store.Tx) error {
		if ctx.Err() != nil {
			t.Error("the closure's context has ended")
		}
		_, err := tx.Books().Account(ctx, a.ID)
		return err
	}); err != nil {
		t.Errorf("settle: %v", err)
	}
	wantBalance(t, l, a.ID, stoa.Balance{Available: 80, Granted: 100, Spent: 20})
}

func TestFullDiskChargesNothing(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the number of pages
	st := storetest.New(t).Open()
	l, _ := start(t, st, billing.Config{})
	a := storetest.Account(t, st, 1000)
	ctx := context.Background()
	h, err := l.Hold(ctx, caller(a), 1, 500)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		if err := st.Write(ctx, func(tx *store.Tx) error {
			return tx.Query(ctx, func(*sql.Rows) error { return nil }, fmt.Sprint("PRAGMA max_page_count = ", pages))
		}); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	big := charge("resp_1", 100)
	big.SessionID = strings.Repeat("x", 100_000) // not a text that is shortened
	if _, err := h.Settle(ctx, big); stoa.CodeOf(err) != stoa.CodeStorageFull {
		t.Fatalf("settle on a full disk: %v", err)
	}
	wantBalance(t, l, a.ID, stoa.Balance{Available: 500, Held: 500, Granted: 1000})
	// A call that could not be charged is not begun.
	if _, err := l.Hold(ctx, caller(a), 1, 10); stoa.CodeOf(err) != stoa.CodeStorageFull {
		t.Errorf("a hold on a full disk: %v", err)
	}
	limit(1 << 30)
	for {
		next, err := l.Hold(ctx, caller(a), 1, 10)
		if err == nil { // after the next probe
			next.Release()
			break
		}
		if stoa.CodeOf(err) != stoa.CodeStorageFull {
			t.Fatalf("a hold with free space: %v", err)
		}
	}
	if _, err := h.Settle(ctx, big); err != nil {
		t.Fatalf("settle with free space: %v", err)
	}
	wantBalance(t, l, a.ID, stoa.Balance{Available: 900, Granted: 1000, Spent: 100})
	wantBooksInOrder(t, l)
}

func TestSettleCutsLongTexts(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := start(t, st, billing.Config{})
	a := storetest.Account(t, st, 1000)
	ctx := context.Background()
	h, err := l.Hold(ctx, caller(a), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	c := charge("resp_1", 10)
	long := strings.Repeat("ä", 100_000)
	c.EndUser, c.Asked, c.Served, c.Provider, c.Reason = long, long, long, long, long
	if _, err := h.Settle(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := st.Read(ctx, func(tx *store.Tx) error {
		r, err := tx.Books().Receipt(ctx, a.ID, "resp_1")
		for _, text := range []string{r.EndUser, r.Asked, r.Served, r.Provider, r.Reason} {
			if text != strings.Repeat("ä", 512) {
				t.Errorf("stored a text of %d bytes, want 512 characters", len(text))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestClosedLeaseChargesExactly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		a, b := storetest.Account(t, st, 100), storetest.Account(t, st, 100)
		ctx := context.Background()
		one, two, three, other := hold(t, l, a, 40), hold(t, l, a, 30), hold(t, l, a, 30), hold(t, l, b, 40)
		write(t, st, func(tx *store.Tx) error { return tx.Books().CloseLeases(context.Background(), st.Node()) })
		var wg sync.WaitGroup
		settle := func(h *billing.Hold, id string, n stoa.Credits, also ...func(context.Context, *store.Tx) error) {
			wg.Go(func() {
				if c, err := h.Settle(ctx, charge(id, n), also...); err != nil || c.Amount != n {
					t.Errorf("%s: charged %d, %v", id, c.Amount, err)
				}
			})
		}
		settle(one, "resp_1", 40)
		settle(two, "resp_2", 30, func(ctx context.Context, tx *store.Tx) error { return nil })
		settle(other, "resp_3", 10)
		wg.Wait()
		if c, err := three.Settle(ctx, charge("resp_4", 60)); err != nil || c.Amount != 30 || !c.Clamped || c.WrittenOff != 30 {
			t.Errorf("past the end: %+v, %v", c, err)
		}
		wantBalance(t, l, a.ID, stoa.Balance{Granted: 100, Spent: 100})
		wantBalance(t, l, b.ID, stoa.Balance{Available: 90, Granted: 100, Spent: 10})
		wantBooksInOrder(t, l)
	})
}

func hold(t *testing.T, l *billing.Ledger, a stoa.Account, n stoa.Credits) *billing.Hold {
	t.Helper()
	h, err := l.Hold(t.Context(), caller(a), n, n)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A node that others have declared dead charges nothing more: its calls fail and are free,
// and another node may spend its leases.
func TestADeadNodeChargesNothing(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = storetest.Still
	st := database.Open()
	l := billing.New(st, billing.Config{})
	go l.Run(context.Background()) // until it finds out that it is dead
	a := storetest.Account(t, st, 100)
	holds := []*billing.Hold{hold(t, l, a, 40), hold(t, l, a, 30), hold(t, l, a, 30)}
	if _, err := holds[0].Settle(t.Context(), charge("resp_0", 40)); err != nil {
		t.Fatal(err)
	}
	database.Expire()
	next := database.Open() // declares the first one dead
	var wg sync.WaitGroup
	for i, h := range holds[1:] {
		wg.Go(func() {
			c, err := h.Settle(t.Context(), charge(fmt.Sprint("resp_", i+1), 30), func(ctx context.Context, tx *store.Tx) error { return nil })
			if stoa.CodeOf(err) != stoa.CodeOverloaded {
				t.Errorf("a dead node charged %d, %v", c.Amount, err)
			}
		})
	}
	wg.Wait()
	<-l.Done()
	other, _ := start(t, next, billing.Config{})
	h := hold(t, other, a, 60)
	if _, err := h.Settle(t.Context(), charge("resp_9", 60)); err != nil {
		t.Error(err)
	}
	wantBalance(t, other, a.ID, stoa.Balance{Granted: 100, Spent: 100})
	wantBooksInOrder(t, other)
}

func write(t *testing.T, st *store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := st.Write(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func TestChargesOfOneBatchFailAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		a, b := storetest.Account(t, st, 100_000), storetest.Account(t, st, 100_000)
		ctx := context.Background()
		boom := errors.New("boom")
		var wg sync.WaitGroup
		var total atomic.Int64
		for i := range 300 {
			wg.Go(func() {
				who := a
				if i%2 == 0 {
					who = b
				}
				h, err := l.Hold(ctx, caller(who), 10, 10)
				if err != nil {
					t.Error(err)
					return
				}
				defer h.Release()
				id := fmt.Sprint("resp_", i)
				switch i % 5 {
				case 0: // an id that two calls share
					id = fmt.Sprint("resp_shared_", i%2, "_", i%3)
					_, err = h.Settle(ctx, charge(id, 3))
				case 1: // a closure that fails
					if _, err = h.Settle(ctx, charge(id, 3), func(context.Context, *store.Tx) error { return boom }); !errors.Is(err, boom) {
						t.Errorf("%s: %v", id, err)
					}
					return
				case 2: // one that panics
					if _, err = h.Settle(ctx, charge(id, 3), func(context.Context, *store.Tx) error { panic("boom") }); err == nil {
						t.Errorf("%s: a panic was taken for success", id)
					}
					return
				case 3:
					_, err = h.Settle(ctx, charge(id, 3), func(ctx context.Context, tx *store.Tx) error { _, err := tx.Books().Account(ctx, a.ID); return err })
					total.Add(3)
				case 4:
					_, err = h.Settle(ctx, charge(id, 7))
					total.Add(7)
				}
				if err != nil {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		wg.Wait()
		ba, err := l.Balance(ctx, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		bb, err := l.Balance(ctx, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		if want := stoa.Credits(total.Load() + 6*3); ba.Spent+bb.Spent != want || ba.Held != 0 || bb.Held != 0 {
			t.Errorf("spent %d, want %d; held %d and %d", ba.Spent+bb.Spent, want, ba.Held, bb.Held)
		}
		wantBooksInOrder(t, l)
	})
}

func TestIDOfAnotherAccountIsRefused(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := start(t, st, billing.Config{})
	a, b := storetest.Account(t, st, 100), storetest.Account(t, st, 100)
	ctx := context.Background()
	for _, c := range []struct {
		who  stoa.Account
		code stoa.Code
	}{{a, ""}, {b, stoa.CodeConflict}} {
		h, err := l.Hold(ctx, caller(c.who), 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Settle(ctx, charge("resp_1", 5)); stoa.CodeOf(err) != c.code {
			t.Errorf("got %v, want %q", err, c.code)
		}
		h.Release()
	}
	// A charge with a closure is written separately from the others.
	h, err := l.Hold(ctx, caller(b), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	_, err = h.Settle(ctx, charge("resp_1", 5), func(context.Context, *store.Tx) error { ran = true; return nil })
	if stoa.CodeOf(err) != stoa.CodeConflict || ran {
		t.Errorf("with a closure: got %v, it ran: %v", err, ran)
	}
	h.Release()
	wantBalance(t, l, b.ID, stoa.Balance{Available: 100, Granted: 100})
	wantBooksInOrder(t, l)
}

func TestRunCommitsTheQueueWhenStopped(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, stop := start(t, st, billing.Config{})
	a := storetest.Account(t, st, 1000)
	ctx := context.Background()
	var wg sync.WaitGroup
	var kept, refused atomic.Int64
	var holds []*billing.Hold
	for range 100 {
		h, err := l.Hold(ctx, caller(a), 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	for i, h := range holds {
		wg.Go(func() {
			if _, err := h.Settle(ctx, charge(fmt.Sprint("resp_", i), 1)); err == nil {
				kept.Add(1)
			} else if stoa.CodeOf(err) == stoa.CodeOverloaded {
				refused.Add(1)
			} else {
				t.Error(err)
			}
		})
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	var f store.Funds
	if err := st.Read(ctx, func(tx *store.Tx) (err error) { f, err = tx.Books().Funds(ctx, a.ID); return err }); err != nil {
		t.Fatal(err)
	}
	if f.Balance != 1000-stoa.Credits(kept.Load()) || f.Leased != 0 || kept.Load()+refused.Load() != 100 {
		t.Errorf("%+v after %d were kept and %d refused", f, kept.Load(), refused.Load())
	}
	if _, err := l.Hold(ctx, caller(a), 1, 1); stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Errorf("a hold after the end: %v", err)
	}
	wantBooksInOrder(t, l)
}

func TestADeadNodeEndsTheLedger(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = storetest.Still
	st := database.Open()
	l := billing.New(st, billing.Config{})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	database.Expire()
	database.Open() // another node, which declares the first one dead
	for range 2 {
		if err := st.Write(context.Background(), func(tx *store.Tx) error {
			_, err := tx.Books().InsertAccount(context.Background(), stoa.Account{Name: "test", Plan: "pro"})
			return err
		}); !errors.Is(err, store.ErrLost) {
			t.Errorf("write: %v", err)
		}
	}
	if err := <-ended; !errors.Is(err, store.ErrLost) {
		t.Errorf("run ended with %v", err)
	}
}

// Charges settled while the node renews its life on a new connection wait for that.
func TestSettleWaitsForTheNode(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	name := strings.ToLower(stoa.NewID("app"))
	database.Config.PostgresURL += "&application_name=" + name
	cut := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '" + name + "-node'"
	st := database.Open()
	l, _ := start(t, st, billing.Config{})
	a := storetest.Account(t, st, 1_000_000)
	ctx := context.Background()
	for round := range 5 {
		var holds []*billing.Hold
		for len(holds) < 20 {
			h, err := l.Hold(ctx, caller(a), 1, 10)
			if stoa.CodeOf(err) == stoa.CodeOverloaded { // the node is not renewed yet
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		for {
			err := st.Write(ctx, func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, cut)
				return err
			})
			if err == nil {
				break
			}
			if stoa.CodeOf(err) != stoa.CodeOverloaded {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for i, h := range holds {
			wg.Go(func() {
				if _, err := h.Settle(ctx, charge(fmt.Sprintf("resp_%d_%d", round, i), 10)); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
	}
	wantBalance(t, l, a.ID, stoa.Balance{Available: 1_000_000 - 1000, Granted: 1_000_000, Spent: 1000})
	wantBooksInOrder(t, l)
}

func TestBooksAreInOrderAtEveryMoment(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		a := storetest.Account(t, st, stoa.Credit)
		ctx := context.Background()
		done := make(chan struct{})
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					h, err := l.Hold(ctx, caller(a), 1, 20)
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := h.Settle(ctx, charge(fmt.Sprint("resp_", worker, "_", n), 1)); err != nil {
						t.Error(err)
					}
					if n%50 == 0 {
						if _, _, err := l.Grant(ctx, stoa.Grant{AccountID: a.ID, Amount: 1000}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		for range 20 {
			wantBooksInOrder(t, l)
			b, err := l.Balance(ctx, a.ID)
			if err != nil || b.Available < 0 || b.Granted != b.Available+b.Held+b.Spent {
				t.Errorf("balance %+v, %v", b, err)
			}
		}
		close(done)
		wg.Wait()
		wantBooksInOrder(t, l)
	})
}

func TestOneBadChargeFailsAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l := billing.New(st, billing.Config{}) // not running yet: what is settled shares one commit
		a := storetest.Account(t, st, 1000)
		ctx := context.Background()
		write(t, st, func(tx *store.Tx) error { // stands for any refusal of a database
			if st.Postgres() {
				_, err := tx.Exec(ctx, "ALTER TABLE charges ADD CONSTRAINT no_poison CHECK (end_user <> 'poison')")
				return err
			}
			_, err := tx.Exec(ctx, "CREATE TRIGGER no_poison BEFORE INSERT ON charges WHEN NEW.end_user = 'poison' BEGIN SELECT RAISE(ABORT, 'poison'); END")
			return err
		})
		var wg sync.WaitGroup
		for i, user := range []string{"fine", "poison", "a\x00b\xff", "fine"} {
			h, err := l.Hold(ctx, caller(a), 1, 10)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer h.Release()
				c := charge(fmt.Sprint("resp_", i), 10)
				c.EndUser = user
				got, err := h.Settle(ctx, c)
				if (err != nil) != (user == "poison") {
					t.Errorf("%q: %v", user, err)
				}
				if user == "a\x00b\xff" && got.EndUser != "a\uFFFDb\uFFFD" {
					t.Errorf("stored %q", got.EndUser)
				}
			})
		}
		run, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- l.Run(run) }()
		wg.Wait()
		wantBalance(t, l, a.ID, stoa.Balance{Available: 970, Granted: 1000, Spent: 30})
		wantBooksInOrder(t, l)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
