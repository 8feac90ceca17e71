//go:build unix

package app

import "syscall"

// openFileLimit returns the maximum number of open files of the process; 0 if unknown.
func openFileLimit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
