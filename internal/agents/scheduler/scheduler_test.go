package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/scheduler"
	"stoa/internal/agents/session"
	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// hands is a clock that a test sets.
type hands struct {
	mu sync.Mutex
	at time.Time
}

func (h *hands) now() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.at }

func (h *hands) set(t time.Time) { h.mu.Lock(); defer h.mu.Unlock(); h.at = t }

func (h *hands) add(d time.Duration) { h.set(h.now().Add(d)) }

// A desk is a scheduler with its own clock.
type desk struct {
	*sessiontest.Fixture
	r     *sessiontest.Service
	s     *scheduler.Scheduler
	clock *hands
	agent stoa.Agent
}

func newDesk(h *sessiontest.Fixture, from string, change ...func(*sessiontest.Config)) *desk {
	h.T.Helper()
	d := &desk{Fixture: h, clock: &hands{at: instant(from)}, agent: h.Agent()}
	d.r = h.Service(append(change, func(c *sessiontest.Config) { c.Limits.Queued = 1_000_000 })...)
	d.s = sessiontest.NewScheduler(d.r, scheduler.Config{Now: d.clock.now})
	return d
}

func instant(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func minutely(t *stoa.ScheduledTask) {
	t.Schedule = stoa.Schedule{Type: stoa.ScheduleInterval, Every: time.Minute}
}

// task adds a task that runs at nine every day.
func (d *desk) task(change ...func(*stoa.ScheduledTask)) stoa.ScheduledTask {
	d.T.Helper()
	t := stoa.ScheduledTask{
		AgentID: d.agent.ID, Name: "report", Message: "Write the report.", Enabled: true,
		Schedule:      stoa.Schedule{Type: stoa.ScheduleCron, Expression: "0 9 * * *", Timezone: "UTC"},
		SessionPolicy: stoa.SessionNew, MissedPolicy: stoa.MissedRunLatest, OverlapPolicy: stoa.OverlapSkip,
		CatchUpWindow: time.Hour, PauseAfter: 5,
	}
	for _, fn := range change {
		fn(&t)
	}
	d.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		t, err = d.s.Create(ctx, tx, d.Caller(), t)
		return err
	})
	return t
}

func (d *desk) tick() (next time.Time) {
	d.T.Helper()
	next, _, err := d.s.Tick(context.Background())
	if err != nil {
		d.T.Fatal(err)
	}
	return next
}

func (d *desk) get(t stoa.ScheduledTask) stoa.ScheduledTask {
	d.T.Helper()
	d.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		t, err = tx.Work().Task(ctx, t.AccountID, t.AgentID, t.ID)
		return err
	})
	return t
}

// runs returns all runs of a task, oldest first.
func (d *desk) runs(t stoa.ScheduledTask) []stoa.TaskRun {
	d.T.Helper()
	var all []stoa.TaskRun
	for more := true; more; {
		d.Write(func(ctx context.Context, tx *store.Tx) error {
			p := store.Page{Limit: 100, Asc: true}
			if n := len(all); n > 0 {
				p.After = store.Cursor{At: all[n-1].ScheduledFor, ID: all[n-1].ID}
			}
			list, another, err := tx.Work().TaskRuns(ctx, t.AccountID, t.ID, p)
			all, more = append(all, list...), another
			return err
		})
	}
	return all
}

// lines describes the runs in words.
func (d *desk) lines(t stoa.ScheduledTask) []string {
	var out []string
	for _, r := range d.runs(t) {
		line := r.ScheduledFor.Format("01-02 15:04") + " " + r.Trigger + " " + r.Status
		if r.SkipReason != "" {
			line += " " + r.SkipReason
		}
		if r.Waiting != "" {
			line += " (" + string(r.Waiting) + ")"
		}
		if r.Instants > 1 {
			line += fmt.Sprintf(" x%d to %s", r.Instants, r.Through.Format("01-02 15:04"))
		}
		out = append(out, line)
	}
	return out
}

func (d *desk) want(t stoa.ScheduledTask, lines ...string) {
	d.T.Helper()
	if diff := cmp.Diff(lines, d.lines(t)); diff != "" {
		d.T.Fatalf("the runs (-want +got):\n%s", diff)
	}
}

