package session

import (
	"fmt"

	"stoa/internal/stoa"
)

// What the model is told of a call of which nobody knows whether it was carried out.
const unknownText = "It is not known whether this was done. Look before you try again."

// StartCall records that the server of a connection is about to be asked for a call. An
// approval of it is used up. Nothing may leave the service before this is committed.
func (t *Transition) StartCall(c *stoa.ExternalCall) {
	c.Status = stoa.CallClaimed
	c.Attempts++
	if c.StartedAt.IsZero() {
		c.StartedAt = t.tx.Now
	}
	t.do(func() error { return t.tx.UpdateToolCall(t.ctx, *c) })
	t.called(*c)
}

// attempt returns which attempt a call of a connection's tool is at; 0 for others.
func attempt(c stoa.ExternalCall) int {
	if c.Type != stoa.ToolConnection {
		return 0
	}
	return c.Attempts
}

// ReplanCall records that a call which was started was not carried out, or may be
// carried out again.
func (t *Transition) ReplanCall(c *stoa.ExternalCall) {
	c.Status = stoa.CallPlanned
	t.do(func() error { return t.tx.UpdateToolCall(t.ctx, *c) })
}

// FinishCall records what came of a call: the whole result, and what the model is told
// of it.
func (t *Transition) FinishCall(c *stoa.ExternalCall, outcome stoa.CallOutcome, text, told string) {
	if c.StartedAt.IsZero() { // its server was not asked, so its event is not written yet
		t.called(*c)
	}
	t.finishCallAs(c, outcome, text, told)
}

// LoseCall records that nobody knows whether a call was carried out. It returns what the
// model is told. ended: the turn has ended with it, as the settings of the tool say; a
// turn that its caller cancels is cancelled all the same.
//
// The setting is kept with the row of the call, so that every end of a turn knows it: the
// process that made the call, the next one, a sweep or a stop. An attempt with an unknown
// outcome leaves a mark (`previousOutcome`): where a repetition is refused, the outcome
// stays unknown, since the last attempt says nothing about the first.
func (t *Transition) LoseCall(c *stoa.ExternalCall) (told string, ended bool) {
	t.finishCall(c, stoa.OutcomeUnknown, unknownText)
	switch {
	case !c.FailsUnknown():
		return unknownText, false
	case !t.Row.CancelAt.IsZero():
		t.Cancel()
	default:
		t.Fail(unknownFailure(c.Tool))
	}
	return unknownText, true
}

// unknownFailure is that of a turn which may not go on after a call of which nobody knows
// whether it was carried out.
func unknownFailure(tool string) stoa.Failure {
	return stoa.Failure{
		Code: codeToolUnknown, Retryable: true,
		Message: fmt.Sprintf("It is not known whether a call of %s was carried out, and then its turn fails. Look whether it was, and then retry the turn or send another message.", tool),
	}
}

// failureWith returns the failure of a turn that ends with f, and with calls which
// servers may be carrying out: that of such a call where its tool says so.
func (t *Transition) failureWith(f stoa.Failure) stoa.Failure {
	if t.Row.ToolCalls == 0 || f.Code == codeToolUnknown {
		return f
	}
	t.do(func() error {
		started, err := t.tx.StartedCalls(t.ctx, t.Row.ID, t.Row.Turn.Number)
		for _, c := range started {
			if c.FailsUnknown() && mayBeDone(c) {
				f = unknownFailure(c.Tool)
				break
			}
		}
		return err
	})
	return f
}

// giveUpCalls ends the calls that servers may be carrying out while their turn ends.
func (t *Transition) giveUpCalls() {
	var started []stoa.ExternalCall
	t.do(func() (err error) {
		started, err = t.tx.StartedCalls(t.ctx, t.Row.ID, t.Row.Turn.Number)
		return err
	})
	for i := range started {
		if c := &started[i]; mayBeDone(*c) {
			t.finishCall(c, stoa.OutcomeUnknown, unknownText)
		} else {
			t.finishCall(c, stoa.OutcomeCancelled, "The turn ended before there was an answer.")
		}
	}
}

// mayBeDone reports whether it would matter that the server has carried out a call which
// is under way: one that only reads is as if it had not been.
func mayBeDone(c stoa.ExternalCall) bool {
	return c.Effects != stoa.EffectsRead || c.PreviousOutcome == stoa.OutcomeUnknown
}
