package agent_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// confirmed reviews all tools of a connection so that visitors confirm their calls, and see
// the argument key.
func confirmed(h *sessiontest.Fixture, c store.Connection, approval string, change ...func(*tool.Decision)) {
	h.T.Helper()
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Setup().ConnectionTools(ctx, c.AccountID, c.ID)
		var decisions []tool.Decision
		for _, row := range rows {
			d := tool.Decision{
				Name: row.Name, SHA256: row.SHA256, Approve: true, Approval: approval, Effects: effectsOf[row.Name],
				Visitors: store.VisitorsConfirm, VisitorTitle: "Do " + row.Name, PublicFields: []string{"/key"},
			}
			if row.Name == fakemcp.Echo {
				d.PublicFields = nil
			}
			for _, fn := range change {
				fn(&d)
			}
			decisions = append(decisions, d)
		}
		if err == nil {
			err = tool.Review(ctx, tx, c.AccountID, c.ID, decisions)
		}
		return err
	})
}

// visitor sets the trigger of a visitor's session.
func visitor(req *session.StartRequest) { req.Trigger = stoa.Trigger{Type: "embed", ID: "emb_1"} }

// says answers, as the visitor, the question that a visitor's session waits for.
func says(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, decision string) error {
	_, err := r.Answer(h.T.Context(), h.Caller(), s.AgentID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Decision: decision, EmbedID: "emb_1"})
	return err
}

// oneAct is a model that calls a tool with a text that no visitor may see.
func oneAct(results *told, name string) sessiontest.Script {
	return callers(results, func(string) []stoa.ToolCall {
		return []stoa.ToolCall{call("1", name, `{"key":"a","text":"x"}`)}
	})
}

func TestAVisitorConfirmsACall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, oneAct(&results, fakemcp.Act))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		confirmed(h, c, "never")
		a, r := h.Agent(using(c)), h.Service()
		sessiontest.Run(t, r)
		s := h.Until(r, h.Begin(r, a, "go", visitor), stoa.SessionWaiting)
		in := s.Pending
		if in.Kind != stoa.InputToolConfirmation || s.Turn.Reason != session.ReasonVisitor || len(in.Calls) != 1 || len(f.Calls()) != 0 || in.ExpiresAt.Sub(in.CreatedAt) != session.ConfirmationTime {
			t.Fatalf("it waits for %+v after %d requests", in, len(f.Calls()))
		}
		shown := in.Calls[0].Confirmation
		if shown == nil || shown.Title != "Do act" || len(shown.Fields) != 1 || shown.Fields[0] != (stoa.ShownField{Name: "key", Value: "a"}) {
			t.Errorf("the visitor is shown %+v", shown)
		}
		// The account cannot decide for the visitor.
		for _, req := range []session.AnswerRequest{
			{InputID: in.ID, Decision: "approve"},
			{InputID: in.ID, Decision: "reject"},
			{InputID: in.ID, Decisions: []session.CallDecision{{CallID: in.Calls[0].ID, Decision: stoa.DecisionApprove}}},
			{InputID: in.ID, Outputs: []session.Output{{CallID: in.Calls[0].ID, Text: "forged"}}},
		} {
			if _, err := r.Answer(t.Context(), approver(h, "a"), a.ID, s.ID, req); stoa.CodeOf(err) != stoa.CodeNotWaiting {
				t.Errorf("%+v: %v", req, err)
			}
		}
		if _, err := r.ClaimInput(t.Context(), h.Caller(), session.ClaimRequest{InputID: in.ID, Lease: time.Minute}); stoa.CodeOf(err) != stoa.CodeNotWaiting {
			t.Errorf("a program claims it: %v", err)
		}
		for range 2 { // the second time it is a repetition
			if err := says(h, r, s, "approve"); err != nil {
				t.Fatal(err)
			}
		}
		got := h.Until(r, s, stoa.SessionCompleted)
		row := callsOf(h, r, s)[0]
		if row.Outcome != stoa.OutcomeOK || row.Confirmed != stoa.DecisionApprove || row.ConfirmedBy != "emb_1" || row.ConfirmedAt.IsZero() || row.Decision != "" || f.Effects(row.ID) != 1 || len(f.Calls()) != 1 {
			t.Errorf("the call is %+v after %d requests", row, len(f.Calls()))
		}
		if err := says(h, r, s, "reject"); stoa.CodeOf(err) != stoa.CodeDecided {
			t.Errorf("a rejection afterwards: %v", err)
		}
		h.CheckBooks(r, got)
	})
}

