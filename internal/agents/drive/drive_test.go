package drive_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/storetest"
)

var who = drive.Owner{AccountID: "acc_1", AgentID: "agt_1"}

// each runs a test on SQLite and, if configured, on PostgreSQL.
func each(t *testing.T, limits drive.Limits, test func(t *testing.T, d *drive.Drives)) {
	storetest.Each(t, func(t *testing.T, home storetest.Database) { test(t, open(t, configOf(home), limits)) })
}

func open(t testing.TB, cfg db.Config, limits drive.Limits) *drive.Drives {
	t.Helper()
	limits.SearchTime = cmp.Or(limits.SearchTime, time.Hour) // a busy machine cuts no search short
	d, err := drive.Open(context.Background(), cfg, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func path(t testing.TB, text string) drive.Path {
	t.Helper()
	p, err := drive.ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func put(t testing.TB, d *drive.Drives, p, text string) drive.Change {
	t.Helper()
	c, err := d.PutText(t.Context(), who, drive.Claim{}, path(t, p), text, "")
	if err != nil {
		t.Fatalf("put %q: %v", p, err)
	}
	return c
}

func read(t testing.TB, d *drive.Drives, p string) string {
	t.Helper()
	_, r, err := d.Open(t.Context(), who, path(t, p))
	if err != nil {
		t.Fatalf("open %q: %v", p, err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %q: %v", p, err)
	}
	return string(b)
}

func wantCode(t testing.TB, err error, want stoa.Code) {
	t.Helper()
	if got := stoa.CodeOf(err); got != want {
		t.Fatalf("code is %q (%v), want %q", got, err, want)
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestAFileIsCreatedReplacedOrUnchanged(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		first := put(t, d, "a/b.md", "one\n")
		if first.Outcome != drive.Created || first.File.Version != 1 || first.File.MimeType != "text/markdown" || first.File.Lines != 1 || !first.File.Text {
			t.Errorf("first write: %+v %+v", first, first.File)
		}
		if same := put(t, d, "a/b.md", "one\n"); same.Outcome != drive.Unchanged || same.File.Version != 1 {
			t.Errorf("same write: %+v %+v", same, same.File)
		}
		second := put(t, d, "a/b.md", "two")
		if second.Outcome != drive.Replaced || second.File.ID != first.File.ID || second.File.Version != 2 || second.File.SHA256 != hash("two") {
			t.Errorf("second write: %+v %+v", second, second.File)
		}
		if got := read(t, d, "a/b.md"); got != "two" {
			t.Errorf("content is %q", got)
		}
		s, err := d.Stats(t.Context(), who)
		if err != nil || s.Files != 1 || s.Bytes != 3 || s.Revision != 2 || s.HistoryFiles != 1 || s.HistoryBytes != 4 {
			t.Errorf("stats: %+v, %v", s, err)
		}
		check(t, d)
	})
}

func TestAnotherOwnerSeesNothing(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a.txt", "secret words")
		for _, other := range []drive.Owner{{"acc_1", "agt_2"}, {"acc_2", "agt_1"}} {
			_, err := d.Get(t.Context(), other, path(t, "a.txt"))
			wantCode(t, err, stoa.CodeFileNotFound)
			if l, err := d.List(t.Context(), other, drive.Listing{}); err != nil || len(l.Files) != 0 {
				t.Errorf("%v lists %v, %v", other, l, err)
			}
			if hits, err := searchDrive(d, t.Context(), other, "secret", "", 0); err != nil || len(hits) != 0 {
				t.Errorf("%v finds %v, %v", other, hits, err)
			}
			if v, err := d.Versions(t.Context(), other, path(t, "a.txt")); stoa.CodeOf(err) != stoa.CodeFileNotFound {
				t.Errorf("%v sees versions %v, %v", other, v, err)
			}
			_, err = d.Read(t.Context(), other, path(t, "a.txt"), 1, 0)
			wantCode(t, err, stoa.CodeFileNotFound)
			if k, err := d.Knowledge(t.Context(), other, 1000, ""); err != nil || k.Text != "" {
				t.Errorf("%v knows %v, %v", other, k, err)
			}
			if c, err := d.Delete(t.Context(), other, path(t, "a.txt"), drive.Condition{}); err != nil || c.Outcome != drive.Unchanged {
				t.Errorf("%v deletes: %v, %v", other, c, err)
			}
		}
		if got := read(t, d, "a.txt"); got != "secret words" {
			t.Errorf("content is %q", got)
		}
	})
}

func TestSearchFindsPassagesWithTheirLines(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "handbook/refunds.md", "# Refunds\n\nCustomers get their money back within 14 days.\nWrite to billing.\n")
		put(t, d, "handbook/shipping.md", "# Shipping\n\nParcels leave on Mondays. Crème brûlée is never shipped.\n")
		put(t, d, "notes.txt", "北京大学 is a university. 東京タワー is a tower. Straße. Don't panic.\r\nsecond line\r\n")
		for _, c := range []struct{ query, want string }{
			{"refund policy", "handbook/refunds.md"}, // no passage has both words: any of them
			{"REFUND", "handbook/refunds.md"},
			{"customer money", "handbook/refunds.md"},
			{`"money back within"`, "handbook/refunds.md"},
			{"creme brulee", "handbook/shipping.md"},
			{"CRÈME", "handbook/shipping.md"},
			{"parcel monday", "handbook/shipping.md"},
			{"shippi", "handbook/shipping.md"}, // the beginning of a word
			{"北京", "notes.txt"},
			{"京大", "notes.txt"},
			{"大学", "notes.txt"},
			{"学", "notes.txt"},
			{"北京大学", "notes.txt"},
			{"タワー", "notes.txt"},
			{"crèmes", "handbook/shipping.md"},
			{"strasse", "notes.txt"},
			{"dont", "notes.txt"},
			{"don’t", "notes.txt"},
		} {
			hits, err := searchDrive(d, t.Context(), who, c.query, "", 0)
			if err != nil || len(hits) == 0 || hits[0].Path != c.want || hits[0].Score != 1 {
				t.Errorf("%q finds %+v, %v; want %s", c.query, hits, err, c.want)
			}
		}
		for _, none := range []string{"zebra", "大北", `"back money"`, "京都"} {
			if hits, err := searchDrive(d, t.Context(), who, none, "", 0); err != nil || len(hits) != 0 {
				t.Errorf("%q finds %+v, %v", none, hits, err)
			}
		}
		hits, err := searchDrive(d, t.Context(), who, "second", "", 0)
		if err != nil || len(hits) != 1 || hits[0].FirstLine != 1 || hits[0].LastLine != 2 || !strings.Contains(hits[0].Snippet, "second line") || hits[0].SHA256 == "" {
			t.Errorf("%+v, %v", hits, err)
		}
		hits, err = searchDrive(d, t.Context(), who, "is", "handbook/", 0)
		if err != nil || len(hits) != 1 || hits[0].Path != "handbook/shipping.md" {
			t.Errorf("with a prefix: %+v, %v", hits, err)
		}
	})
}

