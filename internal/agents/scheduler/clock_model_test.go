package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stoa/internal/agents/scheduler"
	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// fewChecks limits the number of checks of a property unless -rapid.checks sets it.
func fewChecks(checks string) {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		flag.Set("rapid.checks", checks)
	}
}

// The clock is set at random, processes die at random transactions, tasks are paused, resumed
// and changed. In all cases, no instant has two runs; and when the clock has been right for a
// while, each instant has one, if its task was planned by then.
func TestRandomClocksRunNothingTwice(t *testing.T) {
	t.Parallel()
	fewChecks("6")
	h := sessiontest.Build(t, storetest.New(t), nil)
	rapid.Check(t, func(rt *rapid.T) {
		d := newDesk(h, "2026-03-01T08:00:00Z")
		m := &clockModel{desk: d, seen: witness{}, truth: d.clock.now(), keep: rapid.SampledFrom([]int{60, 300, 10_000}).Draw(rt, "keep")}
		m.restart()
		for _, s := range []stoa.Schedule{
			{Type: stoa.ScheduleInterval, Every: time.Minute},
			{Type: stoa.ScheduleCron, Expression: "*/7 * * * *", Timezone: "Europe/Berlin"},
			{Type: stoa.ScheduleCron, Expression: "0 9 * * *", Timezone: "America/New_York"},
		} {
			m.tasks = append(m.tasks, d.task(func(t *stoa.ScheduledTask) {
				t.Schedule, t.CatchUpWindow = s, 2*time.Hour
				t.MissedPolicy = rapid.SampledFrom([]string{stoa.MissedRunLatest, stoa.MissedSkip, stoa.MissedRunAll}).Draw(rt, "missed")
				t.OverlapPolicy = rapid.SampledFrom([]string{stoa.OverlapSkip, stoa.OverlapQueue, stoa.OverlapAllow}).Draw(rt, "overlap")
			}))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"steady": func(rt *rapid.T) { m.steps(rt, rapid.IntRange(1, 15).Draw(rt, "minutes"), time.Minute) },
			"away": func(rt *rapid.T) {
				m.truth = m.truth.Add(time.Duration(rapid.IntRange(1, 200).Draw(rt, "minutes")) * time.Minute)
				m.restart()
				m.steps(rt, 1, 10*time.Second)
			},
			"wrong": func(rt *rapid.T) {
				m.wrong = rapid.SampledFrom([]time.Duration{0, 0, time.Hour, 3 * time.Hour, -2 * time.Hour, -20 * time.Minute, 4 * 24 * time.Hour, 400 * 24 * time.Hour}).Draw(rt, "by")
				m.steps(rt, 1, 10*time.Second)
			},
			"die": func(rt *rapid.T) {
				m.dieAt = rapid.IntRange(1, 12).Draw(rt, "at look")
				m.steps(rt, 2, time.Minute)
				m.restart()
			},
			"end": func(*rapid.T) { d.drain() },
			"pause": func(rt *rapid.T) {
				m.change(rt, rapid.SampledFrom(m.tasks).Draw(rt, "task"), func(t *stoa.ScheduledTask) { t.Enabled = !t.Enabled })
			},
			"reschedule": func(rt *rapid.T) {
				expression := rapid.SampledFrom([]string{"*/3 * * * *", "*/7 * * * *", "30 * * * *"}).Draw(rt, "expression")
				m.change(rt, rapid.SampledFrom(m.tasks).Draw(rt, "task"), func(t *stoa.ScheduledTask) {
					t.Schedule = stoa.Schedule{Type: stoa.ScheduleCron, Expression: expression, Timezone: "UTC"}
				})
			},
		})
		m.wrong = 0
		m.restart()
		m.steps(rt, 7, time.Minute)
		d.drain()
		from := d.clock.now()
		m.steps(rt, 40, 30*time.Second)
		m.right(rt, from)
		if err := d.r.DeleteAgent(context.Background(), h.Account.ID, d.agent.ID); err != nil {
			rt.Fatal(err)
		}
		d.tick() // which removes its tasks
	})
}

// A clockModel keeps the true time, the error of the clock, and the runs.
type clockModel struct {
	*desk
	seen  witness
	tasks []stoa.ScheduledTask
	truth time.Time
	wrong time.Duration
	keep  int
	dieAt int // the number of the clock reading at which the process dies; 0 means never
	die   func()
}

func (m *clockModel) restart() {
	m.dieAt = 0
	m.desk.restart(func(c *scheduler.Config) {
		c.Keep = m.keep
		c.Now = func() time.Time {
			if m.dieAt--; m.dieAt == 0 {
				m.die()
			}
			return m.clock.now()
		}
	})
}

// steps advances the time.
func (m *clockModel) steps(rt *rapid.T, n int, step time.Duration) {
	for range n {
		m.truth = m.truth.Add(step)
		m.clock.set(m.truth.Add(m.wrong))
		ctx, die := context.WithCancel(context.Background())
		m.die = die
		_, _, err := m.s.Tick(ctx)
		die()
		if err != nil && !errors.Is(err, context.Canceled) {
			rt.Fatal(err)
		}
		m.seen.look(m.desk)
	}
}

// change edits a task; an error that it is still catching up is expected.
func (m *clockModel) change(rt *rapid.T, t stoa.ScheduledTask, change func(*stoa.ScheduledTask)) {
	m.clock.set(m.truth.Add(m.wrong))
	err := m.Store.Write(context.Background(), func(tx *store.Tx) error {
		_, err := m.s.Edit(context.Background(), tx, t.AccountID, t.AgentID, t.ID, nil, func(t *stoa.ScheduledTask) error {
			change(t)
			return nil
		})
		return err
	})
	if err != nil && stoa.CodeOf(err) != stoa.CodeOverloaded {
		rt.Fatal(err)
	}
	m.seen.look(m.desk)
}

// right fails if a task has not followed the clock, which is right, since the given moment.
func (m *clockModel) right(rt *rapid.T, from time.Time) {
	now := m.clock.now()
	for _, task := range m.tasks {
		task = m.get(task)
		if !task.Enabled {
			continue
		}
		if task.PlannedAt.After(from) || task.TrimmedAt.After(from) {
			if !task.NextAt.After(from) {
				rt.Fatalf("a task that was planned at %s and trimmed at %s is next at %s", task.PlannedAt, task.TrimmedAt, task.NextAt)
			}
			continue
		}
		if !task.NextAt.After(now) {
			rt.Fatalf("at %s a task is next at %s", now, task.NextAt)
		}
		what, err := schedule.New(task.Schedule, schedule.Window{Anchor: task.Anchor})
		if err != nil {
			rt.Fatal(err)
		}
		for at := range what.After(from) {
			if at.After(now) {
				break
			}
			ran := m.seen[task.ID+" "+at.Format(time.RFC3339)] != ""
			if got := m.at(task, at.Format(time.RFC3339)); !ran && !strings.Contains(got, "queued") && got != "schedule skipped overlap" && got != "schedule skipped queue_full" {
				rt.Fatalf("%+v at %s: %q", task, at, got)
			}
		}
	}
}
