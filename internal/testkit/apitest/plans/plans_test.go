package plans

import (
	"os"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// of returns the problems found in the statements.
func of(t *testing.T, queries ...string) []string {
	t.Helper()
	r := recorder{sqlite: map[string]bool{}, postgres: map[string]bool{}}
	for _, q := range queries {
		r.sqlite[q] = true
	}
	problems, err := r.check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func wantProblem(t *testing.T, problems []string, database, part string) {
	t.Helper()
	if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, database+": ") && strings.Contains(p, part) }) {
		t.Errorf("%s: %q is not found in %q", database, part, problems)
	}
}

func TestScansAndSortsAreFound(t *testing.T) {
	problems := of(t,
		`SELECT id FROM charges WHERE served = $1`,
		`SELECT id FROM sessions WHERE account_id = $1 AND agent_id = $2 ORDER BY updated_at LIMIT $3`,
		`SELECT path FROM drive_files WHERE mime = $1`,
		`SELECT COUNT(*) FROM grants`,
		`SELECT id FROM task_runs WHERE account_id = $1 AND task_id = $2 ORDER BY scheduled_for, id LIMIT $3`)
	wantProblem(t, problems, "SQLite", "SCAN charges")
	wantProblem(t, problems, "SQLite", "USE TEMP B-TREE")
	wantProblem(t, problems, "SQLite", "SCAN drive_files")
	wantProblem(t, problems, "SQLite", "SCAN grants")
	if os.Getenv(storetest.Env) == "" {
		return
	}
	wantProblem(t, problems, "PostgreSQL", "Seq Scan on charges")
	wantProblem(t, problems, "PostgreSQL", "Sort")
	wantProblem(t, problems, "PostgreSQL", "Seq Scan on drive_files")
	wantProblem(t, problems, "PostgreSQL", "all of index grants")
	wantProblem(t, problems, "PostgreSQL", "index task_runs_by_task does not have the account")
}

func TestStatementsWithAnIndexPass(t *testing.T) {
	problems := of(t,
		`SELECT id FROM charges WHERE account_id = $1 ORDER BY created_at, id LIMIT $2`,
		`SELECT id FROM sessions WHERE account_id = $1 AND id = $2`,
		`SELECT id FROM nodes WHERE alive = 1`, // few rows
		`SELECT id FROM accounts ORDER BY created_at, id LIMIT $1`,
		`SELECT DISTINCT account_id FROM task_runs WHERE waiting = 'capacity' ORDER BY account_id`,
		`SELECT rowid FROM drive_index WHERE drive_index MATCH $1`,
		`INSERT INTO runners (id, expires_at) VALUES ($1, $2)`)
	if len(problems) > 0 {
		t.Errorf("%q", problems)
	}
}

func count(t *testing.T, st *store.Store) {
	t.Helper()
	if err := st.Read(t.Context(), func(tx *store.Tx) error {
		var n int
		_, err := tx.Get(t.Context(), `SELECT COUNT(*) FROM accounts`, nil, &n)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestStatementsOfTestsDoNotCount(t *testing.T) {
	var r recorder
	r.sqlite = map[string]bool{}
	st := storetest.New(t)
	st.Config.Observe = func(query string) { r.note(false, query) }
	opened := st.Open()
	storetest.Account(t, opened, 0)
	own := len(r.sqlite)
	if own == 0 {
		t.Error("the statements of the store are not recorded")
	}
	count(t, opened)
	if len(r.sqlite) != own {
		t.Errorf("recorded: %v", r.sqlite)
	}
}
