package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestAnAgentWithManyToolsSearchesThem gives an agent more tools than one without the search can have.
func TestAnAgentWithManyToolsSearchesThem(t *testing.T) {
	t.Parallel()
	var definitions, names []string
	for i := range 230 {
		names = append(names, fmt.Sprint("folder_", i))
		definitions = append(definitions, fmt.Sprintf(`{"name":"folder_%d","description":"Opens folder %d.","inputSchema":{"type":"object"}}`, i, i))
	}
	f := newToolServer(t, strings.Join(definitions, ","))
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	entry := ofConnection(path, names...)
	a := newAuthor(t, h, c, object{})

	var meta contract.Meta
	c.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	if meta.Limits.MaxSearchedTools != 1000 {
		t.Errorf("the limits are %+v", meta.Limits)
	}
	if e := a.WantError(stoa.CodeTooManyTools, "PATCH", a.agent, object{"tools": []any{entry}}); *e.Param != "tools" || !strings.Contains(e.Message, "or 1000 with toolSearch") {
		t.Errorf("%+v", e)
	}
	if e := a.WantError(stoa.CodeTooManyTools, "POST", a.agent+"/sessions", object{"message": "x", "draft": object{"tools": []any{entry}}}); *e.Param != "draft.tools" {
		t.Errorf("%+v", e)
	}
	var many []any // they are counted before anything about them is read
	for i := range 3 {
		var allow []string
		for j := range 400 {
			allow = append(allow, fmt.Sprint("tool_", j))
		}
		many = append(many, object{"type": "connection", "connectionId": fmt.Sprint("con_", i), "allow": allow})
	}
	if e := a.WantError(stoa.CodeTooManyTools, "PATCH", a.agent, object{"tools": many, "toolSearch": true}); *e.Param != "tools" || !strings.Contains(e.Message, "has 1200 tools") {
		t.Errorf("%+v", e)
	}
	var long []any // of programs: more than 16,000 tokens
	for i := range 40 {
		long = append(long, orderTool(object{"name": fmt.Sprint("order", i), "description": strings.Repeat("Finds orders. ", 140)}))
	}
	a.WantError(stoa.CodeTooManyTools, "PATCH", a.agent, object{"tools": long})
	var agent contract.Agent
	a.Want(200, "PATCH", a.agent, object{"tools": append(long, entry), "toolSearch": true}).JSON(&agent)
	if !agent.ToolSearch || agent.Version != 2 || len(agent.Tools) != 41 {
		t.Errorf("it searches: %v, version %d, %d tools", agent.ToolSearch, agent.Version, len(agent.Tools))
	}
	for _, name := range []string{stoa.FindTool, stoa.CallTool} {
		if e := a.WantError(stoa.CodeInvalidValue, "PATCH", a.agent, object{"tools": []any{orderTool(object{"name": name})}}); *e.Param != "tools[0].name" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for _, off := range []any{false, nil} {
		a.WantError(stoa.CodeTooManyTools, "PATCH", a.agent, object{"toolSearch": off})
	}
	a.WantError(stoa.CodeTooManyTools, "POST", a.agent+"/sessions", object{"message": "x", "draft": object{"toolSearch": false}})

	set := newTestSet(t, a, object{"message": "say: hello"})
	if e := a.WantError(stoa.CodeTooManyTools, "POST", set+"/runs", object{"maxCreditsMicro": 1, "draft": object{"toolSearch": false}}); *e.Param != "draft.tools" {
		t.Errorf("%+v", e)
	}
	if run := a.runTests(t, set, object{"maxCreditsMicro": 100_000_000, "draft": object{"instructions": "Be brief."}}); run.Status != "completed" {
		t.Errorf("the run is %+v", run)
	}

	// The operations are not approved yet; a session names the first 200.
	var s contract.Session
	a.Want(202, "POST", a.agent+"/sessions", object{"message": "say: hello"}).JSON(&s)
	if len(s.ToolsWithheld) != 200 {
		t.Errorf("%d tools are withheld", len(s.ToolsWithheld))
	}
	all := tools(t, c, path)
	for part := range slices.Chunk(names, 50) {
		var decisions []object
		for _, name := range part {
			decisions = append(decisions, object{"name": name, "sha256": all[name].Sha256, "decision": "approve", "approval": "never", "effects": "read"})
		}
		c.Want(200, "POST", path+"/tools/review", object{"tools": decisions})
	}
	a.Want(202, "POST", a.agent+"/sessions", object{"message": "call: tool_find {\"query\":\"open folder 7\"}\nsay: found"}).JSON(&s)
	one := a.agent + "/sessions/" + s.ID
	a.Want(200, "GET", one+"?waitSeconds=60", nil).JSON(&s)
	if s.Status != "completed" || len(s.ToolsWithheld) != 0 {
		t.Fatalf("the session is %+v", s)
	}
	var step contract.SessionStep
	a.Want(200, "GET", one+"/steps/"+stoa.StepID(s.ID, 1, 2), nil).JSON(&step)
	var defined []string
	found := ""
	for _, p := range step.Request.MustGet().Parts {
		switch {
		case p.Kind == "tools":
			defined = append(defined, p.Name.MustGet())
		case p.Kind == "found" && p.Type == "result" && p.Tokens > 100:
			found = p.Text
		}
	}
	if !slices.Contains(defined, stoa.FindTool) || !slices.Contains(defined, stoa.CallTool) || len(defined) > 10 || !strings.Contains(found, `"name":"git__folder_7"`) {
		t.Errorf("of the tools %q, one found %s", defined, found)
	}

	// A version without the search is restored, and one with it.
	a.Want(200, "PATCH", a.agent, object{"tools": []any{orderTool(nil)}, "toolSearch": nil}).JSON(&agent)
	if agent.ToolSearch || agent.Version != 3 {
		t.Errorf("it searches: %v, version %d", agent.ToolSearch, agent.Version)
	}
	a.Want(202, "POST", a.agent+"/sessions", object{"message": "say: hello", "draft": object{"tools": append(long, entry), "toolSearch": true}})
	var list contract.AgentVersionList
	a.Want(200, "GET", a.agent+"/versions", nil).JSON(&list)
	if len(list.Data) != 3 || !list.Data[1].ToolSearch || list.Data[0].ToolSearch {
		t.Errorf("the versions are %+v", list.Data)
	}
}

// TestACustomersToolMayHaveTheNameOfTheSearch shows the calls of an agent without the search as its model made them.
func TestACustomersToolMayHaveTheNameOfTheSearch(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(object{"name": stoa.CallTool, "parameters": object{"type": "object"}})}})
	const arguments = `{"name":"drive_write","arguments":{"path":"a"}}`
	var s contract.Session
	a.Want(202, "POST", a.agent+"/sessions", object{"message": "call: tool_call " + arguments + "\nsay: done"}).JSON(&s)
	one := a.agent + "/sessions/" + s.ID
	a.Want(200, "GET", one+"?waitSeconds=60", nil).JSON(&s)
	in := s.PendingInput.MustGet()
	if len(in.Calls) != 1 || in.Calls[0].Tool != stoa.CallTool {
		t.Fatalf("it waits for %+v", in)
	}
	a.Want(202, "POST", one+"/input", object{"inputId": in.ID, "outputs": []object{{"callId": in.Calls[0].CallID, "output": "found"}}})
	a.Want(200, "GET", one+"?waitSeconds=60", nil).JSON(&s)
	var first, second contract.SessionStep
	a.Want(200, "GET", one+"/steps/"+stoa.StepID(s.ID, 1, 1), nil).JSON(&first)
	if c := first.Calls[0]; c.Name != stoa.CallTool || c.Arguments != arguments {
		t.Errorf("the step made the call %+v", c)
	}
	a.Want(200, "GET", one+"/steps/"+stoa.StepID(s.ID, 1, 2), nil).JSON(&second)
	shown := 0
	for _, p := range second.Request.MustGet().Parts {
		if p.Type == "call" || p.Type == "result" {
			if shown++; p.Name.MustGet() != stoa.CallTool || p.Kind != "step" {
				t.Errorf("the request has the part %+v", p)
			}
		}
	}
	export := string(a.Want(200, "GET", one+"/export", nil).Body)
	if shown != 2 || !strings.Contains(export, `"name":"tool_call"`) || strings.Contains(export, `"name":"drive_write","arguments":"{`) {
		t.Errorf("%d parts; the export is\n%s", shown, export)
	}
}
