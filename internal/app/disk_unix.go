//go:build linux || darwin || freebsd

package app

import "syscall"

// diskOf returns how many bytes are free for the process on the file system of a path,
// and how many that has; 0 if not known.
func diskOf(path string) (free, all uint64) {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return 0, 0
	}
	return uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize)
}
