package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/webhook"
	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of waiting runs and of rows about past instants.
const (
	maxWaiting  = 100                  // runs of one task that wait to begin
	maxChunk    = 10_000               // instants processed in one transaction
	maxMissed   = 366 * 24 * time.Hour // older instants are not recorded; at one per minute that makes 527,040
	maxSkipRows = 1000                 // skipped instants with their own row; older ones share rows
)

// Reasons why a task is not enabled.
const (
	pausedByUser     = "user"
	pausedByFailures = "failures"
	pausedBySchedule = "invalid_schedule" // for example, its time zone no longer exists
	pausedByKey      = "key_revoked"      // the key that created it was revoked
)

// A transition is the change that one transaction makes to one task. It must be created again
// whenever its transaction runs again.
type transition struct {
	s        *Scheduler
	ctx      context.Context
	tx       *store.Tx
	now      time.Time
	accounts accounts
	task     stoa.ScheduledTask
	schedule *schedule.Schedule
	active   []stoa.TaskRun // oldest first
	skips    []stoa.TaskRun // not yet written
	rows     int            // number of rows written
	judged   int            // number of instants processed
	starts   int            // number of sessions started
	before   int64          // previous number of runs
	recorded recorded
}

// open locks a task. An empty agentID means any agent.
func (s *Scheduler) open(ctx context.Context, tx *store.Tx, now time.Time, known accounts, accountID, agentID, id string) (*transition, error) {
	c := &transition{s: s, ctx: ctx, tx: tx, now: now, accounts: known}
	var err error
	if c.task, err = tx.Work().LockTask(ctx, accountID, agentID, id); err != nil {
		return c, err
	}
	c.before = c.total()
	if c.active, err = tx.Work().ActiveRuns(ctx, id); err != nil {
		return c, err
	}
	c.schedule, err = s.scheduleOf(c.task)
	if err != nil { // although it was valid when it was stored, because its time zone may have been removed
		c.schedule, err = nil, nil
		if c.task.Enabled {
			err = c.pause(pausedBySchedule)
		}
	}
	return c, err
}

func (s *Scheduler) scheduleOf(t stoa.ScheduledTask) (*schedule.Schedule, error) {
	return schedule.New(t.Schedule, schedule.Window{From: t.StartAt, Through: t.EndAt, Anchor: t.Anchor})
}

func (c *transition) save() error {
	if err := c.writeSkips(true); err != nil {
		return err
	}
	if c.before/trimEvery != c.total()/trimEvery {
		trimmed, err := c.tx.Work().TrimRuns(c.ctx, c.task.ID, c.s.cfg.Keep, c.task.Cursor)
		if err != nil {
			return err
		}
		c.task.TrimmedAt = later(c.task.TrimmedAt, trimmed)
	}
	c.tx.AfterCommit(c.s.wake)
	return c.tx.Work().SaveTask(c.ctx, &c.task)
}

// trimEvery is the number of runs of a task between two checks for old runs to be removed.
const trimEvery = 256

func (c *transition) total() int64 { return c.task.Counts.Started + c.task.Counts.Skipped }

func (c *transition) settle() error {
	ended, err := c.tx.Work().SettleRuns(c.ctx, c.task.ID)
	for _, r := range ended {
		switch stoa.SessionStatus(r.Status) {
		case stoa.SessionCompleted:
			c.task.Counts.Completed++
			if r.Trigger != stoa.TriggerManual {
				c.task.Failures = 0
			}
		case stoa.SessionFailed:
			c.task.Counts.Failed++
			if r.Trigger != stoa.TriggerManual {
				c.task.Failures++
			}
		case stoa.SessionCancelled:
			c.task.Counts.Cancelled++
		}
		if err := webhook.TaskRunFinished(c.ctx, c.tx, c.task, r); err != nil {
			return err
		}
		if c.tooManyFailures() {
			if err := c.pause(pausedByFailures); err != nil {
				return err
			}
		}
	}
	return err
}

func (c *transition) tooManyFailures() bool {
	return c.task.Enabled && c.task.PauseAfter > 0 && c.task.Failures >= c.task.PauseAfter
}

