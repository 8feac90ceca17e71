package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"
)

// TestBackupUnderLoadIsExact takes backups while a server is busy and restores each:
// its books are in order, and a server on it reconciles.
func TestBackupUnderLoadIsExact(t *testing.T) {
	t.Parallel()
	var l *load
	v := newVendor(t, func() { l.happened() })
	h := newServer(t, v.url, "")
	l = newLoad(h, v)
	h.start()
	l.accounts = []*account{h.newAccount(t, "pro", 100_000_000), h.newAccount(t, "free", 100_000_000)}
	h.newAgent(t, l.accounts[0])
	drive := "/api-agents/" + l.accounts[0].agent + "/drive/files"
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx, callers)
	}()
	dir := t.TempDir()
	var files []string
	for range 5 {
		l.happens(t, 100)
		file := filepath.Join(dir, "backup"+string(rune('a'+len(files)))+".tar")
		if _, err := h.call(ctx, "PUT", l.accounts[0].key, drive, object{"path": "notes/now.txt", "content": filepath.Base(file), "mimeType": "text/plain"}, nil); err != nil {
			t.Fatal(err)
		}
		if out, errOut, code := run(t, "backup", "--data", h.data, file); code != 0 || !strings.Contains(out, "core.db") || !strings.Contains(out, "drive.db") {
			t.Fatalf("backup exits with %d: %s%s", code, out, errOut)
		}
		files = append(files, file)
		// It may also be verified while the server runs.
		h.verify(t)
	}
	stop()
	<-ended
	l.finish(t)
	if _, _, code := run(t, "backup", "--data", h.data, files[0]); code != 1 {
		t.Errorf("a backup over another exits with %d", code)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup can be read by others: %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".stoa-*")); len(left) > 0 {
		t.Errorf("a backup left %v", left)
	}

	live := calls(h.receipts(t, l.accounts[0].key))
	last := 0
	for _, file := range files {
		other := newServer(t, v.url, "")
		if out, errOut, code := run(t, "restore", "--data", other.data, file); code != 0 || !strings.Contains(out, "The books are consistent.") {
			t.Fatalf("restore exits with %d: %s%s", code, out, errOut)
		}
		other.verify(t)
		other.start()
		n := 0
		for _, a := range l.accounts {
			was := credits{}
			other.get(t, a.key, "/credits", &was)
			restored := *a
			restored.granted = was.GrantedMicro // top-ups came later
			n += len(other.checkConservation(t, &restored))
		}
		if n < last {
			t.Errorf("a later backup has %d receipts, an earlier one %d", n, last)
		}
		last = n
		// The restored books are a prefix of the live ones. Only sessions that were running
		// continue in the restored server.
		for i, r := range calls(other.receipts(t, l.accounts[0].key)) {
			if d := cmp.Diff(live[i], r); d != "" {
				t.Errorf("the restored receipt %d is not the live one:\n%s", i, d)
				break
			}
		}
		var note struct{ Size int64 }
		other.get(t, l.accounts[0].key, drive+"/metadata?path=notes/now.txt", &note)
		if text := other.text(t, l.accounts[0].key, drive+"/content?path=notes/now.txt"); text != filepath.Base(file) || note.Size != int64(len(text)) {
			t.Errorf("the drive in %s says %q", filepath.Base(file), text)
		}
		s := other.ask(context.Background(), l.accounts[0].key, "", object{"model": "auto", "input": "say: at work again"}, nil)
		if s.end != "completed" {
			t.Errorf("the restored server answers %+v", s)
		}
		other.stop(t)
		other.verify(t)
	}
	if last == 0 {
		t.Error("the backups are empty")
	}
}

// calls returns the receipts that do not belong to sessions.
func calls(all []receipt) (of []receipt) {
	for _, r := range all {
		if strings.HasPrefix(r.ID, "resp_") {
			of = append(of, r)
		}
	}
	return of
}

