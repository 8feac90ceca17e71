package billing_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// forever is longer than any test.
const forever = time.Hour

// nodes returns n ledgers of one PostgreSQL database, as of different processes. With hints
// each receives the hints of the others; otherwise all are lost.
func nodes(t *testing.T, n int, hints bool) (list []*billing.Ledger, stores []*store.Store) {
	t.Helper()
	database := storetest.Postgres(t)
	for range n {
		st := database.Open()
		l, _ := start(t, st, billing.Config{Shared: true})
		l.SetTimeout(forever)
		list, stores = append(list, l), append(stores, st)
		if !hints {
			continue
		}
		ctx, stop := context.WithCancel(context.Background())
		ended, listening := make(chan struct{}), make(chan struct{}, 1)
		st.OnListening(func() { listening <- struct{}{} })
		go func() {
			defer close(ended)
			if err := st.Listen(ctx, ""); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { stop(); <-ended })
		<-listening
	}
	return list, stores
}

// A node does not know a lease whose commit broke; the lease is nevertheless returned when
// another node requests it, and the account continues to work on both.
func TestAnUnknownLeaseIsReturned(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, true)
	a := storetest.Account(t, stores[0], 300)
	if err := stores[0].Write(context.Background(), func(tx *store.Tx) error {
		_, _, err := tx.Books().LeaseMore(context.Background(), a.ID, stores[0].Node(), 300, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := call(list[(i+1)%2], a, fmt.Sprintf("resp_%d", i), 50, 50, 50); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	wantSpent(t, list[0], a.ID, 300, 200)
}

// call holds and charges on a node.
func call(l *billing.Ledger, a stoa.Account, id string, least, most, amount stoa.Credits) error {
	h, err := l.Hold(context.Background(), caller(a), least, most)
	if err != nil {
		return err
	}
	_, err = h.Settle(context.Background(), charge(id, amount))
	return err
}

func wantSpent(t *testing.T, l *billing.Ledger, account string, granted, spent stoa.Credits) {
	t.Helper()
	wantBalance(t, l, account, stoa.Balance{Available: granted - spent, Granted: granted, Spent: spent})
	wantBooksInOrder(t, l)
}

func TestNodesShareTheLastCredits(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 3, true)
	one, two := storetest.Account(t, stores[0], 307), storetest.Account(t, stores[1], 305)
	for i := range 30 {
		for j, a := range []stoa.Account{one, two} {
			if err := call(list[(i+j)%3], a, fmt.Sprintf("resp_%d_%d", i, j), 10, 50, 10); err != nil {
				t.Fatalf("call %d of account %d was refused with %d left: %v", i, j, 300-10*i, err)
			}
		}
	}
	for i, l := range list {
		if err := call(l, one, "resp_more", 10, 50, 10); stoa.CodeOf(err) != stoa.CodeQuota {
			t.Errorf("node %d, beyond the credits: %v", i, err)
		}
	}
	wantSpent(t, list[0], one.ID, 307, 300)
	wantSpent(t, list[1], two.ID, 305, 300)
}

func TestFiveCreditsServeFiveOfManyCallers(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 3, true)
	a := storetest.Account(t, stores[0], 50)
	var served, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			err := call(list[i%3], a, fmt.Sprintf("resp_%d", i), 10, 10, 10)
			switch stoa.CodeOf(err) {
			case "":
				served.Add(1)
			case stoa.CodeQuota:
				refused.Add(1)
			default:
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if served.Load() != 5 || refused.Load() != 195 {
		t.Errorf("%d were served and %d refused, want 5 and 195", served.Load(), refused.Load())
	}
	wantSpent(t, list[0], a.ID, 50, 50)
}

func TestLostHintsRefuseNobody(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, false)
	a := storetest.Account(t, stores[0], 30)
	if err := call(list[0], a, "resp_1", 10, 30, 10); err != nil { // leases the whole balance
		t.Fatal(err)
	}
	if err := callSwept(t, list[1], list[0], a, "resp_2", 20); err != nil {
		t.Errorf("the call was refused: %v", err)
	}
	wantSpent(t, list[0], a.ID, 30, 30)
}

