package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

func TestVerbsInEveryStatus(t *testing.T) {
	t.Parallel()
	// in brings a session into a status and returns it with its runner.
	in := map[stoa.SessionStatus]string{
		stoa.SessionQueued: "", stoa.SessionRunning: "wait: 10m", stoa.SessionWaiting: "ask: Well?",
		stoa.SessionCompleted: "say: done", stoa.SessionFailed: "fail: 400", stoa.SessionCancelled: "say: never",
	}
	type verb = func(r *sessiontest.Service, h *sessiontest.Fixture, s stoa.Session) (stoa.Session, error)
	verbs := map[string]verb{
		"send": func(r *sessiontest.Service, h *sessiontest.Fixture, s stoa.Session) (stoa.Session, error) {
			return r.Send(t.Context(), h.Caller(), s.AgentID, s.ID, session.SendRequest{Message: "more"})
		},
		"send or reject": func(r *sessiontest.Service, h *sessiontest.Fixture, s stoa.Session) (stoa.Session, error) {
			return r.Send(t.Context(), h.Caller(), s.AgentID, s.ID, session.SendRequest{Message: "more", Reject: true})
		},
		"retry": func(r *sessiontest.Service, h *sessiontest.Fixture, s stoa.Session) (stoa.Session, error) {
			return r.Retry(t.Context(), h.Caller(), s.AgentID, s.ID)
		},
		"cancel": func(r *sessiontest.Service, h *sessiontest.Fixture, s stoa.Session) (stoa.Session, error) {
			return r.Cancel(t.Context(), h.Caller(), s.AgentID, s.ID)
		},
		"answer": func(r *sessiontest.Service, h *sessiontest.Fixture, s stoa.Session) (stoa.Session, error) {
			id := "inp_none"
			if s.Pending != nil {
				id = s.Pending.ID
			}
			return r.Answer(t.Context(), h.Caller(), s.AgentID, s.ID, session.AnswerRequest{InputID: id, Answer: "well"})
		},
	}
	// The status right after the verb, or the code of its refusal. "+1" is a new
	// turn.
	want := map[string]map[stoa.SessionStatus]string{
		"send":           {"queued": "queued", "running": "running", "waiting_for_input": "queued", "completed": "queued+1", "failed": "queued+1", "cancelled": "queued+1"},
		"send or reject": {"queued": "session_busy", "running": "session_busy", "waiting_for_input": "queued", "completed": "queued+1", "failed": "queued+1", "cancelled": "queued+1"},
		"retry":          {"queued": "session_busy", "running": "session_busy", "waiting_for_input": "session_busy", "completed": "session_finished", "failed": "queued+1", "cancelled": "queued+1"},
		"cancel":         {"queued": "cancelled", "running": "cancelled", "waiting_for_input": "cancelled", "completed": "completed", "failed": "failed", "cancelled": "cancelled"},
		"answer":         {"queued": "not_found", "running": "not_found", "waiting_for_input": "queued", "completed": "not_found", "failed": "not_found", "cancelled": "not_found"},
	}
	h := sessiontest.Build(t, storetest.New(t), nil)
	a := h.Agent()
	got := map[string]map[stoa.SessionStatus]string{}
	for name, do := range verbs {
		got[name] = map[stoa.SessionStatus]string{}
		for status, message := range in {
			if message == "" || status == stoa.SessionCancelled {
				message = "say: hello"
			}
			r := h.Service()
			stop := func() {}
			if status == stoa.SessionRunning {
				stop = sessiontest.Run(t, r)
			}
			s := h.Begin(r, a, message)
			switch status {
			case stoa.SessionQueued:
			case stoa.SessionCancelled:
				if _, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
					t.Fatal(err)
				}
			case stoa.SessionRunning:
				h.Events(r, s)
				for e, err := range r.Events(t.Context(), session.EventsRequest{AccountID: h.Account.ID, SessionID: s.ID}) {
					if err != nil {
						t.Fatal(err)
					}
					if e.Type == session.EventStepStarted {
						break
					}
				}
			default:
				once := sessiontest.Run(t, r)
				h.Until(r, s, status)
				once() // read before a worker claims it
			}
			s, err := r.Get(t.Context(), h.Account.ID, a.ID, s.ID)
			if err != nil || s.Status != status {
				t.Fatalf("%s: %v, %v", status, s.Status, err)
			}
			after, err := do(r, h, s)
			if err != nil {
				got[name][status] = string(stoa.CodeOf(err))
			} else {
				got[name][status] = string(after.Status)
				if after.Turn.Number > s.Turn.Number {
					got[name][status] += "+1"
				}
			}
			if status == stoa.SessionRunning || err == nil {
				if _, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
					t.Fatal(err)
				}
				if status == stoa.SessionRunning {
					h.Until(r, s, stoa.SessionCancelled)
				}
			}
			stop()
			last, err := r.Get(t.Context(), h.Account.ID, a.ID, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			h.CheckBooks(r, last)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACancelledTurnKeepsItsTextAndPaysForIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		begun := make(chan string)
		h := sessiontest.Build(t, home, sessiontest.Blocking(begun, nil))
		a, r := h.Agent(), h.Service()
		sessiontest.Run(t, r)
		s := h.Begin(r, a, "hello")
		<-begun
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "never read"}); err != nil {
			t.Fatal(err)
		}
		for range 3 { // it is idempotent
			if _, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
				t.Fatal(err)
			}
		}
		got := h.Until(r, s, stoa.SessionCancelled)
		messages, _, err := r.Messages(t.Context(), h.Account.ID, a.ID, s.ID, 0, 10, false)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, m := range messages {
			said = append(said, fmt.Sprintf("%s %s %q", m.Role, m.Status, m.Text))
		}
		want := []string{`user completed "hello"`, `assistant cancelled "begun"`, `user cancelled "never read"`}
		if len(said) == 3 && strings.HasPrefix(said[1], "user") {
			said[1], said[2] = said[2], said[1] // regardless of which was stored first
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got.Spent <= 0 || got.QueuedMessages != 0 {
			t.Errorf("spent %d, %d messages wait", got.Spent, got.QueuedMessages)
		}
		h.CheckBooks(r, got)
	})
}

