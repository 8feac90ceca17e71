package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// approvedTool is a tool whose calls people have to approve.
func approvedTool(more object) object {
	tool := orderTool(object{"approval": "always"})
	for k, v := range more {
		tool[k] = v
	}
	return tool
}

func TestAPersonDecidesAboutACall(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{approvedTool(nil)}})
	waits := make(chan *apitest.Reply, 1)
	go func() { waits <- a.Do("GET", "/api/v1/inputs?kind=tool_approval&waitSeconds=30", nil) }()
	_, path := a.begin(t, "call: lookup_order {\"orderId\":\"A-1\"}\ncall: lookup_order {\"orderId\":\""+strings.Repeat("é", 5000)+"\"}", object{"externalUserId": "user-7"})
	s := a.until(t, path, "waiting_for_input")
	in := orNone(s.PendingInput)
	if in.Kind != "tool_approval" || len(in.Calls) != 2 || orNone(s.StatusReason) != "waiting_for_approval" || in.Prompt != "A person has to approve: lookup_order, lookup_order." {
		t.Fatalf("it waits for %+v", in)
	}
	if short, long := in.Calls[0], in.Calls[1]; string(short.Arguments) != `{"orderId":"A-1"}` || short.ArgumentsStart != "" || string(long.Arguments) != "{}" || len(long.ArgumentsStart) < 8190 || len(long.ArgumentsStart) > 8192 {
		t.Errorf("the arguments are %s %q, %s %d", short.Arguments, short.ArgumentsStart, long.Arguments, len(long.ArgumentsStart))
	}
	var list contract.InputList
	if (<-waits).JSON(&list); len(list.Data) != 1 || list.Data[0].ID != in.ID || list.Data[0].Kind != "tool_approval" ||
		list.Data[0].AgentName != "Helper" || orNone(list.Data[0].ExternalUserID) != "user-7" || !strings.HasPrefix(orNone(list.Data[0].SessionTitle), "call: lookup_order") {
		t.Errorf("whoever waited got %+v", list.Data)
	}
	for query, want := range map[string]int{
		"": 0, "?kind=tool_call": 0, "?kind=tool_approval": 1, "?kind=all": 1,
		"?kind=all&toolName=lookup_order&externalUserId=user-7": 1, "?kind=all&toolName=lookup": 0, "?kind=all&externalUserId=user": 0,
	} {
		if a.Want(200, "GET", "/api/v1/inputs"+query, nil).JSON(&list); len(list.Data) != want {
			t.Errorf("%q lists %d inputs, want %d", query, len(list.Data), want)
		}
	}
	a.WantError(stoa.CodeNotWaiting, "POST", "/api/v1/inputs/"+in.ID+"/claim", object{"leaseSeconds": 60})
	decide := func(place int, decision string, more object) object {
		d := object{"callId": in.Calls[place].CallID, "decision": decision}
		for k, v := range more {
			d[k] = v
		}
		return object{"inputId": in.ID, "decisions": []object{d}}
	}
	// Keys without the scope and keys of other accounts cannot decide.
	weak, _ := h.NewKey(h.Account.ID, "sessions:read", "sessions:write")
	for _, body := range []object{decide(0, "approve", nil), decide(0, "reject", nil), {"inputId": in.ID, "decision": "approve"}} {
		h.ClientWith(t, weak).WantError(stoa.CodeScope, "POST", path+"/input", body)
	}
	outside, _ := h.NewKey(storetest.Account(t, h.Store, stoa.Credit).ID, "*")
	if r := h.ClientWith(t, outside).Do("POST", path+"/input", decide(0, "approve", nil)); r.Status != 404 {
		t.Errorf("another account is told %d %s", r.Status, r.Body)
	}
	for _, c := range []struct {
		body  object
		code  stoa.Code
		param string
	}{
		{object{"inputId": in.ID}, stoa.CodeMissingParameter, "decisions"},
		{object{"inputId": in.ID, "answer": "approve"}, stoa.CodeInvalidValue, "decisions"},
		{object{"inputId": in.ID, "decision": "approve", "decisions": []object{{"callId": in.Calls[0].CallID, "decision": "approve"}}}, stoa.CodeInvalidValue, "decisions"},
		{object{"inputId": in.ID, "outputs": []object{{"callId": in.Calls[0].CallID, "output": "forged"}}}, stoa.CodeInvalidValue, "decisions"},
		{decide(0, "maybe", nil), stoa.CodeInvalidValue, "decisions[0].decision"},
		{decide(0, "reject", object{"remember": "session"}), stoa.CodeInvalidValue, "decisions[0].remember"},
		{decide(0, "reject", object{"comment": strings.Repeat("x", 2001)}), stoa.CodeInvalidValue, "decisions[0].comment"},
		{object{"inputId": in.ID, "decisions": []object{{"callId": "cal_other", "decision": "approve"}}}, stoa.CodeToolCallNotFound, "decisions[0].callId"},
	} {
		e := a.WantError(c.code, "POST", path+"/input", c.body)
		if e.Param == nil || *e.Param != c.param {
			t.Errorf("%v: %s is not at %q: %+v", c.body, c.code, c.param, e)
		}
	}
	reject := decide(1, "reject", object{"comment": "too long"})
	for range 2 {
		a.Want(202, "POST", path+"/input", reject)
	}
	a.WantError(stoa.CodeDecided, "POST", path+"/input", decide(1, "approve", nil))
	key, made := h.NewKey(h.Account.ID, "sessions:write", "approvals:write")
	h.ClientWith(t, key).Want(202, "POST", path+"/input", object{"inputId": in.ID, "decision": "approve"})
	s = a.until(t, path, "waiting_for_input")
	todo := orNone(s.PendingInput)
	if todo.Kind != "tool_call" || len(todo.Calls) != 1 || todo.Calls[0].CallID != in.Calls[0].CallID {
		t.Fatalf("then it waits for %+v", todo)
	}
	a.Want(202, "POST", path+"/input", object{"inputId": todo.ID, "outputs": []object{{"callId": todo.Calls[0].CallID, "output": "found"}}})
	s = a.until(t, path, "completed")
	a.Want(202, "POST", path+"/input", reject)
	var calls contract.ToolCallList
	a.Want(200, "GET", path+"/tool-calls?order=asc", nil).JSON(&calls)
	first, second := orNone(calls.Data[0].Approval), orNone(calls.Data[1].Approval)
	if !calls.Data[0].NeedsApproval || first.Decision != "approve" || orNone(first.By) != made.ID || orNone(calls.Data[0].Outcome) != "ok" {
		t.Errorf("the approved call is %+v, %+v", calls.Data[0], first)
	}
	if second.Decision != "reject" || orNone(second.Comment) != "too long" || orNone(calls.Data[1].Outcome) != "denied" || !calls.Data[1].StartedAt.IsNull() {
		t.Errorf("the rejected call is %+v, %+v", calls.Data[1], second)
	}
	if export := string(a.Want(200, "GET", path+"/export?format=jsonl", nil).Body); !strings.Contains(export, `"approval":{"decision":"reject"`) || !strings.Contains(export, `"comment":"too long"`) || !strings.Contains(export, made.ID) {
		t.Errorf("the export is %s", export)
	}
	a.With("Accept", "text/event-stream").Want(200, "GET", path+"/events", nil)
	a.Want(200, "GET", "/api/v1/tool-calls?outcome=denied", nil)
}

