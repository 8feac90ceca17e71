package web_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range ends(looks()) {
		t.Run("the landing page, "+l.name, func(t *testing.T) {
			p := open(t, browser, srv.URL, "/", l)
			p.says("Models and hosted agents behind one API key")
			p.fits()
			p.shot("landing")
		})
		t.Run("the reference, "+l.name, func(t *testing.T) {
			p := open(t, browser, srv.URL, "/docs/api-openapi", l)
			p.says("Version 1.0.0")
			p.fits()
			p.shot("reference")
			p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi#createResponse")) // its place when the reference was one page
			p.see(`location.pathname === "/docs/api-openapi/responses" && Math.abs(document.getElementById("createResponse").getBoundingClientRect().top) < 200`)
			p.fits()
			p.shot("tag")
			p.see(`(() => { const link = document.querySelector(".member > .type > a[href$='/schemas/InputItem'], .member .type > a[href*='/schemas/']"); link?.scrollIntoView(); link?.click(); return !!link; })()`)
			p.see(`!!document.querySelector(".filled .member")`) // a schema opens in place
			p.fits()
			p.shot("schema in place")
			for _, page := range []string{"errors", "events", "schemas", "schemas/Error", "responses/createResponse", "embeds"} {
				p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi/" + page))
				p.see(`!!document.querySelector("main h1, .lost h1")`)
				p.fits()
				p.shot(page)
			}
		})
		t.Run("the guides, "+l.name, func(t *testing.T) {
			p := open(t, browser, srv.URL, "/docs", l)
			p.says("Connect a vendor")
			p.fits()
			p.shot("guides")
			p.do(chromedp.Navigate(srv.URL + "/docs/nodes"))
			p.says("Several nodes")
			p.see(`document.querySelectorAll(".guide .code .copy").length > 5`)
			p.fits()
			p.shot("guide")
			p.do(chromedp.Navigate(srv.URL + "/docs?q=nginx+buffering"))
			p.see(`document.querySelectorAll(".found mark").length > 0`)
			p.fits()
			p.shot("found")
			if l.width > 860 { // the field is open
				p.see(`(() => { const q = document.querySelector("#q"); q.focus(); q.select(); return true; })()`)
				p.insert("backup")
				p.see(`location.search === "?q=backup" && !!document.querySelector(".found a[href^='/docs/backup#']") && document.activeElement.id === "q"`)
			}
		})
		t.Run("a page that is not there, "+l.name, func(t *testing.T) {
			p := open(t, browser, srv.URL, "/", l)
			p.allow("404")
			p.do(chromedp.Navigate(srv.URL + "/nowhere"))
			p.says("Page not found")
			p.fits()
		})
		t.Run("the explorer, "+l.name, func(t *testing.T) {
			p := open(t, browser, srv.URL, "/api/v1/doc", l)
			p.says("Choose an operation")
			p.fits()
			p.shot("explorer")
			p.do(chromedp.Navigate(srv.URL + "/api/v1/doc#createResponse"))
			p.see(`!!document.querySelector("form.call:not([hidden]) textarea")`)
			p.fits()
			p.shot("form")
		})
	}
	desktop := looks()[0]
	t.Run("the reference filters as one types, and its addresses open what is closed", func(t *testing.T) {
		p := open(t, browser, srv.URL, "/docs/api-openapi", desktop)
		p.do(chromedp.KeyEvent("/"))
		p.see(`document.activeElement.id === "find"`)
		p.do(chromedp.KeyEvent("health"))
		p.see(`document.querySelectorAll("li[data-words]:not([hidden])").length === 1`)
		p.shot("filter")
		p.do(chromedp.KeyEvent("\u001b"))
		p.see(`document.querySelectorAll("li[data-words]:not([hidden])").length > 4`)
		p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi/service"))
		p.do(chromedp.KeyEvent("/"))
		p.do(chromedp.KeyEvent("health"))
		p.see(`document.querySelectorAll(".operation:not([hidden])").length === 1`)
		p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi#schema-Error"))
		p.see(`location.pathname === "/docs/api-openapi/schemas/Error"`)
		p.see(`(() => { const up = document.querySelector("main a[href*='/schemas#']"); up?.click(); return !!up; })()`)
		p.see(`location.pathname === "/docs/api-openapi/schemas" && !!document.querySelector("li[id='schema-Error'] a")`)
		p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi/schemas#%")) // a malformed address names nothing
		p.see(`document.querySelector(".contents")?.open`)
	})
	t.Run("the reference needs no script", func(t *testing.T) {
		p := open(t, browser, srv.URL, "/", desktop)
		if _, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			t.Fatal(err)
		}
		p.do(chromedp.Navigate(srv.URL+"/docs/api-openapi/service#getHealth"), chromedp.WaitVisible(chromedp.CSS("#getHealth")), chromedp.WaitNotVisible(chromedp.CSS(".find")))
		p.picture("without script") // axe-core is a script
	})
	t.Run("the reference prints what is closed", func(t *testing.T) {
		p := open(t, browser, srv.URL, "/docs/api-openapi/responses/createResponse", desktop)
		if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
			t.Fatal(err)
		}
		p.see(`getComputedStyle(document.querySelector(".side")).display === "none"`)
		p.see(`getComputedStyle(document.querySelector(".call")).display === "none"`)
		p.see(`(() => { const d = document.querySelector(".answer:not([open]) .inside"); return d.checkVisibility() && d.getBoundingClientRect().height > 0; })()`)
		p.shot("print")
	})
	t.Run("the switch goes from light to dark and is remembered", func(t *testing.T) {
		p := open(t, browser, srv.URL, "/", desktop)
		background := `getComputedStyle(document.documentElement).backgroundColor`
		light, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](background))
		if err != nil {
			t.Fatal(err)
		}
		p.click("[data-theme-switch]")
		p.see(background + ` !== "` + light + `"`)
		p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi"))
		p.see(`document.documentElement.dataset.theme === "dark"`)
	})
}

