package upstream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/telemetry"
	"stoa/internal/models/wire"
)

// An attempt is one call's request to one route; a retry sends it again.
type attempt struct {
	*exchange
	provider *provider
	route    *route
	spec     stoa.Route
	permit   *permit
	deadline time.Time // for the whole call, since each provider has its own total timeout

	codec        wire.Codec
	request      wire.Request // kept so that a retry need not encode it again
	url          *url.URL
	whole        bool // the request asks for a whole reply instead of a stream
	refusedWhole bool // an earlier request for a whole reply was refused as if the vendor did not support it

	// The state of the last request.
	requestID string // the vendor's
	received  bool   // the vendor received the whole request
	answered  bool   // the first text or tool call arrived
	sentAt    time.Time
	bytes     int // text and thinking received
	span      telemetry.Attempt
}

// send sends the request and yields its reply. It returns nil and nil when the reply is
// complete or the reader stopped, and an error only when ctx ended.
func (a *attempt) send() (*wire.Failure, error) {
	a.route.requests.Add(1)
	if a.call.Trail != nil {
		a.call.Trail.Attempts++
		a.call.Trail.Sent = time.Now()
	}
	a.requestID, a.received, a.answered, a.bytes = "", false, false, 0
	ctx, cancel := context.WithCancelCause(a.beginSpan())
	defer cancel(nil)
	w := &watch{cancel: cancel, deadline: a.deadline}
	defer w.end()

	var fail *wire.Failure
	if a.spec.Wire == sandboxWire {
		fail = a.sandbox(ctx, w)
	} else {
		fail = a.exchangeHTTP(ctx, w)
	}
	if fail == nil || a.stopped {
		return nil, nil
	}
	// The timeout replaces the codec's error, because that only reports a reply that broke off;
	// but a status received before is more specific.
	if err := a.ctx.Err(); err != nil {
		return nil, err
	}
	if e, ok := context.Cause(ctx).(expired); ok && fail.Status == 0 {
		fail = e.failure(a.provider.timeouts)
	}
	a.keep(fail, w.late)
	if a.whole {
		a.failedWhole = true
		if fail.Err.Code == stoa.CodeUpstreamTimeout {
			a.route.pace.perToken.Store(0)
			fail.Retry = true // because a stream may be fast enough
		}
		if refusesWhole(fail) {
			a.refusedWhole, fail.Retry, fail.Caller = true, true, false
		}
	}
	if fail.RequestID == "" {
		fail.RequestID = a.requestID
	}
	fail.Detail = hide(fail.Detail, a.provider.APIKey)
	fail.RequestID = hide(fail.RequestID, a.provider.APIKey)
	fail.Err.Message = hide(fail.Err.Message, a.provider.APIKey) // because it may quote the vendor
	return fail, nil
}

// keep determines whether the part of a failed reply that its reader has received is its
// whole reply, which is charged: a limit of this service ended it, or, for a reader that
// keeps such parts, the reader was late. Other parts are failures, so that the reader of a
// vendor that stalls or breaks off can try again.
func (a *attempt) keep(fail *wire.Failure, late bool) {
	if !a.answered {
		fail.Cut = false
		return
	}
	switch {
	case fail.Cut:
		a.committed, fail.Neutral = true, true // because the route is healthy
	case a.committed && a.call.KeepsParts && late:
		fail.Cut, fail.Neutral = true, true
	default:
		return
	}
	if a.call.Trail != nil {
		a.call.Trail.Cut = stoa.ReplyCut
	}
}

// beginSpan begins the span of the request, if tracing is on, and returns its context.
func (a *attempt) beginSpan() context.Context {
	tracer := a.pool.cfg.Tracer
	if tracer == nil {
		return a.ctx
	}
	host := ""
	if a.provider.base != nil {
		host = a.provider.base.Hostname()
	}
	ctx, span := tracer.Attempt(a.ctx, a.provider.Name, host, a.model, a.spec.Model)
	a.span = span
	return ctx
}

func (a *attempt) endSpan(fail *wire.Failure, err error) {
	switch {
	case a.pool.cfg.Tracer == nil:
	case err != nil, a.stopped && !a.finished:
		a.span.End(telemetry.Disconnected)
	case fail != nil:
		a.span.Status(fail.Status)
		a.span.End(fail.Err.Code)
	default:
		a.span.End("")
	}
}

// exchangeHTTP sends the request over HTTP and yields the events of its reply. Work that needs
// much stack must be in functions that return before, because this frame and those of its
// callers stay on the stack while the reply arrives.
func (a *attempt) exchangeHTTP(ctx context.Context, w *watch) *wire.Failure {
	body, fail := a.post(ctx, w)
	if fail != nil {
		return fail
	}
	defer body.close()
	if !a.accepted() {
		return nil
	}
	fail = a.yieldAll(a.codec.Decode(body, a.spec, a.want()))
	switch {
	case a.finished:
		body.drain()
	case fail == nil: // the reader stopped
	case body.left < 0:
		fail = broken(false, "the reply is larger than %d bytes", a.pool.cfg.MaxReplyBytes)
		fail.Cut = true
	}
	return fail
}

