package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// cancelOrder is an operation with effects, of whose arguments visitors may see some.
func cancelOrder() object {
	return object{
		"name": "cancel_order_internal", "description": "Cancels an order.", "method": "POST", "path": "/orders/{id}/cancel", "effects": "once",
		"parameters": object{
			"properties": object{
				"id":     object{"type": "string", "in": "path", "title": "Order"},
				"why":    object{"type": "string", "in": "body"},
				"note":   object{"type": "string", "in": "body"},
				"count":  object{"type": "integer", "in": "body"},
				"detail": object{"type": "object", "in": "body", "properties": object{"a/b": object{"type": "boolean"}}},
			},
			"required": []string{"id"},
		},
	}
}

// A confirming is an agent with a tool that visitors confirm, and its connection.
type confirming struct {
	author
	shop       *shop
	connection string
}

func newConfirming(t *testing.T, approval string) confirming {
	t.Helper()
	f := newShop(t)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	var made contract.Connection
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "http", "name": "shop", "url": f.url, "operations": []object{cancelOrder()}}).JSON(&made)
	out := confirming{shop: f, connection: "/api/v1/connections/" + made.ID}
	body := out.review(t, c, object{"approval": approval})
	c.Want(200, "POST", out.connection+"/tools/review", body)
	out.author = newAuthor(t, h, c, object{"tools": []any{ofConnection(out.connection, "cancel_order_internal")}})
	return out
}

// review is a review that has visitors confirm.
func (c confirming) review(t *testing.T, client *apitest.Client, more object) object {
	t.Helper()
	one := object{
		"name": "cancel_order_internal", "sha256": tools(t, client, c.connection)["cancel_order_internal"].Sha256, "decision": "approve", "approval": "never", "effects": "once",
		"visitors": "confirm", "visitorTitle": "Cancel an order", "publicFields": []string{"/id", "/why", "/count", "/detail/a~1b"},
	}
	for k, v := range more {
		if one[k] = v; v == nil {
			delete(one, k)
		}
	}
	return object{"tools": []object{one}}
}

const cancelling = `call: shop__cancel_order_internal {"id":"A-17","why":"<b>too` + "\u202e" + `late</b>","note":"NOTE-OF-THE-OWNER","count":12345678901234567,"detail":{"a/b":true}}` + "\nsay: well"