// callSwept makes a call on a node while another one repeatedly sweeps.
func callSwept(t *testing.T, l, other *billing.Ledger, a stoa.Account, id string, amount stoa.Credits) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- call(l, a, id, amount, amount, amount) }()
	for {
		select {
		case err := <-result:
			return err
		default:
			if err := other.Sweep(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestASilentNodeIsNoReasonForRefusal(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, false)
	a := storetest.Account(t, stores[0], 30)
	if err := call(list[0], a, "resp_1", 10, 30, 10); err != nil {
		t.Fatal(err)
	}
	list[1].SetTimeout(0)
	err := call(list[1], a, "resp_2", 20, 20, 20)
	if e, ok := errors.AsType[*stoa.Error](err); !ok || e.Code != stoa.CodeOverloaded || e.RetryAfter == 0 {
		t.Errorf("while the other node has credits and is silent: %v", err)
	}
	// Credits covered by a hold are not a reason to try again.
	if _, err := list[0].Hold(context.Background(), caller(a), 15, 15); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(forever)
	list[1].SetNow(func() time.Time { return now })
	list[1].SetTimeout(forever)
	if err := callSwept(t, list[1], list[0], a, "resp_3", 10); stoa.CodeOf(err) != stoa.CodeQuota {
		t.Errorf("with a hold over the rest: %v", err)
	}
}

func TestALeaseGrowsWithTheRate(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	extended := 0
	now := time.Now()
	st := database.Open()
	a := storetest.Account(t, st, stoa.Credit)
	l := billing.New(st, billing.Config{Shared: true})
	l.SetNow(func() time.Time { return now })
	ctx := context.Background()
	var leased stoa.Credits
	for i := range 10_000 { // 10 s of 1,000 calls a second
		h, err := l.Hold(ctx, caller(a), 5, 20)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Leased(a.ID); got != leased {
			if leased = got; i >= 5000 {
				extended++
			}
			if got > stoa.Credit/2 {
				t.Fatalf("%d of %d are leased after %d calls", got, stoa.Credit, i)
			}
		}
		if i%2 == 0 { // every other one is never settled, which counts as spending too
			h.Release()
		}
		now = now.Add(time.Millisecond)
	}
	if extended == 0 || extended > 6 {
		t.Errorf("the lease was extended %d times in the last 5 s, want about once a second", extended)
	}
}

func TestAnIdleLeaseIsReturned(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, false)
	a := storetest.Account(t, stores[0], 100)
	ctx := context.Background()
	h, err := list[0].Hold(ctx, caller(a), 40, 40)
	if err != nil {
		t.Fatal(err)
	}
	if err := call(list[0], a, "resp_1", 20, 60, 20); err != nil {
		t.Fatal(err)
	}
	if got := list[0].Leased(a.ID); got != 80 {
		t.Fatalf("%d are leased, want 80", got)
	}
	for range 20 { // the ledger sweeps by itself too
		if err := list[0].Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := list[0].Leased(a.ID); got != 40 {
		t.Errorf("%d are leased beside a hold of 40", got)
	}
	h.Release()
	wantSpent(t, list[1], a.ID, 100, 20)
}

func TestAGrantElsewhereIsUsableWithinASecond(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, false)
	a := storetest.Account(t, stores[0], 5)
	now := time.Now()
	list[0].SetNow(func() time.Time { return now })
	if err := call(list[0], a, "resp_1", 10, 10, 10); stoa.CodeOf(err) != stoa.CodeQuota {
		t.Fatalf("beyond the credits: %v", err)
	}
	if _, _, err := list[1].Grant(context.Background(), stoa.Grant{AccountID: a.ID, Amount: 100}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	if err := call(list[0], a, "resp_1", 10, 10, 10); err != nil {
		t.Errorf("a second after the grant: %v", err)
	}
	wantSpent(t, list[0], a.ID, 105, 10)
}

func TestWhoWasRefusedIsToldOfFreeCredits(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, true)
	a := storetest.Account(t, stores[0], 30)
	now := time.Now()
	list[1].SetNow(func() time.Time { return now }) // only a hint can end a refusal
	h, err := list[0].Hold(context.Background(), caller(a), 30, 30)
	if err != nil {
		t.Fatal(err)
	}
	if err := call(list[1], a, "resp_1", 10, 10, 10); stoa.CodeOf(err) != stoa.CodeQuota {
		t.Fatalf("while all is held: %v", err)
	}
	// The hints of that refusal have arrived once a later one has arrived.
	if err := call(list[0], a, "resp_0", 10, 10, 10); stoa.CodeOf(err) != stoa.CodeQuota {
		t.Fatalf("while all is held, where it is held: %v", err)
	}
	told := make(chan string, 1)
	stores[1].OnHint(cluster.HintKeys, func(text string) { told <- text })
	for range 2 {
		stores[0].Hint(cluster.HintKeys, "", "")
		<-told
	}
	if err := call(list[1], a, "resp_1", 10, 10, 10); stoa.CodeOf(err) != stoa.CodeQuota {
		t.Fatalf("while all is still held: %v", err)
	}
	h.Release()
	for {
		err := call(list[1], a, "resp_1", 10, 10, 10)
		if err == nil {
			return
		}
		if stoa.CodeOf(err) != stoa.CodeQuota {
			t.Fatal(err)
		}
	}
}

func TestAChargeAboveItsHoldIsAskedFor(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, true)
	a := storetest.Account(t, stores[0], 100)
	if err := call(list[0], a, "resp_1", 10, 80, 10); err != nil {
		t.Fatal(err)
	}
	if err := call(list[1], a, "resp_2", 10, 20, 90); err != nil {
		t.Fatal(err)
	}
	wantSpent(t, list[0], a.ID, 100, 100)
}

