//go:build unix

package http1

import "syscall"

// canPeek says that it can be seen whether a connection is still open.
const canPeek = true

// peek looks at what is to be read from a socket, without reading it or waiting.
func peek(fd uintptr) peeked {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return nothing
	}
	return something // a byte, the end, or an error
}
