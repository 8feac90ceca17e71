package upstream

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"

	"stoa/internal/base/stoa"
)

// order returns the routes in the order in which the call tries them, and why the first one is first.
// The route that made a state is the first. Neighbours with a weight are equal: each thread has its
// own order of them, which is the same in all processes and does not change while a route fails, so
// that its calls find their cache.
func (p *Pool) order(routes []stoa.Route, call *stoa.Call) ([]stoa.Route, stoa.RouteReason) {
	if len(routes) < 2 {
		return routes, stoa.RouteByOrder
	}
	reason := stoa.RouteByOrder
	for i := 0; i < len(routes); {
		n := i
		for n < len(routes) && routes[n].Weight > 0 && routes[n].Group == routes[i].Group {
			n++
		}
		if n-i > 1 {
			if i == 0 {
				reason = stoa.RouteByCache
			}
			routes = slices.Clone(routes)
			spread(routes[i:n], call.Thread)
		}
		i = max(n, i+1)
	}
	if made := call.Prefer; made != nil {
		for i, r := range routes {
			pr := p.provider(&r)
			if pr == nil {
				continue
			}
			r.Wire, r.Fingerprint = pr.Wire, pr.fingerprint
			if made.Fits(r) {
				return slices.Concat(routes[i:i+1], routes[:i], routes[i+1:]), stoa.RouteByReasoning
			}
		}
	}
	return routes, reason
}

// spread sorts equal routes for a thread by weighted rendezvous hashing: a thread's first route is each
// route with a probability in proportion to its weight, and when a route is added or removed, only
// the threads whose first route it is move.
func spread(routes []stoa.Route, thread uint64) {
	score := func(r stoa.Route) float64 {
		h := fnv.New64a()
		h.Write([]byte(r.Ref() + "\x00" + r.Model))
		x := h.Sum64() ^ thread
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // the finalizer of SplitMix64: every bit depends on all
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		return -float64(r.Weight) / math.Log((float64(x>>11)+0.5)/(1<<53))
	}
	slices.SortStableFunc(routes, func(a, b stoa.Route) int { return cmp.Compare(score(b), score(a)) })
}
