package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/gateway"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Why a call is stopped before its end; the first and the last are causes of
// its context.
var (
	errClientGone = errors.New("the caller hung up")
	errBrokeOff   = stoa.Errorf(stoa.CodeUpstream, "The model's reply broke off before its end. Nothing was charged; try again.")
	errStopping   = stoa.Errorf(stoa.CodeOverloaded, "The service is stopping and this reply could not be finished. Nothing was charged; try again.").After(time.Second)
)

// createResponse serves POST /api/v1/responses: one call in, one reply out,
// whole or streamed.
func (s *Server) createResponse(w http.ResponseWriter, r *http.Request, c stoa.Caller) error {
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	req, err := parseResponses(body)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	log := LogFields(r.Context())
	log.Model = req.model
	leave, err := s.enterCall(c)
	if err != nil {
		return err
	}
	defer leave()

	call := &responsesCall{s: s, w: w, req: req, log: log, id: stoa.NewID("resp")}
	call.leash.account = c.Account.ID
	if key != "" {
		var stored *storedReply
		if call.once, stored, err = s.claimOnce(r.Context(), c, r, key, body); err != nil {
			return err
		}
		if stored != nil {
			log.replay = true
			return s.replay(w, req, stored)
		}
		defer call.once.free(r.Context())
		call.leash.slots = &s.limits.detached
	}
	return call.answer(r.Context(), c)
}

// A responsesCall is one call while it is answered.
type responsesCall struct {
	s      *Server
	w      http.ResponseWriter
	req    *responsesRequest
	log    *Fields
	id     string
	stream *gateway.Stream
	reply  *reply
	once   *once // nil without an Idempotency-Key
	leash  leash
}

// answer makes the call. It ends when its caller hangs up, unless it was to be
// made once, and when the service stops.
func (c *responsesCall) answer(request context.Context, who stoa.Caller) (err error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	defer cancel(nil)
	c.leash.end = func() { cancel(errClientGone) }
	defer c.leash.done()
	defer context.AfterFunc(request, func() { c.leash.clientDisconnected() })()
	defer context.AfterFunc(c.s.stopping(), func() { cancel(errStopping) })()

	c.stream, err = c.s.Gateway.Respond(ctx, who, gateway.Request{
		ID: c.id, Model: c.req.model, Call: c.req.call, EndUser: deref(c.req.echo.user),
	})
	if err != nil {
		return c.ended(ctx, err)
	}
	defer c.stream.Close()
	c.reply = newReply(c.id, time.Now().Unix(), &c.req.echo)
	if c.req.stream {
		return c.streamed(ctx)
	}
	return c.whole(ctx)
}

// whole answers with one JSON object.
func (c *responsesCall) whole(ctx context.Context) error {
	var text []byte
	for ev, err := range c.stream.Events(ctx) {
		if err != nil {
			return c.stopped(ctx, err)
		}
		switch ev.Kind {
		case stoa.Delta:
			c.firstText()
			text = append(text, ev.Text...)
		case stoa.Finished:
			o := outcomeOf(ev.Stop)
			o.text, o.hasOutput = string(text), true
			c.reply.model = c.stream.Pin()
			charge, err := c.settle(ctx, o)
			if err != nil {
				return err
			}
			c.write(charge, o)
			return nil
		}
	}
	return errBrokeOff
}

// write sends the finished reply. A caller who left by now was served all the
// same.
func (c *responsesCall) write(charge stoa.Charge, o *outcome) {
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("stoa-charge-micro", strconv.FormatInt(int64(charge.Amount), 10))
	if charge.Asked != charge.Served {
		h.Set("stoa-model-requested", charge.Asked)
	}
	_, _ = c.w.Write(c.reply.appendObject(nil, o))
}

// streamed answers with server-sent events.
func (c *responsesCall) streamed(ctx context.Context) error {
	if c.stream.Reason() != "" {
		c.w.Header().Set("stoa-model-requested", c.req.model)
	}
	out := c.s.stream(c.w, c.reply, c.stream.Pin)
	defer out.release()
	err := c.relay(ctx, out)
	if err == nil {
		return nil
	}
	if !out.halt() {
		return err // nothing was sent: an HTTP error says it
	}
	if errors.Is(err, errClientGone) {
		return nil
	}
	c.log.Failed(err)
	_ = out.fail(err) // if the caller is gone as well there is nobody to tell
	return nil
}

// relay sends the events of a reply up to its end. The error it returns has not
// been told to the caller.
func (c *responsesCall) relay(ctx context.Context, out *eventStream) error {
	for ev, err := range c.stream.Events(ctx) {
		if err != nil {
			return c.stopped(ctx, err)
		}
		switch ev.Kind {
		case stoa.Delta:
			c.firstText()
			err = out.delta(ev.Text, ev.More)
		case stoa.Finished:
			o := outcomeOf(ev.Stop)
			o.text, o.hasOutput = out.joined(), true
			if _, err := c.settle(ctx, o); err != nil {
				return err
			}
			_ = out.end(o) // charged, so served, whoever is still there
			return nil
		default:
			if !ev.More {
				err = out.catchUp()
			}
		}
		if err != nil && !c.leash.clientDisconnected() {
			return c.clientDisconnected(ctx)
		}
	}
	return errBrokeOff
}

// settle charges the finished reply, stores it where the caller sent a key, and
// completes the outcome with the usage to tell.
func (c *responsesCall) settle(ctx context.Context, o *outcome) (stoa.Charge, error) {
	due := c.stream.Due()
	o.usage = &due.Usage
	var also []func(context.Context, *store.Tx) error
	if c.once != nil {
		also = append(also, c.once.finish(c.id, c.reply.appendObject(nil, o)))
	}
	charge, err := c.stream.Settle(ctx, also...)
	if err != nil {
		if c.once != nil {
			c.once.used = false
		}
		return charge, err
	}
	o.usage = &charge.Usage
	c.log.Charged(charge)
	return charge, nil
}

// stopped sorts an error out of the stream: a hang-up is charged for what was
// made, our own stop and an upstream's failure are free.
func (c *responsesCall) stopped(ctx context.Context, err error) error {
	err = c.ended(ctx, err)
	if errors.Is(err, errClientGone) {
		return c.clientDisconnected(ctx)
	}
	return err
}

// ended prefers the reason why the call was ended to what came of that.
func (c *responsesCall) ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (c *responsesCall) clientDisconnected(ctx context.Context) error {
	charge, err := c.stream.Abandon(ctx)
	if err != nil {
		return err
	}
	c.log.Charged(charge)
	return errClientGone
}

func (c *responsesCall) firstText() {
	if c.log.FirstText.IsZero() {
		c.log.FirstText = time.Now()
	}
}

// outcomeOf is how a finished reply ended.
func outcomeOf(stop stoa.Stop) *outcome {
	switch stop {
	case stoa.StopLength:
		return &outcome{status: "incomplete", reason: "max_output_tokens"}
	case stoa.StopContentFilter:
		return &outcome{status: "incomplete", reason: "content_filter"}
	}
	return &outcome{status: "completed", completedAt: time.Now().Unix()}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
