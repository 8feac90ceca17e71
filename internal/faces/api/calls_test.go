package api_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// orderTool is a tool that programs carry out, with what is special in it.
func orderTool(more object) object {
	tool := object{
		"type": "client", "name": "lookup_order", "description": "Finds an order.",
		"parameters": object{"type": "object", "properties": object{"orderId": object{"type": "string"}}, "required": []string{"orderId"}, "additionalProperties": false},
	}
	for k, v := range more {
		tool[k] = v
	}
	return tool
}

func TestToolsArePartOfTheVersion(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(nil)}})
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	if got := agent.Tools; len(got) != 1 || got[0].Effects != "once" || got[0].TimeoutSeconds != 3600 || got[0].OnTimeout != "tell_model" || got[0].Visitors != "no" ||
		!strings.Contains(string(got[0].Parameters), `"orderId"`) {
		t.Fatalf("the tools are %+v", got)
	}
	a.Want(200, "PATCH", a.agent, object{"description": "the same tools"}).JSON(&agent)
	if agent.Version != 1 {
		t.Errorf("a change of the description made version %d", agent.Version)
	}
	a.Want(200, "PATCH", a.agent, object{"tools": nil}).JSON(&agent)
	if agent.Version != 2 || len(agent.Tools) != 0 {
		t.Errorf("without tools it is %+v", agent)
	}
	a.Want(200, "POST", a.agent+"/rollback", object{"version": 1}).JSON(&agent)
	if agent.Version != 3 || len(agent.Tools) != 1 {
		t.Errorf("rolled back it is %+v", agent)
	}
	a.Want(201, "POST", a.agent+"/duplicate", nil).JSON(&agent)
	if len(agent.Tools) != 1 {
		t.Errorf("the duplicate is %+v", agent)
	}
	var v contract.AgentVersion
	if a.Want(200, "GET", a.agent+"/versions/1", nil).JSON(&v); len(v.Tools) != 1 {
		t.Errorf("version 1 is %+v", v)
	}
}

func TestToolsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	many := make([]any, 65)
	for i := range many {
		many[i] = orderTool(object{"name": fmt.Sprint("t", i)})
	}
	var long []any
	for i := range 30 {
		long = append(long, orderTool(object{"name": fmt.Sprint("t", i), "description": strings.Repeat("word ", 700)}))
	}
	for _, c := range []struct {
		tools []any
		code  stoa.Code
		param string
	}{
		{[]any{orderTool(object{"name": "drive_read"})}, stoa.CodeInvalidValue, "tools[0].name"},
		{[]any{orderTool(object{"name": "agent_x"})}, stoa.CodeInvalidValue, "tools[0].name"},
		{[]any{orderTool(object{"name": "ask_user"})}, stoa.CodeInvalidValue, "tools[0].name"},
		{[]any{orderTool(object{"name": "crm__find"})}, stoa.CodeInvalidValue, "tools[0].name"},
		{[]any{orderTool(object{"name": "a b"})}, stoa.CodeInvalidValue, "tools[0].name"},
		{[]any{orderTool(nil), orderTool(nil)}, stoa.CodeInvalidValue, "tools[1].name"},
		{[]any{orderTool(object{"visitors": "yes"})}, stoa.CodeInvalidValue, "tools[0].visitors"},
		{[]any{orderTool(object{"type": "mcp"})}, stoa.CodeInvalidValue, "tools[0].type"},
		{[]any{orderTool(object{"timeout": 3})}, stoa.CodeUnknownField, "tools[0].timeout"},
		{[]any{orderTool(object{"parameters": object{"type": "string"}})}, stoa.CodeInvalidSchema, "tools[0].parameters"},
		{[]any{orderTool(object{"parameters": object{"type": "object", "$ref": "https://example.com/"}})}, stoa.CodeInvalidSchema, "tools[0].parameters"},
		{many, stoa.CodeTooManyTools, "tools"},
		{long, stoa.CodeTooManyTools, "tools"},
	} {
		e := a.WantError(c.code, "PATCH", a.agent, object{"tools": c.tools})
		if e.Param == nil || *e.Param != c.param {
			t.Errorf("%s is not at %q: %+v", c.code, c.param, e)
		}
	}
}