func TestMessagesWaitTheirTurn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		begun, goOn := make(chan string), make(chan struct{})
		h := sessiontest.Build(t, home, sessiontest.Blocking(begun, goOn))
		a, r := h.Agent(), h.Service(func(c *sessiontest.Config) { c.Limits.QueuedMessages = 2 })
		sessiontest.Run(t, r)
		s := h.Begin(r, a, "one")
		<-begun
		send := func(text string) (stoa.Session, error) {
			return r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: text})
		}
		for i, text := range []string{"two", "three"} {
			if got, err := send(text); err != nil || got.QueuedMessages != i+1 {
				t.Fatalf("%d wait, %v", got.QueuedMessages, err)
			}
		}
		if _, err := send("four"); stoa.CodeOf(err) != stoa.CodeSessionBusy {
			t.Errorf("one message too many: %v", err)
		}
		for _, want := range []string{"two", "three"} {
			goOn <- struct{}{}
			if got := <-begun; got != want {
				t.Errorf("the turn is about %q, want %q", got, want)
			}
		}
		goOn <- struct{}{}
		got := h.Until(r, s, stoa.SessionCompleted)
		if got.Turn.Number != 3 || got.Reply != "begun and done: three" {
			t.Errorf("turn %d: %q", got.Turn.Number, got.Reply)
		}
		h.CheckBooks(r, got)
	})
}

