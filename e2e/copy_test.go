package e2e

import (
	"bufio"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/testkit/storetest"
)

// A service continues after its store was copied to PostgreSQL and back: keys, receipts,
// sessions, drives with their search, tasks, and stored replies.
func TestServiceGoesOnAfterACopy(t *testing.T) {
	t.Parallel()
	target := storetest.EmptyPostgres(t).Config.PostgresURL
	v := newVendor(t, nil)
	h := newServer(t, v.url, "")
	h.start()
	a := h.newAccount(t, "pro", 100_000_000)
	h.newAgent(t, a)
	agent := "/api-agents/" + a.agent
	ctx := context.Background()
	must := func(method, key, path string, body, into any) {
		t.Helper()
		if _, err := h.callOnce(ctx, method, a.key, key, path, body, into); err != nil {
			t.Fatal(err)
		}
	}
	must("PUT", "", agent+"/drive/files", object{"path": "notes/a.md", "content": "# Harbour\n\nThe lighthouse of Zürich, 東京.\n", "mimeType": "text/markdown"}, nil)
	must("PUT", "", agent+"/drive/files", object{"path": "long.txt", "content": strings.Repeat("a long line of text\n", 40_000), "mimeType": "text/plain"}, nil)
	must("POST", "task", agent+"/scheduled-tasks", object{"name": "yearly", "message": "say: hello", "schedule": object{"type": "cron", "expression": "0 0 1 1 *", "timezone": "UTC"}}, nil)
	var session struct{ ID, Status string }
	must("POST", "session", agent+"/sessions", object{"message": "say: in a session", "mode": "once"}, &session)
	for session.Status == "queued" || session.Status == "running" {
		must("GET", "", agent+"/sessions/"+session.ID+"?waitSeconds=5", nil, &session)
	}
	call := object{"model": "auto", "input": "say: once", "user": "u"}
	first := h.ask(ctx, a.key, "replayed", call, nil)
	if !first.done() || session.Status != "completed" {
		t.Fatalf("%+v, %+v", first, session)
	}
	looks := []string{
		"/users/me", "/keys", "/receipts", "/credits/ledger", agent, agent + "/versions", agent + "/drive", agent + "/drive/files",
		agent + "/drive/files/versions?path=notes/a.md", agent + "/drive/files/content?path=long.txt", agent + "/drive/search?q=lighthouse",
		agent + "/drive/search?q=" + url.QueryEscape("東京"), agent + "/scheduled-tasks", agent + "/sessions", agent + "/sessions/" + session.ID + "/turns",
		agent + "/sessions/" + session.ID + "/messages", agent + "/sessions/" + session.ID + "/receipts", agent + "/sessions/" + session.ID + "/export",
	}
	lastUsed := regexp.MustCompile(`"lastUsedAt":"[^"]+"`) // reading counts as a use of the key
	look := func() map[string]string {
		seen := map[string]string{}
		for _, path := range looks {
			seen[path] = lastUsed.ReplaceAllString(h.text(t, a.key, path), `"lastUsedAt":"by the minute"`)
		}
		return seen
	}
	was := look()
	_, errOut, code := run(t, "copy", "--from", h.data, "--to", target)
	if code != 1 || !strings.Contains(errOut, "another stoa process is using it; stop it first") {
		t.Fatalf("a copy of a running store exits with %d: %s", code, errOut)
	}
	h.stop(t)

	// One that is killed does not start.
	killed := exec.Command(self(t), "copy", "--from", h.data, "--to", target)
	killed.Env = []string{asProgram + "=command"}
	progress, err := killed.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(progress); lines.Scan() && !strings.HasPrefix(lines.Text(), "agents: 1 rows"); {
	}
	killed.Process.Kill()
	killed.Wait()
	if _, errOut, code := run(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--database", target); code != 1 || !strings.Contains(errOut, "was interrupted or failed; run \"stoa copy\" again") {
		t.Fatalf("a half copied store starts: %d %s", code, errOut)
	}

	source, back := h.data, filepath.Join(t.TempDir(), "back")
	for _, step := range []struct{ from, to string }{{source, target}, {target, back}} {
		out, errOut, code := run(t, "copy", "--from", step.from, "--to", step.to)
		if code != 0 || !strings.Contains(out, "counts and hashes match on both sides") || !strings.Contains(out, "The books are consistent on both sides: 2 accounts") || !strings.Contains(errOut, "drive_pieces: ") {
			t.Fatalf("the copy exits with %d: %s%s", code, out, errOut)
		}
		h.data, h.postgres = step.to, ""
		if step.to == target {
			h.data, h.postgres = "", target
		}
		h.verify(t)
		h.start()
		if d := cmp.Diff(was, look()); d != "" {
			t.Errorf("on the copy at %q:\n%s", h.data, d)
		}
		if again := h.ask(ctx, a.key, "replayed", call, nil); again.id != first.id || !again.replayed || again.text != first.text {
			t.Errorf("the stored reply is %+v, it was %+v", again, first)
		}
		// New rows get their own numbers.
		must("PUT", "", agent+"/drive/files", object{"path": "notes/new.md", "content": "The windmill " + step.to, "mimeType": "text/markdown"}, nil)
		if found := h.text(t, a.key, agent+"/drive/search?q=windmill"); !strings.Contains(found, "notes/new.md") {
			t.Errorf("a new text is not found: %s", found)
		}
		if s := h.ask(ctx, a.key, "", object{"model": "auto", "input": "say: more"}, nil); !s.done() {
			t.Errorf("the copy answers %+v", s)
		}
		was = look()
		h.stop(t)
		h.verify(t)
	}
	if _, errOut, code := run(t, "copy", "--from", source, "--to", back); code != 1 || !strings.Contains(errOut, "is not empty") {
		t.Errorf("a copy over a store exits with %d: %s", code, errOut)
	}
	if left, _ := os.ReadDir(back); len(left) != 4 { // two databases, their id, the lock
		t.Errorf("the copy has the files %v", left)
	}
}

// stoa migrate lists the pending migrations, applies them, and then lists none.
func TestMigrateCommand(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for _, step := range []struct {
		args string
		code int
		want string
	}{
		{"migrate --check --data", 1, "The core tables do not exist; a start creates version "},
		{"migrate --data", 0, "Created the drive tables in version "},
		{"migrate --data", 0, "have the newest version, "},
		{"migrate --check --data", 0, "The core tables have the newest version, "},
	} {
		out, errOut, code := run(t, append(strings.Fields(step.args), data)...)
		if code != step.code || !strings.Contains(out, step.want) {
			t.Errorf("%s exits with %d: %s%s", step.args, code, out, errOut)
		}
	}
}
