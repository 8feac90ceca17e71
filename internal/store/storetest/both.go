package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A Runner is what [testing.M] is.
type Runner interface{ Run() int }

// Both returns a Runner that runs a package's tests, with [New] on SQLite, and then,
// where there is a server, once more with New on PostgreSQL. Tests that have run on
// PostgreSQL by then, or never do, are skipped. There is no second run with -short,
// nor for benchmarks, lists and fuzzing.
//
// Each database of the second run is a copy of one whose tables were made once.
// drives has the tables of drives.
func Both(tests Runner, drives store.DriveTables) Runner { return both{tests, drives} }

type both struct {
	tests  Runner
	drives store.DriveTables
}

// template is the name of the database that [New] copies in the second run of [Both];
// "": it is not the second run.
var template string

// Run runs the tests.
func (b both) Run() int {
	code := b.tests.Run()
	if code != 0 || os.Getenv(Env) == "" || testing.Short() {
		return code
	}
	for _, name := range []string{"test.bench", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return code
		}
	}
	fmt.Println("once more, on PostgreSQL:")
	code, err := b.again(context.Background())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

// again runs the tests on PostgreSQL.
func (b both) again(ctx context.Context) (code int, err error) {
	address, drop, err := create(ctx, os.Getenv(Env), "template0")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	if _, err := store.Migrate(ctx, store.Config{PostgresURL: address}, b.drives, false); err != nil {
		return 0, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	template = strings.TrimPrefix(u.Path, "/")
	defer func() { template = "" }()
	return b.tests.Run(), nil
}

// create creates a copy of a database on a PostgreSQL server and returns its address.
// drop removes it.
func create(ctx context.Context, address, from string) (in string, drop func() error, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", Env, err)
	}
	name := strings.ToLower(stoa.NewID("test"))
	if err := run(ctx, address, "CREATE DATABASE "+name+" TEMPLATE "+from); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error { return run(context.Background(), address, "DROP DATABASE "+name+" WITH (FORCE)") }, nil
}

// onceOnly skips a test in the second run of [Both].
func onceOnly(t testing.TB) {
	t.Helper()
	if template != "" {
		t.Skip("it chose its databases in the first run")
	}
}

// OnlySQLite skips a test on PostgreSQL: it is about what only SQLite has.
func OnlySQLite(t testing.TB) {
	t.Helper()
	if template != "" {
		t.Skip("it is of SQLite alone")
	}
}
