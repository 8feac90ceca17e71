package drive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

func bytesOp(t testing.TB, p, text string) drive.Op {
	return drive.Op{Verb: drive.VerbPut, Path: path(t, p), Content: drive.BytesContent([]byte(text))}
}

func paths(t testing.TB, d *drive.Drives) []string {
	t.Helper()
	out := []string{}
	q := drive.Listing{Limit: 1000}
	for {
		l, err := d.List(t.Context(), who, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range l.Files {
			out = append(out, f.Path)
		}
		if q.Cursor = l.Next; q.Cursor == "" {
			return out
		}
	}
}

func TestAFileIsNeverAlsoAFolder(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a/b/c", "x")
		put(t, d, "a/bc", "beside, not below")
		put(t, d, "a/b.", "sorts before the slash")
		for _, p := range []string{"a", "a/b", "a/b/c/d", "a/b/c/d/e", "a/bc/x"} {
			_, err := d.PutText(t.Context(), who, drive.Claim{}, path(t, p), "y", "")
			wantCode(t, err, stoa.CodePathConflict)
		}
		_, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, "a/bc"), To: path(t, "a/b")}})
		wantCode(t, err, stoa.CodePathConflict)
		if e := stoa.AsError(err); e.Param != "to" {
			t.Errorf("the fault is at %q", e.Param)
		}
		// A file may move to a path below its own: its old path becomes free.
		if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, "a/bc"), To: path(t, "a/bc/d")}}); err != nil {
			t.Error(err)
		}
		if c, err := d.DeleteFolder(t.Context(), who, "a/b/"); err != nil || c.Count != 1 {
			t.Errorf("delete a/b/: %+v, %v", c, err)
		}
		put(t, d, "a/b", "now a file")
		if diff := cmp.Diff([]string{"a/b", "a/b.", "a/bc/d"}, paths(t, d)); diff != "" {
			t.Error(diff)
		}
		check(t, d)
	})
}