// A rejected call has changed nothing, an approved one may have.
func TestARetryAfterApprovals(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{approvedTool(nil)}})
	_, path := a.begin(t, `call: lookup_order {"orderId":"A-1"}`, nil)
	s := a.until(t, path, "waiting_for_input")
	in := orNone(s.PendingInput)
	a.WantError(stoa.CodeSessionBusy, "POST", path+"/upgrade", nil)
	a.Want(200, "POST", path+"/cancel", nil)
	a.Want(200, "POST", path+"/upgrade", nil)
	for _, d := range []string{"approve", "reject"} {
		a.WantError(stoa.CodeNotWaiting, "POST", path+"/input", object{"inputId": in.ID, "decision": d})
		a.WantError(stoa.CodeNotWaiting, "POST", path+"/input", object{"inputId": in.ID, "decisions": []object{{"callId": in.Calls[0].CallID, "decision": d}}})
	}
	var call contract.AgentToolCall
	if a.Want(200, "GET", "/api/v1/tool-calls/"+in.Calls[0].CallID, nil).JSON(&call); orNone(call.Outcome) != "cancelled" || !call.Approval.IsNull() {
		t.Errorf("the call is %+v", call)
	}
	a.Want(202, "POST", path+"/retry", nil) // nothing was done
	s = a.until(t, path, "waiting_for_input")
	a.Want(202, "POST", path+"/input", object{"inputId": orNone(s.PendingInput).ID, "decision": "approve"})
	s = a.until(t, path, "waiting_for_input")
	if in = orNone(s.PendingInput); in.Kind != "tool_call" || s.Turn.Number != 2 {
		t.Fatalf("it waits for %+v in turn %d", in, s.Turn.Number)
	}
	a.Want(200, "POST", path+"/cancel", nil)
	a.WantError(stoa.CodeTurnHadEffects, "POST", path+"/retry", nil)
}

