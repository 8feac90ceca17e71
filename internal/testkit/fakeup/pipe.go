package fakeup

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// A pipeListener accepts in-memory connections (see [net.Pipe]), so that client
// and server can run in a testing/synctest bubble, where sockets cannot.
type pipeListener struct {
	host  string
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func newPipeServer(host string, h http.Handler) (*httptest.Server, *pipeListener) {
	l := &pipeListener{host: host, conns: make(chan net.Conn), done: make(chan struct{})}
	return &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}, l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.host) }

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) + ":80" }

// Transport returns a copy of base that dials the given servers, which were
// started with [Options.Pipe], by their host names.
func Transport(base *http.Transport, servers ...*Server) *http.Transport {
	t := base.Clone()
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		for _, s := range servers {
			if s.pipe == nil || s.pipe.Addr().String() != addr {
				continue
			}
			ours, theirs := net.Pipe()
			select {
			case s.pipe.conns <- theirs:
				return ours, nil
			case <-s.pipe.done:
				return nil, fmt.Errorf("dial %s: %w", addr, net.ErrClosed)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return nil, fmt.Errorf("dial %s: no such fake", addr)
	}
	return t
}