// end ends the sessions of a task that have not stopped.
func (d *desk) end(t stoa.ScheduledTask, status stoa.SessionStatus) {
	d.T.Helper()
	for _, r := range d.runs(t) {
		if r.Status != "queued" || r.SessionID == "" {
			continue
		}
		if status == stoa.SessionCancelled {
			if _, err := d.r.Cancel(context.Background(), d.Caller(), t.AgentID, r.SessionID); err != nil {
				d.T.Fatal(err)
			}
		}
	}
	d.tick()
}

func (d *desk) sessions(t stoa.ScheduledTask) []stoa.Session {
	d.T.Helper()
	list, _, err := d.r.List(context.Background(), t.AccountID, store.SessionFilter{AgentID: t.AgentID, TriggerType: "schedule"}, store.Page{Limit: 100, Asc: true})
	if err != nil {
		d.T.Fatal(err)
	}
	return list
}

func TestAnInstantStartsASession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		d := newDesk(sessiontest.Build(t, home, nil), "2026-03-01T08:00:00Z")
		task := d.task(func(t *stoa.ScheduledTask) { t.MaxCredits = 12345 })
		if next := d.tick(); !next.Equal(instant("2026-03-01T09:00:00Z")) || !task.NextAt.Equal(next) {
			t.Fatalf("the next instant is %s, the task's %s", next, task.NextAt)
		}
		d.clock.set(instant("2026-03-01T08:59:59Z"))
		d.tick()
		d.want(task)
		d.clock.set(instant("2026-03-01T09:00:02Z"))
		if next := d.tick(); !next.Equal(instant("2026-03-02T09:00:00Z")) {
			t.Fatalf("the next instant is %s", next)
		}
		d.tick()
		d.want(task, "03-01 09:00 schedule queued")
		run, session := d.runs(task)[0], d.sessions(task)[0]
		if run.SessionID != session.ID || session.Trigger != (stoa.Trigger{Type: "schedule", ID: run.ID}) || session.Mode != stoa.ModeOnce ||
			session.Limits.MaxCredits != 12345 || session.Title != "report" || run.Delay != 2*time.Second {
			t.Errorf("the run is %+v, its session %+v", run, session)
		}
		// The outcome of its turn is the outcome of the run.
		sessiontest.Run(t, d.r)
		d.Until(d.r, session, stoa.SessionCompleted)
		d.want(task, "03-01 09:00 schedule completed")
		d.tick()
		got := d.get(task)
		if got.Counts != (stoa.TaskCounts{Started: 1, Scheduled: 1, Completed: 1}) || got.LastRun == nil || got.LastRun.Status != "completed" ||
			got.LastRun.StartedAt.IsZero() || got.LastRun.FinishedAt.IsZero() {
			t.Errorf("the task is %+v, its last run %+v", got, got.LastRun)
		}
	})
}