// chunk processes due instants up to a limit; the rest stays due.
func (c *transition) chunk() error {
	t := &c.task
	if t.NextAt.IsZero() || t.NextAt.After(c.now) {
		return nil
	}
	if oldest := c.now.Add(-maxMissed); t.NextAt.Before(oldest) {
		t.Cursor, t.NextAt = oldest, c.schedule.Next(oldest)
		if t.NextAt.IsZero() || t.NextAt.After(c.now) {
			return nil
		}
	}
	due, next := []time.Time{t.NextAt}, time.Time{}
	for at := range c.schedule.After(t.NextAt) {
		if at.After(c.now) || len(due) == maxChunk {
			next = at
			break
		}
		due = append(due, at)
	}
	c.judged += len(due)
	last := next.IsZero() || next.After(c.now)
	for i, at := range due {
		if c.usedUp() || !t.Enabled {
			break
		}
		t.Cursor = at
		if done, err := c.isRecorded(at); err != nil {
			return err
		} else if done {
			continue
		}
		v := schedule.Judge(t.MissedPolicy, t.CatchUpWindow, c.now.Sub(at), last && i == len(due)-1)
		if v.Skip != "" {
			c.skip(stoa.TaskRun{ScheduledFor: at, Trigger: stoa.TriggerSchedule}, v.Skip)
		} else if err := c.begin(stoa.TaskRun{ScheduledFor: at, Trigger: v.Trigger}); err != nil {
			return err
		}
	}
	if c.usedUp() || !t.Enabled {
		next = time.Time{}
	}
	var err error
	if t.NextAt, err = c.unrecorded(next); err != nil {
		return err
	}
	return c.writeSkips(last)
}

func (c *transition) usedUp() bool {
	return c.task.MaxRuns > 0 && c.task.Counts.Scheduled >= c.task.MaxRuns
}

// skip records that an instant, or a waiting run, does not run.
func (c *transition) skip(r stoa.TaskRun, reason string) {
	r.ID, r.TaskID, r.AccountID = "", c.task.ID, c.task.AccountID
	r.Status, r.SkipReason, r.Instants = stoa.RunSkipped, reason, 1
	c.skips = append(c.skips, r)
	if len(c.skips) >= 2*maxSkipRows { // because the older ones share rows anyway
		c.skips = append(c.together(c.skips[:maxSkipRows]), c.skips[maxSkipRows:]...)
	}
	c.task.Counts.Skipped++
}

// writeSkips writes a row for each skipped instant; older ones beyond a limit, or all if many
// more follow, share rows.
//
// After a week away a task of every minute has 10,080 skipped instants, and there may be ten
// thousand tasks; so the newest thousand of an absence have a row each, and older neighbours
// that were skipped for the same reason, with no run between them, share one row with the
// first, the last and their number. The counters count instants, so the sum over the history
// is exact. Counting alone would prove nothing about a single instant. Reconsider this if
// anyone needs the instants within a shared row.
func (c *transition) writeSkips(last bool) error {
	rows := c.skips
	if whole := max(0, len(rows)-maxSkipRows); whole > 0 || !last {
		if !last && len(rows) >= maxSkipRows {
			whole = len(rows)
		}
		rows = append(c.together(rows[:whole]), rows[whole:]...)
	}
	c.skips = nil
	c.rows += len(rows)
	if err := c.tx.Work().InsertRuns(c.ctx, rows); err != nil {
		return err
	}
	return webhook.TaskRunsSkipped(c.ctx, c.tx, c.task, rows)
}

