package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// MaxHeader is the maximum size of the headers of a reply, in bytes.
const MaxHeader = 64 << 10

// Limits are the limits of a request and its reply.
type Limits struct {
	Connect   time.Duration // until the connection is established, and again for TLS; 0 means 5 s
	Total     time.Duration // for the whole exchange; 0 means that of the request's context
	Idle      time.Duration // between two bytes of the body; 0 means 30 s
	Body      int64         // bytes of a body; a larger one is an error
	Cut       bool          // cuts a larger body instead
	ErrorBody int64         // bytes of the body of a status other than 2xx; the rest is cut. 0 means 4 KiB

	// Public ignores the additional destinations that the operator allows.
	Public bool
}

// A Client sends requests within limits. It is safe for concurrent use.
type Client struct {
	network   *Network
	limits    Limits
	transport *http.Transport
}

// Client returns a client for requests with these limits.
func (n *Network) Client(l Limits) *Client {
	l.Connect = cmp.Or(l.Connect, 5*time.Second)
	l.Idle = cmp.Or(l.Idle, 30*time.Second)
	l.ErrorBody = cmp.Or(l.ErrorBody, 4<<10)
	return &Client{network: n, limits: l, transport: n.transport(l.Connect)}
}

// A Reason says why a reply is missing or incomplete.
type Reason string

// The reasons.
const (
	NotAllowed  Reason = "not_allowed" // nothing was sent: the address must not be accessed
	Unreachable Reason = "unreachable" // the address is unknown, or the connection failed
	TLS         Reason = "tls"         // the TLS handshake failed, or the certificate is invalid
	Timeout     Reason = "timeout"     // of [Limits], or of the request's context
	Canceled    Reason = "canceled"    // the request's context ended
	Broken      Reason = "broken"      // the connection ended too early, or it was not HTTP
	TooLarge    Reason = "too_large"   // the body
	Encoded     Reason = "encoded"     // the body is compressed, which was not requested
)

// An Error is a failed exchange. Its text is for callers.
type Error struct {
	Reason Reason
	Sent   bool // part of the request may have reached the server
	cause  error
}

// Error returns a sentence that reveals nothing about the network.
func (e *Error) Error() string {
	switch e.Reason {
	case NotAllowed:
		return "the address must not be accessed from this service"
	case Unreachable:
		return "the server is not reachable"
	case TLS:
		return "a valid TLS connection to the server is not possible"
	case Timeout:
		return "the server took too long"
	case Canceled:
		return "the request was cancelled"
	case TooLarge:
		return "the reply is too large"
	case Encoded:
		return "the reply is compressed, which was not requested"
	default:
		return "the connection ended before the reply was complete"
	}
}

// Unwrap returns the cause, for logs of the operator.
func (e *Error) Unwrap() error { return e.cause }

var (
	errTotal = errors.New("the whole time is over")
	errIdle  = errors.New("nothing arrived for too long")
)

type exchange struct {
	ctx  context.Context
	sent atomic.Bool
}

func (x *exchange) fail(err error) *Error {
	e := &Error{Reason: Broken, Sent: x.sent.Load(), cause: err}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       *net.OpError
	)
	cause := context.Cause(x.ctx)
	switch {
	case errors.Is(err, errNotAllowed):
		e.Reason = NotAllowed
	case cause == errTotal || cause == errIdle || errors.Is(cause, context.DeadlineExceeded):
		e.Reason, e.cause = Timeout, cause
	case cause != nil:
		e.Reason, e.cause = Canceled, cause
	case errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) && strings.HasSuffix(alert.Op, " error"):
		e.Reason = TLS
	case !e.Sent:
		e.Reason = Unreachable
	}
	return e
}

// RoundTrip sends one request as an [http.RoundTripper]. Its errors, and those of the reply's
// body, are [*Error]. The body must be closed.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	t := target{plain: req.URL.Scheme != "https", public: c.limits.Public, connect: c.limits.Connect}
	x := &exchange{}
	x.ctx = httptrace.WithClientTrace(context.WithValue(ctx, targetKey{}, t), &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { x.sent.Store(true) },
	})
	end := func() { cancel(nil) }
	if c.limits.Total > 0 {
		timer := time.AfterFunc(c.limits.Total, func() { cancel(errTotal) })
		end = func() { timer.Stop(); cancel(nil) }
	}
	if err := c.network.check(req.URL, t); err != nil {
		end()
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &Error{Reason: NotAllowed, cause: err}
	}
	out := req.Clone(x.ctx)
	out.GetBody = nil // so that nothing is sent twice
	out.Header.Set("Accept-Encoding", "identity")
	resp, err := c.transport.RoundTrip(out)
	if err != nil {
		failed := x.fail(err)
		end()
		return nil, failed
	}
	b := &body{ReadCloser: resp.Body, x: x, left: c.limits.Body, idle: c.limits.Idle, cancel: cancel, end: end}
	resp.Body = b
	whole := resp.StatusCode/100 == 2
	if !whole {
		b.left, b.cut = c.limits.ErrorBody, true
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		if whole {
			b.Close()
			return nil, &Error{Reason: Encoded, Sent: true}
		}
		b.left = 0
	}
	return resp, nil
}

// A body is the body of a reply, within the limits.
type body struct {
	io.ReadCloser
	x      *exchange
	left   int64
	cut    bool // the part beyond the limit is cut off
	idle   time.Duration
	cancel context.CancelCauseFunc
	end    func()
}

// Read reads the body, and fails if it exceeds its limit.
func (b *body) Read(p []byte) (int, error) {
	if b.cut && b.left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	timer := time.AfterFunc(b.idle, func() { b.cancel(errIdle) })
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	if int64(n) > b.left {
		n, b.left = int(b.left), 0
		if b.cut {
			return n, io.EOF
		}
		return n, &Error{Reason: TooLarge, Sent: true}
	}
	b.left -= int64(n)
	if err != nil && (err != io.EOF || b.x.ctx.Err() != nil) { // because a body cut at the deadline may look complete
		err = b.x.fail(err)
	}
	return n, err
}

// Close ends the exchange.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// A Reply is a complete reply.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
	Cut    bool // the body of a status of 2xx is larger, and this is its beginning; see [Limits]
}

// Exchange sends one request and reads the whole reply. A reply of any status is a success;
// errors are [*Error].
func (c *Client) Exchange(req *http.Request) (*Reply, error) {
	resp, err := c.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if limit := c.limits.Body; resp.StatusCode/100 == 2 && resp.ContentLength > limit && !c.limits.Cut {
		return nil, &Error{Reason: TooLarge, Sent: true}
	}
	data, err := io.ReadAll(resp.Body)
	failed, _ := errors.AsType[*Error](err)
	cut := c.limits.Cut && failed != nil && failed.Reason == TooLarge
	if err != nil && !cut {
		return nil, err
	}
	return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: data, Cut: cut}, nil
}