// TestEveryPolicyAgainstAList sets the clock forward and back through a year and compares the
// outcome of each instant with a plain list.
func TestEveryPolicyAgainstAList(t *testing.T) {
	for _, zone := range []string{"America/New_York", "Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Tehran"} {
		for _, policy := range []string{stoa.MissedRunLatest, stoa.MissedSkip, stoa.MissedRunAll} {
			t.Run(zone+" "+policy, func(t *testing.T) {
				t.Parallel()
				if zone != "Africa/Cairo" {
					storetest.OnlySQLite(t) // one zone is enough: the store is independent of zones
				}
				from, until := instant("2026-01-01T00:00:00Z"), instant("2027-01-01T00:00:00Z")
				what := stoa.Schedule{Type: stoa.ScheduleCron, Expression: "15 0,2 * * *", Timezone: zone}
				sched, err := schedule.New(what, schedule.Window{Through: until})
				if err != nil {
					t.Fatal(err)
				}
				list := slices.Collect(sched.After(from))

				d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-01-01T00:00:00Z")
				window := 30 * time.Hour
				task := d.task(func(t *stoa.ScheduledTask) {
					t.Schedule, t.MissedPolicy, t.CatchUpWindow, t.OverlapPolicy, t.EndAt = what, policy, window, stoa.OverlapAllow, until
				})
				random := rand.New(rand.NewPCG(1, uint64(len(zone)+len(policy))))
				want := map[int64]string{}
				done := from
				for now := from; now.Before(until); {
					switch random.IntN(10) {
					case 0:
						now = now.Add(-time.Duration(random.IntN(72)) * time.Hour) // back
					case 1:
						now = now.Add(time.Duration(random.IntN(240)) * time.Hour) // away, or forward
					default:
						now = now.Add(time.Duration(random.IntN(12*3600)) * time.Second)
					}
					if i := slices.IndexFunc(list, func(at time.Time) bool { return at.After(now) }); i >= 0 && random.IntN(2) == 0 {
						now = list[i].Add(time.Duration(random.IntN(59)) * time.Second) // as the timer does
					}
					d.clock.set(now)
					d.tick()
					due := slices.DeleteFunc(slices.Clone(list), func(at time.Time) bool { return !at.After(done) || at.After(now) })
					for i, at := range due {
						newest, late := i == len(due)-1, now.Sub(at)
						switch {
						case newest && late <= time.Minute:
							want[at.Unix()] = "schedule"
						case policy == "skip", policy == "run_latest" && !newest:
							want[at.Unix()] = "missed"
						case late > window:
							want[at.Unix()] = "catch_up_window"
						default:
							want[at.Unix()] = "catch_up"
						}
						done = at
					}
				}
				got := map[int64]string{}
				for _, r := range d.runs(task) {
					text := r.Trigger
					if r.Status == stoa.RunSkipped {
						text = r.SkipReason
					}
					if _, twice := got[r.ScheduledFor.Unix()]; twice || r.Instants != 1 {
						t.Errorf("%s happened twice", r.ScheduledFor)
					}
					got[r.ScheduledFor.Unix()] = text
				}
				if diff := cmp.Diff(want, got); diff != "" || len(got) < 700 {
					t.Errorf("%d instants: %s", len(got), diff)
				}
				counts := d.get(task).Counts
				if int(counts.Started+counts.Skipped) != len(got) {
					t.Errorf("the counts are %+v", counts)
				}
			})
		}
	}
}

func TestOverlappingRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy, session string
		want, after     []string
	}{
		{
			stoa.OverlapSkip, stoa.SessionNew,
			[]string{"03-01 08:01 schedule queued", "03-01 08:02 schedule skipped overlap", "03-01 08:03 schedule skipped overlap"},
			[]string{"03-01 08:01 schedule cancelled", "03-01 08:02 schedule skipped overlap", "03-01 08:03 schedule skipped overlap"},
		},
		{
			stoa.OverlapQueue, stoa.SessionNew,
			[]string{"03-01 08:01 schedule queued", "03-01 08:02 schedule queued (overlap)", "03-01 08:03 schedule queued (overlap)"},
			[]string{"03-01 08:01 schedule cancelled", "03-01 08:02 schedule queued", "03-01 08:03 schedule queued (overlap)"},
		},
		{
			stoa.OverlapAllow, stoa.SessionNew,
			[]string{"03-01 08:01 schedule queued", "03-01 08:02 schedule queued", "03-01 08:03 schedule queued"},
			[]string{"03-01 08:01 schedule cancelled", "03-01 08:02 schedule cancelled", "03-01 08:03 schedule cancelled"},
		},
		{
			stoa.OverlapAllow, stoa.SessionReuse,
			[]string{"03-01 08:01 schedule queued", "03-01 08:02 schedule queued (overlap)", "03-01 08:03 schedule queued (overlap)"},
			[]string{"03-01 08:01 schedule cancelled", "03-01 08:02 schedule queued", "03-01 08:03 schedule queued (overlap)"},
		},
	} {
		t.Run(tc.policy+" "+tc.session, func(t *testing.T) {
			d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
			task := d.task(minutely, func(t *stoa.ScheduledTask) { t.OverlapPolicy, t.SessionPolicy = tc.policy, tc.session })
			for range 3 {
				d.clock.add(time.Minute)
				d.tick()
			}
			d.want(task, tc.want...)
			d.end(task, stoa.SessionCancelled)
			d.want(task, tc.after...)
		})
	}
}