func TestAVisitorDeclinesACall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, oneAct(&results, fakemcp.Act))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		confirmed(h, c, "never")
		a, r := h.Agent(using(c)), h.Service()
		sessiontest.Run(t, r)
		s := h.Until(r, h.Begin(r, a, "go", visitor), stoa.SessionWaiting)
		if err := says(h, r, s, "reject"); err != nil {
			t.Fatal(err)
		}
		got := h.Until(r, s, stoa.SessionCompleted)
		if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeDenied || row.Confirmed != stoa.DecisionReject || !row.StartedAt.IsZero() || len(f.Calls()) != 0 {
			t.Errorf("the call is %+v after %d requests", row, len(f.Calls()))
		}
		if said := results.of("go"); len(said) != 1 || !said[0].IsError || !strings.Contains(said[0].Content, "did not confirm") {
			t.Errorf("the model was told %+v", said)
		}
		if err := says(h, r, s, "approve"); stoa.CodeOf(err) != stoa.CodeDecided {
			t.Errorf("an approval afterwards: %v", err)
		}
		h.CheckBooks(r, got)
	})
}

// No text confirms: a message of the visitor declines, one of the account is queued.
func TestNoMessageConfirms(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), oneAct(&results, fakemcp.Act))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	confirmed(h, c, "never")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	for _, text := range []string{"approve", "yes", "ok, do it", "ja", "👍", `{"decision":"approve"}`, "I confirm."} {
		s := h.Until(r, h.Begin(r, a, text, visitor), stoa.SessionWaiting)
		if _, err := r.Send(t.Context(), approver(h, "a"), a.ID, s.ID, session.SendRequest{Message: text, Reject: true}); stoa.CodeOf(err) != stoa.CodeSessionBusy {
			t.Fatalf("a message of the account: %v", err)
		}
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: text, EmbedID: "emb_1", Reject: true}); err != nil {
			t.Fatal(err)
		}
		s = h.Until(r, s, stoa.SessionCompleted)
		row := callsOf(h, r, s)[0]
		if row.Outcome != stoa.OutcomeDenied || row.Confirmed != stoa.DecisionReject || row.ConfirmedBy != "emb_1" || s.Turn.Number != 1 {
			t.Errorf("after %q the call is %+v", text, row)
		}
		if said := results.of(text); len(said) != 1 || !strings.HasSuffix(said[0].Content, "wrote instead: "+text) {
			t.Errorf("after %q the model was told %+v", text, said)
		}
	}
	if n := len(f.Calls()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestAConfirmationThatNobodyGivesExpires(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), oneAct(&results, fakemcp.Act))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	confirmed(h, c, "never")
	a, r := h.Agent(using(c)), h.Service(func(c *sessiontest.Config) { c.Limits.InputTime = time.Second })
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go", visitor), stoa.SessionWaiting)
	for e, err := range r.Sessions.Events(t.Context(), session.EventsRequest{AccountID: h.Account.ID, AgentID: a.ID, SessionID: s.ID, After: s.LastSeq, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == session.EventInputExpired {
			break
		}
	}
	got := h.Until(r, s, stoa.SessionCompleted)
	if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeDenied || row.Confirmed != stoa.DecisionExpired || row.ConfirmedBy != "" || !row.StartedAt.IsZero() {
		t.Errorf("the call is %+v", row)
	}
	if said := results.of("go"); len(said) != 1 || !said[0].IsError || !strings.Contains(said[0].Content, "in time") {
		t.Errorf("the model was told %+v", said)
	}
	for _, d := range []string{"approve", "reject"} {
		if err := says(h, r, s, d); stoa.CodeOf(err) != stoa.CodeNotWaiting {
			t.Errorf("%s afterwards: %v", d, err)
		}
	}
	if n := len(f.Calls()); n != 0 {
		t.Errorf("%d requests", n)
	}
	h.CheckBooks(r, got)
}

