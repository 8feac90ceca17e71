package schedule

import (
	"time"

	"stoa/internal/stoa"
)

// Punctual is how late an instant may be and still count as on time, so that a
// restart or a busy moment does not make a run a missed one.
const Punctual = time.Minute

// Why an instant was skipped.
const (
	SkipMissed  = "missed"            // it passed while no scheduler ran, and the policy runs another one or none
	SkipTooLate = "catch_up_window"   // it is older than the policy's catch-up window
	SkipOverlap = "overlap"           // the run before it had not ended
	SkipFull    = "queue_full"        // too many runs of the task wait already
	SkipPaused  = "paused"            // the task was paused
	SkipAccount = "account_suspended" // the account is suspended
	SkipRefused = "could_not_start"   // the agent did not accept the message
)

// A Verdict is the decision about an instant that is due.
type Verdict struct {
	Trigger string // of an instant that runs: schedule or catch_up
	Skip    string // why it does not run; empty: it runs
}

// Judge decides about a due instant by the policy for missed ones. late is how long
// ago it was; newest means that no later instant of the task is due.
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
