package web_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
)

// signIn opens the console and signs in.
func signIn(t *testing.T, browser context.Context, base, key, path string, l look) *tab {
	t.Helper()
	p := open(t, browser, base, "/console#/"+path, l)
	p.says("Sign in with a key")
	p.type_("#key", key)
	p.press("Sign in")
	p.see(`!!document.querySelector(".rail")`)
	return p
}

func TestTheConsoleInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := open(t, browser, srv.URL, "/console", l)
			p.says("Sign in with a key")
			p.fits()
			p.shot("sign in")
			p.type_("#key", goodKey)
			p.press("Sign in")
			p.says("Credits by day and model")
			p.see(`document.querySelector(".chart")?.querySelectorAll(".bar-of").length === 14`)
			p.says("Latest calls")
			p.says("gamma-6-luna")
			p.fits()
			p.shot("overview")

			p.do(chromedp.Navigate(srv.URL + "/console#/playground"))
			p.says("Ask something")
			p.fits()
			p.shot("playground empty")
			p.type_("#question", "Why is the sky blue?")
			p.enter()
			p.says("0.0003 credits")
			p.see(`document.querySelector(".reply strong")?.innerText === "air scatters"`)
			p.says("beta-3.8-flash")
			p.says("14 in, 41 out tokens")
			p.fits()
			p.shot("playground")

			p.do(chromedp.Navigate(srv.URL + "/console#/credits"))
			p.says("End user")
			p.says("first key")
			p.says("0.0003")
			p.fits()
			p.shot("receipts")
			p.press("Details")
			p.says("price list 2026-11-20")
			p.fits()
			p.shot("receipt")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)
			p.press("Ledger")
			p.says("first grant")
			p.press("Reconcile")
			p.says("The books balance.")
			p.shot("books")

			p.do(chromedp.Navigate(srv.URL + "/console#/keys"))
			p.says("website")
			p.see(`!document.body.innerText.includes("old laptop")`)
			p.click(".head .check input")
			p.says("old laptop")
			p.fits()
			p.shot("keys")
			p.press("Edit")
			p.see(`document.querySelector("#key-name")?.value === "first key"`)
			p.type_("#key-day", "5")
			p.fits()
			p.shot("edit a key")
			p.press("Save")
			p.says("is changed")
			p.press("Create key")
			p.type_("#key-name", "website")
			p.see(`document.querySelector("[name=preset]:checked").value === "call"`)
			p.click("[name=preset][value=custom]")
			p.says("start and steer sessions")
			p.fits()
			p.shot("make a key")
			p.click("[name=preset][value=run]")
			p.press("Create the key")
			p.says("This is shown once.")
			p.says("sk_shownonce")
			p.shot("secret")
			p.press("Done")
			p.see(`!document.querySelector("dialog")`)

			p.do(chromedp.Navigate(srv.URL + "/console#/accounts"))
			p.says("it@acme.example")
			p.fits()
			p.shot("accounts")
			p.click(`td a[href="#/accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz"]`)
			p.says("0 held")
			p.says("0.75")
			p.press("Top up")
			p.press("+20")
			p.see(`document.querySelector("#grant").value === "20"`)
			p.type_("#reference", "pay_1042")
			p.fits()
			p.shot("account")
			p.press("Grant")
			p.says("The credits are granted")
			p.press("Withdraw")
			p.type_("#withdraw-amount", "7")
			p.type_("#withdraw-reference", "refund_1")
			p.fits()
			p.shot("withdraw")
			p.click("dialog button[type=submit]")
			p.says("2.00 are owed")
			p.do(chromedp.Navigate(srv.URL + "/console#/accounts"))
			p.says("Broke Inc")
			p.press("Create account")
			p.type_("#account-name", "Acme")
			p.press("Create the account")
			p.says("This is shown once.")
			p.press("Done")
			p.press("Invite a customer")
			p.type_("#invited-account", "Acme")
			p.fits()
			p.press("Create the link")
			p.says("It works once")
		})
	}
}

func TestOwnersBuyCreditsOnAPage(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(looks()) {
		p := signIn(t, browser, srv.URL, goodKey, "credits/payments", l)
		p.says("partly refunded")
		p.says("€20.00")
		p.fits()
		p.shot("payments")
		p.press("Buy credits")
		p.says("You pay on a page of Stripe")
		p.says("20 credits")
		p.fits()
		p.shot("buy")
	}
}