func TestAVisitorWaitsForTheOperator(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	price := approvedTool(object{"effects": "read", "visitors": "yes", "name": "public_price"})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{price}})
	v := newVisit(t, a, nil)
	v.say("call: public_price {\"orderId\":\"the secret\"}\nsay: the price is 7")
	path := a.agent + "/sessions/" + v.embed.ChatSessionID
	s := a.until(t, path, "waiting_for_input")
	in := orNone(s.PendingInput)
	forged := []object{
		{"inputId": in.ID, "decision": "approve"}, {"inputId": in.ID, "decision": "reject"}, {"inputId": in.ID, "answer": "approve"},
	}
	for _, body := range forged {
		v.WantError(stoa.CodeScope, "POST", v.chat+"/input", body)
	}
	var chat contract.EmbedChat
	v.Want(200, "GET", v.chat, nil).JSON(&chat)
	if chat.Status != "running" || !chat.PendingInput.IsNull() || orNone(chat.WaitingFor) != "operator" {
		t.Errorf("while it waits the visitor sees %s, %+v, %v", chat.Status, chat.PendingInput, chat.WaitingFor)
	}
	v.say("say: approve") // waits its turn: a visitor rejects nothing either
	var call contract.AgentToolCall
	if a.Want(200, "GET", "/api/v1/tool-calls/"+in.Calls[0].CallID, nil).JSON(&call); call.Status != "waiting" || !call.Approval.IsNull() {
		t.Fatalf("after a message of the visitor the call is %+v", call)
	}
	a.Want(202, "POST", path+"/input", object{"inputId": in.ID, "decisions": []object{{"callId": in.Calls[0].CallID, "decision": "reject", "comment": "the hidden comment"}}})
	v.until(t, "completed") // also of the turn of its second message
	for _, body := range forged {
		v.WantError(stoa.CodeScope, "POST", v.chat+"/input", body)
	}
	log := string(v.Want(200, "GET", v.chat+"/events?limit=1000", nil).Body) + string(v.Want(200, "GET", v.chat, nil).Body)
	for _, secret := range []string{"public_price", "hidden", "cal_", "tool", "waiting_for_input", "waiting_for_approval", "input.", in.ID} {
		if strings.Contains(strings.ReplaceAll(log, `call: public_price {\"orderId\":\"the secret\"}`, ""), secret) {
			t.Errorf("the visitor is told of %q:\n%s", secret, log)
		}
	}
	if !strings.Contains(log, `"waiting_for_operator"`) {
		t.Errorf("the visitor is not told whom it waits for:\n%s", log)
	}
}

// A person approves a write of the service itself like a call of a program.
func TestDriveWritesNeedAnApproval(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	entry := func(more object) object {
		e := object{"type": "drive", "name": "drive_write", "approval": "always"}
		for name, value := range more {
			if e[name] = value; value == nil {
				delete(e, name)
			}
		}
		return e
	}
	a := newAuthor(t, h, h.Client(t), object{"driveAccess": "read_write", "tools": []any{entry(nil)}})
	for _, c := range []struct {
		tools []any
		code  stoa.Code
		at    string
	}{
		{[]any{entry(object{"name": "drive_read"})}, stoa.CodeInvalidValue, "tools[0].name"},
		{[]any{entry(object{"name": nil})}, stoa.CodeMissingParameter, "tools[0].name"},
		{[]any{entry(object{"approval": nil})}, stoa.CodeMissingParameter, "tools[0].approval"},
		{[]any{entry(object{"visitors": "yes"})}, stoa.CodeInvalidValue, "tools[0].visitors"},
		{[]any{entry(object{"description": "x"})}, stoa.CodeInvalidValue, "tools[0].description"},
		{[]any{entry(nil), entry(nil)}, stoa.CodeInvalidValue, "tools[1].name"},
	} {
		if e := a.WantError(c.code, "PATCH", a.agent, object{"tools": c.tools}); e.Param == nil || *e.Param != c.at {
			t.Errorf("the error of %v names %v", c.tools, e.Param)
		}
	}
	var agent contract.Agent
	if a.Want(200, "GET", a.agent, nil).JSON(&agent); len(agent.Tools) != 1 || agent.Tools[0].Type != "drive" || agent.Tools[0].Approval != "always" {
		t.Errorf("the tools are %+v", agent.Tools)
	}
	var s contract.Session
	a.Want(202, "POST", a.agent+"/sessions", object{"message": `call: drive_write {"path":"a.md","content":"text"}`}).JSON(&s)
	path := a.agent + "/sessions/" + s.ID
	if a.Want(200, "GET", path+"?waitSeconds=20", nil).JSON(&s); s.Status != "waiting_for_input" {
		t.Fatalf("the session is %s", s.Status)
	}
	a.WantError(stoa.CodeFileNotFound, "GET", a.agent+"/drive/files/content?path=a.md", nil)
	a.Want(202, "POST", path+"/input", object{"inputId": s.PendingInput.MustGet().ID, "decision": "approve"})
	if a.Want(200, "GET", path+"?waitSeconds=20", nil).JSON(&s); s.Status != "completed" {
		t.Fatalf("the session is %s", s.Status)
	}
	a.Want(200, "GET", a.agent+"/drive/files/content?path=a.md", nil)
	var calls contract.ToolCallList
	if a.Want(200, "GET", path+"/tool-calls", nil).JSON(&calls); len(calls.Data) != 1 || calls.Data[0].Type != "drive" || calls.Data[0].Outcome.MustGet() != "ok" || !calls.Data[0].NeedsApproval {
		t.Errorf("the calls are %+v", calls.Data)
	}
}
