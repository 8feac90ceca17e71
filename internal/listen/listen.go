// Package listen accepts connections within bounds: so many in all, so many per
// address, none that stays open because its peer does not read, and so much of
// their reading and writing at a time that small requests never wait for large
// ones. Those that are idle hold little memory (see [State]).
//
// It knows no HTTP beyond the refusals that it is given, the lines of a header (see
// [framing]) and the chunks of a body (see [Chunks]), and it ends no other connection
// whose bytes move. Reading is not its business: how long a request may take to arrive is
// decided where requests are read. Start at [New].
package listen

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stoa/internal/eventloop"
)

const (
	// chunk is how many bytes a peer must take within the write timeout: with 30
	// seconds, about 1 KiB per second.
	chunk        = 32 << 10
	writeTimeout = 30 * time.Second

	// unread is how many bytes the system takes for a peer that does not read, beside
	// what the peer's window takes; on Linux, where that can be set. By default it
	// would be up to 4 MB for each connection: copied, kept, and read by nobody.
	unread = 128 << 10

	// A refused connection is read for a moment, so that its peer sees the refusal
	// and not a reset; beyond so many at a time it is closed at once.
	refusing    = 64
	refusalTime = 500 * time.Millisecond
	refusalRead = 64 << 10
)

// Config are the bounds of a listener.
// See docs/decisions/0031-bounds-of-connections-and-bodies.md.
type Config struct {
	Connections int // at a time, in all; 0: no bound
	// PerAddress bounds the connections of one IPv4 address or one IPv6 network of
	// 64 bits; 0: no bound. Loopback, private and link-local addresses are exempt:
	// a reverse proxy sends the requests of all clients from one.
	PerAddress int
	// WriteTimeout is how long a peer may take to accept 32 KiB; 0: 30 s.
	WriteTimeout time.Duration
	// Refusal is the whole HTTP reply to a connection beyond a bound: that of its
	// address, or else that in all. Nil: it is closed without one.
	Refusal func(ofAddress bool) []byte
}

// A Listener counts the connections of another one. It is safe for concurrent use.
type Listener struct {
	net.Listener
	cfg      Config
	refusals chan struct{} // one element for each refusal under way
	turns    turns

	refusedAddress, refusedAll atomic.Uint64 // connections beyond a bound

	ready chan accepted
	done  chan struct{} // closed with the listener
	begin sync.Once     // of accepting

	mu     sync.Mutex
	open   int
	byAddr map[netip.Prefix]int
	parked map[*conn]struct{} // nil: the listener is closed
}

// New returns a listener that bounds the connections of l.
func New(l net.Listener, cfg Config) *Listener {
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = writeTimeout
	}
	return &Listener{
		Listener: l, cfg: cfg, refusals: make(chan struct{}, refusing), turns: newTurns(), byAddr: map[netip.Prefix]int{},
		ready: make(chan accepted), done: make(chan struct{}), parked: map[*conn]struct{}{},
	}
}

// Accept returns the next connection within the bounds, or one that was parked and has
// a request.
func (l *Listener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.accept() })
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// next returns the next connection within the bounds; those beyond are answered with
// the refusal and closed.
func (l *Listener) next() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := Network(c.RemoteAddr().String())
		ok, ofAddress := l.enter(addr)
		if ok {
			raw := rawOf(c)
			if raw != nil {
				boundUnread(raw)
			}
			return l.conn(c, raw, sync.OnceFunc(func() { l.leave(addr) })), nil
		}
		l.refuse(c, ofAddress)
	}
}

// Open returns how many connections are open.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Parked returns how many of the open connections are parked; see [State].
func (l *Listener) Parked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}

// Refused returns how many connections were refused because of the bound of their
// address, and of the one in all.
func (l *Listener) Refused() (ofAddress, inAll uint64) {
	return l.refusedAddress.Load(), l.refusedAll.Load()
}

