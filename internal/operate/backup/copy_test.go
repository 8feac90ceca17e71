package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/operate/backup"
	"stoa/internal/testkit/storetest"
)

// oddText has characters that are special to the databases or to their transfer formats.
const oddText = "tab\there \\N \\. line\nfeed\r\n 'quoted' \"x\" é 漢字 🙂 \u0001 \\u0000 \ufffd {\"json\": null}"

var copyOwner = drive.Owner{AccountID: "acc_1", AgentID: "agt_1"}

// shouting reads documents: their text is the content in capitals.
type shouting struct{ extract.Reader }

func (shouting) Read(_ context.Context, d extract.Document) (extract.Result, error) {
	content, err := io.ReadAll(d.Content)
	if !bytes.HasPrefix(content, []byte("%PDF-")) {
		return extract.Result{Status: extract.None}, err
	}
	return extract.Result{Status: extract.Ready, Text: append([]byte("loud "), bytes.ToUpper(content[5:])...)}, err
}

// fullStore creates a store in which every table has rows, in a new directory.
func fullStore(t *testing.T) (dir string) {
	t.Helper()
	dir = newStore(t)
	drives, err := drive.Open(ctx, db.Config{Dir: dir}, drive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	drives.UseReader(shouting{})
	put := func(path string, content []byte, claim drive.Claim) {
		t.Helper()
		p, err := drive.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		ops := []drive.Op{{Verb: drive.VerbPut, Path: p, Content: drive.BytesContent(content)}}
		if _, err := drives.Apply(ctx, copyOwner, claim, ops); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("A line about whales and ships.\n", 20_000) // of several pieces
	put("notes/a.md", []byte("# Title\n\nalpha beta "+oddText), drive.Claim{Scope: "test", Ref: "1", Body: "x"})
	put("notes/a.md", []byte("# Title\n\ngamma delta, and the café of 東京"), drive.Claim{})
	put("long.txt", []byte(long), drive.Claim{})
	put("bytes.bin", bytes.Repeat([]byte{0, 1, 254, 255, '\\', '\n'}, 100_000), drive.Claim{})
	put("empty.txt", nil, drive.Claim{})
	put("document.pdf", []byte("%PDF-omega"), drive.Claim{})
	put("notes/gone.md", []byte("epsilon"), drive.Claim{})
	gone, _ := drive.ParsePath("notes/gone.md")
	if _, err := drives.Delete(ctx, copyOwner, gone, drive.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := drives.DB().Write(ctx, func(tx *db.Tx) error { // of a bucket that was set once
		_, err := tx.Exec(ctx, `INSERT INTO drive_objects (key, account_id, size, blob_id, since) VALUES ('x', 'acc_1', 1, 0, 1)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := drives.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(ctx, db.Config{Dir: dir, File: "core.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tables, err := d.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for len(tables) > 0 { // referenced tables first
		i := slices.IndexFunc(tables, func(a db.Table) bool {
			return !slices.ContainsFunc(tables, func(b db.Table) bool { return slices.Contains(a.After, b.Name) })
		})
		fill(t, d, tables[i])
		tables = slices.Delete(tables, i, i+1)
	}
	return dir
}

var permitted = regexp.MustCompile(`CHECK \((\w+) IN \('([^']*)'`)

// fill adds two rows to a table, with values of every kind.
func fill(t *testing.T, d *db.DB, table db.Table) {
	t.Helper()
	create := ""
	if err := d.Read(ctx, func(tx *db.Tx) error {
		_, err := tx.Get(ctx, `SELECT sql FROM sqlite_schema WHERE name = $1`, []any{table.Name}, &create)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	enum := map[string]string{}
	for _, m := range permitted.FindAllStringSubmatch(create, -1) {
		enum[m[1]] = m[2]
	}
	most := 2
	if strings.Contains(create, "CHECK (id = 1)") {
		most = 1
	}
	limited := func(column string) bool { _, ok := enum[column]; return ok }
	for n := 1; n <= most; n++ {
		var values []any
		var places []string
		for i, c := range table.Columns {
			var v any = int64(1)
			switch {
			case table.Name == "nodes" && c.Name == "alive":
				v = int64(0) // the copy ends nodes, with their rows in other tables
			case table.Name == "statements" && c.Name == "month":
				v = fmt.Sprintf("2026-%02d", n)
			case table.Name == "statements" && (c.Name == "grants" || c.Name == "charges"):
				v = "[]"
			case c.Kind == db.Integer && c.Key:
				v = int64(n)
			case c.Kind == db.Integer && strings.HasSuffix(c.Name, "_at") && c.Name != "closed_at":
				v = int64(1_700_000_000_000_000 + n)
			case c.Kind == db.Text && limited(c.Name):
				v = enum[c.Name]
			case c.Kind == db.Text && (c.Key || strings.HasSuffix(c.Name, "_id")):
				v = fmt.Sprintf("x%d", n)
			case c.Kind == db.Text && n == 2 && nullable(create, c.Name):
				v = nil
			case c.Kind == db.Text:
				v = fmt.Sprintf("%d %s", n, oddText)
			case c.Kind == db.Bytes:
				v = []byte{0, 255, byte(n)}
			}
			values = append(values, v)
			places = append(places, fmt.Sprintf("$%d", i+1))
		}
		if err := d.Write(ctx, func(tx *db.Tx) error {
			if _, err := tx.Exec(ctx, "PRAGMA defer_foreign_keys = 1"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO `+table.Name+` VALUES (`+strings.Join(places, ", ")+`)`, values...)
			return err
		}); err != nil {
			t.Fatalf("a row for %s: %v", table.Name, err)
		}
	}
}

// nullable reports whether a text column may be NULL.
func nullable(create, column string) bool {
	return regexp.MustCompile(`(?m)^\s+` + column + `\s+TEXT(\s+UNIQUE)?,?$`).MatchString(create)
}

func copyStore(t *testing.T, from, to store.Config) backup.Copied {
	t.Helper()
	done, err := backup.Copy(ctx, backup.CopyOptions{From: from, To: to, Drives: drive.Tables()})
	if err != nil {
		t.Fatalf("copy: %v", err)
	}
	return done
}

// found returns in which files searches find something.
func found(t *testing.T, cfg store.Config) (hits []string) {
	t.Helper()
	drives, err := drive.Open(ctx, db.Config{Dir: cfg.Dir, PostgresURL: cfg.PostgresURL}, drive.Limits{SearchTime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer drives.Close()
	for _, query := range []string{"gamma", "whale", "epsilon", "alpha", `"the café"`, "東京", "notes", "loud omega"} {
		f, err := drives.Search(ctx, copyOwner, query, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range f.Hits {
			hits = append(hits, query+": "+h.Path)
		}
	}
	slices.Sort(hits)
	return slices.Compact(hits)
}

// A store is copied from each kind of database to each, and every table travels.
func TestEveryTableIsCopied(t *testing.T) {
	t.Parallel()
	source := store.Config{Dir: fullStore(t)}
	places := []store.Config{source, {Dir: t.TempDir()}}
	if os.Getenv(storetest.Env) != "" {
		places = append(places, storetest.EmptyPostgres(t).Config, storetest.Postgres(t).Config, store.Config{Dir: t.TempDir()})
	}
	want := found(t, source)
	if len(want) != 6 {
		t.Fatalf("the source finds only %q", want)
	}
	var first backup.Copied
	for i := 1; i < len(places); i++ {
		done := copyStore(t, places[i-1], places[i])
		for _, table := range done.Tables {
			if table.From.Rows == 0 {
				t.Errorf("the table %s has no rows to copy", table.Name)
			}
		}
		if i == 1 {
			first = done
		}
		// The nodes of a copy are ended after the comparison.
		if !slices.EqualFunc(first.Tables, done.Tables, func(a, b backup.CopiedTable) bool {
			return a.Name == b.Name && b.From == b.To && (a.From == b.To || a.Name == "nodes")
		}) {
			t.Errorf("copy %d has %v, the first has %v", i, done.Tables, first.Tables)
		}
		if got := found(t, places[i]); !slices.Equal(got, want) {
			t.Errorf("copy %d finds %q, the source %q", i, got, want)
		}
	}
	// New rows get numbers that no row ever had.
	last := places[len(places)-1]
	for _, cfg := range []store.Config{source, last} {
		d, err := db.Open(ctx, db.Config{Dir: cfg.Dir, File: "drive.db"})
		if err != nil {
			t.Fatal(err)
		}
		n, err := d.LastNumber(ctx, "drive_files", "rid")
		d.Close()
		if err != nil || n != 6 { // the last one is deleted
			t.Errorf("the last number of a file is %d (%v)", n, err)
		}
	}
	if err := openAgain(t, last.Dir); err != nil {
		t.Error(err)
	}
}

// TestACopyHasNoLivingNode copies a store with the node of a process that has not ended it. A service on the copy would
// otherwise report the node as lost.
func TestACopyHasNoLivingNode(t *testing.T) {
	t.Parallel()
	home := storetest.New(t)
	st := home.Open()
	a := storetest.Account(t, st, stoa.Credit)
	if err := st.Write(ctx, func(tx *store.Tx) error {
		_, _, err := tx.Books().LeaseMore(ctx, a.ID, st.Node(), 10, 1000)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	to := store.Config{Dir: t.TempDir()}
	if done := copyStore(t, home.Config, to); len(done.Differences) > 0 {
		t.Errorf("the books differ: %v", done.Differences)
	}
	d, err := db.Open(ctx, db.Config{Dir: to.Dir, File: "core.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Read(ctx, func(tx *db.Tx) error {
		var alive, open int
		var balance stoa.Credits
		for query, to := range map[string]any{`SELECT COUNT(*) FROM nodes WHERE alive = 1`: &alive, `SELECT COUNT(*) FROM leases WHERE is_open = 1`: &open, `SELECT balance FROM accounts`: &balance} {
			if _, err := tx.Get(ctx, query, nil, to); err != nil {
				return err
			}
		}
		if alive != 0 || open != 0 || balance != stoa.Credit {
			t.Errorf("the copy has %d living nodes, %d open leases and a balance of %d", alive, open, balance)
		}
		diffs, _, err := (&store.Tx{Tx: tx}).Books().Differences(ctx, "")
		if len(diffs) > 0 {
			t.Errorf("the books of the copy differ: %v", diffs)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A copy that was interrupted does not open; the same command completes it.
func TestInterruptedCopyDoesNotOpen(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, target storetest.Database) {
		source, to := store.Config{Dir: newStore(t)}, target.Config
		for _, at := range []string{"accounts", "drive_passages"} {
			stopping, stop := context.WithCancel(ctx)
			_, err := backup.Copy(stopping, backup.CopyOptions{From: source, To: to, Drives: drive.Tables(), Progress: func(table string, _ int64, done bool) {
				if table == at && done {
					stop()
				}
			}})
			if err == nil {
				t.Fatalf("a copy stopped at %s says that it is complete", at)
			}
			if st, err := store.Open(ctx, to); err == nil || !strings.Contains(err.Error(), "was interrupted or failed") {
				if err == nil {
					st.Close()
				}
				t.Errorf("a copy stopped at %s opens: %v", at, err)
			}
			if _, err := store.Migrate(ctx, to, drive.Tables(), false); err == nil {
				t.Errorf("a copy stopped at %s is migrated", at)
			}
		}
		other := store.Config{Dir: newStore(t)}
		if _, err := backup.Copy(ctx, backup.CopyOptions{From: other, To: to, Drives: drive.Tables()}); err == nil || !strings.Contains(err.Error(), "another store") {
			t.Errorf("another store is copied over an interrupted copy: %v", err)
		}
		if to.Dir != "" { // interrupted while its files were moved
			if err := os.WriteFile(filepath.Join(to.Dir, "core.db"), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		copyStore(t, source, to)
		st, err := store.Open(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		st.Close()
	})
}

// What is not like the source after the copy is named, and does not open.
func TestChangedCopyDoesNotOpen(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, target storetest.Database) {
		source, to := store.Config{Dir: newStore(t)}, target.Config
		_, err := backup.Copy(ctx, backup.CopyOptions{From: source, To: to, Drives: drive.Tables(), Progress: func(table string, _ int64, done bool) {
			if table != "turns" || !done { // the last table
				return
			}
			dir := to.Dir
			if dir != "" {
				dir = filepath.Join(dir, ".copy")
			}
			d, err := db.Open(ctx, db.Config{Dir: dir, File: "core.db", PostgresURL: to.PostgresURL})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := d.Write(ctx, func(tx *db.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE accounts SET name = 'other'`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}})
		if err == nil || !strings.Contains(err.Error(), "accounts: 1 rows with the hash") {
			t.Errorf("a changed row: %v", err)
		}
		if _, err := store.Open(ctx, to); err == nil {
			t.Error("a copy that differs opens")
		}
	})
}

func TestCopyRefusesWhatItCouldSpoil(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, target storetest.Database) {
		source, to := store.Config{Dir: newStore(t)}, target.Config
		refused := func(what, want string, from, to store.Config) {
			t.Helper()
			if _, err := backup.Copy(ctx, backup.CopyOptions{From: from, To: to, Drives: drive.Tables()}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		}
		running, err := store.Open(ctx, source)
		if err != nil {
			t.Fatal(err)
		}
		refused("a source in use", "another stoa process is using it", source, to)
		running.Close()
		strange := store.Config{Dir: newStore(t)}
		d, err := db.Open(ctx, db.Config{Dir: strange.Dir, File: "core.db"})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(ctx, `CREATE TABLE extra (id TEXT PRIMARY KEY)`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		d.Close()
		refused("a table that the migrations do not create", "the source has a table extra", strange, store.Config{Dir: t.TempDir()})
		refused("no source", "there is no store in", store.Config{Dir: t.TempDir()}, to)

		st := target.Open()
		refused("a target in use", "another stoa process is using it", source, to)
		st.Close()
		refused("a target that is a store", "not empty", source, to)
		if to.PostgresURL == "" {
			return
		}
		fresh := storetest.EmptyPostgres(t).Config
		refused("a source without tables", "there is no store in this database", fresh, store.Config{Dir: t.TempDir()})
		if _, err := store.Migrate(ctx, fresh, drive.Tables(), false); err != nil {
			t.Fatal(err)
		}
		refused("a source without accounts", "it has no accounts", fresh, store.Config{Dir: t.TempDir()})
		copyStore(t, source, fresh) // tables without rows are empty
	})
}

func TestTextThatPostgresCannotHold(t *testing.T) {
	t.Parallel()
	to := storetest.EmptyPostgres(t).Config
	dir := newStore(t)
	d, err := db.Open(ctx, db.Config{Dir: dir, File: "core.db"})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE accounts SET name = CAST(X'610062ff' AS TEXT)`)
		return err
	})
	d.Close()
	if err != nil {
		t.Fatal(err)
	}
	o := backup.CopyOptions{From: store.Config{Dir: dir}, To: to, Drives: drive.Tables()}
	if _, err := backup.Copy(ctx, o); err == nil || !strings.Contains(err.Error(), `the name of the row with id "acc_`) {
		t.Errorf("copied without a word: %v", err)
	}
	o.ReplaceText = true
	if _, err := backup.Copy(ctx, o); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	read(t, st, func(tx *store.Tx) error {
		var name string
		_, err := tx.Get(ctx, `SELECT name FROM accounts`, nil, &name)
		if name != "a\ufffdb\ufffd" {
			t.Errorf("the name is %q", name)
		}
		return err
	})
}

func TestMigrateSaysWhatItDid(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, database storetest.Database) {
		migrate := func(check bool) (text string) {
			t.Helper()
			done, err := store.Migrate(ctx, database.Config, drive.Tables(), check)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range done {
				if m.To == 0 {
					t.Errorf("the newest version is 0: %+v", m)
				}
				text += fmt.Sprint(m.File, m.From == 0, m.From == m.To, " ")
			}
			return text
		}
		const missing, there = "core.dbtrue false drive.dbtrue false ", "core.dbfalse true drive.dbfalse true "
		for i, want := range []string{missing, missing, missing, there, there} {
			if got := migrate(i != 2 && i != 4); got != want {
				t.Errorf("call %d says %q, want %q", i, got, want)
			}
		}
		d, err := db.Open(ctx, db.Config{Dir: database.Config.Dir, File: "core.db", PostgresURL: database.Config.PostgresURL})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Read(ctx, func(tx *db.Tx) error {
			nodes := 0
			_, err := tx.Get(ctx, `SELECT COUNT(*) FROM nodes`, nil, &nodes)
			if nodes != 0 {
				t.Errorf("it began %d nodes", nodes)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		st := database.Open() // it locked nothing
		// On PostgreSQL the nodes of a running service are replaced one by one.
		if _, err := store.Migrate(ctx, database.Config, drive.Tables(), false); (err == nil) != st.Postgres() {
			t.Errorf("the tables of a running service: %v", err)
		}
		if migrate(true) != there {
			t.Error("a running service cannot be looked at")
		}
	})
}
