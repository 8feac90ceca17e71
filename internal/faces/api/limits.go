package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"stoa/internal/base/peers"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

type limits struct {
	calls    ratelimit.Slots
	streams  ratelimit.Slots // event streams, by key and by account
	detached ratelimit.Slots // calls that continue without their callers, by account
	reports  ratelimit.Turns // queries over many receipts, by account
}

// Shared returns the counters that all nodes of a service share, by name. Each node counts wrong
// keys, connections and turns separately, because they protect its own memory and processors.
func (s *Server) Shared() map[string]peers.Counter {
	s.prepare()
	return map[string]peers.Counter{
		"requests": s.Rates(), "calls": &s.limits.calls, "streams": &s.limits.streams,
		"detached": &s.limits.detached, "visitors": s.Embeds.embeds.Rates(),
	}
}

func (s *core) enterCall(c *stoa.Caller) (leave func(), err error) {
	if s.LimitsOff() {
		return func() {}, nil
	}
	return enter(&s.limits.calls, c.Key.Root(), c.Plan.ConcurrentPerKey, c.Account.ID, c.Plan.ConcurrentPerAccount, func(whose string, most int) error {
		return stoa.Errorf(stoa.CodeRateLimit, "This %s has reached its limit of %d running calls. Try again when one has ended.", whose, most).After(time.Second)
	})
}

// enterStream counts a request that holds its connection, such as an event stream or a
// wait for a session, for its key (or embed) and its account; the function it returns
// ends that.
func (s *core) enterStream(key string, most int, account string, mostOfAccount int) (leave func(), err error) {
	return enter(&s.limits.streams, key, most, account, mostOfAccount, func(whose string, most int) error {
		of := "" // a key or an embed
		if whose == "account" {
			of = " of this account"
		}
		return stoa.Errorf(stoa.CodeRateLimit, "The limit of %d open event streams%s is reached; requests that wait for a session count as streams. Close one.", most, of).After(time.Second)
	})
}

// enterTagStream counts an event stream of a visitor of a script tag, in addition to
// [core.enterStream]. Tags have half of the streams of an account's visitors, one tag has
// half of that, and its chats without a message half of that. begun ends the count as one of
// the latter; leave ends all counts.
func (s *core) enterTagStream(e stoa.Embed, silent bool) (begun, leave func(), err error) {
	slots, all := &s.limits.streams, s.Limits.VisitorStreamsPerAccount
	begun, leave = func() {}, func() {}
	for _, of := range []struct {
		name  string
		share int
		begun bool // the count ends with the first message
	}{{"tags of " + e.AccountID, 2, false}, {e.TagID, 4, false}, {"silent " + e.TagID, 8, true}} {
		if of.begun && !silent {
			continue
		}
		most := all / of.share
		if all > 0 {
			most = max(most, 1)
		}
		if !slots.Enter(of.name, most) {
			leave()
			return nil, nil, stoa.Errorf(stoa.CodeRateLimit, "The limit of %d open event streams of such chats is reached. Try again in a moment.", most).After(time.Second)
		}
		end, before := sync.OnceFunc(func() { slots.Leave(of.name) }), leave
		leave = func() { end(); before() }
		if of.begun {
			begun = end
		}
	}
	return begun, leave, nil
}

func enter(slots *ratelimit.Slots, key string, most int, account string, mostOfAccount int, full func(whose string, most int) error) (leave func(), err error) {
	if !slots.Enter(key, most) {
		return nil, full("key", most)
	}
	if !slots.Enter(account, mostOfAccount) {
		slots.Leave(key)
		return nil, full("account", mostOfAccount)
	}
	return func() { slots.Leave(account); slots.Leave(key) }, nil
}

const (
	// reportTime is the default of [Books.ReportTime], including the wait for the
	// turn. A million receipts take 1 to 4 s of CPU.
	reportTime = 30 * time.Second
	maxReports = 2 // concurrent reports; one account has at most one, so that it cannot delay all others
)

// report is like [read], for queries that may read all receipts of an account. Few run
// at the same time and accounts take turns, so that one account's reports delay neither
// short queries nor other accounts. A report that takes too long fails with
// CodeOverloaded.
func report[T any](ctx context.Context, s *core, accountID string, fn func(context.Context, *store.Tx) (T, error)) (T, error) {
	var out T
	within, cancel := context.WithTimeout(ctx, s.reportTime)
	defer cancel()
	give, err := s.limits.reports.Acquire(within, accountID, maxReports, maxReports/2)
	if err == nil {
		defer give()
		err = s.Store.Report(within, func(tx *store.Tx) error {
			if err := tx.LimitTime(within); err != nil {
				return err
			}
			out, err = fn(within, tx)
			return err
		})
	}
	if err != nil && ctx.Err() == nil && (within.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		err = stoa.Errorf(stoa.CodeOverloaded, "The receipts could not be read within %v. Use a shorter time range, or try again later.", s.reportTime).After(10 * time.Second).Because(err)
	}
	return out, err
}
