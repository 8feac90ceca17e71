package upstream

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/wire"
)

// A pace is how fast a route has been writing: a moving average of the time for one
// token of output, waits included. It is safe for use by several goroutines; an
// observation that is lost among several at a time does not matter.
type pace struct{ perToken atomic.Int64 } // in ns; 0: unknown

// leastTokens is how many tokens a reply counts for at least: the time of a short
// one is that of the way there and back.
const leastTokens = 64

// observe notes that a reply of so many tokens took so long. Slow replies count for
// more than fast ones.
func (p *pace) observe(tokens int64, took time.Duration) {
	now := max(int64(took)/max(tokens, leastTokens), 1)
	if old := p.perToken.Load(); old > 0 && now > old {
		now = old + (now-old)/2
	} else if old > 0 {
		now = old + (now-old)/8
	}
	p.perToken.Store(max(now, 1))
}

// forget makes the pace unknown.
func (p *pace) forget() { p.perToken.Store(0) }

// writes reports whether so many tokens are expected within limit.
func (p *pace) writes(tokens int64, limit time.Duration) bool {
	per := p.perToken.Load()
	return per > 0 && tokens <= int64(limit)/per
}

// wantsWhole reports whether the next request of the attempt asks for the reply in
// one piece instead of a stream.
// It does when the caller wants no stream and the longest reply that its limit allows is
// expected within half of `timeouts.whole`, by the pace of the route. A failed attempt
// leaves nothing behind, and every further attempt of the call is a stream: a timeout may
// be in time as one, and a vendor that has no whole replies refuses them with 404, 405, 406
// or 501. A fixed number of tokens would not do: 8,192 take 16 s at one vendor and five
// minutes at another.
func (a *attempt) wantsWhole() bool {
	if !a.call.Buffered || a.failedWhole || a.route.streamsOnly.Load() {
		return false
	}
	switch a.provider.WholeReplies {
	case "always":
		return true
	case "never":
		return false
	}
	tokens := a.call.MaxOutputTokens
	if tokens <= 0 {
		tokens = stoa.DefaultOutput
	}
	if a.call.LimitDefault {
		tokens *= 2 // a vendor that is not sent the limit may write beyond it
	}
	return a.route.pace.writes(tokens, a.provider.timeouts.Whole/2)
}

// wrote notes the finished reply for the pace of its route. A vendor's count is
// believed within the limit of the call.
func (a *attempt) wrote(ev *stoa.Event) {
	tokens := stoa.EstimateTokens(a.bytes)
	if ev.HasUsage && ev.Usage.Sane() {
		tokens = ev.Usage.OutputTokens
	}
	if most := a.call.MaxOutputTokens; most > 0 {
		tokens = min(tokens, most)
	}
	a.route.pace.observe(tokens, time.Since(a.sentAt))
	if a.refusedWhole && !a.whole {
		a.route.streamsOnly.Store(true)
	}
}

// refusesWhole reports whether fail, of a request for a reply in one piece, may mean
// that the vendor writes streams only: servers exist that have no other form, and
// gateways before a vendor that let no other path through.
func refusesWhole(fail *wire.Failure) bool {
	switch fail.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented:
		return true
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return strings.Contains(strings.ToLower(fail.Detail), "stream")
	}
	return false
}
