package ratelimit_test

import (
	"testing"
	"time"

	"stoa/internal/ratelimit"
)

func byNode(counts map[string]int64) map[string]map[string]int64 {
	return map[string]map[string]int64{"node_b": counts, "node_c": {"other": 9}}
}

func TestRequestsOfPeersCount(t *testing.T) {
	var r ratelimit.Rates
	now := time.Unix(1_000_000, 0)
	for i := range 3 {
		if _, ok := r.Take("key", 10, now); !ok {
			t.Fatalf("request %d was refused", i)
		}
	}
	r.SetPeers(byNode(map[string]int64{"key": 6}))
	if _, ok := r.Take("key", 10, now); !ok {
		t.Error("the tenth request was refused")
	}
	wait, ok := r.Take("key", 10, now)
	if ok || wait != 6*time.Second {
		t.Errorf("the eleventh: %v after %v, want a refusal for 6 s", ok, wait)
	}
	if _, ok := r.Take("key", 0, now); !ok {
		t.Error("a request without a limit was refused")
	}
	if counts := r.Counts(now, 10); len(counts) != 1 || counts[0] != (ratelimit.Count{Name: "key", Count: 4, Limit: 10}) {
		t.Errorf("counted %+v", counts)
	}
	r.SetPeers(nil)
	if _, ok := r.Take("key", 10, now); !ok {
		t.Error("without peers the request was refused")
	}
	if counts := r.Counts(now.Add(time.Minute), 10); len(counts) != 0 {
		t.Errorf("a minute later %+v are counted", counts)
	}
}

func TestNamesThatAreCountedAreForgotten(t *testing.T) {
	var r ratelimit.Rates
	now := time.Unix(1_000_000, 0)
	r.Take("old", 10, now)
	for range 130 { // an exchange each second looks at all names
		now = now.Add(time.Second)
		r.Counts(now, 10)
	}
	r.Take("new", 10, now)
	if n := r.Len(); n != 1 {
		t.Errorf("%d names are kept, want 1", n)
	}
}

func TestSlotsOfPeersCount(t *testing.T) {
	var s ratelimit.Slots
	s.SetPeers(byNode(map[string]int64{"key": 2}))
	if !s.Enter("key", 3) {
		t.Error("the third call was refused")
	}
	if s.Enter("key", 3) {
		t.Error("a fourth call was let in")
	}
	if !s.Enter("free", 0) {
		t.Error("a call without a limit was refused")
	}
	if counts := s.Counts(time.Time{}, 10); len(counts) != 1 || counts[0] != (ratelimit.Count{Name: "key", Count: 1, Limit: 3}) {
		t.Errorf("counted %+v", counts)
	}
	s.SetPeers(nil)
	if !s.Enter("key", 3) {
		t.Error("without peers the call was refused")
	}
}

func TestTheNearestToTheirLimitsAreTold(t *testing.T) {
	got := ratelimit.Nearest([]ratelimit.Count{{"a", 50, 100}, {"b", 9, 10}, {"c", 1, 10}, {"d", 100, 1000}}, 2)
	if len(got) != 2 || got[0].Name != "b" || got[1].Name != "a" {
		t.Errorf("told %+v", got)
	}
}
