package scheduler_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/agents/scheduler"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// clockChildren marks a child process in its environment. clockDir is the directory of its
// store, clockPostgres the address of one on PostgreSQL. clockAt is the initial time of its
// clock, in seconds since 1970. clockKill selects a clock that is right; its value is the
// number of clock readings, counted from when the clock has been right long enough to be
// trusted, after which the child kills itself.
const (
	clockChildren = "STOA_RUNNER_CLOCK"
	clockDir      = "STOA_RUNNER_CLOCK_DIR"
	clockPostgres = "STOA_RUNNER_CLOCK_POSTGRES"
	clockAt       = "STOA_RUNNER_CLOCK_AT"
	clockKill     = "STOA_RUNNER_CLOCK_KILL"
)

// clockStep is the advance of a child's clock with each pass.
const clockStep = 10 * time.Second

// clockChild is a process that schedules until it is killed. Its clock advances with its
// passes, and is also set forward and back. It prints "ready", then "pass" after each pass.
func clockChild() int {
	h, err := sessiontest.Open(store.Config{Dir: os.Getenv(clockDir), PostgresURL: os.Getenv(clockPostgres)}, sessiontest.Script(nil))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	at, _ := strconv.ParseInt(os.Getenv(clockAt), 10, 64)
	killAt, _ := strconv.ParseInt(os.Getenv(clockKill), 10, 64)
	var passes, looks atomic.Int64
	r := h.Service(func(c *sessiontest.Config) { c.Limits.Queued = 1_000_000 })
	s := sessiontest.NewScheduler(r, scheduler.Config{Now: func() time.Time {
		passed := time.Duration(passes.Load()) * clockStep
		if killAt > 0 {
			if passed >= 5*time.Minute && looks.Add(1) == killAt {
				killSelf()
			}
			return time.Unix(at, 0).Add(passed)
		}
		wrong := time.Duration(0)
		switch (passed / (3 * time.Minute)) % 4 {
		case 1:
			wrong = -2 * time.Hour
		case 3:
			wrong = 40 * time.Minute
		}
		return time.Unix(at, 0).Add(passed + wrong)
	}})
	fmt.Println("ready")
	for {
		if _, _, err := s.Tick(context.Background()); err != nil {
			fmt.Println(err)
			return 1
		}
		passes.Add(1)
		fmt.Println("pass")
	}
}

// killSelf ends this process like a loss of power.
func killSelf() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // the signal is on its way
}

// The clock was 30 days ahead. Processes are killed between any two transactions of the
// correction. In the end every task follows the clock, and every session belongs to one
// instant.
func TestKilledWhileTasksAreTakenBack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	home := storetest.New(t)
	h, err := sessiontest.Open(home.Config, sessiontest.Script(nil))
	if err != nil {
		t.Fatal(err)
	}
	h.T, h.Account = t, storetest.Account(t, h.Store, stoa.Credit)
	d := newDesk(h, "2026-03-01T08:00:00Z")
	for range 2 {
		d.policies(minutely)
	}
	d.pass(3 * time.Minute)
	d.clock.add(30 * 24 * time.Hour)
	d.tick()
	d.pass(time.Minute)
	d.clock.add(-30*24*time.Hour - time.Minute)
	seen := witness{}
	seen.look(d)
	account := h.Account
	h.Close()
	at, lives := d.clock.now(), 0
	for died := true; died; {
		lives++
		const most = 32 // the first line says that it is ready
		home.Expire()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), clockChildren+"=yes", clockDir+"="+home.Config.Dir, clockPostgres+"="+home.Config.PostgresURL, clockAt+"="+fmt.Sprint(at.Unix()), clockKill+"="+fmt.Sprint(lives))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		passes := -1 // the first line says that it is ready
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if passes++; passes == most {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		died = passes < most
		at = at.Add(time.Duration(passes+1) * clockStep)

		if h, err = sessiontest.Open(home.Config, sessiontest.Script(nil)); err != nil {
			t.Fatal(err)
		}
		h.T, h.Account = t, account
		d.Fixture = h
		seen.look(d)
		if !died {
			d.r = h.Service(func(c *sessiontest.Config) { c.Limits.Queued = 1_000_000 })
			d.clock.set(at)
			d.restart()
			d.tick()
			seen.look(d)
			d.counted()
			ahead := 0
			d.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Get(ctx, `SELECT COUNT(*) FROM tasks WHERE cursor > $1 OR next_at > $2`, []any{at.UnixMicro(), at.Add(time.Minute).UnixMicro()}, &ahead)
				return err
			})
			if ahead > 0 {
				t.Errorf("%d tasks are ahead after %d lives", ahead, lives)
			}
			var sessions int
			d.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Get(ctx, `SELECT COUNT(*) FROM sessions`, nil, &sessions)
				return err
			})
			if sessions != len(seen) {
				t.Errorf("%d sessions of %d instants", sessions, len(seen))
			}
		}
		h.Close()
	}
	if lives < 5 {
		t.Errorf("only %d lives", lives)
	}
	t.Logf("%d lives, %d instants have run", lives, len(seen))
}

