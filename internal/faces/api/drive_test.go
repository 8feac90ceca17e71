package api_test

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// A driveService is a service with an agent, and the path of its drive.
type driveService struct {
	*apitest.Service
	*apitest.Client
	drive string
}

func startDrive(t *testing.T, limits drive.Limits) driveService {
	h := start(t, apitest.Config{Drive: limits})
	return driveService{Service: h, Client: h.Client(t), drive: "/api/v1/api-agents/" + newAgent(t, h, h.Account.ID) + "/drive"}
}

func newAgent(t *testing.T, h *apitest.Service, accountID string) (id string) {
	t.Helper()
	err := h.Store.Write(context.Background(), func(tx *store.Tx) error {
		ctx := context.Background()
		space, err := tx.Setup().DefaultSpace(ctx, accountID)
		if err != nil {
			return err
		}
		a, err := tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: accountID, SpaceID: space.ID, Name: "tester", AgentSettings: stoa.AgentSettings{Instructions: "test", Model: "auto", DriveAccess: stoa.DriveReadOnly}})
		id = a.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

type m = map[string]any

func (h driveService) at(what string, query ...string) string {
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	if len(q) == 0 {
		return h.drive + what
	}
	return h.drive + what + "?" + q.Encode()
}

func (h driveService) put(t *testing.T, status int, path, content string) contract.WrittenDriveFile {
	t.Helper()
	var f contract.WrittenDriveFile
	h.Want(status, "PUT", h.at("/files"), m{"path": path, "content": content}).JSON(&f)
	return f
}

func TestAFileOverHTTP(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{})
	var stats contract.Drive
	h.Want(200, "GET", h.at(""), nil).JSON(&stats)
	if stats.Revision != 0 || stats.MaxFiles != 10_000 || !stats.UpdatedAt.IsNull() {
		t.Errorf("%+v", stats)
	}
	f := h.put(t, 201, "handbook/refunds.md", "# Refunds\n\nMoney back within 14 days.\n")
	if f.Outcome != "created" || f.MimeType != "text/markdown" || !f.Text || f.Version != 1 {
		t.Errorf("%+v", f)
	}
	h.put(t, 200, "handbook/refunds.md", "# Refunds\n\nMoney back within 14 days.\n")
	etag := `"` + f.Sha256 + `"`
	r := h.Want(200, "GET", h.at("/files/metadata", "path", "handbook/refunds.md"), nil)
	if r.Header.Get("ETag") != etag {
		t.Errorf("ETag is %s", r.Header.Get("ETag"))
	}
	for _, what := range []string{"/files/metadata", "/files/content"} {
		for _, tag := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
			if r := h.With("If-None-Match", tag).Want(304, "GET", h.at(what, "path", "handbook/refunds.md"), nil); len(r.Body) > 0 {
				t.Errorf("%s with %s has a body", what, tag)
			}
		}
		h.With("If-None-Match", `"other"`).Want(200, "GET", h.at(what, "path", "handbook/refunds.md"), nil)
		h.WantError(stoa.CodeFileNotFound, "GET", h.at(what, "path", "none"), nil)
		h.WantError(stoa.CodeInvalidPath, "GET", h.at(what, "path", "../x"), nil)
		h.WantError(stoa.CodeMissingParameter, "GET", h.at(what), nil)
	}

	h.With("If-Match", `"stale"`).WantError(stoa.CodePrecondition, "PUT", h.at("/files"), m{"path": "handbook/refunds.md", "content": "new"})
	h.With("If-Match", "W/"+etag).WantError(stoa.CodePrecondition, "PUT", h.at("/files"), m{"path": "handbook/refunds.md", "content": "new"})
	h.With("If-None-Match", "*").WantError(stoa.CodePrecondition, "PUT", h.at("/files"), m{"path": "handbook/refunds.md", "content": "new"})
	h.With("If-None-Match", etag).WantError(stoa.CodeInvalidValue, "PUT", h.at("/files"), m{"path": "handbook/refunds.md", "content": "new"})
	h.With("If-Match", etag).Want(200, "PUT", h.at("/files"), m{"path": "handbook/refunds.md", "content": "bmV3", "encoding": "base64", "mimeType": "text/plain; charset=utf-8"})
	h.With("If-None-Match", "*").Want(201, "PUT", h.at("/files"), m{"path": "other.txt", "content": "", "mimeType": nil, "encoding": nil})
	if r := h.Want(200, "GET", h.at("/files/content", "path", "handbook/refunds.md"), nil); string(r.Body) != "new" || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%q %v", r.Body, r.Header)
	}

	var versions contract.DriveVersionList
	h.Want(200, "GET", h.at("/files/versions", "path", "handbook/refunds.md"), nil).JSON(&versions)
	if len(versions.Data) != 2 || !versions.Data[0].Current || versions.Data[1].Version != 1 {
		t.Errorf("%+v", versions)
	}
	h.WantError(stoa.CodeFileNotFound, "GET", h.at("/files/versions", "path", "none"), nil)
	h.WantError(stoa.CodeInvalidPath, "GET", h.at("/files/versions", "path", "/"), nil)
	var restored contract.WrittenDriveFile
	h.Want(200, "POST", h.at("/files/restore"), m{"path": "handbook/refunds.md", "version": 1}).JSON(&restored)
	if restored.Outcome != "replaced" || restored.Sha256 != f.Sha256 {
		t.Errorf("%+v", restored)
	}
	h.WantError(stoa.CodeVersionNotFound, "POST", h.at("/files/restore"), m{"path": "handbook/refunds.md", "version": 99})

	h.With("If-Match", `"stale"`).WantError(stoa.CodePrecondition, "DELETE", h.at("/files", "path", "handbook/refunds.md"), nil)
	h.Want(204, "DELETE", h.at("/files", "path", "handbook/refunds.md"), nil)
	h.Want(204, "DELETE", h.at("/files", "path", "handbook/refunds.md"), nil)
	h.WantError(stoa.CodeFileNotFound, "DELETE", h.at("/files", "path", "none"), nil)
	h.put(t, 201, "a/1", "x")
	h.put(t, 201, "a/2", "x")
	h.put(t, 201, "ab", "x")
	h.WantError(stoa.CodeMissingParameter, "DELETE", h.at("/files", "prefix", "a"), nil)
	h.WantError(stoa.CodeMissingParameter, "DELETE", h.at("/files"), nil)
	h.WantError(stoa.CodeInvalidValue, "DELETE", h.at("/files", "prefix", "a", "path", "a"), nil)
	h.WantError(stoa.CodeInvalidPath, "DELETE", h.at("/files", "prefix", "../", "recursive", "true"), nil)
	h.WantError(stoa.CodeInvalidType, "DELETE", h.at("/files", "prefix", "a", "recursive", "maybe"), nil)
	h.Want(204, "DELETE", h.at("/files", "prefix", "a", "recursive", "true"), nil)
	h.WantError(stoa.CodeFileNotFound, "DELETE", h.at("/files", "prefix", "a", "recursive", "true"), nil)
	var list contract.DriveFileList
	h.Want(200, "GET", h.at("/files"), nil).JSON(&list)
	if len(list.Data) != 2 || list.Data[0].Path != "ab" || list.HasMore {
		t.Errorf("%+v", list)
	}
}

