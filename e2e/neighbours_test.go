package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// neighboursVariable names a folder with the programs that .ci/check neighbours-nightly compiles. The tests that
// need it, or programs that only a nightly run installs, are skipped without it.
const neighboursVariable = "STOA_TEST_NEIGHBOURS"

// installed returns the path of a program, and skips the test if it is not installed.
func installed(t *testing.T, program string) string {
	t.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed", program)
	return ""
}

// onlyNightly skips a test that is not run at night, and returns the folder with the compiled programs.
func onlyNightly(t *testing.T) (folder string) {
	t.Helper()
	if folder = os.Getenv(neighboursVariable); folder == "" {
		t.Skipf("set %s, or run .ci/check neighbours-nightly", neighboursVariable)
	}
	return folder
}

// nightly returns the path of a program, compiled or installed, and skips a test that is not run at night.
func nightly(t *testing.T, program string) string {
	t.Helper()
	if path, err := exec.LookPath(filepath.Join(onlyNightly(t), program)); err == nil {
		return path
	}
	return installed(t, program)
}

// beside runs a program until the test ends, waits until it accepts connections at the address, and returns
// a function that returns what it has printed.
func beside(t *testing.T, cmd *exec.Cmd, address string) (printed func() string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	printed = func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(printed()), "\n")
			t.Logf("the last lines of %s:\n%s", cmd.Path, strings.Join(lines[max(0, len(lines)-12):], "\n"))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return printed
		}
		select {
		case <-ended:
			t.Fatalf("%s ended", cmd.Path)
		case <-ctx.Done():
			t.Fatalf("%s does not answer", cmd.Path)
		default:
			pass(ctx, 20*time.Millisecond)
		}
	}
}
