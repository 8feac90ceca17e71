package api

import (
	"hash/maphash"
	"net"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/listen"
	"stoa/internal/peers"
	"stoa/internal/ratelimit"
	"stoa/internal/stoa"
)

// limits are the counters behind a plan's and a key's limits.
type limits struct {
	rates    ratelimit.Rates
	wrong    ratelimit.Rates // of requests with wrong keys, by slots of addresses
	calls    ratelimit.Slots
	streams  ratelimit.Slots // of events, by key and by account
	detached ratelimit.Slots // calls that go on without their callers, by account
	parsing  ratelimit.Turns // of large bodies, by account
	reports  ratelimit.Turns // of queries over many receipts, by account
	linger   ratelimit.Slots // see [inbody.linger], by address and ""
}

// Shared returns the counters that all nodes of a service share, by name. Wrong
// keys, connections and turns count on each node alone: they protect its own memory
// and processors.
func (s *Server) Shared() map[string]peers.Counter {
	s.prepare()
	return map[string]peers.Counter{
		"requests": &s.limits.rates, "calls": &s.limits.calls, "streams": &s.limits.streams,
		"detached": &s.limits.detached, "visitors": s.embeds.Rates(),
	}
}

// admit counts a request of a key against the smaller of its own and its plan's
// requests per minute, then against those of the account. A key is counted with
// those that share its book, so that no key gets more by creating others.
func (s *Server) admit(c stoa.Caller) error {
	if s.limitsOff() {
		return nil
	}
	most := smaller(c.Plan.RequestsPerMinute, c.Key.RequestsPerMinute)
	now := time.Now()
	wait, ok := s.limits.rates.Take(c.Key.Root(), most, now)
	if !ok {
		return stoa.Errorf(stoa.CodeRateLimit, "This key may make %d requests in a minute and has made them. Try again in %d seconds.", most, wait/time.Second).After(wait)
	}
	most = c.Plan.RequestsPerMinutePerAccount
	if wait, ok = s.limits.rates.Take(c.Account.ID, most, now); !ok {
		return stoa.Errorf(stoa.CodeRateLimit, "The keys of this account may make %d requests in a minute together and have made them. Try again in %d seconds.", most, wait/time.Second).After(wait)
	}
	return nil
}

// wrongKeys is how many requests with a wrong key an address may make in a minute
// before they are refused as such.
const wrongKeys = 60

// wrongKey counts a request whose key or token is wrong against its address: it
// returns err, or CodeRateLimit beyond [wrongKeys]. Only failures are counted, so a
// good key always passes. Addresses share a table of fixed size.
func (s *Server) wrongKey(r *http.Request, err error) error {
	if stoa.CodeOf(err) != stoa.CodeUnauthorized || r.Header.Get("Authorization") == "" || s.limitsOff() {
		return err
	}
	address := clientAddress(r)
	if address == "" { // of a proxy that does not say for whom it asks
		address, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	slot := maphash.String(s.addresses, address) % addressSlots
	wait, ok := s.limits.wrong.Take(strconv.FormatUint(slot, 10), wrongKeys, time.Now())
	if ok {
		return err
	}
	return stoa.Errorf(stoa.CodeRateLimit, "Too many requests with a wrong key came from this address. Try again in %d seconds, or with a key that is right.", wait/time.Second).After(wait).Because(err)
}

// addressSlots bounds the table of addresses; two addresses rarely share a slot.
const addressSlots = 1 << 14

// enterLinger counts a connection that is read after its reply, in all and for its
// network unless that may be a proxy; the function it returns ends that.
func (s *Server) enterLinger(remote string) (leave func(), ok bool) {
	slots, most := &s.limits.linger, lingeringPerAddress
	network := listen.Network(remote)
	if !network.IsValid() {
		most = 0
	}
	if !slots.Enter("", lingering) {
		return nil, false
	}
	name := network.String()
	if !slots.Enter(name, most) {
		slots.Leave("")
		return nil, false
	}
	return func() { slots.Leave(name); slots.Leave("") }, true
}

// enterCall counts a model call as under way, for its key and its account; the
// function it returns ends that.
func (s *Server) enterCall(c *stoa.Caller) (leave func(), err error) {
	if s.limitsOff() {
		return func() {}, nil
	}
	calls, key, account := &s.limits.calls, c.Key.Root(), c.Account.ID
	if !calls.Enter(key, c.Plan.ConcurrentPerKey) {
		return nil, tooManyCalls("key", c.Plan.ConcurrentPerKey)
	}
	if !calls.Enter(account, c.Plan.ConcurrentPerAccount) {
		calls.Leave(key)
		return nil, tooManyCalls("account", c.Plan.ConcurrentPerAccount)
	}
	return func() { calls.Leave(account); calls.Leave(key) }, nil
}

func tooManyCalls(whose string, most int) error {
	return stoa.Errorf(stoa.CodeRateLimit, "This %s may have %d calls running at a time and has them. Try again when one has ended.", whose, most).After(time.Second)
}

func (s *Server) limitsOff() bool { return s.RateLimited != nil && !s.RateLimited() }

// smaller is the smaller of two limits, where 0 is none.
func smaller(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
