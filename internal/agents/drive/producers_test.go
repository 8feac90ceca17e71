package drive_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
)

// TestDocumentsOfProducersAreFound stores the documents that programs have written, and finds each sentence by a phrase
// of its words, at its place. Every sentence has the number of its document, so that no other one has its words.
func TestDocumentsOfProducersAreFound(t *testing.T) {
	t.Parallel()
	sources := extracttest.Producers("../../..")
	list, err := extracttest.ReadMade(sources, sources+"/made")
	if err != nil {
		t.Fatal(err)
	}
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		d.UseReader(extracttest.Direct{})
		d.SetReaders(extract.Version, 0)
		sentences, found := 0, 0
		for _, m := range list {
			put(t, d, m.Name, string(m.Content))
		}
		for _, m := range list {
			if f, err := d.Get(t.Context(), who, path(t, m.Name)); err != nil || f.TextStatus != extract.Ready && !f.Text {
				t.Errorf("%s: %s, %v", m.Name, f.TextStatus, err)
			}
			for _, s := range m.Sentences {
				sentences++
				hits, err := searchDrive(d, t.Context(), who, `"`+strings.NewReplacer(`"`, " ", "“", " ", "”", " ", "„", " ").Replace(s.Text)+`"`, "", 0)
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(hits, func(h drive.Hit) bool { return h.Path == m.Name && within(h.Place, s.Place) }) {
					found++
				} else {
					t.Errorf("%s: %s: %q at %q is not among %d hits", m.Name, s.Language, s.Text, s.Place, len(hits))
				}
			}
		}
		t.Logf("%d documents, %d of %d sentences", len(list), found, sentences)
	})
}

// within reports whether the place of a hit, such as "slide 1–3", includes a place of a document.
func within(place, want string) bool {
	unit := want[:strings.LastIndexByte(want, ' ')+1]
	numbers, ok := strings.CutPrefix(place, unit)
	first, last, _ := strings.Cut(numbers, "–")
	from, err := strconv.Atoi(first)
	at, fault := strconv.Atoi(want[len(unit):])
	if err != nil || fault != nil {
		return strings.Contains(place, want)
	}
	to, _ := strconv.Atoi(last)
	return ok && from <= at && at <= max(from, to)
}
