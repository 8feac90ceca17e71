package schedule

import (
	"time"

	"stoa/internal/stoa"
)

// Punctual is how late an instant may be and still count as on time: a restart
// or a moment of much work makes no run a missed one.
const Punctual = time.Minute

// Why an instant was skipped.
const (
	SkipMissed  = "missed"            // its time passed while nobody looked, and the policy runs another one, or none
	SkipTooLate = "catch_up_window"   // it is longer ago than what is caught up with
	SkipOverlap = "overlap"           // the run before it had not ended
	SkipFull    = "queue_full"        // too many of its runs wait already
	SkipPaused  = "paused"            // the task was paused
	SkipAccount = "account_suspended" // nothing starts for the account
	SkipRefused = "could_not_start"   // the agent would not take the message
)

// A Verdict says what becomes of an instant that is due.
type Verdict struct {
	Trigger string // schedule or catch_up, of one that runs
	Skip    string // why it does not run; empty: it does
}

// Judge says what becomes of a due instant, by the policy for missed ones. late
// is how long ago it was, newest that no later one of the same task is due.
func Judge(policy string, window, late time.Duration, newest bool) Verdict {
	switch {
	case newest && late <= Punctual:
		return Verdict{Trigger: stoa.TriggerSchedule}
	case policy == stoa.MissedSkip:
		return Verdict{Skip: SkipMissed}
	case policy == stoa.MissedRunLatest && !newest:
		return Verdict{Skip: SkipMissed}
	case late > max(window, Punctual):
		return Verdict{Skip: SkipTooLate}
	}
	return Verdict{Trigger: stoa.TriggerCatchUp}
}
