package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var migrations = fstest.MapFS{"0001_things.sql": {Data: []byte(`-- +goose Up
CREATE TABLE things (id TEXT PRIMARY KEY, n BIGINT NOT NULL CHECK (n >= 0));
`)}}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs a test on SQLite and, if available, on PostgreSQL.
func each(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Run("sqlite", func(t *testing.T) { test(t, open(t, db.Config{Dir: t.TempDir(), Migrations: migrations})) })
	t.Run("postgres", func(t *testing.T) {
		test(t, open(t, db.Config{PostgresURL: postgresSchema(t), Migrations: migrations}))
	})
}

// postgresSchema returns the address of a new schema, dropped when the test ends.
func postgresSchema(t *testing.T) string {
	address := os.Getenv("STOA_TEST_POSTGRES")
	if address == "" {
		t.Skip("STOA_TEST_POSTGRES is not set")
	}
	schema := strings.ToLower(stoa.NewID("test"))
	admin := open(t, db.Config{PostgresURL: address})
	exec(t, admin, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { exec(t, admin, "DROP SCHEMA "+schema+" CASCADE") })
	return address + "&search_path=" + schema
}

func open(t *testing.T, cfg db.Config) *db.DB {
	t.Helper()
	d, err := db.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func exec(t *testing.T, d *db.DB, query string, args ...any) {
	t.Helper()
	if err := d.Write(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec(context.Background(), query, args...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func put(tx *db.Tx, id string, n int) error {
	_, err := tx.Exec(context.Background(), "INSERT INTO things (id, n) VALUES ($1, $2)", id, n)
	return err
}

func ids(t *testing.T, d *db.DB) string {
	t.Helper()
	var all []string
	if err := d.Read(context.Background(), func(tx *db.Tx) error {
		all = nil
		return tx.Query(context.Background(), func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			all = append(all, id)
			return err
		}, "SELECT id FROM things ORDER BY id")
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestErrorOrPanicUndoesItsClosureOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		boom := errors.New("boom")
		var wg sync.WaitGroup
		running, block := make(chan struct{}), make(chan struct{})
		wg.Go(func() { // keeps the writer busy, so that the others share a commit
			d.Write(context.Background(), func(tx *db.Tx) error {
				close(running)
				<-block
				return put(tx, "a", 1)
			})
		})
		<-running
		errs := make([]error, 4)
		var queued sync.WaitGroup
		queued.Add(len(errs))
		for i := range errs {
			wg.Go(func() {
				errs[i] = d.Write(&queuedContext{Context: context.Background(), queued: queued.Done}, func(tx *db.Tx) error {
					if err := put(tx, fmt.Sprint("b", i), 1); err != nil {
						return err
					}
					switch i {
					case 1:
						return boom
					case 2:
						panic("boom")
					}
					return nil
				})
			})
		}
		queued.Wait()
		close(block)
		wg.Wait()
		if errs[0] != nil || !errors.Is(errs[1], boom) || errs[2] == nil || errs[3] != nil {
			t.Errorf("errors: %v", errs)
		}
		if got := ids(t, d); got != "a b0 b3" {
			t.Errorf("kept %q, want a b0 b3", got)
		}
	})
}

// queuedContext calls queued when Write first waits with it: on SQLite when it queues its
// closure, on PostgreSQL when it requests a connection.
type queuedContext struct {
	context.Context
	once   sync.Once
	queued func()
}

func (c *queuedContext) Done() <-chan struct{} {
	c.once.Do(c.queued)
	return c.Context.Done()
}

func TestSavepointUndoesItsPart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		boom := errors.New("boom")
		ran := ""
		err := d.Write(ctx, func(tx *db.Tx) error {
			ran = ""
			tx.AfterCommit(func() { ran += "1" })
			if err := put(tx, "a", 1); err != nil {
				return err
			}
			err := tx.Savepoint(ctx, func() error {
				tx.AfterCommit(func() { ran += "2" })
				if err := put(tx, "b", 1); err != nil {
					return err
				}
				if err := tx.Savepoint(ctx, func() error { return put(tx, "c", 1) }); err != nil {
					return err
				}
				return boom
			})
			if !errors.Is(err, boom) {
				t.Errorf("got %v", err)
			}
			err = tx.Savepoint(ctx, func() error { return put(tx, "a", 1) })
			if !db.IsUnique(err) {
				t.Errorf("got %v, want a breach of uniqueness", err)
			}
			err = tx.Savepoint(ctx, func() error { return put(tx, "d", -1) })
			if !isCheck(err) {
				t.Errorf("got %v, want a breach of a check", err)
			}
			return put(tx, "e", 1)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(t, d); got != "a e" || ran != "1" {
			t.Errorf("kept %q, ran %q", got, ran)
		}
	})
}

// isCheck reports whether err is a violation of a CHECK constraint.
func isCheck(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "CHECK constraint failed") || strings.Contains(err.Error(), "SQLSTATE 23514"))
}

func TestContextEndsOnlyTheWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		ctx, cancel := context.WithCancel(context.Background())
		if err := d.Write(ctx, func(tx *db.Tx) error {
			cancel()
			_, err := tx.Exec(ctx, "INSERT INTO things (id, n) VALUES ($1, $2)", "a", 1)
			return err
		}); err != nil {
			t.Errorf("a closure that had begun: %v", err)
		}
		if err := d.Write(ctx, func(tx *db.Tx) error { return put(tx, "b", 1) }); !errors.Is(err, context.Canceled) {
			t.Errorf("a closure that had not: %v", err)
		}
		if got := ids(t, d); got != "a" {
			t.Errorf("kept %q", got)
		}
	})
}

func TestReadersCannotWriteAndSeeOneSnapshot(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		if err := d.Read(ctx, func(tx *db.Tx) error { return put(tx, "a", 1) }); err == nil {
			t.Error("a reader wrote")
		}
		if err := d.Read(ctx, func(tx *db.Tx) error {
			count := func() (n int) {
				if _, err := tx.Get(ctx, "SELECT COUNT(*) FROM things", nil, &n); err != nil {
					t.Error(err)
				}
				return n
			}
			before := count()
			exec(t, d, "INSERT INTO things (id, n) VALUES ('b', 1)")
			if after := count(); after != before {
				t.Errorf("%d things, then %d", before, after)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCloseAnswersAcceptedWrites(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		var wg sync.WaitGroup
		var kept sync.Map
		for i := range 50 {
			wg.Go(func() {
				if d.Write(context.Background(), func(tx *db.Tx) error { return put(tx, fmt.Sprint(i), 1) }) == nil {
					kept.Store(i, true)
				}
			})
		}
		d.Close()
		wg.Wait()
		if err := d.Write(context.Background(), func(*db.Tx) error { return nil }); !errors.Is(err, db.ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
		if err := d.Read(context.Background(), func(*db.Tx) error { return nil }); !errors.Is(err, db.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	})
}

func TestFullDiskIsStorageFull(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{Dir: t.TempDir(), Migrations: migrations})
	ctx := context.Background()
	// The limit is the writer's own, so it is set inside a write. The pragma yields a row.
	if err := d.Write(ctx, func(tx *db.Tx) error {
		return tx.Query(ctx, func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 40")
	}); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 20_000)
	var last error
	n := 0
	for ; n < 100 && last == nil; n++ {
		last = d.Write(ctx, func(tx *db.Tx) error { return put(tx, fmt.Sprint(n, big), 1) })
	}
	if stoa.CodeOf(last) != stoa.CodeStorageFull {
		t.Fatalf("after %d: %v", n, last)
	}
	// Swallowing the error does not turn it into a commit.
	err := d.Write(ctx, func(tx *db.Tx) error {
		_ = put(tx, "z"+big+big, 1)
		return put(tx, "small", 1)
	})
	if stoa.CodeOf(err) != stoa.CodeStorageFull {
		t.Errorf("a swallowed error: %v", err)
	}
	if got := strings.Count(ids(t, d), " ") + 1; got != n-1 {
		t.Errorf("%d rows, want %d", got, n-1)
	}
	exec(t, d, "DELETE FROM things")
	exec(t, d, "INSERT INTO things (id, n) VALUES ('a', 1)")
}

func TestClosureThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{Dir: t.TempDir(), Migrations: migrations})
	err := d.Write(context.Background(), func(tx *db.Tx) error {
		put(tx, "lost", 1)
		runtime.Goexit()
		return nil
	})
	if err == nil {
		t.Error("the closure that ended the writer got no error")
	}
	exec(t, d, "INSERT INTO things (id, n) VALUES ('a', 1)")
	if got := ids(t, d); got != "a" {
		t.Errorf("kept %q", got)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first, err := db.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.LockDir(dir); !errors.Is(err, db.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the second: %v", err)
	}
	first.Release()
	again, err := db.LockDir(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.Release()
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newer := fstest.MapFS{"0001_things.sql": migrations["0001_things.sql"], "0002_more.sql": {Data: []byte("-- +goose Up\nCREATE TABLE more (id TEXT);\n")}}
	open(t, db.Config{Dir: dir, Migrations: newer}).Close()
	if _, err := db.Open(context.Background(), db.Config{Dir: dir, Migrations: migrations}); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v", err)
	}
	ro := open(t, db.Config{Dir: dir, Migrations: newer, ReadOnly: true})
	if err := ro.Write(context.Background(), func(*db.Tx) error { return nil }); !errors.Is(err, db.ErrReadOnly) {
		t.Errorf("a write to a read-only database: %v", err)
	}
}

func TestDirectoryMayHaveAnyName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a?b c%20#ä&mode=ro")
	d := open(t, db.Config{Dir: dir, File: "x.db", Migrations: migrations})
	exec(t, d, "INSERT INTO things (id, n) VALUES ('a', 1)")
	info, err := os.Stat(filepath.Join(dir, "x.db"))
	if err != nil || info.Size() == 0 {
		t.Fatalf("the file is elsewhere: %v", err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file may be read by others: %v", info.Mode())
	}
}

func TestReportsLeaveConnectionsForReads(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{Dir: t.TempDir(), Migrations: migrations, Readers: 2})
	ctx := context.Background()
	started, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			d.Report(ctx, func(*db.Tx) error {
				started <- struct{}{}
				<-end
				return nil
			})
		})
	}
	<-started
	if got := ids(t, d); got != "" { // does not wait
		t.Errorf("read %q", got)
	}
	close(end)
	<-started
	<-started
	wg.Wait()
}

