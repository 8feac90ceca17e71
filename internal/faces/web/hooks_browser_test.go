package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// onLoopback is the address of the tests' servers.
const onLoopback = "127.0.0.0/8"

// receiver is an address for webhooks. While it refuses, it answers 500 with a text
// that a page has to show as it is.
func receiver(t *testing.T) (address string, refuses *atomic.Bool) {
	t.Helper()
	refuses = &atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if refuses.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "<b>broken</b>")
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hooks/stoa", refuses
}

func TestWebhooksInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t, onLoopback)
			address, refuses := receiver(t)
			p := signIn(t, browser, st.h.URL, st.h.Key, "webhooks", l)
			p.says("No webhooks yet")
			p.press("Add a webhook")
			p.allow("422")
			p.type_("#webhook-url", "https://10.0.0.1/hooks")
			p.check("session completed")
			p.press("Add it")
			p.says("The service sends no requests to this address.")
			p.shot("form")
			p.fill("#webhook-url", address)
			p.press("Add it")
			p.says("This is shown once")
			p.see(`document.querySelector("dialog pre").innerText.startsWith("whsec_")`)
			p.fits()
			p.shot("secret")
			p.press("Done")
			p.says("No deliveries yet")
			p.says("session.completed")
			if eval[bool](p, `document.body.innerText.includes("whsec_")`) {
				t.Error("the secret is shown again")
			}

			// A test that arrives, and one that does not.
			p.press("Send a test")
			p.until("200, accepted")
			p.close()
			refuses.Store(true)
			p.press("Send a test")
			p.until("500, not accepted")
			p.see(`document.querySelector("dialog .io").textContent.includes("<b>broken</b>")`)
			p.fits()
			p.shot("delivery")
			refuses.Store(false)
			p.press("Send it again")
			p.until("200, accepted")
			p.close()
			p.see(`document.querySelectorAll("section[aria-labelledby=deliveries] tbody tr").length === 2`)
			p.fits()
			p.shot("webhook")
			p.choose("#filter-status", "failed")
			p.says("No matches")
			p.choose("#filter-status", "")

			// While it is disabled, what happens is held; then it is recovered.
			p.press("Disable")
			p.says("It is disabled: by hand.")
			st.complete(t)
			p.press("Refresh")
			p.see(`[...document.querySelectorAll("td .badge")].some((e) => e.innerText === "held")`)
			p.fits()
			p.shot("disabled")
			p.press("Enable")
			p.press("Recover")
			p.see(`document.querySelector("#recover-since")?.value !== ""`)
			p.shot("recover")
			p.press("Send it again")
			p.says("1 delivery is sent again")
			p.see(`(() => { [...document.querySelectorAll("button")].find((b) => b.innerText.trim() === "Refresh").click(); return [...document.querySelectorAll("td .badge")].filter((e) => e.innerText === "delivered").length === 3; })()`)

			p.press("Change")
			p.check("session failed")
			p.type_("#webhook-description", "For the shop")
			p.press("Save")
			p.says("For the shop")
			p.says("session.completed, session.failed")
			p.press("Rotate the secret")
			p.shot("rotate")
			p.press("Create the new secret")
			p.says("requests are signed with the former secret as well")
			p.press("Done")
			p.press("Delete")
			p.press("Delete it")
			p.says("No webhooks yet")
		})
	}
	st := newStage(t)
	p := signIn(t, browser, st.h.URL, keyWith(st.h, "usage:read"), "webhooks", sizes()[0])
	p.says("This key cannot see webhooks")
	p.shot("not allowed")
}

// complete has a session of the agent end well.
func (st stage) complete(t *testing.T) {
	t.Helper()
	var s contract.Session
	st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": "say: x"}).JSON(&s)
	if st.c.Want(200, "GET", st.agent+"/sessions/"+s.ID+"?waitSeconds=30", nil).JSON(&s); s.Status != "completed" {
		t.Fatalf("the session is %+v", s)
	}
}

// keyWith returns a key of the owner's account with some scopes.
func keyWith(h *apitest.Service, scopes ...string) string {
	secret, _ := h.NewKey(h.Account.ID, scopes...)
	return secret
}

// check clicks the check box or radio button whose label begins with a text.
func (p *tab) check(label string) {
	p.t.Helper()
	p.see(`(() => { const l = [...document.querySelectorAll("label.check")].find((l) => l.checkVisibility() && l.innerText.trim().startsWith("` + label + `")); l?.querySelector("input").click(); return !!l; })()`)
}

// fill replaces the text of a field.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	quoted, _ := json.Marshal(text)
	p.see(`(() => { const e = document.querySelector("` + selector + `"); if (!e) return false; e.value = ` + string(quoted) + `; e.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
}

// until refreshes the open dialog until it shows a text.
func (p *tab) until(text string) {
	p.t.Helper()
	p.see(`(() => { const d = document.querySelector("dialog"); if (!d) return false; if (d.innerText.includes("` + text + `")) return true; [...d.querySelectorAll("button")].find((b) => b.innerText.trim() === "Refresh")?.click(); return false; })()`)
}

// close closes the open dialog.
func (p *tab) close() {
	p.t.Helper()
	p.click(`dialog button[aria-label="Close"]`)
	p.see(`!document.querySelector("dialog")`)
}
