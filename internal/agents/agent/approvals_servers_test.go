package agent_test

import (
	"context"
	"strings"
	"testing"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// One process asks for an approval and is gone; the approval arrives while no process runs.
// The next process does not ask again, and carries out the call once.
func TestAnApprovalOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall { return []stoa.ToolCall{call("1", fakemcp.Act, `{"key":"a"}`)} }))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		approve(h, c, "always")
		a := h.Agent(using(c))
		first, second := h.Service(), h.Service(shared)
		stop := sessiontest.Run(t, first)
		s := h.Until(first, h.Begin(first, a, "go"), stoa.SessionWaiting)
		in := s.Pending
		if in.Kind != stoa.InputToolApproval || len(f.Calls()) != 0 || in.Calls[0].ConnectionID != c.ID {
			t.Fatalf("it waits for %+v after %d requests", in, len(f.Calls()))
		}
		stop()
		if _, err := decide(h, first, s, decision(in.Calls[0], stoa.DecisionApprove)); err != nil {
			t.Fatal(err)
		}
		sessiontest.Run(t, second)
		got := h.Until(second, s, stoa.SessionCompleted)
		row := callsOf(h, second, s)[0]
		if row.Outcome != stoa.OutcomeOK || row.Attempts != 1 || len(f.Calls()) != 1 || f.Calls()[0].ID != in.Calls[0].ID || strings.Count(h.Log(second, s), "input.requested") != 1 {
			t.Errorf("%+v after %d requests\n%s", row, len(f.Calls()), h.Log(second, s))
		}
		h.CheckBooks(second, got)
	})
}

// A process dies in the middle of an approved call. Its approval is used up: people are asked
// whether to carry it out again, regardless of the effects of the tool, even if they chose
// not to be asked again.
func TestAnApprovalIsUsedUpByItsCall(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]stoa.Decision{fakemcp.Act: stoa.DecisionReject, fakemcp.Put: stoa.DecisionApprove, fakemcp.Read: stoa.DecisionReject} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, home storetest.Database) {
				var results told
				h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall { return []stoa.ToolCall{call("1", name, `{"key":"a"}`)} }))
				f := fakemcp.Start(t)
				f.Next("tools/call", "hold")
				defer f.Release()
				c := connect(h, f, "far")
				approve(h, c, "always")
				a := h.Agent(using(c))
				first, second := h.Service(), h.Service(shared)
				stopFirst := sessiontest.Run(t, first)
				s := h.Until(first, h.Begin(first, a, "go"), stoa.SessionWaiting)
				before := s.Pending.ID
				remember := func(d *session.CallDecision) { d.Remember = session.RememberSession }
				if _, err := decide(h, first, s, decision(s.Pending.Calls[0], stoa.DecisionApprove, remember)); err != nil {
					t.Fatal(err)
				}
				f.Await(func(all []fakemcp.Call) bool { return len(all) == 1 })
				h.Write(endRunners)
				sessiontest.Run(t, second)
				s = h.Until(second, s, stoa.SessionWaiting)
				again := s.Pending
				if again.Kind != stoa.InputToolApproval || again.ID == before || again.Calls[0].PreviousOutcome != stoa.OutcomeUnknown || len(f.Calls()) != 1 {
					t.Fatalf("it waits for %+v after %d requests", again, len(f.Calls()))
				}
				f.Release()
				stopFirst()
				if _, err := decide(h, second, s, decision(again.Calls[0], d)); err != nil {
					t.Fatal(err)
				}
				got, want, outcome := h.Until(second, s, stoa.SessionCompleted), 1, stoa.OutcomeUnknown
				if d == stoa.DecisionApprove {
					want, outcome = 2, stoa.OutcomeOK
				}
				row := callsOf(h, second, s)[0]
				if row.Outcome != outcome || row.Decision != d || len(f.Calls()) != want || f.Effects(row.ID) > 1 {
					t.Errorf("%+v after %d requests and %d effects", row, len(f.Calls()), f.Effects(row.ID))
				}
				if said := results.of("go")[0].Content; d == stoa.DecisionReject && !strings.Contains(said, "not known whether it was done") {
					t.Errorf("the model was told %q", said)
				}
				h.CheckBooks(second, got)
			})
		})
	}
}

