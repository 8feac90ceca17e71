//go:build !linux

package cli

// dropPages does nothing here; see pages_linux.go.
func dropPages() {}
