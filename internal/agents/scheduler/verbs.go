package scheduler

import (
	"context"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of the fields of a task.
const (
	MaxCatchUpWindow = 30 * 24 * time.Hour
	MaxPauseAfter    = 100
	MaxTaskRuns      = 1_000_000
)

// lastMoment is the latest time in a task. [oldestMoment] limits the earliest.
var lastMoment = time.Date(2200, 12, 31, 23, 59, 59, 0, time.UTC)

// oldestMoment is the maximum age of a time in a task.
const oldestMoment = 366 * 24 * time.Hour

// checkMoments refuses implausible times: an interval counted from a distant past, for
// example, has more instants than can be listed. Times that the task already had stay valid.
func checkMoments(t, before stoa.ScheduledTask, now time.Time) error {
	for _, m := range []struct {
		param   string
		at, was time.Time
	}{
		{"startAt", t.StartAt, before.StartAt},
		{"endAt", t.EndAt, before.EndAt},
		{"schedule.runAt", t.Schedule.RunAt, before.Schedule.RunAt},
	} {
		if m.at.IsZero() || m.at.Equal(m.was) {
			continue
		}
		if m.at.Before(now.Add(-oldestMoment)) || m.at.After(lastMoment) {
			return stoa.Errorf(stoa.CodeInvalidValue, "Use a time from one year ago to %s.", lastMoment.Format(time.RFC3339)).At(m.param)
		}
	}
	return nil
}

func (s *Scheduler) check(t *stoa.ScheduledTask) error {
	if t.Mode == "" {
		t.Mode = stoa.ModeOnce
		if t.SessionPolicy == stoa.SessionReuse {
			t.Mode = stoa.ModeChat
		}
	}
	switch {
	case t.Mode != stoa.ModeChat && t.Mode != stoa.ModeOnce:
		return stoa.Errorf(stoa.CodeInvalidMode, "The mode must be %q or %q.", stoa.ModeChat, stoa.ModeOnce).At("mode")
	case t.SessionPolicy == stoa.SessionReuse && t.Mode == stoa.ModeOnce:
		return stoa.Errorf(stoa.CodeInvalidValue, "A session of mode %q accepts only one message: to reuse a session, use mode %q.", stoa.ModeOnce, stoa.ModeChat).At("sessionPolicy")
	case t.CatchUpWindow < 0 || t.CatchUpWindow > MaxCatchUpWindow:
		return stoa.Errorf(stoa.CodeInvalidValue, "The window must be 0 to %d seconds.", MaxCatchUpWindow/time.Second).At("catchUpWindowSeconds")
	case t.PauseAfter < 0 || t.PauseAfter > MaxPauseAfter:
		return stoa.Errorf(stoa.CodeInvalidValue, "A task can be paused after 1 to %d consecutive failures, or never: 0.", MaxPauseAfter).At("pauseAfterFailures")
	case !t.EndAt.IsZero() && t.EndAt.Before(t.StartAt):
		return stoa.Errorf(stoa.CodeInvalidValue, "The end is before the start.").At("endAt")
	}
	return s.sessions.CheckMessage(t.Message)
}

// checkDistance refuses a schedule whose instants are closer than the
// configuration allows.
func (s *Scheduler) checkDistance(t stoa.Schedule, sched *schedule.Schedule, from time.Time) error {
	if s.cfg.Interval <= schedule.MinEvery {
		return nil // because the distance between its instants never is
	}
	const looks = 1500 // more than a day of minutes
	last, n := time.Time{}, 0
	for at := range sched.After(from) {
		if !last.IsZero() && at.Sub(last) < s.cfg.Interval {
			if t.Type == stoa.ScheduleInterval {
				return stoa.Errorf(stoa.CodeInvalidValue, "Runs must be at least %d seconds apart.", s.cfg.Interval/time.Second).At("schedule.everySeconds")
			}
			return stoa.Errorf(stoa.CodeInvalidCron, "Runs must be at least %d seconds apart; these are not: %s and %s.", s.cfg.Interval/time.Second, last.Format(time.RFC3339), at.Format(time.RFC3339)).At("schedule.expression")
		}
		if last, n = at, n+1; n == looks {
			break
		}
	}
	return nil
}

// anchor returns the time from which an interval is counted: its start, or one interval from
// now.
func anchor(t stoa.ScheduledTask, now time.Time) time.Time {
	if !t.StartAt.IsZero() {
		return t.StartAt
	}
	return now.Truncate(time.Millisecond).Add(t.Schedule.Every)
}

// begin prepares a task: its schedule is parsed, and must have a future instant.
func (s *Scheduler) begin(t *stoa.ScheduledTask, now time.Time) error {
	if t.Anchor.IsZero() {
		t.Anchor = anchor(*t, now)
	}
	sched, err := s.scheduleOf(*t)
	if err != nil {
		return err
	}
	if err := s.checkDistance(t.Schedule, sched, now); err != nil {
		return err
	}
	first := sched.Next(now)
	if first.IsZero() {
		switch {
		case t.Schedule.Type == stoa.ScheduleOnce && !t.Schedule.RunAt.After(now):
			return stoa.Errorf(stoa.CodeInvalidValue, "This time has passed.").At("schedule.runAt")
		case !t.EndAt.IsZero():
			return stoa.Errorf(stoa.CodeInvalidValue, "The schedule has no instant before its end.").At("endAt")
		}
		return stoa.Errorf(stoa.CodeInvalidValue, "The schedule has no future instant.").At("schedule")
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Create adds a scheduled task to an agent. It fails with
// [stoa.CodeAgentNotFound], [stoa.CodeTooManyTasks], [stoa.CodeInvalidCron],
// [stoa.CodeInvalidTimezone], [stoa.CodeInvalidMode] or [stoa.CodeInvalidValue].
func (s *Scheduler) Create(ctx context.Context, tx *store.Tx, c stoa.Caller, t stoa.ScheduledTask) (stoa.ScheduledTask, error) {
	now := s.now()
	if err := s.check(&t); err != nil {
		return t, err
	}
	if err := checkMoments(t, stoa.ScheduledTask{}, now); err != nil {
		return t, err
	}
	if err := s.begin(&t, now); err != nil {
		return t, err
	}
	if _, err := tx.Setup().AgentForShare(ctx, c.Account.ID, t.AgentID); err != nil {
		return t, err
	}
	n, err := tx.Work().CountTasks(ctx, c.Account.ID, t.AgentID)
	if err != nil {
		return t, err
	}
	if n >= s.cfg.PerAgent {
		return t, stoa.Errorf(stoa.CodeTooManyTasks, "This agent has %d scheduled tasks, which is the maximum. Delete one, or create another agent.", n)
	}
	t.AccountID, t.KeyID = c.Account.ID, c.Key.ID
	work := &transition{s: s, ctx: ctx, tx: tx, now: now, task: t}
	if work.schedule, err = s.scheduleOf(t); err != nil {
		return t, err
	}
	if !t.Enabled {
		work.task.PauseReason = pausedByUser
	}
	if err := work.plan(); err != nil {
		return t, err
	}
	tx.AfterCommit(s.wake)
	return tx.Work().InsertTask(ctx, work.task)
}

// Edit lets fn change a task, which is locked. Unless allowed is nil, it is called first and
// may reject the task. Instants due under the old schedule are processed before. fn must not
// modify fields that a caller does not set. Enabled pauses and resumes.
func (s *Scheduler) Edit(ctx context.Context, tx *store.Tx, accountID, agentID, id string, allowed func(stoa.ScheduledTask) error, fn func(*stoa.ScheduledTask) error) (stoa.ScheduledTask, error) {
	return s.edit(ctx, tx, accountID, agentID, id, allowed, func(c *transition) error {
		before := c.task
		t := &c.task
		if err := fn(t); err != nil {
			return err
		}
		if err := s.check(t); err != nil {
			return err
		}
		if err := checkMoments(*t, before, c.now); err != nil {
			return err
		}
		if t.SessionPolicy != before.SessionPolicy {
			t.SessionID = "" // because the reused session begins with the policy
		}
		enable := t.Enabled
		t.Enabled = before.Enabled
		if t.Schedule != before.Schedule || !t.StartAt.Equal(before.StartAt) || !t.EndAt.Equal(before.EndAt) {
			if err := c.reschedule(before); err != nil {
				return err
			}
		} else if t.MaxRuns != before.MaxRuns {
			if err := c.plan(); err != nil {
				return err
			}
		}
		switch {
		case enable && !before.Enabled:
			return c.resume()
		case !enable && before.Enabled:
			return c.pause(pausedByUser)
		}
		return nil
	})
}

// reschedule makes the task follow its new schedule from now on. Past instants of the
// previous one are recorded first.
func (c *transition) reschedule(before stoa.ScheduledTask) (err error) {
	t := c.task
	c.task = before
	if err := c.passed(); err != nil {
		return err
	}
	t.Cursor, t.Counts = c.task.Cursor, c.task.Counts
	c.task = t
	if t.Schedule != before.Schedule || !t.StartAt.Equal(before.StartAt) {
		c.task.Anchor = time.Time{} // counted again
	}
	if err := c.s.begin(&c.task, c.now); err != nil {
		return err
	}
	if c.schedule, err = c.s.scheduleOf(c.task); err != nil {
		return err
	}
	return c.plan()
}

// Pause stops a task until it is resumed. Current runs continue; waiting ones are skipped. A
// paused task stays unchanged.
func (s *Scheduler) Pause(ctx context.Context, tx *store.Tx, accountID, agentID, id string) (stoa.ScheduledTask, error) {
	return s.edit(ctx, tx, accountID, agentID, id, nil, func(c *transition) error {
		if !c.task.Enabled {
			return nil
		}
		return c.pause(pausedByUser)
	})
}

// PauseOf pauses all tasks of a key, some in each transaction. Current runs
// continue. It may be repeated.
func (s *Scheduler) PauseOf(ctx context.Context, accountID, keyID string, which store.KeyObjects) error {
	for n := 1; n > 0; { // ends, because each pass pauses or postpones the tasks that it picks
		var err error
		n, _, err = s.batch(ctx, s.now(),
			func(tx *store.Tx) ([]store.Ref, error) {
				return tx.People().TasksOf(ctx, accountID, keyID, which, false, dueBatch)
			},
			func(c *transition) error {
				if !c.task.Enabled {
					return nil
				}
				return c.pause(pausedByKey)
			})
		if err != nil {
			return err
		}
	}
	return s.store.Read(ctx, func(tx *store.Tx) error {
		left, err := tx.People().TasksOf(ctx, accountID, keyID, which, true, 1)
		if err == nil && len(left) > 0 {
			err = stoa.Errorf(stoa.CodeInternal, "The task %q of this key could not be paused. Send the request again.", left[0].ID)
		}
		return err
	})
}

// Resume makes a paused task continue with its next instant. Instants during the pause are
// recorded as skipped, and its failure count is reset.
func (s *Scheduler) Resume(ctx context.Context, tx *store.Tx, accountID, agentID, id string) (stoa.ScheduledTask, error) {
	return s.edit(ctx, tx, accountID, agentID, id, nil, func(c *transition) error {
		if c.task.Enabled {
			return nil
		}
		return c.resume()
	})
}

// edit changes a task that is up to date: due instants and ended runs are recorded in its
// row.
func (s *Scheduler) edit(ctx context.Context, tx *store.Tx, accountID, agentID, id string, allowed func(stoa.ScheduledTask) error, fn func(*transition) error) (stoa.ScheduledTask, error) {
	if _, err := tx.Setup().AgentForShare(ctx, accountID, agentID); err != nil {
		return stoa.ScheduledTask{}, err
	}
	c, err := s.open(ctx, tx, s.now(), accounts{}, accountID, agentID, id)
	if err != nil {
		return c.task, err
	}
	if allowed != nil {
		if err := allowed(c.task); err != nil {
			return c.task, err
		}
	}
	if err := c.settle(); err != nil {
		return c.task, err
	}
	if err := c.chunk(); err != nil {
		return c.task, err
	}
	if !c.task.NextAt.IsZero() && !c.task.NextAt.After(c.now) {
		// The scheduler continues with it, and lets other writers proceed in between.
		s.wake()
		return c.task, stoa.Errorf(stoa.CodeOverloaded, "The task is still processing many instants that it missed. Try again in a moment.").After(time.Second)
	}
	if err := fn(c); err != nil {
		return c.task, err
	}
	if err := c.advance(); err != nil {
		return c.task, err
	}
	if err := c.save(); err != nil {
		return c.task, err
	}
	return tx.Work().Task(ctx, accountID, agentID, id)
}

// RunNow starts a task now, regardless of its schedule, even while it is paused. The caller
// must check before whether the credits suffice. It fails like [session.Sessions.Start] and
// Send; with [stoa.CodeSessionBusy] if the reused session is busy.
func (s *Scheduler) RunNow(ctx context.Context, tx *store.Tx, accountID, agentID, id string) (stoa.TaskRun, error) {
	var run stoa.TaskRun
	_, err := s.edit(ctx, tx, accountID, agentID, id, nil, func(c *transition) error {
		run = stoa.TaskRun{ID: stoa.NewID("run"), TaskID: id, AccountID: accountID, ScheduledFor: c.now, Trigger: stoa.TriggerManual, Status: string(stoa.SessionQueued)}
		out, err := c.start(&run, true)
		if err == nil && out != started {
			err = stoa.Errorf(stoa.CodeSuspended, "This account is suspended. Ask its operator to reactivate it.")
		}
		if err != nil {
			return err
		}
		c.active = append(c.active, run)
		c.task.LastRun = &run
		runs := []stoa.TaskRun{run}
		err = tx.Work().InsertRuns(ctx, runs)
		run = runs[0]
		return err
	})
	return run, err
}

// RequestOf returns the request for the session of the task's run, for a check of the
// credits.
func (s *Scheduler) RequestOf(t stoa.ScheduledTask) session.StartRequest {
	return request(t, stoa.TaskRun{})
}

// Delete removes a task and its history. Started sessions continue; waiting runs never begin.
// A missing task is [stoa.CodeTaskNotFound].
func (s *Scheduler) Delete(ctx context.Context, tx *store.Tx, accountID, agentID, id string) error {
	tx.AfterCommit(s.wake)
	return tx.Work().HideTask(ctx, accountID, agentID, id)
}

// Upcoming returns the next instants of a task, at most n. A task that is paused
// or finished has none.
func (s *Scheduler) Upcoming(t stoa.ScheduledTask, n int) []time.Time {
	if t.NextAt.IsZero() {
		return nil
	}
	if t.MaxRuns > 0 {
		n = int(min(int64(n), t.MaxRuns-t.Counts.Scheduled))
	}
	sched, err := s.scheduleOf(t)
	if err != nil || n <= 0 {
		return nil
	}
	out := []time.Time{t.NextAt}
	for at := range sched.After(t.NextAt) {
		if len(out) >= n {
			break
		}
		out = append(out, at)
	}
	return out
}

// Preview returns the first instants, at most n, that the task would have if it were created
// now. Nothing is stored.
func (s *Scheduler) Preview(t stoa.ScheduledTask, n int) ([]schedule.Shown, error) {
	now := s.now()
	if !t.EndAt.IsZero() && t.EndAt.Before(t.StartAt) {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The end is before the start.").At("endAt")
	}
	if err := checkMoments(t, stoa.ScheduledTask{}, now); err != nil {
		return nil, err
	}
	if err := s.begin(&t, now); err != nil {
		return nil, err
	}
	if t.MaxRuns > 0 {
		n = int(min(int64(n), t.MaxRuns))
	}
	sched, err := s.scheduleOf(t)
	if err != nil {
		return nil, err
	}
	var list []time.Time
	for at := range sched.After(now) {
		if list = append(list, at); len(list) >= n {
			break
		}
	}
	out := make([]schedule.Shown, 0, len(list))
	for _, at := range list {
		out = append(out, sched.Show(at))
	}
	return out, nil
}