func TestAnothersAgentIsNoAgent(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{})
	var other contract.AccountWithKey
	h.Want(201, "POST", "/api/v1/accounts", m{"name": "Other"}).JSON(&other)
	theirs := newAgent(t, h.Service, other.ID)
	var bodies []string
	for _, id := range []string{theirs, stoa.NewID("agt"), "x", "..%2f..%2fx"} {
		d := "/api/v1/api-agents/" + id + "/drive"
		for _, c := range []struct {
			method, path string
			body         any
		}{
			{"GET", d, nil},
			{"GET", d + "/files", nil},
			{"PUT", d + "/files", m{"path": "a", "content": "b"}},
			{"DELETE", d + "/files?path=a", nil},
			{"GET", d + "/files/metadata?path=a", nil},
			{"GET", d + "/files/content?path=a", nil},
			{"GET", d + "/files/text?path=a", nil},
			{"GET", d + "/files/page?path=a&page=1", nil},
			{"POST", d + "/files/reread", m{"path": "a"}},
			{"PUT", d + "/files/content?path=a", "raw"},
			{"POST", d + "/files/move", m{"from": "a", "to": "b"}},
			{"GET", d + "/files/versions?path=a", nil},
			{"POST", d + "/files/restore", m{"path": "a", "version": 1}},
			{"POST", d + "/batch", m{"operations": []m{{"op": "delete", "path": "a"}}}},
			{"GET", d + "/search?q=a", nil},
			{"GET", d + "/export", nil},
		} {
			e := h.WantError(stoa.CodeAgentNotFound, c.method, c.path, c.body)
			bodies = append(bodies, e.Message+fmt.Sprint(e.Param))
		}
	}
	for _, b := range bodies {
		if b[:10] != bodies[0][:10] {
			t.Errorf("%q and %q differ", b, bodies[0])
		}
	}
}

