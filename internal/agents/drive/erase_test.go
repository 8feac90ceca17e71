package drive_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
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
	d, err := drive.Open(t.Context(), db.Config{Dir: dir}, drive.Limits{})
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
