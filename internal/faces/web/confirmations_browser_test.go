package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// A booth is a server with an order that can be cancelled, and what it was asked for.
type booth struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newBooth(t *testing.T) *booth {
	t.Helper()
	b := &booth{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.bodies = append(b.bodies, r.URL.Path+" "+string(body))
		b.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"refund":"7"}`)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *booth) asked() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.bodies, "; ")
}

// connect adds the booth as a connection with an unreviewed tool; it returns the
// connection's id.
func (b *booth) connect(t *testing.T, st stage) string {
	t.Helper()
	var made contract.Connection
	st.c.Want(201, "POST", "/api/v1/connections", map[string]any{"kind": "http", "name": "booth", "url": b.URL, "operations": []any{map[string]any{
		"name": "cancel_order", "description": "Cancels an order.", "method": "POST", "path": "/orders/{id}/cancel", "effects": "once",
		"parameters": map[string]any{"properties": map[string]any{
			"id":   map[string]any{"type": "string", "in": "path", "title": "Order"},
			"why":  map[string]any{"type": "string", "in": "body", "title": "Reason"},
			"note": map[string]any{"type": "string", "in": "body"},
		}, "required": []string{"id"}},
	}}}).JSON(&made)
	return made.ID
}

const (
	question = `document.querySelector(".chat-input .confirms")`
	asking   = `call: booth__cancel_order {"id":"A-17","why":"REASON","note":"hidden note"}` + "\nsay: Well then."
)

// TestAVisitorConfirmsInTheChat reviews a tool for visitors in the console,
// and then is the visitor: by the keyboard, by buttons, and by a message.
func TestAVisitorConfirmsInTheChat(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			st, b := newStage(t, onLoopback), newBooth(t)
			id := b.connect(t, st)
			p := signIn(t, browser, st.h.URL, st.h.Key, "connections/"+id, l)
			p.says("1 to review")
			p.check("cancel_order")
			p.choose("#tool-cancel_order-visitors", "confirm")
			p.choose("#tool-cancel_order-approval", "never")
			p.fill("#tool-cancel_order-title", "Cancel an order")
			p.check("/id")
			p.check("/why")
			p.fits()
			p.shot("review")
			p.press("Approve")
			p.says("also for visitors who confirm it")
			st.c.Want(200, "PATCH", st.agent, map[string]any{"tools": []any{map[string]any{"type": "connection", "connectionId": id, "allow": []string{"cancel_order"}}}})

			_, path := st.link(t, map[string]any{"maxMessages": 6, "messagesPerMinute": 60})
			p = open(t, browser, st.h.URL, path, l)
			p.say(strings.Replace(asking, "REASON", `<img src=x onerror=\"window.hurt = 1\"> too late`+strings.Repeat(" and a very long reason", 30), 1))
			p.see(question + `?.innerText.includes("Cancel an order") && ` + question + `.innerText.includes("A-17")`)
			p.see(question + `.innerText.includes("<img src=x") && !` + question + `.querySelector("img") && !` + question + `.innerText.includes("hidden")`)
			p.see(`document.querySelector(".chat-state").innerText === "Waiting for you" && !document.querySelector("#message")`)
			p.fits()
			p.shot("question")
			// Enter does not confirm while the visitor is typing; the first tab stop
			// confirms.
			p.see(`document.activeElement?.tagName === "FIELDSET"`)
			p.enter()
			p.do(chromedp.KeyEvent("\t"))
			p.see(`document.activeElement?.innerText === "Confirm"`)
			if asked := b.asked(); asked != "" {
				t.Fatalf("the server was asked for %s", asked)
			}
			p.enter()
			p.see(`[...document.querySelectorAll(".reply")].some((e) => e.innerText === "Well then.") && !` + question)
			if asked := b.asked(); !strings.HasPrefix(asked, "/orders/A-17/cancel {") || !strings.Contains(asked, "hidden note") || strings.Contains(asked, ";") {
				t.Errorf("the server was asked for %s", asked)
			}

			// A page that is loaded again asks again; to decline does nothing.
			p.say(strings.Replace(asking, "REASON", "short", 1))
			p.see(question + `?.innerText.includes("short")`)
			p.do(chromedp.Reload())
			p.see(question + `?.innerText.includes("short")`)
			p.shot("short question")
			p.press("Decline")
			p.see(`[...document.querySelectorAll(".reply")].filter((e) => e.innerText === "Well then.").length === 2`)
			if asked := b.asked(); strings.Contains(asked, ";") {
				t.Errorf("after a refusal the server was asked for %s", asked)
			}

			// It can be decided also with the last message of the chat.
			p.say("say: one more")
			p.says("One message left")
			p.say(strings.Replace(asking, "REASON", "last", 1))
			p.see(question + `?.innerText.includes("last")`)
			p.press("Confirm")
			p.says("This chat has reached its limit.")
			if asked := b.asked(); !strings.Contains(asked, `"last"`) {
				t.Errorf("the server was asked for %s", asked)
			}
			if eval[int](p, `window.hurt ?? 0`) != 0 {
				t.Error("a value ran as a script")
			}
		})
	}
}

