package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestAnAgentSetsItsMemory turns the memory on and off.
func TestAnAgentSetsItsMemory(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{})
	want := func(reply *apitest.Reply, memory string, version int64) {
		t.Helper()
		var agent contract.Agent
		if reply.JSON(&agent); agent.Memory != memory || agent.Version != version {
			t.Errorf("%v in version %d, want %v in %d", agent.Memory, agent.Version, memory, version)
		}
	}
	want(a.Want(200, "GET", a.agent, nil), "none", 1)
	want(a.Want(200, "PATCH", a.agent, object{"memory": "user"}), "user", 2)
	want(a.Want(200, "PATCH", a.agent, object{"name": "Other"}), "user", 2)
	want(a.Want(201, "POST", a.agent+"/duplicate", nil), "user", 1)
	want(a.Want(200, "PATCH", a.agent, object{"memory": "none"}), "none", 3)
	want(a.Want(200, "POST", a.agent+"/rollback", object{"version": 2}), "user", 4)
	want(a.Want(200, "PATCH", a.agent, object{"memory": nil}), "none", 5)
	var v contract.AgentVersion
	if a.Want(200, "GET", a.agent+"/versions/4", nil).JSON(&v); v.Memory != "user" {
		t.Error("version 4 has no memory")
	}
	a.WantError(stoa.CodeInvalidValue, "PATCH", a.agent, object{"memory": "all"})
	mine := orderTool(object{"name": "memory_read"})
	a.Want(200, "PATCH", a.agent, object{"tools": []any{mine}}) // as before there were memories
	if e := a.WantError(stoa.CodeInvalidValue, "PATCH", a.agent, object{"memory": "user"}); e.Param == nil || *e.Param != "memory" {
		t.Errorf("%+v", e)
	}
	asks := object{"type": "drive", "name": "memory_write", "approval": "always"}
	a.Want(200, "PATCH", a.agent, object{"memory": "user", "tools": []any{asks, object{"type": "drive", "name": "drive_write", "approval": "never"}}})
	a.WantError(stoa.CodeInvalidValue, "PATCH", a.agent, object{"tools": []any{asks, asks}})
	a.WantError(stoa.CodeInvalidValue, "PATCH", a.agent, object{"tools": []any{object{"type": "drive", "name": "memory_read", "approval": "always"}}})
}

