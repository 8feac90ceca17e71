package backup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/operate/backup"
	"stoa/internal/testkit/storetest"
)

// newStore creates a store with one account in a new directory and closes it.
func newStore(t *testing.T) (dir string) {
	t.Helper()
	database := storetest.SQLite(t) // PostgreSQL has no directory
	st := database.Open()
	storetest.Account(t, st, 10)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	drives, err := drive.Open(ctx, db.Config{Dir: database.Config.Dir}, drive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := drives.Close(); err != nil {
		t.Fatal(err)
	}
	return database.Config.Dir
}

func openAgain(t *testing.T, dir string) error {
	t.Helper()
	st, err := store.Open(ctx, store.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer st.Close()
	return st.Read(ctx, func(tx *store.Tx) error {
		any, err := tx.Books().HasAccounts(ctx)
		if err == nil && !any {
			err = errors.New("the store is new")
		}
		return err
	})
}

func TestIncompleteStoreIsRefused(t *testing.T) {
	t.Parallel()
	foreign := newStore(t)
	copyFile := func(t *testing.T, from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(names ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	truncate := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, name), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string // in the error; empty means the store opens
	}{
		"nothing":           {func(*testing.T, string) {}, ""},
		"no id file":        {remove("store.id"), ""},
		"no core.db":        {remove("core.db"), "core.db is missing or empty"},
		"an empty core.db":  {truncate("core.db"), "core.db is missing or empty"},
		"no drive.db":       {remove("drive.db"), "drive.db is missing or empty"},
		"an empty drive.db": {truncate("drive.db"), "drive.db is missing or empty"},
		"only the id file":  {remove("core.db", "drive.db"), "core.db and drive.db is missing or empty"},
		"core.db alone":     {remove("store.id", "drive.db"), "drive.db is missing or empty"},
		"drive.db alone":    {remove("store.id", "core.db"), "core.db is missing or empty"},
		"another core.db": {func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(foreign, "core.db"), filepath.Join(dir, "core.db"))
		}, "core.db in"},
		"another drive.db": {func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(foreign, "drive.db"), filepath.Join(dir, "drive.db"))
		}, "belongs to another store"},
		"another pair, no ids": {func(t *testing.T, dir string) {
			remove("store.id")(t, dir)
			copyFile(t, filepath.Join(foreign, "drive.db"), filepath.Join(dir, "drive.db"))
		}, "belongs to another store"},
		"an unreadable id": {func(t *testing.T, dir string) { os.WriteFile(filepath.Join(dir, "store.id"), []byte("x"), 0o600) }, "cannot be read"},
		"a WAL without core.db": {func(t *testing.T, dir string) {
			remove("store.id", "core.db", "drive.db")(t, dir)
			os.WriteFile(filepath.Join(dir, "core.db-wal"), []byte("x"), 0o600)
		}, "core.db-wal is there"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newStore(t)
			c.damage(t, dir)
			before := files(t, dir)
			err := openAgain(t, dir)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || c.want != "cannot be read" && !strings.Contains(err.Error(), "stoa restore") {
				t.Errorf("got %v, want %q and the way out", err, c.want)
			}
			if after := files(t, dir); after != before {
				t.Errorf("a refused open changed the directory:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// files lists the files of a directory with their sizes, without the lock and without
// SQLite's temporary files.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == db.LockFile || strings.HasSuffix(e.Name(), "-shm") || strings.HasSuffix(e.Name(), "-wal") && info.Size() == 0 {
			continue
		}
		fmt.Fprintln(&b, e.Name(), info.Size())
	}
	return b.String()
}

// A store from before there were ids gets them, also when the process dies in
// between.
func TestOldStoreGetsItsIDs(t *testing.T) {
	t.Parallel()
	for name, written := range map[string]func(t *testing.T, dir string){
		"nothing written": func(t *testing.T, dir string) {},
		"the id file written": func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "store.id"), []byte("0000abcd pending\n"), 0o600)
		},
		"the id file and core.db written": func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "store.id"), []byte("0000abcd pending\n"), 0o600)
			if err := db.SetFileID(ctx, dir, "core.db", 0xabcd); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newStore(t)
			os.Remove(filepath.Join(dir, "store.id"))
			for _, name := range []string{"core.db", "drive.db"} {
				if err := db.SetFileID(ctx, dir, name, 0); err != nil {
					t.Fatal(err)
				}
			}
			written(t, dir)
			if err := openAgain(t, dir); err != nil {
				t.Fatal(err)
			}
			core, err := db.FileID(ctx, dir, "core.db")
			if err != nil {
				t.Fatal(err)
			}
			drives, err := db.FileID(ctx, dir, "drive.db")
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "store.id"))
			if err != nil || core == 0 || drives != core || string(text) != fmt.Sprintf("%08x\n", core) {
				t.Errorf("core.db has %08x, drive.db %08x, the file %q (%v)", core, drives, text, err)
			}
		})
	}
}

