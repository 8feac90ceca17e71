package listen

import (
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// small is how many bytes are read or written at once without taking a turn: what
// requests and events take.
const small = 16 << 10

// After gatherFrom bytes of large reads, a read that got less than it asked for is
// followed by a pause of gather: what comes meanwhile is read at once. A connection
// that brings megabytes would otherwise wake the program for every few kilobytes,
// thousands of times a second, since it is read faster than it is written.
const (
	gatherFrom = 256 << 10
	gather     = 2 * time.Millisecond
)

// turns bound how many large reads and writes are under way in all: half as many
// as the processors that the program uses. Each is short (32 KiB), so those that
// wait go in the order in which they came.
//
// Without them, a few connections that bring megabytes occupy every processor:
// each goes on reading without a pause, and a small request is not even noticed,
// since sockets are only polled when nothing else can run.
type turns chan struct{}

func newTurns() turns { return make(turns, AtOnce()) }

// AtOnce returns how much large work is done at once: half as much as there are
// processors that the program uses, at least one. A GOMAXPROCS beyond the
// processors of the machine makes it no more.
func AtOnce() int { return max(1, min(runtime.NumCPU(), runtime.GOMAXPROCS(0))/2) }

func (t turns) take() { t <- struct{}{} }
func (t turns) give() { <-t }

// A bulk reads and writes large pieces of a connection, taking a turn for each
// attempt and none while it waits for the peer.
type bulk struct {
	conn  net.Conn
	raw   syscall.RawConn // nil: the connection is none of the system
	turns turns

	got   int64 // bytes of large reads since the last small one
	short bool  // the last read got less than it asked for

	once once // of writeNow
}

// A once is one attempt to write. Its function is made once for a connection.
type once struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

// rawOf returns the connection as the system has it; nil if it is none of the system.
func rawOf(c net.Conn) syscall.RawConn {
	of, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

func (b *bulk) ok() bool { return haveBulk && b.raw != nil }

// read reads at least one byte into p.
func (b *bulk) read(p []byte) (n int, err error) {
	switch {
	case b.short && b.got >= gatherFrom:
		time.Sleep(gather)
	case b.got > 0:
		runtime.Gosched() // whoever is ready to run comes first, or a fast peer keeps the processor for 10 ms
	}
	waited := b.raw.Read(func(fd uintptr) bool {
		b.turns.take()
		defer b.turns.give()
		n, err = readNow(fd, p)
		return err != errBlocks
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, b.fail("read", err)
	case n == 0:
		return 0, io.EOF
	}
	b.got += int64(n)
	b.short = n < len(p)
	return n, nil
}

// write writes all of p.
func (b *bulk) write(p []byte) (written int, err error) {
	waited := b.raw.Write(func(fd uintptr) bool {
		b.turns.take()
		defer b.turns.give()
		for written < len(p) && err == nil {
			var n int
			n, err = writeNow(fd, p[written:])
			written += n
		}
		if err == errBlocks {
			err = nil
			return false
		}
		return true
	})
	if waited != nil {
		return written, waited
	}
	if err != nil {
		return written, b.fail("write", err)
	}
	return written, nil
}

// writeNow writes what the system takes of p at once, which may be nothing. It never waits.
func (b *bulk) writeNow(p []byte) (int, error) {
	o := &b.once
	if o.try == nil {
		o.try = func(fd uintptr) bool {
			o.n, o.err = writeNow(fd, o.p)
			return true
		}
	}
	o.p, o.n, o.err = p, 0, nil
	err := b.raw.Write(o.try)
	o.p = nil
	switch {
	case err != nil:
		return 0, err
	case o.err != nil && o.err != errBlocks:
		return o.n, b.fail("write", o.err)
	}
	return o.n, nil
}

// fail returns the error that package net would.
func (b *bulk) fail(op string, err error) error {
	return &net.OpError{
		Op: op, Net: "tcp", Source: b.conn.LocalAddr(), Addr: b.conn.RemoteAddr(),
		Err: os.NewSyscallError(op, err),
	}
}