func TestRawContent(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{MaxFileBytes: 1 << 20})
	content := bytes.Repeat([]byte("\x00\x01\x02binary"), 40_000)
	raw := func(status int, path, contentType string, body []byte, query ...string) contract.WrittenDriveFile {
		t.Helper()
		var f contract.WrittenDriveFile
		h.With("Content-Type", contentType).Want(status, "PUT", h.at("/files/content", append(query, "path", path)...), body).JSON(&f)
		return f
	}
	if f := raw(201, "a.bin", "", content); f.Text || f.MimeType != "application/octet-stream" || f.Size != int64(len(content)) {
		t.Errorf("%+v", f)
	}
	if f := raw(201, "a.md", "application/x-www-form-urlencoded", []byte("# A")); !f.Text || f.MimeType != "text/markdown" {
		t.Errorf("%+v", f)
	}
	if f := raw(200, "a.md", "application/octet-stream", []byte("# A")); f.Outcome != "unchanged" {
		t.Errorf("%+v", f)
	}
	if f := raw(200, "a.md", "text/plain", []byte("# A"), "mimeType", "application/octet-stream"); !f.Text || f.MimeType != "application/octet-stream" {
		t.Errorf("%+v", f)
	}
	if f := raw(201, "empty.txt", "", nil); f.Size != 0 || !f.Text {
		t.Errorf("%+v", f)
	}
	h.With("Content-Type", "no type").WantError(stoa.CodeInvalidValue, "PUT", h.at("/files/content", "path", "b"), "x")
	h.With("Content-Encoding", "gzip").WantError(stoa.CodeMediaType, "PUT", h.at("/files/content", "path", "b"), "x")
	h.WantError(stoa.CodeMissingParameter, "PUT", h.at("/files/content"), "x")
	h.WantError(stoa.CodeInvalidPath, "PUT", h.at("/files/content", "path", "a//b"), "x")
	h.WantError(stoa.CodePathConflict, "PUT", h.at("/files/content", "path", "a.bin/b"), "x")
	h.WantError(stoa.CodeInvalidValue, "PUT", h.at("/files/content")+"?path=a&path=b", "x")
	h.WantError(stoa.CodeTooLarge, "PUT", h.at("/files/content", "path", "large"), make([]byte, 1<<20+1))
	h.With("If-None-Match", "*").WantError(stoa.CodePrecondition, "PUT", h.at("/files/content", "path", "a.bin"), "x")

	// Without a length, the limit is found while reading.
	req, err := http.NewRequest("PUT", h.Service.URL+h.at("/files/content", "path", "large"), io.LimitReader(endless{}, 3<<20))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Service.Key)
	if res, err := http.DefaultClient.Do(req); err == nil { // the server may close the connection while the body is sent
		if res.StatusCode != 413 {
			t.Errorf("answered %d", res.StatusCode)
		}
		res.Body.Close()
	}

	r := h.Want(200, "GET", h.at("/files/content", "path", "a.bin"), nil)
	want := map[string]string{
		"Content-Disposition": `attachment; filename=a.bin`, "Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'", "Content-Length": fmt.Sprint(len(content)),
	}
	for name, value := range want {
		if r.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, r.Header.Get(name), value)
		}
	}
	if !bytes.Equal(r.Body, content) {
		t.Error("the content is another")
	}
	n := len(content)
	etag := r.Header.Get("ETag")
	for _, c := range []struct {
		header, ifRange string
		from, to        int // the end excluded
		status          int
	}{
		{"bytes=0-0", "", 0, 1, 206},
		{"bytes=5-9", "", 5, 10, 206},
		{"bytes=262140-262150", "", 262140, 262151, 206},
		{"bytes=100-", "", 100, n, 206},
		{"bytes=-7", "", n - 7, n, 206},
		{"bytes=-99999999999999999999", "", 0, n, 206},
		{fmt.Sprintf("bytes=%d-%d", n-1, n+5), "", n - 1, n, 206},
		{"BYTES=1-2", "", 1, 3, 206},
		{"bytes=1-2", etag, 1, 3, 206},
		{"bytes=1-2", `"other"`, 0, n, 200},
		{"bytes=1-2", "W/" + etag, 0, n, 200},
		{"bytes=1-2,4-5", "", 0, n, 200},
		{"bytes=5-1", "", 0, n, 200},
		{"lines=1-2", "", 0, n, 200},
		{"bytes=a-b", "", 0, n, 200},
		{"bytes=-", "", 0, n, 200},
		{"bytes", "", 0, n, 200},
		{"bytes=+1-2", "", 0, n, 200},
		{fmt.Sprintf("bytes=%d-", n), "", 0, 0, 416},
		{"bytes=99999999999999999999-", "", 0, 0, 416},
		{"bytes=-0", "", 0, 0, 416},
	} {
		cl := h.With("Range", c.header)
		if c.ifRange != "" {
			cl = cl.With("If-Range", c.ifRange)
		}
		r := cl.Want(c.status, "GET", h.at("/files/content", "path", "a.bin"), nil)
		switch c.status {
		case 416:
			if r.Error().Code != string(stoa.CodeRange) || r.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", n) {
				t.Errorf("%s: %v", c.header, r.Header)
			}
		case 206:
			if r.Header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, n) {
				t.Errorf("%s: %s", c.header, r.Header.Get("Content-Range"))
			}
			fallthrough
		default:
			if !bytes.Equal(r.Body, content[c.from:c.to]) {
				t.Errorf("%s gives %d bytes", c.header, len(r.Body))
			}
		}
	}
	h.With("Range", "bytes=0-").Want(416, "GET", h.at("/files/content", "path", "empty.txt"), nil)
	for name, want := range map[string]string{
		`a b;"c".txt`: `attachment; filename="a b;\"c\".txt"`, "é.html": "attachment; filename*=utf-8''%C3%A9.html", "dir/x.svg": "attachment; filename=x.svg",
	} {
		h.put(t, 201, name, "<script>alert(1)</script>")
		if r := h.Want(200, "GET", h.at("/files/content", "path", name), nil); r.Header.Get("Content-Disposition") != want {
			t.Errorf("%q: %s", name, r.Header.Get("Content-Disposition"))
		}
	}
	if r := h.Do("HEAD", h.at("/files/content", "path", "a.bin"), nil); r.Status != 200 || r.Header.Get("Content-Length") != fmt.Sprint(n) || len(r.Body) > 0 {
		t.Errorf("HEAD: %d %v", r.Status, r.Header)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestMovesRestoresAndBatchesHappenOnce(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{})
	h.put(t, 201, "a", "1")
	once := h.With("Idempotency-Key", "k1")
	first := once.Want(200, "POST", h.at("/files/move"), m{"from": "a", "to": "b/c"})
	again := once.Want(200, "POST", h.at("/files/move"), m{"from": "a", "to": "b/c"})
	if again.Header.Get("Idempotency-Replayed") != "true" || first.Header.Get("Idempotency-Replayed") != "" || !bytes.Equal(first.Body, again.Body) || first.Header.Get("ETag") != again.Header.Get("ETag") {
		t.Errorf("%s and %s", first.Body, again.Body)
	}
	once.WantError(stoa.CodeIdempotencyReused, "POST", h.at("/files/move"), m{"from": "b/c", "to": "a"})
	h.WantError(stoa.CodeFileNotFound, "POST", h.at("/files/move"), m{"from": "a", "to": "b/c"})
	h.With("Idempotency-Key", strings.Repeat("x", 256)).WantError(stoa.CodeInvalidValue, "POST", h.at("/files/move"), m{"from": "a", "to": "b"})
	h.put(t, 201, "d", "2")
	if e := h.WantError(stoa.CodeConflict, "POST", h.at("/files/move"), m{"from": "d", "to": "b/c"}); *e.Param != "to" {
		t.Errorf("%+v", e)
	}
	if e := h.WantError(stoa.CodePathConflict, "POST", h.at("/files/move"), m{"from": "d", "to": "b/c/x"}); *e.Param != "to" {
		t.Errorf("%+v", e)
	}
	h.Want(200, "POST", h.at("/files/move"), m{"from": "d", "to": "b/c", "overwrite": true})
	h.With("Idempotency-Key", "k1").Want(200, "POST", h.at("/files/restore"), m{"path": "b/c", "version": 3})
	h.With("Idempotency-Key", "k1").WantError(stoa.CodeIdempotencyReused, "POST", h.at("/files/restore"), m{"path": "b/c", "version": 2})
	h.put(t, 201, "x", "was a file")
	h.Want(204, "DELETE", h.at("/files", "path", "x"), nil)
	h.put(t, 201, "x/y", "folder now")
	var versions contract.DriveVersionList
	h.Want(200, "GET", h.at("/files/versions", "path", "x"), nil).JSON(&versions)
	h.WantError(stoa.CodePathConflict, "POST", h.at("/files/restore"), m{"path": "x", "version": versions.Data[0].Version})

	batch := m{"operations": []m{{"op": "put", "path": "new.md", "content": "bmV3", "encoding": "base64", "ifNoneMatch": "*"}, {"op": "move", "from": "b/c", "to": "moved"}, {"op": "delete", "path": "x/y", "ifMatch": "*"}, {"op": "delete", "path": "none"}}}
	r1 := h.With("Idempotency-Key", "k2").Want(200, "POST", h.at("/batch"), batch)
	r2 := h.With("Idempotency-Key", "k2").Want(200, "POST", h.at("/batch"), batch)
	var result contract.DriveBatchResult
	r2.JSON(&result)
	if !bytes.Equal(r1.Body, r2.Body) || r2.Header.Get("Idempotency-Replayed") != "true" || len(result.Results) != 4 {
		t.Errorf("%s\n%s", r1.Body, r2.Body)
	}
	var outcomes []string
	for _, o := range result.Results {
		outcomes = append(outcomes, o.Outcome+" "+o.Path)
	}
	if diff := cmp.Diff([]string{"created new.md", "moved b/c", "deleted x/y", "unchanged none"}, outcomes); diff != "" {
		t.Error(diff)
	}
	h.With("Idempotency-Key", "k2").WantError(stoa.CodeIdempotencyReused, "POST", h.at("/batch"), m{"operations": []m{{"op": "delete", "path": "new.md"}}})
	for _, c := range []struct {
		code  stoa.Code
		op    m
		param string
	}{
		{stoa.CodePrecondition, m{"op": "put", "path": "new.md", "content": "x", "ifNoneMatch": "*"}, "operations[1].path"},
		{stoa.CodePrecondition, m{"op": "delete", "path": "new.md", "ifMatch": `"other"`}, "operations[1].path"},
		{stoa.CodePathConflict, m{"op": "put", "path": "new.md/x", "content": "x"}, "operations[1].path"},
		{stoa.CodeFileNotFound, m{"op": "move", "from": "none", "to": "x"}, "operations[1].from"},
		{stoa.CodeConflict, m{"op": "move", "from": "moved", "to": "new.md"}, "operations[1].to"},
		{stoa.CodeInvalidPath, m{"op": "put", "path": "/x", "content": "x"}, "operations[1].path"},
		{stoa.CodeInvalidValue, m{"op": "put", "path": "x", "content": "?", "encoding": "base64"}, "operations[1].content"},
	} {
		e := h.WantError(c.code, "POST", h.at("/batch"), m{"operations": []m{{"op": "put", "path": "undone", "content": "x"}, c.op}})
		if e.Param == nil || *e.Param != c.param {
			t.Errorf("%v: param %v, want %s", c.op, e.Param, c.param)
		}
	}
	h.WantError(stoa.CodeFileNotFound, "GET", h.at("/files/metadata", "path", "undone"), nil)
}

