package session

import (
	"stoa/internal/stoa"
)

// What the model is told of a call of which nobody knows whether it was carried out.
const unknownText = "It is not known whether this was done. Look before you try again."

// StartCall records that the server of a connection is about to be asked for a call. An
// approval of it is used up. Nothing may leave the service before this is committed.
func (t *Transition) StartCall(step stoa.Step, c *stoa.ExternalCall) {
	c.Status = stoa.CallClaimed
	c.Attempts++
	if c.StartedAt.IsZero() {
		c.StartedAt = t.tx.Now
	}
	t.do(func() error { return t.tx.UpdateToolCall(t.ctx, *c) })
	t.called(step.Calls[c.Place], *c)
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
func (t *Transition) FinishCall(step stoa.Step, c *stoa.ExternalCall, outcome stoa.CallOutcome, text, told string) {
	if c.StartedAt.IsZero() { // its server was not asked, so its event is not written yet
		t.called(step.Calls[c.Place], *c)
	}
	t.finishCallAs(c, outcome, text, told)
}

// LoseCall records that nobody knows whether a call was carried out. It returns what the
// model is told.
func (t *Transition) LoseCall(c *stoa.ExternalCall) string {
	t.finishCall(c, stoa.OutcomeUnknown, unknownText)
	return unknownText
}

// giveUpCalls ends the calls that servers may be carrying out while their turn ends.
func (t *Transition) giveUpCalls() {
	var started []stoa.ExternalCall
	t.do(func() (err error) {
		started, err = t.tx.StartedCalls(t.ctx, t.Row.ID, t.Row.Turn.Number)
		return err
	})
	for i := range started {
		if c := &started[i]; c.Effects == stoa.EffectsRead {
			t.finishCall(c, stoa.OutcomeCancelled, "The turn ended before there was an answer.")
		} else {
			t.LoseCall(c)
		}
	}
}