func (a *attempt) want() wire.Want {
	want := wire.WantOf(&a.call)
	want.Long = a.request.Long
	want.Unknown = a.endedUnknown
	if a.request.Reasoning > 0 { // otherwise a vendor has nothing to drop
		want.Note = func(detail string) {
			a.pool.cfg.Logger.InfoContext(context.WithoutCancel(a.ctx), "a vendor changed the input of a call", "provider", a.provider.Name, "model", a.spec.Model,
				"requestId", hide(a.requestID, a.provider.APIKey), "detail", hide(detail, a.provider.APIKey))
		}
	}
	return want
}

// maxUnknownEnds is the maximum number of unknown words for the end of a reply that are logged,
// because a server may write anything there.
const maxUnknownEnds = 100

// endedUnknown records that the provider ended the reply with an unknown word, which is logged once
// for each provider.
func (a *attempt) endedUnknown(word string) {
	if a.call.Trail != nil {
		a.call.Trail.EndUnknown = true
	}
	p, key := a.pool, a.provider.Name+" "+word
	p.mu.Lock()
	fresh := !p.unknownEnds[key] && len(p.unknownEnds) < maxUnknownEnds
	if fresh {
		p.unknownEnds[key] = true
	}
	p.mu.Unlock()
	if fresh {
		p.cfg.Logger.WarnContext(context.WithoutCancel(a.ctx), "a provider ends replies with an unknown reason, which counts as a normal end",
			"provider", a.provider.Name, "model", a.spec.Model, "reason", hide(word, a.provider.APIKey))
	}
}

// post sends the request and returns the body of an accepted reply.
func (a *attempt) post(ctx context.Context, w *watch) (*reader, *wire.Failure) {
	if fail := a.encode(); fail != nil {
		return nil, fail
	}
	req := &http.Request{
		Method: http.MethodPost, URL: a.url, Host: a.url.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        a.request.Header,
		Body:          newPayload(a.request.Body),
		ContentLength: int64(len(a.request.Body)),
		GetBody:       func() (io.ReadCloser, error) { return newPayload(a.request.Body), nil },
	}
	wait, silence := a.provider.timeouts.FirstByte, a.provider.timeouts.Idle
	first, later := firstByte, idle
	if a.whole {
		wait, silence = a.provider.timeouts.Whole, a.provider.timeouts.Whole
		first, later = inOnePiece, inOnePiece
	}
	sent := &sending{}
	ctx = sent.trace(ctx)
	a.span.SetParent(a.request.Header)
	a.sentAt = time.Now()
	w.start(first, wait)
	res, err := a.pool.cfg.Transport.RoundTrip(req.WithContext(ctx))
	w.stop()
	if err != nil {
		if isShortage(err) {
			return nil, shortage(err)
		}
		if a.received = sent.left(len(a.request.Body)); a.received && a.ctx.Err() != nil {
			a.accepted() // because the vendor bills the request; its progress is unknown
		}
		fail := broken(true, "no reply: %v", err)
		fail.Err = fail.Err.Because(err)
		return nil, fail
	}
	a.received = true
	body := &reader{from: res.Body, watch: w, wait: later, idle: silence, left: a.pool.cfg.MaxReplyBytes}
	a.requestID = requestID(res.Header)
	if fail := a.rejection(res, body); fail != nil {
		body.close()
		return nil, fail
	}
	if a.pool.cfg.Logger.Enabled(ctx, slog.LevelDebug) {
		a.pool.cfg.Logger.DebugContext(ctx, "an upstream accepted a call", "provider", a.provider.Name, "model", a.spec.Model, "status", res.StatusCode, "requestId", hide(a.requestID, a.provider.APIKey))
	}
	return body, nil
}

// accepted yields Started and reports whether the reader wants more.
func (a *attempt) accepted() bool {
	if a.call.Trail != nil {
		a.call.Trail.Void = false
	}
	return a.emit(&stoa.Event{Kind: stoa.Started, Provider: a.provider.Name})
}

