package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// ticket is a schema of answers; the sandbox fills in {"drachmas":1}.
var ticket = object{"type": "object", "properties": object{"drachmas": object{"type": "integer"}}, "required": []string{"drachmas"}, "additionalProperties": false}

const freeTicket = `{"drachmas":1}`

func valueOf(s contract.Session) string {
	v, _ := s.ReplyJSON.Get() // empty if it is null
	return string(v)
}

// TestAnAgentSetsItsModelCalls sets the reply schema, the effort and the temperature of an agent's versions, and clears them.
func TestAnAgentSetsItsModelCalls(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"replySchema": ticket, "reasoning": object{"effort": "low"}, "temperature": 0.3})
	want := func(reply *apitest.Reply, schema, effort string, temperature float64, version int64) {
		t.Helper()
		var agent contract.Agent
		reply.JSON(&agent)
		s, _ := agent.ReplySchema.Get()
		if (len(s) > 0) != (schema != "") || schema != "" && !strings.Contains(string(s), schema) || orNone(orNone(agent.Reasoning).Effort) != effort || orNone(agent.Temperature) != temperature || agent.Version != version {
			t.Errorf("%s, %v, %v in version %d", s, agent.Reasoning, agent.Temperature, agent.Version)
		}
	}
	want(a.Want(200, "GET", a.agent, nil), "drachmas", "low", 0.3, 1)
	want(a.Want(200, "PATCH", a.agent, object{"name": "Other"}), "drachmas", "low", 0.3, 1)
	want(a.Want(200, "PATCH", a.agent, object{"temperature": 0.3}), "drachmas", "low", 0.3, 1)
	want(a.Want(200, "PATCH", a.agent, object{"reasoning": object{"effort": "max"}}), "drachmas", "max", 0.3, 2)
	want(a.Want(201, "POST", a.agent+"/duplicate", nil), "drachmas", "max", 0.3, 1)
	want(a.Want(200, "PATCH", a.agent, object{"replySchema": nil, "reasoning": object{"effort": nil}, "temperature": nil}), "", "", 0, 3)
	want(a.Want(200, "POST", a.agent+"/rollback", object{"version": 1}), "drachmas", "low", 0.3, 4)
	var v contract.AgentVersion
	if a.Want(200, "GET", a.agent+"/versions/2", nil).JSON(&v); orNone(orNone(v.Reasoning).Effort) != "max" {
		t.Errorf("version 2 has %+v", v.Reasoning)
	}
	for param, body := range map[string]object{
		"replySchema":      {"replySchema": object{"type": "array"}},
		"reasoning.effort": {"reasoning": object{"effort": "most"}},
		"reasoning.budget": {"reasoning": object{"budget": 1}},
		"temperature":      {"temperature": 2.1},
	} {
		e := a.Do("PATCH", a.agent, body)
		if got := e.Error(); e.Status != 400 || deref(got.Param) != param {
			t.Errorf("%v: %d at %q, want %q", body, e.Status, deref(got.Param), param)
		}
		if param == "replySchema" {
			a.WantError(stoa.CodeInvalidSchema, "PATCH", a.agent, body)
			a.WantError(stoa.CodeInvalidSchema, "POST", a.agent+"/sessions", object{"message": "?", "replySchema": object{"type": "array"}})
			if got := a.WantError(stoa.CodeInvalidSchema, "POST", a.agent+"/sessions", object{"message": "?", "draft": body}); deref(got.Param) != "draft.replySchema" {
				t.Errorf("in a draft it is at %q", deref(got.Param))
			}
		}
	}
}

