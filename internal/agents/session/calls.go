package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of calls to external tools, which are carried out outside of the service.
const (
	CallsPerStep    = 16
	CallsPerTurn    = 100
	CallsPerChat    = 50 // maximum over all turns
	WaitsPerTurn    = 20
	MaxOutput       = 256 << 10 // bytes
	ShownOutput     = 16 << 10  // bytes of a tool's result in the prompt; the model reads the rest with tool_result_read
	eventArguments  = 4 << 10   // bytes, because the row contains all of them
	longestLease    = 600 * time.Second
	maxResolveNote  = 2_000 // maximum in characters
	resolvedDone    = "done"
	resolvedNotDone = "not_done"
)

// MemoryOwner returns whose memory the session of an agent will have; false if it will have none.
func (req StartRequest) MemoryOwner(a stoa.Agent) (stoa.MemoryOwner, bool) {
	s := stoa.Session{AccountID: a.AccountID, AgentID: a.ID, ExternalUserID: req.ExternalUserID, Trigger: stoa.Trigger{Type: cmp.Or(req.Trigger.Type, triggerAPI)}}
	of, ok := s.MemoryOwner()
	return of, ok && a.CallSettings().Memory == stoa.MemoryUser
}

// WithheldTools returns the tools of programs that a session does not offer, with the reasons. It includes drive_write and memory_write
// in a session of mode once if each call needs an approval.
func WithheldTools(a stoa.Agent, req StartRequest) (list []stoa.Withheld) {
	_, remembers := req.MemoryOwner(a)
	for _, t := range a.Tools {
		if (t.Guards(stoa.DriveWrite) && a.DriveAccess == stoa.DriveReadWrite || t.Guards(stoa.MemoryWrite) && remembers) && req.Mode == stoa.ModeOnce {
			list = append(list, stoa.Withheld{Tool: t.Name, Reason: stoa.WithheldOnce})
		}
		if t.Type != stoa.ToolClient {
			continue
		}
		reason := ""
		switch {
		case req.Mode == stoa.ModeOnce:
			reason = stoa.WithheldOnce
		case req.WithholdTools:
			reason = stoa.WithheldCaller
		case ofOutsider(req.Trigger) && !t.Visitors:
			reason = stoa.WithheldVisitor
		default:
			continue
		}
		list = append(list, stoa.Withheld{Tool: t.Name, Reason: reason})
	}
	return list
}

const (
	triggerAPI   = "api"
	triggerEmbed = "embed"
)

// ofOutsider reports whether the messages of a session that a trigger began are those of people or
// programs outside of the account.
func ofOutsider(t stoa.Trigger) bool { return t.Type == triggerEmbed || t.Type == stoa.TriggerHook }

// Plan records the external calls of a step, with their tools and arguments, and returns them as recorded. It is part of the
// transaction that records the step. A turn with too many calls fails, which stopped reports.
func (t *Transition) Plan(step stoa.Step, calls []stoa.ExternalCall) (planned []stoa.ExternalCall, stopped bool) {
	if len(calls) == 0 {
		return nil, false
	}
	made := 0
	t.do(func() (err error) {
		made, err = t.tx.Work().TurnCalls(t.ctx, t.Row.ID, step.Turn)
		return err
	})
	if made+len(calls) > CallsPerTurn || t.Row.Trigger.Type == triggerEmbed && t.Row.ToolCalls+len(calls) > CallsPerChat {
		t.Fail(stoa.Failure{Code: codeToolLimit, Message: "The turn has reached the maximum number of tool calls. Split the task into smaller ones."})
		return nil, true
	}
	var rules []store.SessionRule
	if slices.ContainsFunc(calls, func(c stoa.ExternalCall) bool { return c.Approval == stoa.ApprovalAlways }) {
		t.do(func() (err error) {
			rules, err = t.tx.Work().SessionRules(t.ctx, t.Row.AccountID, t.Row.ID)
			return err
		})
	}
	for _, c := range calls {
		c.ID, c.AccountID, c.AgentID, c.SessionID = stoa.NewID("cal"), t.Row.AccountID, t.Row.AgentID, t.Row.ID
		c.Turn, c.Step, c.CallID = step.Turn, step.Number, step.Calls[c.Place].ID
		if c.IdempotencyArgument != "" {
			c.Arguments = jsonx.WithMember(c.Arguments, c.IdempotencyArgument, c.ID)
		}
		c.Status, c.CreatedAt = stoa.CallPlanned, t.tx.Now.Add(time.Duration(c.Place)*time.Microsecond) // so that lists are in the order of the calls
		planned = append(planned, c)
	}
	Remember(planned, rules)
	for _, c := range planned {
		t.do(func() error { return t.tx.Work().InsertToolCall(t.ctx, c) })
	}
	t.Row.ToolCalls += len(calls)
	return planned, false
}