// Processes are killed at random moments while their clocks jump. In the end
// every instant has exactly one line, every run exactly one session, and every
// session exactly one run.
func TestKilledAtAnyMomentEveryInstantHappensOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	home := storetest.New(t)
	h, err := sessiontest.Open(home.Config, sessiontest.Script(nil))
	if err != nil {
		t.Fatal(err)
	}
	h.T, h.Account = t, storetest.Account(t, h.Store, stoa.Credit)
	begin := instant("2026-03-29T00:00:00Z") // clocks change in Berlin an hour later
	d := newDesk(h, "2026-03-29T00:00:00Z")
	var tasks []stoa.ScheduledTask
	for i := range 12 {
		tasks = append(tasks, d.task(func(t *stoa.ScheduledTask) {
			t.Schedule = stoa.Schedule{Type: stoa.ScheduleCron, Expression: "*/3 * * * *", Timezone: "Europe/Berlin"}
			t.MissedPolicy = []string{stoa.MissedRunAll, stoa.MissedRunLatest, stoa.MissedSkip}[i%3]
			t.OverlapPolicy, t.CatchUpWindow = stoa.OverlapAllow, 24*time.Hour
		}))
	}
	account := h.Account
	h.Close()
	at := begin
	const lives = 15
	for range lives {
		life := 5 + rand.IntN(80) // passes before the kill
		home.Expire()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), clockChildren+"=yes", clockDir+"="+home.Config.Dir, clockPostgres+"="+home.Config.PostgresURL, clockAt+"="+fmt.Sprint(at.Unix()))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		passes := -1 // the first line says that it is ready
		lines := bufio.NewScanner(out)
		for lines.Scan() { // its output before the kill is read too
			if line := lines.Text(); passes < 0 && line != "ready" || passes >= 0 && line != "pass" && !strings.HasPrefix("pass", line) {
				t.Fatalf("the child said %q", line)
			}
			if passes++; passes == life {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		if passes < life {
			t.Fatalf("the child ended by itself after %d passes", passes)
		}
		at = at.Add(time.Duration(passes+1) * clockStep)
	}
	if h, err = sessiontest.Open(home.Config, sessiontest.Script(nil)); err != nil {
		t.Fatal(err)
	}
	h.T, h.Account = t, account
	defer h.Close()
	d.Fixture, d.r = h, h.Service(func(c *sessiontest.Config) { c.Limits.Queued = 1_000_000 })
	d.clock.set(at.Add(2 * time.Hour).Truncate(time.Hour)) // later than any child's clock
	d.s = sessiontest.NewScheduler(d.r, scheduler.Config{Now: d.clock.now})
	d.tick()
	var sessions, orphans, runs int
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		for query, into := range map[string]*int{
			`SELECT COUNT(*) FROM sessions`: &sessions,
			`SELECT COUNT(*) FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM task_runs r WHERE r.id = s.trigger_id AND r.session_id = s.id)`: &orphans,
			`SELECT COUNT(DISTINCT session_id) FROM task_runs WHERE session_id <> ''`:                                                        &runs,
		} {
			if _, err := tx.Get(ctx, query, nil, into); err != nil {
				return err
			}
		}
		return nil
	})
	if sessions != runs || orphans != 0 || sessions == 0 {
		t.Errorf("%d sessions, %d runs with one, %d sessions without a run", sessions, runs, orphans)
	}
	for _, task := range tasks {
		want := begin.Add(3 * time.Minute)
		rows := d.runs(task)
		for _, r := range rows {
			if !r.ScheduledFor.Equal(want) || r.Instants != 1 || (r.SessionID == "") != (r.Status == stoa.RunSkipped) {
				t.Fatalf("a run is %+v, want one at %s", r, want)
			}
			want = want.Add(3 * time.Minute)
			if task.MissedPolicy == stoa.MissedRunAll && r.SessionID == "" {
				t.Errorf("%s did not run: %s", r.ScheduledFor, r.SkipReason)
			}
		}
		if !want.After(d.clock.now()) || !d.get(task).NextAt.Equal(want) {
			t.Errorf("the last of %d runs was before %s; next is %s", len(rows), want, d.get(task).NextAt)
		}
	}
	t.Logf("%d kills, %d instants, %d sessions", lives, len(tasks)*int(d.clock.now().Sub(begin)/(3*time.Minute)), sessions)
}

// In a bubble only the timer wakes the scheduler.
func TestTheTimerWakesForTheNextInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
			sessiontest.Say(yield, "done")
		}))
		d := &desk{Fixture: h, r: h.Service(), agent: h.Agent()}
		d.s = sessiontest.NewScheduler(d.r, scheduler.Config{})
		sessiontest.Run(t, d.r)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.s.Run(ctx) }()
		defer func() { stop(); <-ended }()
		task := d.task(func(t *stoa.ScheduledTask) {
			t.Schedule = stoa.Schedule{Type: stoa.ScheduleInterval, Every: 7 * time.Minute}
		})
		<-time.After(71 * time.Minute)
		synctest.Wait()
		runs := d.runs(task)
		if len(runs) != 10 {
			t.Fatalf("%d runs in 71 minutes", len(runs))
		}
		for _, r := range runs {
			if r.Status != "completed" || r.Delay > 10*time.Millisecond {
				t.Errorf("a run is %+v", r)
			}
		}
		if got := d.get(task); got.Counts.Completed != 10 {
			t.Errorf("the counts are %+v", got.Counts)
		}
	})
}
