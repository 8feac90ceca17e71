//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A screen is a command on a separate terminal.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	ctx  context.Context
	end  *os.File // the user's side
	seen []byte   // output that was not yet waited for
}

// onTerminal starts a command on a new terminal of 100 columns.
func onTerminal(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	end, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	t.Cleanup(func() { end.Close() })
	var n uint32
	for request, value := range map[uintptr]unsafe.Pointer{unix.TIOCGPTN: unsafe.Pointer(&n), unix.TIOCSPTLCK: unsafe.Pointer(new(int32))} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, end.Fd(), request, uintptr(value)); errno != 0 {
			t.Fatal(errno)
		}
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	t.Cleanup(cancel)
	s := &screen{t: t, end: end, ctx: ctx, cmd: exec.CommandContext(ctx, self(t), args...)}
	s.cmd.Env = append([]string{asProgram + "=command", "TERM=xterm", "STOA_API_KEY=" + ownerKey}, env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// sees waits until a text is shown, and drops the output up to its end.
func (s *screen) sees(text string) {
	s.t.Helper()
	s.until(text)
}

// until is sees, and returns what it drops.
func (s *screen) until(text string) string {
	s.t.Helper()
	b := make([]byte, 4096)
	for {
		if i := bytes.Index(s.seen, []byte(text)); i >= 0 {
			shown := string(s.seen[:i+len(text)])
			s.seen = s.seen[i+len(text):]
			return shown
		}
		n, err := s.end.Read(b)
		s.seen = append(s.seen, b[:n]...)
		if err != nil {
			s.t.Fatalf("%q is not shown, but %q", text, s.seen)
		}
	}
}

// types waits for a line to be read and types into it.
func (s *screen) types(keys string) {
	s.t.Helper()
	s.sees("\x1b[?2004h") // the terminal is put into the mode for reading a line
	s.sees("> ")
	if _, err := s.end.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end and returns the exit code.
func (s *screen) ends() int {
	s.t.Helper()
	go func() { // so that output is always read
		b := make([]byte, 4096)
		for {
			if _, err := s.end.Read(b); err != nil {
				return
			}
		}
	}()
	s.cmd.Wait()
	if s.ctx.Err() != nil {
		s.t.Fatal("it does not end")
	}
	return s.cmd.ProcessState.ExitCode()
}

// A chat on a terminal has editable lines, a persistent history, and pasted text that is one
// message.
func TestAChatIsEdited(t *testing.T) {
	t.Parallel()
	url, stop, err := sandboxServer(self(t), filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	home := t.TempDir()
	env := []string{"STOA_BASE_URL=" + url, "XDG_CONFIG_HOME=" + home}
	saved := filepath.Join(home, "saved.md")
	const left, up, enter = "\x1b[D", "\x1b[A", "\r"

	s := onTerminal(t, env, "chat")
	s.types("say: first" + left + left + left + left + left + "the " + enter)
	s.sees("\x1b[?2004lthe first\r\n")
	s.sees(" credits")
	s.types("\x1b[200~say: one\rtwo\tx\x1b[201~" + enter)
	s.sees("\x1b[?2004lone\r\ntwo\tx\r\n")
	s.types("\x1b[200~say: " + strings.Repeat("long ", 1000) + "\rend\x1b[201~" + enter)
	s.sees("[paste 1: 2 lines]")
	s.sees("end\r\n")
	s.types(up + up + up + enter)
	s.sees("\x1b[?2004lthe first\r\n")
	s.types("/model nope" + enter)
	s.sees("There is no model \"nope\"")
	s.types("/mod\talpha-haiku-4-5" + enter)
	s.sees("The model is now alpha-haiku-4-5.")
	s.types("/cost" + enter)
	s.sees("4 replies, 0.")
	s.types("/save " + saved + enter)
	s.sees("Saved in")
	s.types("\x04")
	if code := s.ends(); code != 0 {
		t.Errorf("it exits with %d after Ctrl-D, want 0", code)
	}
	text, err := os.ReadFile(saved)
	if err != nil || !strings.HasPrefix(string(text), "## You\n\nsay: the first\n\n## Model\n\nthe first\n\n## You\n\nsay: one\ntwo\tx\n\n") {
		t.Errorf("saved is %.200q, %v", text, err)
	}

	info, err := os.Stat(filepath.Join(home, "stoa", "chat_history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history is a file of %v, %v", info, err)
	}
	s = onTerminal(t, env, "chat")
	s.types(up + up)
	s.sees("/cost")
	if _, err := s.end.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if code := s.ends(); code != 130 {
		t.Errorf("it exits with %d after Ctrl-C, want 130", code)
	}

	s = onTerminal(t, env, "chat", "--no-history")
	s.types(up + "say: new" + enter)
	s.sees("\x1b[?2004lnew\r\n")
	s.types("\x04")
	s.ends()
	if text, err := os.ReadFile(filepath.Join(home, "stoa", "chat_history")); err != nil || strings.Contains(string(text), "new") {
		t.Errorf("the history has what was not to be kept: %q, %v", text, err)
	}
}
