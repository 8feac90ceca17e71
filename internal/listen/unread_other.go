//go:build !linux

package listen

import "syscall"

// boundUnread leaves a connection as it is.
func boundUnread(syscall.RawConn) {}