func (t *Transition) called(c stoa.ExternalCall) {
	t.event(EventToolCalled, ToolData{
		StepID: stoa.StepID(c.SessionID, c.Turn, c.Step), CallID: c.CallID, Name: c.Tool, Arguments: Cut(c.Arguments, eventArguments),
		ToolCallID: c.ID, ConnectionID: c.ConnectionID, Effects: string(c.Effects), Attempt: attempt(c),
	})
}

func nextExpiry(calls []stoa.ExternalCall) (at time.Time) {
	for _, c := range calls {
		if c.Open() {
			at = earlier(at, c.ExpiresAt)
		}
	}
	return at
}

func (t *Transition) finishCall(c *stoa.ExternalCall, outcome stoa.CallOutcome, text string) {
	t.finishCallAs(c, outcome, text, Shown(text, ShownOutput))
}

// finishCallAs is finishCall with a result for the model that differs from the stored text.
func (t *Transition) finishCallAs(c *stoa.ExternalCall, outcome stoa.CallOutcome, text, told string) {
	c.Status, c.Outcome, c.Result, c.ResultBytes, c.FinishedAt = stoa.CallDone, outcome, text, len(text), t.tx.Now
	result := stoa.ToolResult{CallID: c.CallID, Name: c.Tool, Content: told, IsError: outcome != stoa.OutcomeOK}
	t.do(func() error { return t.tx.Work().UpdateToolCall(t.ctx, *c) })
	t.do(func() error { return t.tx.Work().InsertStepResult(t.ctx, t.Row.ID, c.Turn, c.Step, c.Place, result) })
	t.completed(c)
}

func (t *Transition) completed(c *stoa.ExternalCall) {
	isError := c.Outcome != stoa.OutcomeOK
	data := ToolData{
		StepID: stoa.StepID(c.SessionID, c.Turn, c.Step), CallID: c.CallID, Name: c.Tool, IsError: &isError, Bytes: &c.ResultBytes,
		ToolCallID: c.ID, ConnectionID: c.ConnectionID, Outcome: string(c.Outcome),
	}
	if !c.StartedAt.IsZero() {
		ms := t.tx.Now.Sub(c.StartedAt).Milliseconds()
		data.DurationMS = &ms
	}
	t.event(EventToolDone, data)
	if c.Outcome == stoa.OutcomeUnknown {
		t.do(func() error { return webhook.ToolCallUnknown(t.ctx, t.tx, t.Row.Session, *c) })
	}
	s, done := t.s, *c
	t.tx.AfterCommit(func() {
		s.metrics.ExternalCall(done.Outcome)
		level, text := slog.LevelInfo, "a tool call is done"
		if done.Outcome == stoa.OutcomeUnknown {
			level, text = slog.LevelWarn, "a tool call's outcome is unknown"
		}
		duration := time.Duration(0)
		if !done.StartedAt.IsZero() {
			duration = done.FinishedAt.Sub(done.StartedAt)
		}
		s.log.LogAttrs(context.Background(), level, text, slog.String("call", done.ID), slog.String("tool", done.Tool), slog.String("connection", done.ConnectionID),
			slog.String("session", done.SessionID), slog.String("outcome", string(done.Outcome)), slog.Int("attempts", done.Attempts), slog.Int("bytes", done.ResultBytes),
			slog.Duration("duration", duration))
	})
}

