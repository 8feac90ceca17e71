package session

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of approvals.
const (
	ApprovalTime    = 24 * time.Hour // longest wait of a call for its approval
	MaxComment      = 2_000          // characters of a comment
	RememberSession = "session"      // see [CallDecision]
)

// ScopeApprovals is the scope that a key needs to decide about calls.
const ScopeApprovals = "approvals:write"

// AskApproval stops the turn until people of the account have decided about calls, which are
// neighbours in their step. A call with a PreviousOutcome may have been carried out already,
// so it needs a new approval.
func (t *Transition) AskApproval(step stoa.Step, calls []stoa.ExternalCall) {
	in, ok := t.newCallInput(step, stoa.InputToolApproval)
	if !ok {
		return
	}
	in.ExpiresAt = t.tx.Now.Add(min(ApprovalTime, t.s.limits.InputTime))
	var names []string
	for _, c := range calls {
		c.Status, c.ApprovalInputID, c.ExpiresAt = stoa.CallWaiting, in.ID, in.ExpiresAt
		c.Decision, c.DecidedBy, c.DecidedAt, c.Comment = "", "", time.Time{}, ""
		in.Calls = append(in.Calls, c)
		names = append(names, c.Tool)
		t.do(func() error { return t.tx.UpdateToolCall(t.ctx, c) })
	}
	in.Prompt = "A person has to approve: " + strings.Join(names, ", ") + "."
	t.askForCalls(in, ReasonApproval)
}

// newCallInput returns an input about calls of a step. If the turn has waited too often it
// ends the turn and returns false.
func (t *Transition) newCallInput(step stoa.Step, kind string) (in stoa.Input, ok bool) {
	if !t.Row.CancelAt.IsZero() {
		t.Cancel()
		return in, false
	}
	waits := 0
	t.do(func() (err error) {
		waits, err = t.tx.TurnWaits(t.ctx, t.Row.ID, step.Turn)
		return err
	})
	if waits >= WaitsPerTurn {
		t.Fail(stoa.Failure{Code: codeTooManyWaits, Message: fmt.Sprintf("The turn has waited %d times for outputs or approvals of tools, which is the maximum. Split the task into smaller ones.", waits)})
		return in, false
	}
	in = stoa.Input{Kind: kind, Step: step.Number, AccountID: t.Row.AccountID, AgentID: t.Row.AgentID}
	t.newInput(&in)
	return in, true
}

// askForCalls writes an input about calls, writes the calls, and stops the turn for it.
func (t *Transition) askForCalls(in stoa.Input, reason string) {
	t.do(func() error { return t.tx.InsertInput(t.ctx, in) })
	t.event(EventInputRequested, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn, Prompt: in.Prompt, ExpiresAt: timeText(in.ExpiresAt), Calls: callData(in.Calls), Confirmation: ConfirmationOf(&in)})
	t.wait(in, reason)
	t.changedInputs()
}

func (t *Transition) rules() (rules []store.SessionRule) {
	t.do(func() (err error) {
		rules, err = t.tx.SessionRules(t.ctx, t.Row.AccountID, t.Row.ID)
		return err
	})
	return rules
}

func ruleOf(rules []store.SessionRule, tool, sha256 string) (store.SessionRule, bool) {
	i := slices.IndexFunc(rules, func(r store.SessionRule) bool { return r.Tool == tool && r.SHA256 == sha256 })
	if i < 0 {
		return store.SessionRule{}, false
	}
	return rules[i], true
}

// Remember applies remembered decisions to planned calls that need an approval, except to
// calls that may have been carried out already.
func Remember(calls []stoa.ExternalCall, rules []store.SessionRule) {
	for i := range calls {
		c := &calls[i]
		if c.Approved() || c.Status != stoa.CallPlanned || c.Decision != "" || c.PreviousOutcome != "" {
			continue
		}
		if r, found := ruleOf(rules, c.Tool, c.DefinitionSHA256); found {
			c.Decision, c.DecidedBy, c.DecidedAt = stoa.DecisionRemembered, r.MadeBy, r.CreatedAt
		}
	}
}

// A CallDecision is a person's decision about a call.
type CallDecision struct {
	CallID   string // of the row: cal_…
	Decision stoa.Decision
	Comment  string // at most MaxComment characters; sent to the model with a rejection
	Remember string // RememberSession: later calls of this tool in this session are approved without a question
}

// decisions applies decisions about calls of an input, which may be only some of them. It
// reports whether any was new.
func (t *Transition) decisions(in *stoa.Input, c stoa.Caller, req AnswerRequest) (changed bool, err error) {
	if !c.Key.Has(ScopeApprovals) {
		return false, stoa.Errorf(stoa.CodeScope, "The key does not have the scope %q, which decisions about calls require.", ScopeApprovals)
	}
	list, err := listed(in, req)
	if err != nil {
		return false, err
	}
	seen := map[string]bool{}
	for i, d := range list {
		at := fmt.Sprintf("decisions[%d].", i)
		if req.Decision != "" {
			at = ""
		}
		call := callOf(in.Calls, d.CallID)
		if err := checkDecision(d, call, seen[d.CallID], at); err != nil {
			return false, err
		}
		seen[d.CallID] = true
		switch {
		case call.Decision == d.Decision:
			continue // already decided
		case call.Decision == stoa.DecisionExpired || call.Decision == "" && !(call.Open() && t.waitsFor(in)):
			return false, stoa.Errorf(stoa.CodeNotWaiting, "The session no longer waits for this decision: the input was %s.", in.Status).At("inputId")
		case call.Decision != "":
			return false, stoa.Errorf(stoa.CodeDecided, "Another decision about this call was already made and stays in force: %s.", call.Decision).At(at + "decision")
		}
		if d.Decision == stoa.DecisionApprove {
			t.approve(call, c.Key.ID, d)
		} else {
			t.deny(call, stoa.DecisionReject, c.Key.ID, d.Comment, d.Comment)
		}
		changed = true
	}
	if changed {
		t.goOn(in, stoa.InputAnswered)
	}
	return changed, nil
}

