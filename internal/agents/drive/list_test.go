package drive_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/storetest"
)

// entries reads all pages and returns files and folders together.
func entries(t testing.TB, d *drive.Drives, q drive.Listing) []string {
	t.Helper()
	out := []string{}
	for {
		l, err := d.List(t.Context(), who, q)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(l.Files) + len(l.Prefixes); n > q.Limit || n == 0 && l.Next != "" {
			t.Fatalf("a page of %d with the limit %d", n, q.Limit)
		}
		page := slices.Clone(l.Prefixes)
		for _, f := range l.Files {
			page = append(page, f.Path)
		}
		slices.Sort(page)
		if q.Desc {
			slices.Reverse(page)
		}
		out = append(out, page...)
		if q.Cursor = l.Next; q.Cursor == "" {
			return out
		}
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		all := []string{"a", "b/1", "b/2", "b/c/3", "b-", "b.txt", "z/y/x/w", "ä", "日/本", "日/山/1", "日/山/2"}
		slices.Sort(all)
		for _, p := range all {
			put(t, d, p, p)
		}
		for range 70 { // a folder larger than one read
			put(t, d, fmt.Sprintf("b/many/%d", len(all)), "x")
			all = append(all, fmt.Sprintf("b/many/%d", len(all)))
		}
		slices.Sort(all)
		for _, limit := range []int{1, 2, 3, 100} {
			for _, desc := range []bool{false, true} {
				for _, c := range []struct {
					prefix, delimiter string
					want              []string
				}{
					{"", "", all},
					{"", "/", []string{"a", "b-", "b.txt", "b/", "z/", "ä", "日/"}},
					{"b/", "/", []string{"b/1", "b/2", "b/c/", "b/many/"}},
					{"b", "/", []string{"b-", "b.txt", "b/"}},
					{"z/y/", "/", []string{"z/y/x/"}},
					{"日/", "/", []string{"日/山/", "日/本"}},
					{"nothing", "/", []string{}},
					{"b/many/7", "", []string{"b/many/70", "b/many/71", "b/many/72", "b/many/73", "b/many/74", "b/many/75", "b/many/76", "b/many/77", "b/many/78", "b/many/79"}},
				} {
					want := slices.Clone(c.want)
					if desc {
						slices.Reverse(want)
					}
					if c.prefix == "b/many/7" {
						want = slices.DeleteFunc(want, func(s string) bool { return !slices.Contains(all, s) })
						if i := slices.Index(all, "b/many/7"); i >= 0 {
							t.Fatal("the test's own names")
						}
					}
					if diff := cmp.Diff(want, entries(t, d, drive.Listing{Prefix: c.prefix, Delimiter: c.delimiter, Desc: desc, Limit: limit})); diff != "" {
						t.Errorf("prefix %q delimiter %q desc %v limit %d:\n%s", c.prefix, c.delimiter, desc, limit, diff)
					}
				}
			}
		}
	})
}

// On PostgreSQL each statement is a round trip.
func TestFoldersTakeNoStatementEach(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		statements := 0
		d := open(t, db.Config{Dir: home.Config.Dir, PostgresURL: home.Config.PostgresURL, Trace: func(trace db.Trace) { statements = trace.Statements }}, drive.Limits{})
		const folders = 40
		for i := range folders {
			put(t, d, fmt.Sprintf("%d/a", i), "x")
			put(t, d, fmt.Sprintf("%d/b", i), "x")
		}
		l, err := d.List(t.Context(), who, drive.Listing{Delimiter: "/", Limit: 100})
		if err != nil || len(l.Prefixes) != folders || statements > 2 {
			t.Errorf("%d folders in %d statements, %v", len(l.Prefixes), statements, err)
		}
	})
}