// TestNotesOfAUser writes, lists, pages and deletes notes, which a session of the user shows.
func TestNotesOfAUser(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	a := newAuthor(t, h, h.Client(t), object{"memory": "user"})
	const ada = "ada/../ö 1"
	notes, users := a.agent+"/memory/notes", a.agent+"/memory/users"
	of := func(user string) string { return notes + "?externalUserId=" + url.QueryEscape(user) }
	list := func(path string) (got contract.MemoryNoteList) {
		t.Helper()
		a.Want(200, "GET", path, nil).JSON(&got)
		return got
	}
	put := func(user, name, text string) object {
		return object{"externalUserId": user, "name": name, "text": text}
	}
	if got := list(of(ada)); len(got.Data) != 0 || got.HasMore {
		t.Errorf("before the first note: %+v", got)
	}
	var note contract.MemoryNote
	if a.Want(200, "PUT", notes, put(ada, "diet", "No nüts.")).JSON(&note); note.Name != "diet" || note.Text != "No nüts." || note.Bytes != 9 {
		t.Errorf("the note is %+v", note)
	}
	a.Want(200, "PUT", notes, put(ada, "diet", "Nuts."))
	a.Want(200, "PUT", notes, put(ada, "name", "Ada."))
	a.Want(200, "PUT", notes, put("grace", "name", "Grace."))
	first := list(of(ada) + "&limit=1")
	second := list(of(ada) + "&limit=1&cursor=" + url.QueryEscape(orNone(first.NextCursor)))
	if len(first.Data) != 1 || first.Data[0].Name != "name" || !first.HasMore || len(second.Data) != 1 || second.Data[0].Text != "Nuts." || second.HasMore {
		t.Errorf("the pages are %+v and %+v", first, second)
	}
	if got := list(of(ada) + "&name=diet"); len(got.Data) != 1 || got.Data[0].Name != "diet" {
		t.Errorf("the note alone is %+v", got)
	}
	a.WantError(stoa.CodeInvalidCursor, "GET", of("grace")+"&cursor="+url.QueryEscape(orNone(first.NextCursor)), nil)
	var all contract.MemoryList
	if a.Want(200, "GET", users+"?order=asc", nil).JSON(&all); len(all.Data) != 2 || all.Data[0].ExternalUserID != ada || all.Data[0].Notes != 2 || all.Data[0].Bytes != 17 {
		t.Errorf("the users are %+v", all.Data)
	}

	s, path := a.begin(t, "call: memory_read {\"name\":\"diet\"}\ncall: memory_write {\"name\":\"diet\",\"content\":\"\"}\nsay: done", object{"externalUserId": ada})
	a.until(t, path, "completed")
	var step contract.SessionStep
	a.Want(200, "GET", path+"/steps/"+stoa.StepID(s.ID, 1, 1), nil).JSON(&step)
	request := orNone(step.Request)
	shown := ""
	for _, p := range request.Parts {
		if p.Kind == "memory" {
			shown += p.Role + ": " + p.Text
		}
	}
	if !strings.HasPrefix(shown, "user: [Your notes about this user") || !strings.Contains(shown, "- diet (5 bytes): Nuts.\n") || strings.Contains(shown, "Grace") || !request.Exact {
		t.Errorf("the request shows %q, exactly: %v", shown, request.Exact)
	}
	if got := list(of(ada)); len(got.Data) != 1 || got.Data[0].Name != "name" {
		t.Errorf("after the session it remembers %+v", got.Data)
	}

	for i := range 99 {
		a.Want(200, "PUT", notes, put(ada, fmt.Sprintf("note-%d", i), "x"))
	}
	a.WantError(stoa.CodeLimitReached, "PUT", notes, put(ada, "one-more", "x"))
	for i := range 40 {
		reply := a.Do("PUT", notes, put(ada, fmt.Sprintf("note-%d", i), strings.Repeat("x", 8192)))
		if full := i >= 31; (reply.Status == 409) != full {
			t.Errorf("note %d: %d %s", i, reply.Status, reply.Body)
		}
	}
	for _, bad := range []object{put(ada, "Diet", "x"), put(ada, "-diet", "x"), put(ada, "diet", ""), put("", "diet", "x"), put(ada, "diet", strings.Repeat("ö", 8000)), put(ada, strings.Repeat("x", 65), "x")} {
		a.WantError(stoa.CodeInvalidValue, "PUT", notes, bad)
	}
	a.Want(204, "DELETE", of(ada)+"&name=note-1", nil)
	a.Want(204, "DELETE", of(ada)+"&name=note-1", nil)
	a.WantError(stoa.CodeMissingParameter, "DELETE", of(ada), nil)
	a.WantError(stoa.CodeMissingParameter, "DELETE", notes+"?all=true", nil)
	a.WantError(stoa.CodeInvalidValue, "DELETE", of(ada)+"&all=true&name=diet", nil)
	a.Want(204, "DELETE", of(ada)+"&all=true", nil)
	a.Want(204, "DELETE", of(ada)+"&all=true", nil)
	if got := list(of(ada)); len(got.Data) != 0 {
		t.Errorf("after the deletion it remembers %+v", got.Data)
	}
	if got := list(of("grace")); len(got.Data) != 1 {
		t.Errorf("of another user it remembers %+v", got.Data)
	}
	for _, path := range []string{"/api/v1/api-agents/agt_none/memory/users", "/api/v1/api-agents/agt_none/memory/notes?externalUserId=ada"} {
		a.WantError(stoa.CodeAgentNotFound, "GET", path, nil)
	}
	a.WantError(stoa.CodeAgentNotFound, "PUT", "/api/v1/api-agents/agt_none/memory/notes", put("ada", "diet", "x"))
	a.WantError(stoa.CodeAgentNotFound, "DELETE", "/api/v1/api-agents/agt_none/memory/notes?externalUserId=ada&all=true", nil)
	a.Want(204, "DELETE", a.agent, nil)
	a.WantError(stoa.CodeAgentNotFound, "GET", of("grace"), nil)
}