func TestTheExplorerShowsAStream(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range ends(looks()) {
		p := open(t, browser, srv.URL, "/api/v1/doc#createResponse", l)
		p.type_("input[name=secret]", goodKey)
		p.see(`(() => { const b = document.querySelector("textarea[name=body]"); const example = JSON.parse(b.value).model !== undefined; b.value = ""; return example; })()`)
		p.type_("textarea[name=body]", `{"model":"auto","stream":true,"input":[{"role":"user","content":"forever"}]}`)
		p.press("Send")
		// The stream never ends by itself, so what is shown was shown live.
		p.says("response.output_text.delta")
		p.says("and on")
		p.says("x-request-id")
		p.fits()
		p.shot("stream")
		p.press("Stop")
		p.says("Stopped.")
		p.see(`!document.querySelector("[data-stop]").checkVisibility()`)

		// The next operation has the key, which is in no storage.
		p.see(`(() => { location.hash = "#getMe"; return true; })()`)
		p.see(fmt.Sprintf(`document.querySelector("form.call")?.dataset.path === "/api/v1/users/me" && document.querySelector("input[name=secret]").value === %q`, goodKey))
		p.see(fmt.Sprintf(`!JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href]).includes(%q)`, goodKey))
		p.press("Send")
		p.see(`/^200/.test(document.querySelector("[data-reply] [role=status]")?.innerText) && document.querySelector("[data-reply] pre")?.innerText.includes("{")`)
		p.shot("reply")
	}
}

// The tables of guides and of the reference show all of their text, and keep codes of fewer than 40 characters whole.
func TestTablesOfTextAreWhole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := open(t, browser, srv.URL, "/docs/settings-server", look{"", false, 1440, 900})
	for _, page := range []string{"settings-server", "settings-models", "settings-limits", "performance", "connections", "api-openapi/errors"} {
		p.do(chromedp.Navigate(srv.URL + "/docs/" + page))
		p.see(`!!document.querySelector("main .words td")`)
		for _, width := range []int64{1440, 1024, 768, 390} {
			p.do(chromedp.EmulateViewport(width, 900))
			p.see(`document.documentElement.scrollWidth <= innerWidth`)
			p.see(`![...document.querySelectorAll("main .words td")].some((e) => e.checkVisibility() && (e.scrollWidth > e.clientWidth + 1 || getComputedStyle(e).whiteSpace === "nowrap" && e.clientWidth > 200))`)
			if width >= 768 {
				p.see(`![...document.querySelectorAll("main .words td:first-child > code")].some((e) => e.textContent.length < 40 && e.checkVisibility() && e.getClientRects().length > 1)`)
			}
		}
	}
}
