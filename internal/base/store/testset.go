package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/stoa"
)

const (
	MaxTestSets  = 100 // of an account
	TestRunsKept = 10  // of a test set
)

var (
	testSets    = newTable[stoa.TestSet]("test_sets")
	testRuns    = newTable[stoa.TestRun]("test_runs")
	testResults = newTable[stoa.TestResult]("test_results")
)

// InsertTestSet adds a test set. Times and revision are set.
func (tx Work) InsertTestSet(ctx context.Context, s stoa.TestSet) (stoa.TestSet, error) {
	if err := tx.within(ctx, MaxTestSets, "", s.AccountID, s.AccountID, "test sets in this account", `test_sets WHERE account_id = $2`); err != nil {
		return s, err
	}
	s.CreatedAt, s.UpdatedAt, s.Revision = tx.Now, tx.Now, 1
	_, err := testSets.insert(ctx, tx.Tx, &s, "")
	return s, err
}

// TestSet returns a test set of an account's agent, or CodeNotFound. lock locks the row until the commit.
func (tx Work) TestSet(ctx context.Context, accountID, agentID, id string, lock bool) (stoa.TestSet, error) {
	suffix := ""
	if lock {
		suffix = tx.ForUpdate()
	}
	missing := stoa.Errorf(stoa.CodeNotFound, "This agent has no such test set.").At("setId")
	return testSets.one(ctx, tx.Tx, missing, `account_id = $1 AND agent_id = $2 AND id = $3`+suffix, accountID, agentID, id)
}

// TestSets lists the test sets of an agent. A text in the name or the id narrows it (see [Setup.Agents]).
func (tx Work) TestSets(ctx context.Context, accountID, agentID, text string, p Page) ([]stoa.TestSet, Cursor, error) {
	return testSets.search(ctx, tx.Tx, p, filtered{
		from: `FROM test_sets WHERE account_id = $1 AND agent_id = $2`, args: []any{accountID, agentID},
		search: textSearch{text, []string{"name", "id"}},
	})
}

// EditTestSet lets fn change a test set and writes the result. If fn fails, it writes nothing.
func (tx Work) EditTestSet(ctx context.Context, accountID, agentID, id string, fn func(*stoa.TestSet) error) (stoa.TestSet, error) {
	s, err := tx.TestSet(ctx, accountID, agentID, id, true)
	if err != nil {
		return s, err
	}
	return testSets.edit(ctx, tx.Tx, accountID, id, s, fn)
}

// DeleteTestSet removes a test set with its runs.
func (tx Work) DeleteTestSet(ctx context.Context, accountID, id string) error {
	for _, q := range []string{
		`DELETE FROM test_results WHERE run_id IN (SELECT id FROM test_runs WHERE account_id = $1 AND set_id = $2)`,
		`DELETE FROM test_runs WHERE account_id = $1 AND set_id = $2`,
		`DELETE FROM test_sets WHERE account_id = $1 AND id = $2`,
	} {
		if _, err := tx.Exec(ctx, q, accountID, id); err != nil {
			return err
		}
	}
	return nil
}

