//go:build !linux

package cli

// releaseProgram does nothing, because only Linux lists the pages that a program has changed.
func releaseProgram() {}
