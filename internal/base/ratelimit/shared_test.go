package ratelimit_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stoa/internal/base/ratelimit"
)

func byNode(counts map[string]int64) map[string]map[string]int64 {
	return map[string]map[string]int64{"node_b": counts, "node_c": {"other": 9}}
}

func TestRequestsOfPeersCount(t *testing.T) {
	t.Parallel()
	var r ratelimit.Rates
	now := time.Unix(1_000_000, 0)
	for i := range 3 {
		if _, ok := r.Allow("key", 10, now); !ok {
			t.Fatalf("request %d was refused", i)
		}
	}
	r.SetPeers(byNode(map[string]int64{"key": 6}))
	if _, ok := r.Allow("key", 10, now); !ok {
		t.Error("the tenth request was refused")
	}
	wait, ok := r.Allow("key", 10, now)
	if ok || wait != 6*time.Second {
		t.Errorf("the eleventh: %v after %v, want a refusal for 6 s", ok, wait)
	}
	if _, ok := r.Allow("key", 0, now); !ok {
		t.Error("a request without a limit was refused")
	}
	if counts := r.Counts(now, 10); len(counts) != 1 || counts[0] != (ratelimit.Count{Name: "key", Count: 4, Limit: 10}) {
		t.Errorf("counted %+v", counts)
	}
	r.SetPeers(nil)
	if _, ok := r.Allow("key", 10, now); !ok {
		t.Error("without peers the request was refused")
	}
	if counts := r.Counts(now.Add(time.Minute), 10); len(counts) != 0 {
		t.Errorf("a minute later %+v are counted", counts)
	}
}

func TestNamesThatAreCountedAreForgotten(t *testing.T) {
	t.Parallel()
	var r ratelimit.Rates
	now := time.Unix(1_000_000, 0)
	r.Allow("old", 10, now)
	for range 130 { // an exchange each second reads all names
		now = now.Add(time.Second)
		r.Counts(now, 10)
	}
	r.Allow("new", 10, now)
	if n := r.Len(); n != 1 {
		t.Errorf("%d names are kept, want 1", n)
	}
}

func TestSlotsOfPeersCount(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	got := ratelimit.Nearest([]ratelimit.Count{{"a", 50, 100}, {"b", 9, 10}, {"c", 1, 10}, {"d", 100, 1000}}, 2)
	if len(got) != 2 || got[0].Name != "b" || got[1].Name != "a" {
		t.Errorf("told %+v", got)
	}
}

func TestNearestAreTheFirstOfASortedList(t *testing.T) {
	t.Parallel()
	for range 200 {
		list := make([]ratelimit.Count, rand.N(200))
		for i := range list {
			list[i] = ratelimit.Count{Name: fmt.Sprintf("key_%03d", i), Count: rand.N[int64](8), Limit: 1 + rand.N[int64](8)}
		}
		want := slices.Clone(list)
		slices.SortFunc(want, func(a, b ratelimit.Count) int {
			return cmp.Or(cmp.Compare(b.Count*a.Limit, a.Count*b.Limit), cmp.Compare(a.Name, b.Name))
		})
		most := rand.N(100)
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		got := ratelimit.Nearest(list, most)
		if len(want) <= most { // all, in any order
			slices.SortFunc(got, func(a, b ratelimit.Count) int { return cmp.Compare(a.Name, b.Name) })
			slices.SortFunc(want, func(a, b ratelimit.Count) int { return cmp.Compare(a.Name, b.Name) })
		}
		if !slices.Equal(got, want[:min(most, len(want))]) {
			t.Fatalf("%d nearest: %v, want the first of %v", most, got, want)
		}
	}
}

// BenchmarkCounts counts 100,000 names of which 1,000 are requested, as a node that shares
// its database does twice a second.
func BenchmarkCounts(b *testing.B) {
	var r ratelimit.Rates
	now := time.Unix(1_000_000, 0)
	for i := range 100_000 {
		name := fmt.Sprintf("key_%026d", i)
		for range 1 + i%5 {
			r.Allow(name, 10, now)
		}
	}
	for b.Loop() {
		if n := len(r.Counts(now, 1000)); n != 1000 {
			b.Fatal(n)
		}
	}
}
