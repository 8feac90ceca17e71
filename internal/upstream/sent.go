package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// A countedConn counts what was written to a connection, beneath TLS if there is any.
type countedConn struct {
	net.Conn
	written atomic.Int64 // bytes
}

// NetConn returns the connection beneath.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

// Write writes to the connection.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// counted returns dial with connections that count.
func counted(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: c}, nil
	}
}

// A sending records whether a request has left. What net/http reports as written may
// still lie in its buffer, from which it never leaves if the request ends then; so
// the bytes on the connection are counted as well.
type sending struct {
	reported atomic.Bool
	conn     *countedConn // nil: none of ours
	before   int64        // bytes that were written to conn before the request
}

// trace returns ctx with a trace of a request's way to its vendor.
func (s *sending) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { // once more where a connection turned out to be closed
			s.reported.Store(false)
			c := info.Conn
			if over, ok := c.(*tls.Conn); ok {
				c = over.NetConn()
			}
			if s.conn, _ = c.(*countedConn); s.conn != nil {
				s.before = s.conn.written.Load()
			}
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				s.reported.Store(true)
			}
		},
	})
}

// left reports whether a request with a body of so many bytes has left.
func (s *sending) left(body int) bool {
	return s.reported.Load() && (s.conn == nil || s.conn.written.Load()-s.before > int64(body))
}
