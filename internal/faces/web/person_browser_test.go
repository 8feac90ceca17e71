package web_test

import (
	"strings"
	"testing"
)

// TestAVisitorAsksForAPersonInABrowser has the button after the first message; the owner sees the wish in the session.
func TestAVisitorAsksForAPersonInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			made, path := st.link(t, map[string]any{"externalUserId": "ada", "contact": true})
			p := open(t, browser, st.h.URL, path, l)
			p.see(`!!document.querySelector("#message") && !document.querySelector("main").innerText.includes("Talk to a person")`)
			p.say("say: A ticket costs seven drachmas.")
			p.see(`!!document.querySelector(".turn.assistant button[aria-label='Bad answer']")`)
			p.press("Talk to a person")
			p.says("A person was asked at")
			p.fits()
			p.shot("asked")
			c := signIn(t, browser, st.h.URL, st.h.Key, strings.TrimPrefix(st.agent, "/api/v1/api-")+"/sessions/"+made.ChatSessionID, l)
			c.says("The visitor asks for a person")
			c.fits()
			c.shot("session")
		})
	}
}
