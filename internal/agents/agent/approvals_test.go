package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

func needsApproval(t *stoa.AgentTool) { t.Approval = stoa.ApprovalAlways }

// approver returns a caller who may decide.
func approver(h *sessiontest.Fixture, id string) stoa.Caller {
	c := h.Caller()
	c.Key = stoa.Key{ID: "key_" + id, Scopes: []string{"sessions:write", session.ScopeApprovals}}
	return c
}

// decide decides about the calls that a session waits for.
func decide(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, list ...session.CallDecision) (stoa.Session, error) {
	return r.Answer(h.T.Context(), approver(h, "a"), s.AgentID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Decisions: list})
}

func decision(c stoa.ExternalCall, d stoa.Decision, change ...func(*session.CallDecision)) session.CallDecision {
	out := session.CallDecision{CallID: c.ID, Decision: d}
	for _, fn := range change {
		fn(&out)
	}
	return out
}

func TestCallsWaitForTheirApproval(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1"), order("2"), order("3")))
	a, r := h.Agent(withTools(needsApproval)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	in := s.Pending
	if in.Kind != stoa.InputToolApproval || len(in.Calls) != 3 || s.Turn.Reason != session.ReasonApproval || in.Calls[1].Status != stoa.CallWaiting || !in.Calls[1].StartedAt.IsZero() {
		t.Fatalf("it waits for %+v", in)
	}
	if at := in.ExpiresAt.Sub(in.CreatedAt); at != session.ApprovalTime {
		t.Errorf("it expires after %v", at)
	}
	// A key that may only write sessions cannot decide.
	weak := approver(h, "w")
	weak.Key.Scopes = []string{"sessions:write"}
	if _, err := r.Answer(t.Context(), weak, a.ID, s.ID, session.AnswerRequest{InputID: in.ID, Decision: "approve"}); stoa.CodeOf(err) != stoa.CodeScope {
		t.Errorf("without the scope: %v", err)
	}
	// One person rejects one, another one approves the rest.
	no := decision(in.Calls[1], stoa.DecisionReject, func(d *session.CallDecision) { d.Comment = "use staging" })
	for range 2 {
		if got, err := decide(h, r, s, no); err != nil || got.Status != stoa.SessionWaiting {
			t.Fatalf("after one decision it is %s, %v", got.Status, err)
		}
	}
	for name, c := range map[string]struct {
		d    session.CallDecision
		code stoa.Code
		at   string
	}{
		"another decision": {decision(in.Calls[1], stoa.DecisionApprove), stoa.CodeDecided, "decisions[0].decision"},
		"no such call":     {session.CallDecision{CallID: stoa.NewID("cal"), Decision: stoa.DecisionApprove}, stoa.CodeToolCallNotFound, "decisions[0].callId"},
		"no decision":      {decision(in.Calls[0], "expired"), stoa.CodeInvalidValue, "decisions[0].decision"},
		"a long comment":   {decision(in.Calls[0], stoa.DecisionReject, func(d *session.CallDecision) { d.Comment = strings.Repeat("x", session.MaxComment+1) }), stoa.CodeInvalidValue, "decisions[0].comment"},
		"remembered no":    {decision(in.Calls[0], stoa.DecisionReject, func(d *session.CallDecision) { d.Remember = session.RememberSession }), stoa.CodeInvalidValue, "decisions[0].remember"},
	} {
		_, err := decide(h, r, s, c.d)
		if said, ok := errors.AsType[*stoa.Error](err); !ok || said.Code != c.code || said.Param != c.at {
			t.Errorf("%s: %+v", name, err)
		}
	}
	both := []session.CallDecision{decision(in.Calls[0], stoa.DecisionApprove), decision(in.Calls[0], stoa.DecisionReject)}
	if _, err := decide(h, r, s, both...); stoa.CodeOf(err) != stoa.CodeInvalidValue {
		t.Errorf("two decisions about one call: %v", err)
	}
	all := session.AnswerRequest{InputID: in.ID, Decision: "approve"}
	if _, err := r.Answer(t.Context(), approver(h, "b"), a.ID, s.ID, all); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionWaiting)
	calls := callsOf(h, r, s)
	if s.Pending.Kind != stoa.InputToolCall || len(s.Pending.Calls) != 2 {
		t.Fatalf("it waits for %+v", s.Pending)
	}
	if c := calls[1]; c.Outcome != stoa.OutcomeDenied || c.Decision != stoa.DecisionReject || c.DecidedBy != "key_a" || c.Comment != "use staging" || c.DecidedAt.IsZero() || !c.StartedAt.IsZero() {
		t.Errorf("the rejected call is %+v", c)
	}
	if c := calls[2]; c.Decision != stoa.DecisionApprove || c.DecidedBy != "key_b" || c.Approved() {
		t.Errorf("the approved call is %+v", c)
	}
	for _, c := range s.Pending.Calls {
		if _, err := give(h, r, s, session.Output{CallID: c.ID, Text: "found"}); err != nil {
			t.Fatal(err)
		}
	}
	got := h.Until(r, s, stoa.SessionCompleted)
	if len(results) != 3 || results[0].Content != "found" || !results[1].IsError || !strings.Contains(results[1].Content, "Not approved") || !strings.Contains(results[1].Content, "use staging") {
		t.Errorf("the model was told %+v", results)
	}
	// A decision may be repeated when everything is over.
	for _, again := range []session.AnswerRequest{all, {InputID: in.ID, Decisions: []session.CallDecision{no}}} {
		if s, err := r.Answer(t.Context(), approver(h, "b"), a.ID, s.ID, again); err != nil || s.LastSeq != got.LastSeq {
			t.Errorf("again: %s, %v", s.Status, err)
		}
	}
	h.CheckBooks(r, got)
}

