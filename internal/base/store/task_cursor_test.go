package store_test

import (
	"slices"
	"testing"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// taskAt is a task with its cursor and other times at the given minutes.
func taskAt(accountID string, cursor, planned, trimmed int) stoa.ScheduledTask {
	return stoa.ScheduledTask{
		AccountID: accountID, AgentID: "agt_1", KeyID: "key_1", Name: "x", Message: "x", Mode: stoa.ModeOnce, Enabled: true,
		Schedule:      stoa.Schedule{Type: stoa.ScheduleInterval, Every: time.Minute},
		SessionPolicy: stoa.SessionNew, MissedPolicy: stoa.MissedSkip, OverlapPolicy: stoa.OverlapSkip,
		Cursor: minute(cursor), PlannedAt: minute(planned), TrimmedAt: minute(trimmed), NextAt: minute(cursor + 1),
	}
}

func minute(n int) time.Time { return time.Date(2026, 3, 1, 0, n, 0, 0, time.UTC) }

func TestTasksAheadOfTheClock(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 0)
		names := map[string]string{}
		add := func(name string, task stoa.ScheduledTask, change ...func(*store.Tx, string) error) {
			write(t, st, func(tx *store.Tx) error {
				task, err := tx.Work().InsertTask(ctx, task)
				names[task.ID] = name
				for _, fn := range change {
					if err == nil {
						err = fn(tx, task.ID)
					}
				}
				return err
			})
		}
		putOff := func(d time.Duration) func(*store.Tx, string) error {
			return func(tx *store.Tx, id string) error {
				_, err := tx.Exec(ctx, `UPDATE tasks SET retry_at = $2 WHERE id = $1`, id, tx.Now.Add(d).UnixMicro())
				return err
			}
		}
		add("ahead", taskAt(a.ID, 20, 5, 10))
		add("not ahead", taskAt(a.ID, 10, 5, 5))
		add("planned ahead", taskAt(a.ID, 20, 11, 0))
		add("trimmed ahead", taskAt(a.ID, 20, 0, 11))
		add("put off", taskAt(a.ID, 20, 0, 0), putOff(30*time.Second))
		add("put off by a clock that was ahead", taskAt(a.ID, 20, 0, 0), putOff(24*time.Hour))
		add("deleted", taskAt(a.ID, 20, 0, 0), func(tx *store.Tx, id string) error {
			err := tx.Work().HideTask(ctx, a.ID, "agt_1", id)
			return err
		})
		paused := taskAt(a.ID, 20, 0, 0)
		paused.Enabled, paused.NextAt = false, time.Time{}
		add("paused", paused)
		list := func(refs []store.Ref, err error) []string {
			var out []string
			for _, r := range refs {
				out = append(out, names[r.ID])
			}
			slices.Sort(out)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		write(t, st, func(tx *store.Tx) error {
			if got, want := list(tx.Work().TasksAhead(ctx, minute(10), 25)), []string{"ahead", "put off by a clock that was ahead"}; !slices.Equal(got, want) {
				t.Errorf("ahead are %q, want %q", got, want)
			}
			if n, err := tx.Work().CountTasksStuck(ctx, minute(10), 25); err != nil || n != 2 {
				t.Errorf("%d are stuck, %v", n, err)
			}
			due := list(tx.Work().DueTasks(ctx, minute(30), 25))
			if slices.Contains(due, "put off") || !slices.Contains(due, "put off by a clock that was ahead") || len(due) != 5 {
				t.Errorf("due are %q", due)
			}
			return nil
		})
	})
}

// Old runs are removed, but none of an instant that the clock has yet to reach.
func TestTrimKeepsRunsThatAreAhead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		write(t, st, func(tx *store.Tx) error {
			var runs []stoa.TaskRun
			for n := range 20 {
				runs = append(runs, stoa.TaskRun{TaskID: "tsk_1", ScheduledFor: minute(n), Trigger: stoa.TriggerSchedule, Status: "completed"})
			}
			runs[12].Trigger = stoa.TriggerManual
			return tx.Work().InsertRuns(ctx, runs)
		})
		for _, tc := range []struct {
			keep, through, left int
			trimmed             time.Time
		}{
			{20, 30, 20, time.Time{}},
			{15, 30, 16, minute(4)}, // the sixteenth newest is kept
			{2, 10, 8, minute(10)},  // 11, 13 to 19
			{2, 10, 8, time.Time{}},
		} {
			write(t, st, func(tx *store.Tx) error {
				trimmed, err := tx.Work().TrimRuns(ctx, "tsk_1", tc.keep, minute(tc.through))
				if !trimmed.Equal(tc.trimmed) {
					t.Errorf("keep %d through %d: trimmed up to %s", tc.keep, tc.through, trimmed)
				}
				left := 0
				if err == nil {
					_, err = tx.Get(ctx, `SELECT COUNT(*) FROM task_runs`, nil, &left)
				}
				if left != tc.left {
					t.Errorf("keep %d through %d: %d are left", tc.keep, tc.through, left)
				}
				return err
			})
		}
	})
}

// Tasks of an earlier version are not reset to before the instants that they had handled,
// and only those with many runs can have lost any.
func TestTasksOfAnEarlierVersionStayAhead(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, database storetest.Database) {
		earlier(t, database, "00500", func(tx *db.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO accounts (id, name, plan, created_at, updated_at) VALUES ('acc_1', 'x', 'pro', 1, 1)`)
			for id, runs := range map[string]int{"tsk_1": 100, "tsk_2": 20_000} {
				if err == nil {
					_, err = tx.Exec(ctx, `INSERT INTO tasks (account_id, id, name, message, mode, schedule_type, expression, timezone, every, run_at, start_at, end_at,
						max_runs, enabled, pause_reason, session_policy, missed_policy, catch_up_window, overlap_policy, pause_after, max_credits, session_id,
						anchor, cursor, next_at, failures, count_started, count_scheduled, count_completed, count_failed, count_cancelled, count_skipped,
						last_run_id, revision, updated_at, agent_id, key_id, created_at, deleted_at, retry_at)
						VALUES ('acc_1', $1, 'x', 'x', 'once', 'interval', '', '', 60000000, 0, 0, 0, 0, 1, '', 'new', 'skip', 0, 'skip', 0, 0, '',
						1, 777, 888, 0, $2, 0, 0, 0, 0, 0, '', 1, 1, 'agt_1', 'key_1', 1, 0, 0)`, id, runs)
				}
			}
			return err
		})
		read(t, database.Open(), func(tx *store.Tx) error {
			for id, trimmed := range map[string]time.Time{"tsk_1": {}, "tsk_2": db.Time(777)} {
				task, err := tx.Work().Task(ctx, "acc_1", "", id)
				if err != nil {
					return err
				}
				if !task.PlannedAt.Equal(db.Time(777)) || !task.TrimmedAt.Equal(trimmed) || !task.RecordedThrough.IsZero() {
					t.Errorf("%s was planned at %s, trimmed at %s", id, task.PlannedAt, task.TrimmedAt)
				}
			}
			return nil
		})
	})
}