func TestPrefixesMayEndInASegment(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, p := range []string{"\u00ff1", "\u0100", "\ud7ff/1", "\ue000", "\U0010ffff", "\U0010ffff\U0010ffff", "z"} {
			put(t, d, p, "word")
		}
		for prefix, want := range map[string]int{"\u00ff": 1, "\ud7ff": 1, "\ud7ff/": 1, "\ue000": 1, "\U0010ffff": 2, "\U0010ffff\U0010ffff": 1, "z": 1} {
			if got := entries(t, d, drive.Listing{Prefix: prefix, Limit: 100}); len(got) != want {
				t.Errorf("prefix %q lists %q", prefix, got)
			}
			if got := entries(t, d, drive.Listing{Prefix: prefix, Limit: 1, Desc: true}); len(got) != want {
				t.Errorf("prefix %q lists %q backwards", prefix, got)
			}
			if hits, err := searchDrive(d, t.Context(), who, "word", prefix, 0); err != nil || len(hits) != want {
				t.Errorf("prefix %q finds %v, %v", prefix, hits, err)
			}
		}
	})
}

func TestCursorsBelongToTheirList(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, p := range []string{"a/1", "a/2", "a/3"} {
			put(t, d, p, "x")
		}
		q := drive.Listing{Prefix: "a/", Limit: 1}
		l, err := d.List(t.Context(), who, q)
		if err != nil || l.Next == "" {
			t.Fatal(l, err)
		}
		q.Cursor = l.Next
		for name, other := range map[string]drive.Listing{
			"prefix":    {Prefix: "a", Limit: 1, Cursor: l.Next},
			"order":     {Prefix: "a/", Limit: 1, Desc: true, Cursor: l.Next},
			"delimiter": {Prefix: "a/", Delimiter: "/", Limit: 1, Cursor: l.Next},
			"damage":    {Prefix: "a/", Limit: 1, Cursor: l.Next[:len(l.Next)-1] + "_"},
			"nonsense":  {Prefix: "a/", Limit: 1, Cursor: "?"},
			"shortness": {Prefix: "a/", Limit: 1, Cursor: "AAAA"},
		} {
			if _, err := d.List(t.Context(), who, other); stoa.CodeOf(err) != stoa.CodeInvalidCursor {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := d.List(t.Context(), drive.Owner{AccountID: "acc_2", AgentID: "agt_1"}, q); stoa.CodeOf(err) != stoa.CodeInvalidCursor {
			t.Errorf("another account: %v", err)
		}
		// The file of the cursor may be deleted; a new one before it is not listed.
		d.Delete(t.Context(), who, path(t, "a/1"), drive.Condition{})
		put(t, d, "a/0", "x")
		if l, err = d.List(t.Context(), who, q); err != nil || l.Files[0].Path != "a/2" {
			t.Errorf("%+v, %v", l, err)
		}
		for _, prefix := range []string{"/", "a//", "../", "a/../b", "\\", "a\x00", "\xff"} {
			if _, err := d.List(t.Context(), who, drive.Listing{Prefix: prefix}); stoa.CodeOf(err) != stoa.CodeInvalidPath {
				t.Errorf("prefix %q: %v", prefix, err)
			}
		}
		for _, prefix := range []string{"..", ".", "a/.", "a b", "e\u0301"} {
			if _, err := d.List(t.Context(), who, drive.Listing{Prefix: prefix}); err != nil {
				t.Errorf("prefix %q: %v", prefix, err)
			}
		}
	})
}

