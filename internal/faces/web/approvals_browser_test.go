package web_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
)

// ask begins a session whose calls of a tool a person has to approve, and returns its
// path.
func (st stage) ask(t *testing.T, message string) (path string) {
	t.Helper()
	tool := map[string]any{"type": "client", "name": "send_mail", "description": "Sends a mail.", "approval": "always", "parameters": map[string]any{"type": "object"}}
	st.c.Want(200, "PATCH", st.agent, map[string]any{"tools": []any{tool}})
	var s contract.Session
	st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": message, "externalUserId": "ada"}).JSON(&s)
	path = st.agent + "/sessions/" + s.ID
	if st.c.Want(200, "GET", path+"?waitSeconds=30", nil).JSON(&s); s.Status != "waiting_for_input" {
		t.Fatalf("the session is %+v", s)
	}
	return path
}

// calls are the calls of a session, the first first.
func (st stage) calls(t *testing.T, path string) []contract.AgentToolCall {
	t.Helper()
	var list contract.ToolCallList
	st.c.Want(200, "GET", path+"/tool-calls?order=asc", nil).JSON(&list)
	return list.Data
}

func TestCallsAreApprovedInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			path := st.ask(t, `call: send_mail {"to":"ada@example.com","id":1915883588174806058,"text":"<b>Hi</b>`+"\u200b"+`","copies":[{"to":"bo@example.com"}, "1"]}`+"\n"+`call: send_mail {"text":"`+strings.Repeat("long ", 4000)+`end"}`)
			p := signIn(t, browser, st.h.URL, st.h.Key, "tool-calls", l)
			p.see(`document.querySelector(".rail a[aria-current] .count")?.innerText.startsWith("2")`)
			p.see(`document.querySelector("[role=tab][aria-selected=true] .badge")?.innerText === "2"`)
			p.see(`document.title.startsWith("(2) Tool calls")`)
			p.see(`/^Visitors’ guide wants to call send_mail ada@example.com, 1915883588174806058, .*end user ada · (asked )?just now/s.test(document.querySelector(".inbox")?.innerText)`)
			if l.width < 600 {
				if eval[bool](p, `!!document.querySelector(".approval .arguments")`) {
					t.Error("a phone shows all arguments unasked")
				}
				p.shot("compact")
				p.see(`(document.querySelectorAll(".unfolds[aria-expanded=false]").forEach((b) => b.click()), true)`)
			}

			// The exact arguments are shown.
			p.see(`(() => { const shown = [...document.querySelectorAll(".approval .arguments")].map((e) => e.innerText); return shown.length === 2 && shown[0].includes("1915883588174806058") && shown[0].includes("<b>Hi</b>\\u{200b}") && shown[0].includes('[{"to":"bo@example.com"},"1"]') && !shown[1].includes("end"); })()`)
			p.see(`document.querySelectorAll(".approval")[1].querySelector("td").title.startsWith("long long")`)
			// The list has the arguments; only those that are too long for it are read.
			if got := eval[int](p, `performance.getEntriesByType("resource").filter((e) => e.name.includes("/tool-calls/cal_")).length`); got != 1 {
				t.Errorf("%d calls were read, want the long one", got)
			}
			p.fits()
			p.shot("inbox")
			p.see(`(() => { [...document.querySelectorAll(".approval button")].find((b) => b.innerText.startsWith("Show all"))?.click(); return document.querySelectorAll(".approval")[1].querySelector("pre")?.textContent.includes("long end"); })()`)

			// A new call appears without a reload.
			other := st.ask(t, `call: send_mail {"to":"eve@example.com"}`)
			p.says("eve@example.com")
			p.see(`document.title.startsWith("(3) ") && document.querySelector(".rail .count").innerText.startsWith("3") && document.querySelector("[role=tab][aria-selected=true] .badge").innerText === "3"`)
			p.see(`(document.querySelectorAll(".approval")[2].focus(), true)`)
			p.key("r")
			p.says("Rejected")
			p.see(`document.title.startsWith("(2) ") && document.activeElement === document.querySelectorAll(".approval")[1]`)
			if got := st.calls(t, other)[0].Approval.MustGet(); got.Decision != "reject" {
				t.Errorf("%+v", got)
			}
			p.see(`(() => { const second = document.querySelectorAll(".approval")[1]; const c = second.querySelector("[aria-label=Comment]"); c.value = "too long"; c.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
			p.see(`([...document.querySelectorAll(".approval")[1].querySelectorAll("button")].find((b) => b.innerText === "Reject").click(), true)`)
			p.says("rejected")
			p.check("Approve this tool for the rest of the session")
			p.see(`(document.querySelector(".approval[tabindex]").focus(), true)`)
			p.key("a")
			p.says("Nothing to approve")
			p.see(`document.title.startsWith("Tool calls")`)
			st.ask(t, `call: send_mail {"to":"fay@example.com"}`)
			p.says("fay@example.com")
			p.see(`document.title.startsWith("(1) Tool calls")`)
			calls := st.calls(t, path)
			if got := calls[1].Approval.MustGet(); got.Decision != "reject" || got.Comment.MustGet() != "too long" || calls[1].Outcome.MustGet() != "denied" {
				t.Errorf("%+v %+v", calls[1], got)
			}
			if got := calls[0].Approval.MustGet(); got.Decision != "approve" {
				t.Errorf("%+v %+v", calls[0], got)
			}
			p.press("All calls")
			p.says("denied")
			p.fits()
			p.shot("decided")
			p.see(`(() => { const row = [...document.querySelectorAll("main tbody tr")].find((r) => r.innerText.includes("denied") && r.innerText.includes("long long")); row?.querySelector("button").click(); return !!row; })()`)
			p.see(`document.querySelector("dialog")?.innerText.includes("“too long”")`)
			p.close()

			// The log of the session shows the outcome of the call.
			p.open(strings.TrimPrefix(strings.Replace(path, "api-agents", "agents", 1), "/api/v1/"))
			p.says("send_mail")
			if l.width < 1100 {
				p.press("Log")
			}
			p.see(`(() => { const d = [...document.querySelectorAll(".trace details details")].find((d) => d.innerText.includes("send_mail")); if (d) d.open = true; return !!d; })()`)
			p.press("Outcome, attempts, decision")
			p.see(`document.querySelector("dialog")?.innerText.includes("by key_")`)
			// The call leads to its model call, which has the id of its receipt.
			const of = `new URLSearchParams(document.querySelector("%s")?.href.split("?")[1]).get("%s")`
			p.see(fmt.Sprintf(of, "dialog a[href*='?step=']", "step") + " === " + fmt.Sprintf(of, ".trace a[href*='credits?id=']", "id"))
			p.fits()
			p.shot("call")
			p.close()
		})
	}
}

// TestTheInboxHasTabs finds a call that waits for a program next to a list of approvals.
func TestTheInboxHasTabs(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			path := st.ask(t, `call: send_mail {"to":"ada@example.com"}`)
			st.ask(t, `call: send_mail {"to":"bo@example.com"}`)
			lookup := map[string]any{"type": "client", "name": "lookup_order", "description": "Finds an order.", "parameters": map[string]any{"type": "object"}}
			st.c.Want(200, "PATCH", st.agent, map[string]any{"tools": []any{lookup}})
			var s contract.Session
			st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": `call: lookup_order {"orderId":"A-1"}`}).JSON(&s)
			st.c.Want(200, "GET", st.agent+"/sessions/"+s.ID+"?waitSeconds=30", nil).JSON(&s)
			p := signIn(t, browser, st.h.URL, st.h.Key, "tool-calls", l)
			const tabs = `[...document.querySelectorAll("main [role=tab]")].map((t) => t.innerText.replace(/\s+/g, " ").trim()).join()`
			p.see(tabs + ` === "Approvals 2,Programs 1,All calls"`)
			p.press("Programs 1")
			p.says("lookup_order")
			p.see(`location.hash === "#/tool-calls?show=programs" && !document.querySelector(".approval")`)
			p.fits()
			p.shot("programs")
			p.type_("textarea[id^=output-]", "Shipped")
			p.press("Send the output")
			p.says("Nothing to do")
			p.see(tabs + ` === "Approvals 2,Programs,All calls"`)
			p.see(`(document.querySelector("main [role=tab]").click(), true)`)
			p.see(`document.querySelectorAll(".approval").length === 2 && (document.querySelector(".approval").focus(), true)`)
			p.key("a")
			p.see(tabs + ` === "Approvals 1,Programs 1,All calls"`) // an approved call waits for its program
			if got := st.calls(t, path)[0].Approval.MustGet(); got.Decision != "approve" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestCallsAreDecidedTogether narrows the list, selects calls by keyboard and by range, takes an approval back, and leaves
// the page while another one waits.
func TestCallsAreDecidedTogether(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			var paths []string
			for i := range 6 {
				paths = append(paths, st.ask(t, fmt.Sprintf(`call: send_mail {"to":"user%d@example.com"}`, i)))
			}
			decision := func(i int) string {
				if a, err := st.calls(t, paths[i])[0].Approval.Get(); err == nil {
					return a.Decision
				}
				return ""
			}
			p := signIn(t, browser, st.h.URL, st.h.Key, "tool-calls", l)
			const cards = `[...document.querySelectorAll(".approval")]`
			p.see(cards + `.length === 6`)
			p.fits()
			p.shot("six")
			if per := eval[float64](p, `document.querySelector(".inbox").getBoundingClientRect().height / 6`); l.width < 600 && per > 131 {
				t.Errorf("a call takes %.0f px of a phone", per)
			}
			p.open("tool-calls?toolName=refund")
			p.says("No matches")
			p.open("tool-calls?toolName=send_mail&externalUserId=ada")
			p.see(cards + `.length === 6 && (` + cards + `[0].focus(), true)`)
			p.key("x")
			p.says("1 call selected")
			p.see(`(` + cards + `[2].querySelector("input[type=checkbox]").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: true })), true)`)
			p.says("3 calls selected")
			p.fits()
			p.shot("selected")
			p.see(`(` + cards + `[5].focus(), true)`)
			p.key("a") // decides about the selection, not about the call with the focus
			p.says("3 calls are approved in 5 seconds")
			p.see(cards + `.length === 3`)
			p.press("Undo")
			p.says("nothing was sent")
			p.see(cards + `.length === 6`)
			p.check("Select all 6")
			p.says("6 calls selected")
			for range 2 {
				p.see(`(` + cards + `.at(-1).querySelector("input[type=checkbox]:checked") ?? ` + cards + `.at(-2).querySelector("input[type=checkbox]")).click() === undefined`)
			}
			p.says("4 calls selected")
			p.press("Reject 4")
			p.says("4 calls rejected")
			p.see(cards + `.length === 2`)
			for i := range 6 {
				if got, want := decision(i), map[bool]string{true: "reject"}[i < 4]; got != want {
					t.Errorf("call %d: %q", i, got)
				}
			}
			p.see(`(` + cards + `[0].focus(), true)`)
			p.key("a")
			p.see(cards + `.length === 1`)
			p.shot("undo")
			p.see(`(location.assign("/docs"), true)`) // the approval is sent then
			for st.calls(t, paths[4])[0].Approval.IsNull() {
			}
			if decision(4) != "approve" || decision(5) != "" {
				t.Errorf("%s, %s", decision(4), decision(5))
			}
		})
	}
}

// TestACallIsApprovedInItsSession approves where the conversation is.
func TestACallIsApprovedInItsSession(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			path := st.ask(t, `call: send_mail {"to":"ada@example.com"}`)
			at := strings.TrimPrefix(strings.Replace(path, "api-agents", "agents", 1), "/api/v1/")
			p := signIn(t, browser, st.h.URL, keyWith(st.h, "sessions:read", "sessions:write", "agents:read"), at, l)
			p.says("approvals:write")
			if eval[bool](p, `[...document.querySelectorAll(".approval button")].some((b) => b.innerText === "Approve")`) {
				t.Error("a key that may not decide is offered to")
			}
			p = signIn(t, browser, st.h.URL, st.h.Key, at, l)
			p.see(`document.querySelector(".asks .approval .arguments")?.textContent.includes("ada@example.com")`)
			p.see(`(() => { const talk = document.querySelector(".talk > .chat").getBoundingClientRect(), card = document.querySelector(".asks").getBoundingClientRect(); return card.top >= talk.bottom; })()`)
			p.fits()
			p.shot("session")
			p.press("Approve")
			p.says("Send the output") // now a program has to do it
			if got := st.calls(t, path)[0].Approval.MustGet(); got.Decision != "approve" {
				t.Errorf("%+v", got)
			}
			p.shot("approved")
		})
	}
}

// TestAnExpiredCallIsResolved lets a call expire; a person resolves it.
func TestAnExpiredCallIsResolved(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			tool := map[string]any{"type": "client", "name": "send_mail", "description": "Sends a mail.", "timeoutSeconds": 1, "parameters": map[string]any{"type": "object"}}
			st.c.Want(200, "PATCH", st.agent, map[string]any{"tools": []any{tool}})
			var s contract.Session
			st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": `call: send_mail {"to":"ada@example.com"}`, "mode": "chat"}).JSON(&s)
			path := st.agent + "/sessions/" + s.ID
			for s.Status != "completed" {
				st.c.Want(200, "GET", path+"?waitSeconds=30", nil).JSON(&s)
			}
			p := signIn(t, browser, st.h.URL, st.h.Key, "tool-calls", l)
			p.press("All calls")
			p.choose("#filter-outcome", "ok")
			p.says("No matches")
			p.choose("#filter-outcome", "expired")
			p.press("Resolve")
			p.says("It is unknown whether the call was executed.")
			p.fits()
			p.shot("in doubt")
			p.see(`([...document.querySelectorAll("dialog footer button")].find((b) => b.innerText === "Resolve").click(), true)`)
			p.check("It was done")
			p.type_("#resolve-note", "It is in the outbox.")
			p.shot("resolve")
			p.press("Note it")
			p.says("“It is in the outbox.”")
			p.close()
			p.says("it was done")
			if got := st.calls(t, path)[0].Resolution.MustGet(); got.Outcome != "done" || got.Note.MustGet() != "It is in the outbox." {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAPageIsListedOnlyForItsScope signs in with a key that may only call models.
func TestAPageIsListedOnlyForItsScope(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	const listed = `[...document.querySelectorAll(".rail nav a")].map((a) => a.innerText.trim()).join()`
	p := signIn(t, browser, st.h.URL, keyWith(st.h, "responses"), "", sizes()[0])
	p.see(listed + ` === "Overview,Playground"`)
	p = signIn(t, browser, st.h.URL, keyWith(st.h, "sessions:read"), "", sizes()[0])
	p.see(listed + ` === "Overview,Sessions,Feedback,Tool calls"`)
}
