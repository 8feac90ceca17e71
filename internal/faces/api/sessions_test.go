package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// An author works with one agent through the API.
type author struct {
	*apitest.Client
	h     *apitest.Service
	agent string // path
}

// newAuthor makes an agent in the account's default space.
func newAuthor(t *testing.T, h *apitest.Service, c *apitest.Client, more map[string]any) author {
	t.Helper()
	var me contract.User
	c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	body := map[string]any{"spaceId": orNone(me.DefaultSpaceID), "name": "Helper", "instructions": "Be brief."}
	for k, v := range more {
		body[k] = v
	}
	var agent contract.Agent
	c.Want(201, "POST", "/api/v1/api-agents", body).JSON(&agent)
	return author{c, h, "/api/v1/api-agents/" + agent.ID}
}

type getter[T any] interface{ Get() (T, error) }

func orNone[T any](n getter[T]) T {
	v, err := n.Get()
	if err != nil {
		var none T
		return none
	}
	return v
}

func (a author) file(path, content string) {
	a.Want(201, "PUT", a.agent+"/drive/files", map[string]any{"path": path, "content": content})
}

// begin starts a session and gives its path.
func (a author) begin(t *testing.T, message string, more map[string]any) (contract.Session, string) {
	t.Helper()
	body := map[string]any{"message": message}
	for k, v := range more {
		body[k] = v
	}
	var s contract.Session
	r := a.Want(202, "POST", a.agent+"/sessions", body).JSON(&s)
	if want := a.agent + "/sessions/" + s.ID; r.Header.Get("Location") != want || r.Header.Get("Retry-After") != "1" {
		t.Errorf("Location %q, Retry-After %q; want %q and 1", r.Header.Get("Location"), r.Header.Get("Retry-After"), want)
	}
	if s.Status != "queued" || s.Object != "session" || s.LastEventSeq == 0 {
		t.Errorf("a new session is %+v", s)
	}
	return s, a.agent + "/sessions/" + s.ID
}

// until waits for a session to stop with that status.
func (a author) until(t *testing.T, path, status string) contract.Session {
	t.Helper()
	var s contract.Session
	a.Want(200, "GET", path+"?waitSeconds=30", nil).JSON(&s)
	if s.Status != status {
		t.Fatalf("the session is %s, want %s: %+v\n%s", s.Status, status, s, a.Do("GET", path+"/events?limit=1000", nil).Body)
	}
	return s
}

func TestASessionAnswersFromItsFiles(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	a.file("docs/prices.md", "# Prices\n\nA ticket to the stoa costs seven drachmas.\n")
	a.file("docs/hours.md", "The stoa opens at dawn.\n")
	_, path := a.begin(t, "What does a ticket cost?", map[string]any{"mode": "chat"})
	got := a.until(t, path, "completed")
	if reply := orNone(got.Reply); !strings.Contains(reply, "docs/prices.md") || !strings.Contains(reply, "seven drachmas") {
		t.Errorf("the reply is %q", reply)
	}
	var messages contract.MessageList
	a.Want(200, "GET", path+"/messages", nil).JSON(&messages)
	last := messages.Data[len(messages.Data)-1]
	if last.Kind != "reply" || last.Text != orNone(got.Reply) || len(last.Sources) == 0 {
		t.Errorf("the last message is %+v", last)
	}
	var receipts contract.ReceiptList
	a.Want(200, "GET", path+"/receipts", nil).JSON(&receipts)
	var sum int64
	for _, r := range receipts.Data {
		sum += r.CreditsMicro
	}
	if len(receipts.Data) != got.Usage.Steps || sum != got.Usage.CreditsMicro || sum == 0 {
		t.Errorf("%d receipts of %d credits; the session says %+v", len(receipts.Data), sum, got.Usage)
	}
	for i, r := range receipts.Data {
		var st contract.SessionStep
		a.Want(200, "GET", path+"/steps/"+r.ID, nil).JSON(&st)
		if of := orNone(st.Receipt); st.ID != r.ID || of.CreditsMicro != r.CreditsMicro || len(st.Input) == 0 || st.Text == "" && len(st.Calls) == 0 {
			t.Errorf("step %d is %+v", i, st)
		}
		if asks := st.Input[0].Text == "What does a ticket cost?" && st.Input[0].Role == "user"; asks != (st.Step == 1) {
			t.Errorf("step %d begins with %+v", st.Step, st.Input[0])
		}
		if st.Step > 1 && (st.Input[0].Role != "tool" || orNone(st.Input[0].Name) != "drive_search" && orNone(st.Input[0].Name) != "drive_read") {
			t.Errorf("step %d adds %+v", st.Step, st.Input)
		}
		request, tokens, cached := orNone(st.Request), int64(0), int64(0)
		for _, p := range request.Parts {
			tokens, cached = tokens+p.Tokens, cached+p.CachedTokens
		}
		if u := orNone(st.Receipt).Usage; !request.Exact || tokens != u.InputTokens || cached != u.CachedInputTokens {
			t.Errorf("step %d was sent as %+v, %d tokens of %+v", st.Step, request, tokens, u)
		}
		if st.Step == int64(got.Usage.Steps) && st.Text != orNone(got.Reply) {
			t.Errorf("the last step replies %q", st.Text)
		}
	}
	for _, id := range []string{receipts.Data[0].ID + "0", got.ID + ".1.0", got.ID, stoa.NewID("ses") + ".1.1", "x"} {
		a.WantError(stoa.CodeNotFound, "GET", path+"/steps/"+id, nil)
	}
	a.WantError(stoa.CodeSessionNotFound, "GET", a.agent+"/sessions/"+stoa.NewID("ses"), nil)
	log := a.With("Accept", "text/event-stream").Want(200, "GET", path+"/events", nil).Log
	if int64(len(log)) != got.LastEventSeq || apitest.Join(log, last.ID) != last.Text {
		t.Errorf("%d events of %d; joined %q", len(log), got.LastEventSeq, apitest.Join(log, last.ID))
	}
}

