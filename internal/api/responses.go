package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/gateway"
	"stoa/internal/stoa"
)

// Why a call is stopped before its end; the first and the last are causes of
// its context.
var (
	errHungUp   = errors.New("the caller hung up")
	errBrokeOff = stoa.Errorf(stoa.CodeUpstream, "The model's reply broke off before its end. Nothing was charged; try again.")
	errStopping = stoa.Errorf(stoa.CodeOverloaded, "The service is stopping and this reply could not be finished. Nothing was charged; try again.").After(time.Second)
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
	log := LogFields(r.Context())
	log.Model = req.model
	leave, err := s.enterCall(c)
	if err != nil {
		return err
	}
	defer leave()

	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(errHungUp) })()
	defer context.AfterFunc(s.stopping(), func() { cancel(errStopping) })()

	call := &responsesCall{s: s, w: w, req: req, log: log, id: stoa.NewID("resp")}
	call.stream, err = s.Gateway.Respond(ctx, c, gateway.Request{
		ID: call.id, Model: req.model, Call: req.call, EndUser: deref(req.echo.user),
	})
	if err != nil {
		return err
	}
	defer call.stream.Close()
	call.reply = newReply(call.id, time.Now().Unix(), &req.echo)
	if req.stream {
		return call.streamed(ctx)
	}
	return call.whole(ctx)
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
			charge, err := c.settle(ctx)
			if err != nil {
				return err
			}
			c.write(charge, outcomeOf(ev.Stop, charge), string(text))
			return nil
		}
	}
	return errBrokeOff
}

// write sends the finished reply. A caller who left by now was served all the
// same.
func (c *responsesCall) write(charge stoa.Charge, o *outcome, text string) {
	c.reply.model = charge.Served
	o.text, o.hasOutput = text, true
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
	out := &eventStream{w: c.w, reply: c.reply, pin: c.stream.Pin, headerWait: c.s.HeaderWait, keepAlive: c.s.KeepAlive}
	out.start()
	err := c.relay(ctx, out)
	if err == nil {
		return nil
	}
	if !out.halt() {
		return err // nothing was sent: an HTTP error says it
	}
	if errors.Is(err, errHungUp) {
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
			charge, err := c.settle(ctx)
			if err != nil {
				return err
			}
			_ = out.end(outcomeOf(ev.Stop, charge)) // charged, so served, whoever is still there
			return nil
		default:
			if !ev.More {
				err = out.catchUp()
			}
		}
		if err != nil {
			return c.hungUp(ctx)
		}
	}
	return errBrokeOff
}

// settle charges the finished reply and notes what it came to.
func (c *responsesCall) settle(ctx context.Context) (stoa.Charge, error) {
	charge, err := c.stream.Settle(ctx)
	if err == nil {
		c.log.Charged(charge)
	}
	return charge, err
}

// stopped sorts an error out of the stream: a hang-up is charged for what was
// made, our own stop and an upstream's failure are free.
func (c *responsesCall) stopped(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errHungUp):
		return c.hungUp(ctx)
	case cause != nil:
		return cause
	}
	return err
}

func (c *responsesCall) hungUp(ctx context.Context) error {
	charge, err := c.stream.Abandon(ctx)
	if err != nil {
		return err
	}
	c.log.Charged(charge)
	return errHungUp
}

func (c *responsesCall) firstText() {
	if c.log.FirstText.IsZero() {
		c.log.FirstText = time.Now()
	}
}

// outcomeOf is how a finished and charged reply ended.
func outcomeOf(stop stoa.Stop, charge stoa.Charge) *outcome {
	switch stop {
	case stoa.StopLength:
		return &outcome{status: "incomplete", reason: "max_output_tokens", usage: &charge.Usage}
	case stoa.StopContentFilter:
		return &outcome{status: "incomplete", reason: "content_filter", usage: &charge.Usage}
	}
	return &outcome{status: "completed", completedAt: time.Now().Unix(), usage: &charge.Usage}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
