package upstream

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// A pace is the output rate of a route: a moving average of the time per output token,
// including waits. It is safe for use by several goroutines; a concurrent observation may be
// lost.
type pace struct{ perToken atomic.Int64 } // in ns; 0 means unknown

// leastTokens is the minimum number of tokens that a reply counts as, because the duration of a
// shorter reply is mostly latency.
const leastTokens = 64

// wantsWhole reports whether the next request of the attempt asks for a whole reply instead
// of a stream. It does if the caller does not stream and the longest reply that its limit
// allows is expected within half of `timeouts.whole`, at the pace of the route. A fixed number of
// tokens would not do, because 8,192 take 16 s at one vendor and five minutes at another. After
// a failure all further attempts of the call are streams, since a stream may be fast enough
// where a whole reply timed out, and a vendor without whole replies refuses them.
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
		tokens *= 2 // because a vendor that does not receive the limit may exceed it
	}
	per := a.route.pace.perToken.Load()
	return per > 0 && tokens <= int64(a.provider.timeouts.Whole/2)/per
}

// wrote records the finished reply in the pace of its route.
func (a *attempt) wrote(ev *stoa.Event) {
	tokens := stoa.EstimateTokens(a.bytes)
	if ev.HasUsage && ev.Usage.Sane() {
		tokens = ev.Usage.OutputTokens
	}
	if most := a.call.MaxOutputTokens; most > 0 {
		tokens = min(tokens, most)
	}
	took := time.Since(a.sentAt)

	now := max(int64(took)/max(tokens, leastTokens), 1)
	if old := a.route.pace.perToken.Load(); old > 0 && now > old {
		now = old + (now-old)/2
	} else if old > 0 {
		now = old + (now-old)/8
	}
	a.route.pace.perToken.Store(max(now, 1))
	if a.refusedWhole && !a.whole {
		a.route.streamsOnly.Store(true)
	}
}

// refusesWhole reports whether the failure of a request for a whole reply may mean that the vendor
// only supports streams, because some servers have no other form, and some gateways block other
// paths.
func refusesWhole(fail *wire.Failure) bool {
	switch fail.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented:
		return true
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return strings.Contains(strings.ToLower(fail.Detail), "stream")
	}
	return false
}
