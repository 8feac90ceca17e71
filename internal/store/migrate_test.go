package store_test

import (
	"os"
	"testing"
	"testing/fstest"

	"stoa/internal/db"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
)

// A database of an earlier version is taken over: runs that waited for a place
// in the queue still do, under the new word.
func TestRunsThatWaitSurviveTheUpgrade(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, database storetest.Database) {
		older := fstest.MapFS{}
		for _, name := range []string{"0001_books.sql", "00100_agents.sql", "00200_schedules.sql", "00300_embeds.sql"} {
			text, err := os.ReadFile("migrations/" + name)
			if err != nil {
				t.Fatal(err)
			}
			older[name] = &fstest.MapFile{Data: text}
		}
		before, err := db.Open(ctx, db.Config{
			Dir: database.Config.Dir, File: "core.db", PostgresURL: database.Config.PostgresURL, Migrations: older,
		})
		if err != nil {
			t.Fatal(err)
		}
		err = before.Write(ctx, func(tx *db.Tx) error {
			for id, waiting := range map[string]string{"run_1": "room", "run_2": "overlap", "run_3": ""} {
				if _, err := tx.Exec(ctx, `INSERT INTO task_runs (id, task_id, account_id, scheduled_for, trigger_kind, status, skip_reason, waiting, instants,
					through, session_id, turn, delay, revision, settle, created_at, started_at, finished_at)
					VALUES ($1, 'task_1', 'acc_1', 5, 'manual', 'queued', '', $2, 1, 0, '', 0, 0, 1, 0, 5, 0, 0)`, id, waiting); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		if dir := database.Config.Dir; dir != "" { // a store has both files
			if err := db.SetFileID(ctx, dir, "drive.db", 0); err != nil {
				t.Fatal(err)
			}
		}
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
			accounts, err := tx.AccountsWaitingForCapacity(ctx)
			if err != nil || len(accounts) != 1 || accounts[0] != "acc_1" {
				t.Errorf("accounts that wait: %v, %v", accounts, err)
			}
			return nil
		})
	})
}