// encode builds the request, which a retry reuses.
func (a *attempt) encode() *wire.Failure {
	whole := a.wantsWhole()
	if a.codec != nil && whole == a.whole {
		return nil
	}
	a.whole = whole
	codec, ok := a.pool.codec(a.spec.Wire)
	if !ok {
		return broken(false, "the wire %q does not exist", a.spec.Wire)
	}
	call := a.call
	call.Whole = whole
	switch a.provider.Caching {
	case "off":
		call.Caching = stoa.CacheOff
	case "frugal":
		call.Frugal = true
	case "caller":
		call.Caching = min(call.Caching, stoa.CacheNothing)
	}
	call, inWords := wire.Relax(call, a.spec)
	request, err := codec.Encode(call, a.spec, a.provider.APIKey)
	if err != nil {
		fail := asFailure(err)
		fail.Caller, fail.Retry = true, false
		return fail
	}
	to, err := a.provider.at(request.Path)
	if err != nil {
		return broken(false, "the request's path cannot be added to the base URL")
	}
	if request.Header == nil {
		request.Header = http.Header{}
	}
	a.pool.complete(request.Header, to)
	if call.Trail != nil {
		call.Trail.LeftOut = a.plain || request.Reasoning < call.Reasoning()
		call.Trail.MarkedBy, call.Trail.MarksChanged = cmp.Or(request.MarkedBy, stoa.MarkedByVendor), request.MarksChanged
		call.Trail.Described, call.Trail.InWords = request.Described, inWords
		if marks, _ := call.Marks(); request.MarkedBy == "" && marks > 0 {
			call.Trail.MarksChanged = true
		}
	}
	a.codec, a.request, a.url = codec, request, to
	return nil
}

// rejection returns the failure that a response reports, or nil if the vendor accepted the
// call.
func (a *attempt) rejection(res *http.Response, body *reader) *wire.Failure {
	status := res.StatusCode
	var fail *wire.Failure
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	switch {
	case status >= 300 && status < 400:
		fail = broken(false, "status %d: redirects are not followed; the provider's baseURL must be the final one", status)
	case status < 200 || status == http.StatusNoContent || status == http.StatusResetContent:
		fail = broken(true, "status %d has no reply", status)
	case status >= 400:
		body.idle = min(body.idle, errorTimeout)
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBytes))
		fail = a.codec.DecodeError(status, res.Header, text)
		if w := stoa.WireNamed(a.spec.Wire); status == http.StatusNotFound && a.provider.base.Path == "" && w.Name != "" && !w.Versioned {
			fail.Detail += " (does the provider's baseURL lack a /v1 at its end?)"
		}
	case strings.EqualFold(strings.TrimSpace(kind), "text/html"):
		fail = broken(true, "a web page arrived instead of a reply; is the provider's baseURL right?")
	case res.Header.Get("Content-Encoding") != "" && res.Header.Get("Content-Encoding") != "identity":
		fail = broken(false, "the reply is compressed although identity was requested")
	default:
		return nil
	}
	fail.Status = status
	return fail
}

// errorTimeout limits each wait for the body of an error, since its status is known already.
const errorTimeout = 5 * time.Second

// yieldAll yields the events of a reply, including the one that ends it.
func (a *attempt) yieldAll(events iter.Seq2[*stoa.Event, error]) *wire.Failure {
	for ev, err := range events {
		if err != nil {
			return asFailure(err)
		}
		switch ev.Kind {
		case stoa.Started: // yielded already; codecs never yield it
			continue
		case stoa.Delta:
			if ev.Text == "" {
				continue
			}
			a.bytes += len(ev.Text)
			a.commit()
		case stoa.Thinking:
			a.bytes += ev.Thinking
		case stoa.CallStarted:
			a.commit()
		case stoa.CallDelta, stoa.Refusal:
			a.bytes += len(ev.Text)
			a.commit()
		case stoa.Summary, stoa.Called: // not counted, because their pieces were: as thinking, or as deltas
			a.commit()
		case stoa.Finished:
			a.finished = true
			a.wrote(ev)
			a.span.Finished(ev)
			a.emit(ev)
			return nil
		}
		if !a.emit(ev) {
			return nil
		}
	}
	return broken(true, "the reply ended without a final event")
}

// commit records the first text or tool call of the reply. Nothing is retried after it, because
// the reader keeps what it received, unless the call is buffered.
func (a *attempt) commit() {
	if !a.answered {
		a.answered, a.committed = true, !a.call.Buffered
		if a.committed {
			a.call.Forget()
			a.request.Body = nil
		}
		a.endRetry()
		a.route.breaker.answered(a.permit)
	}
}

func asFailure(err error) *wire.Failure {
	if f, ok := errors.AsType[*wire.Failure](err); ok {
		return f
	}
	if e, ok := errors.AsType[*stoa.Error](err); ok {
		return &wire.Failure{Err: e}
	}
	return broken(true, "%v", err)
}

// requestID returns the vendor's id of a call, at most 128 bytes, from the headers
// that vendors use.
func requestID(h http.Header) string {
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Goog-Request-Id", "X-Ds-Trace-Id", "Cf-Ray"} {
		if id := h.Get(name); id != "" {
			return id[:min(len(id), 128)]
		}
	}
	return ""
}
