package web_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/fakemcp"
)

// TestAConnectionIsSwitchedOffInTheConsole reviews a tool with the settings for unknown
// outcomes and for the id argument, and switches its connection off and on: the dialog
// lists the agents that use it, and their pages show why the tool is withheld.
func TestAConnectionIsSwitchedOffInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t, onLoopback)
			f := fakemcp.Start(t)
			st.c.Want(201, "POST", "/api/v1/connections", map[string]any{"kind": "mcp", "name": "shop", "url": f.URL})
			id := st.connection(t)
			path := "/api/v1/connections/" + id
			st.c.Want(200, "POST", path+"/refresh", nil)
			p := signIn(t, browser, st.h.URL, st.h.Key, "connections/"+id, l)
			p.says("4 to review")
			p.check("put")
			p.see(`document.querySelector("#tool-put-unknown").value === "tell_model" && document.querySelector("#tool-put-argument").value === "" && !document.querySelector("#tool-read-argument")`)
			p.see(`[...document.querySelectorAll("#tool-put-argument option")].map((o) => o.value).join() === ",key,order,text"`)
			p.choose("#tool-put-unknown", "fail")
			p.choose("#tool-put-argument", "key")
			p.fits()
			p.shot("settings")
			p.press("Approve")
			p.says("1 tool approved")
			p.says("the turn fails if the outcome is unknown, id in key")
			if put := st.tool(t, "put"); put.OnUnknown.MustGet() != "fail" || put.IdempotencyArgument.MustGet() != "key" || put.Effects.MustGet() != "idempotent" {
				t.Errorf("%+v", put)
			}
			// A renewed approval starts with the earlier decision; a read-only tool has
			// no id argument.
			p.check("put")
			p.see(`document.querySelector("#tool-put-unknown").value === "fail" && document.querySelector("#tool-put-argument").value === "key"`)
			p.choose("#tool-put-effects", "read")
			p.see(`!document.querySelector("#tool-put-argument")`)
			p.choose("#tool-put-effects", "idempotent")
			p.see(`document.querySelector("#tool-put-argument").value === ""`)
			p.check("put")
			p.check("read")
			p.press("Approve")
			p.says("call without asking, only reads")

			// An agent can be stricter with the tool that uses tell_model.
			settings := "agents/" + strings.TrimPrefix(st.agent, "/api/v1/api-agents/") + "/settings"
			p.open(settings)
			p.see(`(() => { const d = [...document.querySelectorAll("details")].find((d) => d.innerText.startsWith("shop")); if (d) d.open = true; return !!d; })()`)
			p.check("put")
			p.check("read")
			p.check("Ask before each call of read")
			p.check("End the turn as failed if the outcome of a read")
			p.see(`!document.body.innerText.includes("whether a call of put")`)
			p.check("Ask before each call of read")
			p.fits()
			p.press("Save")
			p.says("Saved")
			var agent contract.Agent
			st.c.Want(200, "GET", st.agent, nil).JSON(&agent)
			if got := agent.Tools[0].Stricter; len(got) != 1 || got[0] != (contract.StricterTool{Name: "read", OnUnknown: "fail"}) {
				t.Errorf("%+v", agent.Tools)
			}

			p.open("connections/" + id)
			p.press("Switch off")
			p.see(`document.querySelector("ul[aria-label='Agents that use it']")?.innerText === "Visitors’ guide"`)
			p.fits()
			p.shot("switch off")
			p.press("Switch it off")
			p.says("The connection is switched off.")
			p.see(`![...document.querySelectorAll("button")].some((b) => ["Refresh", "Switch off", "Test"].includes(b.innerText.trim()))`)
			p.fits()
			p.shot("switched off")
			var c contract.Connection
			st.c.Want(200, "GET", path, nil).JSON(&c)
			if c.Enabled || c.Status != "disabled" {
				t.Errorf("%+v", c)
			}
			p.open("connections")
			p.says("switched off")
			p.open(settings)
			p.says("switched off")
			p.shot("agent")
			var session contract.Session
			st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": "Hello"}).JSON(&session)
			p.open(strings.TrimSuffix(settings, "/settings") + "/sessions/" + session.ID)
			p.see(`(() => { [...document.querySelectorAll("[role=tab]")].find((b) => b.checkVisibility() && b.innerText.trim() === "Log")?.click(); return document.body.innerText.includes("its connection is switched off: switch it on, or remove the tool from the agent"); })()`)
			p.shot("session")
			p.open("connections/" + id)
			p.press("Switch on")
			p.see(`[...document.querySelectorAll("button")].some((b) => b.innerText.trim() === "Switch off") && !document.body.innerText.includes("The connection is switched off.")`)
			st.c.Want(200, "GET", path, nil).JSON(&c)
			if !c.Enabled {
				t.Errorf("%+v", c)
			}
		})
	}
}
