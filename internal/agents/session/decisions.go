package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of decisions about calls.
const (
	ApprovalTime     = 24 * time.Hour   // longest wait of a call for its approval
	ConfirmationTime = 15 * time.Minute // longest wait of a call for its visitor, because a visitor either is in the chat or has left
	MaxComment       = 2_000            // characters
	RememberSession  = "session"
)

// ScopeApprovals is the scope that a key needs to decide about calls.
const ScopeApprovals = "approvals:write"

// callWaits has what differs between the inputs about calls, by their kind: programs carry
// out calls, people of the account decide about them, or the visitor of the chat does (see
// docs/decisions/0052-a-visitor-confirms-each-tool-call.md).
var callWaits = map[string]struct {
	reason, prompt string
	time           time.Duration // longest wait; 0 means the maximum of each tool

	denied, late, wrote string // results for the model
}{
	stoa.InputToolCall: {reason: ReasonTool, prompt: "A program of the account has to carry out: "},
	stoa.InputToolApproval: {
		ReasonApproval, "A person has to approve: ", ApprovalTime,
		"Not approved: nothing was done.", "Not approved: there was no decision in time. Nothing was done.", "\nWhoever decided wrote: ",
	},
	stoa.InputToolConfirmation: {
		ReasonVisitor, "The visitor has to confirm: ", ConfirmationTime,
		"The user did not confirm this: nothing was done.", "The user did not confirm this in time. Nothing was done.", "\nThe user wrote instead: ",
	},
}

// WaitForCalls stops the turn until adjacent calls of a step have their outputs or decisions. An
// earlier decision no longer counts, because a call with a PreviousOutcome may have been carried
// out already. If the turn has waited too often it ends.
func (t *Transition) WaitForCalls(step stoa.Step, kind string, calls []stoa.ExternalCall) {
	if !t.Row.CancelAt.IsZero() {
		t.Cancel()
		return
	}
	waits := 0
	t.do(func() (err error) {
		waits, err = t.tx.Work().TurnWaits(t.ctx, t.Row.ID, step.Turn)
		return err
	})
	if waits >= WaitsPerTurn {
		t.Fail(stoa.Failure{Code: codeTooManyWaits, Message: fmt.Sprintf("The turn has waited %d times for outputs or approvals of tools, which is the maximum. Split the task into smaller ones.", waits)})
		return
	}
	about := callWaits[kind]
	in := stoa.Input{Kind: kind, Step: step.Number, AccountID: t.Row.AccountID, AgentID: t.Row.AgentID}
	t.newInput(&in)
	var names []string
	for _, c := range calls {
		longest := cmp.Or(about.time, time.Duration(c.TimeoutSeconds)*time.Second)
		c.Status, c.ExpiresAt = stoa.CallWaiting, t.tx.Now.Add(min(longest, t.s.limits.InputTime))
		switch kind {
		case stoa.InputToolCall:
			c.InputID, c.StartedAt = in.ID, t.tx.Now
			t.called(c)
		case stoa.InputToolConfirmation: // because an approval follows it
			c.ConfirmInputID, c.ApprovalInputID = in.ID, ""
			c.Confirmed, c.ConfirmedBy, c.ConfirmedAt = "", "", time.Time{}
		default:
			c.ApprovalInputID = in.ID
		}
		if kind != stoa.InputToolCall {
			c.Decision, c.DecidedBy, c.DecidedAt, c.Comment = "", "", time.Time{}, ""
		}
		in.Calls = append(in.Calls, c)
		names = append(names, c.Tool)
		t.do(func() error { return t.tx.Work().UpdateToolCall(t.ctx, c) })
	}
	in.Prompt = about.prompt + strings.Join(names, ", ") + "."
	in.ExpiresAt = nextExpiry(in.Calls)
	t.wait(in, about.reason)
	t.changedInputs()
}

// Remember applies remembered decisions to planned calls that need an approval. It skips calls
// that may have been carried out already, because a person must decide about a repetition.
func Remember(calls []stoa.ExternalCall, rules []store.SessionRule) {
	for i := range calls {
		c := &calls[i]
		if c.Approved() || c.Status != stoa.CallPlanned || c.Decision != "" || c.PreviousOutcome != "" {
			continue
		}
		at := slices.IndexFunc(rules, func(r store.SessionRule) bool { return r.Tool == c.Tool && r.SHA256 == c.DefinitionSHA256 })
		if at >= 0 {
			c.Decision, c.DecidedBy, c.DecidedAt = stoa.DecisionRemembered, rules[at].MadeBy, rules[at].CreatedAt
		}
	}
}

// A CallDecision is a person's decision about a call.
type CallDecision struct {
	CallID   string // row: cal_…
	Decision stoa.Decision
	Comment  string // at most MaxComment characters; sent to the model with a rejection
	Remember string // RememberSession: later calls of this tool in this session are approved without a question
}

