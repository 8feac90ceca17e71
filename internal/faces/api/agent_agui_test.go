package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"stoa/internal/agents/agui"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// forFrontEnds are the settings of an agent for front ends.
func forFrontEnds(tools ...any) object {
	return object{"description": "Answers questions.", "expose": []string{"agui"}, "tools": tools}
}

// runInput is the body of a run; each message is a text of the user or a whole message.
func runInput(thread, run string, messages ...any) object {
	list := []any{}
	for i, m := range messages {
		if text, ok := m.(string); ok {
			m = object{"id": fmt.Sprintf("m%d", i), "role": "user", "content": text}
		}
		list = append(list, m)
	}
	return object{"threadId": thread, "runId": run, "messages": list, "state": object{}, "tools": []any{}, "context": []any{}, "forwardedProps": object{}}
}

func having(body object, name string, value any) object {
	body[name] = value
	return body
}

// run runs an agent and returns the events, of which the last is the end.
func (a author) run(t *testing.T, body object) (events []agui.Event, end agui.Event) {
	t.Helper()
	for line := range strings.SplitSeq(string(a.Want(200, "POST", a.agent+"/ag-ui", body).Body), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			events = append(events, readRunEvent(t, data))
		}
	}
	end = events[len(events)-1]
	if events[0].Type != agui.RunStarted || events[0].ThreadID != body["threadId"] || events[0].RunID != body["runId"] || end.Type != agui.RunFinished && end.Type != agui.RunError {
		t.Fatalf("the events are %+v", events)
	}
	return events, end
}

func readRunEvent(t *testing.T, data string) (e agui.Event) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatalf("the event %s: %v", data, err)
	}
	return e
}

// textOf joins the texts of the events.
func textOf(events []agui.Event) (text string) {
	for _, e := range events {
		if e.Type == agui.TextContent {
			text += e.Delta
		}
	}
	return text
}

func typesOf(events []agui.Event) (types []string) {
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

// session returns the session of a thread, and its path.
func (a author) session(t *testing.T, thread string) (contract.Session, string) {
	t.Helper()
	var list contract.SessionList
	a.Want(200, "GET", a.agent+"/sessions?externalId="+thread, nil).JSON(&list)
	if len(list.Data) != 1 {
		t.Fatalf("the thread %s has %d sessions", thread, len(list.Data))
	}
	return list.Data[0], a.agent + "/sessions/" + list.Data[0].ID
}

func TestAFrontEndRunsAnAgent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds())
	a.file("docs/prices.md", "# Prices\n\nA ticket to the stoa costs seven drachmas.\n")
	earlier := []any{
		object{"id": "h1", "role": "user", "content": []any{object{"type": "text", "text": "Hello."}, object{"type": "image", "source": object{"type": "url", "value": "https://example.com/a.png"}}}},
		object{"id": "h2", "role": "assistant", "content": "Good day."},
		object{"id": "h3", "role": "assistant", "toolCalls": []any{object{"id": "x", "type": "function", "function": object{"name": "f", "arguments": "{}"}}}},
		object{"id": "h4", "role": "tool", "toolCallId": "x", "content": "42"},
		object{"id": "h5", "role": "activity", "activityType": "plan", "content": object{"steps": 2}},
	}
	events, end := a.run(t, having(runInput("t1", "r1", append(earlier, "What does a ticket cost?")...), "forwardedProps", object{"theme": "dark"}))
	if text := textOf(events); !strings.Contains(text, "seven drachmas") || end.Outcome.Type != "success" || end.Outcome.PendingToolCallIDs != nil {
		t.Errorf("%q, %+v", text, end.Outcome)
	}
	types := typesOf(events)
	for _, want := range []string{agui.StepStarted, agui.StepFinished, agui.TextStart, agui.TextEnd, agui.ToolStart, agui.ToolArgs, agui.ToolEnd, agui.ToolResult} {
		if !slices.Contains(types, want) {
			t.Errorf("no %s in %v", want, types)
		}
	}
	s, path := a.session(t, "t1")
	all, _ := sums(a.Client, a.agent, s.ID)
	if u := end.Usage[0]; u.Input != all.InputTokens || u.Output != all.OutputTokens || u.Total != all.TotalTokens || u.Reasoning != all.OutputTokensDetails.ReasoningTokens || all.TotalTokens == 0 {
		t.Errorf("usage %+v, the receipts have %+v", u, all)
	}
	var messages contract.MessageList
	a.Want(200, "GET", path+"/messages", nil).JSON(&messages)
	if len(messages.Data) < 3 || messages.Data[0].Text != "Hello.\n\n[a file of an earlier message]" || messages.Data[1].Text != "Good day." || messages.Data[2].Text != "What does a ticket cost?" {
		t.Errorf("the messages are %+v", messages.Data)
	}
	if s.Trigger.Type != "agui" {
		t.Errorf("the trigger is %+v", s.Trigger)
	}
	var many []any
	for range 103 {
		many = append(many, "say: yes")
	}
	for _, c := range []struct{ run, leftOut string }{{"r1", "2"}, {"r1", ""}, {"r2", ""}} { // new, attached and known
		if got := a.Want(200, "POST", a.agent+"/ag-ui", runInput("long", c.run, many...)).Header.Get("Stoa-History-Left-Out"); got != c.leftOut {
			t.Errorf("%s: %q messages were left out, want %q", c.run, got, c.leftOut)
		}
	}
	reply := a.Want(200, "POST", a.agent+"/ag-ui", having(runInput("t1", "r2", append(earlier, "say: next")...), "parentRunId", "r1"))
	if !strings.Contains(string(reply.Body), `"delta":"next"`) || reply.Header.Get("Stoa-Session") != s.ID || reply.Header.Get("Stoa-Ignored") != "parentRunId" {
		t.Errorf("%v: %s", reply.Header, reply.Body)
	}
	if s, _ := a.session(t, "t1"); s.Turn.Number != 2 {
		t.Errorf("the second run is turn %d", s.Turn.Number)
	}
}