func TestAQueryHasNoSyntaxErrors(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a.txt", "apples and pears NEAR the tree; or not\n")
		for _, q := range []string{
			`apples AND`, `apples OR OR`, `NOT apples`, `apples*`, `"apples`, `apples"`, `""apples`, `path:apples`, `{path body}: apples`, `^apples`, `(apples`,
			`apples)`, `NEAR(apples pears)`, `apples' & 'pears`, `apples | !pears:*`, `apples \ pears`, `'; DROP TABLE drive_files; --apples`, "apples\x00", `apples <-> pears`, `1xapples apples`,
		} {
			if hits, err := searchDrive(d, t.Context(), who, q, "", 0); err != nil || len(hits) != 1 {
				t.Errorf("%q: %v, %v", q, hits, err)
			}
		}
		for _, q := range []string{"", "   ", `"`, `*&|!()`, "\x00"} {
			_, err := searchDrive(d, t.Context(), who, q, "", 0)
			wantCode(t, err, stoa.CodeInvalidValue)
		}
		_, err := searchDrive(d, t.Context(), who, "a\xff", "", 0)
		wantCode(t, err, stoa.CodeInvalidValue)
		_, err = searchDrive(d, t.Context(), who, strings.Repeat("a ", 600), "", 0)
		wantCode(t, err, stoa.CodeInvalidValue)
		if hits, err := searchDrive(d, t.Context(), who, strings.Repeat("a b c d ", 100), "", 0); err != nil || len(hits) != 0 {
			t.Log(hits, err)
		}
	})
}

func allThere(_ context.Context, owners []drive.Owner) ([]bool, error) {
	out := make([]bool, len(owners))
	for i := range out {
		out[i] = true
	}
	return out, nil
}

func dbConfig(t testing.TB) db.Config { return configOf(storetest.New(t)) }

// configOf returns the configuration of the drives of a store.
func configOf(home storetest.Database) db.Config {
	return db.Config{Dir: home.Config.Dir, PostgresURL: home.Config.PostgresURL, Observe: home.Config.Observe}
}

// searchDrive is Search of a drive that is small enough for a complete search.
func searchDrive(d *drive.Drives, ctx context.Context, who drive.Owner, query, prefix string, limit int) ([]drive.Hit, error) {
	found, err := d.Search(ctx, who, query, prefix, limit)
	if err == nil && found.Cut {
		err = errors.New("the search was cut")
	}
	return found.Hits, err
}
