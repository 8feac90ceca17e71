package api_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

// recorder records every request of this package's tests.
var recorder apitest.Recorder

// covered contains the tags whose operations are tested here, down to every documented
// reply. Add a tag when the tests of its group are complete.
var covered = []string{"responses", "service", "account", "keys", "members", "budgets", "credits", "requests", "audit", "accounts", "erasures", "providers", "drive", "spaces", "agents", "sessions", "tools", "schedules", "hooks", "tests", "embeds", "webhooks", "connections"}

// TestMain fails a whole run in which a documented reply was never seen, and any
// run in which a statement read more of a table than its rows. The tests run on both
// databases.
func TestMain(m *testing.M) {
	code := plans.Checked(storetest.Both(m)).Run()
	if code == 0 && wholeRun() {
		if missing := recorder.Missing(covered); len(missing) > 0 {
			fmt.Println("These documented replies were never provoked by a test; write one, or take them out of the contract:")
			for _, line := range missing {
				fmt.Println("  " + line)
			}
			code = 1
		}
	}
	os.Exit(code)
}

func wholeRun() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}
