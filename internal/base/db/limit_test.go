package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// endless is a statement that never ends by itself, on both databases.
const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n`

// eachWithLimit runs a test on a database whose write transactions are limited to
// 100 ms.
func eachWithLimit(t *testing.T, test func(t *testing.T, d *db.DB)) {
	const limit = 500 * time.Millisecond // far more than a short statement needs on a busy machine
	t.Run("sqlite", func(t *testing.T) {
		test(t, open(t, db.Config{Dir: t.TempDir(), Migrations: migrations, WriteTimeout: limit}))
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, open(t, db.Config{PostgresURL: postgresSchema(t), Migrations: migrations, WriteTimeout: limit}))
	})
}

func wantTimeout(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, db.ErrTimeout) || stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Errorf("%s: %v, want ErrTimeout as %s", what, err, stoa.CodeOverloaded)
	}
}

func TestWriteTimeLimitStopsAStatement(t *testing.T) {
	t.Parallel()
	eachWithLimit(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		err := d.Write(ctx, func(tx *db.Tx) error {
			if err := put(tx, "undone", 1); err != nil {
				return err
			}
			_, err := tx.Get(ctx, endless, nil, new(int64))
			return err
		})
		wantTimeout(t, "an endless statement", err)
		exec(t, d, "INSERT INTO things (id, n) VALUES ('next', 1)")
		if got := ids(t, d); got != "next" {
			t.Errorf("kept %q, want next", got)
		}
	})
}

// ends has a deadline in a moment, but does not end.
type ends struct{ context.Context }

func (ends) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

// TestLimitTimeIsADeadline has PostgreSQL end a statement before the context ends.
func TestLimitTimeIsADeadline(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{PostgresURL: postgresSchema(t), Migrations: migrations})
	ctx := ends{t.Context()}
	err := d.Read(ctx, func(tx *db.Tx) error {
		if err := tx.LimitTime(ctx); err != nil {
			return err
		}
		_, err := tx.Get(t.Context(), endless, nil, new(int64))
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%v, want the end of the time", err)
	}
}

func TestWriteTimeLimitStopsManyStatements(t *testing.T) {
	t.Parallel()
	eachWithLimit(t, func(t *testing.T, d *db.DB) {
		err := d.Write(context.Background(), func(tx *db.Tx) error {
			for n := 0; ; n++ {
				if err := put(tx, fmt.Sprint(n), 1); err != nil {
					return err
				}
			}
		})
		wantTimeout(t, "endless statements", err)
		err = d.Write(context.Background(), func(tx *db.Tx) error {
			for put(tx, "same", 1) == nil { // fails the second time; the error is swallowed
			}
			_, err := tx.Get(context.Background(), endless, nil, new(int64))
			if err == nil {
				t.Error("an endless statement has ended")
			}
			return nil
		})
		if err == nil {
			t.Error("a transaction that swallowed its error was committed")
		}
		if got := ids(t, d); got != "" {
			t.Errorf("kept %q, want nothing", got)
		}
	})
}

// The others of a group that is rolled back for one slow transaction are
// committed all the same.
func TestSlowTransactionSparesItsGroup(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{Dir: t.TempDir(), Migrations: migrations, WriteTimeout: 100 * time.Millisecond})
	ctx := context.Background()
	var wg sync.WaitGroup
	running, block := make(chan struct{}), make(chan struct{})
	wg.Go(func() { // keeps the writer busy, so that the others share a commit
		d.Write(ctx, func(tx *db.Tx) error {
			close(running)
			<-block
			return nil
		})
	})
	<-running
	var queued sync.WaitGroup
	for i := range 5 {
		queued.Add(1)
		wg.Go(func() {
			err := d.Write(&queuedContext{Context: ctx, queued: queued.Done}, func(tx *db.Tx) error {
				if i == 2 {
					_, err := tx.Get(ctx, endless, nil, new(int64))
					return err
				}
				return put(tx, fmt.Sprint(i), 1)
			})
			if i == 2 {
				wantTimeout(t, "the slow one", err)
			} else if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	queued.Wait()
	close(block)
	wg.Wait()
	if got := ids(t, d); got != "0 1 3 4" {
		t.Errorf("kept %q, want 0 1 3 4", got)
	}
}

func TestHealthReportsAWriterThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, cfg db.Config) {
		cfg.Migrations, cfg.SlowWrite = migrations, time.Nanosecond
		d := open(t, cfg)
		ctx := context.Background()
		if err := d.Health(ctx); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		running, block := make(chan struct{}), make(chan struct{})
		wg.Go(func() {
			d.Write(ctx, func(tx *db.Tx) error {
				close(running)
				<-block
				return put(tx, "a", 1)
			})
		})
		<-running
		if err := d.Health(ctx); stoa.CodeOf(err) != stoa.CodeOverloaded || !strings.Contains(err.Error(), "has not committed") {
			t.Errorf("while a transaction runs: %v", err)
		}
		close(block)
		wg.Wait()
		exec(t, d, "INSERT INTO things (id, n) VALUES ('b', 1)")
		for d.Health(ctx) != nil { // the writer answers before it is idle
		}
	}
	t.Run("sqlite", func(t *testing.T) { test(t, db.Config{Dir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { test(t, db.Config{PostgresURL: postgresSchema(t)}) })
}

// probing is a database whose probe inserts and deletes a row of 64 KiB.
func probing(t *testing.T) (d *db.DB, dir string, probes *int) {
	t.Helper()
	dir, probes = t.TempDir(), new(int)
	return open(t, db.Config{Dir: dir, Migrations: migrations, Probe: func(ctx context.Context, tx *db.Tx) error {
		*probes++
		if err := put(tx, "probe"+strings.Repeat("x", 64<<10), 1); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM things WHERE id LIKE 'probe%'")
		return err
	}}), dir, probes
}

func TestFullDiskRefusesUntilAProbeSucceeds(t *testing.T) {
	t.Parallel()
	d, _, probes := probing(t)
	ctx := context.Background()
	pages := func(n int) {
		t.Helper()
		if err := d.Write(ctx, func(tx *db.Tx) error {
			return tx.Query(ctx, func(*sql.Rows) error { return nil }, fmt.Sprint("PRAGMA max_page_count = ", n))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Usable(ctx); err != nil || *probes != 0 {
		t.Fatalf("at first: %v after %d probes", err, *probes)
	}
	pages(1)
	err := d.Write(ctx, func(tx *db.Tx) error { return put(tx, strings.Repeat("x", 50_000), 1) })
	if stoa.CodeOf(err) != stoa.CodeStorageFull {
		t.Fatalf("a write on a full disk: %v", err)
	}
	for range 1000 {
		if err := d.Usable(ctx); stoa.CodeOf(err) != stoa.CodeStorageFull {
			t.Fatalf("on a full disk: %v", err)
		}
		if err := d.Health(ctx); stoa.CodeOf(err) != stoa.CodeStorageFull {
			t.Fatalf("health on a full disk: %v", err)
		}
	}
	if *probes == 0 || *probes > 500 {
		t.Errorf("%d probes for 2,000 questions", *probes)
	}
	pages(1 << 30)
	for d.Usable(ctx) != nil { // until the next probe is due
	}
	if err := d.Health(ctx); err != nil {
		t.Errorf("health with free space: %v", err)
	}
}

// TestOrderlyPagesClearDamage checks that a database recovers from a read that failed, such as
// by an I/O error, which SQLite reports as damage.
func TestOrderlyPagesClearDamage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, dir, _ := probing(t)
		for i := range 200 {
			exec(t, d, "INSERT INTO things (id, n) VALUES ($1, 1)", fmt.Sprint(i, strings.Repeat("x", 4000)))
		}
		d.Close()
		path := filepath.Join(dir, "core.db")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := slices.Clone(whole)
		for i := 8 * 4096; i < len(damaged); i++ {
			damaged[i] = 0xa5
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		d = open(t, db.Config{Dir: dir, Migrations: migrations, Probe: func(context.Context, *db.Tx) error { return nil }})
		read := func() error {
			return d.Read(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Get(t.Context(), "SELECT SUM(LENGTH(id)) FROM things", nil, new(int64))
				return err
			})
		}
		if err := read(); stoa.CodeOf(err) != stoa.CodeOverloaded {
			t.Fatalf("a read of damaged pages: %v", err)
		}
		usable := func() error {
			_ = d.Usable(t.Context()) // it may begin a check
			synctest.Wait()
			return d.Usable(t.Context())
		}
		if usable() == nil {
			t.Error("it is usable while pages are damaged")
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if usable() == nil {
			t.Error("it is usable before the next check")
		}
		time.Sleep(time.Minute)
		if err := usable(); err != nil {
			t.Errorf("after a check without findings: %v", err)
		}
		if err := read(); err != nil {
			t.Errorf("a read afterwards: %v", err)
		}
	})
}

func TestDamageIsNeverCleared(t *testing.T) {
	t.Parallel()
	d, dir, probes := probing(t)
	ctx := context.Background()
	for i := range 200 {
		exec(t, d, "INSERT INTO things (id, n) VALUES ($1, 1)", fmt.Sprint(i, strings.Repeat("x", 4000)))
	}
	d.Close()
	path := filepath.Join(dir, "core.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 8 * 4096; i < len(whole); i++ { // all but the first pages
		whole[i] = 0xa5
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, db.Config{Dir: dir, Migrations: migrations, Probe: func(context.Context, *db.Tx) error { *probes++; return nil }})
	err = d.Read(ctx, func(tx *db.Tx) error {
		_, err := tx.Get(ctx, "SELECT SUM(LENGTH(id)) FROM things", nil, new(int64))
		return err
	})
	if stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Fatalf("a read of damaged pages: %v", err)
	}
	for _, err := range []error{d.Usable(ctx), d.Health(ctx)} {
		if stoa.CodeOf(err) != stoa.CodeOverloaded || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("after damage: %v", err)
		}
	}
	if *probes != 0 {
		t.Errorf("%d probes of a damaged database", *probes)
	}
}

func TestUncleanStopIsChecked(t *testing.T) {
	t.Parallel()
	d, dir, _ := probing(t)
	ctx := context.Background()
	for i := range 200 {
		exec(t, d, "INSERT INTO things (id, n) VALUES ($1, 1)", fmt.Sprint(i, strings.Repeat("x", 4000)))
	}
	d.Close()
	path := filepath.Join(dir, "core.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 8 * 4096; i < len(whole); i++ {
		whole[i] = 0xa5
	}
	for name, text := range map[string][]byte{path: whole, path + "-wal": []byte("left by a process that died")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = open(t, db.Config{Dir: dir, Migrations: migrations, Probe: func(context.Context, *db.Tx) error { return nil }})
	for { // the check runs concurrently
		if err := d.Usable(ctx); err != nil {
			if stoa.CodeOf(err) != stoa.CodeOverloaded || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("after an unclean stop: %v", err)
			}
			return
		}
	}
}

func TestBrokenConnectionIsOverloaded(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	d := open(t, db.Config{PostgresURL: address, Migrations: migrations})
	ctx := context.Background()
	cut := func(tx *db.Tx) error {
		var pid int
		if _, err := tx.Get(ctx, "SELECT pg_backend_pid()", nil, &pid); err != nil {
			return err
		}
		query(t, address, "SELECT COUNT(pg_terminate_backend($1))::int", pid)
		return nil
	}
	err := d.Write(ctx, func(tx *db.Tx) error {
		if err := cut(tx); err != nil {
			return err
		}
		return put(tx, "a", 1)
	})
	if stoa.CodeOf(err) != stoa.CodeOverloaded || stoa.AsError(err).RetryAfter == 0 || !db.IsPassing(err) {
		t.Errorf("a write on a broken connection: %v", err)
	}
	runs := 0
	err = d.Read(ctx, func(tx *db.Tx) error {
		if runs++; runs == 1 {
			if err := cut(tx); err != nil {
				return err
			}
		}
		_, err := tx.Get(ctx, "SELECT COUNT(*) FROM things", nil, new(int))
		return err
	})
	if err != nil || runs != 2 {
		t.Errorf("a read on a broken connection: %v after %d runs", err, runs)
	}
	err = d.Read(ctx, func(tx *db.Tx) error {
		if err := cut(tx); err != nil {
			return err
		}
		_, err := tx.Get(ctx, "SELECT COUNT(*) FROM things", nil, new(int))
		return err
	})
	if stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Errorf("a read on connections that break again: %v", err)
	}
}
