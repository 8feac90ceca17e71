package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The first start prints a newcomer's next steps, ready to paste: a link that signs in to the
// console, the login of the command line, and a call.
func TestTheFirstStartSaysWhereToGo(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(self(t), "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = []string{asProgram + "=server"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
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
	var text strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), `"input":"Hello"`) {
			go io.Copy(io.Discard, out)
			break
		}
	}
	said := text.String()
	link := regexp.MustCompile(`(?m)^  (http://127\.0\.0\.1:\d+)/console#key=(sk_\w+)$`).FindStringSubmatch(said)
	if link == nil || !strings.Contains(said, "\n  stoa login "+link[1]+"\n") || !strings.Contains(said, "\n  console  "+link[1]+"/console\n") {
		t.Fatalf("the first start does not say where to go:\n%s", said)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", link[1]+"/api/v1/users/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+link[2])
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("the key of the link answers %d", res.StatusCode)
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
