package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// A documentReader reads documents of the form "%PDF-status text". Other content is a text in
// the encoding that is named.
type documentReader struct{ away, busy atomic.Bool }

func (r *documentReader) Read(_ context.Context, d extract.Document) (extract.Result, error) {
	if r.away.Load() {
		return extract.Result{}, errors.New("the reader is not available")
	}
	content, err := io.ReadAll(d.Content)
	document, ok := strings.CutPrefix(string(content), "%PDF-")
	switch {
	case !ok && d.Encoding == "":
		return extract.Result{Status: extract.UnknownEncoding, Note: "It may be windows-1252 or gbk."}, err
	case !ok:
		return extract.Result{Status: extract.Ready, Encoding: d.Encoding, Text: []byte("read as " + d.Encoding)}, err
	}
	status, text, _ := strings.Cut(document, " ")
	out := extract.Result{Status: extract.Status(status)}
	if out.Status == extract.Ready || out.Status == extract.Partial {
		out.Text, out.Pages = []byte("[page 1]\n"+text+"\n"), 1
		out.Places = []extract.Place{{Line: 1, Name: "p. 1", Page: 1}}
	}
	return out, err
}

func (r *documentReader) Page(context.Context, extract.Document, extract.Page) ([]byte, error) {
	if r.busy.Load() {
		return nil, extract.ErrBusy
	}
	return nil, errors.New("no page")
}

func startReading(t *testing.T, limits drive.Limits) (driveService, *documentReader) {
	r := &documentReader{}
	h := start(t, apitest.Config{Drive: limits, Reader: r, Idle: true})
	return driveService{Service: h, Client: h.Client(t), drive: "/api/v1/api-agents/" + newAgent(t, h, h.Account.ID) + "/drive"}, r
}

func TestAFileSaysWhetherItsTextIsSearchable(t *testing.T) {
	t.Parallel()
	h, r := startReading(t, drive.Limits{})
	for _, status := range []string{"ready", "partial", "none", "empty", "encrypted", "broken", "timeout", "unsupported", "unknown_encoding", "pending"} {
		r.away.Store(status == "pending")
		path := status + ".pdf"
		f := h.put(t, 201, path, "%PDF-"+status+" words of a document")
		text := status == "ready" || status == "partial"
		if f.TextStatus != status || f.Text != text || f.Lines.IsNull() == text || f.Pages.IsNull() == text {
			t.Errorf("%+v", f)
		}
		if !text {
			if e := h.WantError(stoa.CodeNoText, "GET", h.at("/files/text", "path", path), nil); !strings.Contains(e.Message, "textStatus "+status) {
				t.Error(e.Message)
			}
			continue
		}
		got := h.Want(200, "GET", h.at("/files/text", "path", path), nil)
		if string(got.Body) != "[page 1]\nwords of a document\n" || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(got.Header.Get("Content-Disposition"), path+".txt") {
			t.Errorf("%s, %v", got.Body, got.Header)
		}
		h.With("If-None-Match", got.Header.Get("ETag")).Want(304, "GET", h.at("/files/text", "path", path), nil)
	}
	if f := h.put(t, 201, "a.txt", "a text"); f.TextStatus != "ready" || !f.Pages.IsNull() || !f.TextNote.IsNull() || !f.TextEncoding.IsNull() {
		t.Errorf("%+v", f)
	}
	if got := h.Want(200, "GET", h.at("/files/text", "path", "a.txt"), nil); string(got.Body) != "a text" {
		t.Errorf("%s", got.Body)
	}
	h.WantError(stoa.CodeFileNotFound, "GET", h.at("/files/text", "path", "none"), nil)
	h.WantError(stoa.CodeInvalidPath, "GET", h.at("/files/text", "path", "../x"), nil)
	var list contract.DriveFileList
	h.Want(200, "GET", h.at("/files", "limit", "100"), nil).JSON(&list)
	for _, f := range list.Data {
		if name, _, _ := strings.Cut(f.Path, "."); name != "a" && f.TextStatus != name && name != "pending" {
			t.Errorf("the list says %+v", f)
		}
	}
	var found contract.DriveSearchResult
	h.Want(200, "GET", h.at("/search", "q", "words"), nil).JSON(&found)
	for _, hit := range found.Data {
		if place, _ := hit.Place.Get(); place != "p. 1" || hit.Path != "ready.pdf" && hit.Path != "partial.pdf" && hit.Path != "pending.pdf" {
			t.Errorf("%+v", hit)
		}
	}
	if len(found.Data) < 2 {
		t.Errorf("%+v", found)
	}
}

