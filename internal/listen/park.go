package listen

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// parkAfter is how long a connection waits for its next request in net/http, where it
// holds two buffers and the stack of a goroutine that has served requests. Then it is
// parked: net/http is told that it ended, a small goroutine waits for its next byte, and
// with that it is accepted as if it were new.
// See docs/decisions/0057-idle-connections-are-parked.md.
const parkAfter = 500 * time.Millisecond

// A custody is who has a connection.
type custody int

const (
	served  custody = iota // net/http
	parking                // net/http was told that it ended, and is about to close it
	parked                 // a goroutine that waits for its next byte
	closed
)

// State is a ConnState of [http.Server]. Without it no connection is parked.
func State(c net.Conn, s http.ConnState) {
	if ours, ok := c.(*conn); ok && s == http.StateIdle {
		ours.ended = true
	}
}

// SetReadDeadline sets the deadline of reads. The first one after a request is that for
// which net/http waits for the next request; it comes when it is time to park the
// connection. With the one after that it has the next request, be it in its buffer.
//
// net/http also ends a read that waits for the end of the client, in a goroutine of its
// own, by a deadline: nothing is written here then.
func (c *conn) SetReadDeadline(t time.Time) error {
	switch {
	case c.ended:
		c.ended, c.idle, c.idleUntil = false, true, t
		if early := time.Now().Add(parkAfter); c.framing.between() && (t.IsZero() || early.Before(t)) {
			t = early
		}
	case c.idle:
		c.idle = false
	}
	return c.Conn.SetReadDeadline(t)
}

// parks reports whether the connection, on which nothing came for a while, is to be
// parked. From then on its next Close parks it.
func (c *conn) parks() bool {
	if !c.framing.between() || !c.idleUntil.IsZero() && !time.Now().Before(c.idleUntil) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.custody != served {
		return false
	}
	c.custody = parking
	return true
}

// Close closes the connection and stops counting it, or parks it.
func (c *conn) Close() error {
	c.mu.Lock()
	was := c.custody
	if c.custody = closed; was == parking && c.listener.park(c) {
		c.custody = parked
	}
	now := c.custody
	c.mu.Unlock()
	switch {
	case now == parked:
		go c.wait()
		return nil
	case was == closed:
		return net.ErrClosed
	}
	return c.drop()
}

// drop closes the connection and stops counting it.
func (c *conn) drop() error {
	c.leave()
	return c.Conn.Close()
}

// wait waits for the next byte of a parked connection and has it accepted again.
func (c *conn) wait() {
	_ = c.Conn.SetReadDeadline(c.idleUntil)
	n, err := c.Conn.Read(c.first[:])
	l := c.listener
	if !l.unpark(c) { // its listener was closed, and has closed it
		return
	}
	if n == 0 || err != nil {
		_ = c.drop()
		return
	}
	// What net/http had is still in its hands for a moment.
	again := l.conn(c.Conn, c.bulk.raw, c.leave)
	again.first, again.resumed = c.first, true
	if !l.deliver(accepted{conn: again}) {
		_ = again.Close()
	}
}

// park notes that a connection is parked, and reports whether it may be.
func (l *Listener) park(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked == nil { // closed
		return false
	}
	l.parked[c] = struct{}{}
	return true
}

// unpark ends that; it reports whether the connection was still parked.
func (l *Listener) unpark(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, was := l.parked[c]
	delete(l.parked, c)
	return was
}

// An accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// accept accepts connections until the listener is closed.
func (l *Listener) accept() {
	for {
		c, err := l.next()
		if errors.Is(err, net.ErrClosed) {
			l.end()
			return
		}
		if !l.deliver(accepted{c, err}) {
			if c != nil {
				_ = c.Close()
			}
			return
		}
	}
}

// deliver hands a connection to Accept; false: the listener was closed.
func (l *Listener) deliver(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.done:
		return false
	}
}

// Close closes the listener and the parked connections.
func (l *Listener) Close() error {
	l.end()
	return l.Listener.Close()
}

// end ends accepting and closes the parked connections.
func (l *Listener) end() {
	l.mu.Lock()
	all := l.parked
	l.parked = nil
	l.mu.Unlock()
	if all != nil {
		close(l.done)
	}
	for c := range all {
		_ = c.drop()
	}
}

// between reports whether the bytes so far end with a request.
func (f *framing) between() bool {
	return !f.off && f.err == nil && f.lines == 0 && f.body == 0 && f.n == 0
}
