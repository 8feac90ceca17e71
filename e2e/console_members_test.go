package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAMemberJoinsInTheConsole invites a person in the console, accepts the invitation, signs the
// person in again with a link, and removes them.
func TestAMemberJoinsInTheConsole(t *testing.T) {
	t.Parallel()
	url, p := consoleInABrowser(t)
	const link = `document.querySelector("dialog .code pre").innerText.trim()`
	invite := func(role string) string {
		p.do(chromedp.Navigate(url + "/console#/members"))
		p.press("Invite")
		p.fill("#member-name", "Ada "+role)
		p.fill("#invited-email", role+"@example.com")
		p.see(`(() => { const s = document.querySelector("#role"); s.value = "` + role + `"; s.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
		p.press("Create the link")
		p.says("This is shown once.")
		p.says("The link is not sent by mail, because this service sends no mail.")
		address := p.text(`Promise.resolve(` + link + `)`)
		if !strings.HasPrefix(address, url+"/join#inv_") {
			t.Fatalf("the link is %q", address)
		}
		p.press("Done")
		p.says("Ada " + role)
		return address
	}
	viewer, owner := invite("viewer"), invite("owner")

	p.do(chromedp.Navigate(owner))
	p.says("is invited to the account")
	p.press("Accept")
	p.see(`location.pathname === "/console" && document.querySelector(".rail .who")?.innerText.includes("Ada owner")`)
	p.do(chromedp.Navigate(owner))
	p.says("This link has expired")

	p.do(chromedp.Navigate(url + "/console#/members"))
	p.says("you")
	p.press("Sign-in link")
	p.press("Create the link")
	p.says("This is shown once.")
	again := p.text(`Promise.resolve(` + link + `)`)

	p.do(chromedp.Navigate(viewer))
	p.press("Accept")
	p.see(`location.pathname === "/console" && document.querySelector(".rail .who")?.innerText.includes("Ada viewer")`)
	p.see(`!document.querySelector('.rail a[href="#/members"]') && !!document.querySelector('.rail a[href="#/agents"]')`)

	p.do(chromedp.Navigate(again))
	p.says("You sign in as Ada owner")
	p.press("Sign in")
	p.see(`location.pathname === "/console" && document.querySelector(".rail .who")?.innerText.includes("Ada owner")`)
	p.do(chromedp.Navigate(url + "/console#/members"))
	p.says("Ada viewer")
	p.see(`(() => { const row = [...document.querySelectorAll("tr, li")].find((r) => r.innerText.includes("Ada viewer")); const b = [...(row?.querySelectorAll("button") ?? [])].find((b) => b.innerText.trim() === "Remove"); b?.click(); return !!b; })()`)
	p.press("Remove the member")
	p.says("is no longer a member")
	p.press("Sign out")
	p.says("Sign in with a key")
}
