package session_test

import (
	"math"
	"testing"

	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// FuzzCursors reads a session's log, messages and turns after any number: the results follow
// that number, in order, and never exceed the limit.
func FuzzCursors(f *testing.F) {
	h := sessiontest.Build(f, storetest.New(f), nil)
	a, r := h.Agent(), h.Service()
	s := h.Begin(r, a, "hello")
	for _, after := range []int64{0, 1, 3, -1, math.MaxInt64, math.MinInt64} {
		f.Add(after, 2, true)
		f.Add(after, 100, false)
	}
	f.Fuzz(func(t *testing.T, after int64, limit int, desc bool) {
		limit = 1 + (limit%200+200)%200
		events, _, err := r.Log(t.Context(), h.Account.ID, a.ID, s.ID, after, limit)
		if err != nil || len(events) > limit {
			t.Fatalf("%d events, %v", len(events), err)
		}
		for last := after; len(events) > 0; events = events[1:] {
			if events[0].Seq <= last {
				t.Fatalf("event %d comes after %d", events[0].Seq, last)
			}
			last = events[0].Seq
		}
		if list, _, err := r.Messages(t.Context(), h.Account.ID, a.ID, s.ID, after, limit, desc); err != nil || len(list) > limit {
			t.Fatalf("%d messages, %v", len(list), err)
		}
		if list, _, err := r.Turns(t.Context(), h.Account.ID, a.ID, s.ID, after, limit, desc); err != nil || len(list) > limit {
			t.Fatalf("%d turns, %v", len(list), err)
		}
	})
}