func TestOfAFileAndAFolderOneIsWritten(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for i := range 10 {
			file, below := path(t, fmt.Sprintf("n%d", i)), path(t, fmt.Sprintf("n%d/x", i))
			var wg sync.WaitGroup
			var won, lost atomic.Int64
			for j := range 8 {
				wg.Go(func() {
					p := file
					if j%2 == 1 {
						p = below
					}
					switch _, err := d.PutText(context.Background(), who, drive.Claim{}, p, fmt.Sprint(j), ""); {
					case err == nil:
						won.Add(1)
					case stoa.CodeOf(err) == stoa.CodePathConflict:
						lost.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 4 || lost.Load() != 4 {
				t.Errorf("%d won and %d lost", won.Load(), lost.Load())
			}
		}
		check(t, d)
	})
}

func TestOneOfManyWritersWithAnETagWins(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a.txt", "0")
		now := "0"
		for round := range 5 {
			var wg sync.WaitGroup
			var won atomic.Int64
			var winner atomic.Value
			for j := range 16 {
				wg.Go(func() {
					text := fmt.Sprintf("%d/%d", round, j)
					_, err := d.Put(context.Background(), who, path(t, "a.txt"), drive.BytesContent([]byte(text)), "", drive.Condition{Match: []string{hash(now)}})
					if err == nil {
						won.Add(1)
						winner.Store(text)
					} else if stoa.CodeOf(err) != stoa.CodePrecondition {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Fatalf("%d writers won", won.Load())
			}
			if now = winner.Load().(string); read(t, d, "a.txt") != now {
				t.Errorf("content is %q, the winner wrote %q", read(t, d, "a.txt"), now)
			}
		}
		var wg sync.WaitGroup
		var created atomic.Int64
		for j := range 16 {
			wg.Go(func() {
				_, err := d.Put(context.Background(), who, path(t, "new.txt"), drive.BytesContent([]byte(fmt.Sprint(j))), "", drive.Condition{NotExist: true})
				if err == nil {
					created.Add(1)
				} else if stoa.CodeOf(err) != stoa.CodePrecondition {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if created.Load() != 1 {
			t.Errorf("%d created the file", created.Load())
		}
		check(t, d)
	})
}

func TestConditions(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a", "1")
		for _, c := range []struct {
			path string
			cond drive.Condition
			ok   bool
		}{
			{"a", drive.Condition{Match: []string{"*"}}, true},
			{"a", drive.Condition{Match: []string{"other", hash("1")}}, true},
			{"a", drive.Condition{Match: []string{"other"}}, false},
			{"a", drive.Condition{Match: []string{}}, false},
			{"a", drive.Condition{NotExist: true}, false},
			{"b", drive.Condition{Match: []string{"*"}}, false},
			{"b", drive.Condition{Match: []string{hash("1")}}, false},
		} {
			_, err := d.Put(t.Context(), who, path(t, c.path), drive.BytesContent([]byte("1")), "", c.cond)
			if c.ok != (err == nil) || !c.ok && stoa.CodeOf(err) != stoa.CodePrecondition {
				t.Errorf("%s %+v: %v", c.path, c.cond, err)
			}
		}
		_, err := d.Delete(t.Context(), who, path(t, "a"), drive.Condition{Match: []string{"other"}})
		wantCode(t, err, stoa.CodePrecondition)
		if _, err := d.Delete(t.Context(), who, path(t, "a"), drive.Condition{Match: []string{hash("1")}}); err != nil {
			t.Error(err)
		}
	})
}

func TestABatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "keep", "k")
		put(t, d, "old", "o")
		before, _ := d.Stats(t.Context(), who)
		_, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{
			bytesOp(t, "new", "n"),
			{Verb: drive.VerbDelete, Path: path(t, "old")},
			bytesOp(t, "keep", "changed"),
			{Verb: drive.VerbMove, Path: path(t, "missing"), To: path(t, "x")},
		})
		wantCode(t, err, stoa.CodeFileNotFound)
		if oe, ok := errors.AsType[*drive.OpError](err); !ok || oe.Index != 3 {
			t.Errorf("the error is %v", err)
		}
		if diff := cmp.Diff([]string{"keep", "old"}, paths(t, d)); diff != "" {
			t.Error(diff)
		}
		if after, _ := d.Stats(t.Context(), who); after != before {
			t.Errorf("stats changed: %+v", after)
		}
		if hits, err := searchDrive(d, t.Context(), who, "changed", "", 0); err != nil || len(hits) != 0 {
			t.Errorf("the index kept %v, %v", hits, err)
		}
		r, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{
			bytesOp(t, "new", "n"),
			{Verb: drive.VerbMove, Path: path(t, "new"), To: path(t, "folder/new")},
			{Verb: drive.VerbDelete, Path: path(t, "old")},
			bytesOp(t, "old/now-a-folder", "x"), bytesOp(t, "keep", "k"),
			{Verb: drive.VerbDelete, Path: path(t, "none")},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []drive.Outcome
		for _, c := range r.Changes {
			got = append(got, c.Outcome)
		}
		if diff := cmp.Diff([]drive.Outcome{drive.Created, drive.Moved, drive.Deleted, drive.Created, drive.Unchanged, drive.Unchanged}, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"folder/new", "keep", "old/now-a-folder"}, paths(t, d)); diff != "" {
			t.Error(diff)
		}
		_, err = d.Apply(t.Context(), who, drive.Claim{}, make([]drive.Op, 501))
		wantCode(t, err, stoa.CodeInvalidValue)
		check(t, d)
	})
}

