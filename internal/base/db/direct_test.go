package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"stoa/internal/base/db"
)

// query runs a statement on a separate connection.
func query(t *testing.T, address, statement string, args ...any) (n int) {
	t.Helper()
	ctx := context.Background()
	c := connect(t, address)
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, statement, args...).Scan(&n); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return n
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["application_name"] = "test"
	c, err := pgx.ConnectConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestADirectConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	ctx := t.Context()
	d, err := db.OpenDirect(ctx, address, "-test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	own := func() (pid int, name string) {
		t.Helper()
		if err := d.Query(ctx, func(scan func(...any) error) error { return scan(&pid, &name) },
			"SELECT pid, application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"); err != nil {
			t.Fatal(err)
		}
		return pid, name
	}
	first, name := own()
	if name != "stoa-test" {
		t.Errorf("its name is %q", name)
	}
	if err := d.Idle(ctx, time.Millisecond); err != nil {
		t.Errorf("while it is there: %v", err)
	}
	query(t, address, "SELECT COUNT(pg_terminate_backend($1))::int", first)
	if err := d.Idle(ctx, time.Hour); err == nil { // it ends immediately
		t.Error("nobody noticed that it broke")
	}
	if err := d.Idle(ctx, time.Hour); err == nil {
		t.Error("a broken connection idles")
	}
	if second, _ := own(); second == first {
		t.Error("it is the same connection")
	}
	if n, err := d.Exec(ctx, "SELECT 1"); n != 1 || err != nil {
		t.Errorf("a statement: %d, %v", n, err)
	}
}

func TestMissingDatabaseIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(postgresSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	if _, err := db.OpenDirect(t.Context(), u.String(), "", nil, nil); err == nil || db.IsPassing(err) {
		t.Errorf("a database that does not exist: %v", err)
	}
}

func TestOneOfManyStartsMigrates(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			d, err := db.Open(t.Context(), db.Config{PostgresURL: address, Migrations: migrations, Connections: 2})
			if err != nil {
				t.Error(err)
				return
			}
			d.Close()
		})
	}
	wg.Wait()
	if n := query(t, address, "SELECT COUNT(*) FROM core_migrations WHERE version_id = 1"); n != 1 {
		t.Errorf("it was migrated %d times", n)
	}
}

// Another process migrates: a start waits and logs it.
func TestAStartWaitsForMigrations(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	other := connect(t, address)
	defer other.Close(context.Background())
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock(hashtext('stoa migrations'), hashtext(current_schema()::text))"); err != nil {
		t.Fatal(err)
	}
	said := make(chan struct{}, 1)
	log := slog.New(slog.NewTextHandler(lines(func(line string) {
		if strings.Contains(line, "another process migrates") {
			said <- struct{}{}
		}
	}), nil))
	opened := make(chan error, 1)
	go func() {
		d, err := db.Open(t.Context(), db.Config{PostgresURL: address, Migrations: migrations, Logger: log})
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	select {
	case <-said:
	case err := <-opened:
		t.Fatalf("it did not wait: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Open(ctx, db.Config{PostgresURL: address, Migrations: migrations}); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that is stopped: %v", err)
	}
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("after the other: %v", err)
	}
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock(hashtext('stoa migrations'), hashtext(current_schema()::text))"); err != nil {
		t.Fatal(err)
	}
	open(t, db.Config{PostgresURL: address, Migrations: migrations}) // nothing is missing, so it does not wait
}

// lines is a writer that calls a function with each write.
type lines func(string)

func (l lines) Write(p []byte) (int, error) { l(string(bytes.TrimSpace(p))); return len(p), nil }

// newer are migrations beyond [migrations] that require a program of the version needs.
func newer(needs int) fstest.MapFS {
	return fstest.MapFS{
		"0001_things.sql": migrations["0001_things.sql"],
		"0002_more.sql": {Data: []byte(fmt.Sprintf(`-- +goose Up
CREATE TABLE core_needs (version BIGINT NOT NULL);
INSERT INTO core_needs (version) VALUES (%d);
`, needs))},
	}
}

func TestAnOlderProgramRunsWhereItMay(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]func(t *testing.T) db.Config{
		"sqlite":   func(t *testing.T) db.Config { return db.Config{Dir: t.TempDir()} },
		"postgres": func(t *testing.T) db.Config { return db.Config{PostgresURL: postgresSchema(t)} },
	} {
		for needs, runs := range map[int]bool{1: true, 2: false} {
			t.Run(fmt.Sprint(name, ", needs ", needs), func(t *testing.T) {
				cfg := config(t)
				cfg.Migrations = newer(needs)
				open(t, cfg).Close()
				cfg.Migrations = migrations
				d, err := db.Open(t.Context(), cfg)
				if err == nil {
					exec(t, d, "INSERT INTO things (id, n) VALUES ('a', 1)")
					d.Close()
				}
				if (err == nil) != runs || err != nil && !strings.Contains(err.Error(), "run the newer program") {
					t.Errorf("an older program: %v", err)
				}
			})
		}
	}
}