func TestASessionIsReused(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task := d.task(func(t *stoa.ScheduledTask) { t.SessionPolicy = stoa.SessionReuse })
	stop := sessiontest.Run(t, d.r)
	for day := range 3 {
		d.clock.set(instant("2026-03-01T09:00:00Z").AddDate(0, 0, day))
		d.tick()
		sessions := d.sessions(task)
		if len(sessions) != 1 || sessions[0].Turn.Number != int64(day+1) || sessions[0].Mode != stoa.ModeChat {
			t.Fatalf("day %d: %d sessions, %+v", day, len(sessions), sessions)
		}
		d.Until(d.r, sessions[0], stoa.SessionCompleted)
	}
	d.want(task, "03-01 09:00 schedule completed", "03-02 09:00 schedule completed", "03-03 09:00 schedule completed")
	stop()
	// Its user is working in it: that counts as an overlap, and ends.
	reused := d.sessions(task)[0]
	if _, err := d.r.Send(context.Background(), d.Caller(), d.agent.ID, reused.ID, session.SendRequest{Message: "And now?"}); err != nil {
		t.Fatal(err)
	}
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := d.s.Edit(ctx, tx, task.AccountID, task.AgentID, task.ID, nil, func(t *stoa.ScheduledTask) error {
			t.OverlapPolicy = stoa.OverlapQueue
			return nil
		})
		return err
	})
	d.clock.set(instant("2026-03-04T09:00:00Z"))
	d.tick()
	if got := d.lines(task)[3]; got != "03-04 09:00 schedule queued (overlap)" {
		t.Fatal(got)
	}
	if _, err := d.r.Cancel(context.Background(), d.Caller(), d.agent.ID, reused.ID); err != nil {
		t.Fatal(err)
	}
	d.tick()
	if got := d.lines(task)[3]; got != "03-04 09:00 schedule queued" {
		t.Fatal(got)
	}
	// It is deleted: the next run begins another.
	if err := d.r.Sessions.Delete(context.Background(), d.Caller(), d.agent.ID, reused.ID); err != nil {
		t.Fatal(err)
	}
	d.clock.set(instant("2026-03-05T09:00:00Z"))
	d.tick()
	if list := d.sessions(task); len(list) != 1 || list[0].ID == reused.ID {
		t.Errorf("the sessions are %+v", list)
	}
	if got := d.lines(task); got[3] != "03-04 09:00 schedule cancelled" || got[4] != "03-05 09:00 schedule queued" {
		t.Error(got)
	}
}

func TestFailuresPauseATask(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
		yield(nil, stoa.Errorf(stoa.CodeInvalidPrompt, "no"))
	})), "2026-03-01T08:00:00Z")
	task := d.task(minutely, func(t *stoa.ScheduledTask) { t.PauseAfter = 2 })
	sessiontest.Run(t, d.r)
	for range 3 {
		d.clock.add(time.Minute)
		d.tick()
		for _, s := range d.sessions(task) {
			d.Until(d.r, s, stoa.SessionFailed)
		}
		d.tick()
	}
	d.want(task, "03-01 08:01 schedule failed", "03-01 08:02 schedule failed")
	got := d.get(task)
	if got.Enabled || got.PauseReason != "failures" || !got.NextAt.IsZero() || got.Counts.Failed != 2 {
		t.Errorf("the task is %+v", got)
	}
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := d.s.Resume(ctx, tx, task.AccountID, task.AgentID, task.ID)
		return err
	})
	got = d.get(task)
	if !got.Enabled || got.Failures != 0 || got.PauseReason != "" || !got.NextAt.Equal(instant("2026-03-01T08:04:00Z")) {
		t.Errorf("the resumed task is %+v", got)
	}
	d.want(task, "03-01 08:01 schedule failed", "03-01 08:02 schedule failed", "03-01 08:03 schedule skipped paused")
}