func TestSearchAndListOverHTTP(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{})
	h.put(t, 201, "handbook/refunds.md", "# Refunds\n\nMoney back within 14 days.\n")
	h.put(t, 201, "handbook/de/versand.md", "Der Versand dauert zwei Tage.\n")
	h.put(t, 201, "top.txt", "nothing")
	var found contract.DriveSearchResult
	h.Want(200, "GET", h.at("/search", "q", "refund days"), nil).JSON(&found)
	if len(found.Data) != 1 || found.Data[0].Path != "handbook/refunds.md" || found.Data[0].StartLine != 1 || found.Data[0].EndLine != 3 || found.Data[0].Score != 1 {
		t.Errorf("%+v", found)
	}
	h.Want(200, "GET", h.at("/search", "q", "nothing", "prefix", "handbook/"), nil).JSON(&found)
	if len(found.Data) != 0 {
		t.Errorf("%+v", found)
	}
	h.WantError(stoa.CodeMissingParameter, "GET", h.at("/search"), nil)
	h.WantError(stoa.CodeInvalidValue, "GET", h.at("/search", "q", "***"), nil)
	h.WantError(stoa.CodeInvalidValue, "GET", h.at("/search", "q", "a", "limit", "0"), nil)
	h.WantError(stoa.CodeInvalidPath, "GET", h.at("/search", "q", "a", "prefix", "/"), nil)

	var list contract.DriveFileList
	h.Want(200, "GET", h.at("/files", "delimiter", "/", "limit", "1"), nil).JSON(&list)
	if !list.HasMore || list.CommonPrefixes[0] != "handbook/" || len(list.Data) != 0 {
		t.Errorf("%+v", list)
	}
	cursor, _ := list.NextCursor.Get()
	h.Want(200, "GET", h.at("/files", "delimiter", "/", "limit", "1", "cursor", cursor), nil).JSON(&list)
	if list.HasMore || len(list.Data) != 1 || list.Data[0].Path != "top.txt" {
		t.Errorf("%+v", list)
	}
	h.WantError(stoa.CodeInvalidCursor, "GET", h.at("/files", "cursor", cursor), nil)
	h.WantError(stoa.CodeInvalidValue, "GET", h.at("/files", "delimiter", "x"), nil)
	h.WantError(stoa.CodeInvalidType, "GET", h.at("/files", "limit", "many"), nil)
	h.WantError(stoa.CodeInvalidPath, "GET", h.at("/files", "prefix", "../"), nil)

	r := h.Want(200, "GET", h.at("/export"), nil)
	z, err := zip.NewReader(bytes.NewReader(r.Body), int64(len(r.Body)))
	if err != nil || len(z.File) != 3 || !strings.HasPrefix(r.Header.Get("Content-Disposition"), "attachment; filename=agt_") {
		t.Errorf("%v %v", err, r.Header)
	}
}