func TestAVisitorIsAskedWhatIsPublicAlone(t *testing.T) {
	t.Parallel()
	for _, decision := range []string{"approve", "reject", "message"} {
		t.Run(decision, func(t *testing.T) {
			a := newConfirming(t, "never")
			v := newVisit(t, a.author, nil)
			v.say(cancelling)
			chat := v.until(t, "waiting_for_input")
			in := orNone(chat.PendingInput)
			if in.Kind != "tool_confirmation" || in.Prompt == "" || in.Calls != nil || in.Confirmation.Title != "Cancel an order" || in.Confirmation.PreviousOutcome != "" {
				t.Fatalf("the visitor is asked %+v", in)
			}
			var shown []string
			for _, f := range in.Confirmation.Fields {
				shown = append(shown, fmt.Sprint(f.Name, "=", f.Value, f.Cut))
			}
			if got := strings.Join(shown, " "); got != `Order=A-17false why=<b>too\u{202e}late</b>false count=12345678901234567false a/b=truefalse` {
				t.Errorf("the visitor is shown %s", got)
			}
			path := a.agent + "/sessions/" + v.embed.ChatSessionID
			var s contract.Session
			a.Want(200, "GET", path, nil).JSON(&s)
			owned := orNone(s.PendingInput)
			if orNone(s.StatusReason) != "waiting_for_visitor" || len(owned.Calls) != 1 || owned.Calls[0].Tool != "shop__cancel_order_internal" || owned.Confirmation.Title != "Cancel an order" ||
				!strings.Contains(string(owned.Calls[0].Arguments), "NOTE-OF-THE-OWNER") {
				t.Errorf("the owner sees %+v", owned)
			}
			var list contract.InputList
			if a.Want(200, "GET", "/api/v1/inputs?kind=all", nil).JSON(&list); len(list.Data) != 0 {
				t.Errorf("programs and operators are offered %+v", list.Data)
			}
			// Only this visitor can confirm.
			answer := object{"inputId": in.ID, "decision": "approve"}
			a.WantError(stoa.CodeNotWaiting, "POST", path+"/input", answer)
			other := newVisit(t, a.author, nil)
			if r := other.Do("POST", v.chat+"/input", answer); r.Status != 401 { // its token is for another chat
				t.Errorf("another visitor is told %d %s", r.Status, r.Body)
			}
			other.say("say: hello")
			other.until(t, "completed")
			if r := other.Do("POST", other.chat+"/input", answer); r.Status != 404 {
				t.Errorf("in another chat it is %d %s", r.Status, r.Body)
			}
			if r := a.h.ClientWith(t, "est_forged").With("Origin", site).Do("POST", v.chat+"/input", answer); r.Status != 401 {
				t.Errorf("a forged token is told %d %s", r.Status, r.Body)
			}
			for _, forged := range []object{
				{"inputId": in.ID, "decisions": []object{{"callId": owned.Calls[0].CallID, "decision": "approve"}}},
				{"inputId": in.ID, "outputs": []object{{"callId": owned.Calls[0].CallID, "output": "x"}}},
			} {
				v.WantError(stoa.CodeScope, "POST", v.chat+"/input", forged)
			}
			for _, wrong := range []object{{"inputId": in.ID, "answer": "approve"}, {"inputId": in.ID, "choice": "approve"}} {
				if e := v.WantError(stoa.CodeInvalidValue, "POST", v.chat+"/input", wrong); e.Param == nil || *e.Param != "decision" {
					t.Errorf("%v: %+v", wrong, e)
				}
			}
			v.WantError(stoa.CodeMissingParameter, "POST", v.chat+"/input", object{"inputId": in.ID})
			if sent := a.shop.requests(); sent != "" {
				t.Fatalf("before it was confirmed, %s was sent", sent)
			}

			outcome, requests := "denied", ""
			switch decision {
			case "approve":
				outcome, requests = "ok", "POST /orders/A-17/cancel"
				v.Want(202, "POST", v.chat+"/input", answer)
			case "reject":
				answer["decision"] = "reject"
				v.Want(202, "POST", v.chat+"/input", answer)
			case "message":
				v.say("approve")
			}
			v.until(t, "completed")
			if sent := a.shop.requests(); sent != requests {
				t.Errorf("%q was sent, want %q", sent, requests)
			}
			var calls contract.ToolCallList
			a.Want(200, "GET", path+"/tool-calls", nil).JSON(&calls)
			said := calls.Data[0].Confirmation
			if c := calls.Data[0]; orNone(c.Outcome) != outcome || !c.NeedsConfirmation || c.NeedsApproval || orNone(said.EmbedID) != v.embed.ID || said.Decision != strings.Replace(decision, "message", "reject", 1) {
				t.Errorf("the call is %+v, %+v", c, said)
			}
			if decision != "message" {
				v.Want(202, "POST", v.chat+"/input", answer)
				answer["decision"] = map[string]string{"approve": "reject", "reject": "approve"}[decision]
				v.WantError(stoa.CodeDecided, "POST", v.chat+"/input", answer)
			}
			if export := string(a.Want(200, "GET", path+"/export?format=jsonl", nil).Body); !strings.Contains(export, `"confirmation":{"decision":"`+said.Decision+`","embedId":"`+v.embed.ID) {
				t.Errorf("the export is %s", export)
			}
			// All that the visitor can read, and the stream once more from its beginning.
			log := string(v.Want(200, "GET", v.chat+"/events?limit=1000", nil).Body) + string(v.Want(200, "GET", v.chat, nil).Body) +
				string(v.With("Accept", "text/event-stream").Want(200, "GET", v.chat+"/events", nil).Body)
			text, _ := json.Marshal(cancelling)
			for _, own := range []string{string(text), strings.ReplaceAll(strings.ReplaceAll(string(text), `\u003c`, "<"), `\u003e`, ">"), cancelling} {
				log = strings.ReplaceAll(log, own, "")
			}
			for _, secret := range []string{"NOTE-OF-THE-OWNER", "cancel_order_internal", "shop", "cal_", "con_", "Status: 200", "waiting_for_visitor", "tool.called", "tool.completed", "once"} {
				if strings.Contains(log, secret) {
					t.Errorf("the visitor is told of %q:\n%s", secret, log)
				}
			}
			if !strings.Contains(log, "Cancel an order") || !strings.Contains(log, "A-17") {
				t.Errorf("the visitor was not asked:\n%s", log)
			}
		})
	}
}

func TestAnOperatorApprovesWhatAVisitorConfirmed(t *testing.T) {
	t.Parallel()
	a := newConfirming(t, "always")
	v := newVisit(t, a.author, nil)
	v.say(cancelling)
	in := orNone(v.until(t, "waiting_for_input").PendingInput)
	v.Want(202, "POST", v.chat+"/input", object{"inputId": in.ID, "decision": "approve"})
	path := a.agent + "/sessions/" + v.embed.ChatSessionID
	todo := orNone(a.until(t, path, "waiting_for_input").PendingInput)
	var chat contract.EmbedChat
	if v.Want(200, "GET", v.chat, nil).JSON(&chat); todo.Kind != "tool_approval" || chat.Status != "running" || !chat.PendingInput.IsNull() || orNone(chat.WaitingFor) != "operator" {
		t.Errorf("the session waits for %+v, the visitor sees %+v", todo, chat)
	}
	v.WantError(stoa.CodeScope, "POST", v.chat+"/input", object{"inputId": todo.ID, "decision": "approve"})
	a.Want(202, "POST", path+"/input", object{"inputId": todo.ID, "decision": "approve"})
	v.until(t, "completed")
	if sent := a.shop.requests(); sent != "POST /orders/A-17/cancel" {
		t.Errorf("%q was sent", sent)
	}
}