// Network returns the network that an address is counted as: an IPv4 address
// itself, of an IPv6 address its first 64 bits. It is the zero prefix for a
// loopback, private or link-local address and for what is no address.
func Network(address string) netip.Prefix {
	var ip netip.Addr
	if both, err := netip.ParseAddrPort(address); err == nil {
		ip = both.Addr()
	} else if ip, err = netip.ParseAddr(address); err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() {
		return netip.Prefix{}
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // both lengths fit their addresses
	return p
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
	listener *Listener
	bulk     bulk
	framing  framing // of reads, which net/http makes one after the other
	leave    func()
	timeout  time.Duration

	// Of reads, which are made one after the other. See [parkAfter].
	ended     bool      // a request did, and no deadline was set since
	idle      bool      // net/http waits for the next request
	idleUntil time.Time // the deadline as it was set; zero: none
	resumed   bool      // first was read, and is the next byte
	first     [1]byte

	mu       sync.Mutex
	custody  custody
	deadline time.Time // of writes, as it was set; zero: none
	inForce  time.Time // of writes, of the connection

	gathered *[]byte // what waits for the next write; nil: nothing does. See [Chunks]
	ending   bool    // it is the last chunk of a body
}

// conn returns a connection of the listener; leave stops counting it.
func (l *Listener) conn(c net.Conn, raw syscall.RawConn, leave func()) *conn {
	return &conn{Conn: c, listener: l, bulk: bulk{conn: c, raw: raw, turns: l.turns}, leave: leave, timeout: l.cfg.WriteTimeout}
}

// Read reads what there is. Large reads take turns; see [bulk]. A header that others
// may read differently ends the connection; see [framing].
func (c *conn) Read(b []byte) (int, error) {
	if c.framing.err != nil {
		return 0, c.framing.err
	}
	var n int
	var err error
	switch {
	case c.resumed && len(b) > 0:
		c.resumed = false
		n = copy(b, c.first[:])
	case len(b) <= small || !c.bulk.ok():
		c.bulk.got = 0 // large reads of a body are never mixed with those of the next head
		n, err = c.Conn.Read(b)
	default:
		n, err = c.bulk.read(b[:min(len(b), chunk)])
	}
	if c.idle && n > 0 {
		c.idle = false
	} else if c.idle && errors.Is(err, os.ErrDeadlineExceeded) && c.parks() {
		return 0, io.EOF
	}
	if n > 0 {
		if used := c.framing.check(b[:n]); used < n {
			n, err = used, nil
			if used == 0 {
				err = c.framing.err
			}
		}
	}
	return n, err
}

// Write writes b in pieces, each with a deadline of its own. Large pieces take
// turns; see [bulk].
func (c *conn) Write(b []byte) (int, error) {
	if c.gathered != nil {
		return c.gather(b)
	}
	return c.write(b, nil)
}

// write is Write for a function that may be on a loop, which it leaves before it has to
// wait.
func (c *conn) write(b []byte, task *eventloop.Task) (int, error) {
	written := 0
	for {
		piece := b[written:min(len(b), written+chunk)]
		if err := c.extend(); err != nil {
			return written, err
		}
		var n int
		var err error
		switch {
		case task.OnLoop() && len(piece) <= small && c.bulk.ok():
			if n, err = c.bulk.writeNow(piece); err == nil && n < len(piece) {
				task.Leave()
			}
		case task.OnLoop():
			task.Leave()
		case len(piece) <= small || !c.bulk.ok():
			n, err = c.Conn.Write(piece)
		default:
			n, err = c.bulk.write(piece)
		}
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

// extend sees to the deadline of the next piece: the earlier one of the timeout and
// what was set. So that it is not set anew for each small piece, the timeout is
// exceeded by up to an eighth.
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

// SetWriteDeadline bounds writes beside the timeout of their pieces.
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

// CloseWrite ends what is sent; the peer may still be read.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
