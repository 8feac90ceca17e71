package session

import (
	"fmt"

	"stoa/internal/base/stoa"
)

const unknownText = "It is not known whether this was done. Look before you try again."

// StartCall records that a call is about to be sent to the server of a connection, and consumes
// its approval. No request may leave the service before this is committed, because a successor
// would otherwise repeat a call that may have had an effect.
func (t *Transition) StartCall(c *stoa.ExternalCall) {
	c.Status = stoa.CallClaimed
	c.Attempts++
	if c.StartedAt.IsZero() {
		c.StartedAt = t.tx.Now
	}
	t.do(func() error { return t.tx.Work().UpdateToolCall(t.ctx, *c) })
	t.called(*c)
}

func attempt(c stoa.ExternalCall) int {
	if c.Type != stoa.ToolConnection {
		return 0
	}
	return c.Attempts
}

// ReplanCall records that a started call was not carried out, or may be repeated.
func (t *Transition) ReplanCall(c *stoa.ExternalCall) {
	c.Status = stoa.CallPlanned
	t.do(func() error { return t.tx.Work().UpdateToolCall(t.ctx, *c) })
}

// FinishCall records the outcome of a call: the whole result, and the part of it that is sent
// to the model.
func (t *Transition) FinishCall(c *stoa.ExternalCall, outcome stoa.CallOutcome, text, told string) {
	if c.StartedAt.IsZero() { // since it was not sent to its server, its event is not written yet
		t.called(*c)
	}
	t.finishCallAs(c, outcome, text, told)
}

// KeepImages stores the images in the result of a call for the requests of the turn, and
// returns their places.
func (t *Transition) KeepImages(c stoa.ExternalCall, images []*stoa.Media) (stored []stoa.ResultImage) {
	t.do(func() (err error) {
		stored, err = t.tx.Work().InsertResultImages(t.ctx, c, images)
		return err
	})
	return stored
}

// LoseCall records that it is unknown whether a call was carried out. It returns the result
// for the model. ended means that the turn has ended with it, as the settings of the tool
// require; a turn that its caller cancels is cancelled nevertheless.
//
// The setting is stored with the row of the call, so that everything that ends a turn can
// apply it: the process that made the call, its successor, a sweep or a shutdown. An attempt
// with an unknown outcome leaves a mark (`previousOutcome`): if a repetition is refused, the
// outcome stays unknown, since the last attempt says nothing about the first.
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

func unknownFailure(tool string) stoa.Failure {
	return stoa.Failure{
		Code: codeToolUnknown, Retryable: true,
		Message: fmt.Sprintf("It is unknown whether a call of %s was executed, and its settings require that the turn then fails. Check whether it was, and then retry the turn or send another message.", tool),
	}
}

// failureWith returns the failure of a turn that ends with f while servers may be carrying out
// calls. It is about such a call if its tool requires that, otherwise it is f.
func (t *Transition) failureWith(f stoa.Failure) stoa.Failure {
	if t.Row.ToolCalls == 0 || f.Code == codeToolUnknown {
		return f
	}
	t.do(func() error {
		started, err := t.tx.Setup().StartedCalls(t.ctx, t.Row.ID, t.Row.Turn.Number)
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

func (t *Transition) giveUpCalls() {
	var started []stoa.ExternalCall
	t.do(func() (err error) {
		started, err = t.tx.Setup().StartedCalls(t.ctx, t.Row.ID, t.Row.Turn.Number)
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

// mayBeDone reports whether a call in progress may have had an effect. A read-only call
// counts as not carried out.
func mayBeDone(c stoa.ExternalCall) bool {
	return c.Effects != stoa.EffectsRead || c.PreviousOutcome == stoa.OutcomeUnknown
}