func TestWhatTheModelIsTold(t *testing.T) {
	t.Parallel()
	var calls []stoa.Call
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		calls = append(calls, call)
		switch last := call.Messages[len(call.Messages)-1]; last.Text() {
		case "fail":
			yield(nil, stoa.Errorf(stoa.CodeInvalidPrompt, "no"))
		case "ask":
			sessiontest.Say(yield, "one moment", stoa.ToolCall{ID: "c1", Name: "ask_user", Arguments: `{"question":"Why?"}`})
		case "":
			sessiontest.Say(yield, "because "+sessiontest.Results(last)[0].Content)
		default:
			sessiontest.Say(yield, "yes, "+last.Text())
		}
	}))
	a, r := h.Agent(), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "hello")
	h.Until(r, s, stoa.SessionCompleted)
	next := func(text string, want stoa.SessionStatus) stoa.Session {
		t.Helper()
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: text}); err != nil {
			t.Fatal(err)
		}
		return h.Until(r, s, want)
	}
	next("ask", stoa.SessionWaiting)
	next("so", stoa.SessionCompleted)
	next("fail", stoa.SessionFailed)
	if _, err := r.Retry(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionFailed)
	next("bye", stoa.SessionCompleted)
	show := func(call stoa.Call) (lines []string) {
		for _, m := range call.Messages {
			calls := []string{}
			for _, p := range m.Parts {
				if p.Kind == stoa.PartCall {
					calls = append(calls, fmt.Sprintf("{%s %s %s}", p.Call.ID, p.Call.Name, p.Call.Arguments))
				}
			}
			results := []string{}
			for _, r := range sessiontest.Results(m) {
				results = append(results, fmt.Sprintf("{%s %s %s %v %v %v}", r.CallID, r.Name, r.Content, r.Parts, r.Images, r.IsError))
			}
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %v %v", m.Role, m.Text(), calls, results)))
		}
		return lines
	}
	want := []string{
		"user: hello [] []", "assistant: yes, hello [] []",
		"user: ask [] []", `assistant: one moment [{c1 ask_user {"question":"Why?"}}] []`, `user:  [] [{c1 ask_user {"answer":"so"} [] [] false}]`, `assistant: because {"answer":"so"} [] []`,
		"user: fail [] []", "user: bye [] []",
	}
	if diff := cmp.Diff(want, show(calls[len(calls)-1])); diff != "" {
		t.Errorf("the last call (-want +got):\n%s", diff)
	}
	want = []string{
		"user: hello [] []", "assistant: yes, hello [] []", "user: ask [] []",
		`assistant: one moment [{c1 ask_user {"question":"Why?"}}] []`, `user:  [] [{c1 ask_user {"answer":"so"} [] [] false}]`,
	}
	if diff := cmp.Diff(want, show(calls[2])); diff != "" {
		t.Errorf("the call after an answer (-want +got):\n%s", diff)
	}
}

func TestOnceTakesNoFurtherMessageAndNeverAsks(t *testing.T) {
	t.Parallel()
	var offered atomic.Int64
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		offered.Add(int64(len(call.Tools)))
		if len(call.Messages) == 1 {
			sessiontest.Say(yield, "", stoa.ToolCall{ID: "1", Name: "ask_user", Arguments: `{"question":"May I?"}`})
			return
		}
		sessiontest.Say(yield, sessiontest.Results(call.Messages[2])[0].Content)
	}))
	a, r := h.Agent(), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "hello", func(req *session.StartRequest) { req.Mode = stoa.ModeOnce })
	got := h.Until(r, s, stoa.SessionCompleted)
	if !strings.Contains(got.Reply, "no tool of that name") {
		t.Errorf("the reply is %q", got.Reply)
	}
	if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "more"}); stoa.CodeOf(err) != stoa.CodeSessionFinished {
		t.Errorf("a further message: %v", err)
	}
}

