package http1

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A host is what is kept of a server.
type host struct {
	addr string  // to dial
	idle []*conn // the one used last is the last
}

// A conn is a connection to a server.
type conn struct {
	net.Conn
	from   io.Reader // Conn, or what it wraps
	host   string    // of the URL
	raw    syscall.RawConn
	peek   func(fd uintptr) bool // sets quiet; made once
	quiet  bool                  // nothing is to be read
	cancel func()
	used   bool // a request was served
	since  time.Time

	mu  sync.Mutex // of what a cancel ends: one socket or the other
	own ownSocket  // in place of Conn, if it is open
}

// Read reads from the connection.
func (c *conn) Read(p []byte) (int, error) { return c.from.Read(p) }

// Close closes the connection.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own.open() {
		return c.own.close()
	}
	return c.Conn.Close()
}

// interrupt ends reads under way and those that follow.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own.open() {
		c.own.interrupt()
	} else {
		_ = c.Conn.Close()
	}
}

// get returns a connection that is idle, or a new one.
func (t *Transport) get(ctx context.Context, name string) (*conn, error) {
	for {
		c, addr := t.take(name)
		switch {
		case c == nil:
			return t.open(ctx, name, addr)
		case c.alive():
			return c, nil
		}
		c.Close()
	}
}

// take takes an idle connection to a server, and returns its address if there is none.
func (t *Transport) take(name string) (*conn, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.host(name)
	last := len(h.idle) - 1
	if last < 0 {
		return nil, h.addr
	}
	c := h.idle[last]
	h.idle[last] = nil
	h.idle = h.idle[:last]
	return c, ""
}

// host returns what is kept of a server. t.mu is held.
func (t *Transport) host(name string) *host {
	h := t.hosts[name]
	if h == nil {
		h = &host{addr: address(name)}
		t.hosts[name] = h
	}
	return h
}

// address returns the address to dial for the host of a URL.
func address(name string) string {
	u := url.URL{Host: name}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (t *Transport) open(ctx context.Context, name, addr string) (*conn, error) {
	dialled, err := t.dial(ctx, "tcp", addr)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	c := &conn{host: name}
	c.cancel = c.interrupt
	c.use(dialled)
	return c, nil
}

// use makes the connection the one below.
func (c *conn) use(below net.Conn) {
	c.Conn, c.from, c.raw = below, below, nil
	if over, ok := below.(interface{ NetConn() net.Conn }); ok {
		c.from = over.NetConn()
	}
	of, ok := c.from.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return
	}
	c.raw = raw
	if c.peek == nil {
		c.peek = func(fd uintptr) bool {
			c.quiet = quiet(fd)
			return true
		}
	}
}

// alive reports whether an idle connection is as a request left it: the server has not
// closed it, and has not written to it, which no request asked for.
func (c *conn) alive() bool {
	if c.raw == nil {
		return true
	}
	c.quiet = false
	return c.raw.Read(c.peek) == nil && c.quiet
}

// put keeps a connection for other requests.
func (t *Transport) put(c *conn) {
	c.used, c.since = true, time.Now()
	if !t.keep(c) {
		c.Close()
	}
}

// keep reports whether it kept the connection.
func (t *Transport) keep(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.host(c.host)
	if len(h.idle) >= cmp.Or(t.base.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost) {
		return false
	}
	h.idle = append(h.idle, c)
	if limit := t.base.IdleConnTimeout; limit > 0 && !t.set {
		t.setSweep(limit)
	}
	return true
}

// setSweep has old connections closed after a while. t.mu is held.
func (t *Transport) setSweep(after time.Duration) {
	t.set = true
	if t.sweep == nil {
		t.sweep = time.AfterFunc(after, t.closeOld)
	} else {
		t.sweep.Reset(after)
	}
}

// closeOld closes connections that have been idle for IdleConnTimeout, and comes back
// for the next one.
func (t *Transport) closeOld() {
	limit := t.base.IdleConnTimeout
	oldest := t.closeIdle(time.Now().Add(-limit))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set = false; !oldest.IsZero() {
		t.setSweep(max(time.Until(oldest.Add(limit)), time.Millisecond))
	}
}

// closeIdle closes connections that have been idle since that time or before. It
// returns since when the oldest of the others has been idle.
func (t *Transport) closeIdle(since time.Time) (oldest time.Time) {
	var old []*conn
	t.mu.Lock()
	for name, h := range t.hosts {
		n := 0 // of them are old: the first ones
		for n < len(h.idle) && !h.idle[n].since.After(since) {
			n++
		}
		old = append(old, h.idle[:n]...)
		h.idle = slices.Delete(h.idle, 0, n)
		if len(h.idle) == 0 {
			delete(t.hosts, name)
		} else if first := h.idle[0].since; oldest.IsZero() || first.Before(oldest) {
			oldest = first
		}
	}
	t.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
	return oldest
}
