package web_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
)

// palette opens the palette.
func (p *tab) palette() {
	p.t.Helper()
	p.see(`document.title.includes(" · ")`) // the frame listens to keys
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.see(`document.activeElement.getAttribute("role") === "combobox"`)
}

const (
	arrowUp   = "\u0304"
	arrowDown = "\u0301"
)

// The palette is used with the keyboard alone: it finds pages, actions, and accounts on the
// server.
func TestThePaletteFindsPagesActionsAndObjects(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "", l)
			p.says("Credits by day and model")
			p.palette()
			p.fits()
			p.shot("palette")
			chosen := `document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.innerText`
			p.see(chosen + `.startsWith("Overview")`)
			p.do(chromedp.KeyEvent(arrowUp)) // from the first to the last
			p.see(chosen + `.startsWith("Invite a member")`)
			p.do(chromedp.KeyEvent(arrowDown))
			p.see(chosen + `.startsWith("Overview")`)
			p.insert("requ")
			p.see(chosen + `.startsWith("Requests")`)
			p.see(`[...document.querySelectorAll("[role=option] .cut")].at(-1).innerText === "Guides about “requ”"`)
			p.enter()
			p.see(`location.hash === "#/requests" && !document.querySelector("dialog")`)

			p.palette()
			p.insert("new key")
			p.see(chosen + `?.includes("Action")`)
			p.enter()
			p.see(`document.activeElement.id === "key-name" && location.hash === "#/keys"`)
			p.press("Cancel")

			// Verbs and words of other products.
			for typed, want := range map[string]string{
				"create key": "Create key", "add key": "Create key", "add provider": "Add provider", "theme": "Light or dark", "sign out": "Sign out",
				"logout": "Sign out", "vendor": "Providers", "approvals": "Tool calls", "users": "Members", "customers": "Accounts", "api reference": "API reference", "keys": "Keys",
			} {
				p.palette()
				p.insert(typed)
				p.see(chosen + `?.startsWith(` + strconv.Quote(want) + `)`)
				p.do(chromedp.KeyEvent("\u001b"))
				p.see(`!document.querySelector("dialog")`)
			}
			p.palette()
			p.insert("theme")
			p.see(chosen + `?.startsWith("Light or dark")`)
			p.see(`(window.wasTheme = document.documentElement.dataset.theme, true)`)
			p.enter()
			p.see(`document.documentElement.dataset.theme !== window.wasTheme`)
			p.see(`(document.querySelector("[data-theme-switch]").click(), true)`)

			p.palette()
			p.insert("Acme")
			p.see(`[...document.querySelectorAll("[role=option]")].some((o) => o.innerText.includes("Acme") && o.innerText.includes("Account"))`)
			stub.askedFor("GET /api/v1/accounts?", "q=acme")
			p.see(`([...document.querySelectorAll("[role=option]")].find((o) => o.innerText.includes("Acme"))?.click(), true)`)
			p.see(`location.hash === "#/accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz"`)

			p.says("Top up")
			p.see(`(document.activeElement?.blur(), true)`)
			p.do(chromedp.KeyEvent("?"))
			p.says("Keyboard shortcuts")
			p.fits()
			p.shot("shortcuts")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)
		})
	}
}

// The palette offers only what the key may use.
func TestThePaletteOffersWhatTheKeyMayUse(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	p := signIn(t, browser, st.h.URL, keyWith(st.h, "responses"), "", sizes()[0])
	p.palette()
	p.see(`[...document.querySelectorAll("[role=option] .cut")].map((e) => e.innerText).join() === "Overview,Playground"`)
}

func TestTheMenuOfAPhoneOpensAndCloses(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "keys", sizes()[2])
	p.says("website")
	p.see(`!document.querySelector(".rail").checkVisibility() && !document.querySelector(".bar").checkVisibility()`)
	p.click(`[aria-label="Menu"]`)
	p.see(`document.activeElement.getAttribute("aria-current") === "page" && document.querySelector("main").inert`)
	p.says("Operate")
	p.see(`Math.round(document.querySelector(".rail").getBoundingClientRect().bottom) === innerHeight`) // the page is covered
	p.fits()
	p.shot("menu")
	p.do(chromedp.KeyEvent("\u001b"))
	p.see(`!document.querySelector(".rail").checkVisibility() && document.activeElement.getAttribute("aria-label") === "Menu"`)
	p.click(`[aria-label="Menu"]`)
	p.click(`.rail a[href="#/members"]`)
	p.says("Grace Hopper")
	p.see(`!document.querySelector(".rail").checkVisibility() && !document.querySelector("main").inert`)
}

