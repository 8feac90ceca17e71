package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCommands runs the scripts in testdata/cli: the real command line against a real server
// with the sandbox. Each script has its own server. In addition to the usual commands there
// are "exits CODE COMMAND...", which expects that exit code, and "keep NAME", which stores
// the output in a variable.
func TestCommands(t *testing.T) {
	t.Parallel()
	program := self(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/cli",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			bin := filepath.Join(env.WorkDir, ".bin")
			if err := os.Mkdir(bin, 0o755); err != nil {
				return err
			}
			if err := os.Symlink(program, filepath.Join(bin, "stoa")); err != nil {
				return err
			}
			data := filepath.Join(env.WorkDir, ".data")
			url, stop, err := sandboxServer(program, data)
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
			env.Setenv("DBUS_SESSION_BUS_ADDRESS", "") // no keyring
			env.Setenv(asProgram, "command")
			env.Setenv("STOA_BASE_URL", url)
			env.Setenv("STOA_API_KEY", ownerKey)
			env.Setenv("KEY", ownerKey)
			env.Setenv("DATA", data)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "keep": keep},
	})
}

// exits runs a command that must end with an exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("%q is no exit code", args[0])
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exits with %d, want %d\n%s", got, want, ts.ReadFile("stderr"))
	}
}

// keep sets a variable to the output of the last command.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// sandboxServer starts a server in a separate process and returns its URL.
func sandboxServer(program, data string, args ...string) (url string, stop func(), err error) {
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
	cmd.Env = []string{asProgram + "=server", "STOA_ADMIN_LISTEN=off", "STOA_BOOTSTRAP_KEY=" + ownerKey, "PATH=" + os.Getenv("PATH")}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		stdin.Close()
		cmd.Wait()
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if _, at, ok := strings.Cut(line, "is listening on "); ok {
			go io.Copy(io.Discard, lines)
			return strings.TrimSpace(at), stop, nil
		}
		if err != nil {
			stop()
			return "", nil, fmt.Errorf("the server did not start: %s", log.String())
		}
	}
}

// Ctrl-C stops a reply half-way: the received part is printed. It ends respond, with the
// corresponding exit code, and returns a chat to its next line.
func TestCtrlCStopsAReply(t *testing.T) {
	t.Parallel()
	url, stop, err := sandboxServer(self(t), filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	const slowly = "slow: 10s%ssay: first second third"
	t.Run("respond", func(t *testing.T) {
		p := startTyping(t, url, "respond", fmt.Sprintf(slowly, "\n"))
		p.sees("first")
		p.cmd.Process.Signal(syscall.SIGINT)
		if rest, code := p.ends(); code != 130 || strings.Contains(rest, "second") {
			t.Errorf("exits with %d after %q, want 130", code, rest)
		}
	})
	t.Run("chat", func(t *testing.T) {
		p := startTyping(t, url, "chat")
		io.WriteString(p.in, fmt.Sprintf(slowly, "\\\n")+"\n")
		p.sees("first")
		p.cmd.Process.Signal(syscall.SIGINT)
		io.WriteString(p.in, "say: still here\n")
		p.sees("\nstill here\n")
		p.in.Close()
		if rest, code := p.ends(); code != 0 {
			t.Errorf("exits with %d after %q, want 0", code, rest)
		}
	})
}

// A typing is a command whose input is written and whose output is read while it
// runs.
type typing struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
	ctx context.Context
}

func startTyping(t *testing.T, url string, args ...string) *typing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	t.Cleanup(cancel)
	p := &typing{t: t, cmd: exec.CommandContext(ctx, self(t), args...), ctx: ctx} // killed when ctx ends
	p.cmd.Env = []string{asProgram + "=command", "STOA_BASE_URL=" + url, "STOA_API_KEY=" + ownerKey}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// sees checks that this text is printed next.
func (p *typing) sees(text string) {
	p.t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(p.out, got); err != nil || string(got) != text {
		p.t.Fatalf("printed %q (%v), want %q", got[:n], err, text)
	}
}

// ends returns the output until the end, and the exit code.
func (p *typing) ends() (rest string, code int) {
	p.t.Helper()
	b, _ := io.ReadAll(p.out)
	p.cmd.Wait()
	if p.ctx.Err() != nil {
		p.t.Fatal("it does not end")
	}
	return string(b), p.cmd.ProcessState.ExitCode()
}
