package agent_test

import (
	"context"
	"fmt"
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

// orderTool is a tool that programs of the account carry out.
func orderTool(change ...func(*stoa.AgentTool)) stoa.AgentTool {
	t := stoa.AgentTool{
		Type: stoa.ToolClient, Name: "lookup_order", Description: "Finds an order.",
		Parameters: `{"type":"object","properties":{"orderId":{"type":"string"}},"required":["orderId"],"additionalProperties":false}`,
		Effects:    stoa.EffectsOnce, TimeoutSeconds: 3600, OnTimeout: stoa.TimeoutTells,
	}
	for _, fn := range change {
		fn(&t)
	}
	return t
}

func order(id string) stoa.ToolCall {
	return stoa.ToolCall{ID: "c" + id, Name: "lookup_order", Arguments: `{"orderId":"` + id + `"}`}
}

// withTools adds the tool lookup_order to an agent.
func withTools(change ...func(*stoa.AgentTool)) func(*stoa.Agent) {
	return func(a *stoa.Agent) { a.Tools = []stoa.AgentTool{orderTool(change...)} }
}

// give sends outputs for the calls that a session waits for.
func give(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, outputs ...session.Output) (stoa.Session, error) {
	return r.Answer(h.T.Context(), h.Caller(), s.AgentID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Outputs: outputs})
}

// callsOf returns the calls of a session, oldest first.
func callsOf(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session) []stoa.ExternalCall {
	h.T.Helper()
	list, _, err := r.SessionCalls(h.T.Context(), h.Account.ID, s.AgentID, s.ID, store.Page{Limit: 100, Asc: true})
	if err != nil {
		h.T.Fatal(err)
	}
	return list
}

func TestCallsAreAnsweredInReverseAndPartly(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1"), order("2"), order("3")))
	a, r := h.Agent(withTools()), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	in := s.Pending
	if in.Kind != stoa.InputToolCall || len(in.Calls) != 3 || s.ToolCalls != 3 || s.Turn.Reason != session.ReasonTool || in.Calls[1].Arguments != `{"orderId":"2"}` {
		t.Fatalf("it waits for %+v", in)
	}
	for _, place := range []int{2, 0} {
		got, err := give(h, r, s, session.Output{CallID: in.Calls[place].ID, Text: fmt.Sprint("output ", place)})
		if err != nil || got.Status != stoa.SessionWaiting {
			t.Fatalf("after output %d it is %s, %v", place, got.Status, err)
		}
	}
	last := session.Output{CallID: in.Calls[1].ID, Text: "it was lost", IsError: true}
	if _, err := give(h, r, s, last); err != nil {
		t.Fatal(err)
	}
	got := h.Until(r, s, stoa.SessionCompleted)
	var lines []string
	for _, res := range results {
		lines = append(lines, fmt.Sprintf("%s %s %v", res.CallID, res.Content, res.IsError))
	}
	if want := []string{"c1 output 0 false", "c2 it was lost true", "c3 output 2 false"}; !slices.Equal(lines, want) {
		t.Errorf("the model was told %q", lines)
	}
	// The same output is accepted again, even when everything is over; a different one is an
	// error.
	if again, err := give(h, r, s, last); err != nil || again.Status != stoa.SessionCompleted || again.LastSeq != got.LastSeq {
		t.Errorf("the same output again: %s, %v", again.Status, err)
	}
	for _, other := range []session.Output{{CallID: last.CallID, Text: "it was found", IsError: true}, {CallID: last.CallID, Text: last.Text}} {
		if _, err := give(h, r, s, other); stoa.CodeOf(err) != stoa.CodeOutputGiven {
			t.Errorf("another output: %v", err)
		}
	}
	if _, err := give(h, r, s, session.Output{CallID: stoa.NewID("cal"), Text: "x"}); stoa.CodeOf(err) != stoa.CodeToolCallNotFound {
		t.Errorf("an output of no call: %v", err)
	}
	log := h.Log(r, s)
	if strings.Count(log, "tool.called") != 3 || strings.Count(log, "tool.completed") != 3 || strings.Count(log, "input.requested") != 1 || strings.Count(log, "input.answered") != 1 {
		t.Errorf("the log is\n%s", log)
	}
	h.CheckBooks(r, got)
}