func TestAFrontEndSendsFiles(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds())
	_, image, _ := strings.Cut(picture(t), "base64,")
	files := func(kind string) []any {
		return []any{
			object{"type": "text", "text": "What is this?"},
			object{"type": "image", "source": object{"type": kind, "value": image, "mimeType": "image/png"}},
			object{"type": "document", "source": object{"type": kind, "value": "aGVsbG8=", "mimeType": "text/plain"}, "metadata": object{"filename": "note.txt"}},
			object{"type": "document", "source": object{"type": kind, "value": "aGVsbG8=", "mimeType": "text/markdown"}, "metadata": 7},
		}
	}
	a.run(t, runInput("t1", "r1", object{"id": "m", "role": "user", "content": files("data")}))
	_, path := a.session(t, "t1")
	var list contract.SessionAttachmentList
	a.Want(200, "GET", path+"/attachments", nil).JSON(&list)
	var names []string
	for _, f := range list.Data {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"document-3.md", "image-1.png", "note.txt"}) {
		t.Errorf("the attachments are %q", names)
	}
	for _, kind := range []string{"url", "file"} {
		e := a.WantError(stoa.CodeUnsupportedValue, "POST", a.agent+"/ag-ui", runInput("t1", "r2", object{"id": "m", "role": "user", "content": files(kind)}))
		if e.Param == nil || *e.Param != "messages[0].content[1].source" {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

func TestAFrontEndAnswersAnInterrupt(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds())
	resume := func(thread, run, id, status string, payload any) object {
		return having(runInput(thread, run, "ask"), "resume", []any{object{"interruptId": id, "status": status, "payload": payload}})
	}
	for thread, c := range map[string]struct {
		order, reason string
		payload       any
		said          string
	}{
		"question": {"ask: Which day?", "question", object{"answer": "Friday"}, "Friday"},
		"choice":   {"ask: Which day? | Monday | Friday", "choice", "Friday", "Friday"},
	} {
		_, end := a.run(t, runInput(thread, "r1", c.order))
		if end.Outcome.Type != "interrupt" || len(end.Outcome.Interrupts) != 1 || end.Outcome.Interrupts[0].Reason != c.reason || end.Outcome.Interrupts[0].Message != "Which day?" {
			t.Fatalf("%s: the end is %+v", thread, end.Outcome)
		}
		id := end.Outcome.Interrupts[0].ID
		a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/ag-ui", resume(thread, "r2", id, "resolved", object{"reply": "x"}))
		a.WantError(stoa.CodeNotFound, "POST", a.agent+"/ag-ui", resume(thread, "r2", "inp_none", "resolved", "x"))
		events, end := a.run(t, resume(thread, "r2", id, "resolved", c.payload))
		if !strings.Contains(textOf(events), c.said) || end.Outcome.Type != "success" {
			t.Errorf("%s: after the answer: %q, %+v", thread, textOf(events), end.Outcome)
		}
		a.WantError(stoa.CodeInputAnswered, "POST", a.agent+"/ag-ui", resume(thread, "r3", id, "resolved", c.payload))
		if _, end := a.run(t, resume(thread, "r4", id, "cancelled", nil)); end.Outcome.Type != "cancelled" {
			t.Errorf("%s: a turn that has ended: %+v", thread, end.Outcome)
		}
	}
	e := a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/ag-ui", func() object {
		_, end := a.run(t, runInput("wrong", "r1", "ask: Which day? | Monday | Friday"))
		return resume("wrong", "r2", end.Outcome.Interrupts[0].ID, "resolved", "Sunday")
	}())
	if e.Param == nil || *e.Param != "resume[0].payload" {
		t.Errorf("a wrong choice: %+v", e)
	}
	_, end := a.run(t, runInput("cancel", "r1", "ask: Which day?"))
	for range 2 { // the second attaches
		if _, end := a.run(t, resume("cancel", "r2", end.Outcome.Interrupts[0].ID, "cancelled", nil)); end.Outcome.Type != "cancelled" {
			t.Errorf("cancelled: %+v", end.Outcome)
		}
	}
	if s, _ := a.session(t, "cancel"); s.Status != "cancelled" {
		t.Errorf("the session is %s", s.Status)
	}
}