func TestTheOwnerNamesAnEncoding(t *testing.T) {
	t.Parallel()
	h, _ := startReading(t, drive.Limits{})
	var f contract.WrittenDriveFile
	raw := h.With("Content-Type", "text/plain")
	raw.Want(201, "PUT", h.at("/files/content", "path", "a.txt"), []byte("caf\xe9")).JSON(&f)
	if note, _ := f.TextNote.Get(); f.TextStatus != "unknown_encoding" || note == "" {
		t.Errorf("%+v", f)
	}
	raw.Want(200, "PUT", h.at("/files/content", "path", "a.txt", "textEncoding", "Latin1"), []byte("caf\xe9")).JSON(&f)
	if encoding, _ := f.TextEncoding.Get(); f.TextStatus != "ready" || encoding != "windows-1252" || f.Outcome != "unchanged" {
		t.Errorf("%+v", f)
	}
	h.Want(201, "PUT", h.at("/files"), m{"path": "b.txt", "content": "//8=", "encoding": "base64", "textEncoding": "utf-16le"}).JSON(&f)
	if encoding, _ := f.TextEncoding.Get(); f.TextStatus != "ready" || encoding != "utf-16le" {
		t.Errorf("%+v", f)
	}
	var batch contract.DriveBatchResult
	h.Want(200, "POST", h.at("/batch"), m{"operations": []m{{"op": "put", "path": "c.txt", "content": "/w==", "encoding": "base64", "textEncoding": "koi8-r"}}}).JSON(&batch)
	if file, _ := batch.Results[0].File.Get(); file.TextStatus != "ready" {
		t.Errorf("%+v", batch)
	}
	for _, c := range []struct {
		method, what string
		body         any
	}{
		{"PUT", "/files", m{"path": "b.txt", "content": "x", "textEncoding": "klingon"}},
		{"PUT", "/files/content?path=b.txt&textEncoding=klingon", "x"},
		{"POST", "/files/reread", m{"path": "b.txt", "textEncoding": "klingon"}},
		{"POST", "/batch", m{"operations": []m{{"op": "put", "path": "b", "content": "x", "textEncoding": "klingon"}}}},
	} {
		if e := h.WantError(stoa.CodeInvalidValue, c.method, h.at(c.what), c.body); !strings.HasSuffix(*e.Param, "textEncoding") {
			t.Errorf("%+v", e)
		}
	}
}

func TestATextIsReadAgain(t *testing.T) {
	t.Parallel()
	h, r := startReading(t, drive.Limits{MaxBytes: 200})
	r.away.Store(true)
	h.put(t, 201, "a.pdf", "%PDF-ready short words")
	var f contract.DriveFile
	h.Want(202, "POST", h.at("/files/reread"), m{"path": "a.pdf"}).JSON(&f)
	if f.Path != "a.pdf" || f.Text {
		t.Errorf("%+v", f)
	}
	h.put(t, 201, "long.pdf", "%PDF-ready "+strings.Repeat("x", 100))
	r.away.Store(false)
	h.Want(200, "POST", h.at("/files/reread"), m{"path": "a.pdf"}).JSON(&f)
	if f.TextStatus != "ready" {
		t.Errorf("%+v", f)
	}
	h.WantError(stoa.CodeStorageFull, "POST", h.at("/files/reread"), m{"path": "long.pdf"})
	h.WantError(stoa.CodeFileNotFound, "POST", h.at("/files/reread"), m{"path": "none.pdf"})
	h.put(t, 201, "b.txt", "plain")
	h.Want(200, "POST", h.at("/files/reread"), m{"path": "b.txt"}).JSON(&f)
	if f.TextStatus != "ready" || !f.TextEncoding.IsNull() {
		t.Errorf("%+v", f)
	}
	// A document whose text exceeds the limit with it is not written.
	h.WantError(stoa.CodeStorageFull, "PUT", h.at("/files"), m{"path": "c.pdf", "content": "%PDF-ready " + strings.Repeat("y", 100)})
	if e := h.WantError(stoa.CodeUnknownField, "POST", h.at("/files/reread"), m{"path": "a", "encoding": "utf-8"}); fmt.Sprint(*e.Param) != "encoding" {
		t.Errorf("%+v", e)
	}
}

