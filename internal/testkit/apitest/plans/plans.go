// Package plans checks how the databases would run the statements of a package's tests:
// whether an index finds the rows of each, regardless of the number of rows.
//
// It is for tests only. It receives the statements of stores and drives that storetest
// configures, and explains them in empty databases: every one on the database that it ran on,
// and those of SQLite on PostgreSQL too, if one is available. Start with [Checked], for the
// TestMain of a package; planned lists the statements that may read or sort a whole table.
package plans

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"stoa/internal/testkit/storetest"
)

// few are tables with few rows, regardless of the amount of data.
var few = map[string]bool{"nodes": true, "runners": true, "store_probe": true, "drive_vocabulary": true, "request_clock": true, "config_draft": true, "statement_months": true, "alerts": true, "charge_hours_fill": true}

// planned are statements that read all rows of a table or sort them, by a part of
// their text, with the reason why they may.
var planned = map[string]string{
	`FROM memory_notes WHERE account_id = $1 AND agent_`:  "the notes about a user are bounded",
	`FROM test_results WHERE account_id = $1 AND run_id`:  "the results of a page of runs",
	`SUM(written_off), 0) AS BIGINT)`:                     "usage: a report",
	`FROM vendor_failures WHERE created_at >= $1`:         "usage: a report",
	`CROSS JOIN (SELECT 1 AS own UNION ALL SELECT 0)`:     "the charges of one commit, or of some hours of an account",
	`SELECT '', hour, served, provider, '', node_id, CAS`: "some hours of an account, or some thousand rows",
	`c GROUP BY account_id, hour, served`:                 "some hours of an account",
	`DELETE FROM charge_hours`:                            "once, after a node of an earlier version",
	`calls * 1000003`:                                     "the check of the books: a report",
	`SELECT (SELECT COUNT(*) FROM accounts)`:              "the check of the books: a report",
	`SELECT id, spent FROM budget_windows`:                "the check of the books since the last one: a report",
	`SELECT DISTINCT account_id FROM statements`:          "the check of the books: a report",
	`SELECT CAST(created_at / 86400000000 AS BIGINT), `:   "statements and the check of the books: reports",
	`SELECT kind, COUNT(*), CAST(SUM(amount) AS BIGINT)`:  "the grants of an account in a month: a report",
	`SELECT MAX(last_at) FROM purged_charges`:             "until the first statements are final",
	` AND id IN ($`:              "the rows of one page, which a search has found: at most 101",
	`AND 1 = 1`:                  "the check of the books: a report",
	`WHERE 1 = 1 GROUP BY`:       "the check of the books: a report",
	`FROM nodes WHERE alive = 1`: "the nodes that live are few, those that have lived one for each start",
	`FROM requests WHERE created_at >= $1 AND account_`: "requests_by_account has them; without rows PostgreSQL takes the index by time",
	`s.external_id = $`:                                 "at most one row",
	`UNION ALL SELECT * FROM (SELECT id, 'charge'`:      "three parts of a page, and one row for each lease with purged charges",
	`FROM keys WHERE account_id = $1 AND made_by = $2`:  "the keys of an account are bounded",
	`SELECT model, COUNT(*) FROM agents`:                "the check of a draft, for operators: a report",
	`FROM members m JOIN people p ON p.id`:              "the members of an account are bounded",
	`FROM invitations WHERE expires_at < $`:             "100 open ones of an account, and those of a month: a sweep",
	`ORDER BY created_at DESC, hash LIMIT 1000`:         "the sessions of a person or of a key are bounded",
	`FROM tasks WHERE account_id = $1`:                  "the tasks of an account are bounded",
	`FROM task_runs r WHERE r.task_id = $1 AND r.`:      "those that a partial index has are few",
	`FROM drive_objects WHERE blob_id <= 0 AND since <`: "what no file refers to, of accounts with too much of it: a sweep",
	`embed_chats WHERE account_id = $1`:                 "an erasure: those that have not begun, and those of some days",
	`DELETE FROM invitations WHERE used_at > 0`:         "an erasure: those of a month",
	`FROM embed_refusals WHERE embed_id = $1`:           "a bounded number for each embed",
	`FROM drive_versions WHERE drive_id = $1 AND path`:  "a bounded number for each path",
	`t.number = r.turn WHERE r.account_id = $1 AND r.t`: "the runs of a task are bounded, and are found without the account elsewhere",
	`IN (SELECT account_id FROM charge_days WHERE`:      "accounts that were charged today or yesterday: once a minute, for operators",
	`s ON s.account_id = a.id) accounts WHERE`:          "the accounts in the order of a number, for operators: they, and their sums by day or by hour",
	`AS sort_key FROM agents a`:                         "the agents of an account, in the order of a number",
	`AS sort_key FROM keys k`:                           "the keys of an account are bounded",
	`LIMIT 200000) newest WHERE`:                        "the requests in the order of a number: the newest 200,000",
	`LIMIT 200000) s WHERE`:                             "the sessions of all accounts in the order of a number, for operators: the newest 200,000",
	`FROM alerts ORDER BY CASE`:                         "the open alerts of the service are few",
	`SUM(dropped), 0) AS BIGINT)`:                       "accounts whose requests were dropped lately, for operators",
	`DELETE FROM config_secrets`:                        "the few keys since the newest version, when an operator changes the draft",
	`DELETE FROM idempotency WHERE state = 'running'`:   "when a node dies",
	`ROW_NUMBER() OVER (PARTITION BY line`:              "the queued sessions of an account are bounded",
	`AS visitor FROM sessions WHERE status = 'running'`: "the running sessions of an account are bounded",
	`SELECT kind, COUNT(*), MIN(created_at) FROM`:       "a bounded number of inputs by their six kinds: metrics, and the doctor",
}