func TestAFrontEndCarriesOutItsTools(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds(orderTool(nil)))
	tools := []any{object{"name": "lookup_order", "description": "x", "parameters": object{"type": "object"}}}
	arguments := fmt.Sprintf(`{"orderId":%q}`, strings.Repeat("A", 5000))
	for _, failed := range []bool{false, true} {
		thread := fmt.Sprintf("t-%t", failed)
		events, end := a.run(t, having(runInput(thread, "r1", "call: lookup_order "+arguments), "tools", tools))
		if len(end.Outcome.PendingToolCallIDs) != 1 || end.Outcome.Type != "success" {
			t.Fatalf("the end is %+v", end.Outcome)
		}
		call := end.Outcome.PendingToolCallIDs[0]
		i := slices.IndexFunc(events, func(e agui.Event) bool { return e.Type == agui.ToolArgs })
		if i < 1 || events[i].Delta != arguments || events[i].ToolCallID != call || events[i-1].ToolCallName != "lookup_order" {
			t.Fatalf("the call of %s is %+v", call, events)
		}
		tool := object{"id": "o1", "role": "tool", "toolCallId": call, "content": "shipped at noon"}
		if failed {
			tool["error"] = "no such order"
		}
		a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/ag-ui", runInput(thread, "r2", "x", object{"id": "o2", "role": "tool", "toolCallId": "other", "content": "x"}))
		a.WantError(stoa.CodeSessionBusy, "POST", a.agent+"/ag-ui", runInput(thread, "r2", "say: x"))
		a.WantError(stoa.CodeUnsupportedValue, "POST", a.agent+"/ag-ui", runInput(thread, "r2", "x", object{"id": "o2", "role": "tool", "toolCallId": call, "content": []any{object{"type": "image"}}}))
		events, end = a.run(t, having(runInput(thread, "r2", "x", tool), "tools", tools))
		if !strings.Contains(textOf(events), "shipped at noon") || end.Outcome.Type != "success" || end.Outcome.PendingToolCallIDs != nil {
			t.Errorf("after the output: %q, %+v", textOf(events), end.Outcome)
		}
		var whole contract.AgentToolCall
		a.Want(200, "GET", "/api/v1/tool-calls/"+call, nil).JSON(&whole)
		if whole.IsError != failed {
			t.Errorf("the call is %+v", whole)
		}
		a.WantError(stoa.CodeNotWaiting, "POST", a.agent+"/ag-ui", runInput(thread, "r3", "x", tool))
	}

	if events, _ := a.run(t, runInput("without", "r1", "call: lookup_order {}")); slices.Contains(typesOf(events), agui.ToolStart) {
		t.Errorf("a thread without tools called one: %v", typesOf(events))
	}
	a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/ag-ui", having(runInput("without", "r2", "x"), "tools", tools))
}