func TestWhatASessionIsAtItsEnd(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"model": "alpha-haiku-4-5"})
	made, path := a.begin(t, "say: done", object{
		"mode": "once", "externalId": "e-1", "externalUserId": "user-9", "title": "A title", "metadata": object{"a": "b"},
		"limits": object{"maxSteps": 3, "timeoutSeconds": 30, "maxCreditsMicro": 5_000_000},
	})
	if made.Turn.Number != 1 || !made.Turn.StartedAt.IsNull() || !made.Reply.IsNull() || !made.Model.Served.IsNull() {
		t.Errorf("when it is made it is %+v", made)
	}
	s := a.until(t, path, "completed")
	if s.Mode != "once" || orNone(s.Reply) != "done" || orNone(s.ExternalID) != "e-1" || orNone(s.ExternalUserID) != "user-9" || orNone(s.Title) != "A title" ||
		s.Metadata["a"] != "b" || s.Trigger.Type != "api" || !s.Trigger.ID.IsNull() || s.AgentVersion != 1 || !s.Error.IsNull() || !s.PendingInput.IsNull() {
		t.Errorf("it is %+v", s)
	}
	if s.Model.Requested != "alpha-haiku-4-5" || orNone(s.Model.Served) != "alpha-haiku-4-5" || s.Model.Fallback {
		t.Errorf("the model is %+v", s.Model)
	}
	if s.Usage.Steps != 1 || s.Usage.TotalTokens != s.Usage.InputTokens+s.Usage.OutputTokens || s.Usage.CreditsMicro <= 0 {
		t.Errorf("the usage is %+v", s.Usage)
	}
	if s.StartedAt.IsNull() || s.FinishedAt.IsNull() || s.Turn.DeadlineAt.IsNull() || s.Turn.Attempt != 1 {
		t.Errorf("its times are %+v", s)
	}
	var one contract.SessionList
	a.Want(200, "GET", a.agent+"/sessions?externalId=e-1", nil).JSON(&one)
	if len(one.Data) != 1 || one.Data[0].ID != s.ID {
		t.Errorf("the external id finds %+v", one.Data)
	}
	a.WantError(stoa.CodeConflict, "POST", a.agent+"/sessions", object{"message": "again", "externalId": "e-1"})

	var usage contract.UsageReport
	a.Want(200, "GET", "/api/v1/usage?groupBy=endUser,session", nil).JSON(&usage)
	if len(usage.Data) != 1 || orNone(usage.Data[0].EndUser) != "user-9" || orNone(usage.Data[0].SessionID) != s.ID || usage.Data[0].CreditsMicro != s.Usage.CreditsMicro {
		t.Errorf("the usage report says %+v", usage.Data)
	}
	etag := a.Want(200, "GET", path, nil).Header.Get("ETag")
	a.With("If-None-Match", etag).Want(304, "GET", path+"?waitSeconds=5", nil)
	a.With("If-Match", `"r1"`).WantError(stoa.CodePrecondition, "PATCH", path, object{"title": "late"})
	var changed contract.Session
	a.With("If-Match", etag).Want(200, "PATCH", path, object{"title": nil, "metadata": object{"a": nil, "c": "d"}}).JSON(&changed)
	if !changed.Title.IsNull() || len(changed.Metadata) != 1 || changed.Metadata["c"] != "d" {
		t.Errorf("after the change it is %+v", changed)
	}
	a.With("If-None-Match", etag).Want(200, "GET", path, nil)

	a.Want(204, "DELETE", path, nil)
	a.WantError(stoa.CodeSessionNotFound, "DELETE", path, nil)
	a.WantError(stoa.CodeSessionNotFound, "GET", path, nil)
	var receipts contract.ReceiptList
	a.Want(200, "GET", "/api/v1/receipts?sessionId="+s.ID, nil).JSON(&receipts)
	if len(receipts.Data) != 1 {
		t.Errorf("after its deletion there are %d receipts", len(receipts.Data))
	}
}