// If the tool also needs an approval, people of the account are asked once the visitor has
// confirmed; neither decision replaces the other.
func TestVisitorAndOperatorAreBothAsked(t *testing.T) {
	t.Parallel()
	for _, d := range []stoa.Decision{stoa.DecisionApprove, stoa.DecisionReject} {
		t.Run(string(d), func(t *testing.T) {
			var results told
			h := sessiontest.Build(t, storetest.New(t), oneAct(&results, fakemcp.Act))
			f := fakemcp.Start(t)
			c := connect(h, f, "far")
			confirmed(h, c, "always")
			a, r := h.Agent(using(c)), h.Service()
			sessiontest.Run(t, r)
			s := h.Until(r, h.Begin(r, a, "go", visitor), stoa.SessionWaiting)
			if s.Pending.Kind != stoa.InputToolConfirmation {
				t.Fatalf("first it waits for %+v", s.Pending)
			}
			if err := says(h, r, s, "approve"); err != nil {
				t.Fatal(err)
			}
			s = h.Until(r, s, stoa.SessionWaiting)
			if s.Pending.Kind != stoa.InputToolApproval || len(f.Calls()) != 0 {
				t.Fatalf("then it waits for %+v after %d requests", s.Pending, len(f.Calls()))
			}
			if err := says(h, r, s, "approve"); stoa.CodeOf(err) != stoa.CodeScope { // nor can the visitor approve
				t.Errorf("the visitor approves: %v", err)
			}
			if _, err := decide(h, r, s, decision(s.Pending.Calls[0], d)); err != nil {
				t.Fatal(err)
			}
			h.Until(r, s, stoa.SessionCompleted)
			want, made := stoa.OutcomeOK, 1
			if d == stoa.DecisionReject {
				want, made = stoa.OutcomeDenied, 0
			}
			if row := callsOf(h, r, s)[0]; row.Outcome != want || row.Confirmed != stoa.DecisionApprove || row.Decision != d || len(f.Calls()) != made {
				t.Errorf("the call is %+v after %d requests", row, len(f.Calls()))
			}
		})
	}
}

// One process asks the visitor and is gone; the confirmation arrives while no process runs.
// The next process does not ask again, and carries out the call once.
func TestAConfirmationOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, oneAct(&results, fakemcp.Act))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		confirmed(h, c, "never")
		a := h.Agent(using(c))
		first, second := h.Service(), h.Service(shared)
		stop := sessiontest.Run(t, first)
		s := h.Until(first, h.Begin(first, a, "go", visitor), stoa.SessionWaiting)
		stop()
		if err := says(h, first, s, "approve"); err != nil {
			t.Fatal(err)
		}
		sessiontest.Run(t, second)
		got := h.Until(second, s, stoa.SessionCompleted)
		row := callsOf(h, second, s)[0]
		if row.Outcome != stoa.OutcomeOK || row.Attempts != 1 || len(f.Calls()) != 1 || strings.Count(h.Log(second, s), "input.requested") != 1 {
			t.Errorf("%+v after %d requests\n%s", row, len(f.Calls()), h.Log(second, s))
		}
		h.CheckBooks(second, got)
	})
}

