package responses

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/models/gateway"
)

// A run is the state of one call while it is answered.
type run struct {
	*Call

	s        *Service
	w        http.ResponseWriter
	stream   Source
	reply    *reply
	format   format
	policy   disconnectPolicy
	build    builder                        // builder of the reply
	enforced enforced                       // enforcement by the last model tried; final once the model is fixed
	texted   bool                           // Log.FirstText was called
	files    map[*stoa.Media]extract.Result // files that were read
	reading  *billing.Hold                  // hold of the files that were read last; nil if none were
	readCost stoa.Credits                   // cost of the files that were read
	charged  bool                           // the call was charged
}

func (r *run) answer(request context.Context) (err error) {
	ctx, end := r.context(request)
	defer end()
	if n := r.Request.unread; n > 0 {
		r.Log.States(n)
	}
	defer func() {
		if !r.charged {
			r.setAside()
		}
	}()
	if err := r.begin(ctx); err != nil {
		return r.ended(ctx, err)
	}
	defer func() { r.Log.Tried(r.stream.Tried()) }()
	defer r.stream.Close()
	if r.Request.Stream {
		return r.streamed(ctx)
	}
	return r.whole(ctx)
}

// context returns the context of the call. It ends when the service stops, and when the
// client disconnects unless the policy lets the call continue. end must be called when the
// call has ended.
func (r *run) context(request context.Context) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	r.policy.end = func() { cancel(stoa.ErrClientGone) }
	gone := context.AfterFunc(request, func() { r.policy.clientDisconnected() })
	stopping := context.AfterFunc(r.Stopping, func() { cancel(errStopping) })
	return ctx, func() {
		stopping()
		gone()
		r.policy.done()
		cancel(nil)
	}
}

// begin reserves the credits and starts the stream. It is a separate function, so that its stack is
// free while the reply arrives, which is most of a call.
func (r *run) begin(ctx context.Context) (err error) {
	req := r.Request
	ask := gateway.Request{
		ID: r.ID, Model: req.Model, Call: req.call, EndUser: req.endUser(), Buffered: !req.Stream, KeepsParts: req.Stream, StrictModel: req.Strict,
		Adjusted: r.adjusted, CacheKey: deref(req.echo.promptCacheKey), ClientSession: r.ClientSession, Ignored: req.ignoredOn,
	}
	if r.Agent != nil {
		return r.beginTurn(ctx)
	}
	if err := r.fetch(ctx); err != nil {
		return err
	}
	if req.wanted.itemized {
		ask.Call.Prefer = prefers(req.call.Messages)
		ask.Fit = func(m *stoa.Model, call *stoa.Call) error { return r.fit(ctx, m, call) }
	}
	stream, err := r.s.Gateway.Respond(ctx, r.Caller, ask)
	req.call.Forget() // the stream keeps the call as long as it needs it
	if err == nil {
		r.stream = stream
		r.reply = &reply{id: r.ID, created: time.Now().Unix(), request: r.RequestID}
		r.format = req.format.newFormat()
		switch f := r.format.(type) {
		case *compactFormat:
			f.seal = r.seal
		case *triggeredFormat:
			f.seal = r.seal
		}
	}
	return err
}

func (r *run) beginTurn(ctx context.Context) error {
	turn, session, err := r.Agent(ctx)
	if err != nil {
		return err
	}
	r.stream, r.format = turn, r.Request.format.newFormat()
	r.reply = &reply{id: r.ID, created: time.Now().Unix(), request: r.RequestID, session: session}
	r.Request.call.Forget()
	return nil
}

func (r *run) pin(rep *reply) { rep.model, rep.enforced = r.stream.Pin(), r.enforced }

func (r *run) newBuilder(out *eventStream) *builder {
	b := &r.build
	b.wanted, b.stream, b.lowered = r.Request.wanted, out, r.stream.Lowered
	b.reset()
	if b.reasoning {
		b.seal = r.seal
	}
	return b
}

func (r *run) adjusted() stoa.Adjustments {
	a := r.enforced.adjusted | r.build.adjusted()
	if r.Request.unread > 0 {
		a |= stoa.ReasoningUnread
	}
	return a | r.Request.adjusted
}

func (r *run) seal(s stoa.State) string { return r.s.States.Seal(r.Caller.Account.ID, s) }

func (r *run) whole(ctx context.Context) error {
	build := r.newBuilder(nil)
	for ev, err := range r.stream.Events(ctx) {
		if err != nil {
			return r.stopped(ctx, err)
		}
		if ev.Kind == stoa.Finished {
			build.ending(ev)
			o := build.finish(ev.Stop)
			r.pin(r.reply)
			charge, err := r.settle(ctx, o)
			if err != nil {
				return err
			}
			if err := r.Request.unusable(o); err != nil {
				return err
			}
			r.write(charge, o)
			return nil
		}
		if content, _ := build.apply(ev); content {
			r.firstText()
		}
	}
	return errBrokeOff
}