func TestAModelBeyondThePlanFallsBackVisibly(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, newCustomer(t, h), object{"model": "alpha-opus-5-5"})
	_, path := a.begin(t, "say: hello", nil)
	s := a.until(t, path, "completed")
	if served := orNone(s.Model.Served); s.Model.Requested != "alpha-opus-5-5" || served == "" || served == "alpha-opus-5-5" || !s.Model.Fallback {
		t.Errorf("the model is %+v", s.Model)
	}
}

func TestWhatASessionMayNotBe(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	for _, test := range []struct {
		name  string
		body  object
		code  stoa.Code
		param string
	}{
		{"no message", object{}, stoa.CodeMissingParameter, "message"},
		{"an empty message", object{"message": ""}, stoa.CodeInvalidValue, "message"},
		{"a message that is too long", object{"message": strings.Repeat("ü", 100_001)}, stoa.CodeInvalidValue, "message"},
		{"an unknown mode", object{"message": "m", "mode": "stream"}, stoa.CodeInvalidMode, "mode"},
		{"a limit above the service's", object{"message": "m", "limits": object{"maxSteps": 51}}, stoa.CodeInvalidValue, "limits.maxSteps"},
		{"a long title", object{"message": "m", "title": strings.Repeat("x", 201)}, stoa.CodeInvalidValue, "title"},
		{"a typo", object{"message": "m", "externalID": "x"}, stoa.CodeUnknownField, "externalID"},
		{"a long name in the metadata", object{"message": "m", "metadata": object{strings.Repeat("x", 65): ""}}, stoa.CodeInvalidValue, "metadata"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if e := a.WantError(test.code, "POST", a.agent+"/sessions", test.body); deref(e.Param) != test.param {
				t.Errorf("param is %q, want %q: %s", deref(e.Param), test.param, e.Message)
			}
		})
	}
	_, path := a.begin(t, "say: x", nil)
	a.until(t, path, "completed")
	for query, param := range map[string]string{
		"?waitSeconds=61": "waitSeconds", "?waitSeconds=-1": "waitSeconds", "?waitSeconds=x": "waitSeconds",
		"/events?after=-1": "after", "/events?limit=0": "limit", "/events?limit=1001": "limit", "/events?follow=2": "follow",
		"/turns?order=up": "order", "/messages?limit=0": "limit", "/receipts?limit=0": "limit", "/sources?turn=0": "turn", "/export?format=pdf": "format",
	} {
		if e := a.Want(400, "GET", path+query, nil).Error(); deref(e.Param) != param {
			t.Errorf("GET %s: param is %q, want %q", query, deref(e.Param), param)
		}
	}
	a.With("Last-Event-ID", "x").Want(400, "GET", path+"/events", nil)
	a.Want(400, "GET", a.agent+"/sessions?status=done", nil)
	a.Want(400, "GET", a.agent+"/versions?limit=0", nil)
	a.Want(400, "GET", "/api/v1/api-agents?limit=0", nil)
	a.Want(400, "GET", "/api/v1/spaces?limit=0", nil)
	a.Want(400, "GET", "/api/v1/spaces/x/agents?limit=0", nil)
}

func TestAQuestionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "ask: Which colour? | red | blue", nil)
	s := a.until(t, path, "waiting_for_input")
	in := orNone(s.PendingInput)
	if in.Kind != "choice" || in.Prompt != "Which colour?" || len(in.Options) != 2 || !s.Turn.DeadlineAt.IsNull() || !s.FinishedAt.IsNull() {
		t.Fatalf("it waits for %+v: %+v", in, s)
	}
	for _, test := range []struct {
		name  string
		body  object
		code  stoa.Code
		param string
	}{
		{"of another kind", object{"inputId": in.ID, "answer": "blue"}, stoa.CodeInvalidValue, "answer"},
		{"not offered", object{"inputId": in.ID, "choice": "green"}, stoa.CodeInvalidValue, "choice"},
		{"missing", object{"inputId": in.ID}, stoa.CodeMissingParameter, "choice"},
		{"to nothing", object{"choice": "red"}, stoa.CodeMissingParameter, "inputId"},
		{"to another question", object{"inputId": "inp_x", "choice": "red"}, stoa.CodeNotFound, "inputId"},
		{"that is no decision", object{"inputId": in.ID, "decision": "perhaps"}, stoa.CodeInvalidValue, "decision"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if e := a.WantError(test.code, "POST", path+"/input", test.body); deref(e.Param) != test.param {
				t.Errorf("param is %q, want %q", deref(e.Param), test.param)
			}
		})
	}
	once := a.With("Idempotency-Key", "answer-1")
	first := once.Want(202, "POST", path+"/input", object{"inputId": in.ID, "choice": "blue"})
	again := once.Want(202, "POST", path+"/input", object{"inputId": in.ID, "choice": "blue"})
	if string(first.Body) != string(again.Body) || again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Retry-After") != "1" {
		t.Errorf("the answers under one key differ:\n%s%s", first.Body, again.Body)
	}
	once.WantError(stoa.CodeIdempotencyReused, "POST", path+"/input", object{"inputId": in.ID, "choice": "red"})
	a.WantError(stoa.CodeInputAnswered, "POST", path+"/input", object{"inputId": in.ID, "choice": "red"})
	if s := a.until(t, path, "completed"); orNone(s.Reply) != "You answered: blue" || s.Turn.Number != 1 || !s.PendingInput.IsNull() {
		t.Errorf("it ends as %+v", s)
	}
	_, dropped := a.begin(t, "ask: And?", nil)
	pending := orNone(a.until(t, dropped, "waiting_for_input").PendingInput)
	a.Want(200, "POST", dropped+"/cancel", nil)
	a.WantError(stoa.CodeNotWaiting, "POST", dropped+"/input", object{"inputId": pending.ID, "answer": "late"})
}

func TestAMessageAnswersAWaitingSession(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "ask: Which?", nil)
	a.until(t, path, "waiting_for_input")
	a.Want(202, "POST", path+"/messages", object{"message": "the red one"})
	if s := a.until(t, path, "completed"); orNone(s.Reply) != "You answered: the red one" || s.Turn.Number != 1 {
		t.Errorf("it ends as %+v", s)
	}
}

