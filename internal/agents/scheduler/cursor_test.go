package scheduler_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/agents/scheduler"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// restart simulates a new process: nothing in memory survives.
func (d *desk) restart(change ...func(*scheduler.Config)) {
	cfg := scheduler.Config{Now: d.clock.now}
	for _, fn := range change {
		fn(&cfg)
	}
	d.s = sessiontest.NewScheduler(d.r, cfg)
}

// pass advances the time with a pass every half minute, as the timer does.
func (d *desk) pass(how time.Duration) {
	d.T.Helper()
	for ; how > 0; how -= 30 * time.Second {
		d.clock.add(min(how, 30*time.Second))
		d.tick()
	}
}

func (d *desk) verb(t stoa.ScheduledTask, verb func(context.Context, *store.Tx, string, string, string) (stoa.ScheduledTask, error)) {
	d.T.Helper()
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := verb(ctx, tx, t.AccountID, t.AgentID, t.ID)
		return err
	})
}

// A witness records every run that began, even if its row is removed.
type witness map[string]string // the run of a task's instant

// look fails if an instant of any task has begun twice.
func (w witness) look(d *desk) {
	d.T.Helper()
	for _, r := range d.began("") {
		key := r.TaskID + " " + r.ScheduledFor.Format(time.RFC3339)
		if first, again := w[key]; again && first != r.ID {
			d.T.Fatalf("%s has happened twice", key)
		}
		w[key] = r.ID
	}
}

// began returns the runs of all schedules that have a session and meet a condition.
func (d *desk) began(cond string) (runs []stoa.TaskRun) {
	d.T.Helper()
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		runs = nil
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var r stoa.TaskRun
			var at int64
			err := rows.Scan(&r.ID, &r.TaskID, &at, &r.SessionID)
			r.ScheduledFor = time.UnixMicro(at).UTC()
			runs = append(runs, r)
			return err
		}, `SELECT id, task_id, scheduled_for, session_id FROM task_runs WHERE trigger_kind <> 'manual' AND session_id <> ''
			AND task_id IN (SELECT id FROM tasks WHERE agent_id = $1)`+cond, d.agent.ID)
	})
	return runs
}

// policies returns tasks with every combination of policies.
func (d *desk) policies(change func(*stoa.ScheduledTask)) (tasks []stoa.ScheduledTask) {
	for _, missed := range []string{stoa.MissedRunLatest, stoa.MissedSkip, stoa.MissedRunAll} {
		for _, overlap := range []string{stoa.OverlapSkip, stoa.OverlapQueue, stoa.OverlapAllow} {
			tasks = append(tasks, d.task(change, func(t *stoa.ScheduledTask) { t.MissedPolicy, t.OverlapPolicy = missed, overlap }))
		}
	}
	return tasks
}

// at returns the outcome of an instant of a task; "" if none exists.
func (d *desk) at(t stoa.ScheduledTask, at string) string {
	d.T.Helper()
	var trigger, status, reason, waiting string
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Get(ctx, `SELECT trigger_kind, status, skip_reason, waiting FROM task_runs WHERE task_id = $1 AND scheduled_for = $2`,
			[]any{t.ID, instant(at).UnixMicro()}, &trigger, &status, &reason, &waiting)
		return err
	})
	return strings.Join(strings.Fields(trigger+" "+status+" "+reason+" "+waiting), " ")
}

// drain ends all runs, including those that begin because others end.
func (d *desk) drain() {
	d.T.Helper()
	for {
		runs := d.began(` AND status = 'queued'`)
		if len(runs) == 0 {
			return
		}
		for _, r := range runs {
			if _, err := d.r.Cancel(context.Background(), d.Caller(), d.agent.ID, r.SessionID); err != nil {
				d.T.Fatal(err)
			}
		}
		d.tick()
	}
}

// counted fails if the counters of a task do not match its runs.
func (d *desk) counted() {
	d.T.Helper()
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var missed, overlap string
			var counted, there int64
			err := rows.Scan(&missed, &overlap, &counted, &there)
			if counted != there {
				d.T.Errorf("%s %s: %d instants are counted and %d there", missed, overlap, counted, there)
			}
			return err
		}, `SELECT missed_policy, overlap_policy, count_started + count_skipped,
			(SELECT CAST(COALESCE(SUM(instants), 0) AS BIGINT) FROM task_runs r WHERE r.task_id = t.id AND r.waiting = '') FROM tasks t WHERE agent_id = $1`, d.agent.ID)
	})
}

