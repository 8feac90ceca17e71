//go:build linux && !race

package extract

import (
	"errors"
	"syscall"
)

// limit makes the system refuse more than a number of bytes of data to this process, and end it after a number of seconds
// of processor time. The system must do so, because the parent may no longer exist.
func limit(bytes, seconds uint64) error {
	return errors.Join(
		syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes}),
		syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds}),
		syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}),
	)
}
