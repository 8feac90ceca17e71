//go:build !(linux || darwin || freebsd)

package app

// diskOf returns 0, that is, unknown.
func diskOf(string) (free, all uint64) { return 0, 0 }
