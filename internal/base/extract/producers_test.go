package extract_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
)

// TestDocumentsOfProgramsReadAsTheyLook reads what programs write, and compares it with what a person reads there, in
// testdata/producers: Chromium 156, LibreOffice 7.4.7, wkhtmltopdf 0.12.6 and pdfTeX 1.40.24.
func TestDocumentsOfProgramsReadAsTheyLook(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/producers/*.txt")
	if err != nil || len(names) < 9 {
		t.Fatalf("%d documents: %v", len(names), err)
	}
	for _, name := range names {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		document := strings.TrimSuffix(name, ".txt") + ".pdf"
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		r, err := extracttest.Direct{}.Read(t.Context(), extract.Document{Name: document, Content: bytes.NewReader(content)})
		if err != nil || r.Status != extract.Ready || strings.TrimSpace(string(r.Text)) != strings.TrimSpace(string(want)) {
			t.Errorf("%s: %s %s %v\n%s\nwant\n%s", document, r.Status, r.Note, err, r.Text, want)
		}
	}
}
