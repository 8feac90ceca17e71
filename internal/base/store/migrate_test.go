package store_test

import (
	"testing"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// A database of an earlier version is taken over: runs that waited for a place
// in the queue still do, under the new word.
func TestRunsThatWaitSurviveTheUpgrade(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, database storetest.Database) {
		earlier(t, database, "00310", func(tx *db.Tx) error {
			for id, waiting := range map[string]string{"run_1": "room", "run_2": "overlap", "run_3": ""} {
				if _, err := tx.Exec(ctx, `INSERT INTO task_runs (id, task_id, account_id, scheduled_for, trigger_kind, status, skip_reason, waiting, instants,
					through, session_id, turn, delay, revision, settle, created_at, started_at, finished_at)
					VALUES ($1, 'task_1', 'acc_1', 5, 'manual', 'queued', '', $2, 1, 0, '', 0, 0, 1, 0, 5, 0, 0)`, id, waiting); err != nil {
					return err
				}
			}
			return nil
		})
		read(t, database.Open(), func(tx *store.Tx) error {
			got := map[string]string{}
			for _, id := range []string{"run_1", "run_2", "run_3"} {
				var waiting string
				if _, err := tx.Get(ctx, `SELECT waiting FROM task_runs WHERE id = $1`, []any{id}, &waiting); err != nil {
					return err
				}
				got[id] = waiting
			}
			if got["run_1"] != "capacity" || got["run_2"] != "overlap" || got["run_3"] != "" {
				t.Errorf("the runs wait for %v", got)
			}
			accounts, err := tx.Work().AccountsWaitingForCapacity(ctx)
			if err != nil || len(accounts) != 1 || accounts[0] != "acc_1" {
				t.Errorf("accounts that wait: %v, %v", accounts, err)
			}
			return nil
		})
	})
}
