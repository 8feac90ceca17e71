package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// kept is everything that scripts of the page can read of what the browser stores.
const kept = `(JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage}) + document.cookie)`

func TestNoKeyIsStoredInTheBrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := open(t, browser, srv.URL, "/console", looks()[0])
	p.says("Sign in with a key")
	p.see(`localStorage.setItem("stoa.key", "sk_old") === undefined`) // of an earlier version
	p.type_("#key", goodKey)
	p.press("Sign in")
	p.says("Credits by day and model")
	p.see(`!` + kept + `.includes("sk_") && !` + kept + `.includes("secret") && document.cookie === ""`)
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[int](`indexedDB.databases().then(async (all) => all.length + (await caches.keys()).length)`, chromedp.EvalAwaitPromise))
	if err != nil || found != 0 {
		t.Errorf("%d databases and caches: %v", found, err)
	}
	p.do(chromedp.Reload())
	p.says("Credits by day and model")
	p.allow("401") // of a request that the service reads after the end of the session
	p.press("Sign out")
	p.says("Sign in with a key")
	p.do(chromedp.Reload())
	p.says("Sign in with a key")
}

func TestSigningOutEndsTheOtherTabs(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "keys", looks()[0])
	p.allow("401")
	other := p.openTab("/console#/credits")
	other.allow("401")
	other.says("End user")
	p.press("Sign out")
	p.says("Sign in with a key")
	other.says("You have signed out in another tab.")
	other.type_("#key", freeKey)
	other.press("Sign in")
	other.says("End user")
	p.see(`!!document.querySelector(".rail")`) // it follows
}

func TestTheCookieMustBeStored(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.cookieless = true
	p := open(t, browser, srv.URL, "/console", looks()[3])
	p.type_("#key", goodKey)
	p.press("Sign in")
	p.says("Your browser did not store the cookie")
	p.fits()
	p.shot("no cookie")
}

func TestASignInScreenOffersProviders(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.signIn = `[{"name":"corp","url":"/signin/corp"}]`
	for _, l := range usual(looks()) {
		p := open(t, browser, srv.URL, "/console", l)
		p.says("Continue with corp")
		p.see(`document.querySelector("a.button").getAttribute("href") === "/signin/corp"`)
		p.says("Or with a key")
		p.fits()
		p.shot("providers")
	}
}

func TestAnAccountIsChosenPerTab(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.person = true
	p := signIn(t, browser, srv.URL, goodKey, "", looks()[0])
	p.says("Ada Lovelace")
	p.see(`document.querySelector(".rail select").value === "` + stubAccount + `"`)
	p.fits()
	p.shot("a person")
	p.see(`(() => { const s = document.querySelector(".rail select"); s.value = "` + otherAccount + `"; s.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	p.see(`document.querySelector(".rail select")?.value === "` + otherAccount + `"`)
	p.see(`!document.querySelector('.rail a[href="#/accounts"]')`) // the role has no such scope
	p.do(chromedp.Navigate(srv.URL + "/console#/audit"))
	p.says("Your role cannot read the changes of the account")
	p.see(`sessionStorage.getItem("stoa.account") === "` + otherAccount + `"`)
	other := p.openTab("/console")
	other.see(`document.querySelector(".rail select")?.value === "` + stubAccount + `"`)
	other.palette()
	other.insert("switch")
	other.see(`[...document.querySelectorAll("[role=option] .kind")].map((e) => e.innerText).join() === "Switch account,Switch account,Documentation"`)
	other.do(chromedp.KeyEvent(arrowDown))
	other.enter()
	other.see(`document.querySelector(".rail select")?.value === "` + otherAccount + `"`)
}

func TestAnInvitationIsAcceptedByAButton(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(looks()) {
		stub, srv := serve(t)
		stub.person = true
		p := open(t, browser, srv.URL, "/join#inv_good", l)
		p.says("Join Charity")
		p.says("as an owner")
		p.see(`location.hash === "" && !` + kept + `.includes("inv_")`)
		p.fits()
		p.shot("invitation")
		stub.mu.Lock()
		if got := strings.Join(stub.asked, ", "); got != "POST /console/join look true" {
			t.Errorf("before the button: %s", got)
		}
		stub.mu.Unlock()
		p.press("Accept")
		p.see(`location.pathname === "/console" && document.querySelector(".rail select")?.value === "` + otherAccount + `"`)

		p = open(t, browser, srv.URL, "/join#inv_signin", l)
		p.says("You sign in as Ada Lovelace to the account Charity, as a viewer.")
		p.shot("sign-in link")
		p.press("Sign in")
		p.see(`location.pathname === "/console" && !!document.querySelector(".rail")`)

		p = open(t, browser, srv.URL, "/join#inv_used", l)
		p.allow("410")
		p.says("This link has expired")
		p.shot("ended")
		p = open(t, browser, srv.URL, "/join", l)
		p.says("This link is incomplete")
	}
	stub, srv := serve(t)
	stub.signIn = `[{"name":"corp","url":"/signin/corp"}]`
	p := open(t, browser, srv.URL, "/join#inv_good", looks()[0])
	p.press("Accept with corp")
	p.see(`location.pathname + location.search === "/docs?signIn=corp"`)
}

func TestTheMembersPage(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.person = true
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "members", l)
			p.says("Grace Hopper")
			p.says("by a group")
			// An open invitation is a row of the same table.
			p.see(`/^Anyone with the link\s+invited.*by first key.*expires.*member/s.test(document.querySelector("tbody tr").innerText.trim()) && document.querySelectorAll("table").length === 1`)
			p.see(`document.querySelectorAll(".badge.accent").length > 0 && document.body.innerText.includes("you")`)
			p.fits()
			p.shot("members")
			p.press("Invite")
			p.type_("#member-name", "Alan")
			p.fits()
			p.shot("invite")
			p.press("Create the link")
			p.says("This is shown once.")
			p.says("/join#inv_shownonce")
			p.says("The link is sent by mail.")
			p.shot("link")
			p.press("Done")
			p.see(`!document.querySelector("dialog")`)
			p.press("Role")
			p.says("lose the scopes")
			p.shot("role")
			p.press("Save")
			p.says("is changed")
			p.press("Sign-in link")
			p.says("within 15 minutes")
			p.press("Create the link")
			p.says("/join#inv_signinonce")
			p.press("Done")
			p.press("Remove")
			p.says("End them")
			p.fits()
			p.shot("remove")
			p.press("Remove the member")
			p.says("is no longer a member")
			p.press("New link")
			p.says("The earlier link stops working.")
			p.press("Create the link")
			p.says("/join#inv_renewedonce")
			p.says("The link is not sent by mail, because this account has sent too many mails today. Send it over a channel")
			p.press("Done")
			p.press("Revoke")
			p.says("Its link stops working.")
			p.press("Revoke the invitation")
			p.says("The invitation is revoked")
		})
	}
	stub.mu.Lock()
	defer stub.mu.Unlock()
	all := strings.Join(stub.urls, "\n")
	for _, want := range []string{"POST /api/v1/members\n", "PATCH /api/v1/members/" + stubPerson, "POST /api/v1/members/" + stubPerson + "/link", "DELETE /api/v1/members/" + stubPerson + "?keys=end", "DELETE /api/v1/invitations/inv_01k9zqd3m8w5x7y2c4b6n8p0ra"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was not sent", want)
		}
	}
}

// openTab opens another tab of the same browser, with the same cookies.
func (p *tab) openTab(path string) *tab {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	return watch(p.t, ctx, cancel, p.base, path, looks()[0])
}
