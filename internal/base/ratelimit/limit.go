// Package ratelimit counts requests per minute and calls in flight by name, such as the id of
// a key or an account.
//
// It does not depend on HTTP or plans: the caller passes the limit, so a changed limit
// applies from the next request on. Counts are in memory; counts shared by several nodes are
// exchanged by package peers and added to the local ones (shared.go). Start at [Rates.Allow]
// and [Slots.Enter]; [Turns.Acquire] distributes work fairly by name.
//
// Requests are counted in a sliding window of sixty seconds: no window exceeds the limit, and
// Retry-After is exact to the second. A token bucket would allow nearly twice the limit in
// its first minute. Keys that a limited key creates share the count of their root key.
package ratelimit

import (
	"sync"
	"time"
)

const window = 60 // seconds

// Rates counts requests per name over the last 60 seconds. The zero value is
// ready to use. It is safe for concurrent use.
type Rates struct {
	mu    sync.Mutex
	rates map[string]*rate
	peers map[string]int64 // counts of other nodes
	swept int64
}

// A rate is a ring with one count for each of the last 60 seconds.
type rate struct {
	counts [window]int32
	sum    int
	limit  int   // at the last request
	second int64 // the newest second in the ring
}

// Allow counts a request of name if at most perMinute, including this one, fall into the last
// 60 seconds; otherwise it counts nothing and returns the time to wait, in whole seconds from
// 1 to 60. A limit of 0 or less means no limit.
func (r *Rates) Allow(name string, perMinute int, now time.Time) (wait time.Duration, ok bool) {
	return r.allow(name, perMinute, now, 1)
}

// Check is [Rates.Allow] without counting. Work that counts only if it fails calls it first, because
// a limit that is asked after the work does not stop the work.
func (r *Rates) Check(name string, perMinute int, now time.Time) (wait time.Duration, ok bool) {
	return r.allow(name, perMinute, now, 0)
}

func (r *Rates) allow(name string, perMinute int, now time.Time, count int) (wait time.Duration, ok bool) {
	if perMinute <= 0 {
		return 0, true
	}
	second := now.Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rates == nil {
		r.rates = map[string]*rate{}
	}
	if second-r.swept >= window {
		r.swept = second
		for name, q := range r.rates {
			if q.advance(second); q.sum == 0 {
				delete(r.rates, name)
			}
		}
	}
	q := r.rates[name]
	if q == nil {
		q = &rate{second: second}
		r.rates[name] = q
	}
	q.advance(second)
	q.limit = perMinute
	peers := int(r.peers[name])
	if q.sum+peers < perMinute {
		q.counts[slot(q.second)] += int32(count)
		q.sum += count
		return 0, true
	}
	if peers > 0 {
		// The others' counts are treated as evenly distributed over the window, because their times are unknown.
		all := q.sum + peers
		excess := all - perMinute + 1
		seconds := (excess*window + all - 1) / all
		return time.Duration(min(max(seconds, 1), window)) * time.Second, false
	}
	// From the oldest second on, find the one whose end frees a request.
	left := q.sum
	for age := int64(window - 1); age >= 0; age-- {
		left -= int(q.counts[slot(q.second-age)])
		if left < perMinute {
			return time.Duration(window-age) * time.Second, false
		}
	}
	return window * time.Second, false
}

func slot(second int64) int64 { return (second%window + window) % window }

// advance drops the seconds that left the window. After the clock was set back, requests
// count in the newest second.
func (q *rate) advance(second int64) {
	if second-q.second >= window {
		*q = rate{second: second, limit: q.limit}
		return
	}
	for q.second < second {
		q.second++
		q.sum -= int(q.counts[slot(q.second)])
		q.counts[slot(q.second)] = 0
	}
}

// Slots counts calls in flight per name. The zero value is ready to use. It is
// safe for concurrent use.
type Slots struct {
	mu    sync.Mutex
	taken map[string]slots
	peers map[string]int64 // counts of other nodes
}

type slots struct {
	taken int
	most  int // at the last Enter; 0 means no limit
}

// Enter reserves a slot of name if fewer than most are in use; the caller frees it with
// [Slots.Leave]. A most of 0 or less means no limit, but the slot is counted.
func (s *Slots) Enter(name string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.taken[name]
	if most > 0 && t.taken+int(s.peers[name]) >= most {
		return false
	}
	if s.taken == nil {
		s.taken = map[string]slots{}
	}
	s.taken[name] = slots{t.taken + 1, max(most, 0)}
	return true
}

// Leave frees a slot of name.
func (s *Slots) Leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.taken[name]
	if t.taken--; t.taken <= 0 {
		delete(s.taken, name)
		return
	}
	s.taken[name] = t
}
