package db_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"stoa/internal/db"
)

// lockOf returns the address of a new schema and its name, which connections with
// that address have as their application_name.
func lockOf(t *testing.T) (address, name string) {
	t.Helper()
	address = postgresSchema(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	name = u.Query().Get("search_path")
	return address + "&application_name=" + name, name
}

func takeLock(t *testing.T, address string) *db.Lock {
	t.Helper()
	l, err := db.LockPostgres(context.Background(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release() })
	return l
}

// query runs a statement on a connection of its own, in the lock's schema.
func query(t *testing.T, address, statement string, args ...any) (n int) {
	t.Helper()
	ctx := context.Background()
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["application_name"] = "test"
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, statement, args...).Scan(&n); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return n
}

const terminate = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1"

func TestPostgresLockIsHeldAndPinged(t *testing.T) {
	address, name := lockOf(t)
	l := takeLock(t, address)
	if _, err := db.LockPostgres(context.Background(), address, nil); !errors.Is(err, db.ErrLocked) {
		t.Errorf("the second: %v", err)
	}
	// Past two pings, as the server sees them: microseconds of the latest one.
	for seen := map[int]bool{}; len(seen) < 3; {
		select {
		case <-l.Lost():
			t.Fatal("the lock was lost without a reason")
		default:
		}
		if l.Suspended() != nil {
			t.Fatal("the lock was suspended without a reason")
		}
		seen[query(t, address, "SELECT EXTRACT(EPOCH FROM query_start)::bigint FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'SELECT 1%'", name)] = true
	}
}

func TestPostgresLockIsTakenAgain(t *testing.T) {
	address, name := lockOf(t)
	l := takeLock(t, address)
	confirmed := make(chan struct{}, 10)
	l.Confirm(func(context.Context) error { confirmed <- struct{}{}; return nil })
	for range 3 {
		if n := query(t, address, terminate, name); n != 1 {
			t.Fatalf("terminated %d connections, want the lock's", n)
		}
		<-confirmed
		for resumed := l.Suspended(); resumed != nil; resumed = l.Suspended() {
			<-resumed
		}
		select {
		case <-l.Lost():
			t.Fatal("the lock is lost")
		default:
		}
		if _, err := db.LockPostgres(context.Background(), address, nil); !errors.Is(err, db.ErrLocked) {
			t.Errorf("a second lock: %v", err)
		}
	}
}

func TestPostgresLockThatAnotherHasIsLost(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, l *db.Lock, address string){
		"while it was suspended": func(t *testing.T, l *db.Lock, address string) {
			ctx := context.Background()
			c, err := pgx.Connect(ctx, address+"_thief")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(ctx) })
			waiting := make(chan error, 1)
			go func() {
				_, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtext('stoa'), hashtext(current_schema()::text))")
				waiting <- err
			}()
			for query(t, address, "SELECT COUNT(*)::int FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1", c.PgConn().PID()) == 0 {
			}
			t.Cleanup(func() { <-waiting })
		},
		"and has freed it again": func(t *testing.T, l *db.Lock, address string) {
			l.Confirm(func(context.Context) error { return db.ErrLocked })
		},
	} {
		t.Run(name, func(t *testing.T) {
			address, app := lockOf(t)
			l := takeLock(t, address)
			take(t, l, address)
			query(t, address, terminate, app)
			<-l.Lost()
		})
	}
}

func TestMissingDatabaseIsNotWaitedFor(t *testing.T) {
	address, _ := lockOf(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	if _, err := db.LockPostgres(context.Background(), u.String(), nil); err == nil || db.IsPassing(err) {
		t.Errorf("a database that does not exist: %v", err)
	}
}
