package ratelimit

import (
	"cmp"
	"slices"
	"time"
)

// A Count is what a node has counted of a name that has a limit.
type Count struct {
	Name  string
	Count int64
	Limit int64 // above 0
}

// Nearest returns the counts that are nearest to their limits, at most most of
// them; it may reorder the list.
func Nearest(list []Count, most int) []Count {
	if len(list) <= most {
		return list
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(float64(b.Count)/float64(b.Limit), float64(a.Count)/float64(a.Limit)), cmp.Compare(a.Name, b.Name))
	})
	return list[:most]
}

// Sum adds up what each node has counted, by name.
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

// Counts returns the requests of the last 60 seconds by name: at most most names,
// those nearest to their limits.
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

// SetPeers sets what other nodes have counted, by node: from now on it counts
// against the limits too.
func (r *Rates) SetPeers(byNode map[string]map[string]int64) {
	sum := Sum(byNode)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers = sum
}

// waitShared returns how long to wait where other nodes have counted too. When
// exactly is not known of their requests: they are taken as spread over the window.
func (q *rate) waitShared(peers, perMinute int) time.Duration {
	all := q.sum + peers
	excess := all - perMinute + 1
	seconds := (excess*window + all - 1) / all
	return time.Duration(min(max(seconds, 1), window)) * time.Second
}

// Counts returns the slots that are taken by name: at most most names that have a
// limit, those nearest to it.
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

// SetPeers sets how many slots are taken on other nodes, by node: from now on they
// count against the limits too.
func (s *Slots) SetPeers(byNode map[string]map[string]int64) {
	sum := Sum(byNode)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = sum
}