func TestPausedTasksRecordWhatPassed(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task := d.task(func(t *stoa.ScheduledTask) { t.OverlapPolicy = stoa.OverlapQueue }, minutely)
	d.clock.add(time.Minute)
	d.tick()
	d.clock.add(time.Minute)
	verb := func(fn func(context.Context, *store.Tx, string, string, string) (stoa.ScheduledTask, error)) (out stoa.ScheduledTask) {
		d.Write(func(ctx context.Context, tx *store.Tx) (err error) {
			out, err = fn(ctx, tx, task.AccountID, task.AgentID, task.ID)
			return err
		})
		return out
	}
	// Due instants are processed first, and waiting runs are skipped.
	if got := verb(d.s.Pause); got.Enabled || got.PauseReason != "user" || len(d.s.Upcoming(got, 5)) != 0 {
		t.Errorf("the paused task is %+v", got)
	}
	d.want(task, "03-01 08:01 schedule queued", "03-01 08:02 schedule skipped paused")
	d.clock.add(3*time.Minute + 30*time.Second)
	d.tick()
	var run stoa.TaskRun
	d.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		run, err = d.s.RunNow(ctx, tx, task.AccountID, task.AgentID, task.ID)
		return err
	})
	if run.Trigger != "manual" || run.SessionID == "" || run.Status != "queued" {
		t.Errorf("the run is %+v", run)
	}
	got := verb(d.s.Resume)
	verb(d.s.Resume)
	d.want(task, "03-01 08:01 schedule queued", "03-01 08:02 schedule skipped paused", "03-01 08:03 schedule skipped paused",
		"03-01 08:04 schedule skipped paused", "03-01 08:05 schedule skipped paused", "03-01 08:05 manual queued")
	if up := d.s.Upcoming(got, 5); len(up) != 5 || !up[0].Equal(instant("2026-03-01T08:06:00Z")) || !up[4].Equal(instant("2026-03-01T08:10:00Z")) {
		t.Errorf("to come: %v", up)
	}
	// Nothing happens twice when the clock goes back and the schedule changes.
	d.clock.set(instant("2026-03-01T08:00:30Z"))
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := d.s.Edit(ctx, tx, task.AccountID, task.AgentID, task.ID, nil, func(t *stoa.ScheduledTask) error {
			t.Schedule = stoa.Schedule{Type: stoa.ScheduleCron, Expression: "* * * * *", Timezone: "UTC"}
			return nil
		})
		return err
	})
	if got := d.get(task); !got.NextAt.Equal(instant("2026-03-01T08:06:00Z")) {
		t.Errorf("the next instant is %s", got.NextAt)
	}
}

func TestATaskEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	limited := d.task(minutely, func(t *stoa.ScheduledTask) { t.MaxRuns, t.OverlapPolicy = 2, stoa.OverlapAllow })
	bounded := d.task(minutely, func(t *stoa.ScheduledTask) {
		t.EndAt, t.OverlapPolicy = d.clock.now().Add(3*time.Minute), stoa.OverlapAllow
	})
	once := d.task(func(t *stoa.ScheduledTask) {
		t.Schedule = stoa.Schedule{Type: stoa.ScheduleOnce, RunAt: d.clock.now().Add(time.Hour)}
	})
	if up := d.s.Upcoming(limited, 5); len(up) != 2 {
		t.Errorf("to come: %v", up)
	}
	for range 62 {
		d.clock.add(time.Minute)
		d.tick()
	}
	d.want(limited, "03-01 08:01 schedule queued", "03-01 08:02 schedule queued")
	d.want(bounded, "03-01 08:01 schedule queued", "03-01 08:02 schedule queued", "03-01 08:03 schedule queued")
	d.want(once, "03-01 09:00 schedule queued")
	for _, task := range []stoa.ScheduledTask{limited, bounded, once} {
		if got := d.get(task); !got.Finished() || !got.NextAt.IsZero() || !got.Enabled {
			t.Errorf("%+v has not finished", got)
		}
	}
	// More runs are allowed: it continues, and does not make up for the rest.
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := d.s.Edit(ctx, tx, limited.AccountID, limited.AgentID, limited.ID, nil, func(t *stoa.ScheduledTask) error { t.MaxRuns = 3; return nil })
		return err
	})
	d.clock.add(time.Minute)
	d.tick()
	d.want(limited, "03-01 08:01 schedule queued", "03-01 08:02 schedule queued", "03-01 09:03 schedule queued")
}

