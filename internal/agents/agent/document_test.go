package agent_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// A paged reads documents whose pages end with a form feed. A document that is only a form feed
// is a scan, and one that begins with "?" is encrypted.
type paged struct{ image string }

func (paged) Read(_ context.Context, d extract.Document) (extract.Result, error) {
	content, err := io.ReadAll(d.Content)
	text := strings.TrimPrefix(string(content), "%PDF-")
	out := extract.Result{Status: extract.Ready}
	switch {
	case strings.HasPrefix(text, "?"):
		return extract.Result{Status: extract.Encrypted}, err
	case text == "\f":
		return extract.Result{Status: extract.Empty, Pages: 2}, err
	}
	for page := range strings.SplitSeq(text, "\f") {
		out.Pages++
		out.Places = append(out.Places, extract.Place{Line: int64(strings.Count(string(out.Text), "\n")) + 1, Name: fmt.Sprintf("p. %d", out.Pages), Page: out.Pages})
		out.Text = fmt.Appendf(out.Text, "[page %d]\n%s\n", out.Pages, page)
	}
	return out, err
}

func (p paged) Page(context.Context, extract.Document, extract.Page) ([]byte, error) {
	return []byte(p.image), nil
}

func TestDocumentsAreReadByPage(t *testing.T) {
	t.Parallel()
	call := func(name, arguments string) stoa.ToolCall {
		return stoa.ToolCall{ID: fmt.Sprint(len(arguments), name), Name: name, Arguments: arguments}
	}
	l := &looker{steps: [][]stoa.ToolCall{{
		call("drive_list", `{}`),
		call("drive_read", `{"path":"a.pdf","page":2}`),
		call("drive_read", `{"path":"a.pdf","page":3}`), // without text
		call("drive_read", `{"path":"scan.pdf"}`),
		call("drive_read", `{"path":"scan.pdf","page":2} `),
		call("drive_read", `{"path":"a.pdf","page":9}  `),
		call("drive_search", `{"query":"needle"}`),
		call("drive_search", `{"query":"last row"}`),
		call("drive_search", `{"query":"thread"}`),
		call("drive_read", `{"path":"long.txt"}`),
		call("drive_read", `{"path":"long.txt","fromByte":79990}`),
		call("drive_read", `{"path":"t.csv","fromRow":301,"toRow":303}`),
		call("drive_read", `{"path":"t.csv","sheet":"Other","fromRow":2}`),
		call("drive_read", `{"path":"a.pdf","page":2,"image":true}`),
	}}}
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(l.script))
	h.Drives.UseReader(paged{picture(t, 3, 2, 0)})
	l.runOn(t, h, map[string]string{
		"a.pdf": "%PDF-first page\fa needle here\f\flast", "scan.pdf": "%PDF-\f", "locked.pdf": "%PDF-?",
		"t.csv": "name,amount\n" + strings.Repeat("somebody,12\n", 300) + "last row,99\n", "long.txt": strings.Repeat("01234567", 10_000),
		"line.txt": strings.Repeat("some words ", 1000) + "thread" + strings.Repeat(" some words", 1000),
	})
	texts, images := l.results()
	for i, want := range [][]string{
		{`"path":"locked.pdf","bytes":6,"mimeType":"application/pdf","unread":"It needs a password."`, `"pages":4`, `"pages":2,"unread":"It contains no text`},
		{`"place":"p. 2","lines":"3-4"`, `a needle here`},
		{`"path":"a.pdf","page":3,"mimeType":"image/png"`},
		{"has no text to read", "It has 2 pages; drive_read shows one with the argument page."},
		{`"path":"scan.pdf","page":2`},
		{`has 4 pages; there is no page 9`},
		{`"place":"p. 1–4"`},
		{`"path":"t.csv"`, `"header":"name,amount"`},
		{`"path":"line.txt","lines":"1","fromByte":`},
		{`The line is cut: it is too long to be given whole. Read on with fromLine 1 and fromByte `},
		{`"text":"6701234567"}`},
		{`"lines":"301-302","totalLines":302,"header":"name,amount","text":"somebody,12\nlast row,99\n"`},
		{`"lines":"2-302"`},
		{`"path":"a.pdf","page":2,"mimeType":"image/png"`},
	} {
		for _, part := range want {
			if !strings.Contains(texts[i], part) {
				t.Errorf("result %d is %s, without %s", i, texts[i], part)
			}
		}
	}
	if images != 3 {
		t.Errorf("%d images", images)
	}
}