// TestAFrontEndWaitsForAnApproval resumes a run before and after the decision.
func TestAFrontEndWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds(orderTool(object{"approval": "always"})))
	tools := []any{object{"name": "lookup_order"}}
	for _, before := range []bool{true, false} {
		thread := fmt.Sprintf("t-%t", before)
		_, end := a.run(t, having(runInput(thread, "r1", `call: lookup_order {"orderId":"A-1"}`), "tools", tools))
		if end.Outcome.Type != "interrupt" || end.Outcome.Interrupts[0].Reason != "approval" || !strings.Contains(end.Outcome.Interrupts[0].Message, "/console#/tool-calls") || end.Outcome.Interrupts[0].ResponseSchema != nil {
			t.Fatalf("the end is %+v", end.Outcome)
		}
		entry := object{"interruptId": end.Outcome.Interrupts[0].ID, "status": "resolved"}
		body := having(runInput(thread, "r2", "x"), "resume", []any{entry})
		a.WantError(stoa.CodeUnsupportedValue, "POST", a.agent+"/ag-ui", having(runInput(thread, "r2", "x"), "resume", []any{object{"interruptId": entry["interruptId"], "status": "resolved", "payload": "approve"}}))
		s, path := a.session(t, thread)
		decide := func() {
			a.Want(202, "POST", path+"/input", object{"inputId": orNone(s.PendingInput).ID, "decision": "approve"})
		}
		if before {
			decide()
			a.until(t, path, "waiting_for_input")
		} else {
			stop := a.watch(t, body, func(e agui.Event) bool { return e.Type == agui.RunStarted })
			stop()
			decide()
		}
		events, end := a.run(t, body)
		if len(end.Outcome.PendingToolCallIDs) != 1 || !slices.Contains(typesOf(events), agui.ToolStart) {
			t.Errorf("after the approval: %v, %+v", typesOf(events), end.Outcome)
		}
	}
}

// watch begins a run and reads its events until one fits; the function that it returns disconnects.
func (a author) watch(t *testing.T, body object, fits func(agui.Event) bool) (stop func()) {
	t.Helper()
	text, _ := json.Marshal(body)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", a.URL+a.agent+"/ag-ui", strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && fits(readRunEvent(t, data)) {
			break
		}
	}
	return func() { cancel(); _ = reply.Body.Close() }
}

// TestARunIsAttachedTo disconnects within an answer. The same run continues, has all of its events again, and is charged once.
func TestARunIsAttachedTo(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds())
	body := runInput("t1", "r1", "slow: 1ms\ntokens: 60")
	message := ""
	stop := a.watch(t, body, func(e agui.Event) bool { message = e.MessageID; return e.Type == agui.TextContent })
	stop()
	partial := runInput("t1", "r1", "slow: 1ms\ntokens: 60", object{"id": message, "role": "assistant", "content": "begin"})
	events, end := a.run(t, partial)
	if events[1].Type != agui.MessagesSnapshot || len(events[1].Messages) != 1 || !strings.Contains(string(events[1].Messages[0]), `"m0"`) {
		t.Errorf("the snapshot is %s", events[1].Messages)
	}
	again, _ := a.run(t, partial)
	s, path := a.session(t, "t1")
	if textOf(events) != orNone(s.Reply) || textOf(again) != orNone(s.Reply) || end.Outcome.Type != "success" || s.Turn.Number != 1 {
		t.Errorf("%q and %q; the reply is %q in turn %d", textOf(events), textOf(again), orNone(s.Reply), s.Turn.Number)
	}
	var receipts contract.ReceiptList
	a.Want(200, "GET", path+"/receipts", nil).JSON(&receipts)
	if len(receipts.Data) != 1 {
		t.Errorf("%d receipts", len(receipts.Data))
	}
}

func TestConcurrentRequestsOfARunStartOneTurn(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds())
	for round := range 3 {
		var wg sync.WaitGroup
		texts := make([]string, 5)
		for i := range texts {
			wg.Go(func() {
				events, _ := a.run(t, runInput("t1", fmt.Sprint(round), "repeat\nonce"))
				texts[i] = textOf(events)
			})
		}
		wg.Wait()
		if s, _ := a.session(t, "t1"); s.Turn.Number != int64(round+1) || len(slices.Compact(texts)) != 1 || texts[0] == "" {
			t.Errorf("round %d: turn %d, %q", round, s.Turn.Number, texts)
		}
	}
}

func TestAFailedOrStoppedRunSaysSo(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds())
	_, end := a.run(t, runInput("t1", "r1", "fail: 400"))
	if end.Type != agui.RunError || end.Code == "" || end.Message == "" || len(end.Usage) != 1 {
		t.Errorf("the end is %+v", end)
	}
	ended := make(chan []agui.Event)
	seen := make(chan struct{})
	go func() {
		var events []agui.Event
		a.watch(t, runInput("t2", "r1", "wait: 10m"), func(e agui.Event) bool {
			if events = append(events, e); len(events) == 1 {
				close(seen)
			}
			return e.Type == agui.RunError
		})()
		ended <- events
	}()
	<-seen
	h.Server.Drain()
	events := <-ended
	if end := events[len(events)-1]; end.Code != string(stoa.CodeOverloaded) || !strings.Contains(end.Message, "same runId") {
		t.Errorf("the service stops: %+v", end)
	}
}

func TestARunIsChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), forFrontEnds(orderTool(nil)))
	path := a.agent + "/ag-ui"
	role := func(role string) any { return object{"id": "m", "role": role, "content": "x"} }
	content := func(content any) any { return object{"id": "m", "role": "user", "content": content} }
	for name, c := range map[string]struct {
		code  stoa.Code
		param string
		body  any
	}{
		"JSON":           {stoa.CodeInvalidJSON, "", "{"},
		"runId":          {stoa.CodeMissingParameter, "runId", object{"threadId": "t", "messages": []any{content("x")}}},
		"unknown":        {stoa.CodeUnknownField, "model", having(runInput("t", "r", "x"), "model", "x")},
		"thread":         {stoa.CodeInvalidValue, "threadId", runInput(strings.Repeat("t", 129), "r", "x")},
		"context":        {stoa.CodeUnsupported, "context", having(runInput("t", "r", "x"), "context", []any{object{"description": "d", "value": "v"}})},
		"state":          {stoa.CodeUnsupported, "state", having(runInput("t", "r", "x"), "state", object{"a": 1})},
		"system":         {stoa.CodeUnsupported, "messages[0].role", runInput("t", "r", role("system"), "x")},
		"developer":      {stoa.CodeUnsupported, "messages[1].role", runInput("t", "r", "x", role("developer"))},
		"tool":           {stoa.CodeInvalidValue, "tools[0].name", having(runInput("t", "r", "x"), "tools", []any{object{"name": "paint"}})},
		"last":           {stoa.CodeInvalidValue, "messages", runInput("t", "r", "x", role("assistant"))},
		"none":           {stoa.CodeInvalidValue, "messages", runInput("t", "r", role("reasoning"))},
		"empty":          {stoa.CodeInvalidValue, "messages[0].content", runInput("t", "r", content([]any{}))},
		"content":        {stoa.CodeInvalidValue, "messages[0].content", runInput("t", "r", content(7))},
		"audio":          {stoa.CodeUnsupportedValue, "messages[0].content[0].type", runInput("t", "r", content([]any{object{"type": "audio"}}))},
		"long":           {stoa.CodeInvalidValue, "messages", runInput("t", "r", strings.Repeat("x", 300_000))},
		"base64":         {stoa.CodeInvalidValue, "messages", runInput("t", "r", content([]any{object{"type": "text", "text": "x"}, object{"type": "image", "source": object{"type": "data", "value": "?", "mimeType": "image/png"}}}))},
		"unknown resume": {stoa.CodeSessionNotFound, "threadId", having(runInput("t", "r", "x"), "resume", []any{object{"interruptId": "inp_1", "status": "cancelled"}})},
		"unknown output": {stoa.CodeSessionNotFound, "threadId", runInput("t", "r", object{"id": "m", "role": "tool", "toolCallId": "c", "content": "x"})},
	} {
		e := a.WantError(c.code, "POST", path, c.body)
		if param := ""; e.Param != nil && *e.Param != c.param || e.Param == nil && c.param != param {
			t.Errorf("%s: %+v, want the parameter %q", name, e, c.param)
		}
	}
	var sessions contract.SessionList
	a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&sessions)
	if len(sessions.Data) != 0 {
		t.Errorf("refused runs started %d sessions", len(sessions.Data))
	}

	ok := runInput("t1", "r1", "say: yes")
	a.run(t, ok)
	other := newAuthor(t, h, a.Client, forFrontEnds())
	a.WantError(stoa.CodeConflict, "POST", other.agent+"/ag-ui", runInput("t1", "r2", "say: yes"))
	a.WantError(stoa.CodeAgentNotFound, "POST", "/api/v1/api-agents/agt_none/ag-ui", ok)
	h.ClientWith(t, foreignKey(t, h)).WantError(stoa.CodeAgentNotFound, "POST", path, ok)
	hidden := newAuthor(t, h, a.Client, exposed)
	a.WantError(stoa.CodeAgentNotFound, "POST", hidden.agent+"/ag-ui", ok)
	reading, _ := h.NewKey(h.Account.ID, "sessions:read")
	h.ClientWith(t, reading).WantError(stoa.CodeScope, "POST", path, ok)
	for _, c := range []struct {
		models []string
		status int
	}{{[]string{"auto"}, 404}, {[]string{"agent/Helper"}, 200}} {
		var key contract.KeyWithSecret
		a.Want(201, "POST", "/api/v1/keys", object{"name": "limited", "scopes": []string{"sessions:write"}, "models": c.models}).JSON(&key)
		h.ClientWith(t, key.Secret).Want(c.status, "POST", path, ok)
	}
}