func TestALongAbsenceIsRecordedInFewRows(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task := d.task(minutely)
	d.clock.set(instant("2026-03-31T08:00:00Z"))
	d.tick()
	instants, rows := int64(0), d.runs(task)
	for _, r := range rows {
		instants += r.Instants
	}
	if want := int64(30 * 24 * 60); instants != want || len(rows) > 1100 {
		t.Errorf("%d instants in %d rows, want %d", instants, len(rows), want)
	}
	if got := d.get(task); got.Counts.Skipped != 30*24*60-1 || got.Counts.Started != 1 || !got.NextAt.Equal(instant("2026-03-31T08:01:00Z")) {
		t.Errorf("the task is %+v", got)
	}
	if last := rows[len(rows)-1]; !last.ScheduledFor.Equal(d.clock.now()) || last.Status != "queued" {
		t.Errorf("the last run is %+v", last)
	}
}

func TestRunsWaitForCapacity(t *testing.T) {
	t.Parallel()
	home := storetest.New(t)
	h := sessiontest.Build(t, home, nil)
	d := newDesk(h, "2026-03-01T08:00:00Z")
	d.r = h.Service(func(c *sessiontest.Config) { c.Limits.Queued = 10 })
	d.s = sessiontest.NewScheduler(d.r, scheduler.Config{Now: d.clock.now})
	for range 30 {
		d.task(minutely)
	}
	d.clock.add(time.Minute)
	_, waiting, err := d.s.Tick(context.Background())
	if err != nil || !waiting {
		t.Fatal(waiting, err)
	}
	list, _, err := d.r.List(context.Background(), h.Account.ID, store.SessionFilter{AgentID: d.agent.ID}, store.Page{Limit: 100})
	if most := 9; err != nil || len(list) != most && !(home.Config.PostgresURL != "" && len(list) > most) { // which counts while others write
		t.Fatalf("%d sessions, %v", len(list), err)
	}
	sessiontest.Run(t, d.r)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); d.s.Run(ctx) }()
	defer func() { stop(); <-ended }()
	for completed := 0; completed < 30; {
		completed = 0
		err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			tasks, _, err := tx.Work().Tasks(t.Context(), h.Account.ID, store.TaskFilter{}, store.Page{Limit: 100})
			for _, task := range tasks {
				completed += int(task.Counts.Completed)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

func TestASuspendedAccountStartsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task := d.task()
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		a := d.Account
		a.Suspended = true
		return tx.Books().UpdateAccount(ctx, a)
	})
	d.clock.set(instant("2026-03-01T09:00:00Z"))
	d.tick()
	d.want(task, "03-01 09:00 schedule skipped account_suspended")
}

func TestADeletedAgentStopsItsTasks(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task, other := d.task(minutely, func(t *stoa.ScheduledTask) { t.OverlapPolicy = stoa.OverlapQueue }), d.task(minutely)
	for range 3 {
		d.clock.add(time.Minute)
		d.tick()
	}
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		return d.s.Delete(ctx, tx, other.AccountID, other.AgentID, other.ID)
	})
	if err := d.r.DeleteAgent(context.Background(), task.AccountID, task.AgentID); err != nil {
		t.Fatal(err)
	}
	d.clock.add(time.Hour)
	if next := d.tick(); !next.IsZero() {
		t.Errorf("something is due at %s", next)
	}
	if runs := append(d.runs(task), d.runs(other)...); len(runs) != 0 {
		t.Errorf("%d runs are left", len(runs))
	}
}