// Between phone and desktop the rail has only icons, which have names.
func TestTheRailFolds(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "keys", look{"", false, 900, 800})
	p.says("website")
	p.see(`document.querySelector(".rail").offsetWidth < 64 && document.querySelector('.rail a[href="#/members"]').innerText.trim() === "Members"`)
	p.shot("icons")
	p.do(chromedp.EmulateViewport(1280, 800))
	p.see(`document.querySelector(".rail").offsetWidth > 200`)
}

// A row is opened and its menu is used with the keyboard.
func TestRowsAreUsedWithTheKeyboard(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "requests", sizes()[0])
	p.says("insufficient_quota")
	p.see(`(() => { const row = document.querySelector("tr[tabindex='0']"); row.focus(); return document.activeElement === row; })()`)
	p.do(chromedp.KeyEvent(arrowDown))
	p.see(`document.activeElement.matches("tr") && document.activeElement.innerText.includes("insufficient_quota")`)
	p.enter()
	p.see(`document.querySelector("dialog.drawer")?.innerText.includes("429")`)
	p.shot("drawer")
	p.do(chromedp.KeyEvent("\u001b"))
	p.see(`!document.querySelector("dialog") && document.activeElement.matches("tr")`)

	p.do(chromedp.Navigate(srv.URL + "/console#/keys"))
	p.says("website")
	p.see(`(() => { const menu = document.querySelector("[aria-haspopup=menu]"); menu.focus(); return document.activeElement === menu; })()`)
	p.enter()
	p.see(`document.activeElement.matches("[role=menuitem]") && document.activeElement.innerText === "Changes"`)
	p.shot("row menu")
	p.do(chromedp.KeyEvent(arrowUp))
	p.see(`document.activeElement.innerText === "Revoke"`)
	p.enter()
	p.says(`Revoke "first key"?`)
	p.press("Keep it")
	p.see(`document.activeElement.getAttribute("aria-haspopup") === "menu"`)

	// What a narrow table hides is in a drawer, too.
	p.do(chromedp.EmulateViewport(780, 800))
	p.see(`!document.querySelector("th.drop1").checkVisibility()`)
	p.see(`(document.querySelector("tbody tr").focus(), document.activeElement.matches("tr"))`)
	p.enter()
	p.see(`document.querySelector("dialog.drawer dl")?.innerText.includes("everything except running the service")`)
}

// One day that cost a hundred times as much as the others does not flatten them, and days
// without calls are shown.
func TestAnOutlierIsCut(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.outlier.Store(true)
	p := signIn(t, browser, srv.URL, goodKey, "usage", sizes()[0])
	p.says("in the period before")
	p.see(`document.querySelectorAll(".bar-of .torn").length === 1 && document.querySelectorAll(".bar-of .zero").length === 11`)
	p.see(`document.querySelector(".chart .over").textContent === "300.00" && document.querySelector(".chart text").textContent === "Credits"`)
	// The next highest bar still fills more than half of the height.
	p.see(`Math.max(...[...document.querySelectorAll(".bar-of:not(:has(.torn)) .c1")].map((r) => r.getBBox().height)) > 80`)
	p.shot("outlier")
}

// The overview of a real service has all parts, and none of them fails.
func TestTheOverviewOfAnOperator(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	st.c.Want(202, http.MethodPost, st.agent+"/sessions", map[string]any{"message": "hello"})
	for _, l := range usual(sizes()) {
		p := signIn(t, browser, st.h.URL, keyWith(st.h, "*", "operator"), "", l)
		for _, part := range []string{"Spent today", "This month", "Credits available", "Errors", "Latency p50", "Needs attention", "Top agents", "Top customers", "Models and prices"} {
			p.says(part)
		}
		p.see(settled)
		p.see(`!document.querySelector("main [role=alert]")`)
		p.fits()
		p.shot("overview")
	}
}