// together combines neighbours that were skipped for the same reason and have no run between
// them into one row. No row represents more than maxChunk instants, which limits the work of
// dividing it.
func (c *transition) together(rows []stoa.TaskRun) []stoa.TaskRun {
	var out []stoa.TaskRun
	for _, r := range rows {
		if n := len(out) - 1; n >= 0 && out[n].SkipReason == r.SkipReason && out[n].Instants+r.Instants <= maxChunk && !c.between(out[n].ScheduledFor, r.ScheduledFor) {
			out[n].Instants += r.Instants
			out[n].Through = later(r.ScheduledFor, r.Through)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (c *transition) between(from, to time.Time) bool {
	for _, r := range c.active {
		if r.ScheduledFor.After(from) && r.ScheduledFor.Before(to) {
			return true
		}
	}
	i, found := slices.BinarySearchFunc(c.recorded.at, from, time.Time.Compare)
	if found {
		i++
	}
	return i < len(c.recorded.at) && c.recorded.at[i].Before(to)
}

// begin starts an instant's run, lets it wait, or skips it.
func (c *transition) begin(r stoa.TaskRun) error {
	t := &c.task
	r.ID, r.TaskID, r.AccountID, r.Status = stoa.NewID("run"), t.ID, t.AccountID, string(stoa.SessionQueued)
	outcome := wouldOverlap
	if len(c.active) == 0 || c.mayOverlap() {
		var err error
		if outcome, err = c.start(&r, false); err != nil {
			return err
		}
	}
	switch outcome {
	case wouldOverlap:
		// Under run_all missed runs wait for each other: if they were skipped as overlapping,
		// only the first would be made up for.
		all := r.Trigger == stoa.TriggerCatchUp && t.MissedPolicy == stoa.MissedRunAll
		if t.OverlapPolicy == stoa.OverlapSkip && !all {
			c.skip(r, schedule.SkipOverlap)
			return nil
		}
		r.Waiting = stoa.WaitOverlap
	case noCapacity:
		r.Waiting = stoa.WaitCapacity
	case started:
	default:
		c.skip(r, string(outcome))
		return nil
	}
	if r.Waiting != "" && c.waiting() >= maxWaiting {
		r.Waiting = ""
		c.skip(r, schedule.SkipFull)
		return nil
	}
	t.Counts.Scheduled++
	c.active = append(c.active, r)
	t.LastRun = &r
	c.rows++
	return c.tx.Work().InsertRuns(c.ctx, c.active[len(c.active)-1:])
}

// mayOverlap reports whether runs of the task may run at the same time. Runs that share a
// session never do.
func (c *transition) mayOverlap() bool {
	return c.task.OverlapPolicy == stoa.OverlapAllow && c.task.SessionPolicy == stoa.SessionNew
}

func (c *transition) waiting() int {
	n := 0
	for _, r := range c.active {
		if r.Waiting != "" {
			n++
		}
	}
	return n
}

// A beginning is the outcome of an attempt to start a run; the other values are reasons to
// skip it.
type beginning string

const (
	started      beginning = "started"
	wouldOverlap beginning = "would_overlap"
	noCapacity   beginning = "no_capacity"
)

// start begins the session of a run, or the turn in a reused session. asked means that a
// caller waits for the result: an obstacle to the run is then an error.
func (c *transition) start(r *stoa.TaskRun, asked bool) (beginning, error) {
	a, err := c.account()
	switch {
	case err != nil:
		return "", err
	case a.suspended:
		return schedule.SkipAccount, nil
	case a.free <= 0 && !asked:
		return noCapacity, nil
	}
	t := &c.task
	began, err := c.session(r)
	switch code := stoa.CodeOf(err); {
	case code == "":
	case asked || code == stoa.CodeInternal:
		return "", err
	case code == stoa.CodeSessionBusy:
		return wouldOverlap, nil
	case code == stoa.CodeTooManySessions:
		a.free = 0
		return noCapacity, nil
	default:
		t.Failures++ // otherwise it would be refused for ever
		if c.tooManyFailures() {
			if err := c.pause(pausedByFailures); err != nil {
				return "", err
			}
		}
		return schedule.SkipRefused, nil
	}
	a.free--
	c.starts++
	if t.SessionPolicy == stoa.SessionReuse {
		t.SessionID = began.ID
	}
	r.SessionID, r.Turn, r.Status, r.Waiting = began.ID, began.Turn.Number, string(began.Status), ""
	r.Delay = max(0, c.s.now().Sub(r.ScheduledFor))
	late := r.Delay
	c.tx.AfterCommit(func() { c.s.cfg.Metrics.Scheduled(late) })
	t.Counts.Started++
	return started, nil
}

// session returns the session of a run, with the task's message queued in it.
func (c *transition) session(r *stoa.TaskRun) (stoa.Session, error) {
	t := c.task
	caller := stoa.Caller{Account: stoa.Account{ID: t.AccountID}, Key: stoa.Key{ID: t.KeyID}}
	if t.SessionPolicy == stoa.SessionReuse && t.SessionID != "" {
		row, err := c.tx.Work().LockSession(c.ctx, t.AccountID, t.AgentID, t.SessionID)
		switch {
		case err == nil && !row.Status.Ended():
			return row.Session, stoa.Errorf(stoa.CodeSessionBusy, "The session of this task is %s. Wait until it has ended.", row.Status)
		case err == nil:
			return c.s.sessions.Send(c.ctx, c.tx, caller, t.AgentID, t.SessionID, session.SendRequest{Message: t.Message, Reject: true, ScheduledFor: r.ScheduledFor})
		case stoa.CodeOf(err) != stoa.CodeSessionNotFound:
			return row.Session, err
		} // it was deleted: another one begins
	}
	return c.s.sessions.Start(c.ctx, c.tx, caller, request(t, *r))
}

func request(t stoa.ScheduledTask, r stoa.TaskRun) session.StartRequest {
	return session.StartRequest{
		AgentID: t.AgentID, Message: t.Message, Mode: t.Mode, Title: t.Name,
		Limits: stoa.TurnLimits{MaxCredits: t.MaxCredits}, Trigger: stoa.Trigger{Type: stoa.TriggerSchedule, ID: r.ID}, CredentialsOf: t.ID,
		Timezone: t.Schedule.Timezone, ScheduledFor: r.ScheduledFor,
	}
}

func (c *transition) account() (*account, error) {
	if a := c.accounts[c.task.AccountID]; a != nil {
		return a, nil
	}
	row, err := c.tx.Books().Account(c.ctx, c.task.AccountID)
	if err != nil {
		return nil, err
	}
	free, err := c.s.capacity(c.ctx, c.tx, c.task.AccountID)
	a := &account{suspended: row.Suspended, free: free}
	c.accounts[c.task.AccountID] = a
	return a, err
}

// advance starts waiting runs, oldest first, as far as the limits allow.
func (c *transition) advance() error {
	running := len(c.active) - c.waiting()
	for i := range c.active {
		r := &c.active[i]
		if r.Waiting == "" || !c.task.Enabled {
			continue
		}
		was := r.Waiting
		if running > 0 && !c.mayOverlap() {
			r.Waiting = stoa.WaitOverlap
			if r.Waiting != was {
				_, err := c.tx.Work().SaveRun(c.ctx, r)
				return err
			}
			return nil
		}
		out, err := c.start(r, false)
		switch {
		case err != nil:
			return err
		case out == started:
			running++
		case out == wouldOverlap:
			r.Waiting = stoa.WaitOverlap
		case out == noCapacity:
			r.Waiting = stoa.WaitCapacity
		default:
			if err := c.drop(r, string(out)); err != nil {
				return err
			}
		}
		if r.Waiting != was {
			if _, err := c.tx.Work().SaveRun(c.ctx, r); err != nil {
				return err
			}
		}
		if r.Waiting != "" {
			return nil
		}
	}
	return nil
}

// drop skips a waiting run; the caller must write the row.
func (c *transition) drop(r *stoa.TaskRun, reason string) error {
	r.Status, r.SkipReason, r.Waiting = stoa.RunSkipped, reason, ""
	c.task.Counts.Skipped++
	if r.Trigger != stoa.TriggerManual {
		c.task.Counts.Scheduled--
	}
	return webhook.TaskRunsSkipped(c.ctx, c.tx, c.task, []stoa.TaskRun{*r})
}

// pause stops the schedule. Waiting runs do not begin.
func (c *transition) pause(reason string) error {
	c.task.Enabled, c.task.PauseReason, c.task.NextAt = false, reason, time.Time{}
	var errs []error
	for i := range c.active {
		if r := &c.active[i]; r.Waiting != "" {
			err := c.drop(r, schedule.SkipPaused)
			_, saved := c.tx.Work().SaveRun(c.ctx, r)
			errs = append(errs, err, saved)
		}
	}
	if reason != pausedByUser { // because the request of a user has its own row in the audit log
		c.tx.AuditAutomatic(c.task.AccountID, "scheduled_task.paused", c.task.ID, reason)
	}
	return errors.Join(append(errs, webhook.ScheduledTaskPaused(c.ctx, c.tx, c.task))...)
}

// resume continues the schedule from now. Instants during the pause are recorded as skipped.
func (c *transition) resume() error {
	if err := c.passed(); err != nil {
		return err
	}
	c.task.Enabled, c.task.PauseReason, c.task.Failures = true, "", 0
	return c.plan()
}

// passed records the instants during a task's pause.
func (c *transition) passed() error {
	if c.task.Enabled || c.usedUp() || c.schedule == nil {
		return nil
	}
	for at := range c.schedule.After(later(c.task.Cursor, c.now.Add(-maxMissed))) {
		if at.After(c.now) {
			break
		}
		done, err := c.isRecorded(at)
		if err != nil {
			return err
		}
		if !done {
			c.skip(stoa.TaskRun{ScheduledFor: at, Trigger: stoa.TriggerSchedule}, schedule.SkipPaused)
		}
		c.task.Cursor = at
	}
	return nil
}

// plan sets the next instant: after now, and after all processed instants.
func (c *transition) plan() error {
	c.task.PlannedAt = c.now
	if c.now.After(c.task.Cursor) {
		c.task.Cursor = c.now
	}
	return c.findNext()
}

// findNext finds the first instant after the cursor that has no run.
func (c *transition) findNext() (err error) {
	c.task.NextAt = time.Time{}
	if c.task.Enabled && !c.usedUp() && c.schedule != nil {
		c.task.NextAt, err = c.unrecorded(c.schedule.Next(c.task.Cursor))
	}
	return err
}