func TestDrivesOfDeletedAgentsAreSwept(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{Grace: 1, ClaimTTL: 1}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "stays", "text that stays")
		put(t, d, "stays", "replaced")
		gone := drive.Owner{AccountID: "acc_1", AgentID: "agt_gone"}
		for i := range 120 {
			if _, err := d.PutText(t.Context(), gone, drive.Claim{Scope: "s", Ref: fmt.Sprint(i)}, path(t, fmt.Sprintf("f%d", i)), fmt.Sprintf("text %d", i), ""); err != nil {
				t.Fatal(err)
			}
		}
		// A drive that was just written to is not checked: its agent may be new.
		err := d.Sweep(t.Context(), func(_ context.Context, owners []drive.Owner) ([]bool, error) {
			t.Errorf("checked %v", owners)
			return make([]bool, len(owners)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		age(t, d)
		err = d.Sweep(t.Context(), func(_ context.Context, owners []drive.Owner) ([]bool, error) {
			out := make([]bool, len(owners))
			for i, o := range owners {
				out[i] = o != gone
			}
			return out, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for table, want := range map[string]int64{"drive_drives": 1, "drive_files": 1, "drive_passages": 1, "drive_blobs": 2, "drive_pieces": 2, "drive_versions": 2, "drive_claims": 0} {
			if got := count(t, d, table); got != want {
				t.Errorf("%s holds %d rows, want %d", table, got, want)
			}
		}
		// Removed history removes its content too, after the grace.
		if s, err := d.Stats(t.Context(), gone); err != nil || s != (drive.Stats{}) {
			t.Errorf("%+v, %v", s, err)
		}
		check(t, d)
	})
}

// FuzzListCursor checks that a cursor is either refused, or was returned by List for the same
// list.
func FuzzListCursor(f *testing.F) {
	d := open(f, dbConfig(f), drive.Limits{})
	for i := range 5 {
		if _, err := d.PutText(context.Background(), who, drive.Claim{}, path(f, fmt.Sprintf("f%d/x.txt", i)), "x", ""); err != nil {
			f.Fatal(err)
		}
	}
	first, err := d.List(context.Background(), who, drive.Listing{Limit: 2})
	if err != nil || first.Next == "" {
		f.Fatal(first, err)
	}
	f.Add(first.Next, "", false)
	f.Add(first.Next, "f", false)
	f.Add(first.Next, "", true)
	f.Add(first.Next[:len(first.Next)-1], "", false)
	for _, seed := range []string{"", "a", "AAAAAAAAAAA", "====", "\x00", "%2e", "AAAAAAAAAAAAAAAAAAAA_-"} {
		f.Add(seed, "", false)
	}
	f.Fuzz(func(t *testing.T, cursor, prefix string, desc bool) {
		page, err := d.List(t.Context(), who, drive.Listing{Limit: 2, Cursor: cursor, Prefix: prefix, Desc: desc})
		if err != nil {
			if code := stoa.CodeOf(err); code != stoa.CodeInvalidCursor && code != stoa.CodeInvalidPath {
				t.Fatalf("cursor %q, prefix %q: %v", cursor, prefix, err)
			}
			return
		}
		for _, file := range page.Files {
			if !strings.HasPrefix(file.Path, prefix) || cursor == first.Next && prefix == "" && !desc && file.Path <= first.Files[1].Path {
				t.Fatalf("cursor %q, prefix %q lists %q", cursor, prefix, file.Path)
			}
		}
	})
}

// FuzzPrefix checks that any text is either refused as a prefix, or lists files below it.
func FuzzPrefix(f *testing.F) {
	d := open(f, dbConfig(f), drive.Limits{})
	for _, p := range []string{"a/b.txt", "a/é.txt", "日本/x", "\U0010ffff/z"} {
		if _, err := d.PutText(context.Background(), who, drive.Claim{}, path(f, p), "x", ""); err != nil {
			f.Fatal(err)
		}
	}
	for _, seed := range []string{"", "a", "a/", "/", "a//", "../", "e\u0301", "\U0010ffff", "\ud7fb", "日", "\x80", "a\x00", "%", "_"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		page, err := d.List(t.Context(), who, drive.Listing{Prefix: prefix})
		if err != nil {
			wantCode(t, err, stoa.CodeInvalidPath)
			return
		}
		for _, file := range page.Files {
			if !strings.HasPrefix(file.Path, norm.NFC.String(prefix)) {
				t.Fatalf("the prefix %q lists %q", prefix, file.Path)
			}
		}
	})
}
