//go:build unix && !linux

package extract

import "syscall"

// endWithParent does nothing: a child looks for its parent itself; see [Child].
func endWithParent(*syscall.SysProcAttr) {}
