package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"stoa/internal/base/db"
	"stoa/internal/testkit/storetest"
)

// earlier makes the tables of an earlier version in an empty database, by the
// migrations before the one whose name begins like that, and writes rows of that version.
func earlier(t *testing.T, database storetest.Database, than string, rows func(tx *db.Tx) error) {
	t.Helper()
	paths, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	older := fstest.MapFS{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(path); name < than {
			older[name] = &fstest.MapFile{Data: text}
		}
	}
	if len(older) == 0 || len(older) == len(paths) {
		t.Fatalf("the earlier version has %d of %d migrations", len(older), len(paths))
	}
	before, err := db.Open(ctx, db.Config{Dir: database.Config.Dir, File: "core.db", PostgresURL: database.Config.PostgresURL, Migrations: older})
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Write(ctx, rows); err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if dir := database.Config.Dir; dir != "" { // a store has both files
		if err := db.SetFileID(ctx, dir, "drive.db", 0); err != nil {
			t.Fatal(err)
		}
	}
}
