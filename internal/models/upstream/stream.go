package upstream

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// Stream makes the call on the model's routes, in the order of [Pool.order], and yields the reply. Each time an
// upstream accepts the call it yields Started with the provider's name, then that reply's
// events, the last of them Finished. An error ends the stream: ctx's own error when ctx
// ended, otherwise a [*wire.Failure], which wraps the [*stoa.Error] for the caller.
//
// A request that fails before the first text or tool call is repeated: on the same route if
// the failure says that a retry may help (at most [Config.Retries] times in total), then on
// the next route. A later failure is yielded as it is, because the reader has received text.
// A fault of the caller's input ends the stream immediately.
//
// The call advances only while it is ranged over; when the reader stops ranging or ctx ends,
// the vendor's connection is closed immediately.
func (p *Pool) Stream(ctx context.Context, m stoa.Model, call stoa.Call) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		p.active.Add(1)
		defer p.active.Add(-1)
		p.exchange(ctx, m.ID, &call, yield).run(p.order(m.Routes, &call))
	}
}

// exchange begins a call. Like [exchange.attempt] it is a separate function, because its
// frame would otherwise stay on the stack while the reply arrives.
func (p *Pool) exchange(ctx context.Context, model string, call *stoa.Call, yield func(*stoa.Event, error) bool) *exchange {
	return &exchange{pool: p, ctx: ctx, model: model, call: *call, yield: yield, began: time.Now(), retries: max(p.cfg.Retries, 0)}
}

// An exchange is a [Pool.Stream] call in progress.
type exchange struct {
	pool  *Pool
	ctx   context.Context
	model string // Stoa's identifier
	call  stoa.Call
	yield func(*stoa.Event, error) bool
	began time.Time

	retries   int  // remaining retries of the call
	retrying  bool // counted among the pool's current retries
	committed bool // text or a tool call was yielded to a reader that keeps it
	over      bool // the credits do not cover another request
	finished  bool // Finished was yielded
	otherKey  bool // the next route uses another key of the same provider
	stopped   bool // the reader stopped ranging; nothing more may be yielded

	plain       bool          // a vendor refused reasoning of earlier replies: it is left out
	failedWhole bool          // a request for a whole reply failed: the next requests ask for a stream
	worst       *wire.Failure // the most useful failure so far; see [usefulness]
}

// run tries the routes in turn until one serves; reason says why the first one is first.
func (c *exchange) run(routes []stoa.Route, reason stoa.RouteReason) {
	if err := c.ctx.Err(); err != nil {
		c.yield(nil, err)
		return
	}
	for i := range routes {
		if i > 0 {
			reason = stoa.RouteByFailover
		}
		if c.call.Trail != nil {
			c.call.Trail.Reason = reason
		}
		c.otherKey = i+1 < len(routes) && routes[i+1].Provider == routes[i].Provider && routes[i+1].Key != routes[i].Key
		fail, err := c.tryRoute(&routes[i])
		switch {
		case c.stopped, fail == nil && err == nil:
			return
		case err != nil:
			c.yield(nil, err)
			return
		case c.committed || c.over || fail.Caller:
			c.yield(nil, fail)
			return
		case c.worst == nil || usefulness(fail) >= usefulness(c.worst):
			c.worst = fail
		}
	}
	if c.worst == nil {
		c.worst = absent()
	}
	c.yield(nil, c.worst)
}

