// Package listen accepts connections within bounds: a maximum of connections in all and per
// address, and a minimum pace at which a peer must read what is sent to it.
//
// Of HTTP it only has the refusals in its configuration. The timeouts of requests are
// enforced where requests are read. Start at [New].
package listen

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/stoa"
)

const (
	// chunk is the number of bytes that a peer must accept within the write timeout:
	// with 30 seconds, about 1 KiB per second.
	chunk        = 32 << 10
	writeTimeout = 30 * time.Second

	// unread is the maximum number of bytes that the system keeps for a peer that does
	// not read, besides what the peer's window accepts; on Linux, where that can be set.
	// The default would be up to 4 MB for each connection.
	unread = 128 << 10

	// A refused connection is read for refusalTime, so that its peer sees the refusal
	// instead of a reset. Beyond the maximum of refusing connections at a time it is
	// closed immediately.
	refusing    = 64
	refusalTime = 500 * time.Millisecond
	refusalRead = 64 << 10
)

// Config are the bounds of a listener.
// See docs/decisions/0031-limit-connections-and-bodies-by-their-progress.md.
type Config struct {
	Connections int // maximum in total; 0 means no limit
	// PerAddress is the maximum of connections from one IPv4 address or one IPv6 network of
	// 64 bits; 0 means no limit. Proxies are exempt, because a reverse proxy sends the requests of
	// all clients from one address.
	PerAddress int
	Proxies    stoa.Proxies
	// WriteTimeout is the maximum time in which a peer must accept 32 KiB; 0 means 30 s.
	WriteTimeout time.Duration
	// Refusal returns the whole HTTP reply to a connection beyond a limit: the one per
	// address, or else the total. Nil closes the connection without a reply.
	Refusal func(ofAddress bool) []byte
}

// A Listener counts the connections of another one. It is safe for concurrent use.
type Listener struct {
	net.Listener
	cfg      Config
	refusals chan struct{} // one element per refusal in progress

	refusedAddress, refusedAll atomic.Uint64 // connections beyond a bound

	mu     sync.Mutex
	open   int
	byAddr map[netip.Prefix]int
}

// New returns a listener that bounds the connections of l.
func New(l net.Listener, cfg Config) *Listener {
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = writeTimeout
	}
	return &Listener{Listener: l, cfg: cfg, refusals: make(chan struct{}, refusing), byAddr: map[netip.Prefix]int{}}
}

// Accept returns the next connection within the bounds; those beyond are answered with
// the refusal and closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := l.cfg.Proxies.Network(c.RemoteAddr().String())
		ok, ofAddress := l.enter(addr)
		if ok {
			boundUnread(c)
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(addr) }), timeout: l.cfg.WriteTimeout}, nil
		}
		l.refuse(c, ofAddress)
	}
}

// Open returns the number of open connections.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Refused returns the numbers of connections that were refused because of the limit per
// address, and because of the total.
func (l *Listener) Refused() (ofAddress, inAll uint64) {
	return l.refusedAddress.Load(), l.refusedAll.Load()
}

func (l *Listener) enter(addr netip.Prefix) (ok, ofAddress bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cfg.PerAddress > 0 && addr.IsValid() && l.byAddr[addr] >= l.cfg.PerAddress:
		return false, true
	case l.cfg.Connections > 0 && l.open >= l.cfg.Connections:
		return false, false
	}
	l.open++
	if addr.IsValid() {
		l.byAddr[addr]++
	}
	return true, false
}

func (l *Listener) leave(addr netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !addr.IsValid() {
		return
	}
	if l.byAddr[addr]--; l.byAddr[addr] == 0 {
		delete(l.byAddr, addr)
	}
}

// refuse answers a connection beyond a bound without blocking.
func (l *Listener) refuse(c net.Conn, ofAddress bool) {
	if ofAddress {
		l.refusedAddress.Add(1)
	} else {
		l.refusedAll.Add(1)
	}
	select {
	case l.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { <-l.refusals }()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(refusalTime))
		if l.cfg.Refusal != nil {
			_, _ = c.Write(l.cfg.Refusal(ofAddress))
		}
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, c, refusalRead)
	}()
}

// A conn is a counted connection whose peer must keep reading.
type conn struct {
	net.Conn
	leave   func()
	timeout time.Duration

	mu       sync.Mutex
	deadline time.Time // of writes, as set by the user; zero means none
	inForce  time.Time // of writes, as set on the connection
}

// Write writes b in pieces, each with its own deadline.
func (c *conn) Write(b []byte) (int, error) {
	written := 0
	for {
		if err := c.extend(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(b[written:min(len(b), written+chunk)])
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

// extend sets the deadline of the next piece: the earlier one of the timeout and the user's
// deadline. To avoid setting it for every small piece, the timeout is exceeded by up to an
// eighth.
func (c *conn) extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := time.Now().Add(c.timeout)
	most := least.Add(c.timeout / 8)
	if !c.deadline.IsZero() && c.deadline.Before(most) {
		most = c.deadline
		least = earlier(least, most)
	}
	if !c.inForce.Before(least) && !c.inForce.After(most) {
		return nil
	}
	c.inForce = most
	return c.Conn.SetWriteDeadline(most)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// SetWriteDeadline limits writes in addition to the timeout of their pieces.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.inForce = t, t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets the deadlines of reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Close closes the connection and stops counting it.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite closes the sending direction; the peer may still be read.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
