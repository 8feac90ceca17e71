package upstream

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/wire"
)

// Stream makes the call on the model's routes, in their order, and yields what
// comes back. Each time an upstream accepts the call it yields Started with the
// provider's name, then that reply's events, the last of them Finished. An error ends
// the stream: the context's own error when ctx ended, otherwise a [*wire.Failure], which
// wraps the [*stoa.Error] for the caller.
//
// Until the first text or tool call a failed attempt is made up for: by at most two
// retries where the vendor's answer promises that they help, then by the next
// route. Afterwards a failure is yielded as it is, because the reader has seen text.
// A fault of the caller's own input ends the stream at once.
//
// Ranging is what drives the call; a reader that stops ranging, or a ctx that ends,
// closes the vendor's connection at once.
func (p *Pool) Stream(ctx context.Context, m stoa.Model, call stoa.Call) iter.Seq2[stoa.Event, error] {
	return func(yield func(stoa.Event, error) bool) {
		p.active.Add(1)
		defer p.active.Add(-1)
		c := exchange{pool: p, ctx: ctx, model: m.ID, call: call, yield: yield, began: time.Now(), retries: max(p.cfg.Retries, 0)}
		c.run(m)
	}
}

// An exchange is one call of [Pool.Stream] under way.
type exchange struct {
	pool  *Pool
	ctx   context.Context
	model string // the house's identifier
	call  stoa.Call
	yield func(stoa.Event, error) bool
	began time.Time

	retries   int           // left of the call
	retrying  bool          // it counts as one of the pool's retries under way
	committed bool          // text or a tool call was yielded
	finished  bool          // Finished was yielded
	stopped   bool          // the reader stopped ranging; nothing more may be yielded
	worst     *wire.Failure // the most telling failure so far
}

// run visits the routes until one serves.
func (c *exchange) run(m stoa.Model) {
	if err := c.ctx.Err(); err != nil {
		c.yield(stoa.Event{}, err)
		return
	}
	for _, r := range m.Routes {
		fail, err := c.visit(r)
		switch {
		case c.stopped, fail == nil && err == nil:
			return
		case err != nil:
			c.yield(stoa.Event{}, err)
			return
		case c.committed || fail.Caller:
			c.yield(stoa.Event{}, fail)
			return
		case c.worst == nil || telling(fail) >= telling(c.worst):
			c.worst = fail
		}
	}
	if c.worst == nil {
		c.worst = absent()
	}
	c.yield(stoa.Event{}, c.worst)
}

// visit does all that the call may do on one route: an attempt and its retries. It
// returns nothing when the route served or the reader stopped, and an error that
// is no Failure only when ctx ended.
func (c *exchange) visit(r stoa.Route) (fail *wire.Failure, err error) {
	pr := c.pool.provider(r.Provider)
	if pr == nil {
		return absent(), nil
	}
	r.Wire, r.Dialect = pr.Wire, pr.Dialect // the provider may have changed since the model was resolved
	deadline := c.began.Add(pr.timeouts.Total)
	if !time.Now().Before(deadline) {
		return total.failure(pr.timeouts), nil
	}
	if !pr.enter() {
		return full(), nil
	}
	defer pr.leave()
	rt := pr.route(r.Model)
	permit, ok, wait := rt.breaker.acquire()
	if !ok {
		return resting(wait), nil
	}
	result := neutral
	defer func() {
		var pause time.Duration
		if fail != nil {
			pause = fail.RetryAfter
		}
		if rt.breaker.done(permit, result, pause) {
			c.pool.cfg.Logger.Warn("an upstream route keeps failing; it rests", "provider", pr.Name, "model", r.Model)
		}
	}()
	rt.inFlight.Add(1)
	defer rt.inFlight.Add(-1)
	defer c.endRetry()

	a := attempt{exchange: c, provider: pr, route: rt, spec: r, permit: &permit, deadline: deadline}
	for {
		fail, err = a.make()
		switch {
		case c.finished:
			result = succeeded
			return nil, nil
		case c.stopped || err != nil:
			return nil, err
		case fail.Caller, r.Wire == sandboxWire:
			result = neutral
		default:
			result = failed
		}
		c.endRetry()
		wait, again := c.mayRetry(fail, deadline)
		again = again && rt.breaker.stands(permit) && c.beginRetry()
		a.failed(fail, again)
		if !again {
			return fail, nil
		}
		rt.retries.Add(1)
		if err := c.pause(wait); err != nil {
			result = neutral
			return nil, err
		}
	}
}

// mayRetry reports whether the same route may be tried again, and after what wait.
func (c *exchange) mayRetry(fail *wire.Failure, deadline time.Time) (time.Duration, bool) {
	cfg := c.pool.cfg
	if !fail.Retry || fail.Caller || c.committed || c.retries == 0 || fail.RetryAfter > cfg.MaxRetryAfter {
		return 0, false
	}
	wait := cfg.Backoff << min(max(cfg.Retries-c.retries, 0), 4)
	wait = wait/2 + rand.N(wait/2+1)
	if fail.RetryAfter > 0 { // not before it, and not all at the same moment
		wait = fail.RetryAfter + rand.N(fail.RetryAfter/10+1)
	}
	if d, ok := c.ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	return wait, time.Now().Add(wait).Before(deadline)
}

// beginRetry takes a retry of the call and a place in the pool's budget: retries
// under way are at most a share of the calls under way, so that a vendor in trouble
// is not buried under repeats.
func (c *exchange) beginRetry() bool {
	p := c.pool
	most := max(int64(p.cfg.RetriesAnyway), int64(p.cfg.RetryShare*float64(p.active.Load())))
	if p.retrying.Add(1) > most {
		p.retrying.Add(-1)
		return false
	}
	c.retries--
	c.retrying = true
	return true
}

// endRetry gives the place back: the retry failed, or got its first text.
func (c *exchange) endRetry() {
	if c.retrying {
		c.retrying = false
		c.pool.retrying.Add(-1)
	}
}

// pause waits, or returns ctx's error when that ends first.
func (c *exchange) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// emit hands an event to the reader and reports whether it wants more.
func (c *exchange) emit(ev stoa.Event) bool {
	if !c.yield(ev, nil) {
		c.stopped = true
	}
	return !c.stopped
}
