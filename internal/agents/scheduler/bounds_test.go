package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/scheduler"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// A task that is further behind than one transaction may process is left to the scheduler: a
// caller's change of it is refused until then, and no other write waits for it.
func TestATaskFarBehindIsCaughtUpInPieces(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task := d.task(minutely)
	edit := func(change func(*stoa.ScheduledTask)) error {
		return d.Store.Write(context.Background(), func(tx *store.Tx) error {
			_, err := d.s.Edit(context.Background(), tx, task.AccountID, task.AgentID, task.ID, nil, func(t *stoa.ScheduledTask) error {
				change(t)
				return nil
			})
			return err
		})
	}
	if err := edit(func(t *stoa.ScheduledTask) { t.StartAt = instant("1700-01-01T00:00:00Z") }); stoa.CodeOf(err) != stoa.CodeInvalidValue {
		t.Errorf("a start long ago: %v", err)
	}
	d.Write(func(ctx context.Context, tx *store.Tx) error { // as an earlier version accepted it
		at := instant("1700-01-01T00:00:00Z").UnixMicro()
		_, err := tx.Exec(ctx, `UPDATE tasks SET start_at = $2, anchor = $2, cursor = $2, next_at = 1 WHERE id = $1`, task.ID, at)
		return err
	})
	err := edit(func(t *stoa.ScheduledTask) { t.Enabled = false })
	if e := stoa.AsError(err); stoa.CodeOf(err) != stoa.CodeOverloaded || e.RetryAfter <= 0 {
		t.Fatalf("a change meanwhile: %v", err)
	}
	d.tick()
	got := d.get(task)
	if !got.NextAt.Equal(instant("2026-03-01T08:01:00Z")) {
		t.Errorf("the next instant is %v", got.NextAt)
	}
	if rows := d.runs(task); len(rows) > 1200 {
		t.Errorf("%d rows", len(rows))
	}
	if most := int64(366*24*60 + 1); got.Counts.Skipped+got.Counts.Started > most || got.Counts.Started != 1 {
		t.Errorf("counts are %+v", got.Counts)
	}
	if err := edit(func(t *stoa.ScheduledTask) { t.Enabled = false }); err != nil {
		t.Error(err)
	}
}

func TestTenThousandTasksAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	h := sessiontest.Build(t, storetest.New(t), nil)
	d := newDesk(h, "2026-03-01T08:00:00Z")
	d.r = h.Service()
	big := sessiontest.NewScheduler(d.r, scheduler.Config{Now: d.clock.now})
	const accounts, agents, each = 20, 10, 50
	const all = accounts * agents * each
	for range accounts {
		h.Account = storetest.Account(t, h.Store, stoa.Credit)
		for range agents {
			a := h.Agent()
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				for range each {
					if _, err := big.Create(ctx, tx, h.Caller(), stoa.ScheduledTask{
						AgentID: a.ID, Name: "x", Message: "say: x", Enabled: true, Schedule: stoa.Schedule{Type: "cron", Expression: "0 9 * * *", Timezone: "Europe/Berlin"},
						SessionPolicy: "new", MissedPolicy: "run_latest", OverlapPolicy: "skip", CatchUpWindow: time.Hour,
					}); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	d.clock.set(instant("2026-03-01T08:00:00Z").Add(24 * time.Hour)) // nine in Berlin
	// Two schedulers, one of which is stopped midway and continues later.
	begun := time.Now()
	stopping, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if _, _, err := big.Tick(stopping); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	for runs := 0; runs < all/20; runtime.Gosched() { // at a random point
		d.Write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Get(ctx, `SELECT COUNT(*) FROM task_runs`, nil, &runs)
			return err
		})
	}
	stop()
	work.Wait()
	again := sessiontest.NewScheduler(d.r, scheduler.Config{Now: d.clock.now})
	for range 2 {
		work.Go(func() {
			if _, _, err := again.Tick(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	took := time.Since(begun)
	var runs, sessions, tasks, ahead int
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		for query, into := range map[string]*int{
			`SELECT COUNT(*) FROM task_runs WHERE trigger_kind = 'schedule' AND session_id <> ''`:   &runs,
			`SELECT COUNT(DISTINCT s.id) FROM sessions s JOIN task_runs r ON r.id = s.trigger_id`:   &sessions,
			`SELECT COUNT(DISTINCT task_id) FROM task_runs`:                                         &tasks,
			fmt.Sprintf(`SELECT COUNT(*) FROM tasks WHERE next_at > %d`, d.clock.now().UnixMicro()): &ahead,
		} {
			if _, err := tx.Get(ctx, query, nil, into); err != nil {
				return err
			}
		}
		return nil
	})
	t.Logf("%d due at once took %v: %.0f in a second", all, took, all/took.Seconds())
	if runs != all || sessions != all || tasks != all || ahead != all {
		t.Errorf("%d runs, %d sessions, %d tasks with runs, %d with a next instant; want %d of each", runs, sessions, tasks, ahead, all)
	}
}
