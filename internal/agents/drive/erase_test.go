package drive_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
)

// Erased files are in no file of the database and not in the bucket, although that keeps deleted objects for backups.
func TestErasedDrivesLeaveNothing(t *testing.T) {
	t.Parallel()
	const marker = "zebraquagga7531"
	dir := t.TempDir()
	d, err := drive.Open(t.Context(), db.Config{Dir: dir}, drive.Limits{}) // on SQLite, whose files are searched
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	b := newBucket(t, time.Hour)
	d.UseBucket(b.Bucket)
	other := drive.Owner{AccountID: who.AccountID, AgentID: "agt_other"}
	for i, o := range []drive.Owner{who, other, who, other} { // so that segments of the index contain words of both
		for _, text := range []string{marker + " and other words", "kept " + marker[:5]} {
			if o == other {
				text = "nothing to see"
			}
			if _, err := d.Put(t.Context(), o, path(t, marker[:5*(i%2)]+string(rune('a'+i))+".md"), drive.BytesContent([]byte(text)), "", drive.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := putBytes(t, d, marker+".png", image(600_000)); err != nil {
		t.Fatal(err)
	}
	if err := putBytes(t, d, "gone.png", image(700_000)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Delete(t.Context(), who, path(t, "gone.png"), drive.Condition{}); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Erase(t.Context(), who.AccountID, true, func(_ context.Context, o drive.Owner) (bool, error) { return o == who, nil }); err != nil || n != 1 {
		t.Fatalf("%d drives, %v", n, err)
	}
	if err := d.DB().EmptyLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := b.names(t); len(names) != 0 {
		t.Errorf("the bucket has %q", names)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(marker[3:])) { // the index omits the beginning that a word shares with the one before
			t.Errorf("%s contains the marker", filepath.Base(name))
		}
	}
	if s, err := d.Stats(t.Context(), other); err != nil || s.Files != 2 {
		t.Errorf("the other drive has %d files, %v", s.Files, err)
	}
}

// A column with texts must be on the list of erasures, so that whoever adds one decides what an erasure does to it.
func TestErasuresListEveryColumnWithTexts(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		tables, err := d.DB().Tables(t.Context())
		if err != nil || len(tables) < len(drive.Erased) {
			t.Fatalf("%d tables, %v", len(tables), err)
		}
		for _, table := range tables {
			var texts []string
			for _, c := range table.Columns {
				if c.Kind != db.Integer {
					texts = append(texts, c.Name)
				}
			}
			listed := drive.Erased[table.Name]
			if table.Name == "drive_passages" && !d.DB().Postgres() {
				listed = ""
			}
			if got := strings.Join(texts, " "); strings.HasPrefix(table.Name, "drive_") && !sameWords(got, listed) {
				t.Errorf("%s has the texts %q, and the list of erasures names %q", table.Name, got, listed)
			}
		}
	})
}

func sameWords(a, b string) bool {
	return slices.Equal(slices.Sorted(strings.FieldsSeq(a)), slices.Sorted(strings.FieldsSeq(b)))
}
