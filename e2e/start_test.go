package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The first start prints a newcomer's next steps, ready to paste. Without a terminal the key
// is written to a file with mode 0600 and not printed, because the output of a service is stored.
func TestTheFirstStartWritesTheKeyToAFile(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "da ta")
	start := func() (string, func()) {
		cmd := exec.Command(self(t), "serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data", data)
		cmd.Env = []string{asProgram + "=server"}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceFunc(func() {
			cmd.Process.Kill()
			stdin.Close()
			cmd.Wait()
		})
		t.Cleanup(stop)
		var text strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), `"input":"Hello"`) {
				break
			}
		}
		return text.String(), func() {
			stop()
			if strings.Contains(log.String(), "sk_") {
				t.Errorf("a key is in the log:\n%s", log.String())
			}
		}
	}
	said, stop := start()
	file := filepath.Join(data, "owner.key")
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; it said:\n%s", err, said)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	base := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(said)
	if strings.Contains(said, "sk_") || !strings.Contains(said, "\n  "+file+"\n") || !strings.Contains(said, "\n  stoa login "+base+"\n") || !strings.Contains(said, "\n  console  "+base+"/console\n") {
		t.Errorf("the first start says:\n%s", said)
	}
	call := regexp.MustCompile(`(?s)\n  (curl .*)$`).FindStringSubmatch(said)
	if call == nil {
		t.Fatalf("it has no call:\n%s", said)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", call[1]).CombinedOutput(); err != nil || !strings.Contains(string(out), `"status":"completed"`) {
		t.Errorf("the call answers %s, %v", out, err)
	}
	stop()
	// A key of a start that died before its account was committed is used by the next.
	kept, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range kept {
		if f.Name() != "owner.key" {
			os.RemoveAll(filepath.Join(data, f.Name()))
		}
	}
	_, stop = start()
	defer stop()
	if again, err := os.ReadFile(file); err != nil || string(again) != string(key) {
		t.Errorf("the next start has another key, %v", err)
	}
}

// The service continues when the reader of its log ends, such as a pipe to logger or tee.
func TestTheServiceOutlivesItsLogsReader(t *testing.T) {
	t.Parallel()
	admin := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cmd := exec.Command(self(t), "serve", "--listen", "127.0.0.1:0", "--admin-listen", admin, "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = []string{asProgram + "=server", "STOA_BOOTSTRAP_KEY=" + ownerKey}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		stdin.Close()
		cmd.Wait()
	})
	var url string
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); strings.Contains(lines.Text(), "is listening on") {
			url = address
		}
	}
	go io.Copy(io.Discard, out)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	get := func(url string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+ownerKey)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %d %v", url, res.StatusCode, err)
		}
		return string(body)
	}
	dropped := regexp.MustCompile(`(?m)^stoa_log_lines_dropped_total [1-9]`)
	for !dropped.MatchString(get("http://" + admin + "/metrics")) {
		get(url + "/api/v1/users/me") // which adds a line to the log
	}
	get(url + "/api/v1/users/me")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
