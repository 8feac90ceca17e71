package extract

import "syscall"

// endWithParent makes the system end a child with its parent, even if that is killed.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