func TestAReviewForVisitorsIsChecked(t *testing.T) {
	t.Parallel()
	a := newConfirming(t, "never")
	got := tools(t, a.Client, a.connection)["cancel_order_internal"]
	if got.Visitors != "confirm" || got.VisitorTitle != "Cancel an order" || strings.Join(got.PublicFields, " ") != "/id /why /count /detail/a~1b" {
		t.Errorf("the tool is %+v", got)
	}
	for name, c := range map[string]struct {
		more  object
		code  stoa.Code
		param string
	}{
		"no such property":  {object{"publicFields": []string{"/id", "/other"}}, stoa.CodeInvalidValue, "tools[0].publicFields[1]"},
		"an object":         {object{"publicFields": []string{"/detail"}}, stoa.CodeInvalidValue, "tools[0].publicFields[0]"},
		"all of it":         {object{"publicFields": []string{"/"}}, stoa.CodeInvalidValue, "tools[0].publicFields[0]"},
		"no pointer":        {object{"publicFields": []string{"id"}}, stoa.CodeInvalidValue, "tools[0].publicFields[0]"},
		"a bad escape":      {object{"publicFields": []string{"/detail/a~2b"}}, stoa.CodeInvalidValue, "tools[0].publicFields[0]"},
		"one twice":         {object{"publicFields": []string{"/id", "/id"}}, stoa.CodeInvalidValue, "tools[0].publicFields[1]"},
		"no title":          {object{"visitorTitle": nil}, stoa.CodeMissingParameter, "tools[0].visitorTitle"},
		"an unseen title":   {object{"visitorTitle": "\u200b \u200b"}, stoa.CodeMissingParameter, "tools[0].visitorTitle"},
		"fields for nobody": {object{"visitors": "no", "visitorTitle": nil}, stoa.CodeInvalidValue, "tools[0].publicFields"},
		"a title for none":  {object{"visitors": nil, "publicFields": nil}, stoa.CodeInvalidValue, "tools[0].visitorTitle"},
		"without a check":   {object{"visitors": "yes", "visitorTitle": nil, "publicFields": nil}, stoa.CodeInvalidValue, "tools[0].visitors"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := a.WantError(c.code, "POST", a.connection+"/tools/review", a.review(t, a.Client, c.more)); e.Param == nil || *e.Param != c.param {
				t.Errorf("%+v", e)
			}
		})
	}
	if now := tools(t, a.Client, a.connection)["cancel_order_internal"]; now.VisitorTitle != got.VisitorTitle || len(now.PublicFields) != 4 {
		t.Errorf("a refused review changed it to %+v", now)
	}
	// What is public ends with the review, and with the connection's address.
	a.Want(200, "POST", a.connection+"/tools/review", a.review(t, a.Client, object{"visitors": "no", "visitorTitle": nil, "publicFields": nil}))
	if now := tools(t, a.Client, a.connection)["cancel_order_internal"]; now.Visitors != "no" || now.VisitorTitle != "" || now.PublicFields != nil {
		t.Errorf("after another review it is %+v", now)
	}
	a.Want(200, "POST", a.connection+"/tools/review", a.review(t, a.Client, nil))
	a.Want(200, "PATCH", a.connection, object{"url": a.shop.url + "/v2"})
	if now := tools(t, a.Client, a.connection)["cancel_order_internal"]; now.Visitors != "no" || now.VisitorTitle != "" || now.PublicFields != nil {
		t.Errorf("at another address it is %+v", now)
	}
}

// A session of the account is a visitor's once an embed shows it: its tools are those for
// visitors, and the visitor is asked.
func TestAShownSessionIsAVisitors(t *testing.T) {
	t.Parallel()
	a := newConfirming(t, "never")
	a.Want(200, "PATCH", a.agent, object{"tools": []any{orderTool(nil), ofConnection(a.connection, "cancel_order_internal")}})
	s, path := a.begin(t, cancelling, nil)
	if s = a.until(t, path, "completed"); len(s.ToolsWithheld) != 0 || a.shop.requests() != "POST /orders/A-17/cancel" {
		t.Fatalf("for the account it withholds %+v", s.ToolsWithheld)
	}
	v := newVisit(t, a.author, object{"chatSessionId": s.ID})
	v.say(cancelling)
	in := orNone(v.until(t, "waiting_for_input").PendingInput)
	if sent := a.shop.requests(); in.Kind != "tool_confirmation" || sent != "" {
		t.Errorf("the visitor is asked %+v after %q was sent", in, sent)
	}
	s = a.until(t, path, "waiting_for_input")
	if len(s.ToolsWithheld) != 1 || s.ToolsWithheld[0] != (contract.WithheldTool{Tool: "lookup_order", Reason: "visitor"}) {
		t.Errorf("it withholds %+v", s.ToolsWithheld)
	}
	v.Want(202, "POST", v.chat+"/input", object{"inputId": in.ID, "decision": "reject"})
	v.until(t, "completed")
	if sent := a.shop.requests(); sent != "" {
		t.Errorf("%q was sent", sent)
	}
}