func TestAFullDriveSaysSo(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{MaxFiles: 1, MaxBytes: 10, MaxFileBytes: 10})
	h.put(t, 201, "a", "1")
	for _, c := range []struct {
		method, what string
		body         any
	}{
		{"PUT", "/files", m{"path": "b", "content": "x"}},
		{"PUT", "/files/content?path=b", "x"},
		{"POST", "/batch", m{"operations": []m{{"op": "put", "path": "b", "content": "x"}}}},
	} {
		if e := h.WantError(stoa.CodeStorageFull, c.method, h.at(c.what), c.body); e.Retryable {
			t.Error("trying again does not help")
		}
	}
	h.WantError(stoa.CodeTooLarge, "PUT", h.at("/files"), m{"path": "a", "content": "12345678901"})
}

func TestALargeFileInJSONCostsLittleMemory(t *testing.T) {
	h := startDrive(t, drive.Limits{})
	body := `{"path":"a.bin","mimeType":"application/octet-stream","encoding":"base64","content":"` + base64.StdEncoding.EncodeToString(make([]byte, 10<<20)) + `"}`
	req, err := http.NewRequest("PUT", h.Service.URL+h.at("/files"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Service.Key)
	req.Header.Set("Content-Type", "application/json")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	runtime.ReadMemStats(&after)
	all := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("a file of 10 MiB in base64: %d MiB allocated in all", all)
	most := uint64(60)
	if h.Store.Postgres() {
		most += 15 // PostgreSQL's driver puts it into a message
	}
	if res.StatusCode != 201 || all > most {
		t.Errorf("%d, %d MiB", res.StatusCode, all)
	}
}

func TestBodiesOfTheDriveAreCheckedLikeAllOthers(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{})
	h.put(t, 201, "a", "x")
	for _, op := range []struct{ method, what string }{{"PUT", "/files"}, {"POST", "/files/move"}, {"POST", "/files/restore"}, {"POST", "/files/reread"}, {"POST", "/batch"}} {
		for _, c := range []struct {
			client *apitest.Client
			body   string
			want   stoa.Code
		}{
			{h.Client, "{", stoa.CodeInvalidJSON},
			{h.Client, "[]", stoa.CodeInvalidJSON},
			{h.Client, "", stoa.CodeInvalidJSON},
			{h.Client, `{"a":1,"a":2}`, stoa.CodeInvalidJSON},
			{h.Client, `{"nmae":"typo"}`, stoa.CodeUnknownField},
			{h.Client, "{}", stoa.CodeMissingParameter},
			{h.Client, strings.Repeat(" ", 16<<20+1), stoa.CodeTooLarge},
			{h.With("Content-Type", "text/plain"), "{}", stoa.CodeMediaType},
			{h.With("Content-Encoding", "gzip"), "\x1f\x8b", stoa.CodeMediaType},
		} {
			if e := c.client.WantError(c.want, op.method, h.at(op.what), c.body); c.want == stoa.CodeUnknownField && *e.Param != "nmae" {
				t.Errorf("%+v", e)
			}
		}
	}
	h.WantError(stoa.CodePathConflict, "PUT", h.at("/files"), m{"path": "a/b", "content": "x"})
	h.WantError(stoa.CodeInvalidPath, "PUT", h.at("/files"), m{"path": "", "content": "x"})
	if f := h.put(t, 201, "cafe\u0301", "x"); f.Path != "caf\u00e9" {
		t.Errorf("%q", f.Path)
	}
	h.Want(200, "GET", h.at("/files/content", "path", "cafe\u0301"), nil)
}