func TestMessagesWhileTheAgentWorks(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Sessions: func(c *session.Config) { c.Limits.QueuedMessages = 2 }})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "tokens: 100\nslow: 50ms", nil)
	a.WantError(stoa.CodeSessionBusy, "POST", path+"/messages", object{"message": "say: no", "onBusy": "reject"})
	for i := range 2 {
		var s contract.Session
		a.Want(202, "POST", path+"/messages", object{"message": fmt.Sprintf("say: %d", i), "onBusy": "enqueue"}).JSON(&s)
		if s.QueuedMessages != i+1 {
			t.Errorf("%d messages wait, want %d", s.QueuedMessages, i+1)
		}
	}
	var queued contract.MessageList
	a.Want(200, "GET", path+"/messages?order=desc&limit=1", nil).JSON(&queued)
	if m := queued.Data[0]; m.Status != "queued" || !m.Turn.IsNull() || m.Text != "say: 1" || !queued.HasMore {
		t.Errorf("the newest message is %+v", m)
	}
	if e := a.WantError(stoa.CodeSessionBusy, "POST", path+"/messages", object{"message": "say: too many"}); !e.Retryable {
		t.Error("a queue that is full is worth another try")
	}
	var s contract.Session
	for s.Turn.Number < 3 || s.Status != "completed" {
		a.Want(200, "GET", path+"?waitSeconds=20", nil).JSON(&s)
	}
	var turns contract.TurnList
	a.Want(200, "GET", path+"/turns?limit=2", nil).JSON(&turns)
	if len(turns.Data) != 2 || !turns.HasMore || turns.Data[0].Number != 1 {
		t.Fatalf("the first turns are %+v", turns)
	}
	a.Want(200, "GET", path+"/turns?limit=2&cursor="+orNone(turns.NextCursor), nil).JSON(&turns)
	if len(turns.Data) != 1 || turns.Data[0].Number != 3 || turns.HasMore || turns.Data[0].CreditsMicro <= 0 {
		t.Errorf("the last turn is %+v", turns)
	}
	a.Want(200, "GET", path+"/turns?order=desc&limit=1", nil).JSON(&turns)
	if turns.Data[0].Number != 3 {
		t.Errorf("the newest turn is %+v", turns.Data[0])
	}
	var said []string
	cursor := ""
	for {
		var list contract.MessageList
		a.Want(200, "GET", path+"/messages?limit=1"+cursor, nil).JSON(&list)
		for _, m := range list.Data {
			if m.Turn.IsNull() || m.Status != "completed" {
				t.Errorf("a message is %+v", m)
			}
			said = append(said, m.Text)
		}
		if !list.HasMore {
			break
		}
		cursor = "&cursor=" + orNone(list.NextCursor)
	}
	if len(said) != 6 || said[2] != "say: 0" || said[3] != "0" || said[4] != "say: 1" || said[5] != "1" {
		t.Errorf("what was said is %q", said)
	}
}

func TestASessionOfOneShotTakesNoMessage(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: done", object{"mode": "once"})
	a.until(t, path, "completed")
	a.WantError(stoa.CodeSessionFinished, "POST", path+"/messages", object{"message": "more"})
	a.WantError(stoa.CodeSessionFinished, "POST", path+"/retry", nil)
}

func TestACancelIsKeptAndARetryBeginsAnew(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "tokens: 1000\nslow: 20ms", nil)
	log := a.follow(t, path, 0)
	for ev := range log.events(t) {
		if ev.Type == "message.delta" {
			break
		}
	}
	log.close()
	a.WantError(stoa.CodeSessionBusy, "POST", path+"/retry", nil)
	var s contract.Session
	a.Want(200, "POST", path+"/cancel", nil).JSON(&s)
	if s.Status != "cancelled" {
		t.Fatalf("it is %+v", s)
	}
	revision := a.Want(200, "GET", path, nil).Header.Get("ETag")
	a.Want(200, "POST", path+"/cancel", nil)
	if again := a.Want(200, "GET", path, nil).Header.Get("ETag"); again != revision {
		t.Error("the second cancel changed the session")
	}
	var list contract.MessageList
	a.Want(200, "GET", path+"/messages", nil).JSON(&list)
	partial := list.Data[len(list.Data)-1]
	if partial.Role != "assistant" || partial.Status != "cancelled" || partial.Text == "" {
		t.Errorf("what was written is %+v", partial)
	}
	a.With("Idempotency-Key", "two words").Want(400, "POST", path+"/retry", nil)
	once := a.With("Idempotency-Key", "retry-1")
	first := once.Want(202, "POST", path+"/retry", nil)
	again := once.Want(202, "POST", path+"/retry", nil)
	if string(first.Body) != string(again.Body) || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the answers under one key differ:\n%s%s", first.Body, again.Body)
	}
	a.Want(200, "POST", path+"/cancel", nil)
	var turns contract.TurnList
	a.Want(200, "GET", path+"/turns", nil).JSON(&turns)
	if len(turns.Data) != 2 || orNone(turns.Data[1].RetryOf) != 1 || turns.Data[1].MessageID != turns.Data[0].MessageID {
		t.Errorf("the turns are %+v", turns.Data)
	}
}