// waitsFor reports whether the session waits for this input.
func (t *Transition) waitsFor(in *stoa.Input) bool {
	return t.Row.Pending != nil && t.Row.Pending.ID == in.ID
}

// listed returns the decisions of a request: one for each call that it names, or the single
// decision for all undecided calls. If all calls are decided, the single decision applies to
// the calls with the same decision or, if none exists, to all.
func listed(in *stoa.Input, req AnswerRequest) (list []CallDecision, err error) {
	switch {
	case req.Answer+req.Choice != "" || len(req.Outputs) > 0 || req.Decision != "" && len(req.Decisions) > 0:
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q accepts only \"decisions\", or one \"decision\" for all its calls.", in.Kind).At("decisions")
	case req.Decision == "" && len(req.Decisions) == 0:
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "An input of kind %q requires \"decisions\", or one \"decision\" for all its calls.", in.Kind).At("decisions")
	case req.Decision == "":
		return req.Decisions, nil
	}
	d := stoa.Decision(req.Decision)
	for _, wanted := range []func(c stoa.ExternalCall) bool{
		func(c stoa.ExternalCall) bool { return c.Open() },
		func(c stoa.ExternalCall) bool { return c.Decision == d },
		func(stoa.ExternalCall) bool { return true },
	} {
		for _, c := range in.Calls {
			if wanted(c) {
				list = append(list, CallDecision{CallID: c.ID, Decision: d})
			}
		}
		if len(list) > 0 {
			break
		}
	}
	return list, nil
}

func checkDecision(d CallDecision, call *stoa.ExternalCall, seen bool, at string) error {
	switch {
	case call == nil:
		return stoa.Errorf(stoa.CodeToolCallNotFound, "This input has no such call.").At(at + "callId")
	case seen:
		return stoa.Errorf(stoa.CodeInvalidValue, "The call has two decisions in this request. Send one.").At(at + "callId")
	case d.Decision != stoa.DecisionApprove && d.Decision != stoa.DecisionReject:
		return stoa.Errorf(stoa.CodeInvalidValue, "The decision must be \"approve\" or \"reject\".").At(at + "decision")
	case utf8.RuneCountInString(d.Comment) > MaxComment:
		return stoa.Errorf(stoa.CodeInvalidValue, "The comment is longer than %d characters.", MaxComment).At(at + "comment")
	case d.Remember == RememberSession && d.Decision != stoa.DecisionApprove:
		return stoa.Errorf(stoa.CodeInvalidValue, "Only an approval can be remembered.").At(at + "remember")
	}
	return nil
}

// approve returns a call to the planned state. Its turn then carries it out without a
// question.
func (t *Transition) approve(c *stoa.ExternalCall, by string, d CallDecision) {
	c.Status, c.ExpiresAt = stoa.CallPlanned, time.Time{}
	c.Decision, c.DecidedBy, c.DecidedAt, c.Comment = stoa.DecisionApprove, by, t.tx.Now, d.Comment
	t.do(func() error { return t.tx.UpdateToolCall(t.ctx, *c) })
	if d.Remember == RememberSession {
		t.do(func() error {
			return t.tx.InsertSessionRule(t.ctx, t.Row.AccountID, t.Row.ID, store.SessionRule{Tool: c.Tool, SHA256: c.DefinitionSHA256, MadeBy: by, CreatedAt: t.tx.Now})
		})
	}
}

// deny ends a call that was not approved, and passes the reason to the model.
func (t *Transition) deny(c *stoa.ExternalCall, decision stoa.Decision, by, comment, why string) {
	c.Decision, c.DecidedBy, c.DecidedAt, c.Comment = decision, by, t.tx.Now, comment
	text := "Not approved: nothing was done."
	if decision == stoa.DecisionExpired {
		text = "Not approved: there was no decision in time. Nothing was done."
	}
	if why != "" {
		why = "\nWhoever decided wrote: " + why
	}
	t.notDone(c, text, why)
}

// notDone ends a call that is not carried out or not repeated.
func (t *Transition) notDone(c *stoa.ExternalCall, text, why string) {
	outcome := stoa.OutcomeDenied
	if c.PreviousOutcome == stoa.OutcomeUnknown {
		outcome, text = stoa.OutcomeUnknown, "Not done again. It is not known whether it was done the first time: look before you try again."
	}
	t.finishCall(c, outcome, text+why)
}

// denyAll ends all undecided calls.
func (t *Transition) denyAll(decision stoa.Decision, by, why string) {
	in := t.Row.Pending
	for i := range in.Calls {
		if c := &in.Calls[i]; c.Open() {
			t.deny(c, decision, by, CutRunes(why, MaxComment), why)
		}
	}
}

// refuse treats a message as the refusal of all undecided calls. The text of a message is
// never an approval.
func (t *Transition) refuse(by, message string) {
	t.denyAll(stoa.DecisionReject, by, message)
	t.saidInstead(message)
}

// CutRunes returns the first n characters of a text.
func CutRunes(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return text[:byteOffset([]byte(text), n)]
}
