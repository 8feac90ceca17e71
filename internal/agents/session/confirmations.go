package session

import (
	"time"

	"stoa/internal/base/stoa"
)

// ConfirmationTime is the longest wait of a call for its visitor.
const ConfirmationTime = 15 * time.Minute

// AskVisitor stops the turn until the visitor of the chat has confirmed or declined a call,
// or the time for that is over. An earlier decision about the call no longer counts. See
// docs/decisions/0052-a-visitor-confirms-each-tool-call.md.
func (t *Transition) AskVisitor(step stoa.Step, c stoa.ExternalCall) {
	in, ok := t.newCallInput(step, stoa.InputToolConfirmation)
	if !ok {
		return
	}
	in.ExpiresAt = t.tx.Now.Add(min(ConfirmationTime, t.s.limits.InputTime))
	in.Prompt = "The visitor has to confirm: " + c.Tool + "."
	c.Status, c.ExpiresAt, c.ConfirmInputID, c.ApprovalInputID = stoa.CallWaiting, in.ExpiresAt, in.ID, ""
	c.Confirmed, c.ConfirmedBy, c.ConfirmedAt = "", "", time.Time{}
	c.Decision, c.DecidedBy, c.DecidedAt, c.Comment = "", "", time.Time{}, ""
	in.Calls = []stoa.ExternalCall{c}
	t.do(func() error { return t.tx.UpdateToolCall(t.ctx, c) })
	t.askForCalls(in, ReasonVisitor)
}

// confirmation applies a visitor's decision about the call of an input. It reports whether
// the decision was new. Only the visitor can make it.
func (t *Transition) confirmation(in *stoa.Input, req AnswerRequest) (changed bool, err error) {
	d := stoa.Decision(req.Decision)
	over := stoa.Errorf(stoa.CodeNotWaiting, "The session no longer waits for this confirmation.").At("inputId")
	switch {
	case req.EmbedID == "":
		return false, stoa.Errorf(stoa.CodeNotWaiting, "The session waits for its visitor, and only the visitor can confirm this call. To end the wait, cancel the session.").At("inputId")
	case req.Answer+req.Choice != "" || len(req.Outputs)+len(req.Decisions) > 0:
		return false, stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q accepts only one \"decision\".", in.Kind).At("decision")
	case d == "":
		return false, stoa.Errorf(stoa.CodeMissingParameter, "An input of kind %q requires \"decision\".", in.Kind).At("decision")
	case d != stoa.DecisionApprove && d != stoa.DecisionReject:
		return false, stoa.Errorf(stoa.CodeInvalidValue, "The decision must be \"approve\" or \"reject\".").At("decision")
	case len(in.Calls) != 1: // a newer input asks the visitor again
		return false, over
	}
	c := &in.Calls[0]
	switch {
	case c.Confirmed == d:
		return false, nil // already decided
	case c.Confirmed == stoa.DecisionExpired || c.Confirmed == "" && !(c.Open() && t.waitsFor(in)):
		return false, over
	case c.Confirmed != "":
		return false, stoa.Errorf(stoa.CodeDecided, "Another decision was already made and stays in force: %s.", c.Confirmed).At("decision")
	}
	if d == stoa.DecisionReject {
		t.decline(c, d, req.EmbedID, "")
	} else {
		c.Status, c.ExpiresAt = stoa.CallPlanned, time.Time{}
		c.Confirmed, c.ConfirmedBy, c.ConfirmedAt = d, req.EmbedID, t.tx.Now
		t.do(func() error { return t.tx.UpdateToolCall(t.ctx, *c) })
	}
	t.goOn(in, stoa.InputAnswered)
	return true, nil
}

// decline ends a call that its visitor has not confirmed, and passes the reason to the model.
func (t *Transition) decline(c *stoa.ExternalCall, decision stoa.Decision, by, why string) {
	c.Confirmed, c.ConfirmedBy, c.ConfirmedAt = decision, by, t.tx.Now
	text := "The user did not confirm this: nothing was done."
	if decision == stoa.DecisionExpired {
		text = "The user did not confirm this in time. Nothing was done."
	}
	if why != "" {
		why = "\nThe user wrote instead: " + why
	}
	t.notDone(c, text, why)
}

// declineBy treats a visitor's message as the refusal of the call that waits for the visitor.
// The text of a message never confirms a call.
func (t *Transition) declineBy(embedID, message string) {
	in := t.Row.Pending
	for i := range in.Calls {
		if c := &in.Calls[i]; c.Open() {
			t.decline(c, stoa.DecisionReject, embedID, message)
		}
	}
	t.saidInstead(message)
}

// saidInstead adds a message that ends the session's wait, and queues the turn.
func (t *Transition) saidInstead(message string) {
	in := t.Row.Pending
	t.message(stoa.SessionMessage{Turn: in.Turn, Role: stoa.RoleUser, Kind: stoa.KindAnswer, Status: stoa.MessageCompleted, Text: message}, "")
	t.goOn(in, stoa.InputAnswered)
}