// The outcome of a call is unknown: the visitor sees this before it is repeated. The
// question is in the language of the page.
func TestAVisitorIsAskedAgainInTheChat(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st, b := newStage(t, onLoopback), newBooth(t)
	id := b.connect(t, st)
	fails := true
	b.Config.Handler = failsOnce(&b.mu, &fails, b.Config.Handler)
	var list contract.ConnectionToolList
	st.c.Want(200, "GET", "/api/v1/connections/"+id+"/tools", nil).JSON(&list)
	st.c.Want(200, "POST", "/api/v1/connections/"+id+"/tools/review", map[string]any{"tools": []any{map[string]any{
		"name": "cancel_order", "sha256": list.Data[0].Sha256, "decision": "approve", "approval": "never", "effects": "once", "visitors": "confirm", "visitorTitle": "Bestellung stornieren",
	}}})
	st.c.Want(200, "PATCH", st.agent, map[string]any{"tools": []any{map[string]any{"type": "connection", "connectionId": id, "allow": []string{"cancel_order"}}}})
	_, path := st.link(t, nil)
	p := open(t, browser, st.h.URL, strings.Replace(path, "#", "?lang=de#", 1), looks()[2])
	p.see(`!!document.querySelector("#message")`)
	p.do(chromedp.Focus(chromedp.CSS("#message")))
	p.insert(strings.Replace(asking, "REASON", "x", 1))
	p.enter()
	p.says("Soll das geschehen?")
	p.says("Es geschieht nichts, bevor Sie es bestätigen.")
	p.see(`!document.querySelector(".confirms dl")`)

	// Viewers of the session see the whole call, and cannot answer.
	var sessions contract.SessionList
	st.c.Want(200, "GET", st.agent+"/sessions", nil).JSON(&sessions)
	owner := signIn(t, browser, st.h.URL, st.h.Key, strings.Replace(strings.TrimPrefix(st.agent, "/api/v1/"), "api-agents", "agents", 1)+"/sessions/"+sessions.Data[0].ID, looks()[0])
	owner.says("The visitor has to confirm: booth__cancel_order.")
	owner.see(`document.querySelector(".talk .approval")?.textContent.includes("hidden note") && ![...document.querySelectorAll(".talk button")].some((b) => /Approve|Reject/.test(b.innerText))`)
	owner.see(`document.body.innerText.includes("Waits for the visitor")`)
	owner.fits()
	owner.shot("of the owner")

	p.press("Bestätigen")
	p.says("Vielleicht ist es schon geschehen.")
	p.fits()
	p.shot("again")
	p.press("Ablehnen")
	p.see(`[...document.querySelectorAll(".reply")].some((e) => e.innerText === "Well then.")`)
}

// failsOnce answers the first request with 500.
func failsOnce(mu *sync.Mutex, fails *bool, then http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := *fails
		*fails = false
		mu.Unlock()
		if now {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		then.ServeHTTP(w, r)
	})
}
