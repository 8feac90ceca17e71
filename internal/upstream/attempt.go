package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/wire"
)

// An attempt is one call's request to one route; a retry sends it again.
type attempt struct {
	*exchange
	provider *provider
	route    *route
	spec     stoa.Route
	permit   *permit
	deadline time.Time // of the whole call, at this provider

	codec     wire.Codec
	request   wire.Request // what the codec made of the call; kept for a retry
	url       *url.URL
	requestID string // the vendor's, of the last request
	answered  bool   // the last request got its first text or tool call
}

// send sends the request and yields its reply. It returns nil and nil when the reply
// came to its end or the reader stopped, and an error only when ctx ended.
func (a *attempt) send() (*wire.Failure, error) {
	a.route.requests.Add(1)
	a.requestID, a.answered = "", false
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	w := newWatch(cancel, a.deadline)
	defer w.stop()

	var fail *wire.Failure
	if a.spec.Wire == sandboxWire {
		fail = a.sandbox(ctx, w)
	} else {
		fail = a.exchangeHTTP(ctx, w)
	}
	if fail == nil || a.stopped {
		return nil, nil
	}
	// A reply that a timeout of ours cut off failed for that reason, whatever the
	// codec made of the cut; but a status that came before says more.
	if err := a.ctx.Err(); err != nil {
		return nil, err
	}
	if e, ok := context.Cause(ctx).(expired); ok && fail.Status == 0 {
		fail = e.failure(a.provider.timeouts)
	}
	a.redact(fail)
	return fail, nil
}

// exchangeHTTP sends the request over HTTP and yields the events of its reply.
func (a *attempt) exchangeHTTP(ctx context.Context, w *watch) *wire.Failure {
	if fail := a.encode(); fail != nil {
		return fail
	}
	req := &http.Request{
		Method: http.MethodPost, URL: a.url, Host: a.url.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        a.request.Header,
		Body:          io.NopCloser(bytes.NewReader(a.request.Body)),
		ContentLength: int64(len(a.request.Body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a.request.Body)), nil },
	}
	w.start(firstByte, a.provider.timeouts.FirstByte)
	res, err := a.pool.cfg.Transport.RoundTrip(req.WithContext(ctx))
	w.stop()
	if err != nil {
		if isShortage(err) {
			return shortage(err)
		}
		return broken(true, "no reply: %v", err)
	}
	body := &reader{from: res.Body, watch: w, idle: a.provider.timeouts.Idle, left: a.pool.cfg.MaxReplyBytes}
	defer body.close()
	a.requestID = requestID(res.Header)
	if fail := a.rejection(res, body); fail != nil {
		return fail
	}
	if a.pool.cfg.Logger.Enabled(ctx, slog.LevelDebug) {
		a.pool.cfg.Logger.DebugContext(ctx, "an upstream accepted a call", "provider", a.provider.Name, "model", a.spec.Model, "status", res.StatusCode, "requestId", hide(a.requestID, a.provider.APIKey))
	}
	if !a.emit(stoa.Event{Kind: stoa.Started, Provider: a.provider.Name}) {
		return nil
	}
	fail := a.yieldAll(a.codec.Decode(body, a.spec, len(a.call.Tools) > 0))
	switch {
	case a.finished:
		body.drain()
	case fail == nil: // the reader stopped
	case body.left < 0:
		return broken(false, "the reply is larger than %d bytes", a.pool.cfg.MaxReplyBytes)
	}
	return fail
}

// encode builds the request; a retry reuses it.
func (a *attempt) encode() *wire.Failure {
	if a.codec != nil {
		return nil
	}
	codec, ok := a.pool.codec(a.spec.Wire)
	if !ok {
		return broken(false, "the wire %q does not exist", a.spec.Wire)
	}
	request, err := codec.Encode(a.call, a.spec, a.provider.APIKey)
	if err != nil {
		fail := asFailure(err)
		fail.Caller, fail.Retry = true, false
		return fail
	}
	to, err := join(a.provider.base, request.Path)
	if err != nil {
		return broken(false, "the request's path cannot be added to the base URL")
	}
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("User-Agent", a.pool.userAgent)
	request.Header.Set("Accept-Encoding", "identity")
	if user := to.User; user != nil && request.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		(&http.Request{Header: request.Header}).SetBasicAuth(user.Username(), password)
	}
	a.codec, a.request, a.url = codec, request, to
	return nil
}

// rejection returns the failure that a response means, or nil if the vendor accepted
// the call.
func (a *attempt) rejection(res *http.Response, body *reader) *wire.Failure {
	status := res.StatusCode
	var fail *wire.Failure
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case status >= 300 && status < 400:
		fail = broken(false, "status %d: redirects are not followed; the provider's baseURL must be the final one", status)
	case status < 200 || status == http.StatusNoContent || status == http.StatusResetContent:
		fail = broken(true, "status %d carries no reply", status)
	case status >= 400:
		body.idle = min(body.idle, errorTimeout)
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBytes))
		fail = a.codec.DecodeError(status, res.Header, text)
		if status == http.StatusNotFound && a.provider.base.Path == "" && (a.spec.Wire == "responses" || a.spec.Wire == "chat") {
			fail.Detail += " (does the provider's baseURL lack a /v1 at its end?)"
		}
	case kind == "text/html":
		fail = broken(true, "a web page came instead of a reply; is the provider's baseURL right?")
	case res.Header.Get("Content-Encoding") != "" && res.Header.Get("Content-Encoding") != "identity":
		fail = broken(false, "the reply is compressed though identity was asked for")
	default:
		return nil
	}
	fail.Status = status
	return fail
}

// errorTimeout bounds each wait for the body of an error whose status is known.
const errorTimeout = 5 * time.Second

// yieldAll yields the events of a reply up to the one that ends it.
func (a *attempt) yieldAll(events iter.Seq2[stoa.Event, error]) *wire.Failure {
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
			a.commit()
		case stoa.Called:
			a.commit()
		case stoa.Finished:
			a.finished = true
			a.emit(ev)
			return nil
		}
		if !a.emit(ev) {
			return nil
		}
	}
	return broken(true, "the reply ended without an end")
}

// commit records the first text or tool call of the reply: from here on nothing is
// retried, unless the call is buffered.
func (a *attempt) commit() {
	if !a.answered {
		a.answered, a.committed = true, !a.call.Buffered
		a.endRetry()
		a.route.breaker.answered(a.permit)
	}
}

// asFailure returns err as a failure.
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
