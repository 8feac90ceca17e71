package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"stoa/internal/base/store"
)

// When the clock is trusted.
const (
	steadyFor   = 5 * time.Minute // without a step, and then
	correctEach = time.Minute     // interval of the searches for tasks that are ahead of it
	stepForward = time.Minute     // a larger difference between two readings is a step; passes are at most stoa.PollAlone apart
	stepBack    = time.Second
)

// steadiness tracks the steps of the clock. It is safe for use by many goroutines.
type steadiness struct {
	mu      sync.Mutex
	last    time.Time // the latest reading
	since   time.Time // the first reading after the last step
	checked time.Time // time of the last search for tasks that are ahead
	warned  bool      // about tasks that stay ahead, since the last step
}

// observe records a reading of the clock.
func (c *steadiness) observe(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := now.Sub(c.last); c.last.IsZero() || d > stepForward || d < -stepBack {
		c.since, c.checked, c.warned = now, time.Time{}, false
	}
	c.last = now
}

// check reports whether the clock is trusted and the next search for tasks ahead of it is
// due. It returns the time since which the clock has had no step, and the present.
func (c *steadiness) check() (since, now time.Time, check bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	check = c.last.Sub(c.since) >= steadyFor && c.last.Sub(c.checked) >= correctEach
	if check {
		c.checked = c.last
	}
	return c.since, c.last, check
}

func (c *steadiness) warn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.warned
	c.warned = true
	return first
}

// correct moves back the cursors of tasks that are ahead of the clock, once that is trusted:
// a clock that was ahead has been corrected, or one that was right has been set back. Both
// look the same, and in both no instant runs twice. See
// docs/decisions/0025-run-each-instant-once-despite-clock-changes.md.
func (s *Scheduler) correct(ctx context.Context) error {
	since, now, check := s.clock.check()
	if !check {
		return nil
	}
	total := 0
	for n := 1; n > 0; total += n { // each task is no longer listed, has moved, or is postponed
		var err error
		n, _, err = s.batch(ctx, now, func(tx *store.Tx) ([]store.Ref, error) { return tx.Work().TasksAhead(ctx, now, dueBatch) },
			func(c *transition) error { return c.takeBack(since) })
		if err != nil {
			return err
		}
	}
	if total > 0 {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the clock was set back; scheduled tasks follow it again", slog.Time("since", since))
	}
	stuck, err := store.Read(ctx, s.store, func(tx *store.Tx) (int, error) { return tx.Work().CountTasksStuck(ctx, now, maxStuck) })
	if err == nil && stuck > 0 && s.clock.warn() {
		s.log.LogAttrs(ctx, slog.LevelWarn, "scheduled tasks wait until the clock reaches the time at which they were changed; if the clock is right now, pause and resume them",
			slog.Int("tasks", stuck))
	}
	return err
}

const maxStuck = 1000 // tasks that are counted for a warning

// takeBack moves the cursor back to since, or to the earliest safe time: not before the task
// was planned, and not into a range where runs of the schedule may have been removed. Later
// instants that were skipped because they were late lose their run, and become due at their
// time; all others keep theirs, which proves that they have happened. If there are very many
// it moves only part of the way.
func (c *transition) takeBack(since time.Time) error {
	t := &c.task
	if !t.Enabled { // because opening it paused it: for example, its time zone no longer exists
		return nil
	}
	to := later(since, later(t.PlannedAt, t.TrimmedAt))
	if to.After(c.now) || !t.Cursor.After(c.now) {
		return fmt.Errorf("cannot move the cursor at %s back to %s", t.Cursor, to)
	}
	rows, instants, first, err := c.tx.Work().RemoveSkipped(c.ctx, t.ID, to, rowsBatch)
	if err != nil {
		return err
	}
	c.judged += rows * (maxChunk / rowsBatch) // a transaction removes about rowsBatch rows
	if rows == rowsBatch {
		to = first.Add(-time.Microsecond) // the rest is left to the next transaction
	} else if err := c.divide(to); err != nil {
		return err
	}
	t.Counts.Skipped -= instants
	t.RecordedThrough = later(t.RecordedThrough, t.Cursor)
	t.Cursor = to
	return c.findNext()
}

// divide splits the run that represents skipped instants at a moment, and drops the later
// part.
func (c *transition) divide(at time.Time) error {
	r, found, err := c.tx.Work().SkippedAcross(c.ctx, c.task.ID, at)
	if err != nil || !found {
		return err
	}
	was := r.Instants
	r.Instants, r.Through = 1, time.Time{}
	for next := range c.schedule.After(r.ScheduledFor) {
		if next.After(at) || r.Instants == was-1 {
			break
		}
		r.Instants, r.Through = r.Instants+1, next
	}
	c.judged += int(r.Instants)
	c.task.Counts.Skipped -= was - r.Instants
	return c.tx.Work().ShortenRun(c.ctx, r)
}

// recorded contains the instants between two moments that already have a run, in order.
type recorded struct {
	at            []time.Time
	from, through time.Time
}

const recordedPage = 1000 // instants per query

// isRecorded reports whether an instant after the cursor already has a run. It may have one
// because the cursor was moved back.
func (c *transition) isRecorded(at time.Time) (bool, error) {
	if at.After(c.task.RecordedThrough) {
		return false, nil
	}
	k := &c.recorded
	if k.through.IsZero() || at.Before(k.from) || at.After(k.through) {
		var err error
		if k.at, err = c.tx.Work().RecordedInstants(c.ctx, c.task.ID, at, c.task.RecordedThrough, recordedPage); err != nil {
			return false, err
		}
		k.from, k.through = at, c.task.RecordedThrough
		if len(k.at) == recordedPage {
			k.through = k.at[recordedPage-1]
		}
	}
	_, found := slices.BinarySearchFunc(k.at, at, time.Time.Compare)
	return found, nil
}

// unrecorded returns the first instant, starting with the given one, that has no run. After
// very many it stops, and the returned instant may have one.
func (c *transition) unrecorded(at time.Time) (time.Time, error) {
	if at.IsZero() {
		return at, nil
	}
	done, err := c.isRecorded(at)
	if err != nil || !done {
		return at, err
	}
	judged := 0
	for at = range c.schedule.After(at) {
		judged++
		if done, err = c.isRecorded(at); err != nil || !done || judged == maxChunk {
			return at, err
		}
	}
	return time.Time{}, nil
}
