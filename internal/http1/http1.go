// Package http1 makes requests over HTTP/1.1 within the goroutine that asks for them:
// it writes the request, waits for the reply, and the reader of its body reads from
// the connection. It starts no goroutine and holds no buffer for a connection, so a
// stream that brings little now and then costs little. Net/http's transport has two
// goroutines and two buffers for each connection.
//
// Start with [New]. What it leaves to net/http: TLS and with it HTTP/2, proxies, and
// requests with large bodies.
// See docs/decisions/0056-requests-in-the-goroutine-of-their-caller.md.
package http1

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// MaxBody is the largest body in bytes of a request that is made here. A server
	// may answer before it has read a larger one, which only a transport that reads
	// while it writes can see.
	MaxBody = 64 << 10

	defaultHeader = 1 << 20  // bytes; that of net/http
	firstRead     = 16 << 10 // bytes of a reply that are read at once with its header
	maxInterim    = 5        // replies 1xx before the one that counts, as in net/http
)

// A Transport is a [http.RoundTripper]. It is safe for concurrent use.
type Transport struct {
	base      *http.Transport
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	maxHeader int64

	mu    sync.Mutex
	hosts map[string]*host // by the host of a URL
	sweep *time.Timer      // closes what was idle for long; nil: no connection ever was
	set   bool             // sweep will go off
}

// New returns a transport with the settings of base that concern connections without
// TLS: how they are dialled, how many may be idle and for how long, how large a header
// may be. What is not for this package goes through base.
func New(base *http.Transport) *Transport {
	t := &Transport{base: base, dial: base.DialContext, maxHeader: cmp.Or(base.MaxResponseHeaderBytes, defaultHeader), hosts: map[string]*host{}}
	if t.dial == nil {
		t.dial = new(net.Dialer).DialContext
	}
	return t
}

// CloseIdleConnections closes connections that no request is using.
func (t *Transport) CloseIdleConnections() {
	t.base.CloseIdleConnections()
	t.closeIdle(time.Now())
}

// RoundTrip implements [http.RoundTripper]. The trace of a request is told of its
// connection and of the request being written. A request on a connection that the
// server closed meanwhile is sent again on another only if nothing of it was written.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.takes(req) {
		return t.base.RoundTrip(req)
	}
	out := output.Get().(*[]byte)
	defer output.Put(out)
	var err error
	if *out, err = appendRequest((*out)[:0], req); err != nil {
		return nil, err
	}
	ctx := req.Context()
	for {
		c, err := t.get(ctx, req.URL.Host)
		if err != nil {
			return nil, err
		}
		res, again, err := t.exchange(ctx, c, req, *out)
		if !again {
			return res, err
		}
	}
}

// output holds what requests were built in.
var output = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

// takes reports whether a request is made here.
func (t *Transport) takes(req *http.Request) bool {
	if !canPeek || req.URL.Scheme != "http" || req.Method != http.MethodPost || req.Close || t.base.DisableKeepAlives || req.ContentLength <= 0 || req.ContentLength > MaxBody ||
		len(req.TransferEncoding) > 0 || len(req.Trailer) > 0 || !httpguts.ValidHostHeader(req.URL.Host) { // net/http takes hosts in other scripts, too
		return false
	}
	if t.base.Proxy != nil {
		if proxy, err := t.base.Proxy(req); proxy != nil || err != nil {
			return false
		}
	}
	return true
}

// exchange writes the request and reads the header of its reply. It reports again if
// nothing was written, since the server had closed a connection that was idle.
func (t *Transport) exchange(ctx context.Context, c *conn, req *http.Request, request []byte) (res *http.Response, again bool, err error) {
	stop := context.AfterFunc(ctx, c.cancel)
	fail := func(err error) error {
		stop()
		c.Close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.used})
	}
	n, wrote := c.Write(request)
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: wrote})
	}
	if wrote != nil && n == 0 && c.used && ctx.Err() == nil {
		return nil, true, fail(wrote)
	}
	// A server that refuses a request may do so before it has read it.
	head := &header{from: c, left: t.maxHeader}
	in := input.Get().(*bufio.Reader)
	in.Reset(head)
	if res, err = readHeader(in, req); err != nil {
		putInput(in)
		return nil, false, fail(readError(head, wrote, err))
	}
	b := &body{t: t, conn: c, ctx: ctx, stop: stop, in: in, keep: wrote == nil && !res.Close && res.StatusCode >= 200}
	b.begin(res)
	return res, false, nil
}

// A header reads the header of a reply from a connection, up to a limit.
type header struct {
	from *conn
	left int64 // bytes
}

// Read implements [io.Reader].
func (h *header) Read(p []byte) (int, error) {
	if h.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := h.from.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	return n, err
}

// input holds the readers of headers.
var input = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, firstRead) }}

func putInput(in *bufio.Reader) {
	in.Reset(nil)
	input.Put(in)
}

// appendRequest appends the request with its body, and closes the body.
func appendRequest(b []byte, req *http.Request) ([]byte, error) {
	defer req.Body.Close()
	b = append(b, req.Method...)
	b = append(b, ' ')
	b = append(b, req.URL.RequestURI()...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	name := cmp.Or(req.Host, req.URL.Host)
	if !httpguts.ValidHostHeader(name) {
		return b, errors.New("http1: the host is not valid")
	}
	b = append(b, name...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, req.ContentLength, 10)
	b = append(b, "\r\n"...)
	for name, values := range req.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return b, fmt.Errorf("http1: the header field %q has no valid name", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) { // it may be a secret
				return b, fmt.Errorf("http1: the header field %q has no valid value", name)
			}
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
			b = append(b, "\r\n"...)
		}
	}
	b = append(b, "\r\n"...)
	at, size := len(b), int(req.ContentLength)
	b = append(b, make([]byte, size)...)
	if _, err := io.ReadFull(req.Body, b[at:]); err != nil {
		return b, fmt.Errorf("http1: the body of the request: %w", err)
	}
	return b, nil
}
