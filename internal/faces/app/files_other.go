//go:build !unix

package app

// openFileLimit returns 0, because this system does not limit open files.
func openFileLimit() uint64 { return 0 }
