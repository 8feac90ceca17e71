package schedule

import (
	"math"
	"time"
)

// A clock converts between instants and wall times of one zone. Wall times are seconds since 1970 as if the
// wall clock were in UTC. It is not safe for concurrent use, because it caches the last period without a transition.
type clock struct {
	zone           *time.Location
	offset         int64 // seconds east of UTC
	since, through int64 // period in which the offset certainly applies and no wall time occurs twice
}

// margin is larger than the difference between any two offsets of a zone, so that a wall time at this
// distance from a transition occurs exactly once.
const margin = 26 * 60 * 60

func (c *clock) wall(at time.Time) int64 {
	_, offset := at.In(c.zone).Zone()
	return at.Unix() + int64(offset)
}

// instant returns the instant at which a wall time is due: the first if it occurs twice; the first after the gap
// if it does not exist.
func (c *clock) instant(wall int64) int64 {
	if at := wall - c.offset; c.since < c.through && at >= c.since && at < c.through {
		return at
	}
	at, _ := c.look(wall)
	return at
}

// Midnight returns the first instant of a date in a zone, in UTC; the day may be outside of the month. It is
// later than 00:00 if clocks are set forward at midnight, and the first of both if 00:00 occurs twice.
func Midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	c := clock{zone: zone}
	return time.Unix(c.instant(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()), 0).UTC()
}

// The ways in which a wall time does not have exactly one instant.
const (
	shiftGap  = "gap"  // the wall time does not exist
	shiftFold = "fold" // the wall time occurs twice
)

// look is [clock.instant] and also returns whether the wall time is in a gap or a fold.
func (c *clock) look(wall int64) (at int64, shift string) {
	// The wall time may be in none, one or both of the periods around it.
	probe := time.Unix(wall-2*margin, 0).In(c.zone)
	found := false
	var gap int64
	hasGap := false
	for range 6 {
		from, to := period(probe)
		_, off := probe.Zone()
		offset := int64(off)
		if t := wall - offset; t >= from && t < to {
			if found {
				return at, shiftFold
			}
			at, found = t, true
			c.offset, c.since, c.through = offset, addClamped(from, margin), addClamped(to, -margin)
		}
		if to == math.MaxInt64 || to > wall+2*margin {
			break
		}
		probe = time.Unix(to, 0).In(c.zone)
		_, next := probe.Zone()
		if !hasGap && to+offset <= wall && wall < to+int64(next) {
			gap, hasGap = to, true
		}
	}
	if found {
		return at, ""
	}
	if hasGap {
		return gap, shiftGap
	}
	return wall, "" // cannot happen, because a wall time is in a period or between two
}

func addClamped(t, d int64) int64 {
	if t == math.MinInt64 || t == math.MaxInt64 {
		return t
	}
	return t + d
}

// period returns the start and the end of the period of the offset at t.
func period(t time.Time) (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		from = start.Unix()
	}
	if !end.IsZero() {
		to = end.Unix()
	}
	return from, to
}
