package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"stoa/internal/base/db"
)

// Two files are written in turn, so at every moment the first is level with the
// second or one ahead. A snapshot shows such a moment.
func TestSnapshotIsOneMomentOfAllFiles(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), context.Background()
	files := []string{"first.db", "second.db"}
	var dbs []*db.DB
	for _, f := range files {
		d := open(t, db.Config{Dir: dir, File: f, Migrations: migrations})
		exec(t, d, "INSERT INTO things (id, n) VALUES ('count', 0)")
		dbs = append(dbs, d)
	}
	writing, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := 1; writing.Err() == nil; i++ {
			for _, d := range dbs {
				if err := d.Write(ctx, func(tx *db.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE things SET n = $1 WHERE id = 'count'", i)
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	defer writers.Wait()
	defer stop()

	moved := map[int]bool{}
	for i := range 30 {
		to := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		copied, err := db.Snapshot(ctx, dir, []string{"first.db", "missing.db", "second.db"}, to)
		if err != nil {
			t.Fatal(err)
		}
		if len(copied) != 2 {
			t.Fatalf("copied %v", copied)
		}
		var n [2]int
		for i, f := range files {
			n[i] = count(t, to, f)
		}
		if n[0] != n[1] && n[0] != n[1]+1 {
			t.Errorf("the snapshot mixes moments: %v", n)
		}
		moved[n[0]] = true
	}
	if len(moved) < 10 {
		t.Errorf("the files hardly moved while they were copied: %v", moved)
	}
	if _, err := db.Snapshot(ctx, dir, files, dir); err == nil {
		t.Error("a snapshot overwrote a file")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := db.Snapshot(cancelled, dir, files, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled snapshot: %v", err)
	}
}

func count(t *testing.T, dir, file string) (n int) {
	t.Helper()
	d := open(t, db.Config{Dir: dir, File: file})
	defer d.Close()
	ctx := context.Background()
	if err := d.Read(ctx, func(tx *db.Tx) error {
		return tx.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(&n) }, "SELECT n FROM things")
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