func TestAClaimedWriteHappensOnce(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		once := drive.Claim{Scope: drive.StepScope, Ref: "ses_1.1.2"}
		var wg sync.WaitGroup
		var fresh atomic.Int64
		results := make([]drive.Result, 8)
		for i := range results {
			wg.Go(func() {
				r, err := d.Apply(context.Background(), who, once, []drive.Op{bytesOp(t, "a", "first")})
				if err != nil {
					t.Error(err)
				} else if !r.Replayed {
					fresh.Add(1)
				}
				results[i] = r
			})
		}
		wg.Wait()
		if fresh.Load() != 1 {
			t.Errorf("applied %d times", fresh.Load())
		}
		for _, r := range results {
			if r.Revision != 1 || r.Changes[0].Outcome != drive.Created || r.Changes[0].File.ID != results[0].Changes[0].File.ID {
				t.Errorf("a repetition: %+v", r)
			}
		}
		put(t, d, "a", "second") // by another writer, before the step is repeated once more
		if r, err := d.Apply(t.Context(), who, once, []drive.Op{bytesOp(t, "a", "first")}); err != nil || !r.Replayed || read(t, d, "a") != "second" {
			t.Errorf("%+v, %v, %q", r, err, read(t, d, "a"))
		}

		key := drive.Claim{Scope: "POST /x", Ref: "k", Body: "h1"}
		if r, err := d.Apply(t.Context(), who, key, []drive.Op{bytesOp(t, "b", "1")}); err != nil || r.Replayed {
			t.Errorf("%+v, %v", r, err)
		}
		_, err := d.Apply(t.Context(), who, drive.Claim{Scope: "POST /x", Ref: "k", Body: "h2"}, []drive.Op{bytesOp(t, "b", "2")})
		wantCode(t, err, stoa.CodeIdempotencyReused)
		other := drive.Owner{AccountID: "acc_1", AgentID: "agt_2"}
		if r, err := d.Apply(t.Context(), other, key, []drive.Op{bytesOp(t, "b", "2")}); err != nil || r.Replayed {
			t.Errorf("another drive's key: %+v, %v", r, err)
		}
		// The result of a failed write is not stored.
		retry := drive.Claim{Scope: "POST /x", Ref: "retry", Body: "h"}
		_, err = d.Apply(t.Context(), who, retry, []drive.Op{bytesOp(t, "b/c", "1")})
		wantCode(t, err, stoa.CodePathConflict)
		if _, err := d.Delete(t.Context(), who, path(t, "b"), drive.Condition{}); err != nil {
			t.Fatal(err)
		}
		if r, err := d.Apply(t.Context(), who, retry, []drive.Op{bytesOp(t, "b/c", "1")}); err != nil || r.Replayed {
			t.Errorf("%+v, %v", r, err)
		}
		check(t, d)
	})
}

func TestQuotasHoldForConcurrentWrites(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{MaxFiles: 10, MaxBytes: 100, MaxFileBytes: 60}, func(t *testing.T, d *drive.Drives) {
		var wg sync.WaitGroup
		var full atomic.Int64
		for i := range 30 {
			wg.Go(func() {
				if _, err := d.PutText(context.Background(), who, drive.Claim{}, path(t, fmt.Sprintf("f%d", i)), fmt.Sprint(i), ""); stoa.CodeOf(err) == stoa.CodeStorageFull {
					full.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s, _ := d.Stats(t.Context(), who); s.Files != 10 || full.Load() != 20 {
			t.Errorf("%d files, %d refused", s.Files, full.Load())
		}
		if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, paths(t, d)[0]), To: path(t, "moved")}}); err != nil {
			t.Errorf("a move in a full drive: %v", err)
		}
		_, err := d.PutText(t.Context(), who, drive.Claim{}, path(t, "moved"), strings.Repeat("x", 61), "")
		wantCode(t, err, stoa.CodeTooLarge)
		if _, err = d.PutText(t.Context(), who, drive.Claim{}, path(t, "moved"), strings.Repeat("x", 60), ""); err != nil {
			t.Error(err)
		}
		_, err = d.PutText(t.Context(), who, drive.Claim{}, path(t, paths(t, d)[1]), strings.Repeat("y", 60), "")
		wantCode(t, err, stoa.CodeStorageFull)
		check(t, d)
	})
}

