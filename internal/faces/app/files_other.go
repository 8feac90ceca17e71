//go:build !unix

package app

// openFileLimit returns 0: this system has no such limit.
func openFileLimit() uint64 { return 0 }
