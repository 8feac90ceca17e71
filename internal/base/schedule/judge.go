package schedule

import (
	"time"

	"stoa/internal/base/stoa"
)

// Punctual is the maximum delay of an instant that counts as on time, so that a restart or a
// busy moment does not turn a run into a missed one.
const Punctual = time.Minute

// The reasons for skipping an instant.
const (
	SkipMissed  = "missed"            // no scheduler was running, and the policy runs another one or none
	SkipTooLate = "catch_up_window"   // it is older than the policy's catch-up window
	SkipOverlap = "overlap"           // the run before it had not ended
	SkipFull    = "queue_full"        // too many runs of the task are already waiting
	SkipPaused  = "paused"            // the task was paused
	SkipAccount = "account_suspended" // the account is suspended
	SkipRefused = "could_not_start"   // the agent did not accept the message
)

// A Verdict is the decision about a due instant.
type Verdict struct {
	Trigger string // schedule or catch_up for an instant that runs
	Skip    string // reason why it does not run; empty if it does
}

// Judge decides about a due instant by the policy for missed ones. late is its delay; newest
// means that no later instant of the task is due.
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