// A process dies in the middle of a confirmed call. The decisions of visitor and operator are
// used up: the visitor is asked whether to repeat the call, regardless of its effects, and
// then the operator, even if the operator chose not to be asked again.
func TestAConfirmationIsUsedUpByItsCall(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]string{fakemcp.Act: "reject", fakemcp.Put: "approve", fakemcp.Read: "approve"} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, home storetest.Database) {
				var results told
				h := sessiontest.Build(t, home, oneAct(&results, name))
				f := fakemcp.Start(t)
				f.Next("tools/call", "hold")
				defer f.Release()
				c := connect(h, f, "far")
				confirmed(h, c, "always")
				a := h.Agent(using(c))
				first, second := h.Service(), h.Service(shared)
				stopFirst := sessiontest.Run(t, first)
				s := h.Until(first, h.Begin(first, a, "go", visitor), stoa.SessionWaiting)
				asked := s
				if err := says(h, first, s, "approve"); err != nil {
					t.Fatal(err)
				}
				s = h.Until(first, s, stoa.SessionWaiting)
				approvals := s
				remember := func(d *session.CallDecision) { d.Remember = session.RememberSession }
				if _, err := decide(h, first, s, decision(s.Pending.Calls[0], stoa.DecisionApprove, remember)); err != nil {
					t.Fatal(err)
				}
				f.Await(func(all []fakemcp.Call) bool { return len(all) == 1 })
				h.Write(endRunners)
				sessiontest.Run(t, second)
				s = h.Until(second, s, stoa.SessionWaiting)
				again := s.Pending
				if again.Kind != stoa.InputToolConfirmation || again.ID == asked.Pending.ID || again.Calls[0].PreviousOutcome != stoa.OutcomeUnknown || len(f.Calls()) != 1 {
					t.Fatalf("it waits for %+v after %d requests", again, len(f.Calls()))
				}
				f.Release()
				stopFirst()
				// Decisions about earlier inputs do not count for this one.
				if err := says(h, second, asked, "approve"); stoa.CodeOf(err) != stoa.CodeNotWaiting {
					t.Errorf("the first confirmation again: %v", err)
				}
				if _, err := decide(h, second, approvals, decision(approvals.Pending.Calls[0], stoa.DecisionApprove)); stoa.CodeOf(err) != stoa.CodeToolCallNotFound {
					t.Errorf("the first approval again: %v", err)
				}
				if err := says(h, second, s, d); err != nil {
					t.Fatal(err)
				}
				want, outcome := 1, stoa.OutcomeUnknown
				if d == "approve" {
					s = h.Until(second, s, stoa.SessionWaiting)
					if s.Pending.Kind != stoa.InputToolApproval || s.Pending.Calls[0].PreviousOutcome != stoa.OutcomeUnknown || len(f.Calls()) != 1 {
						t.Fatalf("then it waits for %+v after %d requests", s.Pending, len(f.Calls()))
					}
					if _, err := decide(h, second, s, decision(s.Pending.Calls[0], stoa.DecisionApprove)); err != nil {
						t.Fatal(err)
					}
					want, outcome = 2, stoa.OutcomeOK
				}
				got := h.Until(second, s, stoa.SessionCompleted)
				row := callsOf(h, second, s)[0]
				if row.Outcome != outcome || row.Confirmed != stoa.Decision(d) || len(f.Calls()) != want || f.Effects(row.ID) > 1 {
					t.Errorf("%+v after %d requests and %d effects", row, len(f.Calls()), f.Effects(row.ID))
				}
				if said := results.of("go")[0].Content; d == "reject" && !strings.Contains(said, "not known whether it was done") {
					t.Errorf("the model was told %q", said)
				}
				h.CheckBooks(second, got)
			})
		})
	}
}

// A call with an unknown outcome, without a kill, is shown to the visitor again.
func TestAnUnknownCallIsConfirmedAgain(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), oneAct(&results, fakemcp.Act))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	confirmed(h, c, "never")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	f.Next("tools/call", "500")
	s := h.Until(r, h.Begin(r, a, "go", visitor), stoa.SessionWaiting)
	if err := says(h, r, s, "approve"); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionWaiting)
	if s.Pending.Kind != stoa.InputToolConfirmation || s.Pending.Calls[0].PreviousOutcome != stoa.OutcomeUnknown || len(f.Calls()) != 1 {
		t.Fatalf("it waits for %+v after %d requests", s.Pending, len(f.Calls()))
	}
	if err := says(h, r, s, "approve"); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionCompleted)
	if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeOK || len(f.Calls()) != 2 {
		t.Errorf("the call is %+v after %d requests", row, len(f.Calls()))
	}
}

// A call that is reviewed more strictly, or whose definition changes, after the visitor has
// confirmed it is not carried out.
func TestAConfirmationIsOfOneDefinition(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *sessiontest.Fixture, f *fakemcp.Server, c store.Connection){
		"not for visitors": func(h *sessiontest.Fixture, _ *fakemcp.Server, c store.Connection) { approve(h, c, "never") },
		"another definition": func(h *sessiontest.Fixture, f *fakemcp.Server, c store.Connection) {
			f.Change("Acts.", "Acts otherwise.")
			if _, err := h.Tools.Refresh(h.T.Context(), h.Account.ID, c.ID); err != nil {
				h.T.Fatal(err)
			}
			confirmed(h, c, "never")
		},
		"an approval": func(h *sessiontest.Fixture, _ *fakemcp.Server, c store.Connection) { confirmed(h, c, "always") },
	} {
		t.Run(name, func(t *testing.T) {
			var results told
			h := sessiontest.Build(t, storetest.New(t), oneAct(&results, fakemcp.Act))
			f := fakemcp.Start(t)
			c := connect(h, f, "far")
			confirmed(h, c, "never")
			a, r := h.Agent(using(c)), h.Service()
			sessiontest.Run(t, r)
			s := h.Until(r, h.Begin(r, a, "go", visitor), stoa.SessionWaiting)
			change(h, f, c)
			if err := says(h, r, s, "approve"); err != nil {
				t.Fatal(err)
			}
			h.Until(r, s, stoa.SessionCompleted)
			if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeError || len(f.Calls()) != 0 {
				t.Errorf("the call is %+v after %d requests", row, len(f.Calls()))
			}
		})
	}
}