func TestACancelThatItsWorkerHasYetToSee(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	made, path := a.begin(t, "say: x", nil)
	// Another process has claimed it, and is busy.
	ctx := t.Context()
	err := h.Store.Write(ctx, func(tx *store.Tx) error {
		row, err := tx.Work().LockSession(ctx, h.Account.ID, "", made.ID)
		if err != nil {
			return err
		}
		row.Status, row.Turn.Status, row.Owner = stoa.SessionRunning, stoa.SessionRunning, "runner_elsewhere"
		return tx.Work().SaveSession(ctx, &row)
	})
	if err != nil {
		t.Fatal(err)
	}
	var s contract.Session
	r := a.Want(202, "POST", path+"/cancel", nil).JSON(&s)
	if s.Status != "running" || r.Header.Get("Retry-After") != "1" {
		t.Errorf("it is %s, Retry-After %q", s.Status, r.Header.Get("Retry-After"))
	}
}

func TestAFailureIsToldAndRetried(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "fail: 400", nil)
	s := a.until(t, path, "failed")
	f := orNone(s.Error)
	if f.Code == "" || f.Message == "" || s.FinishedAt.IsNull() || !s.Reply.IsNull() {
		t.Errorf("it failed as %+v", s)
	}
	log := a.With("Accept", "text/event-stream").Want(200, "GET", path+"/events", nil).Log
	if n := len(log); log[n-2].Type != "error" || log[n-1].Status != "failed" {
		t.Errorf("the log ends with %+v", log[n-2:])
	}
	a.Want(202, "POST", path+"/messages", object{"message": "say: better"})
	if s := a.until(t, path, "completed"); orNone(s.Reply) != "better" || !s.Error.IsNull() {
		t.Errorf("after a message it is %+v", s)
	}
}

func TestAQueueHasAnEnd(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Sessions: func(c *session.Config) { c.Limits.Queued = 2 }})
	a := newAuthor(t, h, h.Client(t), nil)
	_, first := a.begin(t, "say: 1", nil)
	a.Want(200, "POST", first+"/cancel", nil)
	_, second := a.begin(t, "say: 2", nil)
	a.Want(200, "POST", second+"/cancel", nil)
	a.begin(t, "say: 3", nil)
	a.begin(t, "say: 4", nil)
	for path, body := range map[string]any{a.agent + "/sessions": object{"message": "m"}, first + "/messages": object{"message": "m"}, second + "/retry": nil} {
		r := a.Want(429, "POST", path, body)
		if e := r.Error(); e.Code != string(stoa.CodeTooManySessions) || !e.Retryable || r.Header.Get("Retry-After") == "" {
			t.Errorf("POST %s: %+v, Retry-After %q", path, e, r.Header.Get("Retry-After"))
		}
	}
}

func TestCreditsMustCoverTheFirstStep(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	var made contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Poor", "grantMicro": 20_000}).JSON(&made)
	a := newAuthor(t, h, h.ClientWith(t, made.Key.Secret), object{"model": "alpha-haiku-4-5"})
	once := a.With("Idempotency-Key", "k")
	first := once.Want(202, "POST", a.agent+"/sessions", object{"message": "say: hello"})
	var s contract.Session
	first.JSON(&s)
	a.until(t, a.agent+"/sessions/"+s.ID, "completed")
	long := strings.Repeat("word ", 20_000)
	r := a.Want(429, "POST", a.agent+"/sessions", object{"message": long})
	if e := r.Error(); e.Code != string(stoa.CodeQuota) || e.Retryable || r.Header.Get("Retry-After") != "" {
		t.Errorf("refused with %+v, Retry-After %q", e, r.Header.Get("Retry-After"))
	}
	// A request that was answered before is answered again, credits or not.
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, _, err := h.Ledger.GrantIn(t.Context(), tx, stoa.Grant{AccountID: made.ID, Amount: 1, Reason: "nearly nothing"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	again := once.Want(202, "POST", a.agent+"/sessions", object{"message": "say: hello"})
	if string(again.Body) != string(first.Body) || again.Header.Get("Location") != first.Header.Get("Location") || again.Header.Get("Retry-After") != "1" {
		t.Errorf("the answers differ:\n%s%s", first.Body, again.Body)
	}
	h.Client(t).Want(201, "POST", "/api/v1/accounts/"+made.ID+"/grants", object{"amountMicro": 10_000_000})
	a.Want(202, "POST", a.agent+"/sessions", object{"message": long})
}

// TestAPollerThatKnowsFourValuesNeverHangs follows sessions of every end with
// nothing but the four stopping values.
func TestAPollerThatKnowsFourValuesNeverHangs(t *testing.T) {
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	for message, want := range map[string]string{
		"say: fine": "completed", "empty": "completed", "ask: Which?": "waiting_for_input", "fail: 400": "failed", "cut: 3": "failed",
		"stop: length": "completed", "call: drive_list {}": "completed",
		"call: no_such_tool {}": "completed", "call: drive_read {\"path\":\"none\"}": "completed",
	} {
		_, path := a.begin(t, message, nil)
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			var s contract.Session
			for !slices.Contains([]string{"completed", "waiting_for_input", "failed", "cancelled"}, s.Status) {
				a.Want(200, "GET", path+"?waitSeconds=1", nil).JSON(&s)
			}
			if s.Status != want {
				t.Errorf("it is %s, want %s: %+v", s.Status, want, s)
			}
		})
	}
}

