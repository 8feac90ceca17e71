package storetest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// A Runner is what [testing.M] is.
type Runner interface{ Run() int }

// Both returns a Runner that runs a package's tests, with [New] on SQLite, and then,
// where there is a server, once more with New on PostgreSQL. Tests that have run on
// PostgreSQL by then, or never do, are skipped. There is no second run with -short,
// nor for benchmarks, lists and fuzzing.
func Both(tests Runner) Runner { return both{tests} }

type both struct {
	tests Runner
}

// second is true in the second run of [Both].
var second bool

// Run runs the tests.
func (b both) Run() int {
	var err error
	if prepared, err = prepare(); err != nil {
		fmt.Println(err)
		return 1
	}
	code := b.tests.Run()
	prepared = nil
	if code != 0 || os.Getenv(Env) == "" || testing.Short() {
		return code
	}
	for _, name := range []string{"test.bench", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return code
		}
	}
	fmt.Println("once more, on PostgreSQL:")
	second = true
	defer func() { second = false }()
	return b.tests.Run()
}

// onceOnly skips a test in the second run of [Both].
func onceOnly(t testing.TB) {
	t.Helper()
	if second {
		t.Skip("it chose its databases in the first run")
	}
}

// OnlySQLite skips a test on PostgreSQL: it is about what only SQLite has.
func OnlySQLite(t testing.TB) {
	t.Helper()
	if second {
		t.Skip("it is of SQLite alone")
	}
}
