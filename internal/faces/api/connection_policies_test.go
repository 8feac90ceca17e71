package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// keyedTool takes the id of a call in several arguments, and in some that cannot be one.
const keyedTool = `{"name":"pay","description":"Pays.","inputSchema":{"type":"object","required":["ref","amount"],"$defs":{"id":{"type":"string","minLength":8}},"properties":{
	"ref":{"type":"string"},"shared":{"type":"string","allOf":[{"$ref":"#/$defs/id"}]},"amount":{"type":"integer"},"any":{},"either":{"type":["string","null"]},
	"uuid":{"type":"string","format":"uuid"},"short":{"type":"string","maxLength":8},"one":{"type":"string","enum":["a"]},"digits":{"type":"string","pattern":"^[0-9]+$"}}}}`

func TestAReviewNamesTheArgumentForTheID(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, keyedTool+","+readTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	body := func(more object) object {
		d := object{"name": "pay", "sha256": tools(t, c, path)["pay"].Sha256, "decision": "approve", "approval": "never", "effects": "idempotent"}
		for k, v := range more {
			d[k] = v
		}
		return object{"tools": []object{d}}
	}
	if pay := tools(t, c, path)["pay"]; !pay.OnUnknown.IsNull() || !pay.IdempotencyArgument.IsNull() {
		t.Errorf("before its review: %+v", pay)
	}
	for _, wrong := range []object{
		{"idempotencyArgument": "amount"},
		{"idempotencyArgument": "any"},
		{"idempotencyArgument": "either"},
		{"idempotencyArgument": "uuid"},
		{"idempotencyArgument": "short"},
		{"idempotencyArgument": "one"},
		{"idempotencyArgument": "digits"},
		{"idempotencyArgument": "other"},
		{"idempotencyArgument": ""},
		{"idempotencyArgument": "ref", "effects": "read"},
		{"idempotencyArgument": "ref", "visitors": "confirm", "visitorTitle": "Pay", "publicFields": []string{"/amount", "/ref"}},
	} {
		if e := c.Want(400, "POST", path+"/tools/review", body(wrong)).Error(); e.Code != string(stoa.CodeInvalidValue) || *e.Param != "tools[0].idempotencyArgument" {
			t.Errorf("%v: %+v", wrong, e)
		}
	}
	if e := c.Want(400, "POST", path+"/tools/review", body(object{"onUnknown": "ask"})).Error(); *e.Param != "tools[0].onUnknown" {
		t.Errorf("%+v", e)
	}
	if pay := tools(t, c, path)["pay"]; pay.State != "new" {
		t.Errorf("after what was refused: %+v", pay)
	}
	c.Want(200, "POST", path+"/tools/review", body(object{"idempotencyArgument": "shared"}))
	c.Want(200, "POST", path+"/tools/review", body(nil))
	whole := tools(t, c, path)["pay"].DefinitionTokens
	c.Want(200, "POST", path+"/tools/review", body(object{"idempotencyArgument": "ref", "onUnknown": "fail"}))
	pay := tools(t, c, path)["pay"]
	if pay.OnUnknown.MustGet() != "fail" || pay.IdempotencyArgument.MustGet() != "ref" || pay.DefinitionTokens >= whole {
		t.Errorf("%+v, before it took %d tokens", pay, whole)
	}
	var out contract.ConnectionToolTest
	c.Want(200, "POST", path+"/tools/test", object{"name": "pay", "confirm": true, "arguments": object{"amount": 3, "ref": "mine"}}).JSON(&out)
	if got, want := *f.args.Load(), `{"amount":3,"ref":"`+out.CallID+`"}`; got != want {
		t.Errorf("the server got %s, want %s", got, want)
	}

	// A decision about another definition replaces the old one, and a rejection removes
	// everything.
	changed := strings.Replace(keyedTool, "Pays.", "Pays now.", 1)
	f.tools.Store(&changed)
	c.Want(200, "POST", path+"/refresh", nil)
	if pay := tools(t, c, path)["pay"]; pay.State != "changed" || pay.IdempotencyArgument.MustGet() != "ref" {
		t.Errorf("%+v", pay)
	}
	c.Want(200, "POST", path+"/tools/review", body(nil))
	if pay := tools(t, c, path)["pay"]; pay.OnUnknown.MustGet() != "tell_model" || !pay.IdempotencyArgument.IsNull() {
		t.Errorf("%+v", pay)
	}
	c.Want(200, "POST", path+"/tools/review", body(object{"idempotencyArgument": "ref", "onUnknown": "fail"}))
	for _, take := range []func(){
		func() { c.Want(200, "POST", path+"/tools/review", body(object{"decision": "reject"})) },
		func() {
			c.Want(200, "POST", path+"/tools/review", body(object{"idempotencyArgument": "ref", "onUnknown": "fail"}))
			c.Want(200, "PATCH", path, object{"url": f.url + "/other"})
		},
	} {
		take()
		if pay := tools(t, c, path)["pay"]; !pay.OnUnknown.IsNull() || !pay.IdempotencyArgument.IsNull() {
			t.Errorf("%+v", pay)
		}
	}
}