// TestVisitorsAreRememberedIfTheirPageNamesThem has a visitor whose page's server names the user, and one of a script tag.
func TestVisitorsAreRememberedIfTheirPageNamesThem(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	a := newAuthor(t, h, h.Client(t), object{"memory": "user"})
	for user, want := range map[string]bool{"ada": true, "": false} {
		embed := object{}
		if user != "" {
			embed["externalUserId"] = user
		}
		v := newVisit(t, a, embed)
		v.say("call: memory_write {\"name\":\"diet\",\"content\":\"no nuts\"}\nsay: noted")
		v.until(t, "completed")
		session := a.agent + "/sessions/" + v.embed.ChatSessionID
		var all contract.MemoryList
		a.Want(200, "GET", a.agent+"/memory/users", nil).JSON(&all)
		export := string(a.Want(200, "GET", session+"/export?format=jsonl", nil).Body)
		if strings.Contains(export, `"name":"memory_write"`) != want || len(all.Data) == 0 && want {
			t.Errorf("%q: %s", user, export)
		}
		for _, m := range all.Data {
			if m.ExternalUserID != "ada" {
				t.Errorf("it remembers %+v", m)
			}
		}
	}
}

// TestAChatHasOneUser shows a chat without a user, which has not begun, to one user and then to another.
func TestAChatHasOneUser(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	a := newAuthor(t, h, h.Client(t), object{"memory": "user"})
	chat := newVisit(t, a, object{}).embed.ChatSessionID
	embed := func(user string) object {
		return object{"allowedOrigins": []string{site}, "chatSessionId": chat, "externalUserId": user}
	}
	a.Want(201, "POST", a.agent+"/embed-sessions", embed("ada"))
	a.Want(201, "POST", a.agent+"/embed-sessions", embed("ada"))
	if e := a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/embed-sessions", embed("grace")); e.Param == nil || *e.Param != "chatSessionId" {
		t.Errorf("%+v", e)
	}
}

// TestAConversationKeepsItsUser continues a session of the model agent/NAME for another user, which must not read what is remembered.
func TestAConversationKeepsItsUser(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	a := newAuthor(t, h, h.Client(t), object{"memory": "user", "description": "Answers.", "expose": []string{"responses"}})
	a.Want(200, "PUT", a.agent+"/memory/notes", object{"externalUserId": "ada", "name": "diet", "text": "No nuts."})
	_, r := askAgent(a.Client, "say: hello", object{"user": "ada"})
	call := func(user string) object {
		return object{"model": "agent/Helper", "input": "call: memory_read {\"name\":\"diet\"}", "conversation": r.Header.Get("Stoa-Session"), "user": user}
	}
	if e := a.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/responses", call("grace")); e.Param == nil || *e.Param != "conversation" {
		t.Errorf("%+v", e)
	}
	for _, user := range []string{"ada", ""} {
		if reply := a.Want(200, "POST", "/api/v1/responses", call(user)); !strings.Contains(reply.Text(), "No nuts.") {
			t.Errorf("%q: %s", user, reply.Body)
		}
	}
	a.Want(200, "PATCH", a.agent, object{"memory": "none"})
	a.Want(200, "POST", a.agent+"/sessions/"+r.Header.Get("Stoa-Session")+"/upgrade", nil)
	a.Want(200, "POST", "/api/v1/responses", call("grace")) // as before there were memories
}