func TestAWrongKeyIsShownAtTheField(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := open(t, browser, srv.URL, "/console", looks()[0])
	p.allow("401")
	p.says("Sign in with a key")
	p.type_("#key", "sk_wrong")
	p.press("Sign in")
	p.says("Invalid key")
	p.see(`document.querySelector("#key").getAttribute("aria-invalid") === "true"`)
	p.shot("wrong key")
}

// A link with a key fills in the form without signing in, and the key is removed from
// the address.
func TestALinkBringsAKey(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(looks()) {
		p := open(t, browser, srv.URL, "/console#key="+goodKey, l)
		p.says("The link that you opened contains the key")
		p.see(`location.hash === "" && sessionStorage.length === 0 && document.querySelector("#key").value.startsWith("sk_stub")`)
		p.fits()
		p.shot("link")
		p.press("Sign in")
		p.says("Credits by day and model")
	}
	p := open(t, browser, srv.URL, "/console#key=%3Cb%3E", looks()[0])
	p.says("Sign in with a key")
	p.see(`document.querySelector("#key").value === ""`)
}

func TestTheStopButtonEndsTheCall(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "playground", looks()[0])
	p.says("Ask something")
	p.type_("#question", "forever")
	p.enter()
	p.says("and on and on")
	p.shot("streaming")
	p.press("Stop")
	select {
	case <-stub.left:
	case <-p.ctx.Done():
		t.Fatal("the call went on after Stop")
	}
	p.says("stopped")
	p.see(`!!document.querySelector("button[type=submit]")`)
}

func TestFailedCallsAreShownInThePlayground(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "playground", looks()[2])
	p.allow("429")
	p.says("Ask something")
	p.type_("#question", "broke")
	p.enter()
	p.says("Top up, or ask for fewer tokens.")
	p.says("req_01k9zqd3m8w5x7y2c4b6n8p0rc")
	p.type_("#question", "break")
	p.enter()
	p.says("The model's provider broke off.")
	p.see(`document.querySelector(".reply")?.innerText.includes("Because")`)
	p.fits()
	p.shot("failures")
}

func TestAGatedModelNamesItsFallback(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, freeKey, "playground", looks()[0])
	p.says("Ask something")
	p.see(`(() => { const s = document.querySelector("#model"); s.value = "alpha-opus-5-5"; s.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	p.says("does not include this model")
	p.see(`[...document.querySelectorAll("#model option")].some((o) => o.disabled && o.innerText.includes("no provider here"))`)
	p.shot("gated")
}

func TestACallCanBeCopiedAsCode(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "playground", looks()[0])
	p.says("Ask something")
	p.press("Copy as code")
	p.says("curl --no-buffer")
	p.shot("curl")
	p.press("Go")
	p.says("openai.NewClient(")
	p.shot("go")
	p.press("JavaScript")
	p.says(`import OpenAI from "openai"`)
	p.see(`!document.body.innerText.includes("` + goodKey + `")`)
}

func TestModelOutputNeverRunsAsScript(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "playground", looks()[0])
	p.says("Ask something")
	p.type_("#question", "hello")
	p.enter()
	p.says("14 in, 41 out tokens")
	p.see(`document.querySelectorAll(".reply img, .reply script").length === 0`)
	p.see(`document.querySelector(".reply").innerText.includes("<img src=x")`)
	p.see(`[...document.querySelectorAll(".reply a")].map((a) => a.getAttribute("href")).filter(Boolean).join() === "https://example.com"`)
	p.see(`document.querySelector(".reply").innerText.includes("a picture")`)
}

func TestANewAccountSeesItsNextSteps(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.bare = true
	p := signIn(t, browser, srv.URL, goodKey, "", looks()[2])
	p.says("Nothing was spent in this time")
	p.fits()
	p.shot("empty")
	p.do(chromedp.Navigate(srv.URL + "/console#/credits"))
	p.says("No receipts yet")
}

func TestALostConnectionCanBeRetried(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "credits/books", looks()[2])
	p.says("The books balance.")
	p.allow("ERR_", "502")
	stub.cut.Store(true)
	p.press("Check again")
	p.says("Not connected")
	p.fits()
	p.shot("offline")
	stub.cut.Store(false)
	p.press("Try again")
	p.see(`!document.body.innerText.includes("Not connected")`)
}

func TestARevokedKeySignsOut(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "credits/books", looks()[0])
	p.says("The books balance.")
	p.allow("401")
	stub.refuse.Store(true)
	p.press("Check again")
	p.says("The API key is missing or not valid.")
	p.says("Sign in with a key")
}
