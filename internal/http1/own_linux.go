package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"stoa/internal/eventloop"
)

// An ownSocket is a socket that the runtime does not wait for, so that a loop can. It is
// read by one goroutine.
type ownSocket struct {
	fd          int // at least 1; 0: there is none. conn.mu is held to change it
	interrupted atomic.Bool
}

var errInterrupted = errors.New("http1: the request was cancelled")

// toOwn takes the socket of the connection out of the runtime's hands, if the system has
// a descriptor for that.
func (c *conn) toOwn() {
	if c.raw == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.raw.Control(func(fd uintptr) {
		if own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 1); err == nil {
			c.own.fd = own
		}
	})
	if c.own.fd != 0 {
		_ = c.Conn.Close() // the socket stays open with the other descriptor
	}
}

// fromOwn gives the socket back, for a request that comes. It reports whether the
// connection is as before.
func (c *conn) fromOwn() bool {
	if !c.own.open() {
		return true
	}
	c.mu.Lock()
	f := os.NewFile(uintptr(c.own.take()), "")
	c.mu.Unlock()
	defer f.Close()
	again, err := net.FileConn(f)
	if err != nil {
		return false
	}
	c.use(again)
	return true
}

func (s *ownSocket) open() bool { return s.fd != 0 }

// take returns the descriptor, which is the caller's then.
func (s *ownSocket) take() int {
	fd := s.fd
	s.fd = 0
	return fd
}

func (s *ownSocket) close() error { return unix.Close(s.take()) }

// interrupt ends reads.
func (s *ownSocket) interrupt() {
	s.interrupted.Store(true)
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // it can be read then
}

// read reads at least one byte.
func (s *ownSocket) read(task *eventloop.Task, p []byte) (int, error) {
	wait := task.OnLoop() // it was read to its end there; elsewhere something may have come
	for {
		if wait {
			task.Wait(s.fd)
		}
		n, err := unix.Read(s.fd, p)
		switch {
		case s.interrupted.Load(): // whatever came
			return 0, errInterrupted
		case err == unix.EAGAIN:
			wait = true
		case err == unix.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
