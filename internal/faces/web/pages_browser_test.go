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
			p.says("Create a model response")
			p.fits()
			p.shot("reference")
			p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi#createResponse"))
			p.see(`Math.abs(document.getElementById("createResponse").getBoundingClientRect().top) < 200`)
			p.fits()
			p.shot("operation")
			p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi#errors"))
			p.shot("errors")
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
			p.says("Stoa answers model calls")
			p.fits()
			p.shot("explorer")
			before, after := "light", "dark"
			if l.dark {
				before, after = after, before
			}
			p.see(fmt.Sprintf(`document.body.classList.contains("%s-mode")`, before))
			p.click("[data-theme-switch]") // the explorer follows it
			p.see(fmt.Sprintf(`document.body.classList.contains("%s-mode")`, after))
			p.shot("explorer switched")
		})
	}
	desktop := looks()[0]
	t.Run("the reference filters as one types, and its addresses open what is closed", func(t *testing.T) {
		p := open(t, browser, srv.URL, "/docs/api-openapi", desktop)
		p.do(chromedp.KeyEvent("/"))
		p.see(`document.activeElement.id === "find"`)
		p.do(chromedp.KeyEvent("health"))
		p.see(`document.querySelectorAll(".operation:not([hidden])").length === 1`)
		p.shot("filter")
		p.do(chromedp.KeyEvent("\u001b"))
		p.see(`document.querySelectorAll(".operation:not([hidden])").length > 4`)
		p.do(chromedp.Navigate(srv.URL + "/docs/api-openapi#schema-Error"))
		p.see(`document.getElementById("schema-Error").open`)
	})
	t.Run("the reference needs no script", func(t *testing.T) {
		p := open(t, browser, srv.URL, "/", desktop)
		if _, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			t.Fatal(err)
		}
		p.do(chromedp.Navigate(srv.URL+"/docs/api-openapi#getHealth"), chromedp.WaitVisible(chromedp.CSS("#getHealth")), chromedp.WaitNotVisible(chromedp.CSS(".find")))
		p.picture("without script") // axe-core is a script
	})
	t.Run("the reference prints what is closed", func(t *testing.T) {
		p := open(t, browser, srv.URL, "/docs/api-openapi", desktop)
		if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
			t.Fatal(err)
		}
		p.see(`getComputedStyle(document.querySelector(".side")).display === "none"`)
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
	p := open(t, browser, srv.URL, "/api/v1/doc", looks()[0])
	p.says("Stoa answers model calls")
	p.do(chromedp.Navigate(srv.URL + "/api/v1/doc#tag/responses/POST/api/v1/responses"))
	p.says("Test Request")
	p.shot("operation")
	p.see(`(() => { const b = document.querySelector('[id*="responses/POST/api/v1/responses"] .show-api-client-button'); if (b) b.click(); return !!b; })()`)
	p.says("Send")
	p.shot("client")
	p.see(`(() => { const f = [...document.querySelectorAll("input[placeholder=Token]")].at(-1); f.focus(); return document.activeElement === f; })()`)
	p.insert(goodKey)
	p.see(`(() => { const f = [...document.querySelectorAll(".cm-content[contenteditable=true]")].at(-1); f.focus(); return document.activeElement === f; })()`)
	p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.insert(`{"model":"auto","stream":true,"input":[{"role":"user","content":"forever"}]}`)
	p.see(`(() => { const b = [...document.querySelectorAll("button")].find((b) => b.checkVisibility() && b.innerText.trim().startsWith("Send")); if (b) b.click(); return !!b; })()`)
	// The stream never ends by itself, so what is shown was shown live.
	p.says("response.output_text.delta")
	p.says("and on")
	p.shot("stream")
}

// The tables of guides and of the reference show all of their text, and keep codes of fewer than 40 characters whole.
func TestTablesOfTextAreWhole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := open(t, browser, srv.URL, "/docs/settings-server", look{"", false, 1440, 900})
	for _, page := range []string{"settings-server", "settings-models", "settings-limits", "performance", "connections", "api-openapi"} {
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
