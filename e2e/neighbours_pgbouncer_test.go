//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/testkit/fakeup"
)

// pooler starts PgBouncer in front of a database and returns its address for the role node.
func pooler(t *testing.T, d *database, mode, more string) string {
	t.Helper()
	program := installed(t, "pgbouncer")
	port, dir := freePort(t), filepath.Join(d.dir, "pgbouncer-"+mode)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	users, file := filepath.Join(dir, "users"), filepath.Join(dir, "ini")
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = %s
default_pool_size = 20
max_client_conn = 200
%s
`, d.port, port, users, mode, more)
	for name, text := range map[string]string{users: "\"node\" \"\"\n", file: config} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, file) // in the foreground
	cmd.SysProcAttr = d.owner
	address := fmt.Sprintf("127.0.0.1:%d", port)
	beside(t, cmd, address)
	return fmt.Sprintf("postgres://node@%s/stoa?sslmode=disable", address)
}

// TestNeighbourPgBouncer starts the service behind PgBouncer: its session mode serves, and what breaks the
// locks or drops a parameter of the address ends the start with a sentence that names the pooler.
func TestNeighbourPgBouncer(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, 60)
	session := pooler(t, d, "session", "ignore_startup_parameters = extra_float_digits,search_path")
	transaction := pooler(t, d, "transaction", "")
	d.admin("CREATE DATABASE other OWNER node")
	vendor := fakeup.Start(t)

	h := newServer(t, vendor.URL, "")
	h.postgres = session
	h.start()
	for n := range 3 {
		if s := h.ask(t.Context(), ownerKey, "", object{"model": "alpha-haiku-4-5", "input": fmt.Sprintf("mark: %d\nsay: done", n)}, nil); s.text != "done" || s.charge <= 0 {
			t.Errorf("behind its session mode: %+v", s)
		}
	}
	for name, c := range map[string]struct{ address, says string }{
		"transaction mode":               {strings.Replace(transaction, "/stoa", "/other", 1) + "&default_query_exec_mode=exec", "pool_mode = transaction"},
		"a parameter that it drops":      {strings.Replace(session, "/stoa", "/other", 1) + "&search_path=staging", "a pooler dropped it"},
		"a parameter that it refuses":    {strings.Replace(session, "/stoa", "/other", 1) + "&statement_timeout=60000", "the pooler refuses a parameter of the address"},
		"transaction mode, as it is set": {strings.Replace(transaction, "/stoa", "/other", 1), "pool"},
	} {
		t.Run(name, func(t *testing.T) {
			other := newServer(t, vendor.URL, "")
			other.postgres = c.address
			p := other.spawn()
			wait(t, "the end of the process", p.ended)
			if said := strings.Join(p.tail(20), "\n"); !strings.Contains(said, c.says) || p.state.ExitCode() == 0 {
				t.Errorf("exit code %d, and it says:\n%s", p.state.ExitCode(), said)
			}
		})
	}
}

// TestNeighbourPrometheus checks the rules that the docs print with Prometheus' own tool.
func TestNeighbourPrometheus(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(installed(t, "promtool"), "check", "rules", "../docs/prometheus-rules.yaml").CombinedOutput()
	if t.Logf("%s", out); err != nil || !strings.Contains(string(out), "SUCCESS: 9 rules found") {
		t.Errorf("promtool: %v", err)
	}
}
