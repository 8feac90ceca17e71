//go:build unix

package app

import "syscall"

// openFileLimit returns how many files the process may open; 0 if not known.
func openFileLimit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