// A tool that now needs the visitor's confirmation, or is no longer for visitors, is not
// called by an earlier call.
func TestACallBeforeTheQuestionIsNotMade(t *testing.T) {
	t.Parallel()
	for now, why := range map[string]string{store.VisitorsConfirm: "reviewed again", store.VisitorsNo: "not for visitors"} {
		t.Run(now, func(t *testing.T) {
			var results told
			h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) []stoa.ToolCall {
				return []stoa.ToolCall{call("1", fakemcp.Read, `{"order":"hold"}`), call("2", fakemcp.Put, `{}`)}
			}))
			f := fakemcp.Start(t)
			c := connect(h, f, "far")
			review := func(put string) {
				confirmed(h, c, "never", func(d *tool.Decision) {
					if d.Name == fakemcp.Read || put != store.VisitorsConfirm {
						*d = tool.Decision{Name: d.Name, SHA256: d.SHA256, Approve: true, Approval: "never", Visitors: store.VisitorsYes}
					}
					if d.Effects = "read"; d.Name == fakemcp.Put {
						d.Visitors = put
					}
				})
			}
			review(store.VisitorsYes)
			a := h.Agent(using(c), func(a *stoa.Agent) { a.Tools[0].Stricter = []stoa.Stricter{{Name: fakemcp.Put, Effects: "idempotent"}} })
			r := h.Service()
			sessiontest.Run(t, r)
			s := h.Begin(r, a, "go", visitor)
			calledTimes(f, fakemcp.Read, 1)
			review(now)
			f.Release()
			h.Until(r, s, stoa.SessionCompleted)
			calls := callsOf(h, r, s)
			if c := calls[1]; calls[0].Outcome != stoa.OutcomeOK || c.Outcome != stoa.OutcomeError || !c.StartedAt.IsZero() || len(f.Calls()) != 1 {
				t.Errorf("the calls are %+v after %d requests", calls, len(f.Calls()))
			}
			if said := results.of("go"); len(said) != 2 || !strings.Contains(said[1].Content, why) {
				t.Errorf("the model was told %+v", said)
			}
		})
	}
}

// Questions to the visitor count towards the maximum number of waits of a turn.
func TestATurnAsksItsVisitorTwentyTimes(t *testing.T) {
	t.Parallel()
	n := 0
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
		n++
		sessiontest.Say(yield, "", call(strconv.Itoa(n), fakemcp.Act, `{}`))
	}))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	confirmed(h, c, "never")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "go", visitor)
	for range session.WaitsPerTurn {
		s = h.Until(r, s, stoa.SessionWaiting)
		if err := says(h, r, s, "reject"); err != nil {
			t.Fatal(err)
		}
	}
	s = h.Until(r, s, stoa.SessionFailed)
	if s.Turn.Failure == nil || s.Turn.Failure.Code != "too_many_waits" || n != session.WaitsPerTurn+1 {
		t.Errorf("after %d replies it ends with %+v", n, s.Turn.Failure)
	}
}