func TestALongPollEndsWithTheServiceAndInTime(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: x", nil)
	var s contract.Session
	a.Want(200, "GET", path+"?waitSeconds=1", nil).JSON(&s)
	if s.Status != "queued" {
		t.Errorf("it is %s", s.Status)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := a.Try(context.Background(), "GET", path+"?waitSeconds=60", nil)
		ended <- err
	}()
	h.Server.Drain()
	late, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Log(err) // it may have come too late to be taken
		}
	case <-late.Done():
		t.Error("the long poll holds up the end of the service")
	}
}

// TestALongPollWaitsForAChange reads a session with a long wait while it is
// queued, and cancels it after the request is on its way: the reply has the status
// of after the change.
func TestALongPollWaitsForAChange(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	for range 5 {
		_, path := a.begin(t, "say: x", nil)
		sent, got := make(chan struct{}), make(chan contract.Session, 1)
		go func() {
			defer close(got)
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
			r, err := a.Try(ctx, "GET", path+"?waitSeconds=60", nil)
			if err != nil {
				t.Error(err)
				return
			}
			var s contract.Session
			r.JSON(&s)
			got <- s
		}()
		<-sent
		a.Want(200, "GET", path, nil) // a round trip, in which the other request comes to wait
		a.Want(200, "POST", path+"/cancel", nil)
		if s := <-got; s.Status != "cancelled" {
			t.Errorf("the long poll answers %q before the session changed", s.Status)
		}
	}
}

func TestASessionAsAFile(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	a.file("a.md", "The stoa opens at dawn.\n")
	s, path := a.begin(t, "When does the stoa open?", object{"title": "Hours"})
	done := a.until(t, path, "completed")
	r := a.Want(200, "GET", path+"/export", nil)
	kinds := map[string]int{}
	for line := range strings.Lines(string(r.Body)) {
		var v struct{ Type string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		kinds[v.Type]++
	}
	if kinds["session"] != 1 || kinds["message"] != 2 || kinds["source"] == 0 || kinds["receipt"] != done.Usage.Steps {
		t.Errorf("the lines are %v", kinds)
	}
	if got := r.Header.Get("Content-Disposition"); !strings.Contains(got, s.ID+".jsonl") {
		t.Errorf("it is kept as %q", got)
	}
	md := string(a.Want(200, "GET", path+"/export?format=markdown", nil).Body)
	if !strings.Contains(md, "# Hours") || !strings.Contains(md, orNone(done.Reply)) || !strings.Contains(md, "a.md") {
		t.Errorf("as Markdown it is\n%s", md)
	}
	var sources contract.SourceList
	a.Want(200, "GET", path+"/sources?turn=1", nil).JSON(&sources)
	if len(sources.Data) == 0 || sources.Data[0].Path != "a.md" {
		t.Errorf("the sources are %+v", sources.Data)
	}
	a.Want(200, "GET", path+"/sources?turn=2", nil).JSON(&sources)
	if len(sources.Data) != 0 {
		t.Errorf("turn 2 has the sources %+v", sources.Data)
	}
}

// space returns the space of the author's agent.
func (a author) space(t *testing.T) string {
	t.Helper()
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	return agent.SpaceID
}

// anySession returns the path of the newest session of the author's agent.
func (a author) anySession(t *testing.T) string {
	t.Helper()
	var list page[contract.Session]
	a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&list)
	if len(list.Data) == 0 {
		t.Fatal("the agent has no session")
	}
	return a.agent + "/sessions/" + list.Data[0].ID
}