func TestAFullDiskUnderTheDriveChangesNothing(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := startDrive(t, drive.Limits{})
	large := strings.Repeat("words to fill pages ", 2000)
	h.put(t, 201, "a", large)
	h.put(t, 200, "a", "small")
	for n := range 4 {
		ops := []m{}
		for i := range 500 {
			ops = append(ops, m{"op": "put", "path": fmt.Sprintf("many/%d", 500*n+i), "content": "x", "mimeType": "application/octet-stream"})
		}
		h.Want(200, "POST", h.at("/batch"), m{"operations": ops})
	}
	var before, after contract.Drive
	err := h.Server.Drive.Drives.DB().Write(context.Background(), func(tx *db.Tx) error {
		return tx.Query(context.Background(), func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	// There may be space for a little on the pages that are there already.
	for i := range 200 {
		if h.Do("PUT", h.at("/files"), m{"path": fmt.Sprintf("fill%d", i), "content": fmt.Sprint(i) + large}).Status == 507 {
			break
		}
	}
	h.Want(507, "POST", h.at("/files/restore"), m{"path": "a", "version": 1})
	until := func(name string, ask func(i int) *apitest.Reply) {
		t.Helper()
		for i := range 200 {
			if r := ask(i); r.Status == 507 {
				return
			} else if r.Status >= 300 {
				t.Fatalf("%s: %d %s", name, r.Status, r.Body)
			}
		}
		t.Errorf("%s: the disk never became full", name)
	}
	until("move", func(i int) *apitest.Reply {
		return h.Do("POST", h.at("/files/move"), m{"from": fmt.Sprintf("many/%d", i), "to": fmt.Sprintf("moved/%d/", i) + strings.Repeat("long/", 150) + "x"})
	})
	until("delete", func(i int) *apitest.Reply { // one of each page, so that no page becomes free
		return h.Do("DELETE", h.at("/files", "path", fmt.Sprintf("many/%d", 300+7*i)), nil)
	})
	h.Want(200, "GET", h.at(""), nil).JSON(&before)
	h.Want(507, "PUT", h.at("/files"), m{"path": "b", "content": large + "more"})
	h.Want(200, "GET", h.at(""), nil).JSON(&after)
	if after.Files != before.Files || after.Revision != before.Revision {
		t.Errorf("%+v became %+v", before, after)
	}
}

// TestALongPathIsACursor lists page by page where a page ends with the longest
// path that a drive takes.
func TestALongPathIsACursor(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	folder := strings.Repeat(strings.Repeat("a", 255)+"/", 3)
	for _, last := range []string{"b", "c"} {
		a.file(folder+strings.Repeat(last, 1024-len(folder)-2)+"/d", "text")
	}
	var first, second contract.DriveFileList
	a.Want(200, "GET", a.agent+"/drive/files?limit=1", nil).JSON(&first)
	a.Want(200, "GET", a.agent+"/drive/files?limit=1&cursor="+orNone(first.NextCursor), nil).JSON(&second)
	if len(second.Data) != 1 || second.Data[0].Path == first.Data[0].Path || second.HasMore {
		t.Errorf("the second page is %+v", second)
	}
}
