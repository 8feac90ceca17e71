//go:build unix

package http1

import "syscall"

// canPeek says that it can be seen whether a connection is still open.
const canPeek = true

// quiet reports whether nothing is to be read from a socket: no byte, no end, no error.
// It does not wait.
func quiet(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EINTR
}
