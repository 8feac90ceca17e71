package web_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
)

// TestWhatAnAgentRemembersIsShown has a visitor tell the agent something; the owner sees it in the session, and deletes a note and then all.
func TestWhatAnAgentRemembersIsShown(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			st.c.Want(200, "PATCH", st.agent, map[string]any{"memory": "user"})
			note := func(name, text string) {
				st.c.Want(200, "PUT", st.agent+"/memory/notes", map[string]any{"externalUserId": "ada", "name": name, "text": text})
			}
			note("contract", "Signed in 2024.\nRenews each March, and is cancelled three months before.")
			note("address", "<b>Mr</b> "+strings.Repeat("Averylongword", 20))
			made, path := st.link(t, map[string]any{"externalUserId": "ada"})
			p := open(t, browser, st.h.URL, path, l)
			p.see(`!!document.querySelector("#message")`)
			p.say("call: memory_write {\"name\":\"diet\",\"content\":\"Eats no nuts.\"}\nsay: I will remember it.")
			p.says("I will remember it.")

			c := signIn(t, browser, st.h.URL, st.h.Key, strings.TrimPrefix(st.agent, "/api/v1/api-")+"/sessions/"+made.ChatSessionID, l)
			c.press("What it remembers")
			c.says("Eats no nuts.")
			c.says("Renews each March") // with its line break
			c.says("<b>Mr</b> Averylong")
			c.fits()
			c.shot("notes")
			c.click("button[aria-label='Delete the note contract']")
			c.see(`document.querySelectorAll(".remembered").length === 2 && !document.body.innerText.includes("Renews")`)
			c.press("Forget the user")
			c.says("Past sessions keep what they were shown")
			c.fits()
			c.shot("forget")
			c.press("Delete all notes")
			c.says("The agent has forgotten the user")
			c.press("What it remembers")
			c.says("It remembers nothing.")
			var left contract.MemoryNoteList
			if st.c.Want(200, "GET", st.agent+"/memory/notes?externalUserId=ada", nil).JSON(&left); len(left.Data) != 0 {
				t.Errorf("it remembers %+v", left.Data)
			}

			// The owner tries the memory in the console.
			c.open(strings.TrimPrefix(st.agent, "/api/v1/api-"))
			c.says("Without one, the agent remembers nothing.")
			c.fill("#start-user", "ada")
			c.fits()
			c.axe()
			c.shot("start")
			c.fill("#start", "call: memory_write {\"name\":\"diet\",\"content\":\"Eats no eggs.\"}")
			c.press("Start")
			c.press("What it remembers")
			c.says("Eats no eggs.")
		})
	}
}
