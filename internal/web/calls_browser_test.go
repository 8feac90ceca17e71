package web_test

import (
	"strings"
	"testing"

	"stoa/internal/contract"
)

// TestACallIsAnsweredInTheConsole gives an agent a tool in its settings, and answers
// its calls by hand: one among all that wait, one in its session.
func TestACallIsAnsweredInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	l := sizes()[0]
	st := newStage(t)
	agent := strings.TrimPrefix(st.agent, "/api/v1/api-agents/")
	p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+agent+"/settings", l)
	p.see(`!!document.querySelector("#tools")`)
	p.type_("#tools", `[{"type":"client"`)
	p.says("This is no JSON list.")
	p.type_("#tools", `,"name":"lookup_order","description":"Finds an order.","parameters":{"type":"object"}}]`)
	p.press("Save")
	p.says("Saved")
	p.fits()
	p.shot("settings")
	begin := func() (path string) {
		var s contract.Session
		st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": `call: lookup_order {"orderId":"A-1"}`}).JSON(&s)
		path = st.agent + "/sessions/" + s.ID
		st.c.Want(200, "GET", path+"?waitSeconds=30", nil).JSON(&s)
		if s.Status != "waiting_for_input" {
			t.Fatalf("the session is %+v", s)
		}
		return path
	}
	answer := func(path, text string) {
		t.Helper()
		p.says("lookup_order")
		p.fits()
		p.type_("textarea[id^=output-]", text)
		p.press("Give the output")
		var s contract.Session
		p.see(`!document.querySelector("textarea[id^=output-]")`)
		st.c.Want(200, "GET", path+"?waitSeconds=30", nil).JSON(&s)
		if reply, _ := s.Reply.Get(); s.Status != "completed" || !strings.Contains(reply, text) {
			t.Errorf("the session is %s: %q", s.Status, reply)
		}
	}
	path := begin()
	p = signIn(t, browser, st.h.URL, st.h.Key, "tool-calls", l)
	answer(path, "It was shipped on Monday.")
	p.says("Nothing waits")
	p.shot("inbox")
	path = begin()
	p = signIn(t, browser, st.h.URL, st.h.Key, strings.TrimPrefix(strings.Replace(path, "api-agents", "agents", 1), "/api/v1/"), l)
	answer(path, "It was shipped on Tuesday.")
	p.shot("session")
}
