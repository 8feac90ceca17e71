// Package extracttest helps tests to read documents: [Child] makes a test binary the child of
// an [extract.Service], [Direct] reads documents without a child, and [PDF] and [DOCX] make
// documents.
package extracttest

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"stoa/internal/base/extract"
)

// Child runs the child if the process was started as one. Call it at the top of TestMain:
//
//	if code, ran := extracttest.Child(); ran {
//		os.Exit(code)
//	}
func Child() (code int, ran bool) {
	if len(os.Args) != 2 || os.Args[1] != "extract" {
		return 0, false
	}
	if err := extract.Child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// Cache returns the directory of the compiled PDF reader of all tests of this user. Compiling
// it takes several seconds.
func Cache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "stoa-test-pdf")
}

// Direct is a reader that reads documents in the process of the test.
type Direct struct{}

// Read implements [extract.Reader].
func (Direct) Read(ctx context.Context, d extract.Document) (extract.Result, error) {
	data, err := io.ReadAll(d.Content)
	if err != nil {
		return extract.Result{}, err
	}
	return extract.Parse(ctx, d, data, Cache()), nil
}

// Page implements [extract.Reader].
func (Direct) Page(ctx context.Context, d extract.Document, page extract.Page) ([]byte, error) {
	data, err := io.ReadAll(d.Content)
	if err != nil {
		return nil, err
	}
	r := extract.RenderPage(ctx, data, page, Cache())
	if r.Status != extract.Ready {
		return nil, &extract.PageError{Status: r.Status, Note: r.Note}
	}
	return r.Text, nil
}

// PDF returns a PDF file with a line of ASCII text on each page.
func PDF(pages ...string) []byte {
	var b bytes.Buffer
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(at)}, args...)...)
	}
	b.WriteString("%PDF-1.4\n")
	var kids strings.Builder
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Count %d /Kids [%s] >>", len(pages), kids.String())
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for i, text := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F 3 0 R >> >> /Contents %d 0 R >>", 5+2*i)
		show := "BT /F 10 Tf 50 700 Td (" + strings.NewReplacer("\\", `\\`, "(", `\(`, ")", `\)`).Replace(text) + ") Tj ET"
		object("<< /Length %d >>\nstream\n%s\nendstream", len(show), show)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}

// DOCX returns a DOCX file with paragraphs, which must not contain XML.
func DOCX(paragraphs ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("word/document.xml")
	if err == nil {
		_, err = fmt.Fprintf(w, `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:body></w:document>`,
			strings.Join(paragraphs, `</w:t></w:r></w:p><w:p><w:r><w:t>`))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil { // in memory
		panic(err)
	}
	return b.Bytes()
}