// TestAnAccountsBytesHoldForManyDrives writes to many drives of one account concurrently.
func TestAnAccountsBytesHoldForManyDrives(t *testing.T) {
	t.Parallel()
	const limit = 4096
	for _, tt := range []struct {
		name             string
		first, each, fit int // existing bytes, bytes of a write, number of writes that fit
	}{
		{"large", 0, limit / 5, 5},
		{"small", limit/4*3 - 4, limit / 1024, 257},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, drive.Limits{MaxBytes: limit, MaxAccountBytes: limit}, func(t *testing.T, d *drive.Drives) {
				write := func(agent string, n int, size int) error {
					_, err := d.PutText(context.Background(), drive.Owner{AccountID: "acct_many", AgentID: agent}, drive.Claim{}, path(t, fmt.Sprint(n)), strings.Repeat("x", size), "")
					return err
				}
				if tt.first > 0 {
					if err := write("first", 0, tt.first); err != nil {
						t.Fatal(err)
					}
				}
				var wg sync.WaitGroup
				var fitted atomic.Int64
				for i := range 16 {
					wg.Go(func() {
						for n := range tt.fit/16 + 2 {
							if err := write(fmt.Sprint("agent", i), n, tt.each); err == nil {
								fitted.Add(1)
							} else if stoa.CodeOf(err) != stoa.CodeStorageFull {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				if n := fitted.Load(); int(n) != tt.fit {
					t.Errorf("%d writes of %d bytes were taken where %d fit", n, tt.each, tt.fit)
				}
			})
		})
	}
}

func TestHistoryIsKeptWithinBounds(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{MaxFiles: 10, MaxBytes: 100, MaxVersions: 3}, func(t *testing.T, d *drive.Drives) {
		for i := range 8 {
			put(t, d, "a", fmt.Sprintf("text %d", i))
		}
		v, err := d.Versions(t.Context(), who, path(t, "a"))
		if err != nil || len(v) != 4 || !v[0].Current || v[1].SHA256 != hash("text 6") || v[3].SHA256 != hash("text 4") {
			t.Errorf("%+v, %v", v, err)
		}
		for i := range 12 {
			p := fmt.Sprintf("big%d", i)
			put(t, d, p, strings.Repeat(fmt.Sprint(i%10), 30))
			if _, err := d.Delete(t.Context(), who, path(t, p), drive.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if s, _ := d.Stats(t.Context(), who); s.HistoryBytes > 100 || s.HistoryFiles > 10 {
			t.Errorf("%+v", s)
		}
		check(t, d)
	})
}

func TestOldVersionsCanBeRestored(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		first := put(t, d, "a.md", "about foxes\n").File
		put(t, d, "a.md", "about geese\n")
		restore := func(p string, version int64) (drive.Change, error) {
			r, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbRestore, Path: path(t, p), Version: version}})
			if err != nil {
				return drive.Change{}, err
			}
			return r.Changes[0], nil
		}
		c, err := restore("a.md", first.Version)
		if err != nil || c.Outcome != drive.Replaced || c.File.Version != 3 || c.File.Lines != 1 || read(t, d, "a.md") != "about foxes\n" {
			t.Errorf("%+v, %v", c, err)
		}
		if c, err = restore("a.md", first.Version); err != nil || c.Outcome != drive.Unchanged {
			t.Errorf("%+v, %v", c, err)
		}
		if _, err := d.Delete(t.Context(), who, path(t, "a.md"), drive.Condition{}); err != nil {
			t.Fatal(err)
		}
		if hits, _ := searchDrive(d, t.Context(), who, "foxes", "", 0); len(hits) != 0 {
			t.Errorf("a deleted text is found: %v", hits)
		}
		if c, err = restore("a.md", 2); err != nil || c.Outcome != drive.Created || read(t, d, "a.md") != "about geese\n" {
			t.Errorf("%+v, %v", c, err)
		}
		if hits, _ := searchDrive(d, t.Context(), who, "goose geese", "", 0); len(hits) != 1 {
			t.Errorf("a restored text is not found: %v", hits)
		}
		_, err = restore("a.md", 99)
		wantCode(t, err, stoa.CodeVersionNotFound)
		_, err = restore("b.md", 1)
		wantCode(t, err, stoa.CodeVersionNotFound)
		if _, err := d.Delete(t.Context(), who, path(t, "a.md"), drive.Condition{}); err != nil {
			t.Fatal(err)
		}
		put(t, d, "a.md/now/a/folder", "x")
		_, err = restore("a.md", 1)
		wantCode(t, err, stoa.CodePathConflict)
		check(t, d)
	})
}