func TestRestoreRefusesForgedBackups(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]struct{ file, statement, want string }{
		"nothing":             {"core.db", "SELECT 1", ""},
		"no accounts":         {"core.db", "DELETE FROM accounts", "no accounts"},
		"a trigger":           {"core.db", "CREATE TRIGGER mint AFTER INSERT ON charges BEGIN UPDATE accounts SET balance = balance + 1; END", "trigger"},
		"a view":              {"core.db", "CREATE VIEW v AS SELECT 1", "view"},
		"a table":             {"core.db", "CREATE TABLE extra (id TEXT)", "extra"},
		"a column":            {"core.db", "ALTER TABLE accounts ADD COLUMN extra TEXT DEFAULT ''", "accounts"},
		"no table":            {"core.db", "DROP TABLE store_probe", "store_probe"},
		"a trigger in drives": {"drive.db", "CREATE TRIGGER t AFTER DELETE ON drive_drives BEGIN SELECT 1; END", "trigger"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newStore(t)
			d, err := db.Open(ctx, db.Config{Dir: dir, File: forge.file})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Write(ctx, func(tx *db.Tx) error {
				if _, err := tx.Exec(ctx, "PRAGMA defer_foreign_keys = 1"); err != nil {
					return err
				}
				if strings.HasPrefix(forge.statement, "DELETE") {
					for _, table := range []string{"leases", "grants", "charges"} {
						if _, err := tx.Exec(ctx, "DELETE FROM "+table); err != nil { //nolint // a forgery
							return err
						}
					}
				}
				_, err := tx.Exec(ctx, forge.statement)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			d.Close()
			file := filepath.Join(t.TempDir(), "backup.tar")
			if _, err := backup.Create(ctx, dir, file, "test"); err != nil {
				t.Fatal(err)
			}
			to := t.TempDir()
			_, err = backup.Restore(ctx, to, file, false, drive.Migrations(false))
			if forge.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := openAgain(t, to); err != nil {
					t.Errorf("the restored store: %v", err)
				}
				was, _ := db.FileID(ctx, dir, "core.db")
				if is, err := db.FileID(ctx, to, "drive.db"); err != nil || is != was || is == 0 {
					t.Errorf("the restored store has the id %08x, the one that was backed up %08x (%v)", is, was, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), forge.want) {
				t.Errorf("got %v, want %q", err, forge.want)
			}
			if got := files(t, to); got != "" {
				t.Errorf("a refused restore left %s", got)
			}
		})
	}
}

// The way out that the error names works.
func TestRestoreMendsAnIncompleteStore(t *testing.T) {
	t.Parallel()
	dir := newStore(t)
	file := filepath.Join(t.TempDir(), "backup.tar")
	if _, err := backup.Create(ctx, dir, file, "test"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "core.db")); err != nil {
		t.Fatal(err)
	}
	if err := openAgain(t, dir); err == nil {
		t.Fatal("an incomplete store was opened")
	}
	if _, err := backup.Restore(ctx, dir, file, true, drive.Migrations(false)); err != nil {
		t.Fatal(err)
	}
	if err := openAgain(t, dir); err != nil {
		t.Error(err)
	}
	// A backup of another store brings its own id.
	other := newStore(t)
	if _, err := backup.Restore(ctx, other, file, true, drive.Migrations(false)); err != nil {
		t.Fatal(err)
	}
	if err := openAgain(t, other); err != nil {
		t.Error(err)
	}
}

func TestUsableFollowsTheDisk(t *testing.T) {
	t.Parallel()
	st := storetest.SQLite(t).Open() // it limits the pages
	a := storetest.Account(t, st, 10)
	pages := func(n int) {
		write(t, st, func(tx *store.Tx) error {
			_, err := tx.Get(ctx, fmt.Sprint("PRAGMA max_page_count = ", n), nil, new(int))
			return err
		})
	}
	pages(1)
	err := st.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: a.ID, Description: strings.Repeat("x", 100_000)})
		return err
	})
	if stoa.CodeOf(err) != stoa.CodeStorageFull {
		t.Fatalf("a write: %v", err)
	}
	for range 100 {
		if stoa.CodeOf(st.Usable(context.Background())) != stoa.CodeStorageFull || stoa.CodeOf(st.Health(ctx)) != stoa.CodeStorageFull {
			t.Fatal("a full disk counts as usable")
		}
	}
	pages(1 << 30)
	for st.Usable(ctx) != nil { // until the next probe is due
	}
	if err := st.Health(ctx); err != nil {
		t.Error(err)
	}
}