func TestADailyLimitIsShared(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 3, false)
	a := storetest.Account(t, stores[0], 1000)
	c := caller(a)
	c.Key.MaxCreditsPerDay = 100
	ctx := context.Background()
	spend := func(node int, id string, amount stoa.Credits) {
		t.Helper()
		h, err := list[node].Hold(ctx, c, amount, amount)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Settle(ctx, charge(id, amount)); err != nil {
			t.Fatal(err)
		}
	}
	left := func(node int, want stoa.Credits) {
		t.Helper()
		h, err := list[node].Hold(ctx, c, 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Release()
		if h.Amount() != want {
			t.Errorf("node %d may spend %d, want %d", node, h.Amount(), want)
		}
	}
	spend(0, "resp_1", 20)
	left(1, 80)
	spend(2, "resp_2", 30)
	spend(0, "resp_3", 5)
	left(1, 45)
	left(0, 45)
	h, err := list[2].Hold(ctx, c, 40, 40)
	if err != nil {
		t.Fatal(err)
	}
	left(0, 5)
	h.Release()
	spend(2, "resp_4", 10)
	left(0, 35)
	left(1, 35)
}

// A hold that waits for a connection of the pool until its time is over can be tried again.
func TestABusyPoolIsNoInternalError(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 1, false)
	a := storetest.Account(t, stores[0], 30)
	if err := call(list[0], a, "resp_1", 1, 1, 1); err != nil { // the account is known, with a small lease
		t.Fatal(err)
	}
	release := make(chan struct{})
	var holding, held sync.WaitGroup
	for range db.DefaultConnections {
		held.Add(1)
		holding.Go(func() {
			if err := stores[0].Read(context.Background(), func(*store.Tx) error { held.Done(); <-release; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	held.Wait()
	_, err := list[0].Hold(context.Background(), caller(a), 25, 25)
	close(release)
	holding.Wait()
	if e, ok := errors.AsType[*stoa.Error](err); !ok || e.Code != stoa.CodeOverloaded || e.RetryAfter == 0 {
		t.Errorf("without a connection: %v", err)
	}
	if _, err := list[0].Hold(context.Background(), caller(a), 25, 25); err != nil {
		t.Errorf("with one: %v", err)
	}
}
