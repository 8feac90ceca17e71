package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// A countedConn counts the bytes written to a connection, below TLS if TLS is used.
type countedConn struct {
	net.Conn
	written atomic.Int64 // bytes
}

// NetConn returns the underlying connection.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

// Write writes to the connection.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// counted wraps dial to return connections that count.
func counted(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: c}, nil
	}
}

// A sending records whether a request has been sent. The bytes written to the connection are
// counted too, because net/http reports bytes as written that are still in its buffer, and
// never sends them if the request ends then.
type sending struct {
	reported atomic.Bool
	conn     *countedConn // nil if the connection does not count
	before   int64        // bytes written to conn before the request
}

// trace returns ctx with a trace that records the sending of a request.
func (s *sending) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { // called again if a connection turned out to be closed
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

// left reports whether a request whose body has the given number of bytes has been sent.
func (s *sending) left(body int) bool {
	return s.reported.Load() && (s.conn == nil || s.conn.written.Load()-s.before > int64(body))
}
