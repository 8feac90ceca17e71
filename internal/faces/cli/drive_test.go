package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/testkit/apitest"
)

// TestACutSearchSaysSo: a search that was ended early is never shown as if it had
// seen everything.
func TestACutSearchSaysSo(t *testing.T) {
	t.Parallel()
	hit := `{"path":"notes.md","startLine":3,"endLine":9,"snippet":"Money back.","score":1,"sha256":"9f86","mimeType":"text/markdown","version":2}`
	for name, test := range map[string]struct {
		data, cut string
		ended     bool // the command says so
	}{
		"cut with hits":    {hit, "true", true},
		"cut without hits": {"", "true", true},
		"whole":            {hit, "false", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"data":[`+test.data+`],"cut":`+test.cut+`}`)
			}))
			defer s.Close()
			p := newPerson(t, "STOA_BASE_URL="+s.URL, "STOA_API_KEY=sk_test_of_a_search_with_a_long_secret")
			said := p.runs(0, "", "drive", "search", "agt_06h03i5s3prfd1l3n0000000", "refund")
			if strings.Contains(said, "timed out. There may be better passages") != test.ended {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestDocumentsThatAreNotReadAreNamed sends files of which the service reads only some.
func TestDocumentsThatAreNotReadAreNamed(t *testing.T) {
	t.Parallel()
	status := map[string]string{"locked.pdf": "encrypted", "old.csv": "unknown_encoding", "page.pdf": "ready", "logo.png": "none"}
	var mu sync.Mutex
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		path := r.URL.Query().Get("path")
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.Path[strings.LastIndexByte(r.URL.Path, '/'):]+" "+path+" "+r.URL.Query().Get("textEncoding"))
		mu.Unlock()
		switch {
		case strings.HasSuffix(r.URL.Path, "/drive"):
			fmt.Fprint(w, `{"agentId":"agt_06h03i5s3prfd1l3n0000000","files":1,"bytes":3,"historyFiles":0,"historyBytes":0,"maxFiles":10000,"maxBytes":1000000,"maxFileBytes":1000000,"revision":1,"updatedAt":"2026-11-20T11:58:00.000Z"}`)
		case strings.HasSuffix(r.URL.Path, "/content"):
			fmt.Fprintf(w, `{"path":%q,"textStatus":%q,"textNote":null}`, path, status[path])
		case strings.HasSuffix(r.URL.Path, "/reread") && strings.Contains(string(body), `"textEncoding":"gbk"`):
			fmt.Fprint(w, `{"path":"old.csv","textStatus":"ready","textNote":null}`)
		case strings.HasSuffix(r.URL.Path, "/reread"):
			fmt.Fprint(w, `{"path":"old.csv","textStatus":"unknown_encoding","textNote":"It may be gbk."}`)
		case strings.HasSuffix(r.URL.Path, "/text"):
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, "[page 1]\nwords\n")
		case strings.HasSuffix(r.URL.Path, "/search"):
			fmt.Fprint(w, `{"data":[{"path":"page.pdf","startLine":1,"endLine":2,"place":"p. 12–13","snippet":"words","score":1,"sha256":"9f86","mimeType":"application/pdf","version":2}],"cut":false}`)
		default:
			fmt.Fprint(w, `{"data":[{"path":"locked.pdf","size":3,"sha256":"9f86","mimeType":"application/pdf","textStatus":"encrypted","updatedAt":"2026-11-20T11:58:00.000Z"}],"commonPrefixes":[],"nextCursor":null,"hasMore":false}`)
		}
	}))
	defer s.Close()
	p := newPerson(t, "STOA_BASE_URL="+s.URL, "STOA_API_KEY=sk_test_of_a_drive_with_a_long_secret_")
	const agent = "agt_06h03i5s3prfd1l3n0000000"
	dir := t.TempDir()
	for name := range status {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+map[bool]string{true: "\xa4\xa4"}[name == "old.csv"]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := p.runs(0, "", "drive", "push", agent, dir+"/", "--encoding", "big5")
	for _, want := range []string{"Not read: locked.pdf (encrypted). It needs a password.\n", "Not read: old.csv (unknown_encoding). Its encoding is unknown."} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, without %q", said, want)
		}
	}
	if strings.Contains(said, "page.pdf") || strings.Contains(said, "logo.png") || !slices.Contains(asked, "PUT /content page.pdf ") || !slices.Contains(asked, "PUT /content old.csv big5") {
		t.Errorf("it says %q and asks %q", said, asked)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"encrypted", []string{"ls", agent}},
		{"[page 1]\nwords\n", []string{"text", agent, "page.pdf"}},
		{"Not read: old.csv (unknown_encoding). It may be gbk.", []string{"reread", agent, "old.csv"}},
		{"Read: old.csv.", []string{"reread", agent, "old.csv", "--encoding", "gbk"}},
		{"p. 12–13", []string{"search", agent, "words"}},
	} {
		if said := p.runs(0, "", append([]string{"drive"}, c.args...)...); !strings.Contains(said, c.want) {
			t.Errorf("%v says %q", c.args, said)
		}
	}
}

// A file that the service would reject for its size is rejected before anything is sent.
func TestFilesThatDoNotFitAreNotSent(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Drive: drive.Limits{MaxFileBytes: 2 << 10, MaxBytes: 5 << 10}})
	run(t, h, "", "agents", "create", "--name", "Support", "--instructions", "Help.")
	dir := t.TempDir()
	write := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte("a"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	small, large := write("small.txt", 100), write("large.txt", 3<<10)
	_, errOut, code := run(t, h, "", "drive", "push", "Support", small, large)
	if want := "nothing was copied: the limit of one file is 2 KiB, and these are larger: " + large + " (3 KiB)"; code != exitFailed || !strings.Contains(errOut, want) {
		t.Errorf("%d %s, want %s", code, errOut, want)
	}
	_, errOut, code = run(t, h, "", "drive", "push", "Support", small, write("a", 2<<10), write("b", 2<<10), write("c", 2<<10))
	if want := "nothing was copied: the drive would have 6.1 KiB, more than its limit of 5 KiB"; code != exitFailed || !strings.Contains(errOut, want) {
		t.Errorf("%d %s, want %s", code, errOut, want)
	}
	if out, errOut, code := run(t, h, "", "drive", "ls", "Support"); code != exitDone || out != "" {
		t.Error(out, errOut)
	}
}

func TestProgressOfATransfer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes   int64
		elapsed time.Duration
		want    string
	}{
		{0, time.Minute, "1 of 3 · 0 bytes of 10 MiB · a.txt"},
		{1 << 20, 500 * time.Millisecond, "1 of 3 · 1 MiB of 10 MiB · a.txt"},
		{1 << 20, 2 * time.Second, "1 of 3 · 1 MiB of 10 MiB · 512 KiB/s · 18 s left · a.txt"},
		{1 << 20, time.Minute, "1 of 3 · 1 MiB of 10 MiB · 17.1 KiB/s · 9 min left · a.txt"},
		{11 << 20, 11 * time.Second, "1 of 3 · 11 MiB of 10 MiB · 1 MiB/s · 0 s left · a.txt"}, // a repeated request counts again
	} {
		tr := &transfer{done: 1, files: 3, total: 10 << 20, bytes: c.bytes}
		if got := tr.status("a.txt", c.elapsed); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