func TestStartNeedsCreditsForTheFirstStep(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	a, r := h.Agent(), h.Service()
	poor := storetest.Account(t, h.Store, 10)
	h.Account = poor
	b := h.Agent()
	_, err := r.Start(t.Context(), h.Caller(), session.StartRequest{AgentID: b.ID, Message: "hello"})
	if stoa.CodeOf(err) != stoa.CodeQuota {
		t.Errorf("a session without credits: %v", err)
	}
	if _, err := r.Start(t.Context(), h.Caller(), session.StartRequest{AgentID: a.ID, Message: "hello"}); stoa.CodeOf(err) != stoa.CodeAgentNotFound {
		t.Errorf("another account's agent: %v", err)
	}
	// Credits that are gone later fail the turn.
	var s stoa.Session
	h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		s, err = r.Sessions.Start(ctx, tx, h.Caller(), session.StartRequest{AgentID: b.ID, Message: "hello"})
		return err
	})
	sessiontest.Run(t, r)
	got := h.Until(r, s, stoa.SessionFailed)
	if got.Turn.Failure == nil || got.Turn.Failure.Code != stoa.CodeQuota || got.Turn.Reason != "insufficient_quota" {
		t.Errorf("it failed for %q: %+v", got.Turn.Reason, got.Turn.Failure)
	}
}

func TestAQueueThatIsFullRefusesMore(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	a, r := h.Agent(), h.Service(func(c *sessiontest.Config) { c.Limits.Queued = 2 })
	h.Begin(r, a, "one")
	h.Begin(r, a, "two")
	_, err := r.Start(t.Context(), h.Caller(), session.StartRequest{AgentID: a.ID, Message: "three"})
	if e := stoa.AsError(err); e.Code != stoa.CodeTooManySessions || e.RetryAfter <= 0 {
		t.Errorf("one too many: %v", err)
	}
}

func TestAVerbIsPartOfItsTransaction(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	a, r := h.Agent(), h.Service()
	broken := errors.New("the reply could not be stored")
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := r.Sessions.Start(t.Context(), tx, h.Caller(), session.StartRequest{AgentID: a.ID, Message: "hello", ExternalID: "x"})
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	list, _, err := r.List(t.Context(), h.Account.ID, store.SessionFilter{ExternalID: "x"}, store.Page{})
	if err != nil || len(list) != 0 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
	h.Begin(r, a, "hello", func(req *session.StartRequest) { req.ExternalID = "x" })
	if _, err := r.Start(t.Context(), h.Caller(), session.StartRequest{AgentID: a.ID, Message: "hello", ExternalID: "x"}); stoa.CodeOf(err) != stoa.CodeConflict {
		t.Errorf("an external id twice: %v", err)
	}
}

func TestWaitReturnsWhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	a, r := h.Agent(), h.Service()
	s := h.Begin(r, a, "hello")
	got, err := r.Wait(t.Context(), h.Account.ID, a.ID, s.ID, 10*time.Millisecond)
	if err != nil || got.Status != stoa.SessionQueued {
		t.Errorf("%s, %v", got.Status, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := r.Wait(ended, h.Account.ID, a.ID, s.ID, time.Minute); err != nil || got.ID != s.ID {
		t.Errorf("a wait that ended at once: got %q, %v; want the session as it is", got.ID, err)
	}
	if _, err := r.Wait(t.Context(), "acc_other", a.ID, s.ID, time.Minute); stoa.CodeOf(err) != stoa.CodeAgentNotFound {
		t.Errorf("another account: %v", err)
	}
}

// Once a cancellation is stored, a later answer is kept and paid, but the turn is cancelled:
// that was promised.
func TestACancelIsKeptEvenWhenTheAnswerIsFaster(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(ctx context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
		close(begun)
		<-ctx.Done()
		sessiontest.Say(yield, "here it is") // ignores the context
	}))
	a, r := h.Agent(), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "hello")
	<-begun
	got, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID)
	if err != nil || got.Status != stoa.SessionCancelled || got.Steps != 1 || got.Spent == 0 || got.Reply != "" {
		t.Errorf("%s after %d steps, spent %d, reply %q, %v", got.Status, got.Steps, got.Spent, got.Reply, err)
	}
	h.CheckBooks(r, got)
}