func TestADraftRunsWithoutBeingSaved(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "?", nil)
	saved := a.until(t, path, "completed")
	if saved.Draft || !strings.Contains(orNone(saved.Reply), "“Be brief.") {
		t.Errorf("without a draft: %v, %q", saved.Draft, orNone(saved.Reply))
	}
	started, path := a.begin(t, "?", object{"draft": object{"instructions": "Speak of the sea.", "model": "beta-3.8-flash", "driveAccess": "read_write", "limits": object{"maxSteps": 3}}})
	got := a.until(t, path, "completed")
	if !started.Draft || !got.Draft || got.AgentVersion != 1 || got.Model.Requested != "beta-3.8-flash" || !strings.Contains(orNone(got.Reply), "“Speak of the sea.") {
		t.Errorf("with a draft: %v, %+v, %q", started.Draft, got, orNone(got.Reply))
	}
	// A later turn stays with the draft, writes to the drive of the agent, and has its limits.
	a.Want(202, "POST", path+"/messages", object{"message": `call: drive_write {"path":"sea.md","content":"Salt."}`})
	a.until(t, path, "completed")
	a.Want(200, "GET", a.agent+"/drive/files/metadata?path=sea.md", nil)
	a.Want(202, "POST", path+"/messages", object{"message": "call: drive_list {}\nrepeat"})
	if failed := a.until(t, path, "failed"); orNone(failed.Error).Code != string(session.CodeStepLimit) || failed.Usage.Steps > 1+2+3 {
		t.Errorf("the limit of a draft: %+v after %d steps", orNone(failed.Error), failed.Usage.Steps)
	}
	// The agent is as it was, and what is left out of a draft is its own.
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	if agent.Version != 1 || agent.Instructions != "Be brief." || agent.DriveAccess != "read_only" {
		t.Errorf("the agent became %+v", agent)
	}
	_, path = a.begin(t, "?", object{"draft": object{}})
	if got := a.until(t, path, "completed"); !got.Draft || !strings.Contains(orNone(got.Reply), "“Be brief.") {
		t.Errorf("with an empty draft: %v, %q", got.Draft, orNone(got.Reply))
	}
	_, path = a.begin(t, "?", object{"draft": nil})
	if got := a.until(t, path, "completed"); got.Draft {
		t.Error("null is a draft")
	}
}

func TestADraftIsCheckedLikeAnAgent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	for _, test := range []struct {
		draft object
		code  stoa.Code
		param string
	}{
		{object{"model": "gpt-5"}, stoa.CodeModelNotFound, "draft.model"},
		{object{"instructions": strings.Repeat("x", 200_001)}, stoa.CodeInvalidValue, "draft.instructions"},
		{object{"instructions": ""}, stoa.CodeInvalidValue, "draft.instructions"},
		{object{"driveAccess": "all"}, stoa.CodeInvalidValue, "draft.driveAccess"},
		{object{"limits": object{"maxSteps": 100_000}}, stoa.CodeInvalidValue, "draft.limits.maxSteps"},
		{object{"name": "Another"}, "unknown_field", "draft.name"},
	} {
		if got := a.WantError(test.code, "POST", a.agent+"/sessions", object{"message": "?", "draft": test.draft}); deref(got.Param) != test.param {
			t.Errorf("%.60v: the error is at %q, want %q", test.draft, deref(got.Param), test.param)
		}
	}
	// Who may only start sessions may not say what the agent is.
	secret, _ := h.NewKey(h.Account.ID, "sessions:write", "agents:read")
	narrow := h.ClientWith(t, secret)
	got := narrow.WantError(stoa.CodeScope, "POST", a.agent+"/sessions", object{"message": "?", "draft": object{"instructions": "Obey."}})
	if deref(got.Param) != "draft" {
		t.Errorf("the error is at %q", deref(got.Param))
	}
	narrow.Want(202, "POST", a.agent+"/sessions", object{"message": "say: x"})
	newCustomer(t, h).WantError(stoa.CodeAgentNotFound, "POST", a.agent+"/sessions", object{"message": "?", "draft": object{}})
}

// TestAWaitForNoSessionFails waits for sessions that do not exist.
func TestAWaitForNoSessionFails(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	a.WantError(stoa.CodeSessionNotFound, "GET", a.agent+"/sessions/"+stoa.NewID("ses")+"?waitSeconds=1", nil)
}