// tryRoute makes one attempt, with its retries, on one route. It returns nil and nil if the
// route served the call or the reader stopped, and err only if ctx ended.
func (c *exchange) tryRoute(r *stoa.Route) (fail *wire.Failure, err error) {
	pr := c.pool.provider(r)
	if pr == nil {
		return absent(), nil
	}
	if c.call.Trail != nil {
		c.call.Trail.Provider, c.call.Trail.Key, c.call.Trail.LeftOut = pr.Name, pr.Key, false
		c.call.Trail.MarkedBy, c.call.Trail.MarksChanged = "", false
	}
	deadline := c.began.Add(pr.timeouts.Total)
	if !time.Now().Before(deadline) {
		return total.failure(pr.timeouts), nil
	}
	if !pr.enter(c.call.Account) {
		return full(), nil
	}
	defer pr.leave(c.call.Account)
	rt := pr.route(r.Model)
	if wait := time.Until(time.Unix(0, rt.pausedUntil.Load())); wait > 0 && c.otherKey {
		return circuitOpen(wait), nil
	}
	permit, ok, wait := rt.breaker.acquire(c.call.Account)
	if !ok {
		return circuitOpen(wait), nil
	}
	result := neutral
	defer func() {
		var pause time.Duration
		if fail != nil {
			pause = fail.RetryAfter
		}
		if pause > 0 {
			rt.pausedUntil.Store(time.Now().Add(min(pause, maxCoolDown)).UnixNano())
		}
		if opened, account := rt.breaker.done(permit, result, pause); opened {
			attrs := []any{"provider", pr.Name, "model", r.Model}
			if account != "" {
				attrs = append(attrs, "onlyFor", account)
			}
			c.pool.cfg.Logger.Warn("route circuit opened", attrs...)
		}
	}()
	rt.inFlight.Add(1)
	defer rt.inFlight.Add(-1)
	defer c.endRetry()

	a := c.attempt(pr, rt, r, &permit, deadline)
	for {
		fail, err = a.send()
		a.endSpan(fail, err)
		if fail != nil && c.call.Trail != nil {
			c.call.Trail.Void = !fail.Cut
			// The vendor may bill the request, because it received all of it and did not answer with an error status before its work.
			billed := a.received && !fail.Cut && (fail.Status == 0 || fail.Err.Code == stoa.CodeUpstreamTimeout)
			if billed && c.call.Trail.Unpaid != nil && !c.call.Trail.Unpaid() {
				c.over = true
			}
		}
		switch {
		case c.finished:
			result = succeeded
			return nil, nil
		case c.stopped || err != nil:
			return nil, err
		case fail.Caller, fail.Neutral, a.spec.Wire == sandboxWire:
			result = neutral
		default:
			result = failed
		}
		c.endRetry()
		if fail.Reasoning && !c.plain && !c.committed && a.request.Reasoning > 0 {
			c.plain, c.call.Messages, a.codec = true, c.call.WithoutReasoning(), nil
			a.failed(fail, true)
			continue
		}
		if fail.CallIDs && a.spec.Traits.CallIDs == "" && !c.committed {
			rt.nineIDs.Store(true)
			a.spec.Traits.CallIDs, a.codec = "nine", nil
			a.failed(fail, true)
			continue
		}
		wait, again := c.mayRetry(fail, deadline)
		again = again && rt.breaker.mayRetry(permit) && c.beginRetry()
		a.failed(fail, again)
		if !again {
			return fail, nil
		}
		rt.retries.Add(1)
		if !stoa.Sleep(c.ctx, wait) {
			result = neutral
			return nil, c.ctx.Err()
		}
	}
}

func (c *exchange) attempt(pr *provider, rt *route, r *stoa.Route, p *permit, deadline time.Time) *attempt {
	a := &attempt{exchange: c, provider: pr, route: rt, spec: *r, permit: p, deadline: deadline}
	a.spec.Wire, a.spec.Dialect, a.spec.Fingerprint = pr.Wire, pr.Dialect, pr.fingerprint // since the model was resolved the provider may have changed
	if rt.nineIDs.Load() {
		a.spec.Traits.CallIDs = "nine"
	}
	return a
}

// mayRetry reports whether the same route may be tried again, and the wait before. Retries
// are counted per call, not per route: with three routes a call would otherwise make nine
// attempts. A timeout is retried on the next route only, except for whole replies (see
// [attempt.wantsWhole]). A Retry-After beyond the call's own pause is left to the caller, because
// the caller would repeat the call besides. After the Retry-After of a key, the next key of the
// provider is tried. Failing over needs no budget, because it uses the capacity of another provider.
func (c *exchange) mayRetry(fail *wire.Failure, deadline time.Time) (time.Duration, bool) {
	cfg := c.pool.cfg
	wait := cfg.Backoff << min(max(cfg.Retries-c.retries, 0), 4)
	if !fail.Retry || fail.Caller || c.committed || c.over || c.retries == 0 || fail.RetryAfter > wait || c.otherKey && fail.RetryAfter > 0 {
		return 0, false
	}
	wait = wait/2 + rand.N(wait/2+1)
	if fail.RetryAfter > 0 { // not earlier, and with jitter
		wait = fail.RetryAfter + rand.N(fail.RetryAfter/10+1)
	}
	if d, ok := c.ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	return wait, time.Now().Add(wait).Before(deadline)
}

// beginRetry uses one of the call's retries and reports whether the pool's budget allows it:
// the retries in progress are limited to a share of the calls in progress, so that retries do
// not multiply the load on a failing vendor.
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

// endRetry returns a retry to the pool's budget after it failed or received its first text.
func (c *exchange) endRetry() {
	if c.retrying {
		c.retrying = false
		c.pool.retrying.Add(-1)
	}
}

// emit yields an event and reports whether the reader continues.
func (c *exchange) emit(ev *stoa.Event) bool {
	if !c.yield(ev, nil) {
		c.stopped = true
	}
	return !c.stopped
}