func TestWhatATaskMayNotBe(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	now := d.clock.now()
	for name, tc := range map[string]struct {
		change func(*stoa.ScheduledTask)
		code   stoa.Code
		param  string
	}{
		"a wrong expression":          {func(t *stoa.ScheduledTask) { t.Schedule.Expression = "0 25 * * *" }, stoa.CodeInvalidCron, "schedule.expression"},
		"no zone":                     {func(t *stoa.ScheduledTask) { t.Schedule.Timezone = "" }, stoa.CodeInvalidTimezone, "schedule.timezone"},
		"too often":                   {func(t *stoa.ScheduledTask) { minutely(t); t.Schedule.Every = 59 * time.Second }, stoa.CodeInvalidValue, "schedule.everySeconds"},
		"once, in the past":           {func(t *stoa.ScheduledTask) { t.Schedule = stoa.Schedule{Type: "once", RunAt: now} }, stoa.CodeInvalidValue, "schedule.runAt"},
		"an end before the start":     {func(t *stoa.ScheduledTask) { t.StartAt, t.EndAt = now.Add(2), now.Add(1) }, stoa.CodeInvalidValue, "endAt"},
		"an end before the first run": {func(t *stoa.ScheduledTask) { t.EndAt = now.Add(time.Minute) }, stoa.CodeInvalidValue, "endAt"},
		"a start long ago":            {func(t *stoa.ScheduledTask) { minutely(t); t.StartAt = instant("1700-01-01T00:00:00Z") }, stoa.CodeInvalidValue, "startAt"},
		"a start two years ago":       {func(t *stoa.ScheduledTask) { minutely(t); t.StartAt = now.Add(-2 * 366 * 24 * time.Hour) }, stoa.CodeInvalidValue, "startAt"},
		"a start in another age":      {func(t *stoa.ScheduledTask) { t.StartAt = instant("2201-01-01T00:00:00Z") }, stoa.CodeInvalidValue, "startAt"},
		"an end in another age":       {func(t *stoa.ScheduledTask) { t.EndAt = instant("9999-12-31T23:59:59Z") }, stoa.CodeInvalidValue, "endAt"},
		"once, in another age": {func(t *stoa.ScheduledTask) {
			t.Schedule = stoa.Schedule{Type: "once", RunAt: instant("2201-01-01T00:00:00Z")}
		}, stoa.CodeInvalidValue, "schedule.runAt"},
		"no message":               {func(t *stoa.ScheduledTask) { t.Message = "" }, stoa.CodeInvalidValue, "message"},
		"an unknown mode":          {func(t *stoa.ScheduledTask) { t.Mode = "twice" }, stoa.CodeInvalidMode, "mode"},
		"once in a reused session": {func(t *stoa.ScheduledTask) { t.Mode, t.SessionPolicy = "once", "reuse" }, stoa.CodeInvalidValue, "sessionPolicy"},
		"another's agent":          {func(t *stoa.ScheduledTask) { t.AgentID = "agt_x" }, stoa.CodeAgentNotFound, "agentId"},
		"too long a window":        {func(t *stoa.ScheduledTask) { t.CatchUpWindow = 31 * 24 * time.Hour }, stoa.CodeInvalidValue, "catchUpWindowSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			task := stoa.ScheduledTask{
				AgentID: d.agent.ID, Name: "x", Message: "x", Schedule: stoa.Schedule{Type: "cron", Expression: "@daily", Timezone: "UTC"},
				SessionPolicy: "new", MissedPolicy: "skip", OverlapPolicy: "skip",
			}
			tc.change(&task)
			if strings.HasSuffix(name, " age") || strings.HasSuffix(name, " ago") { // a preview says the same
				if _, err := d.s.Preview(task, 5); stoa.CodeOf(err) != tc.code || stoa.AsError(err).Param != tc.param {
					t.Errorf("preview: %v", err)
				}
			}
			err := d.Store.Write(context.Background(), func(tx *store.Tx) error {
				_, err := d.s.Create(context.Background(), tx, d.Caller(), task)
				return err
			})
			if stoa.CodeOf(err) != tc.code || stoa.AsError(err).Param != tc.param {
				t.Errorf("%v", err)
			}
		})
	}
	far := sessiontest.NewScheduler(d.r, scheduler.Config{Now: d.clock.now, Interval: time.Hour, PerAgent: 1})
	for _, expression := range []string{"0,30 9 * * *", "*/30 * * * *"} {
		if _, err := far.Preview(stoa.ScheduledTask{Schedule: stoa.Schedule{Type: "cron", Expression: expression, Timezone: "UTC"}}, 5); stoa.CodeOf(err) != stoa.CodeInvalidCron {
			t.Errorf("%s: %v", expression, err)
		}
	}
	d.task()
	d.s = far
	err := d.Store.Write(context.Background(), func(tx *store.Tx) error {
		_, err := far.Create(context.Background(), tx, d.Caller(), stoa.ScheduledTask{
			AgentID: d.agent.ID, Name: "x", Message: "x", Schedule: stoa.Schedule{Type: "cron", Expression: "@daily", Timezone: "UTC"},
		})
		return err
	})
	if stoa.CodeOf(err) != stoa.CodeTooManyTasks {
		t.Error(err)
	}
}