// InsertTestRun adds a run with its pending results, and removes the oldest runs of the set beyond [TestRunsKept]. The set must be
// locked. A set with a run in progress is CodeLimitReached.
func (tx Work) InsertTestRun(ctx context.Context, r stoa.TestRun) (stoa.TestRun, error) {
	kept, err := tx.texts(ctx, `SELECT id FROM test_runs WHERE account_id = $1 AND set_id = $2 ORDER BY created_at DESC, id DESC LIMIT $3`, r.AccountID, r.SetID, TestRunsKept+1)
	if err != nil {
		return r, err
	}
	if running, err := tx.RunningTest(ctx, r.AccountID, r.SetID); err != nil || running != "" {
		if err == nil {
			err = stoa.Errorf(stoa.CodeLimitReached, "The run %s of this test set is in progress. Wait for its end, or cancel it.", running)
		}
		return r, err
	}
	for _, id := range kept[min(TestRunsKept-1, len(kept)):] {
		if _, err := tx.Exec(ctx, `DELETE FROM test_results WHERE account_id = $1 AND run_id = $2`, r.AccountID, id); err != nil {
			return r, err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM test_runs WHERE account_id = $1 AND id = $2`, r.AccountID, id); err != nil {
			return r, err
		}
	}
	r.CreatedAt, r.Status = tx.Now, stoa.TestRunning
	if _, err := testRuns.insert(ctx, tx.Tx, &r, ""); err != nil {
		return r, err
	}
	for number := range r.Questions {
		for side := range r.Sides() {
			result := stoa.TestResult{AccountID: r.AccountID, AgentID: r.AgentID, RunID: r.ID, Number: number + 1, Side: side, Status: stoa.ResultPending}
			if _, err := testResults.insert(ctx, tx.Tx, &result, ""); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// RunningTest returns the id of the run of a test set that is in progress, or "".
func (tx Work) RunningTest(ctx context.Context, accountID, setID string) (id string, err error) {
	_, err = tx.Get(ctx, `SELECT id FROM test_runs WHERE account_id = $1 AND set_id = $2 AND status = 'running' LIMIT 1`, []any{accountID, setID}, &id)
	return id, err
}

// TestRun returns a run of a test set, or CodeNotFound. An empty setID matches any set; lock locks the row until the commit.
func (tx Work) TestRun(ctx context.Context, accountID, setID, id string, lock bool) (stoa.TestRun, error) {
	suffix := ""
	if lock {
		suffix = tx.ForUpdate()
	}
	missing := stoa.Errorf(stoa.CodeNotFound, "This test set has no such run.").At("runId")
	return testRuns.one(ctx, tx.Tx, missing, `account_id = $1 AND id = $2 AND ($3 = '' OR set_id = $3)`+suffix, accountID, id, setID)
}

// TestRuns lists the runs of a test set.
func (tx Work) TestRuns(ctx context.Context, accountID, setID string, p Page) ([]stoa.TestRun, bool, error) {
	return testRuns.page(ctx, tx.Tx, p, `account_id = $1 AND set_id = $2`, accountID, setID)
}

// RunningTests lists the runs of all accounts that are in progress, by id and after the given one.
func (tx Work) RunningTests(ctx context.Context, after string, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (r Ref, err error) {
		err = rows.Scan(&r.ID, &r.AccountID)
		return r, err
	}, `SELECT id, account_id FROM test_runs WHERE status = 'running' AND id > $1 ORDER BY id LIMIT $2`, after, limit)
}

// SaveTestRun writes the status and the reason of a locked run.
func (tx Work) SaveTestRun(ctx context.Context, r *stoa.TestRun) error {
	_, err := testRuns.change(ctx, tx.Tx, r, "status reason finished_at", `account_id = $1 AND id = $2`, r.AccountID, r.ID)
	return err
}

// TestResults lists the results of a run by number and side.
func (tx Work) TestResults(ctx context.Context, r stoa.TestRun) ([]stoa.TestResult, error) {
	return list(ctx, tx.Tx, testResults.scan, `SELECT `+testResults.columns+` FROM test_results WHERE account_id = $1 AND run_id = $2 ORDER BY number, side LIMIT $3`, r.AccountID, r.ID, r.Sides()*len(r.Questions))
}

// SaveTestResult writes a result of a locked run.
func (tx Work) SaveTestResult(ctx context.Context, r *stoa.TestResult) error {
	_, err := testResults.change(ctx, tx.Tx, r, "status verdict reasons reply session_id credits cap milliseconds",
		`account_id = $1 AND run_id = $2 AND number = $3 AND side = $4`, r.AccountID, r.RunID, r.Number, r.Side)
	return err
}

// SkipTestResults marks the pending results of a locked run as skipped.
func (tx Work) SkipTestResults(ctx context.Context, r stoa.TestRun) error {
	_, err := tx.Exec(ctx, `UPDATE test_results SET status = 'skipped' WHERE account_id = $1 AND run_id = $2 AND status = 'pending'`, r.AccountID, r.ID)
	return err
}

// A TestSum has the sums of one side of a run.
type TestSum struct {
	RunID                          string
	Side                           int
	Questions, Passed, Failed, Bad int
	Credits                        stoa.Credits
	Milliseconds                   int64
}

// TestSums returns the sums of runs of an account, at most of a page.
func (tx Work) TestSums(ctx context.Context, accountID string, runs []stoa.TestRun) ([]TestSum, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	ids := make([]any, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	in, args := inList([]any{accountID}, ids)
	return list(ctx, tx.Tx, func(rows *sql.Rows) (s TestSum, err error) {
		err = rows.Scan(&s.RunID, &s.Side, &s.Questions, &s.Passed, &s.Failed, &s.Bad, &s.Credits, &s.Milliseconds)
		return s, err
	}, `SELECT run_id, side, COUNT(*), SUM(CASE verdict WHEN 'pass' THEN 1 ELSE 0 END), SUM(CASE verdict WHEN 'fail' THEN 1 ELSE 0 END), SUM(CASE verdict WHEN 'error' THEN 1 ELSE 0 END),
			CAST(SUM(credits) AS BIGINT), CAST(SUM(milliseconds) AS BIGINT)
		FROM test_results WHERE account_id = $1 AND run_id IN (`+in+`) GROUP BY run_id, side LIMIT 1000`, args...)
}

// RemoveTests removes up to limit results, runs and sets of a deleted agent, and returns their number.
func (tx Work) RemoveTests(ctx context.Context, accountID, agentID string, limit int) (int64, error) {
	for _, q := range []string{
		`DELETE FROM test_results WHERE (run_id, number, side) IN (SELECT run_id, number, side FROM test_results WHERE account_id = $1 AND agent_id = $2 LIMIT $3)`,
		`DELETE FROM test_runs WHERE id IN (SELECT id FROM test_runs WHERE account_id = $1 AND agent_id = $2 LIMIT $3)`,
		`DELETE FROM test_sets WHERE id IN (SELECT id FROM test_sets WHERE account_id = $1 AND agent_id = $2 LIMIT $3)`,
	} {
		if n, err := tx.Exec(ctx, q, accountID, agentID, limit); err != nil || n > 0 {
			return n, err
		}
	}
	return 0, nil
}