// Calls are answered in the order of their step: calls of built-in tools in between are
// executed in turn, and neighbours wait together.
func TestNeighboursWaitTogetherInOrder(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	write := stoa.ToolCall{ID: "w", Name: "drive_write", Arguments: `{"path":"a.md","content":"x"}`}
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, write, order("1"), stoa.ToolCall{ID: "bad", Name: "lookup_order", Arguments: `{"orderId":7}`}, order("2"),
		stoa.ToolCall{ID: "r", Name: "drive_read", Arguments: `{"path":"a.md"}`}, order("3")))
	a := h.Agent(withTools(), func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite })
	r := h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	if len(s.Pending.Calls) != 2 || s.ToolCalls != 4 {
		t.Fatalf("it waits for %+v", s.Pending.Calls)
	}
	bad := callsOf(h, r, s)[1]
	if bad.Outcome != stoa.OutcomeError || bad.ErrorCode == "" || !bad.StartedAt.IsZero() || !strings.Contains(bad.Result, "orderId") {
		t.Errorf("the call with wrong arguments is %+v", bad)
	}
	for _, n := range []string{"2", "1"} {
		if _, err := give(h, r, s, session.Output{CallID: s.Pending.Calls[int(n[0]-'1')].ID, Text: n}); err != nil {
			t.Fatal(err)
		}
	}
	s = h.Until(r, s, stoa.SessionWaiting)
	if len(s.Pending.Calls) != 1 {
		t.Fatalf("it waits for %+v", s.Pending.Calls)
	}
	if _, err := give(h, r, s, session.Output{CallID: s.Pending.Calls[0].ID, Text: "3"}); err != nil {
		t.Fatal(err)
	}
	got := h.Until(r, s, stoa.SessionCompleted)
	var ids []string
	for _, res := range results {
		ids = append(ids, fmt.Sprintf("%s %v", res.CallID, res.IsError))
	}
	if want := []string{"w false", "c1 false", "bad true", "c2 false", "r false", "c3 false"}; !slices.Equal(ids, want) {
		t.Errorf("the results are %q", ids)
	}
	h.CheckBooks(r, got)
}

func TestExpiryOfCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onTimeout string
		status    stoa.SessionStatus
		code      stoa.Code
	}{
		"told":  {stoa.TimeoutTells, stoa.SessionCompleted, ""},
		"fails": {stoa.TimeoutFails, stoa.SessionFailed, "tool_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var results []stoa.ToolResult
				h := sessiontest.Build(t, storetest.SQLite(t), toolbox(&results, order("1"), order("2")))
				a, r := h.Agent(withTools(func(t *stoa.AgentTool) { t.OnTimeout = c.onTimeout })), h.Service()
				sessiontest.Run(t, r)
				s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
				if _, err := give(h, r, s, session.Output{CallID: s.Pending.Calls[1].ID, Text: "two"}); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Hour + time.Minute)
				got := h.Until(r, s, c.status)
				if c.code != "" && got.Turn.Failure.Code != c.code {
					t.Errorf("it failed with %+v", got.Turn.Failure)
				}
				if c.code == "" && (len(results) != 2 || !strings.Contains(results[0].Content, "may or may not") || !results[0].IsError || results[1].Content != "two") {
					t.Errorf("the model was told %+v", results)
				}
				late := session.AnswerRequest{InputID: s.Pending.ID, Outputs: []session.Output{{CallID: s.Pending.Calls[0].ID, Text: "late"}}}
				if err := r.KeepLate(t.Context(), h.Account.ID, a.ID, s.ID, late); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Answer(t.Context(), h.Caller(), a.ID, s.ID, late); stoa.CodeOf(err) != stoa.CodeNotWaiting {
					t.Errorf("a late output: %v", err)
				}
				calls := callsOf(h, r, s)
				if calls[0].Outcome != stoa.OutcomeExpired || calls[0].LateOutput == nil || *calls[0].LateOutput != "late" || calls[1].Outcome != stoa.OutcomeOK || calls[1].LateOutput != nil {
					t.Errorf("the calls are %+v", calls)
				}
				h.CheckBooks(r, got)
			})
		})
	}
}

func TestAMessageWhileToolsAreWaitedForQueues(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1")))
	a, r := h.Agent(withTools()), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "ok", Reject: true}); stoa.CodeOf(err) != stoa.CodeSessionBusy {
		t.Errorf("with reject: %v", err)
	}
	got, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "ok"})
	if err != nil || got.Status != stoa.SessionWaiting || got.QueuedMessages != 1 {
		t.Fatalf("it is %s with %d messages, %v", got.Status, got.QueuedMessages, err)
	}
	if _, err := give(h, r, s, session.Output{CallID: s.Pending.Calls[0].ID, Text: "found"}); err != nil {
		t.Fatal(err)
	}
	// The second turn calls the tool too: the message was not an output.
	s = h.Until(r, s, stoa.SessionWaiting)
	if s.Turn.Number != 2 || results[0].Content != "found" {
		t.Errorf("turn %d, results %+v", s.Turn.Number, results)
	}
}