// The clock is ahead for a while and then corrected: once it has been right for five minutes
// tasks run at their times, and no instant runs again.
func TestTasksGoOnAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, ahead := range []time.Duration{time.Hour, 30 * day, 800 * day} {
		for _, restart := range []bool{false, true} {
			if restart && ahead == 800*day {
				continue
			}
			t.Run(fmt.Sprint(ahead, " restart ", restart), func(t *testing.T) {
				testAhead(t, storetest.New(t), ahead, restart)
			})
		}
	}
}

func testAhead(t *testing.T, home storetest.Database, ahead time.Duration, restart bool) {
	d := newDesk(sessiontest.Build(t, home, nil), "2026-03-01T08:00:00Z")
	often := d.policies(func(t *stoa.ScheduledTask) {
		t.Schedule = stoa.Schedule{Type: stoa.ScheduleInterval, Every: 5 * time.Minute}
	})
	daily := d.policies(func(*stoa.ScheduledTask) {})
	once := d.policies(func(t *stoa.ScheduledTask) {
		t.Schedule = stoa.Schedule{Type: stoa.ScheduleOnce, RunAt: instant("2026-03-01T08:40:00Z")}
	})
	seen := witness{}
	d.pass(10*time.Minute + time.Second) // to 08:10:01
	d.clock.add(ahead)
	for range 3 {
		d.tick()
		d.clock.add(10 * time.Second)
	}
	seen.look(d)
	d.clock.add(-ahead)
	if restart {
		d.restart()
	}
	d.tick()
	d.pass(4*time.Minute + 29*time.Second) // to 08:15
	seen.look(d)
	for _, task := range often {
		if next := d.get(task).NextAt; ahead > time.Hour && !next.After(d.clock.now().Add(24*time.Hour)) {
			t.Fatalf("the next instant is %s before the clock is believed", next)
		}
	}
	d.pass(time.Minute) // to 08:16
	d.drain()
	d.pass(5 * time.Minute)
	seen.look(d)
	d.counted()
	for _, task := range often {
		want := "schedule queued"
		if ahead == time.Hour && task.MissedPolicy == stoa.MissedRunAll {
			want = "catch_up cancelled" // it was early
		}
		if got := d.at(task, "2026-03-01T08:20:00Z"); got != want {
			t.Errorf("%s %s: %q, want %q", task.MissedPolicy, task.OverlapPolicy, got, want)
		}
	}
	if ahead == time.Hour {
		return
	}
	for _, task := range daily {
		if next := d.get(task).NextAt; !next.Equal(instant("2026-03-01T09:00:00Z")) {
			t.Errorf("%s %s: the next instant is %s", task.MissedPolicy, task.OverlapPolicy, next)
		}
	}
	d.drain()
	d.pass(40 * time.Minute)
	seen.look(d)
	for _, task := range daily {
		if got := d.at(task, "2026-03-01T09:00:00Z"); got != "schedule queued" {
			t.Errorf("%s %s: %q", task.MissedPolicy, task.OverlapPolicy, got)
		}
	}
	for _, task := range once {
		d.want(task, "03-01 08:40 schedule queued")
	}
}

// The clock is behind for a while: no instant runs twice, and no instant that was skipped at
// its own time is made up for.
func TestAClockThatIsBehindRunsNothingTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		d := newDesk(sessiontest.Build(t, home, nil), "2026-03-01T08:00:00Z")
		tasks := d.policies(func(t *stoa.ScheduledTask) {
			t.Schedule = stoa.Schedule{Type: stoa.ScheduleInterval, Every: 15 * time.Minute}
		})
		seen := witness{}
		d.pass(2*time.Hour + 10*time.Minute) // to 10:10
		seen.look(d)
		before := make([][]string, len(tasks))
		for i, task := range tasks {
			before[i] = d.lines(task)
		}
		if n := len(before[0]); n != 8 {
			t.Fatalf("%d runs in two hours: %v", n, before[0])
		}
		d.clock.add(-2 * time.Hour)
		d.tick()
		d.pass(time.Hour) // to 09:10
		seen.look(d)
		for i, task := range tasks {
			d.want(task, before[i]...)
			if got := d.get(task); !got.Cursor.Before(d.clock.now().Add(time.Second)) || !got.NextAt.Equal(instant("2026-03-01T10:15:00Z")) {
				t.Errorf("dealt with up to %s, next at %s", got.Cursor, got.NextAt)
			}
		}
		d.clock.add(2 * time.Hour) // to 11:10
		d.tick()
		seen.look(d)
		d.counted()
		for i, task := range tasks {
			lines := d.lines(task)
			if len(lines) != len(before[i])+4 { // up to 11:00
				t.Errorf("%s %s: %v", task.MissedPolicy, task.OverlapPolicy, lines)
			}
			if want := instant("2026-03-01T11:15:00Z"); !d.get(task).NextAt.Equal(want) {
				t.Errorf("the next instant is %s", d.get(task).NextAt)
			}
		}
	})
}