func TestMove(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		a := put(t, d, "drafts/a.md", "about foxes\n").File
		put(t, d, "b.md", "about geese\n")
		move := func(from, to string, overwrite bool) (drive.Change, error) {
			r, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, from), To: path(t, to), Overwrite: overwrite}})
			if err != nil {
				return drive.Change{}, err
			}
			return r.Changes[0], nil
		}
		_, err := move("drafts/a.md", "b.md", false)
		wantCode(t, err, stoa.CodeConflict)
		c, err := move("drafts/a.md", "b.md", true)
		if err != nil || c.Outcome != drive.Moved || c.File.ID != a.ID || !c.File.CreatedAt.Equal(a.CreatedAt) || read(t, d, "b.md") != "about foxes\n" {
			t.Errorf("%+v, %v", c, err)
		}
		if hits, _ := searchDrive(d, t.Context(), who, "foxes", "", 0); len(hits) != 1 || hits[0].Path != "b.md" {
			t.Errorf("%v", hits)
		}
		for _, gone := range []string{"geese", "drafts"} {
			if hits, _ := searchDrive(d, t.Context(), who, gone, "", 0); len(hits) != 0 {
				t.Errorf("%q finds %v", gone, hits)
			}
		}
		if c, err := move("b.md", "b.md", false); err != nil || c.Outcome != drive.Unchanged {
			t.Errorf("%+v, %v", c, err)
		}
		_, err = move("drafts/a.md", "c", false)
		wantCode(t, err, stoa.CodeFileNotFound)
		// After a move there and back the index still has the name.
		if _, err := move("b.md", "zebra/b.md", false); err != nil {
			t.Fatal(err)
		}
		if hits, _ := searchDrive(d, t.Context(), who, "zebra foxes", "", 0); len(hits) != 1 {
			t.Errorf("%v", hits)
		}
		check(t, d)
	})
}

func TestLimitsMayAllowShorterPaths(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{MaxPath: 10, MaxSegment: 5}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "abcde/fghi", "x")
		for _, p := range []string{"abcde/fghij", "abcdef"} {
			_, err := d.PutText(t.Context(), who, drive.Claim{}, path(t, p), "y", "")
			wantCode(t, err, stoa.CodeInvalidPath)
		}
		_, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, "abcde/fghi"), To: path(t, "abcdef")}})
		if wantCode(t, err, stoa.CodeInvalidPath); stoa.AsError(err).Param != "to" {
			t.Error(err)
		}
	})
}

// TestReplacedContentIsBounded checks that replacing a file again and again fills neither the
// quota nor the disk.
func TestReplacedContentIsBounded(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{MaxBytes: 100, MaxAccountBytes: 100, MaxVersions: 2}, func(t *testing.T, d *drive.Drives) {
		for i := range 40 {
			put(t, d, "a.txt", fmt.Sprintf("%050d", i))
		}
		var kept int64
		err := d.DB().Read(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Get(t.Context(), `SELECT CAST(SUM(size) AS BIGINT) FROM drive_blobs`, nil, &kept)
			return err
		})
		// The file, the same amount of history, waiting content, and the last two freed.
		if err != nil || kept > 50+100+100+100 {
			t.Errorf("%d bytes are kept of 40 versions with 50 bytes (%v)", kept, err)
		}
		if got := read(t, d, "a.txt"); got != fmt.Sprintf("%050d", 39) {
			t.Errorf("the file holds %q", got)
		}
	})
}