// An Output is a program's result of a call.
type Output struct {
	CallID  string // row: cal_…
	Text    string
	IsError bool
}

// outputs stores outputs for an input, which may be only some of them. It reports whether any was new.
func (t *Transition) outputs(in *stoa.Input, list []Output) (changed bool, err error) {
	seen := map[string]bool{}
	for i, o := range list {
		at := fmt.Sprintf("outputs[%d].", i)
		c := callOf(in.Calls, o.CallID)
		switch {
		case c == nil:
			return false, stoa.Errorf(stoa.CodeToolCallNotFound, "This input has no such call.").At(at + "callId")
		case seen[o.CallID]:
			return false, stoa.Errorf(stoa.CodeInvalidValue, "The call has two outputs in this request. Send one.").At(at + "callId")
		case len(o.Text) > MaxOutput:
			return false, stoa.Errorf(stoa.CodeInvalidValue, "The output has %d bytes; the maximum is %d. Send the part that matters.", len(o.Text), MaxOutput).At(at + "output")
		case given(c):
			if c.Result != o.Text || (c.Outcome == stoa.OutcomeError) != o.IsError {
				return false, stoa.Errorf(stoa.CodeOutputGiven, "A different output was already stored for this call and stays in force.").At(at + "output")
			}
		case !c.Open():
			return false, stoa.Errorf(stoa.CodeNotWaiting, "The session no longer waits for this call: it was %s. The output is stored with the call.", c.Outcome).At(at + "callId")
		default:
			outcome := stoa.OutcomeOK
			if o.IsError {
				outcome = stoa.OutcomeError
			}
			t.finishCall(c, outcome, o.Text)
			changed = true
		}
		seen[o.CallID] = true
	}
	if changed {
		t.goOn(in, stoa.InputAnswered)
	}
	return changed, nil
}

func given(c *stoa.ExternalCall) bool {
	return c.Outcome == stoa.OutcomeOK || c.Outcome == stoa.OutcomeError
}

func callOf(calls []stoa.ExternalCall, id string) *stoa.ExternalCall {
	for i := range calls {
		if calls[i].ID == id {
			return &calls[i]
		}
	}
	return nil
}

// goOn queues the turn when all calls of its input are finished. Until then it waits for the
// next of them to expire.
func (t *Transition) goOn(in *stoa.Input, status stoa.InputStatus) {
	t.changedInputs()
	if next := nextExpiry(in.Calls); !next.IsZero() {
		in.ExpiresAt, t.Row.DueAt = next, next
		t.do(func() error { return t.tx.Work().UpdateInput(t.ctx, *in) })
		t.Row.Pending = in
		return
	}
	in.Status, in.AnsweredAt = status, t.tx.Now
	t.do(func() error { return t.tx.Work().UpdateInput(t.ctx, *in) })
	typ := EventInputAnswered
	if status == stoa.InputExpired {
		typ = EventInputExpired
	}
	t.event(typ, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn})
	t.resume()
}

const noAnswer = "No answer came in time. It may or may not have been done: look before you try again."

func (t *Transition) expireCalls() {
	in := t.Row.Pending
	fails := ""
	for i := range in.Calls {
		c := &in.Calls[i]
		if !c.Open() || c.ExpiresAt.After(t.tx.Now) {
			continue
		}
		if in.Kind != stoa.InputToolCall {
			t.decide(in, c, stoa.DecisionExpired, "", "")
			continue
		}
		if c.OnTimeout == stoa.TimeoutFails {
			fails = c.Tool
		}
		t.finishCall(c, stoa.OutcomeExpired, noAnswer)
	}
	if fails == "" {
		t.goOn(in, stoa.InputExpired)
		return
	}
	in.Status = stoa.InputExpired
	t.do(func() error { return t.tx.Work().UpdateInput(t.ctx, *in) })
	t.event(EventInputExpired, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn})
	t.changedInputs()
	t.Fail(stoa.Failure{Code: codeToolTimeout, Message: fmt.Sprintf("No program returned the output of %s in time. It is unknown whether the call was executed.", fails), Retryable: true})
}

