// Package storetest creates real stores for tests: always on SQLite, and also on PostgreSQL
// if STOA_TEST_POSTGRES is the address of a server.
//
// It is only for tests and replaces no part of the store. A test that starts with [Each]
// runs on both. So does one that calls [New], in a package whose TestMain calls [Both].
// [SQLite] and [Postgres] are for tests of one of them.
package storetest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stoa/internal/base/cluster"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Env is the environment variable with the address of a PostgreSQL server, for a
// user who may create databases.
const Env = "STOA_TEST_POSTGRES"

// A Database is the location of a store. It can be opened repeatedly, and on PostgreSQL by
// several stores at a time: each is a node.
type Database struct {
	Config store.Config
	t      testing.TB
}

// Each runs a test on SQLite and, if available, on PostgreSQL.
func Each(t *testing.T, test func(t *testing.T, database Database)) {
	each(t, SQLite, Postgres, test)
}

// EachEmpty is [Each] for a test that makes the tables itself.
func EachEmpty(t *testing.T, test func(t *testing.T, database Database)) {
	each(t, EmptySQLite, EmptyPostgres, test)
}

func each(t *testing.T, onSQLite, onPostgres func(testing.TB) Database, test func(t *testing.T, database Database)) {
	onceOnly(t)
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, onPostgres(t)) })
}

// Observe is called with each statement of every database that this package returns, and
// with its kind of database; it may be nil. It is set before the tests run.
var Observe func(postgres bool, query string)

// observer returns Observe for one kind of database.
func observer(postgres bool) func(query string) {
	observe := Observe
	if observe == nil {
		return nil
	}
	return func(query string) { observe(postgres, query) }
}

// New returns a database for a test that runs on either: one of SQLite, or in the
// second run of [Both] one of PostgreSQL, dropped when the test ends.
func New(t testing.TB) Database {
	t.Helper()
	if !second {
		return SQLite(t)
	}
	return copyOf(t, true)
}

// SQLite returns a database with the tables in a new directory, which is removed when the
// test ends. It is for tests of features of SQLite, and, in a package that calls [Both],
// for tests in a bubble of [testing/synctest], which must not wait for a server.
func SQLite(t testing.TB) Database {
	t.Helper()
	d := EmptySQLite(t)
	files, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(d.Config.Dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// EmptySQLite is [SQLite] without tables.
func EmptySQLite(t testing.TB) Database {
	t.Helper()
	OnlySQLite(t)
	return Database{Config: store.Config{Dir: t.TempDir(), Observe: observer(false)}, t: t}
}

// Postgres returns a new PostgreSQL database with the tables of a store, which is dropped
// when the test ends. The test is skipped without a server.
func Postgres(t testing.TB) Database {
	t.Helper()
	onServer(t)
	return copyOf(t, false)
}

// EmptyPostgres returns a new PostgreSQL schema without tables, which is dropped when the
// test ends. The test is skipped without a server.
func EmptyPostgres(t testing.TB) Database {
	t.Helper()
	onServer(t)
	address, drop, err := Schema(context.Background(), os.Getenv(Env))
	return postgres(t, address, drop, err)
}

// onServer skips a test if no server is available, and in the second run of [Both].
func onServer(t testing.TB) {
	t.Helper()
	onceOnly(t)
	if os.Getenv(Env) == "" {
		t.Skip(Env + " is not set")
	}
}

// postgres returns a database that was created at an address, and drops it when the
// test ends.
func postgres(t testing.TB, address string, drop func() error, err error) Database {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	return Database{Config: store.Config{PostgresURL: address, Observe: observer(true)}, t: t}
}

// Schema creates a schema on a PostgreSQL server and returns an address whose tables
// are in it. drop removes it.
func Schema(ctx context.Context, address string) (inSchema string, drop func() error, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", Env, err)
	}
	name := strings.ToLower(stoa.NewID("test"))
	if err := run(ctx, address, "CREATE SCHEMA "+name); err != nil {
		return "", nil, err
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String(), func() error { return run(context.Background(), address, "DROP SCHEMA "+name+" CASCADE") }, nil
}

func run(ctx context.Context, address, statement string) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// Open opens the store. It is closed when the test ends, if not before.
func (d Database) Open() *store.Store {
	d.t.Helper()
	st, err := store.Open(context.Background(), d.Config)
	if err != nil {
		d.t.Fatalf("open the store: %v", err)
	}
	d.t.Cleanup(func() { st.Close() })
	return st
}

// Expire makes the nodes of all processes look as if they had been killed long ago: the
// next check declares them dead. On SQLite it does nothing.
func (d Database) Expire() {
	d.t.Helper()
	if d.Config.PostgresURL != "" {
		if err := run(context.Background(), d.Config.PostgresURL, "UPDATE nodes SET seen_at = 0 WHERE alive = 1"); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Still is the life of a node that renews nothing while a test runs and does not mind:
// it finds out that it is dead when it writes.
var Still = cluster.Times{Every: time.Hour, Expiry: time.Hour, Death: time.Minute}

// Account adds an account on the plan pro and grants it the given credits.
func Account(t testing.TB, st *store.Store, credits stoa.Credits) stoa.Account {
	t.Helper()
	var a stoa.Account
	err := st.Write(context.Background(), func(tx *store.Tx) (err error) {
		ctx := context.Background()
		if a, err = tx.Books().InsertAccount(ctx, stoa.Account{Name: "test", Plan: "pro"}); err != nil || credits == 0 {
			return err
		}
		_, created, err := tx.Books().InsertGrant(ctx, stoa.Grant{AccountID: a.ID, Amount: credits, Reason: "test"})
		if err == nil && !created {
			err = fmt.Errorf("the grant was not created")
		}
		return err
	})
	if err != nil {
		t.Fatalf("add an account: %v", err)
	}
	return a
}