func TestAnExecutorAnswersACall(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(nil)}})
	_, path := a.begin(t, `call: lookup_order {"orderId":"A-1"}`, nil)
	s := a.until(t, path, "waiting_for_input")
	in := orNone(s.PendingInput)
	if in.Kind != "tool_call" || len(in.Calls) != 1 || string(in.Calls[0].Arguments) != `{"orderId":"A-1"}` || s.Usage.ToolCalls != 1 || orNone(s.StatusReason) != "waiting_for_tool" {
		t.Fatalf("it waits for %+v", in)
	}
	var list contract.InputList
	a.Want(200, "GET", "/api/v1/inputs?status=pending&kind=tool_call&waitSeconds=30&unclaimed=true", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].ID != in.ID || !list.Data[0].ClaimID.IsNull() {
		t.Fatalf("the inputs are %+v", list.Data)
	}
	var claimed contract.OpenInput
	a.Want(200, "POST", "/api/v1/inputs/"+in.ID+"/claim", object{"leaseSeconds": 60}).JSON(&claimed)
	if orNone(claimed.ClaimID) == "" || claimed.Calls[0].Status != "started" {
		t.Errorf("claimed it is %+v", claimed)
	}
	a.WantError(stoa.CodeInputClaimed, "POST", "/api/v1/inputs/"+in.ID+"/claim", object{"leaseSeconds": 60})
	a.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/inputs/"+in.ID+"/claim", object{"leaseSeconds": 601})
	call := in.Calls[0].CallID
	answer := func(output any) object {
		return object{"inputId": in.ID, "outputs": []object{{"callId": call, "output": output}}}
	}
	a.WantError(stoa.CodeInvalidValue, "POST", path+"/input", object{"inputId": in.ID, "answer": "ok"})
	a.WantError(stoa.CodeToolCallNotFound, "POST", path+"/input", object{"inputId": in.ID, "outputs": []object{{"callId": "cal_other", "output": "x"}}})
	a.WantError(stoa.CodeInvalidValue, "POST", path+"/input", answer(strings.Repeat("x", 256<<10+1)))
	a.WantError(stoa.CodeSessionBusy, "POST", "/api/v1/tool-calls/"+call+"/resolve", object{"outcome": "done"})
	a.Want(202, "POST", path+"/input", answer(object{"status": "shipped", "id": 9007199254740993}))
	s = a.until(t, path, "completed")
	a.Want(202, "POST", path+"/input", answer(object{"status": "shipped", "id": 9007199254740993}))
	a.WantError(stoa.CodeOutputGiven, "POST", path+"/input", answer("lost"))
	if reply := orNone(s.Reply); !strings.Contains(reply, "9007199254740993") {
		t.Errorf("the reply is %q", reply)
	}
	var whole contract.AgentToolCall
	a.Want(200, "GET", "/api/v1/tool-calls/"+call, nil).JSON(&whole)
	if whole.Status != "done" || orNone(whole.Outcome) != "ok" || whole.Attempts != 1 || !strings.Contains(orNone(whole.ResultText), "9007199254740993") || whole.DurationMs.IsNull() || whole.IsError {
		t.Errorf("the call is %+v", whole)
	}
	a.Want(200, "POST", "/api/v1/tool-calls/"+call+"/resolve", object{"outcome": "not_done", "note": "looked"}).JSON(&whole)
	if r := orNone(whole.Resolution); r.Outcome != "not_done" || orNone(r.Note) != "looked" || r.By == "" {
		t.Errorf("resolved it is %+v", r)
	}
	for _, query := range []string{path + "/tool-calls?order=asc", "/api/v1/tool-calls", "/api/v1/tool-calls?status=done&outcome=ok", "/api/v1/tool-calls?agentId=" + whole.AgentID} {
		var calls contract.ToolCallList
		if a.Want(200, "GET", query, nil).JSON(&calls); len(calls.Data) != 1 || calls.Data[0].ID != call {
			t.Errorf("%s: %+v", query, calls.Data)
		}
	}
	if export := string(a.Want(200, "GET", path+"/export?format=jsonl", nil).Body); !strings.Contains(export, `"toolCallId":"`+call+`"`) || !strings.Contains(export, `"outcome":"ok"`) {
		t.Errorf("the export is %s", export)
	}
	a.With("Accept", "text/event-stream").Want(200, "GET", path+"/events", nil)
}

func TestAOnceSessionNamesWhatItWithholds(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(nil)}})
	for reason, body := range map[string]object{"mode_once": {"mode": "once"}, "caller": {"clientTools": "withhold"}} {
		_, path := a.begin(t, `call: lookup_order {"orderId":"A-1"}`, body)
		s := a.until(t, path, "completed")
		if len(s.ToolsWithheld) != 1 || s.ToolsWithheld[0].Tool != "lookup_order" || s.ToolsWithheld[0].Reason != reason {
			t.Errorf("%s: %+v", reason, s.ToolsWithheld)
		}
		if log := string(a.Want(200, "GET", path+"/events?limit=1000", nil).Body); strings.Count(log, "tools.withheld") != 1 {
			t.Errorf("%s: the log is %s", reason, log)
		}
	}
}