func TestPagesAreShownAsImages(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Reader: extracttest.Direct{}, Idle: true})
	s := driveService{Service: h, Client: h.Client(t), drive: "/api/v1/api-agents/" + newAgent(t, h, h.Account.ID) + "/drive"}
	s.put(t, 201, "a.txt", "a text")
	s.With("Content-Type", "application/pdf").Want(201, "PUT", s.at("/files/content", "path", "a.pdf"), extracttest.PDF("Refunds", "within 14 days", "within 14 days"))
	page := func(query ...string) *apitest.Reply {
		t.Helper()
		return s.Want(200, "GET", s.at("/files/page", append([]string{"path", "a.pdf"}, query...)...), nil)
	}
	marked := func(r *apitest.Reply) (yellow, width int) {
		t.Helper()
		img, err := png.Decode(bytes.NewReader(r.Body))
		if err != nil {
			t.Fatal(err)
		}
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				if r, _, b, _ := img.At(x, y).RGBA(); r > 0xf000 && b < 0x8000 {
					yellow++
				}
			}
		}
		return yellow, img.Bounds().Dx()
	}
	plain := page("page", "2")
	if yellow, width := marked(plain); yellow != 0 || width != 1000 {
		t.Errorf("%d yellow pixels, %d wide", yellow, width)
	}
	if h := plain.Header; h.Get("Content-Type") != "image/png" || h.Get("Cache-Control") != "private, no-cache" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox;") {
		t.Errorf("%v", h)
	}
	s.With("If-None-Match", plain.Header.Get("ETag")).Want(304, "GET", s.at("/files/page", "path", "a.pdf", "page", "2"), nil)
	// The text is "[page 1]", "Refunds", "[page 2]", "within 14 days", "[page 3]", "within 14 days".
	if yellow, width := marked(page("page", "2", "width", "600", "fromLine", "2", "toLine", "6")); yellow < 300 || width != 600 {
		t.Errorf("%d yellow pixels, %d wide", yellow, width)
	}
	if yellow, _ := marked(page("page", "3", "width", "600", "fromLine", "2", "toLine", "4")); yellow != 0 {
		t.Errorf("%d yellow pixels in a page without a marked line", yellow)
	}
	for _, bad := range [][]string{{"page", "4"}, {"page", "0"}, {"page", "1", "width", "2001"}, {"page", "1", "toLine", "3"}, {"page", "1", "fromLine", "3", "toLine", "2"}} {
		s.WantError(stoa.CodeInvalidValue, "GET", s.at("/files/page", append([]string{"path", "a.pdf"}, bad...)...), nil)
	}
	s.WantError(stoa.CodeInvalidValue, "GET", s.at("/files/page", "path", "a.txt", "page", "1"), nil)
	s.WantError(stoa.CodeFileNotFound, "GET", s.at("/files/page", "path", "b.pdf", "page", "1"), nil)
	s.WantError(stoa.CodeMissingParameter, "GET", s.at("/files/page", "path", "a.pdf"), nil)
}

func TestABusyReaderShowsNoPage(t *testing.T) {
	t.Parallel()
	h, r := startReading(t, drive.Limits{})
	h.put(t, 201, "a.pdf", "%PDF-ready words")
	r.busy.Store(true)
	if e := h.WantError(stoa.CodeOverloaded, "GET", h.at("/files/page", "path", "a.pdf", "page", "1"), nil); !strings.Contains(e.Message, "Try again") {
		t.Error(e.Message)
	}
}
