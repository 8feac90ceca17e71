package api

import (
	"time"

	"stoa/internal/peers"
	"stoa/internal/ratelimit"
	"stoa/internal/stoa"
)

// limits are the counters behind a plan's and a key's limits.
type limits struct {
	calls    ratelimit.Slots
	streams  ratelimit.Slots // of events, by key and by account
	detached ratelimit.Slots // calls that go on without their callers, by account
	reports  ratelimit.Turns // of queries over many receipts, by account
}

// Shared returns the counters that all nodes of a service share, by name. Wrong
// keys, connections and turns count on each node alone: they protect its own memory
// and processors.
func (s *Server) Shared() map[string]peers.Counter {
	s.prepare()
	return map[string]peers.Counter{
		"requests": s.Rates(), "calls": &s.limits.calls, "streams": &s.limits.streams,
		"detached": &s.limits.detached, "visitors": s.embeds.Rates(),
	}
}

// enterCall counts a model call as under way, for its key and its account; the
// function it returns ends that.
func (s *Server) enterCall(c *stoa.Caller) (leave func(), err error) {
	if s.LimitsOff() {
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

// enterStream counts a request that holds its connection, such as an event stream or a
// wait for a session, for its key (or embed) and its account; the function it returns
// ends that.
func (s *Server) enterStream(key string, most int, account string, mostOfAccount int) (leave func(), err error) {
	streams := &s.limits.streams
	if !streams.Enter(key, most) {
		return nil, stoa.Errorf(stoa.CodeRateLimit, "%d event streams may be open at a time and are; requests that wait for a session count as streams. Close one.", most).After(time.Second)
	}
	if !streams.Enter(account, mostOfAccount) {
		streams.Leave(key)
		return nil, stoa.Errorf(stoa.CodeRateLimit, "%d event streams of this account may be open at a time and are; requests that wait for a session count as streams. Close one.", mostOfAccount).After(time.Second)
	}
	return func() { streams.Leave(account); streams.Leave(key) }, nil
}

func tooManyCalls(whose string, most int) error {
	return stoa.Errorf(stoa.CodeRateLimit, "This %s may have %d calls running at a time and has them. Try again when one has ended.", whose, most).After(time.Second)
}
