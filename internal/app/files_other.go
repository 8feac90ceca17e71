//go:build !unix

package app

// openFileLimit returns 0: there is no such limit to ask for.
func openFileLimit() uint64 { return 0 }
