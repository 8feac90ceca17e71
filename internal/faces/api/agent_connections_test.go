package api_test

import (
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// ofConnection is an entry for tools of a connection.
func ofConnection(path string, allow ...string) object {
	return object{"type": "connection", "connectionId": strings.TrimPrefix(path, "/api/v1/connections/"), "allow": allow}
}

func TestAnAgentNamesToolsOfAConnection(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool+","+writeTool+`,{"name":"far","description":"F.","inputSchema":{"type":"object","properties":{"a":{"type":"nothing"}}}}`)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	review(t, c, path, "send")
	entry := ofConnection(path, "search", "send")
	entry["stricter"] = []object{{"name": "search", "approval": "always"}, {"name": "send", "effects": "once"}}
	a := newAuthor(t, h, c, object{"tools": []any{orderTool(nil), entry}})
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	if got := agent.Tools[1]; len(agent.Tools) != 2 || got.ConnectionID != entry["connectionId"] || !slices.Equal(got.Allow, []string{"search", "send"}) ||
		len(got.Stricter) != 2 || got.Stricter[0] != (contract.StricterTool{Name: "search", Approval: "always"}) || got.Name != "" || got.Effects != "" {
		t.Fatalf("the tools are %+v", agent.Tools)
	}
	a.Want(200, "PATCH", a.agent, object{"tools": []any{orderTool(nil), entry}}).JSON(&agent)
	if agent.Version != 1 {
		t.Errorf("the same tools made version %d", agent.Version)
	}

	with := func(change object) object {
		out := object{}
		for k, v := range entry {
			out[k] = v
		}
		for k, v := range change {
			if out[k] = v; v == nil {
				delete(out, k)
			}
		}
		return out
	}
	for _, c := range []struct {
		entry object
		code  stoa.Code
		param string
	}{
		{with(object{"connectionId": stoa.NewID("con")}), stoa.CodeConnectionNotFound, "tools[1].connectionId"},
		{with(object{"connectionId": nil}), stoa.CodeMissingParameter, "tools[1].connectionId"},
		{with(object{"allow": nil}), stoa.CodeMissingParameter, "tools[1].allow"},
		{with(object{"allow": []string{"search", "search"}, "stricter": nil}), stoa.CodeInvalidValue, "tools[1].allow[1]"},
		{with(object{"allow": []string{"search", "other"}, "stricter": nil}), stoa.CodeToolNotFound, "tools[1].allow[1]"},
		{with(object{"allow": []string{"far"}, "stricter": nil}), stoa.CodeInvalidSchema, "tools[1].allow[0]"},
		{with(object{"name": "x"}), stoa.CodeInvalidValue, "tools[1].name"},
		{with(object{"visitors": "yes"}), stoa.CodeInvalidValue, "tools[1].visitors"},
		{with(object{"stricter": []object{{"name": "far"}}}), stoa.CodeInvalidValue, "tools[1].stricter[0].name"},
		{with(object{"stricter": []object{{"name": "send", "approval": "never"}}}), stoa.CodePolicyTooLax, "tools[1].stricter[0].approval"},
		{with(object{"stricter": []object{{"name": "search"}, {"name": "send", "effects": "read"}}}), stoa.CodePolicyTooLax, "tools[1].stricter[1].effects"},
		{orderTool(object{"name": "b", "allow": []string{"x"}}), stoa.CodeInvalidValue, "tools[1].allow"},
		{orderTool(object{"name": "b", "parameters": nil}), stoa.CodeMissingParameter, "tools[1].parameters"},
		{object{"type": "client", "description": "d"}, stoa.CodeMissingParameter, "tools[1].name"},
	} {
		e := a.WantError(c.code, "PATCH", a.agent, object{"tools": []any{orderTool(nil), c.entry}})
		if e.Param == nil || *e.Param != c.param {
			t.Errorf("%s is not at %q: %+v", c.code, c.param, e)
		}
	}
	if e := a.WantError(stoa.CodeInvalidValue, "PATCH", a.agent, object{"tools": []any{entry, entry}}); *e.Param != "tools[1].connectionId" {
		t.Errorf("%+v", e)
	}
	if e := a.WantError(stoa.CodeConnectionNotFound, "POST", a.agent+"/sessions", object{"message": "x", "draft": object{"tools": []any{with(object{"connectionId": "con_1"})}}}); *e.Param != "draft.tools[0].connectionId" {
		t.Errorf("%+v", e)
	}
	// The connection stays in its space when the agent leaves.
	var space contract.Space
	c.Want(201, "POST", "/api/v1/spaces", object{"name": "other"}).JSON(&space)
	a.WantError(stoa.CodeConnectionNotFound, "PATCH", a.agent, object{"spaceId": space.ID})

	// What a session withholds is named when it begins.
	var s contract.Session
	a.Want(202, "POST", a.agent+"/sessions", object{"message": "say: hello", "mode": "once"}).JSON(&s)
	want := []contract.WithheldTool{{Tool: "lookup_order", Reason: "mode_once"}, {Tool: "git__search", Reason: "not_approved"}, {Tool: "git__send", Reason: "mode_once"}}
	if !slices.Equal(s.ToolsWithheld, want) {
		t.Errorf("withheld are %+v", s.ToolsWithheld)
	}
}
