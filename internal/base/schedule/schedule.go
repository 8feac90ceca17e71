// Package schedule computes the instants of schedules: it parses cron expressions, time
// zones, intervals and single instants, returns the instants that follow a moment, and
// decides which missed instants are caught up.
//
// It is pure: it does not read a clock, store data or start anything; the time zones of the
// IANA database are compiled in. Start with [New] and [Schedule.After]; [Judge] implements
// the policies.
//
// Daylight saving: a wall time that does not exist is due at the first instant after the gap, one that
// occurs twice is due the first time only, so that instants are always in order and two of one schedule are never
// less than a minute apart. See docs/decisions/0025-run-each-instant-once-despite-clock-changes.md.
package schedule

import (
	"iter"
	"time"

	"stoa/internal/base/stoa"
)

// A Window bounds the instants of a schedule.
type Window struct {
	From, Through time.Time // inclusive; zero means unbounded
	Anchor        time.Time // first instant of an interval, independent of From
}

// A Schedule computes instants. It is not safe for concurrent use, because it caches a period of its zone.
type Schedule struct {
	Window
	kind  string
	cron  cron
	clock clock
	every time.Duration
	runAt time.Time
}

// The limits of an interval.
const (
	MinEvery = time.Minute
	MaxEvery = 366 * 24 * time.Hour
)

// New parses a schedule. It fails with [stoa.CodeInvalidCron], which names the
// wrong field, [stoa.CodeInvalidTimezone] or [stoa.CodeInvalidValue].
func New(s stoa.Schedule, w Window) (*Schedule, error) {
	out := &Schedule{Window: w, kind: s.Type, every: s.Every, runAt: s.RunAt}
	var err error
	switch s.Type {
	case stoa.ScheduleCron:
		if out.cron, err = parseCron(s.Expression); err != nil {
			return nil, err
		}
		if out.clock.zone, err = stoa.LoadZone(s.Timezone); err != nil {
			return nil, stoa.AsError(err).At("schedule.timezone")
		}
	case stoa.ScheduleInterval:
		if s.Every < MinEvery || s.Every > MaxEvery || s.Every%time.Second != 0 {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "An interval must be %d to %d seconds.", MinEvery/time.Second, MaxEvery/time.Second).At("schedule.everySeconds")
		}
	case stoa.ScheduleOnce:
		if s.RunAt.IsZero() {
			return nil, stoa.Errorf(stoa.CodeMissingParameter, "A schedule of type %q needs %q.", s.Type, "runAt").At("schedule.runAt")
		}
	default:
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The type of a schedule must be %q, %q or %q.", stoa.ScheduleCron, stoa.ScheduleInterval, stoa.ScheduleOnce).At("schedule.type")
	}
	return out, nil
}

// After yields the instants after t, in order, up to the year 9999.
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
	return func(yield func(time.Time) bool) {
		for at := range all {
			if at.After(lastInstant) || !s.Through.IsZero() && at.After(s.Through) {
				return
			}
			if at.After(t) && !yield(at) { // an instant that is not after t would be processed for ever
				return
			}
		}
	}
}

// lastInstant is the last instant that RFC 3339 can represent, and so the last that the API can return.
var lastInstant = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// Next returns the first instant after t; zero if there is none.
func (s *Schedule) Next(t time.Time) time.Time {
	for at := range s.After(t) {
		return at
	}
	return time.Time{}
}

// cronAfter ranges over the instants of the cron expression after t. The range may be endless.
func (s *Schedule) cronAfter(t time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		// No earlier wall time is due after t, because instants have the order of wall times.
		last := t.Unix()
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

// intervalAfter ranges endlessly over anchor + n × every after t. It counts in seconds,
// because a time.Duration is limited to 292 years.
func (s *Schedule) intervalAfter(t time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		every := int64(s.every / time.Second)
		at := s.Anchor
		if n := (t.Unix() - at.Unix()) / every; n > 0 {
			at = time.Unix(at.Unix()+n*every, int64(at.Nanosecond())).UTC()
		}
		if !at.After(t) {
			at = at.Add(s.every)
		}
		for yield(at) {
			at = at.Add(s.every)
		}
	}
}

// A Shown is an instant with its wall time.
type Shown struct {
	At    time.Time
	Local time.Time // wall time in the schedule's zone; UTC if it has none
	Shift string    // gap if the wall time does not exist that day; fold if it occurs twice; may be empty
}

// Show returns the wall time of an instant of the schedule.
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
	} else if next, found := s.cron.nextWall(m); !found || next != m { // not a time of the expression, because it was moved out of a gap
		out.Shift = shiftGap
	}
	return out
}