// A remembered approval applies to one tool: the same tool of another connection, with the
// same definition, needs its own.
func TestAnApprovalIsRememberedByConnection(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(message string) []stoa.ToolCall {
		return []stoa.ToolCall{{ID: "1", Name: message + "__" + fakemcp.Act, Arguments: `{"key":"a"}`}}
	}))
	f := fakemcp.Start(t)
	staging, production := connect(h, f, "staging"), connect(h, f, "production")
	approve(h, staging, "always")
	approve(h, production, "always")
	a, r := h.Agent(using(staging, production)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "staging"), stoa.SessionWaiting)
	remember := func(d *session.CallDecision) { d.Remember = session.RememberSession }
	if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionApprove, remember)); err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]stoa.SessionStatus{"staging": stoa.SessionCompleted, "production": stoa.SessionWaiting} {
		s = h.Until(r, s, stoa.SessionCompleted)
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
			t.Fatal(err)
		}
		if s = h.Until(r, s, want); s.Status == stoa.SessionWaiting {
			if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionReject)); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.Until(r, s, stoa.SessionCompleted)
	if n := len(f.Calls()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// An approval applies to one call: the next call of the same tool needs its own.
func TestAnApprovalIsOfOneCall(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), one(&results))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	approve(h, c, "always")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, `act {"key":"a"}`)
	for n := range 3 {
		s = h.Until(r, s, stoa.SessionWaiting)
		if s.Pending.Kind != stoa.InputToolApproval || len(f.Calls()) != n {
			t.Fatalf("call %d waits for %+v after %d requests", n, s.Pending, len(f.Calls()))
		}
		if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionApprove)); err != nil {
			t.Fatal(err)
		}
		s = h.Until(r, s, stoa.SessionCompleted)
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: `act {"key":"a"}`}); err != nil {
			t.Fatal(err)
		}
	}
	h.Until(r, s, stoa.SessionWaiting)
}

// A session that is cancelled before the approval of a call is requested does not wait.
func TestACancelComesBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) []stoa.ToolCall {
		return []stoa.ToolCall{call("1", fakemcp.Read, `{"order":"hold"}`), call("2", fakemcp.Act, `{}`)}
	}))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	a := h.Agent(using(c), func(a *stoa.Agent) {
		a.Tools[0].Stricter = []stoa.Stricter{{Name: fakemcp.Act, Approval: stoa.ApprovalAlways}}
	})
	r := h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "go")
	calledTimes(f, fakemcp.Read, 1)
	h.Write(func(ctx context.Context, tx *store.Tx) error { // by another process, without notice to the worker
		_, err := tx.Exec(ctx, `UPDATE sessions SET cancel_at = 1 WHERE id = $1`, s.ID)
		return err
	})
	f.Release()
	h.Until(r, s, stoa.SessionCancelled)
	if got := callsOf(h, r, s); got[1].Outcome != stoa.OutcomeCancelled || got[1].ApprovalInputID != "" || len(f.Calls()) != 1 {
		t.Errorf("the calls are %+v after %d requests", got, len(f.Calls()))
	}
}

// A call that may have been carried out, and waits for a second decision, becomes unknown and
// not cancelled when its session is cancelled.
func TestACancelLeavesADoubt(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), one(&results))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	approve(h, c, "always")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	f.Next("tools/call", "500")
	s := h.Until(r, h.Begin(r, a, `act {}`), stoa.SessionWaiting)
	if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionApprove)); err != nil {
		t.Fatal(err)
	}
	if s = h.Until(r, s, stoa.SessionWaiting); s.Pending.Calls[0].PreviousOutcome != stoa.OutcomeUnknown {
		t.Fatalf("it waits for %+v", s.Pending)
	}
	if _, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionCancelled)
	if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeUnknown {
		t.Errorf("the call is %+v", row)
	}
	if log := h.Log(r, s); !strings.Contains(log, `"outcome":"unknown"`) || strings.Contains(log, `"outcome":"cancelled"`) {
		t.Errorf("the log is\n%s", log)
	}
}

// A tool that gets another approved definition during the turn is not called by an earlier
// call.
func TestAnotherDefinitionIsNotCalled(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) []stoa.ToolCall {
		return []stoa.ToolCall{call("1", fakemcp.Read, `{"order":"hold"}`), call("2", fakemcp.Act, `{}`)}
	}))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "go")
	calledTimes(f, fakemcp.Read, 1)
	f.Change("Acts.", "Acts otherwise.")
	if _, err := h.Tools.Refresh(t.Context(), h.Account.ID, c.ID); err != nil {
		t.Fatal(err)
	}
	approve(h, c, "never")
	f.Release()
	h.Until(r, s, stoa.SessionCompleted)
	if got := callsOf(h, r, s); got[1].Outcome != stoa.OutcomeError || !got[1].StartedAt.IsZero() || len(f.Calls()) != 1 {
		t.Errorf("the calls are %+v after %d requests", got, len(f.Calls()))
	}
}
