package ratelimit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// taker acquires a turn in a separate goroutine and records that.
func taker(t *testing.T, turns *Turns, ctx context.Context, name string, most int, had chan<- string, end <-chan struct{}) {
	go func() {
		release, err := turns.Acquire(ctx, name, most, most)
		if err != nil {
			had <- name + " left"
			return
		}
		had <- name
		<-end
		release()
	}()
	synctest.Wait() // so that the requests wait in order
}

func TestEachNameHasItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		had, end := make(chan string, 20), make(chan struct{})
		for _, name := range strings.Fields("a a a a a a b b c") {
			taker(t, &turns, t.Context(), name, 2, had, end)
		}
		if len(had) != 2 || turns.taken != 2 {
			t.Errorf("%d have one of two turns", len(had))
		}
		var order []string
		for range 9 {
			order = append(order, <-had)
			end <- struct{}{}
			synctest.Wait()
		}
		if want := strings.Fields("a a a b c a b a a"); !slices.Equal(order, want) {
			t.Errorf("the order was %v, want %v", order, want)
		}
		if turns.taken != 0 || len(turns.names) != 0 || len(turns.waiting) != 0 {
			t.Errorf("left behind: %+v", turns.waiting)
		}
	})
}

func TestWhoLeavesTakesNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		had, end := make(chan string, 20), make(chan struct{})
		gone, leave := context.WithCancel(t.Context())
		taker(t, &turns, t.Context(), "first", 1, had, end)
		taker(t, &turns, gone, "b", 1, had, end)
		taker(t, &turns, t.Context(), "c", 1, had, end)
		taker(t, &turns, gone, "c", 1, had, end)
		leave()
		synctest.Wait()
		end <- struct{}{}
		synctest.Wait()
		end <- struct{}{}
		synctest.Wait()
		var order []string
		for len(had) > 0 {
			order = append(order, <-had)
		}
		slices.Sort(order)
		if want := []string{"b left", "c", "c left", "first"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		// Assigned and cancelled at the same moment: the turn is not lost.
		if _, err := turns.Acquire(t.Context(), "a", 1, 1); err != nil {
			t.Fatal(err)
		}
		gone, leave = context.WithCancel(t.Context())
		taker(t, &turns, gone, "a", 1, had, end)
		turns.mu.Lock()
		leave()
		turns.pass("a")
		turns.mu.Unlock()
		if <-had == "a" {
			end <- struct{}{}
		}
		synctest.Wait()
		if turns.taken != 0 {
			t.Errorf("%d turns are still taken", turns.taken)
		}
	})
}

// TestANameHasAtMostItsShare has one name take its share of the turns for ever: another one
// is served meanwhile, in its turn.
func TestANameHasAtMostItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		var mu sync.Mutex
		var order []string
		ends := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		for _, name := range strings.Fields("a a a a a b b b") {
			go func() {
				release, err := turns.Acquire(t.Context(), name, 4, 2)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				<-ends[name]
				release()
			}()
			synctest.Wait()
		}
		if want := strings.Fields("a a b b"); !slices.Equal(order, want) {
			t.Fatalf("%v have turns, want %v", order, want)
		}
		ends["b"] <- struct{}{}
		synctest.Wait()
		ends["a"] <- struct{}{}
		synctest.Wait()
		if want := strings.Fields("a a b b b a"); !slices.Equal(order, want) || turns.taken != 4 {
			t.Errorf("%v had turns, want %v", order, want)
		}
		close(ends["a"])
		close(ends["b"])
		synctest.Wait()
		if turns.taken != 0 || len(turns.by) != 0 || len(turns.waiting) != 0 {
			t.Errorf("left behind: %+v", turns.by)
		}
	})
}
