package storetest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// A Runner is the interface of [testing.M].
type Runner interface{ Run() int }

// Both returns a Runner that runs a package's tests, with [New] on SQLite, and then, if a
// server is available, once more with New on PostgreSQL. Tests that have already run on
// PostgreSQL, or never do, are skipped. There is no second run with -short, or for
// benchmarks, lists and fuzzing.
func Both(tests Runner) Runner { return both{tests} }

type both struct {
	tests Runner
}

// second is true in the second run of [Both].
var second bool

// Run runs the tests.
func (b both) Run() int {
	// Outside of the bubble in which the first test may run.
	if _, err := prepared(); err != nil {
		fmt.Println(err)
		return 1
	}
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

// OnlySQLite skips a test on PostgreSQL, because it tests a feature of SQLite.
func OnlySQLite(t testing.TB) {
	t.Helper()
	if second {
		t.Skip("it is of SQLite alone")
	}
}
