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
	KeyID           string      `db:"key_id"` // creating key, whose limits apply and which receipts name
	Name            string      `db:"name"`
	Message         string      `db:"message"`
	Mode            SessionMode `db:"mode"`
	Schedule        Schedule
	StartAt         time.Time     `db:"start_at"` // earliest instant; zero means no limit
	EndAt           time.Time     `db:"end_at"`   // latest instant; zero means no limit
	MaxRuns         int64         `db:"max_runs"` // maximum number of scheduled runs; 0 means no limit
	Enabled         bool          `db:"enabled"`
	PauseReason     string        `db:"pause_reason"`   // reason why it is not enabled: user or failures
	SessionPolicy   string        `db:"session_policy"` // new or reuse
	MissedPolicy    string        `db:"missed_policy"`  // run_latest, skip or run_all
	CatchUpWindow   time.Duration `db:"catch_up_window"`
	OverlapPolicy   string        `db:"overlap_policy"`   // skip, queue or allow
	PauseAfter      int           `db:"pause_after"`      // number of consecutive failures; 0 means never
	MaxCredits      Credits       `db:"max_credits"`      // limit of one run; 0 means no limit besides the agent's
	SessionID       string        `db:"session_id"`       // reused session; empty before the first run
	Anchor          time.Time     `db:"anchor"`           // origin from which intervals are counted
	Cursor          time.Time     `db:"cursor"`           // instants up to this one are processed
	NextAt          time.Time     `db:"next_at"`          // the next instant; zero if there is none
	PlannedAt       time.Time     `db:"planned_at"`       // time of creation, resumption or a change of its instants
	TrimmedAt       time.Time     `db:"trimmed_at"`       // runs up to this time may have been removed
	RecordedThrough time.Time     `db:"recorded_through"` // instants after Cursor and up to here may already have a run; see decision 0025
	Failures        int           `db:"failures"`
	Counts          TaskCounts    // sums of all its runs
	LastRun         *TaskRun      // newest run that was not skipped; nil before the first one
	Revision        int64         `db:"revision"`
	CreatedAt       time.Time     `db:"created_at"`
	UpdatedAt       time.Time     `db:"updated_at"`
}

// TaskCounts counts the runs of a task. Started includes running ones; Scheduled is the
// part of Started that the schedule started, because manual runs do not count for MaxRuns.
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
	SkipReason   string        `db:"skip_reason"`
	Waiting      TaskWait      `db:"waiting"`    // reason why it has no session yet; empty if it has one or needs none
	Instants     int64         `db:"instants"`   // more than 1 means one row for all skipped instants up to Through, so that a long pause adds one row
	Through      time.Time     `db:"through"`    // last of these instants
	SessionID    string        `db:"session_id"` // may be empty
	Turn         int64         `db:"turn"`
	Delay        time.Duration `db:"delay"` // time from the instant to the session
	Revision     int64         `db:"revision"`
	CreatedAt    time.Time     `db:"created_at"`
	StartedAt    time.Time     `db:"started_at"` // start of the session; zero before
	FinishedAt   time.Time     `db:"finished_at"`
	Failure      *Failure      // failure of its turn; only in lists
	Spent        Credits       // credits of its turn; only in lists
}

// The triggers of a run.
const (
	TriggerSchedule = "schedule"
	TriggerCatchUp  = "catch_up"
	TriggerManual   = "manual"
)

// RunSkipped is the status of a run that never began.
const RunSkipped = "skipped"

// A TaskWait is the reason why a run's session has not begun.
type TaskWait string

// The reasons.
const (
	WaitOverlap  TaskWait = "overlap"  // the run before it has not ended
	WaitCapacity TaskWait = "capacity" // the account has no place for another queued session
)