// decisions applies decisions about calls of an input, which may be only some of them. It
// reports whether any was new. Only the visitor may decide about a confirmation.
func (t *Transition) decisions(in *stoa.Input, c stoa.Caller, req AnswerRequest) (changed bool, err error) {
	var list []CallDecision
	by, waits, about := c.Key.ID, fmt.Sprintf("decision: the input was %s.", in.Status), " about this call"
	switch visitor := in.Kind == stoa.InputToolConfirmation; {
	case visitor && req.EmbedID == "":
		return false, stoa.Errorf(stoa.CodeNotWaiting, "The session waits for its visitor, and only the visitor can confirm this call. To end the wait, cancel the session.").At("inputId")
	case visitor:
		by, waits, about = req.EmbedID, "confirmation.", ""
		list, err = confirmation(in, req)
	case !c.Key.Has(ScopeApprovals):
		return false, stoa.Errorf(stoa.CodeScope, "The key does not have the scope %q, which decisions about calls require.", ScopeApprovals)
	default:
		list, err = listed(in, req)
	}
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
		made := call.Decision
		if in.Kind == stoa.InputToolConfirmation {
			made = call.Confirmed
		}
		switch {
		case made == d.Decision:
			continue
		case made == stoa.DecisionExpired || made == "" && !(call.Open() && t.Row.Pending != nil && t.Row.Pending.ID == in.ID):
			return false, stoa.Errorf(stoa.CodeNotWaiting, "The session no longer waits for this %s", waits).At("inputId")
		case made != "":
			return false, stoa.Errorf(stoa.CodeDecided, "Another decision%s was already made and stays in force: %s.", about, made).At(at + "decision")
		}
		t.decide(in, call, d.Decision, by, d.Comment)
		if d.Remember == RememberSession {
			t.do(func() error {
				return t.tx.Work().InsertSessionRule(t.ctx, t.Row.AccountID, t.Row.ID, store.SessionRule{Tool: call.Tool, SHA256: call.DefinitionSHA256, MadeBy: by, CreatedAt: t.tx.Now})
			})
		}
		changed = true
	}
	if changed {
		t.goOn(in, stoa.InputAnswered)
	}
	return changed, nil
}

func confirmation(in *stoa.Input, req AnswerRequest) ([]CallDecision, error) {
	switch {
	case req.Answer+req.Choice != "" || len(req.Outputs)+len(req.Decisions) > 0:
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q accepts only one \"decision\".", in.Kind).At("decision")
	case req.Decision == "":
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "An input of kind %q requires \"decision\".", in.Kind).At("decision")
	case len(in.Calls) != 1: // because a newer input asks the visitor again
		return nil, stoa.Errorf(stoa.CodeNotWaiting, "The session no longer waits for this confirmation.").At("inputId")
	}
	return []CallDecision{{CallID: in.Calls[0].ID, Decision: stoa.Decision(req.Decision)}}, nil
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

// decide records a decision about a call of an input. An approved call is planned again, so that
// its turn carries it out without a question. A rejected one ends, and the model gets the reason.
func (t *Transition) decide(in *stoa.Input, c *stoa.ExternalCall, d stoa.Decision, by, why string) {
	if in.Kind == stoa.InputToolConfirmation {
		c.Confirmed, c.ConfirmedBy, c.ConfirmedAt = d, by, t.tx.Now
	} else {
		c.Decision, c.DecidedBy, c.DecidedAt, c.Comment = d, by, t.tx.Now, CutRunes(why, MaxComment)
	}
	if d == stoa.DecisionApprove {
		c.Status, c.ExpiresAt = stoa.CallPlanned, time.Time{}
		t.do(func() error { return t.tx.Work().UpdateToolCall(t.ctx, *c) })
		return
	}
	about := callWaits[in.Kind]
	outcome, text := stoa.OutcomeDenied, about.denied
	if d == stoa.DecisionExpired {
		text = about.late
	}
	if c.PreviousOutcome == stoa.OutcomeUnknown {
		outcome, text = stoa.OutcomeUnknown, "Not done again. It is not known whether it was done the first time: look before you try again."
	}
	if why != "" {
		text += about.wrote + why
	}
	t.finishCall(c, outcome, text)
}

// refuse treats a message as the refusal of all undecided calls, because the text of a message is
// never an approval. It queues the turn.
func (t *Transition) refuse(by, message string) {
	in := t.Row.Pending
	for i := range in.Calls {
		if c := &in.Calls[i]; c.Open() {
			t.decide(in, c, stoa.DecisionReject, by, message)
		}
	}
	t.message(stoa.SessionMessage{Turn: in.Turn, Role: stoa.RoleUser, Kind: stoa.KindAnswer, Status: stoa.MessageCompleted, Text: message}, "")
	t.goOn(in, stoa.InputAnswered)
}

// CutRunes returns the first n characters of a text.
func CutRunes(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return text[:byteOffset([]byte(text), n)]
}