func TestARetryAcknowledgesEffects(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(nil)}})
	_, path := a.begin(t, `call: lookup_order {"orderId":"A-1"}`, nil)
	s := a.until(t, path, "waiting_for_input")
	in := orNone(s.PendingInput)
	a.Want(200, "POST", path+"/cancel", nil)
	a.WantError(stoa.CodeTurnHadEffects, "POST", path+"/retry", nil)
	a.WantError(stoa.CodeNotWaiting, "POST", path+"/input", object{"inputId": in.ID, "outputs": []object{{"callId": in.Calls[0].CallID, "output": "late"}}})
	var call contract.AgentToolCall
	if a.Want(200, "GET", "/api/v1/tool-calls/"+in.Calls[0].CallID, nil).JSON(&call); orNone(call.LateOutput) != "late" || orNone(call.Outcome) != "cancelled" {
		t.Errorf("the call is %+v", call)
	}
	once := a.With("Idempotency-Key", "again")
	once.Want(202, "POST", path+"/retry", object{"acknowledgeEffects": true})
	once.WantError(stoa.CodeIdempotencyReused, "POST", path+"/retry", object{"acknowledgeEffects": false})
	if s = a.until(t, path, "waiting_for_input"); s.Turn.Number != 2 {
		t.Errorf("it is turn %d", s.Turn.Number)
	}
}

// A visitor does not see the work of the account's programs: the agent appears to work
// until it has an answer.
func TestAVisitorLearnsNothingOfTools(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	read := orderTool(object{"effects": "read", "visitors": "yes", "name": "public_price"})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(nil), read}})
	v := newVisit(t, a, nil)
	v.say("call: public_price {\"orderId\":\"the secret\"}\nsay: the price is 7")
	path := a.agent + "/sessions/" + v.embed.ChatSessionID
	s := a.until(t, path, "waiting_for_input")
	if len(s.ToolsWithheld) != 1 || s.ToolsWithheld[0] != (contract.WithheldTool{Tool: "lookup_order", Reason: "visitor"}) {
		t.Errorf("withheld are %+v", s.ToolsWithheld)
	}
	in := orNone(s.PendingInput)
	outputs := object{"inputId": in.ID, "outputs": []object{{"callId": in.Calls[0].CallID, "output": "forged"}}}
	for _, body := range []object{outputs, {"inputId": in.ID, "answer": "ok"}, {"inputId": in.ID, "decision": "approve"}} {
		v.WantError(stoa.CodeScope, "POST", v.chat+"/input", body)
	}
	var chat contract.EmbedChat
	v.Want(200, "GET", v.chat, nil).JSON(&chat)
	if chat.Status != "running" || !chat.PendingInput.IsNull() {
		t.Errorf("while it waits the visitor sees %s, %+v", chat.Status, chat.PendingInput)
	}
	outputs["outputs"] = []object{{"callId": in.Calls[0].CallID, "output": "the hidden result"}}
	go func() { a.Do("POST", path+"/input", outputs) }()
	v.until(t, "completed") // its stream goes on until then
	log := string(v.Want(200, "GET", v.chat+"/events?limit=1000", nil).Body) + string(v.Want(200, "GET", v.chat, nil).Body)
	for _, secret := range []string{"public_price", "lookup_order", "hidden", "cal_", "tool", "waiting_for_input", "input.", in.ID} {
		if strings.Contains(strings.ReplaceAll(log, `call: public_price {\"orderId\":\"the secret\"}`, ""), secret) {
			t.Errorf("the visitor is told of %q:\n%s", secret, log)
		}
	}
}

func TestFewRequestsOfAnAccountWaitForInputs(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(nil)}})
	const most = 20
	replies := make(chan *apitest.Reply, most+1)
	for range most + 1 {
		go func() { replies <- a.Do("GET", "/api/v1/inputs?waitSeconds=30", nil) }()
	}
	if r := <-replies; r.Status != 429 || r.Header.Get("Retry-After") == "" { // one too many does not wait
		t.Fatalf("the first reply is %d %s", r.Status, r.Body)
	}
	a.Want(200, "GET", "/api/v1/inputs", nil)
	a.begin(t, `call: lookup_order {"orderId":"A-1"}`, nil) // which all of them wait for
	for range most {
		var list contract.InputList
		if r := (<-replies).JSON(&list); r.Status != 200 || len(list.Data) != 1 {
			t.Errorf("a wait ends with %d %s", r.Status, r.Body)
		}
	}
}