// Only visitors confirm: in other sessions the review applies unchanged. A session that never
// waits does not offer the tool to a visitor.
func TestOnlyVisitorsConfirm(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), oneAct(&results, fakemcp.Act))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	confirmed(h, c, "never")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	once := func(req *session.StartRequest) { req.Mode = stoa.ModeOnce }
	for _, change := range [][]func(*session.StartRequest){nil, {once}} {
		if s := h.Until(r, h.Begin(r, a, "go", change...), stoa.SessionCompleted); len(s.Withheld) != 0 {
			t.Errorf("it withholds %+v", s.Withheld)
		}
	}
	if n := len(f.Calls()); n != 2 {
		t.Errorf("%d requests", n)
	}
	s := h.Begin(r, a, "go", visitor, once)
	if s = h.Until(r, s, stoa.SessionCompleted); len(s.Withheld) != 4 || s.Withheld[0].Reason != stoa.WithheldOnce || len(f.Calls()) != 2 {
		t.Errorf("a visitor's session of mode once withholds %+v after %d requests", s.Withheld, len(f.Calls()))
	}
	s = h.Begin(r, a, "go", func(req *session.StartRequest) { req.Trigger = stoa.Trigger{Type: stoa.TriggerHook, ID: "hok_1"} })
	if s = h.Until(r, s, stoa.SessionCompleted); len(s.Withheld) != 4 || s.Withheld[0].Reason != stoa.WithheldVisitor || len(f.Calls()) != 2 {
		t.Errorf("a hook's session withholds %+v after %d requests", s.Withheld, len(f.Calls()))
	}
}

// The number of tool calls of a chat is limited, over all of its turns.
func TestAChatCallsAtMostFiftyTools(t *testing.T) {
	t.Parallel()
	var results told
	many := func(n int) (all []stoa.ToolCall) {
		for range n {
			all = append(all, call("1", fakemcp.Read, `{}`))
		}
		return all
	}
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(message string) []stoa.ToolCall {
		switch message {
		case "one":
			return many(1)
		case "two":
			return many(2)
		}
		return many(12)
	}))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	confirmed(h, c, "never", func(d *tool.Decision) {
		*d = tool.Decision{Name: d.Name, SHA256: d.SHA256, Approve: true, Approval: "never", Effects: "read", Visitors: store.VisitorsYes}
	})
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "two", visitor), stoa.SessionCompleted)
	for range 4 {
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "go", EmbedID: "emb_1"}); err != nil {
			t.Fatal(err)
		}
		s = h.Until(r, s, stoa.SessionCompleted)
	}
	if s.ToolCalls != session.CallsPerChat || len(f.Calls()) != session.CallsPerChat {
		t.Fatalf("%d calls, %d requests", s.ToolCalls, len(f.Calls()))
	}
	if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "one", EmbedID: "emb_1"}); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionFailed)
	if s.Turn.Failure == nil || s.Turn.Failure.Code != "tool_limit_reached" || len(f.Calls()) != session.CallsPerChat {
		t.Errorf("it ends with %+v after %d requests", s.Turn.Failure, len(f.Calls()))
	}
	// Sessions of the account have no such limit.
	owned := h.Until(r, h.Begin(r, a, "two"), stoa.SessionCompleted)
	for range 5 {
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, owned.ID, session.SendRequest{Message: "go"}); err != nil {
			t.Fatal(err)
		}
		owned = h.Until(r, owned, stoa.SessionCompleted)
	}
	if owned.ToolCalls != 62 {
		t.Errorf("a session of the account made %d calls", owned.ToolCalls)
	}
}

// An approval that is remembered for the session replaces the question to the operators, but
// not the one to the visitor.
func TestWhatIsRememberedStillAsksTheVisitor(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), oneAct(&results, fakemcp.Act))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	confirmed(h, c, "always")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go", visitor), stoa.SessionWaiting)
	if err := says(h, r, s, "approve"); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionWaiting)
	remember := func(d *session.CallDecision) { d.Remember = session.RememberSession }
	if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionApprove, remember)); err != nil {
		t.Fatal(err)
	}
	for n, d := range []string{"approve", "reject"} {
		s = h.Until(r, s, stoa.SessionCompleted)
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "go", EmbedID: "emb_1"}); err != nil {
			t.Fatal(err)
		}
		s = h.Until(r, s, stoa.SessionWaiting)
		if s.Pending.Kind != stoa.InputToolConfirmation || len(f.Calls()) != n+1 {
			t.Fatalf("it waits for %+v after %d requests", s.Pending, len(f.Calls()))
		}
		if err := says(h, r, s, d); err != nil {
			t.Fatal(err)
		}
	}
	h.Until(r, s, stoa.SessionCompleted)
	calls := callsOf(h, r, s)
	if c := calls[1]; len(calls) != 3 || c.Decision != stoa.DecisionRemembered || c.Confirmed != stoa.DecisionApprove || c.Outcome != stoa.OutcomeOK || len(f.Calls()) != 2 {
		t.Errorf("the calls are %+v after %d requests", calls, len(f.Calls()))
	}
}