// Tasks that were created, resumed or changed by the wrong clock have instants only after
// that time. They stay as they are, with a warning, until they are resumed.
func TestTasksPlannedAheadWaitToBeResumed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z", func(c *sessiontest.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	resumed, edited, paused, deleted, untouched := d.task(), d.task(), d.task(), d.task(), d.task()
	d.verb(paused, d.s.Pause)
	d.verb(resumed, d.s.Pause)
	often := d.task(minutely, func(t *stoa.ScheduledTask) {
		t.OverlapPolicy, t.MissedPolicy, t.Enabled = stoa.OverlapAllow, stoa.MissedRunAll, false
	})
	d.clock.add(30 * 24 * time.Hour)
	d.tick()
	d.verb(resumed, d.s.Resume)
	d.verb(often, d.s.Resume)
	created := d.task()
	d.edit(edited, "30 9 * * *")
	d.tick()
	d.clock.add(-30 * 24 * time.Hour)
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		return d.s.Delete(ctx, tx, deleted.AccountID, deleted.AgentID, deleted.ID)
	})
	d.tick()
	d.pass(10 * time.Minute)
	today := instant("2026-03-01T09:00:00Z")
	if next := d.get(untouched).NextAt; !next.Equal(today) {
		t.Errorf("the next instant is %s", next)
	}
	for name, task := range map[string]stoa.ScheduledTask{"resumed": resumed, "edited": edited, "created": created} {
		if next := d.get(task).NextAt; next.Before(instant("2026-03-31T08:00:00Z")) {
			t.Errorf("the task that was %s is next at %s", name, next)
		}
	}
	if next := d.get(paused).NextAt; !next.IsZero() {
		t.Errorf("the paused task is next at %s", next)
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 2 || strings.Count(text, " tasks=4\n") != 1 || strings.Count(text, "the clock was set back") != 1 {
		t.Errorf("the log is\n%s", text)
	}
	for _, task := range []stoa.ScheduledTask{resumed, edited, created, paused, often} {
		d.verb(task, d.s.Pause)
		d.verb(task, d.s.Resume)
	}
	d.pass(time.Minute)
	for name, task := range map[string]stoa.ScheduledTask{"resumed": resumed, "created": created, "paused": paused} {
		if next := d.get(task).NextAt; !next.Equal(today) {
			t.Errorf("the task that was %s is next at %s", name, next)
		}
	}
	if next := d.get(edited).NextAt; !next.Equal(instant("2026-03-01T09:30:00Z")) {
		t.Errorf("the edited task is next at %s", next)
	}
	d.pass(5 * time.Minute)
	for _, at := range []string{"2026-03-01T09:00:10Z", "2026-03-01T09:30:10Z"} {
		d.clock.set(instant(at))
		d.tick()
	}
	for name, task := range map[string]stoa.ScheduledTask{"resumed": resumed, "created": created, "paused": paused, "untouched": untouched} {
		if got := d.at(task, "2026-03-01T09:00:00Z"); got != "schedule queued" {
			t.Errorf("the task that was %s: %q", name, got)
		}
	}
	if got := d.at(edited, "2026-03-01T09:30:00Z"); got != "schedule queued" || d.at(edited, "2026-03-01T09:00:00Z") != "" {
		t.Errorf("the edited task: %q", d.lines(edited))
	}
	if before, after := d.at(often, "2026-03-01T08:05:00Z"), d.at(often, "2026-03-01T08:15:00Z"); strings.Contains(before, "queued") || after != "schedule queued" {
		t.Errorf("before it was resumed: %q, after: %q", before, after)
	}
	d.counted()
}

// edit changes the expression of a task.
func (d *desk) edit(t stoa.ScheduledTask, expression string) {
	d.T.Helper()
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := d.s.Edit(ctx, tx, t.AccountID, t.AgentID, t.ID, nil, func(t *stoa.ScheduledTask) error {
			t.Schedule.Expression = expression
			return nil
		})
		return err
	})
}