// A backup, a restore and a copy name the keys that they do not contain: without them stored
// secrets are lost, however consistent the books are.
func TestKeysOutsideOfABackupAreNamed(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	h := newServer(t, v.url, "extensions: {tools: true}\n")
	h.start()
	a := h.newAccount(t, "pro", 1_000_000)
	if status, err := h.call(t.Context(), "POST", a.key, "/webhooks", object{"url": "https://example.com/hook", "events": []string{"session.completed"}}, nil); err != nil {
		t.Fatal(status, err)
	}
	file := filepath.Join(t.TempDir(), "backup.tar")
	want := func(text string, args ...string) {
		t.Helper()
		if out, errOut, code := run(t, args...); code != 0 || !regexp.MustCompile(text).MatchString(out) {
			t.Errorf("stoa %s exits with %d and says %s%s; want %q", args[0], code, out, errOut, text)
		}
	}
	want("not in the file.*: secrets.key, state.key", "backup", "--data", h.data, file)
	h.stop(t)
	other := filepath.Join(t.TempDir(), "data")
	want(`(?s)not in a backup: secrets.key, state.key.*which are not here: file-[0-9a-f]{8} \(1 secret\)`, "restore", "--data", other, file)
	key, err := os.ReadFile(filepath.Join(h.data, "secrets.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "secrets.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	want(`not in a backup: secrets.key, state.key\.\n$`, "restore", "--force", "--data", other, file)
	want(`which are not here: file-[0-9a-f]{8} \(1 secret\)`, "copy", "--from", other, "--to", filepath.Join(t.TempDir(), "copy"))
}

func TestRestoreReplacesNothingWithoutForce(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	h := newServer(t, v.url, "")
	h.start()
	file := filepath.Join(t.TempDir(), "backup.tar")
	if _, errOut, code := run(t, "backup", "--data", h.data, file); code != 0 {
		t.Fatal(errOut)
	}
	a := h.newAccount(t, "pro", 1_000_000) // after the backup

	refused := func(what, want string, args ...string) {
		t.Helper()
		out, errOut, code := run(t, append([]string{"restore"}, args...)...)
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %s%s; want an error with %q", what, code, out, errOut, want)
		}
	}
	refused("a directory in use", "another stoa process is using it", "--data", h.data, "--force", file)
	h.stop(t)
	refused("a directory that is not empty", "not empty", "--data", h.data, file)
	refused("no file", "no such file", "--data", h.data, "--force", file+".none")

	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string][]byte{
		"a backup that was cut":     whole[:len(whole)/2],
		"a backup that was changed": flip(whole, len(whole)/2),
		"no backup at all":          []byte(strings.Repeat("something else ", 200)),
		"an empty file":             {},
		"a backup with more in it":  renamed(t, whole, "drive.db", "../escaped.db"),
	} {
		bad := filepath.Join(t.TempDir(), "bad.tar")
		if err := os.WriteFile(bad, text, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(what, "is not a complete backup", "--data", h.data, "--force", bad)
	}
	// Afterwards the store is unchanged.
	h.start()
	h.checkConservation(t, a)
	h.stop(t)

	out, errOut, code := run(t, "restore", "--data", h.data, "--force", file)
	if code != 0 || !strings.Contains(errOut, "replaced-") {
		t.Fatalf("restore --force exits with %d: %s%s", code, out, errOut)
	}
	kept, _ := filepath.Glob(filepath.Join(h.data, "replaced-*", "core.db"))
	if len(kept) != 1 {
		t.Errorf("the former store is kept in %v", kept)
	}
	h.start()
	if status, err := h.call(context.Background(), "GET", a.key, "/credits", nil, nil); status != 401 {
		t.Errorf("an account made after the backup is still there: %d, %v", status, err)
	}
	h.stop(t)

	// A restore that was interrupted while it replaced files is detected.
	marker := filepath.Join(h.data, "restore.unfinished")
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errOut, code := run(t, "serve", "--listen", "127.0.0.1:0", "--data", h.data); code != 1 || !strings.Contains(errOut, "interrupted") {
		t.Errorf("a half-restored store opens: %d, %s", code, errOut)
	}
	if out, errOut, code := run(t, "restore", "--data", h.data, "--force", file); code != 0 {
		t.Errorf("restore after an interruption: %d, %s%s", code, out, errOut)
	}
	h.start()
}

func TestPostgreSQLIsNotBackedUpHere(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"backup", "restore"} {
		_, errOut, code := run(t, verb, "--database", "postgres://nobody@127.0.0.1:1/none", filepath.Join(t.TempDir(), "file"))
		if code != 1 || !strings.Contains(errOut, "pg_dump") {
			t.Errorf("%s: exit %d, %s", verb, code, errOut)
		}
	}
}