// TestAValueOfAnAnswer has the value of an answer in the session, lists, exports, events and webhooks.
func TestAValueOfAnAnswer(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Allow: toLoopback, Server: unlimited})
	a := newAuthor(t, h, h.Client(t), object{"replySchema": ticket})
	address, got := catcher(t)
	w := newHook(t, a.Client, object{"url": address, "events": []string{"session.completed"}})
	_, path := a.begin(t, "What does it cost?", nil)
	if s := a.until(t, path, "completed"); valueOf(s) != freeTicket || orNone(s.Reply) != freeTicket {
		t.Errorf("the value is %s of %q", valueOf(s), orNone(s.Reply))
	}
	if body := verified(t, w.Secret, <-got); !strings.HasSuffix(body, `"replyJson":`+freeTicket+`}}`) {
		t.Errorf("the webhook has %s", body)
	}
	var list page[contract.Session]
	if a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&list); valueOf(list.Data[0]) != freeTicket {
		t.Errorf("the list has %s", valueOf(list.Data[0]))
	}
	first, _, _ := strings.Cut(string(a.Want(200, "GET", path+"/export", nil).Body), "\n")
	var line struct{ ReplyJSON json.RawMessage }
	if err := json.Unmarshal([]byte(first), &line); err != nil || string(line.ReplyJSON) != freeTicket {
		t.Errorf("the export has %s", first)
	}
	// A session can have a schema of its own; without one, the value is null.
	_, path = a.begin(t, "?", object{"replySchema": object{"type": "object", "properties": object{"open": object{"type": "boolean"}}, "required": []string{"open"}}})
	if s := a.until(t, path, "completed"); valueOf(s) != `{"open":true}` {
		t.Errorf("the value is %s", valueOf(s))
	}
	<-got
	plain := newAuthor(t, h, a.Client, nil)
	_, path = plain.begin(t, "say: {}", nil)
	if s := plain.until(t, path, "completed"); valueOf(s) != "" || !s.ReplyJSON.IsNull() {
		t.Errorf("the value is %s", valueOf(s))
	}
	if body := verified(t, w.Secret, <-got); strings.Contains(body, "replyJson") {
		t.Errorf("the webhook has %s", body)
	}
	// A draft tries a schema; an upgrade takes that of the new version.
	_, path = plain.begin(t, "?", object{"draft": object{"replySchema": ticket, "temperature": 1, "reasoning": object{"effort": "low"}}})
	if s := plain.until(t, path, "completed"); valueOf(s) != freeTicket {
		t.Errorf("the value of a draft is %s", valueOf(s))
	}
	plain.Want(200, "POST", path+"/upgrade", nil)
	plain.Want(202, "POST", path+"/messages", object{"message": "say: free"})
	if s := plain.until(t, path, "completed"); valueOf(s) != "" || orNone(s.Reply) != "free" {
		t.Errorf("after the upgrade the value is %s of %q", valueOf(s), orNone(s.Reply))
	}
}

// TestAFormatIsTheSchemaOfASession sends the schema as the format of a call of a model, in each format.
func TestAFormatIsTheSchemaOfASession(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"description": "Answers questions.", "expose": []string{"responses", "mcp"}})
	user := []any{object{"role": "user", "content": "What does it cost?"}}
	schemaOf := func(schema object) object { return object{"type": "json_schema", "name": "ticket", "schema": schema} }
	for path, call := range map[string]struct{ body, refused object }{
		"/api/v1/responses": {object{"input": user, "text": object{"format": schemaOf(ticket)}}, object{"text": object{"format": schemaOf(object{"type": "object", "properties": object{"a": object{"pattern": "(?=x)"}}})}}},
		"/api/v1/chat/completions": {
			object{"messages": user, "response_format": object{"type": "json_schema", "json_schema": object{"name": "ticket", "schema": ticket}}},
			object{"response_format": object{"type": "json_schema", "json_schema": object{"name": "ticket", "schema": object{"type": "object", "properties": object{"a": object{"pattern": "(?=x)"}}}}}},
		},
		"/api/v1/messages": {
			object{"messages": user, "max_tokens": 100, "output_config": object{"format": object{"type": "json_schema", "schema": ticket}}},
			object{"output_config": object{"format": object{"type": "json_schema", "schema": object{"type": "object", "properties": object{"a": object{"pattern": "(?=x)"}}}}}},
		},
	} {
		for _, stream := range []bool{false, true} {
			call.body["model"], call.body["stream"] = "agent/Helper", stream
			r := a.Want(200, "POST", path, call.body)
			var s contract.Session
			a.Want(200, "GET", a.agent+"/sessions/"+r.Header.Get("Stoa-Session"), nil).JSON(&s)
			if valueOf(s) != freeTicket || !strings.Contains(string(r.Body), "drachmas") {
				t.Errorf("%s, stream %t: the value is %s, the reply %s", path, stream, valueOf(s), r.Body)
			}
			again := a.With("stoa-session", s.ID)
			again.Want(200, "POST", path, call.body)
			for name, member := range call.refused {
				other := object{}
				for k, v := range call.body {
					other[k] = v
				}
				other[name] = member
				e := again.Do("POST", path, other)
				if param := deref(e.Error().Param); e.Status != 400 || !strings.HasPrefix(param, name) {
					t.Errorf("%s: a schema that is not supported: %d at %q %s", path, e.Status, param, e.Body)
				}
			}
		}
	}
	plain, r := askAgent(a.Client, "say: free", nil)
	e := a.With("stoa-session", r.Header.Get("Stoa-Session")).WantError(stoa.CodeUnsupportedValue, "POST", "/api/v1/responses", object{"model": "agent/Helper", "input": "?", "text": object{"format": schemaOf(ticket)}})
	if plain.Output[0].Content[0].Text != "free" || deref(e.Param) != "text.format" {
		t.Errorf("a schema for a session without one: %+v", e)
	}
	a.Want(200, "PATCH", a.agent, object{"replySchema": ticket})
	got, _ := callTool(t, mcpClient(t, h.URL+"/api/v1/mcp", h.Key, "", nil), "Helper", object{"message": "What does it cost?"})
	if string(got.ReplyJSON) != freeTicket || got.Reply != freeTicket {
		t.Errorf("the result of the tool is %+v", got)
	}
}
