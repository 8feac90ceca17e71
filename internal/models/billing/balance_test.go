package billing_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// A balance without holds includes every charge of calls held before it.
func TestNothingIsHeldOnlyWhenAllIsSpent(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := start(t, st, billing.Config{})
	const calls, price = 400, 3
	a := storetest.Account(t, st, calls*price)
	var begun atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range calls {
			h, err := l.Hold(context.Background(), caller(a), price, price)
			if err != nil {
				t.Error(err)
				return
			}
			begun.Add(1)
			if _, err := h.Settle(context.Background(), charge(fmt.Sprint("resp_", i), price)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	looks := 0
	for running := true; running; looks++ {
		select {
		case <-done:
			running = false
		default:
		}
		before := stoa.Credits(begun.Load() * price)
		b, err := l.Balance(context.Background(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if b.Held == 0 && b.Spent < before {
			t.Fatalf("nothing is held, calls for %d were, and %d are spent", before, b.Spent)
		}
		if b.Granted != b.Available+b.Held+b.Spent || b.Available < 0 {
			t.Fatalf("%+v does not add up", b)
		}
	}
	if looks < 10 {
		t.Errorf("only %d looks", looks)
	}
}
