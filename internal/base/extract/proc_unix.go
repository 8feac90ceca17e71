//go:build unix

package extract

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// isolate starts a child in a process group that ends as a whole, on Linux also with this process.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// stopped reports whether another process or the system ended a process by a signal. A crash of Go is not one, because it
// ends with an exit status.
func stopped(p *os.ProcessState) bool {
	if p == nil {
		return false
	}
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// private checks that a directory belongs to this user, who alone may write to it.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory %s must belong to this user, and only this user may write to it", dir)
	}
	return nil
}