// TestVerifierFindsEveryForgery changes rows in the database file; each time the
// verifier reports what differs.
func TestVerifierFindsEveryForgery(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	h := newServer(t, v.url, "")
	h.start()
	a := h.newAccount(t, "pro", 10_000_000)
	for range 3 {
		if s := h.ask(context.Background(), a.key, "", object{"model": "alpha-haiku-4-5", "input": "tokens: 20"}, nil); !s.done() {
			t.Fatalf("%+v", s)
		}
	}
	h.stop(t)
	h.verify(t)
	since := filepath.Join(t.TempDir(), "verified.json")
	for _, want := range []string{"The books are consistent: ", "The books are consistent since "} {
		if out, errOut, code := run(t, "ledger", "verify", "--data", h.data, "--since", since); code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("exit %d\n%s%swant %q", code, out, errOut, want)
		}
	}
	sound, err := os.ReadFile(filepath.Join(h.data, "core.db"))
	if err != nil {
		t.Fatal(err)
	}
	for forgery, rule := range map[string]string{
		`UPDATE accounts SET balance = balance - 1 WHERE balance > 0`:                                       "granted is balance, leases and charges together",
		`UPDATE accounts SET granted = granted + 1`:                                                         "granted is the sum of the grants",
		`UPDATE grants SET amount = amount + 1`:                                                             "granted is the sum of the grants",
		`DELETE FROM charges WHERE id IN (SELECT id FROM charges LIMIT 1)`:                                  "a lease has spent the sum of its charges",
		`UPDATE charges SET amount = amount + 1 WHERE id IN (SELECT id FROM charges LIMIT 1)`:               "a charge is its usage at its price",
		`UPDATE charges SET output_tokens = output_tokens + 1 WHERE id IN (SELECT id FROM charges LIMIT 1)`: "a charge is its usage at its price",
		`UPDATE charges SET lease_id = 'none'`:                                                              "a charge that costs something names a lease of its account",
		`UPDATE charges SET account_id = 'none'`:                                                            "a charge belongs to an account",
		`UPDATE charges SET written_off = 1, amount = amount - 1`:                                           "only a clamped charge writes off",
		`UPDATE leases SET is_open = 1; UPDATE nodes SET alive = 0`:                                         "an open lease belongs to a living node",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "core.db")
		if err := os.WriteFile(path, sound, 0o600); err != nil {
			t.Fatal(err)
		}
		forge(t, path, forgery)
		out, errOut, code := run(t, "ledger", "verify", "--data", dir)
		if code != 1 || !strings.Contains(out, rule) || !strings.Contains(errOut, "inconsistent") {
			t.Errorf("%s: exit %d\n%s%swant the rule %q", forgery, code, out, errOut, rule)
		}
	}
}

func forge(t testing.TB, path, statement string) {
	t.Helper()
	d, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	res, err := d.Exec(statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	if n, _ := res.RowsAffected(); n == 0 {
		t.Fatalf("%s changed nothing", statement)
	}
}

func flip(b []byte, at int) []byte {
	c := append([]byte(nil), b...)
	c[at] ^= 0x40
	return c
}

// renamed returns a backup in which one file has another name, in the manifest too; a missing
// file is added.
func renamed(t testing.TB, whole []byte, from, to string) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(whole)), tar.NewWriter(&out)
	add := func(name string, text []byte) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		w.Write(text)
	}
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if head.Name == "manifest.json" {
			if !strings.Contains(string(text), from) {
				text = bytes.Replace(text, []byte(`"files":[`), []byte(`"files":[{"name":"`+to+`","bytes":0,"sha256":""},`), 1)
			}
			text = bytes.ReplaceAll(text, []byte(from), []byte(to))
		}
		if head.Name == from {
			head.Name = to
		}
		add(head.Name, text)
	}
	w.Close()
	return out.Bytes()
}

// TestKilledRestoreCanBeRepeated kills a restore at random moments. Each time the
// store is either as before, or as in the backup, or refuses to open.
func TestKilledRestoreCanBeRepeated(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	h := newServer(t, v.url, "")
	h.start()
	a := h.newAccount(t, "pro", 1_000_000)
	file := filepath.Join(t.TempDir(), "backup.tar")
	if _, errOut, code := run(t, "backup", "--data", h.data, file); code != 0 {
		t.Fatal(errOut)
	}
	h.stop(t)
	interrupted := 0
	for range 25 {
		cmd := exec.Command(self(t), "restore", "--data", h.data, "--force", file)
		cmd.Env = []string{asProgram + "=command"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		aMoment(500_000)
		cmd.Process.Kill()
		cmd.Wait()
		out, errOut, code := run(t, "ledger", "verify", "--data", h.data)
		switch {
		case code == 0:
		case code == 1 && strings.Contains(errOut, "interrupted"):
			interrupted++
		default:
			t.Fatalf("after a killed restore: exit %d, %s%s", code, out, errOut)
		}
	}
	t.Logf("%d of 25 were killed while they replaced files", interrupted)
	if _, errOut, code := run(t, "restore", "--data", h.data, "--force", file); code != 0 {
		t.Fatalf("the restore at last: %d, %s", code, errOut)
	}
	h.start()
	h.checkConservation(t, a)
}
