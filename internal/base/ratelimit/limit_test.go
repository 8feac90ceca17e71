package ratelimit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1_800_000_000, 0)

func TestARequestBeyondTheRateWaits(t *testing.T) {
	t.Parallel()
	var r Rates
	for i := range 5 {
		if _, ok := r.Allow("k", 5, start.Add(time.Duration(i)*time.Second)); !ok {
			t.Fatalf("request %d is refused", i)
		}
	}
	wait, ok := r.Allow("k", 5, start.Add(10*time.Second))
	if ok || wait != 50*time.Second {
		t.Fatalf("the sixth: ok %v, wait %v, want a wait of 50 s", ok, wait)
	}
	if _, ok := r.Allow("other", 5, start.Add(10*time.Second)); !ok {
		t.Error("another key is slowed")
	}
	if _, ok := r.Allow("k", 5, start.Add(10*time.Second).Add(wait)); !ok {
		t.Error("after the wait it is still refused")
	}
	if _, ok := r.Allow("k", 0, start.Add(10*time.Second)); !ok {
		t.Error("no limit refuses")
	}
}

// No window of sixty seconds ever exceeds the limit, and the returned wait is sufficient and
// not a second too long.
func TestNoWindowHoldsMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r Rates
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		now := start
		var taken []int64
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pause")) * time.Second)
			wait, ok := r.Allow("k", limit, now)
			inWindow := func(at int64) (n int) {
				for _, s := range taken {
					if s > at-window {
						n++
					}
				}
				return n
			}
			if want := inWindow(now.Unix()) < limit; ok != want {
				t.Fatalf("at %d with %v taken: ok is %v", now.Unix(), taken, ok)
			}
			if ok {
				taken = append(taken, now.Unix())
				continue
			}
			free := now.Unix() + int64(wait/time.Second)
			if inWindow(free) >= limit || inWindow(free-1) < limit {
				t.Fatalf("at %d with %v taken: a wait of %v is wrong", now.Unix(), taken, wait)
			}
		}
	})
}

func TestIdleNamesAreDropped(t *testing.T) {
	t.Parallel()
	var r Rates
	r.Allow("a", 1, start)
	r.Allow("b", 1, start.Add(2*window*time.Second))
	if len(r.rates) != 1 {
		t.Errorf("%d names are kept", len(r.rates))
	}
}

func TestSlotsAreFreed(t *testing.T) {
	t.Parallel()
	var s Slots
	for i, want := range []bool{true, true, false} {
		if got := s.Enter("k", 2); got != want {
			t.Fatalf("entry %d of two slots: %v", i+1, got)
		}
	}
	if !s.Enter("other", 2) {
		t.Error("another name is slowed")
	}
	s.Leave("k")
	if !s.Enter("k", 2) {
		t.Error("a freed slot is not free")
	}
	s.Leave("k")
	s.Leave("k")
	s.Leave("other")
	if len(s.taken) != 0 {
		t.Errorf("%v is still counted", s.taken)
	}
}

func BenchmarkTake(b *testing.B) {
	var r Rates
	now := start
	for b.Loop() {
		now = now.Add(time.Millisecond)
		r.Allow("k", 1_000_000, now)
	}
}
