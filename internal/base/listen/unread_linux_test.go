package listen

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestUnreadBytesAreBounded(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(plain, Config{})
	defer l.Close()
	theirs, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	_ = theirs.(*net.TCPConn).SetReadBuffer(4096)
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	raw, err := ours.(*conn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// What the system accepts before it blocks.
	accepted, piece := 0, make([]byte, 4096)
	var full error
	waited := raw.Write(func(fd uintptr) bool {
		for full == nil {
			var n int
			n, full = syscall.Write(int(fd), piece)
			accepted += max(n, 0)
		}
		return true
	})
	// The window of the peer is more than its buffer of 4 KiB at first, since it
	// was opened with the default one.
	if waited != nil || !errors.Is(full, syscall.EAGAIN) || accepted < unread || accepted > 4*unread {
		t.Errorf("the system keeps %d unread bytes (%v), want about %d", accepted, full, unread)
	}
}