// A recorder contains the statements that ran, by database.
type recorder struct {
	mu               sync.Mutex
	sqlite, postgres map[string]bool
}

// note records a statement, unless a test wrote it.
func (r *recorder) note(postgres bool, query string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.sqlite
	if postgres {
		seen = r.postgres
	}
	if !seen[query] && !fromTest() {
		seen[query] = true
	}
}

// fromTest reports whether the running statement comes from a function of a test, or of a
// package for tests.
func fromTest() bool {
	var at [32]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(2, at[:])])
	inDB := false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "stoa/internal/base/db."):
			inDB = true
		case inDB:
			return strings.HasSuffix(f.File, "_test.go") || strings.HasSuffix(path.Dir(f.File), "test")
		}
		if !more {
			return false
		}
	}
}

// Checked returns a runner of the tests that fails if they passed but one of their statements
// reads more than its rows.
func Checked(tests storetest.Runner) storetest.Runner { return checked{tests} }

type checked struct{ tests storetest.Runner }

// Run runs the tests, then checks.
func (c checked) Run() int {
	seen := recorder{sqlite: map[string]bool{}, postgres: map[string]bool{}}
	storetest.Observe = seen.note
	code := c.tests.Run()
	storetest.Observe = nil
	if code != 0 {
		return code
	}
	problems, err := seen.check(context.Background())
	if err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) == 0 {
		return 0
	}
	fmt.Println("These statements read or sort a table that grows; add an index, or a line with the reason to planned in apitest/plans:")
	for _, line := range problems {
		fmt.Println("  " + line)
	}
	return 1
}

// check explains the recorded statements and returns one line for each that reads
// more than its rows.
func (r *recorder) check(ctx context.Context) (problems []string, err error) {
	dir, err := os.MkdirTemp("", "plans")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	problems, err = checkSQLite(ctx, dir, statements(r.sqlite))
	if address := os.Getenv(storetest.Env); address != "" && err == nil {
		portable := maps.Clone(r.postgres)
		for query := range r.sqlite {
			if !onlySQLite.MatchString(query) {
				portable[query] = true
			}
		}
		var more []string
		more, err = checkPostgres(ctx, address, statements(portable))
		problems = append(problems, more...)
	}
	return problems, err
}

// onlySQLite matches tables, columns and functions that PostgreSQL does not have.
var onlySQLite = regexp.MustCompile(`\bdrive_(?:index|vocabulary)\b|\browid\b|\bsqlite_\w+|\binstr\(|\btotal_changes\(|^PRAGMA `)

// statements returns the statements that have a plan, in order.
func statements(seen map[string]bool) (out []string) {
	for _, query := range slices.Sorted(maps.Keys(seen)) {
		verb, _, _ := strings.Cut(strings.TrimSpace(query), " ")
		if strings.Contains(" SELECT INSERT UPDATE DELETE WITH ", " "+strings.TrimSpace(verb)+" ") {
			out = append(out, query)
		}
	}
	return out
}

// problem returns the text to print about a statement with such parts in its plan, and
// whether it is a problem: planned statements are not.
func problem(database, query string, found []string) (string, bool) {
	if len(found) == 0 {
		return "", false
	}
	for part := range planned {
		if strings.Contains(query, part) {
			return "", false
		}
	}
	return fmt.Sprintf("%s: %s\n\t%s", database, query, strings.Join(found, "\n\t")), true
}