func TestRowsRefuseWhatTheyCannotCopy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		exec(t, d, "CREATE TABLE odd (id TEXT PRIMARY KEY, x REAL)")
		exec(t, d, "INSERT INTO things (id, n) VALUES ('a', 1)")
		tables, err := d.Tables(ctx)
		if err != nil || len(tables) != 2 || tables[0].Name != "odd" || strings.Join(tables[1].Names(), " ") != "id n" || !tables[1].Columns[0].Key {
			t.Fatalf("%+v, %v", tables, err)
		}
		for _, err := range d.Rows(ctx, tables[0]) {
			if err == nil || !strings.Contains(err.Error(), "the column x of odd has the type") {
				t.Errorf("a number with a fraction: %v", err)
			}
		}
		n := 0
		for row, err := range d.Rows(ctx, tables[1]) {
			if n++; err != nil || row[0] != "a" || row[1] != int64(1) {
				t.Errorf("%v, %v", row, err)
			}
		}
		if n != 1 {
			t.Errorf("%d rows", n)
		}
		if d.Postgres() {
			return
		}
		exec(t, d, "UPDATE things SET n = 1.5")
		for _, err := range d.Rows(ctx, tables[1]) {
			if err == nil || !strings.Contains(err.Error(), `(id "a") has a float64 in the column n`) {
				t.Errorf("a value of another type: %v", err)
			}
		}
	})
}

// TestReadersOpenWhenTheyAreNeeded reads alone, then in two transactions at once, and in a third one after the file was
// removed, which must not create another.
func TestReadersOpenWhenTheyAreNeeded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, db.Config{Dir: dir, Migrations: migrations, Readers: 3})
	ctx := context.Background()
	path := filepath.Join(dir, "core.db")
	want := func(n int) {
		t.Helper()
		if got := d.OpenReaders(); got != n {
			t.Errorf("%d readers are open; want %d", got, n)
		}
	}
	for range 5 {
		ids(t, d)
	}
	want(1)
	nothing := func(*db.Tx) error { return nil }
	if err := d.Read(ctx, func(*db.Tx) error { return d.Read(ctx, nothing) }); err != nil {
		t.Error(err)
	}
	want(2)
	if err := d.Read(ctx, func(*db.Tx) error {
		return d.Read(ctx, func(*db.Tx) error {
			if err := os.Rename(path, path+".away"); err != nil {
				return err
			}
			if err := d.Read(ctx, nothing); err == nil {
				t.Error("a reader opened a file that was removed")
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a reader created the file: %v", err)
			}
			if err := os.Rename(path+".away", path); err != nil {
				return err
			}
			return d.Read(ctx, nothing)
		})
	}); err != nil {
		t.Error(err)
	}
	want(3)
	d.Close()
	if err := d.Read(ctx, nothing); !errors.Is(err, db.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
}
