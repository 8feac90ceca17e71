package responses

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRepliesOfTheLastReleaseAreRead restores the replies of testdata/stored, which the
// previous release stored under an Idempotency-Key, in each format: their items are read, and
// writing them again yields the stored bytes. The files are never rewritten.
func TestRepliesOfTheLastReleaseAreRead(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/stored/*.json")
	if err != nil || len(paths) != 6 {
		t.Fatal(paths, err)
	}
	makers := map[string]formatMaker{"responses": &echo{maxToolCalls: -1}, "chat": &chatMaker{}, "messages": messagesMaker{}}
	for _, path := range paths {
		stored, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		format, kind, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".json"), "-")
		f := makers[format].newFormat()
		rep, o, err := f.restore(stored)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var texts []string
		for _, it := range o.items {
			texts = append(texts, it.text.String()+it.sealed)
		}
		want := "Hello wörld"
		if kind == "items" {
			want = `I think.stoa1.r1 | Hello | stoa1.r2 | {"a":1}`
		}
		if got := strings.Join(texts, " | "); got != want && format != "chat" {
			t.Errorf("%s: the items are %s", path, got)
		}
		if again := makers[format].newFormat().object(nil, rep, o); string(again) != string(stored) {
			t.Errorf("%s is written as\n%s", path, again)
		}
	}
}