func TestAnAgentMayHaveTurnsFailThatTell(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool+","+writeTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	review(t, c, path, "search")
	c.Want(200, "POST", path+"/tools/review", object{"tools": []object{{
		"name": "send", "sha256": tools(t, c, path)["send"].Sha256, "decision": "approve", "policy": "by_annotations", "onUnknown": "fail",
	}}})
	entry := func(search, send string) object {
		e := ofConnection(path, "search", "send")
		e["stricter"] = []object{{"name": "search", "onUnknown": search}, {"name": "send", "onUnknown": send}}
		return e
	}
	a := newAuthor(t, h, c, object{"tools": []any{entry("fail", "fail")}})
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	if got := agent.Tools[0].Stricter; got[0] != (contract.StricterTool{Name: "search", OnUnknown: "fail"}) || got[1].OnUnknown != "fail" {
		t.Errorf("%+v", got)
	}
	if e := a.WantError(stoa.CodePolicyTooLax, "PATCH", a.agent, object{"tools": []any{entry("tell_model", "tell_model")}}); *e.Param != "tools[0].stricter[1].onUnknown" {
		t.Errorf("%+v", e)
	}
	a.Want(200, "PATCH", a.agent, object{"tools": []any{entry("tell_model", "fail")}})
}

func TestAConnectionIsSwitchedOffAndOn(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	review(t, c, path, "search")
	if s := status(t, c, path); !s.Enabled || s.Status != "ready" {
		t.Errorf("%+v", s)
	}
	var made contract.Connection
	c.Want(200, "PATCH", path, object{"enabled": false}).JSON(&made)
	if made.Enabled || made.Status != "disabled" || made.ToolCounts.Approved != 1 {
		t.Errorf("%+v", made)
	}
	c.Want(200, "PATCH", path, object{"onChange": "keep"})
	var list contract.ConnectionList
	c.Want(200, "GET", "/api/v1/connections", nil).JSON(&list)
	if list.Data[0].Enabled || list.Data[0].Status != "disabled" {
		t.Errorf("%+v", list.Data[0])
	}
	for _, ask := range []struct {
		path string
		body any
	}{{"/refresh", nil}, {"/tools/test", object{"name": "search"}}} {
		if e := c.Want(409, "POST", path+ask.path, ask.body).Error(); e.Code != string(stoa.CodeConnectionDisabled) || !strings.Contains(e.Message, "enabled: true") {
			t.Errorf("%s: %+v", ask.path, e)
		}
	}
	if f.calls.Load() != 0 {
		t.Error("the tool was called")
	}
	a := newAuthor(t, h, c, object{"tools": []any{ofConnection(path, "search")}})
	if e := c.Want(409, "DELETE", path, nil).Error(); e.Code != string(stoa.CodeConnectionInUse) {
		t.Errorf("%+v", e)
	}
	_, session := a.begin(t, "Hello", nil)
	got := a.until(t, session, "completed")
	if len(got.ToolsWithheld) != 1 || got.ToolsWithheld[0] != (contract.WithheldTool{Tool: "git__search", Reason: "disabled"}) {
		t.Errorf("%+v", got.ToolsWithheld)
	}
	for _, on := range []any{true, nil} {
		c.Want(200, "PATCH", path, object{"enabled": false})
		c.Want(200, "PATCH", path, object{"enabled": on})
		if s := status(t, c, path); !s.Enabled || s.Status != "ready" {
			t.Errorf("%v: %+v", on, s)
		}
	}
	c.Want(200, "POST", path+"/refresh", nil)
	c.Want(200, "POST", path+"/tools/test", object{"name": "search"})
}