func TestSessionsThatOfferNoTools(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		if last := call.Messages[len(call.Messages)-1]; len(sessiontest.Results(last)) > 0 {
			sessiontest.Say(yield, sessiontest.Results(last)[0].Content)
			return
		}
		sessiontest.Say(yield, "", order("1")) // although it was not offered
	}))
	a, r := h.Agent(withTools()), h.Service()
	sessiontest.Run(t, r)
	for reason, change := range map[string]func(*session.StartRequest){
		stoa.WithheldOnce:    func(q *session.StartRequest) { q.Mode = stoa.ModeOnce },
		stoa.WithheldCaller:  func(q *session.StartRequest) { q.WithholdTools = true },
		stoa.WithheldVisitor: func(q *session.StartRequest) { q.Trigger.Type = "embed" },
	} {
		s := h.Until(r, h.Begin(r, a, "go", change), stoa.SessionCompleted)
		if want := []stoa.Withheld{{Tool: "lookup_order", Reason: reason}}; !slices.Equal(s.Withheld, want) || s.ToolCalls != 0 || !strings.Contains(s.Reply, "no tool of that name") {
			t.Errorf("%s: %+v, %d calls, %q", reason, s.Withheld, s.ToolCalls, s.Reply)
		}
		if log := h.Log(r, s); strings.Count(log, "tools.withheld") != 1 || !strings.Contains(log, reason) {
			t.Errorf("%s: the log is\n%s", reason, log)
		}
	}
}

func TestARetryAfterEffectsIsAcknowledged(t *testing.T) {
	t.Parallel()
	var prompts []stoa.Call
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		prompts = append(prompts, call)
		if len(prompts) == 1 {
			sessiontest.Say(yield, "", order("1"))
			return
		}
		sessiontest.Say(yield, "done")
	}))
	a, r := h.Agent(withTools(func(t *stoa.AgentTool) { t.OnTimeout = stoa.TimeoutFails })), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	if _, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionCancelled)
	if c := callsOf(h, r, s)[0]; c.Status != stoa.CallDone || c.Outcome != stoa.OutcomeCancelled {
		t.Errorf("the call is %+v", c)
	}
	if _, err := r.Retry(t.Context(), h.Caller(), a.ID, s.ID); stoa.CodeOf(err) != stoa.CodeTurnHadEffects {
		t.Errorf("a retry: %v", err)
	}
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := r.Sessions.Retry(ctx, tx, h.Caller(), a.ID, s.ID, true)
		return err
	})
	h.Until(r, s, stoa.SessionCompleted)
	told := prompts[1].Messages
	if note := told[len(told)-2].Text(); !strings.Contains(note, `lookup_order {"orderId":"1"} → cancelled`) {
		t.Errorf("the model was told %q", note)
	}
}

func TestATurnWaitsAtMostTwentyTimes(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		sessiontest.Say(yield, "", order(fmt.Sprint(len(call.Messages))))
	}))
	a, r := h.Agent(withTools()), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "go")
	for range 20 {
		s = h.Until(r, s, stoa.SessionWaiting)
		if _, err := give(h, r, s, session.Output{CallID: s.Pending.Calls[0].ID, Text: "again"}); err != nil {
			t.Fatal(err)
		}
	}
	if s = h.Until(r, s, stoa.SessionFailed); s.Turn.Failure.Code != "too_many_waits" {
		t.Errorf("it failed with %+v", s.Turn.Failure)
	}
}

func TestOneReplyCallsAtMostSixteen(t *testing.T) {
	t.Parallel()
	var calls []stoa.ToolCall
	for i := range 18 {
		calls = append(calls, order(fmt.Sprint(i)))
	}
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, calls...))
	a, r := h.Agent(withTools()), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	var outputs []session.Output
	for _, c := range s.Pending.Calls {
		outputs = append(outputs, session.Output{CallID: c.ID, Text: strings.Repeat("a line\n", 10_000)})
	}
	if _, err := give(h, r, s, outputs...); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionCompleted)
	if len(results) != 18 || results[15].IsError || !results[16].IsError || len(outputs) != 16 {
		t.Errorf("%d outputs, %d results", len(outputs), len(results))
	}
	if got := results[0].Content; len(got) > session.ShownOutput || !strings.HasSuffix(got, "a line\n [cut: the answer was longer]") {
		t.Errorf("the model is shown %d bytes, which end %q", len(got), got[max(0, len(got)-50):])
	}
	if c, err := wholeCall(h, callsOf(h, r, s)[0].ID); err != nil || len(c.Result) != 70_000 {
		t.Errorf("kept are %d bytes, %v", len(c.Result), err)
	}
}

func wholeCall(h *sessiontest.Fixture, id string) (c stoa.ExternalCall, err error) {
	err = h.Store.Read(h.T.Context(), func(tx *store.Tx) (err error) {
		c, err = tx.Work().ToolCall(h.T.Context(), h.Account.ID, id)
		return err
	})
	return c, err
}