// A cursor does not move back to where runs have been removed.
func TestTrimmedRunsDoNotRunAgain(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z", func(c *sessiontest.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	d.restart(func(c *scheduler.Config) { c.Keep = 10 })
	task := d.task(minutely, func(t *stoa.ScheduledTask) { t.OverlapPolicy = stoa.OverlapAllow })
	seen := witness{}
	step := func(how time.Duration) {
		for ; how > 0; how -= 10 * time.Minute {
			d.pass(min(how, 10*time.Minute))
			seen.look(d)
			d.drain()
		}
	}
	step(5 * time.Hour) // 300 runs; after 256 the old ones are trimmed
	d.clock.add(-4 * time.Hour)
	d.tick()
	step(10 * time.Minute)
	got := d.get(task)
	if got.TrimmedAt.Before(instant("2026-03-01T12:00:00Z")) || !got.Cursor.Equal(instant("2026-03-01T13:00:00Z")) || !strings.Contains(log.String(), "tasks=1") {
		t.Fatalf("trimmed up to %s, dealt with up to %s, %s", got.TrimmedAt, got.Cursor, log.String())
	}
	d.clock.set(got.TrimmedAt.Add(-8 * time.Minute)) // the cursor must not move back to this time
	d.tick()
	step(instant("2026-03-01T13:15:00Z").Sub(d.clock.now()))
	if got := d.get(task); got.Counts.Started != 315 || got.RecordedThrough.IsZero() {
		t.Errorf("%d runs in 315 minutes, instants up to %s may have one", got.Counts.Started, got.RecordedThrough)
	}
}

// A task that runs every minute is a year ahead: its runs are removed in batches, and when a
// process dies the next one continues.
func TestAYearAheadIsTakenBackInPieces(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task := d.task(minutely)
	d.clock.set(instant("2027-03-01T08:00:00Z"))
	d.tick()
	year := d.get(task)
	d.Write(func(ctx context.Context, tx *store.Tx) error { // as many policies and years may leave behind
		var rows []stoa.TaskRun
		at := instant("2026-06-01T00:00:30Z")
		for range 7000 {
			at = at.Add(time.Minute)
			rows = append(rows, stoa.TaskRun{TaskID: task.ID, AccountID: task.AccountID, ScheduledFor: at, Trigger: "schedule", Status: "skipped", SkipReason: "missed"})
		}
		if err := tx.Work().InsertRuns(ctx, rows); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE tasks SET count_skipped = count_skipped + 7000 WHERE id = $1`, task.ID)
		return err
	})
	d.clock.set(instant("2026-03-01T08:01:30Z"))
	rows := func() (n int) {
		d.Write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Get(ctx, `SELECT COUNT(*) FROM task_runs WHERE task_id = $1`, []any{task.ID}, &n)
			return err
		})
		return n
	}
	lives, there := 0, rows()
	for died := true; died; {
		lives++
		ctx, die := context.WithCancel(context.Background())
		var looks atomic.Int64
		looks.Store(-1)
		d.restart(func(c *scheduler.Config) {
			c.Now = func() time.Time {
				if looks.Add(1) == int64(lives) {
					die()
				}
				return d.clock.now()
			}
		})
		for range 10 { // five minutes but a single pass
			looks.Store(-100)
			d.tick()
			d.clock.add(30 * time.Second)
		}
		looks.Store(0)
		_, _, err := d.s.Tick(ctx)
		died = errors.Is(err, context.Canceled)
		if err != nil && !died {
			t.Fatal(err)
		}
		die()
		left := rows()
		if there-left > 2000*lives {
			t.Errorf("%d runs were removed in %d transactions", there-left, lives)
		}
		there = left
		d.counted()
		if got := d.get(task); !got.NextAt.After(got.Cursor) || died && got.Cursor.Before(instant("2026-03-02T00:00:00Z")) && !got.RecordedThrough.Equal(year.Cursor) {
			t.Errorf("after life %d: dealt with up to %s, next at %s, recorded through %s", lives, got.Cursor, got.NextAt, got.RecordedThrough)
		}
	}
	got := d.get(task)
	if lives < 4 || got.NextAt.Sub(d.clock.now()) > time.Minute || got.Counts.Skipped > 100 || there > 100 {
		t.Errorf("%d lives, %d runs, the next instant is %s at %s, %+v", lives, there, got.NextAt, d.clock.now(), got.Counts)
	}
	d.pass(2 * time.Minute)
	if got := d.get(task); got.Counts.Started+got.Counts.Skipped < 3 || got.NextAt.Sub(d.clock.now()) > time.Minute {
		t.Errorf("the task is %+v", got)
	}
}
