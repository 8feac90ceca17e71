package web_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// TestThePickerFindsAnyAgent selects the oldest of 311 agents, which no first page has, and with it
// the sessions of that agent.
func TestThePickerFindsAnyAgent(t *testing.T) {
	t.Parallel()
	const agents = 311
	browser := startBrowser(t)
	st := newStage(t)
	var me contract.User
	st.c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	var oldest contract.Agent
	for i := range agents {
		var a contract.Agent
		st.c.Want(201, "POST", "/api/v1/api-agents", map[string]any{"spaceId": me.DefaultSpaceID, "name": fmt.Sprintf("Agent %03d of the Müséum", i+1), "instructions": "Be brief."}).JSON(&a)
		if i == 0 {
			oldest = a
		}
	}
	var session contract.Session
	st.c.Want(202, "POST", "/api/v1/api-agents/"+oldest.ID+"/sessions", map[string]any{"message": "say: x", "title": "Opening hours"}).JSON(&session)
	st.complete(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, st.h.URL, st.h.Key, "sessions", l)
			p.says("Opening hours")
			p.says("Agent 001 of the Müséum")
			p.click("#filter-agentId")
			p.see(`document.querySelectorAll("[role=option]").length === 21`)
			p.says("The first 20. Type to search all.")
			p.fits()
			p.shot("open")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("[role=listbox]") && document.activeElement.id === "filter-agentId"`)
			p.type_("#filter-agentId", "001 OF THE MÜS")
			p.see(`document.querySelectorAll("[role=option]").length === 1 && document.querySelector("#filter-agentId").getAttribute("aria-activedescendant") === document.querySelector("[role=option]").id`)
			p.shot("found")
			p.enter()
			p.see(fmt.Sprintf(`location.hash.includes("agentId=%s") && document.querySelector("#filter-agentId").value === "Agent 001 of the Müséum"`, oldest.ID))
			p.see(`document.querySelectorAll("tbody tr").length === 1`)
			p.says("Opening hours")
			// The address alone shows the same, and the name.
			p.do(chromedp.Navigate(st.h.URL + "/console?again#/sessions/agentId=" + oldest.ID))
			p.see(`document.querySelector("#filter-agentId")?.value === "Agent 001 of the Müséum"`)
			p.fits()

			// The arrow leads to the choice above the agents.
			p.click("#filter-agentId")
			p.see(`document.querySelectorAll("[role=option]").length === 21`)
			p.enter()
			p.see(`!location.hash.includes("agentId")`)

			// The list of agents itself is searched too.
			p.do(chromedp.Navigate(st.h.URL + "/console?again#/agents"))
			p.says("Agent 311 of the Müséum")
			p.type_("#filter-q", "agent 002")
			p.see(`document.querySelectorAll("tbody tr").length === 1 && document.body.innerText.includes("Agent 002 of the Müséum")`)
			p.fits()
			p.shot("agents")
		})
	}
}