func TestTwoExecutorsNeverClaimOneInput(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1")))
	a, r := h.Agent(withTools()), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	first, err := r.ClaimInput(t.Context(), h.Caller(), session.ClaimRequest{InputID: s.Pending.ID, Lease: time.Minute})
	if err != nil || first.ClaimID == "" || first.Calls[0].Attempts != 1 || first.Calls[0].Status != stoa.CallClaimed {
		t.Fatalf("the first claim is %+v, %v", first, err)
	}
	_, err = r.ClaimInput(t.Context(), h.Caller(), session.ClaimRequest{InputID: s.Pending.ID, Lease: time.Minute})
	if e := stoa.AsError(err); e.Code != stoa.CodeInputClaimed || e.RetryAfter <= 0 {
		t.Errorf("the second claim: %v", err)
	}
	for _, unclaimed := range []bool{false, true} {
		list, _, err := r.OpenInputs(t.Context(), h.Account.ID, store.InputFilter{AgentID: a.ID, Unclaimed: unclaimed}, store.Page{}, 0)
		if err != nil || (len(list) == 0) != unclaimed {
			t.Errorf("unclaimed %v: %d inputs, %v", unclaimed, len(list), err)
		}
	}
	longer, err := r.ClaimInput(t.Context(), h.Caller(), session.ClaimRequest{InputID: s.Pending.ID, Lease: 10 * time.Minute, ClaimID: first.ClaimID})
	if err != nil || !longer.ClaimedUntil.After(first.ClaimedUntil) || longer.Calls[0].Attempts != 1 {
		t.Errorf("the longer claim is %+v, %v", longer, err)
	}
	if _, err := give(h, r, s, session.Output{CallID: first.Calls[0].ID, Text: "done"}); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionCompleted)
	if _, err = r.ClaimInput(t.Context(), h.Caller(), session.ClaimRequest{InputID: s.Pending.ID, Lease: time.Minute, ClaimID: first.ClaimID}); stoa.CodeOf(err) != stoa.CodeNotWaiting {
		t.Errorf("a claim of what is done: %v", err)
	}
}

// A process that dies after the step is recorded leaves planned calls. The next one
// hands each out once.
func TestPlannedCallsAreHandedOutOnceAfterACrash(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, order("1"), order("2")))
	a, r := h.Agent(withTools()), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	before := callsOf(h, r, s)
	// The rows as they are if the process dies between the two transactions.
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		for _, q := range []string{
			`UPDATE tool_calls SET status = 'planned', input_id = '', started_at = 0, expires_at = 0 WHERE session_id = $1`,
			`DELETE FROM inputs WHERE session_id = $1`,
			`UPDATE sessions SET status = 'running', owner = 'runner_gone', input_id = '' WHERE id = $1`,
			`UPDATE turns SET status = 'running' WHERE session_id = $1`,
		} {
			if _, err := tx.Exec(ctx, q, s.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err := r.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionWaiting)
	after := callsOf(h, r, s)
	if len(after) != 2 || after[0].ID != before[0].ID || after[1].ID != before[1].ID || s.ToolCalls != 2 || len(s.Pending.Calls) != 2 {
		t.Errorf("the calls are %+v", after)
	}
}

// Each call has its own deadline: when one has expired the turn still waits for the other.
func TestCallsExpireOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var results []stoa.ToolResult
		quick := stoa.ToolCall{ID: "q", Name: "quick", Arguments: `{"orderId":"q"}`}
		h := sessiontest.Build(t, storetest.SQLite(t), toolbox(&results, order("1"), quick))
		a := h.Agent(withTools(), func(a *stoa.Agent) {
			a.Tools = append(a.Tools, orderTool(func(t *stoa.AgentTool) { t.Name, t.TimeoutSeconds = "quick", 60 }))
		})
		r := h.Service()
		sessiontest.Run(t, r)
		s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
		if d := s.Pending.ExpiresAt.Sub(s.Pending.CreatedAt); d != time.Minute {
			t.Errorf("it expires after %v", d)
		}
		<-time.After(2 * time.Minute)
		s = h.Until(r, s, stoa.SessionWaiting)
		if c := s.Pending.Calls; !c[0].Open() || c[1].Outcome != stoa.OutcomeExpired || s.Pending.ExpiresAt.Sub(s.Pending.CreatedAt) != time.Hour {
			t.Errorf("after two minutes it waits for %+v", s.Pending)
		}
		if _, err := give(h, r, s, session.Output{CallID: s.Pending.Calls[0].ID, Text: "one"}); err != nil {
			t.Fatal(err)
		}
		got := h.Until(r, s, stoa.SessionCompleted)
		if len(results) != 2 || results[0].Content != "one" || !results[1].IsError {
			t.Errorf("the model was told %+v", results)
		}
		h.CheckBooks(r, got)
	})
}