// A task that cannot be processed is postponed, and does not prevent others from running. An
// instant that already has a row never runs again.
func TestATaskThatFailsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	broken, other := d.task(), d.task()
	d.Write(func(ctx context.Context, tx *store.Tx) error {
		return tx.Work().InsertRuns(ctx, []stoa.TaskRun{{TaskID: broken.ID, AccountID: broken.AccountID, ScheduledFor: instant("2026-03-01T09:00:00Z"), Trigger: "schedule", Status: "skipped", SkipReason: "missed"}})
	})
	d.clock.set(instant("2026-03-01T09:00:00Z"))
	d.tick()
	d.want(broken, "03-01 09:00 schedule skipped missed")
	d.want(other, "03-01 09:00 schedule queued")
	if n := len(d.sessions(other)); n != 1 {
		t.Errorf("%d sessions were made", n)
	}
}

// A run that waits for the approval of a call has not ended either, and continues after the
// decision.
func TestARunThatWaitsForApprovalHasNotEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	d.agent = d.Agent(func(a *stoa.Agent) {
		a.Tools = []stoa.AgentTool{{Type: stoa.ToolClient, Name: "refund", Description: "Refunds.", Parameters: `{"type":"object"}`, Effects: stoa.EffectsOnce, TimeoutSeconds: 60, OnTimeout: stoa.TimeoutTells, Approval: stoa.ApprovalAlways}}
	})
	task := d.task(minutely, func(t *stoa.ScheduledTask) {
		t.AgentID, t.Mode, t.Message = d.agent.ID, stoa.ModeChat, "call: refund {}"
	})
	sessiontest.Run(t, d.r)
	d.clock.add(time.Minute)
	d.tick()
	waiting := d.Until(d.r, d.sessions(task)[0], stoa.SessionWaiting)
	if waiting.Pending.Kind != stoa.InputToolApproval {
		t.Fatalf("it waits for %+v", waiting.Pending)
	}
	d.clock.add(time.Minute)
	d.tick()
	d.want(task, "03-01 08:01 schedule waiting_for_input", "03-01 08:02 schedule skipped overlap")
	caller := d.Caller()
	caller.Key = stoa.Key{ID: "key_a", Scopes: []string{session.ScopeApprovals}}
	if _, err := d.r.Answer(context.Background(), caller, d.agent.ID, waiting.ID, session.AnswerRequest{InputID: waiting.Pending.ID, Decision: "reject"}); err != nil {
		t.Fatal(err)
	}
	d.Until(d.r, waiting, stoa.SessionCompleted)
	d.clock.add(time.Minute)
	d.tick()
	if got := d.lines(task); got[0] != "03-01 08:01 schedule completed" || len(got) != 3 || got[2] == "03-01 08:03 schedule skipped overlap" {
		t.Error(got)
	}
}

// A task whose runs ask their user a question waits for the answers: that is an overlap like
// any other.
func TestARunThatWaitsForItsUserHasNotEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(sessiontest.Build(t, storetest.New(t), nil), "2026-03-01T08:00:00Z")
	task := d.task(minutely, func(t *stoa.ScheduledTask) { t.Mode, t.Message = stoa.ModeChat, "ask: Which one?" })
	sessiontest.Run(t, d.r)
	d.clock.add(time.Minute)
	d.tick()
	waiting := d.Until(d.r, d.sessions(task)[0], stoa.SessionWaiting)
	d.clock.add(time.Minute)
	d.tick()
	d.want(task, "03-01 08:01 schedule waiting_for_input", "03-01 08:02 schedule skipped overlap")
	if _, err := d.r.Answer(context.Background(), d.Caller(), d.agent.ID, waiting.ID, session.AnswerRequest{InputID: waiting.Pending.ID, Answer: "this one"}); err != nil {
		t.Fatal(err)
	}
	d.Until(d.r, waiting, stoa.SessionCompleted)
	d.clock.add(time.Minute)
	d.tick()
	if got := d.lines(task); got[0] != "03-01 08:01 schedule completed" || len(got) != 3 || got[2] == "03-01 08:03 schedule skipped overlap" {
		t.Error(got)
	}
}
