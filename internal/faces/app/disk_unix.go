//go:build linux || darwin || freebsd

package app

import "syscall"

// diskOf returns the bytes available to the process on the file system of a path, and its size; 0 if unknown.
func diskOf(path string) (free, all uint64) {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return 0, 0
	}
	return uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize)
}
