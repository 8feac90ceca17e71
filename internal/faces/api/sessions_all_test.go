package api_test

import (
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// sessionIDs returns the ids of a page of sessions, in its order.
func sessionIDs(list contract.SessionList) (ids []string) {
	for _, s := range list.Data {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestSessionsOfAllAgentsAreListed(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	b := newAuthor(t, h, a.Client, nil)
	var want []string // newest first
	for i, on := range []author{a, b, a, b} {
		body := object{"externalUserId": []string{"ann", "ben"}[i%2]}
		s, path := on.begin(t, "say: hello", body)
		on.until(t, path, "completed")
		want = append([]string{s.ID}, want...)
	}
	waiting, path := b.begin(t, "ask: Which colour?", nil)
	b.until(t, path, "waiting_for_input")
	want = append([]string{waiting.ID}, want...)

	var got []string
	for cursor := ""; ; {
		var list contract.SessionList
		a.Want(200, "GET", "/api/v1/sessions?limit=2"+cursor, nil).JSON(&list)
		got = append(got, sessionIDs(list)...)
		if !list.HasMore {
			break
		}
		cursor = "&cursor=" + orNone(list.NextCursor)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %q, want %q", got, want)
	}
	agentOf := func(x author) string { return strings.TrimPrefix(x.agent, "/api/v1/api-agents/") }
	for query, ids := range map[string][]string{
		"agentId=" + agentOf(a):        {want[2], want[4]},
		"status=waiting_for_input":     {want[0]},
		"externalUserId=ben":           {want[1], want[3]},
		"trigger=schedule":             nil,
		"order=asc&status=completed":   {want[4], want[3], want[2], want[1]},
		"status=failed&trigger=api":    nil,
		"externalUserId=ann&limit=100": {want[2], want[4]},
	} {
		var list contract.SessionList
		a.Want(200, "GET", "/api/v1/sessions?"+query, nil).JSON(&list)
		if !slices.Equal(sessionIDs(list), ids) {
			t.Errorf("%s finds %q, want %q", query, sessionIDs(list), ids)
		}
	}
	var found contract.Session
	a.Want(200, "GET", "/api/v1/sessions/"+waiting.ID, nil).JSON(&found)
	if found.AgentID != agentOf(b) || found.Status != "waiting_for_input" {
		t.Errorf("found by its id alone: %+v", found)
	}
	a.WantError(stoa.CodeSessionNotFound, "GET", "/api/v1/sessions/"+stoa.NewID("ses"), nil)
	a.WantError(stoa.CodeAgentNotFound, "GET", "/api/v1/sessions?agentId="+stoa.NewID("agt"), nil)
	if e := a.Want(400, "GET", "/api/v1/sessions?status=done", nil).Error(); deref(e.Param) != "status" {
		t.Errorf("param is %q: %s", deref(e.Param), e.Message)
	}

	a.Want(204, "DELETE", b.agent, nil)
	var list contract.SessionList
	a.Want(200, "GET", "/api/v1/sessions", nil).JSON(&list)
	if !slices.Equal(sessionIDs(list), []string{want[2], want[4]}) {
		t.Errorf("after an agent was deleted the list is %q", sessionIDs(list))
	}
	a.WantError(stoa.CodeSessionNotFound, "GET", "/api/v1/sessions/"+waiting.ID, nil)
}

func TestATitleIsTheBeginningOfTheQuestion(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	for message, title := range map[string]string{
		"say:  hello\n\nthere":                "say: hello there",
		"say: " + strings.Repeat("word ", 30): "say: " + strings.TrimSpace(strings.Repeat("word ", 15)) + "…",
		strings.Repeat("ü", 200):              strings.Repeat("ü", 79) + "…",
	} {
		s, _ := a.begin(t, message, nil)
		if orNone(s.Title) != title {
			t.Errorf("the title is %q, want %q", orNone(s.Title), title)
		}
	}
	if s, _ := a.begin(t, "say: hello", object{"title": "Greeting"}); orNone(s.Title) != "Greeting" {
		t.Errorf("the title that was given became %q", orNone(s.Title))
	}
}
