// Package schedule knows when things happen: it reads cron expressions, time
// zones, intervals and single instants, computes the instants that follow, and
// judges which of those that were missed are made up for.
//
// It is pure: it reads no clock, keeps nothing and starts nothing; the time
// zones of the IANA database are compiled in. Start with [New] and
// [Schedule.After]; [Judge] has the policies.
//
// The rule for clocks that are changed: a wall time that does not exist happens
// at the first instant after the gap, one that occurs twice happens once, the
// first time. So instants are always in order, and two of one schedule are
// never less than a minute apart.
package schedule

import (
	"iter"
	"time"

	"stoa/internal/stoa"
)

// A Window bounds the instants of a schedule.
type Window struct {
	From, Through time.Time // both belong to it; zero: no bound
	Anchor        time.Time // of an interval: its first instant, wherever From lies
}

// A Schedule yields instants. It belongs to one goroutine.
type Schedule struct {
	Window
	kind  string
	cron  cron
	clock clock
	every time.Duration
	runAt time.Time
}

// The bounds of an interval.
const (
	MinEvery = time.Minute
	MaxEvery = 366 * 24 * time.Hour
)

// New reads a schedule. It fails with [stoa.CodeInvalidCron], which names the
// field that is wrong, [stoa.CodeInvalidTimezone] or [stoa.CodeInvalidValue].
func New(zones *Zones, s stoa.Schedule, w Window) (*Schedule, error) {
	out := &Schedule{Window: w, kind: s.Type, every: s.Every, runAt: s.RunAt}
	var err error
	switch s.Type {
	case stoa.ScheduleCron:
		if out.cron, err = parseCron(s.Expression); err != nil {
			return nil, err
		}
		if out.clock.zone, err = zones.Load(s.Timezone); err != nil {
			return nil, err
		}
	case stoa.ScheduleInterval:
		if s.Every < MinEvery || s.Every > MaxEvery || s.Every%time.Second != 0 {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "An interval has %d to %d seconds.", MinEvery/time.Second, MaxEvery/time.Second).At("schedule.everySeconds")
		}
	case stoa.ScheduleOnce:
		if s.RunAt.IsZero() {
			return nil, stoa.Errorf(stoa.CodeMissingParameter, "A schedule of type %q needs %q.", s.Type, "runAt").At("schedule.runAt")
		}
	default:
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The type of a schedule is %q, %q or %q.", stoa.ScheduleCron, stoa.ScheduleInterval, stoa.ScheduleOnce).At("schedule.type")
	}
	return out, nil
}

// After yields the instants after that moment, in order.
func (s *Schedule) After(t time.Time) iter.Seq[time.Time] {
	if !s.From.IsZero() && t.Before(s.From) {
		t = s.From.Add(-1)
	}
	var all iter.Seq[time.Time]
	switch s.kind {
	case stoa.ScheduleCron:
		all = s.cronAfter(t)
	case stoa.ScheduleInterval:
		all = s.intervalAfter(t)
	default:
		all = func(yield func(time.Time) bool) {
			if s.runAt.After(t) {
				yield(s.runAt)
			}
		}
	}
	if s.Through.IsZero() {
		return all
	}
	return func(yield func(time.Time) bool) {
		for at := range all {
			if at.After(s.Through) || !yield(at) {
				return
			}
		}
	}
}

// Next gives the first instant after that moment; zero where there is none.
func (s *Schedule) Next(t time.Time) time.Time {
	for at := range s.After(t) {
		return at
	}
	return time.Time{}
}

func (s *Schedule) cronAfter(t time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		// No earlier wall time comes after t: instants are in the order of the wall.
		last := floorDiv(t.UnixNano(), int64(time.Second))
		wall := floorDiv(s.clock.wall(t), 60) * 60
		for {
			next, found := s.cron.nextWall(wall)
			if !found {
				return
			}
			wall = next + 60
			at := s.clock.instant(next)
			if at <= last { // before t, a second time, or in the same gap
				continue
			}
			last = at
			if !yield(time.Unix(at, 0).UTC()) {
				return
			}
		}
	}
}

func (s *Schedule) intervalAfter(t time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		at := s.Anchor
		if behind := t.Sub(at); behind >= 0 {
			at = at.Add((behind/s.every + 1) * s.every)
		}
		for yield(at) {
			at = at.Add(s.every)
		}
	}
}

// A Shown is an instant as people read it.
type Shown struct {
	At    time.Time
	Local time.Time // in the zone of the schedule; UTC where it has none
	Shift string    // gap: the wall time does not exist that day; fold: it occurs twice; or empty
}

// Show tells how an instant of the schedule looks on the wall.
func (s *Schedule) Show(at time.Time) Shown {
	out := Shown{At: at, Local: at.UTC()}
	if s.kind != stoa.ScheduleCron {
		return out
	}
	out.Local = at.In(s.clock.zone)
	wall := s.clock.wall(at)
	if _, shift := s.clock.look(wall); shift == shiftFold {
		out.Shift = shiftFold
	}
	if m := floorDiv(wall, 60) * 60; m != wall {
		out.Shift = shiftGap
	} else if next, found := s.cron.nextWall(m); !found || next != m { // no time of the expression: it was moved here
		out.Shift = shiftGap
	}
	return out
}
