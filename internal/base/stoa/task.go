package stoa

import "time"

// A Schedule defines the times of runs. Type decides which other members apply.
type Schedule struct {
	Type       string        `db:"schedule_type"` // cron, interval or once
	Expression string        `db:"expression"`    // cron: five fields, or a word such as @daily
	Timezone   string        `db:"timezone"`      // cron: an IANA name
	Every      time.Duration `db:"every"`         // interval
	RunAt      time.Time     `db:"run_at"`        // once
}

// The types of a [Schedule].
const (
	ScheduleCron     = "cron"
	ScheduleInterval = "interval"
	ScheduleOnce     = "once"
)

// A ScheduledTask starts sessions of an agent at the instants of its schedule.
type ScheduledTask struct {
	ID              string      `db:"id"`
	AccountID       string      `db:"account_id"`
	AgentID         string      `db:"agent_id"`
	KeyID           string      `db:"key_id"` // that created it; its limits apply, and receipts name it
	Name            string      `db:"name"`
	Message         string      `db:"message"`
	Mode            SessionMode `db:"mode"`
	Schedule        Schedule
	StartAt         time.Time     `db:"start_at"` // no instant before; zero means no limit
	EndAt           time.Time     `db:"end_at"`   // none after; zero means no limit
	MaxRuns         int64         `db:"max_runs"` // of its schedule; 0 means no limit
	Enabled         bool          `db:"enabled"`
	PauseReason     string        `db:"pause_reason"`   // the reason why it is not enabled: user or failures
	SessionPolicy   string        `db:"session_policy"` // new or reuse
	MissedPolicy    string        `db:"missed_policy"`  // run_latest, skip or run_all
	CatchUpWindow   time.Duration `db:"catch_up_window"`
	OverlapPolicy   string        `db:"overlap_policy"`   // skip, queue or allow
	PauseAfter      int           `db:"pause_after"`      // failures in a row; 0 means never
	MaxCredits      Credits       `db:"max_credits"`      // of one run; 0 means no limit besides the agent's
	SessionID       string        `db:"session_id"`       // that is reused; empty before the first run
	Anchor          time.Time     `db:"anchor"`           // an interval is counted from here
	Cursor          time.Time     `db:"cursor"`           // instants up to here are dealt with
	NextAt          time.Time     `db:"next_at"`          // the next instant; zero if there is none
	PlannedAt       time.Time     `db:"planned_at"`       // when it was created or resumed, or its instants were changed
	TrimmedAt       time.Time     `db:"trimmed_at"`       // runs up to here may have been removed
	RecordedThrough time.Time     `db:"recorded_through"` // instants after Cursor and up to here may have a run already; see decision 0025
	Failures        int           `db:"failures"`         // in a row
	Counts          TaskCounts    // of all its runs
	LastRun         *TaskRun      // that was not skipped; nil before the first one
	Revision        int64         `db:"revision"`
	CreatedAt       time.Time     `db:"created_at"`
	UpdatedAt       time.Time     `db:"updated_at"`
}

// TaskCounts counts the runs of a task. Started includes running ones; Scheduled is the
// part of Started that the schedule started.
type TaskCounts struct {
	Started   int64 `db:"count_started"`
	Scheduled int64 `db:"count_scheduled"`
	Completed int64 `db:"count_completed"`
	Failed    int64 `db:"count_failed"`
	Cancelled int64 `db:"count_cancelled"`
	Skipped   int64 `db:"count_skipped"`
}

// The policies of a [ScheduledTask].
const (
	SessionNew   = "new"
	SessionReuse = "reuse"

	MissedRunLatest = "run_latest"
	MissedSkip      = "skip"
	MissedRunAll    = "run_all"

	OverlapSkip  = "skip"
	OverlapQueue = "queue"
	OverlapAllow = "allow"
)

// Finished reports whether the schedule has no instant left.
func (t ScheduledTask) Finished() bool {
	return t.MaxRuns > 0 && t.Counts.Scheduled >= t.MaxRuns || t.Enabled && t.NextAt.IsZero()
}

// A TaskRun is the result of one instant of a task. Its status is that of its
// turn, queued before it has one, or skipped.
type TaskRun struct {
	ID           string        `db:"id"`
	TaskID       string        `db:"task_id"`
	AccountID    string        `db:"account_id"`
	ScheduledFor time.Time     `db:"scheduled_for"`
	Trigger      string        `db:"trigger_kind"` // schedule, catch_up or manual
	Status       string        `db:"status"`
	SkipReason   string        `db:"skip_reason"` // of a skipped one
	Waiting      TaskWait      `db:"waiting"`     // the reason why it has no session yet; empty if it has one or needs none
	Instants     int64         `db:"instants"`    // more than 1: a row for all skipped instants up to Through
	Through      time.Time     `db:"through"`     // the last of these
	SessionID    string        `db:"session_id"`  // may be empty
	Turn         int64         `db:"turn"`        // of the session
	Delay        time.Duration `db:"delay"`       // from the instant to the session
	Revision     int64         `db:"revision"`
	CreatedAt    time.Time     `db:"created_at"`
	StartedAt    time.Time     `db:"started_at"` // of the session; zero until then
	FinishedAt   time.Time     `db:"finished_at"`
	Failure      *Failure      // of its turn; only in lists
	Spent        Credits       // by its turn; only in lists
}

// The triggers of a run.
const (
	TriggerSchedule = "schedule"
	TriggerCatchUp  = "catch_up"
	TriggerManual   = "manual"
)

// RunSkipped is the status of a run that never began.
const RunSkipped = "skipped"

// A TaskWait is the reason why a run waits before its session begins.
type TaskWait string

// What a run waits for.
const (
	WaitOverlap  TaskWait = "overlap"  // the end of the run before it
	WaitCapacity TaskWait = "capacity" // a place among the account's queued sessions
)
