package ratelimit

import (
	"cmp"
	"slices"
	"time"
)

// A Count is a node's count of a name that has a limit.
type Count struct {
	Name  string
	Count int64
	Limit int64 // above 0
}

// Nearest returns the counts that are closest to their limits, at most most of them; it may reorder
// the list. A long list is not sorted, because of 100,000 counts, of which 1,000 are requested,
// nearly all are then compared with one other only.
func Nearest(list []Count, most int) []Count {
	if len(list) <= most {
		return list
	}
	// A heap of the closest counts so far; the least close of them is its first.
	nearest := list[:most]
	for i := most/2 - 1; i >= 0; i-- {
		sink(nearest, i)
	}
	for _, c := range list[most:] {
		if most > 0 && nearer(c, nearest[0]) < 0 {
			nearest[0] = c
			sink(nearest, 0)
		}
	}
	slices.SortFunc(nearest, nearer)
	return nearest
}

// nearer is negative if a is closer to its limit than b.
func nearer(a, b Count) int {
	return cmp.Or(cmp.Compare(float64(b.Count)/float64(b.Limit), float64(a.Count)/float64(a.Limit)), cmp.Compare(a.Name, b.Name))
}

// sink moves the count at i down in the heap to its place.
func sink(heap []Count, i int) {
	for {
		far := 2*i + 1
		if far >= len(heap) {
			return
		}
		if far+1 < len(heap) && nearer(heap[far+1], heap[far]) > 0 {
			far++
		}
		if nearer(heap[i], heap[far]) >= 0 {
			return
		}
		heap[i], heap[far] = heap[far], heap[i]
		i = far
	}
}

// Sum adds up the counts of all nodes, by name.
func Sum(byNode map[string]map[string]int64) map[string]int64 {
	sum := map[string]int64{}
	for _, counts := range byNode {
		for name, n := range counts {
			if n > 0 {
				sum[name] += n
			}
		}
	}
	return sum
}

// Counts returns the requests of the last 60 seconds by name: at most most names, those
// closest to their limits.
func (r *Rates) Counts(now time.Time, most int) []Count {
	second := now.Unix()
	var list []Count
	r.mu.Lock()
	for name, q := range r.rates {
		if q.advance(second); q.sum > 0 {
			list = append(list, Count{name, int64(q.sum), int64(q.limit)})
		}
	}
	r.mu.Unlock()
	return Nearest(list, most)
}

// SetPeers sets the counts of other nodes, by node: from now on they count against the limits
// too.
func (r *Rates) SetPeers(byNode map[string]map[string]int64) {
	sum := Sum(byNode)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers = sum
}

// Counts returns the slots in use by name: at most most names that have a limit, those
// closest to it.
func (s *Slots) Counts(_ time.Time, most int) []Count {
	var list []Count
	s.mu.Lock()
	for name, t := range s.taken {
		if t.most > 0 {
			list = append(list, Count{name, int64(t.taken), int64(t.most)})
		}
	}
	s.mu.Unlock()
	return Nearest(list, most)
}

// SetPeers sets the numbers of slots in use on other nodes, by node: from now on they count
// against the limits too.
func (s *Slots) SetPeers(byNode map[string]map[string]int64) {
	sum := Sum(byNode)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = sum
}
