package upstream

import (
	"slices"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// Stats is a snapshot of a pool's counters. Counters that only grow restart at zero
// when a provider's settings change.
type Stats struct {
	Active    int64 // calls in progress
	Retrying  int64 // of these, waiting for or making a retry
	Providers []ProviderStats
}

// ProviderStats are the counters of one provider.
type ProviderStats struct {
	Name, Wire  string
	Disabled    bool // no new call is sent to it
	InFlight    int64
	MaxInFlight int64
	Refused     uint64 // attempts rejected because MaxInFlight was reached
	Routes      []RouteStats
}

// RouteStats are the counters of one upstream model.
type RouteStats struct {
	Model     string
	InFlight  int64
	Requests  uint64 // including retries
	Retries   uint64
	Failures  uint64 // including timeouts, excluding callers' faults
	Timeouts  uint64
	Breaker   string    // closed, open or half-open
	OpenUntil time.Time // of an open breaker

	LastFailureAt     time.Time // zero if none
	LastFailureCode   stoa.Code
	LastFailureText   string // the reason why the provider could not be reached; may be empty
	LastFailureStatus int    // HTTP status; 0 if none exists, or the reply had begun
}

// Stats returns the counters, providers and models sorted by name.
func (p *Pool) Stats() Stats {
	s := Stats{Active: p.active.Load(), Retrying: p.retrying.Load()}
	for _, pr := range *p.providers.Load() {
		ps := ProviderStats{Name: pr.Ref(), Wire: pr.Wire, Disabled: pr.Disabled, InFlight: pr.inFlight.Load(), MaxInFlight: pr.maxInFlight, Refused: pr.refused.Load()}
		pr.mu.RLock()
		for model, rt := range pr.routes {
			rs := RouteStats{
				Model: model, InFlight: rt.inFlight.Load(), Requests: rt.requests.Load(),
				Retries: rt.retries.Load(), Failures: rt.failures.Load(), Timeouts: rt.timeouts.Load(),
			}
			rs.Breaker, rs.OpenUntil = rt.breaker.state()
			if bad := rt.lastBad.Load(); bad != nil {
				rs.LastFailureAt, rs.LastFailureCode, rs.LastFailureStatus, rs.LastFailureText = bad.at, bad.code, bad.status, bad.text
			}
			ps.Routes = append(ps.Routes, rs)
		}
		pr.mu.RUnlock()
		slices.SortFunc(ps.Routes, func(a, b RouteStats) int { return strings.Compare(a.Model, b.Model) })
		s.Providers = append(s.Providers, ps)
	}
	slices.SortFunc(s.Providers, func(a, b ProviderStats) int { return strings.Compare(a.Name, b.Name) })
	return s
}