// fence is a fence over a row of things: it allows writes while n is 1.
var fence = &db.Fence{Query: "SELECT 1 / COALESCE((SELECT n FROM things WHERE id = $1 FOR KEY SHARE), 0)", Args: []any{"fence"}}

func TestAFenceEndsEveryWrite(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	plain := open(t, db.Config{PostgresURL: address, Migrations: migrations})
	var last db.Trace
	d := open(t, db.Config{PostgresURL: address, Fence: fence, Trace: func(tr db.Trace) { last = tr }})
	ctx := t.Context()
	exec(t, plain, "INSERT INTO things (id, n) VALUES ('fence', 1)")
	write := func(id string) error {
		return d.Write(ctx, func(tx *db.Tx) error { return put(tx, id, 1) })
	}
	for range 2 {
		if err := d.Write(ctx, func(tx *db.Tx) error { return later(tx, "x", 1) }); err != nil {
			t.Fatal(err)
		}
		exec(t, plain, "DELETE FROM things WHERE id = 'x'")
	}
	if want := (db.Trace{Write: true, Statements: 1, Trips: 1}); last != want {
		t.Errorf("a write behind a fence took %+v, not %+v", last, want)
	}
	if err := d.Write(ctx, func(*db.Tx) error { return nil }); err != nil || last.Trips != 0 {
		t.Errorf("a write of nothing: %v, %d trips", err, last.Trips)
	}
	if err := write("a"); err != nil {
		t.Fatal(err)
	}
	for name, statement := range map[string]string{
		"a row that forbids it": "UPDATE things SET n = 0 WHERE id = 'fence'",
		"no row":                "DELETE FROM things WHERE id = 'fence'",
	} {
		exec(t, plain, statement)
		for how, fn := range map[string]func(tx *db.Tx) error{
			"plain":     func(tx *db.Tx) error { return put(tx, "b", 1) },
			"later":     func(tx *db.Tx) error { return later(tx, "b", 1) },
			"swallowed": func(tx *db.Tx) error { put(tx, "b", 1); return nil },
			"savepoint": func(tx *db.Tx) error {
				tx.Savepoint(ctx, func() error { return put(tx, "b", 1) })
				return put(tx, "c", 1)
			},
			"repeated": func(tx *db.Tx) error { put(tx, "b", 1); return db.ErrAgain },
		} {
			if err := d.Write(ctx, fn); !errors.Is(err, db.ErrFenced) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
	}
	if err := d.Read(ctx, func(tx *db.Tx) error { _, err := tx.Exec(ctx, "SELECT 1"); return err }); err != nil {
		t.Errorf("a read: %v", err)
	}
	if got := ids(t, plain); got != "a" {
		t.Errorf("stored: %s", got)
	}
}

// TestAFenceHoldsUntilTheCommit: the fenced row cannot change before the commit.
func TestAFenceHoldsUntilTheCommit(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	plain := open(t, db.Config{PostgresURL: address, Migrations: migrations})
	exec(t, plain, "CREATE UNIQUE INDEX ON things (id, n)")
	exec(t, plain, "INSERT INTO things (id, n) VALUES ('fence', 1)")
	d := open(t, db.Config{PostgresURL: address, Fence: fence})
	ctx := t.Context()
	other := connect(t, address)
	defer other.Close(ctx)
	closed := make(chan error, 1)
	if err := d.Write(ctx, func(tx *db.Tx) error {
		if err := put(tx, "a", 1); err != nil {
			return err
		}
		go func() {
			_, err := other.Exec(ctx, "UPDATE things SET n = 0 WHERE id = 'fence'")
			closed <- err
		}()
		for query(t, address, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pid = $1", int(other.PgConn().PID())) == 0 {
			select {
			case err := <-closed:
				t.Fatalf("the fence was changed beside a transaction: %v", err)
			default:
			}
		}
		return put(tx, "b", 1)
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := d.Write(ctx, func(tx *db.Tx) error { return put(tx, "c", 1) }); !errors.Is(err, db.ErrFenced) {
		t.Errorf("afterwards: %v", err)
	}
	if got := ids(t, plain); got != "a b fence" {
		t.Errorf("stored: %s", got)
	}
}