// write sends the finished reply. It ignores a write error, because the call is charged, and a client
// that sent an Idempotency-Key can fetch the reply again.
func (r *run) write(charge stoa.Charge, o *outcome) {
	h := r.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("stoa-charge-micro", strconv.FormatInt(int64(charge.Amount), 10))
	if charge.Asked != charge.Served {
		h.Set("stoa-model-requested", charge.Asked)
	}
	lent, ok := r.s.buffers.Get().(*[]byte)
	if !ok {
		lent = new(make([]byte, 0, flushAt+flushAt/4))
	}
	*lent = r.format.object((*lent)[:0], r.reply, o)
	_, _ = r.w.Write(*lent)
	if cap(*lent) <= keepBuffer {
		r.s.buffers.Put(lent)
	}
}

func (r *run) streamed(ctx context.Context) error {
	if r.stream.Reason() != "" {
		r.w.Header().Set("stoa-model-requested", r.Request.Model)
	}
	out := r.s.stream(r.w, r.format, r.reply, r.pin)
	defer out.release()
	build := r.newBuilder(out)
	err := r.relay(ctx, out, build)
	if err == nil {
		return nil
	}
	if !out.halt() {
		return err // as an HTTP reply, because nothing was sent yet
	}
	if errors.Is(err, stoa.ErrClientGone) {
		r.Log.Disconnected()
		return nil
	}
	r.Log.Failed(err)
	_ = out.fail(build.failed(r.Request.own(err))) // ignored, because the client may have disconnected too
	return nil
}

// relay sends the events of a reply up to its end. A returned error has not been sent to the
// client.
func (r *run) relay(ctx context.Context, out *eventStream, build *builder) error {
	for ev, err := range r.stream.Events(ctx) {
		if err != nil {
			return r.stopped(ctx, err)
		}
		if ev.Kind == stoa.Finished {
			// The events that complete the reply wait for its charge; text waits for at most settleWait.
			// A client that has disconnected is charged too, because the provider bills the reply.
			build.ending(ev)
			out.settling()
			o := build.finish(ev.Stop)
			out.name()
			if _, err := r.settle(ctx, o); err != nil {
				return err
			}
			if err := r.Request.unusable(o); err != nil {
				return err
			}
			_ = out.end(o) // the reply is charged, whether or not the client is still connected
			return nil
		}
		content, err := build.apply(ev)
		if content {
			r.firstText()
		}
		if err != nil && !r.policy.detached() {
			if !r.policy.clientDisconnected() {
				return r.abandon(ctx)
			}
		}
	}
	return errBrokeOff
}

// settle charges the finished reply, stores it under the call's Idempotency-Key, and completes
// the outcome with the charged usage. Nothing may return between the end of a reply and settle,
// because a caller could bring about that end again and again, and the provider bills each.
func (r *run) settle(ctx context.Context, o *outcome) (stoa.Charge, error) {
	due := r.stream.Due()
	o.usage = &due.Usage
	var also []func(context.Context, *store.Tx) error
	if r.Claim != nil {
		var stored []byte // of a reply without use: nothing
		if r.Request.unusable(o) == nil {
			stored = r.format.object(nil, r.reply, o)
		}
		also = append(also, r.Claim.Finish(r.ID, stored))
	}
	charge, err := r.stream.Settle(ctx, also...)
	if errors.Is(err, billing.ErrUnknown) { // neither an end nor a failure can be reported
		r.Log.Failed(err)
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		return charge, err
	}
	if r.Claim != nil {
		r.Claim.Finished()
		if r.policy.detached() {
			r.Log.Disconnected()
		}
	}
	r.charged = true
	o.usage = &charge.Usage
	r.Log.Charged(charge)
	return charge, nil
}

// stopped handles an error from the stream: after a disconnect the text produced so far is
// charged; a shutdown of the service or a provider's failure is free.
func (r *run) stopped(ctx context.Context, err error) error {
	err = r.ended(ctx, err)
	if errors.Is(err, stoa.ErrClientGone) {
		return r.abandon(ctx)
	}
	return err
}

// ended returns the cause of ctx's end instead of the error that followed from it.
func (r *run) ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case r.Agent != nil && errors.Is(cause, errStopping) && r.stream != nil:
		return errTurnGoesOn
	}
	return cause
}

func (r *run) abandon(ctx context.Context) error {
	charge, err := r.stream.Abandon(ctx)
	if err != nil {
		return err
	}
	if charge.ID != "" { // part of the reply had arrived
		r.charged = true
		r.Log.Charged(charge)
	}
	return stoa.ErrClientGone
}

func (r *run) firstText() {
	if !r.texted {
		r.texted = true
		if r.Request.Stream { // because no other model will serve, and the reply may take minutes
			r.Request.media = nil
		}
		r.Log.FirstText()
	}
}

func outcomeOf(stop stoa.Stop) *outcome {
	switch stop {
	case stoa.StopLength:
		return &outcome{status: statusIncomplete, reason: "max_output_tokens"}
	case stoa.StopContentFilter:
		return &outcome{status: statusIncomplete, reason: "content_filter"}
	case stoa.StopCallsDropped:
		return &outcome{status: statusIncomplete, reason: "calls_dropped"}
	}
	return &outcome{status: statusCompleted, completedAt: time.Now().Unix()}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
