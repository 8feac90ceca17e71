package listen

import (
	"net"
	"syscall"
)

// notSentLowAt is TCP_NOTSENT_LOWAT of tcp(7), which package syscall lacks.
const notSentLowAt = 25

// boundUnread bounds what the system keeps of what is written to a connection;
// see [unread]. It is not inherited from a listener that speaks Multipath TCP, as
// those of package net do. A system that refuses it keeps more; nothing else
// changes.
func boundUnread(c net.Conn) {
	of, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowAt, unread)
	})
}