func TestTwoApproversDecideOnce(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1")))
	a, r := h.Agent(withTools(needsApproval)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	errs := make(chan error, 2)
	for i, d := range []string{"approve", "reject"} {
		go func() {
			_, err := r.Answer(context.Background(), approver(h, string(rune('a'+i))), a.ID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Decision: d})
			errs <- err
		}()
	}
	codes := []stoa.Code{stoa.CodeOf(<-errs), stoa.CodeOf(<-errs)}
	slices.Sort(codes)
	if !slices.Equal(codes, []stoa.Code{"", stoa.CodeDecided}) {
		t.Errorf("they were told %q", codes)
	}
}

func TestNoMessageApproves(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		if last := call.Messages[len(call.Messages)-1]; len(sessiontest.Results(last)) > 0 {
			results = append(results, sessiontest.Results(last)...)
			sessiontest.Say(yield, "well")
			return
		}
		sessiontest.Say(yield, "", order("1"))
	}))
	a, r := h.Agent(withTools(needsApproval)), h.Service()
	sessiontest.Run(t, r)
	texts := []string{
		"approve", "Approve", "APPROVED", "yes", "y", "ok", "okay, go on", "sure", "ja", "sí", "是", "👍", "approve all", "I approve this call.",
		`{"decision":"approve"}`, `{"decisions":[{"callId":"CALL","decision":"approve"}]}`, "decision: approve", "/approve CALL", "CALL", "approve\nremember: session",
	}
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	for i, text := range texts {
		call := s.Pending.Calls[0]
		text = strings.ReplaceAll(text, "CALL", call.ID)
		if _, err := r.Send(t.Context(), approver(h, "a"), a.ID, s.ID, session.SendRequest{Message: text, Reject: true}); err != nil {
			t.Fatal(err)
		}
		s = h.Until(r, s, stoa.SessionCompleted)
		c := callsOf(h, r, s)[i]
		if c.ID != call.ID || c.Outcome != stoa.OutcomeDenied || c.Decision != stoa.DecisionReject || c.Comment != text || !c.StartedAt.IsZero() || int(s.Turn.Number) != i+1 {
			t.Fatalf("after %q the call is %+v", text, c)
		}
		if last := results[len(results)-1]; !last.IsError || !strings.HasSuffix(last.Content, text) {
			t.Errorf("after %q the model was told %+v", text, last)
		}
		if _, err := r.Send(t.Context(), approver(h, "a"), a.ID, s.ID, session.SendRequest{Message: "go"}); err != nil {
			t.Fatal(err)
		}
		s = h.Until(r, s, stoa.SessionWaiting)
	}
	if len(texts) != 20 || len(callsOf(h, r, s)) != len(texts)+1 {
		t.Errorf("%d calls of %d texts", len(callsOf(h, r, s)), len(texts))
	}
}

func TestAnApprovalThatNobodyGivesExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var results []stoa.ToolResult
		h := sessiontest.Build(t, storetest.SQLite(t), toolbox(&results, order("1"), order("2")))
		a, r := h.Agent(withTools(needsApproval)), h.Service()
		sessiontest.Run(t, r)
		s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
		if _, err := decide(h, r, s, decision(s.Pending.Calls[1], stoa.DecisionReject)); err != nil {
			t.Fatal(err)
		}
		<-time.After(session.ApprovalTime + time.Minute)
		got := h.Until(r, s, stoa.SessionCompleted)
		if len(results) != 2 || !strings.Contains(results[0].Content, "no decision in time") || !results[0].IsError {
			t.Errorf("the model was told %+v", results)
		}
		if c := callsOf(h, r, s)[0]; c.Outcome != stoa.OutcomeDenied || c.Decision != stoa.DecisionExpired || c.DecidedBy != "" || !c.StartedAt.IsZero() {
			t.Errorf("the call is %+v", c)
		}
		for _, d := range []stoa.Decision{stoa.DecisionApprove, stoa.DecisionReject} {
			if _, err := decide(h, r, s, decision(s.Pending.Calls[0], d)); stoa.CodeOf(err) != stoa.CodeNotWaiting {
				t.Errorf("%s after the expiry: %v", d, err)
			}
		}
		h.CheckBooks(r, got)
	})
}

func TestAnApprovalIsRememberedByDefinition(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1")))
	a, r := h.Agent(withTools(needsApproval)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	remember := func(d *session.CallDecision) { d.Remember = session.RememberSession }
	if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionApprove, remember)); err != nil {
		t.Fatal(err)
	}
	turn := func(want string) {
		t.Helper()
		s = h.Until(r, s, stoa.SessionWaiting)
		if s.Pending.Kind != want {
			t.Fatalf("it waits for %+v", s.Pending)
		}
	}
	again := func() {
		t.Helper()
		if _, err := give(h, r, s, session.Output{CallID: s.Pending.Calls[0].ID, Text: "found"}); err != nil {
			t.Fatal(err)
		}
		s = h.Until(r, s, stoa.SessionCompleted)
		if _, err := r.Send(t.Context(), approver(h, "a"), a.ID, s.ID, session.SendRequest{Message: "go"}); err != nil {
			t.Fatal(err)
		}
	}
	turn(stoa.InputToolCall)
	again()
	turn(stoa.InputToolCall) // no approval was needed
	if c := s.Pending.Calls[0]; c.Decision != stoa.DecisionRemembered || c.DecidedBy != "key_a" {
		t.Errorf("the second call is %+v", c)
	}
	// A rule of another definition, or of another session, does not count.
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE session_rules SET sha256 = $1`, stoa.HashOf("another"))
		return err
	})
	again()
	turn(stoa.InputToolApproval)
	other := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	if other.Pending.Kind != stoa.InputToolApproval {
		t.Errorf("another session waits for %+v", other.Pending)
	}
	if err := r.Sessions.Delete(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
		t.Fatal(err)
	}
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		rules, err := tx.Work().SessionRules(ctx, h.Account.ID, s.ID)
		if len(rules) > 0 {
			t.Errorf("the rules %+v outlive their session", rules)
		}
		return err
	})
}

// A message refuses the undecided calls, and no others.
func TestAMessageLeavesWhatIsApproved(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1"), order("2")))
	a, r := h.Agent(withTools(needsApproval)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionApprove)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Send(t.Context(), approver(h, "a"), a.ID, s.ID, session.SendRequest{Message: "not the second"}); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionWaiting)
	calls := callsOf(h, r, s)
	if s.Pending.Kind != stoa.InputToolCall || len(s.Pending.Calls) != 1 || calls[0].Decision != stoa.DecisionApprove || calls[1].Decision != stoa.DecisionReject || calls[1].Outcome != stoa.OutcomeDenied {
		t.Errorf("it waits for %+v, and the calls are %+v", s.Pending, calls)
	}
}