func (t *Transition) cancelCalls() {
	if t.Row.ToolCalls == 0 {
		return
	}
	t.giveUpCalls()
	t.do(func() error { return t.tx.Work().CancelToolCalls(t.ctx, t.Row.ID, t.Row.Turn.Number) })
	if in := t.Row.Pending; in != nil && in.OfTools() {
		for i := range in.Calls {
			if c := &in.Calls[i]; c.Open() {
				c.Status, c.Outcome = stoa.CallDone, cmp.Or(c.PreviousOutcome, stoa.OutcomeCancelled)
				t.completed(c)
			}
		}
		t.changedInputs()
	}
}

// KeepLate stores outputs of calls that ended without one, since the program may have carried
// them out. [Sessions.Answer] rejects such outputs and calls it.
func (s *Sessions) KeepLate(ctx context.Context, accountID, agentID, id string, req AnswerRequest) error {
	late := map[string]string{}
	err := s.read(ctx, accountID, agentID, id, func(tx *store.Tx, row stoa.Session) error {
		in, found, err := tx.Work().Input(ctx, id, req.InputID)
		if err != nil || !found {
			return err
		}
		for _, o := range req.Outputs {
			c := callOf(in.Calls, o.CallID)
			if c != nil && c.Status == stoa.CallDone && !given(c) && c.LateOutput == nil && len(o.Text) <= MaxOutput {
				late[c.ID] = o.Text
			}
		}
		return nil
	})
	if err != nil || len(late) == 0 {
		return err
	}
	return s.store.Write(ctx, func(tx *store.Tx) error {
		for call, text := range late {
			if err := tx.Work().KeepLateOutput(ctx, accountID, call, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// A ClaimRequest claims an input for one executor.
type ClaimRequest struct {
	InputID string
	Lease   time.Duration // at most 600 s
	ClaimID string        // ID of the claim to extend; empty means a new one
}

// ClaimInput reserves an input for one executor until the lease ends. It fails with
// [stoa.CodeNotFound], with [stoa.CodeNotWaiting] if the input has its outputs, and with
// [stoa.CodeInputClaimed] while another executor holds it. Outputs are accepted from any
// executor.
func (s *Sessions) ClaimInput(ctx context.Context, tx *store.Tx, c stoa.Caller, req ClaimRequest) (stoa.Input, error) {
	if req.Lease <= 0 || req.Lease > longestLease {
		return stoa.Input{}, stoa.Errorf(stoa.CodeInvalidValue, "A lease must be between 1 and %d seconds.", int(longestLease.Seconds())).At("leaseSeconds")
	}
	in, err := tx.Work().OpenInput(ctx, c.Account.ID, req.InputID)
	if err != nil {
		return in, err
	}
	_, err = s.edit(ctx, tx, c, "", in.SessionID, func(t *Transition) (bool, error) {
		if in, err = tx.Work().OpenInput(ctx, c.Account.ID, req.InputID); err != nil { // again, because it may have changed before the lock
			return false, err
		}
		if in.Kind != stoa.InputToolCall {
			return false, stoa.Errorf(stoa.CodeNotWaiting, "The input waits for approvals: no call can be executed yet.")
		}
		if in.Status != stoa.InputPending {
			return false, stoa.Errorf(stoa.CodeNotWaiting, "The session no longer waits for this input: it was %s.", in.Status)
		}
		mine := req.ClaimID != "" && req.ClaimID == in.ClaimID
		if left := in.ClaimedUntil.Sub(tx.Now); left > 0 && !mine {
			return false, stoa.Errorf(stoa.CodeInputClaimed, "Another executor has claimed this input, for at most %d seconds.", (left+time.Second-1)/time.Second).After(left)
		}
		in.ClaimedUntil = tx.Now.Add(req.Lease)
		if !mine {
			in.ClaimID = stoa.NewID("clm")
			for i := range in.Calls {
				if call := &in.Calls[i]; call.Open() {
					call.Status = stoa.CallClaimed
					call.Attempts++
					t.do(func() error { return tx.Work().UpdateToolCall(ctx, *call) })
				}
			}
		}
		t.do(func() error { return tx.Work().ClaimInput(ctx, in) })
		t.changedInputs()
		return true, nil
	})
	return in, err
}

// inputsChecked is the polling interval of a wait for inputs, because a lease may have ended, or
// another process may have written the rows, without a notice.
const inputsChecked = time.Second

// OpenInputs lists the inputs of an account that wait for outputs of tools or approvals; see
// [store.Work.OpenInputs]. Without one it waits until an input begins to wait, timeout has
// passed or ctx ends.
func (s *Sessions) OpenInputs(ctx context.Context, accountID string, f store.InputFilter, p store.Page, timeout time.Duration) (list []stoa.Input, next store.Cursor, err error) {
	sub := s.inputs.subscribe(accountID)
	defer sub.close()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	check := time.NewTicker(inputsChecked)
	defer check.Stop()
	reading := context.WithoutCancel(ctx) // because the end of the wait is not a failure
	for {
		changed := sub.changed()
		err = s.store.Read(reading, func(tx *store.Tx) (err error) {
			if f.AgentID != "" {
				if _, err := tx.Setup().Agent(reading, accountID, f.AgentID); err != nil {
					return err
				}
			}
			list, next, err = tx.Work().OpenInputs(reading, accountID, f, p)
			return err
		})
		if err != nil || len(list) > 0 || next != (store.Cursor{}) || timeout <= 0 {
			return list, next, err
		}
		select {
		case <-changed:
		case <-check.C:
		case <-deadline.C:
			timeout = 0
		case <-ctx.Done():
			return list, next, nil
		}
	}
}

func (t *Transition) changedInputs() {
	inputs, account := t.s.inputs, t.Row.AccountID
	t.tx.AfterCommit(func() { inputs.invalidate(account) })
}

// ResolveCall records whether a call without an output was carried out, as a person has found
// out. It changes no turn.
func (s *Sessions) ResolveCall(ctx context.Context, tx *store.Tx, c stoa.Caller, id, outcome, note string) (stoa.ExternalCall, error) {
	call, err := tx.Work().ToolCall(ctx, c.Account.ID, id)
	if err != nil {
		return call, err
	}
	switch {
	case outcome != resolvedDone && outcome != resolvedNotDone:
		return call, stoa.Errorf(stoa.CodeInvalidValue, "The outcome must be %q or %q.", resolvedDone, resolvedNotDone).At("outcome")
	case utf8.RuneCountInString(note) > maxResolveNote:
		return call, stoa.Errorf(stoa.CodeInvalidValue, "The note is longer than %d characters.", maxResolveNote).At("note")
	case call.Status != stoa.CallDone:
		return call, stoa.Errorf(stoa.CodeSessionBusy, "The call is %s: its outcome is not known yet. Send its output, or cancel the session.", call.Status)
	}
	call.Resolution, call.Note, call.ResolvedBy, call.ResolvedAt = outcome, note, c.Key.ID, tx.Now
	return call, tx.Work().ResolveToolCall(ctx, call)
}

// SessionCalls lists the external calls of a session.
func (s *Sessions) SessionCalls(ctx context.Context, accountID, agentID, id string, p store.Page) (list []stoa.ExternalCall, more bool, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) (err error) {
		list, more, err = tx.Work().SessionCalls(ctx, id, p)
		return err
	})
	return list, more, err
}

// Shown returns a tool's result as the model receives it. If it is longer than limit, in bytes, it is cut at a line, and a
// note says so.
func Shown(text string, limit int) string {
	const note = " [cut: the answer was longer]"
	if len(text) <= limit {
		return text
	}
	text = Cut(text, max(limit-len(note), 0))
	if line := strings.LastIndexByte(text, '\n'); line > len(text)/2 {
		text = text[:line+1]
	}
	return text + note
}

// Cut returns the longest prefix of a text that has at most n bytes and ends with a whole
// character.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
