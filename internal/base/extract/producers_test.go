package extract_test

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

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

// TestDocumentsOfProducersAreReadWhole reads the documents of testdata/producers/made: none is refused, each sentence is
// at its place, and each cell under its head. Set STOA_TEST_PRODUCERS to a directory that make.sh has filled to read
// what the installed versions of the programs write, and to see where the texts differ.
func TestDocumentsOfProducersAreReadWhole(t *testing.T) {
	t.Parallel()
	const sources, stored = "testdata/producers", "testdata/producers/made"
	dir := cmp.Or(os.Getenv("STOA_TEST_PRODUCERS"), stored)
	list, err := extracttest.ReadMade(sources, dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(dir string, m extracttest.Made) extract.Result {
		content, err := os.ReadFile(filepath.Join(dir, m.Name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := extracttest.Direct{}.Read(t.Context(), extract.Document{Name: m.Name, Content: bytes.NewReader(content)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	documents, sentences, hits, cells, under := 0, 0, 0, 0, 0
	for _, m := range list {
		if m.Content == nil && dir != stored {
			t.Logf("skipped: %s was not made", m.Name)
			continue
		}
		r := texts(dir, m)
		if documents++; r.Status != extract.Ready {
			t.Errorf("%s: %s %s", m.Name, r.Status, r.Note)
		}
		for _, s := range m.Sentences {
			sentences++
			if strings.Contains(shownWords(textAt(r, s.Place), s.Language), shownWords(s.Text, s.Language)) {
				hits++
			} else {
				t.Errorf("%s: %s: not found at %q: %s", m.Name, s.Language, s.Place, s.Text)
			}
		}
		if m.Table != nil {
			n, wrong := m.CellsUnderHeads(string(r.Text))
			cells, under = cells+(len(m.Table)-2)*len(m.Table[0]), under+n
			for _, cell := range wrong {
				t.Error(cell)
			}
		}
		if dir != stored {
			logDifference(t, m.Name, string(texts(stored, m).Text), string(r.Text))
		}
	}
	t.Logf("%d documents, %d of %d sentences, %d of %d cells", documents, hits, sentences, under, cells)
	if dir == stored && cells < 600 {
		t.Errorf("%d cells, 600 are promised", cells)
	}
}

// shownWords returns a text without what programs and line ends change: quotes, hyphens and white space; scripts without
// spaces lose all of it.
func shownWords(text, language string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\u00ad' {
			return -1
		}
		if unicode.In(r, unicode.Quotation_Mark, unicode.Dash) && r != '«' && r != '»' {
			return ' '
		}
		return r
	}, norm.NFC.String(text))
	if language == "ja" || language == "zh" {
		return dense(text)
	}
	return plain(text)
}

// logDifference logs the first lines in which a text differs from the stored one, except for the date of a message and
// the random names of the cells of a notebook.
func logDifference(t *testing.T, name, before, after string) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && !strings.HasPrefix(a[i], "Date: ") && !strings.Contains(a[i], `"id": `) {
			t.Logf("%s reads otherwise than the stored one: line %d was %q, and is %q", name, i+1, a[i], b[i])
			return
		}
	}
	if len(a) != len(b) {
		t.Logf("%s has %d lines; the stored one has %d", name, len(b), len(a))
	}
}
