package web_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"stoa/internal/base/contract"
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
	p.unfold("Tools as JSON")
	p.type_("#tools", `[{"type":"client"`)
	p.says("Not a JSON array.")
	p.type_("#tools", `,"name":"lookup_order","description":"Finds an order.","parameters":{"type":"object"}}]`)
	// A second tool, by the form.
	p.press("Add a tool")
	p.type_("#tool-name", "no spaces")
	p.says("Use up to 64 letters")
	p.see(`(() => { const e = document.querySelector("#tool-name"); e.value = "refund"; e.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
	p.type_("#tool-description", "Refunds an order.")
	p.press("Add a parameter")
	p.type_("#parameter-0", "amount")
	p.choose("#parameter-0-kind", "number")
	p.press("Add a parameter")
	p.type_("#parameter-1", "reason")
	p.choose("#parameter-1-kind", "choice")
	p.type_("#parameter-1-choices", "late, broken")
	p.type_("#parameter-1-description", "Why")
	p.click("#parameter-1-required")
	p.fits()
	p.shot("tool")
	p.see(`(() => { const b = document.querySelector("dialog footer .main"); b?.click(); return !!b && !b.disabled; })()`)
	p.see(`!document.querySelector("dialog") && document.querySelector("#tools").value.includes('"refund"')`)
	p.press("Save")
	p.says("Saved")
	p.fits()
	p.shot("settings")
	var made struct {
		Tools []struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	st.c.Want(200, "GET", st.agent, nil).JSON(&made)
	const want = `{"type":"object","properties":{"amount":{"type":"number"},"reason":{"type":"string","description":"Why","enum":["late","broken"]}},"required":["amount"],"additionalProperties":false}`
	if len(made.Tools) != 2 || made.Tools[1].Name != "refund" || !sameJSON(t, string(made.Tools[1].Parameters), want) {
		t.Errorf("the tools are %+v", made.Tools)
	}
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
		p.press("Send the output")
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
	p.says("Nothing to do")
	p.shot("inbox")
	path = begin()
	p = signIn(t, browser, st.h.URL, st.h.Key, strings.TrimPrefix(strings.Replace(path, "api-agents", "agents", 1), "/api/v1/"), l)
	answer(path, "It was shipped on Tuesday.")
	p.shot("session")
	// A question is shown where it is answered, and in the conversation afterwards.
	var s contract.Session
	st.c.Want(202, "POST", path+"/messages", map[string]any{"message": "ask: Which hall? | north | south"}).JSON(&s)
	const asked = `[...document.querySelectorAll(".turn.assistant")].filter((e) => e.innerText.includes("Which hall?")).length`
	p.see(`document.querySelector(".composer b")?.innerText === "Which hall?" && ` + asked + ` === 0`)
	p.press("south")
	p.see(`!document.querySelector(".composer b") && ` + asked + ` === 1`)
}

// More than a page of approvals can be shown, and they stay current with what is being typed.
func TestTheInboxShowsMore(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.waiting.Store(true)
	p := signIn(t, browser, srv.URL, goodKey, "tool-calls", looks()[0])
	const cards = `document.querySelectorAll(".inbox > li").length`
	p.see(cards + ` === 50`)
	// The card with the focus and a comment, and the one before it, stay as they are.
	p.see(`(() => { const e = document.querySelectorAll(".inbox .approval")[48]; window.card = e; e.focus(); return document.activeElement === e; })()`)
	p.see(`(() => { const e = card.querySelector("input[aria-label=Comment]"); e.value = "Not yet"; e.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
	p.press("Show more")
	p.see(cards + ` === 100`)
	p.see(`document.querySelectorAll(".inbox .approval")[48] === card && card.querySelector("input[aria-label=Comment]").value === "Not yet"`)
	p.press("Show more")
	p.see(cards + ` === 120 && ![...document.querySelectorAll("main button")].some((b) => b.innerText === "Show more")`)
	p.fits()
	p.shot("inbox")
	// A read of all three pages again, with a row less, keeps them.
	stub.mu.Lock()
	stub.urls = nil
	stub.mu.Unlock()
	p.press("Refresh")
	stub.sent("GET /api/v1/inputs")
	p.see(cards + ` === 120 && document.querySelectorAll(".inbox .approval")[48] === card && card.querySelector("input[aria-label=Comment]").value === "Not yet"`)
}

// sameJSON reports whether two texts have the same JSON value.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}
