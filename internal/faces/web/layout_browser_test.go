package web_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
)

// lengthened are the members of replies that people and vendors name, with long values.
var lengthened = map[string]string{
	"name":           "Where is the nearest cloakroom and may I bring a large umbrella along",
	"title":          "Where is the nearest cloakroom, and may I bring a very large umbrella along with me on a rainy Sunday",
	"description":    "Answers the visitors of the museum in their language, from the handbook and the calendar of exhibitions",
	"email":          "wilhelmina.featherstonehaugh-cholmondeley@visitors.museum.example",
	"url":            "https://hooks.customers.example.com/v1/receive/everything/that/happens?tenant=museum-of-modern-umbrellas",
	"endUser":        "customer-7f3b9a0c5d2e4f6a8b1c3d5e7f9a0b2c4d6e8f0a1b3c5d7e",
	"externalUserId": "customer-7f3b9a0c5d2e4f6a8b1c3d5e7f9a0b2c4d6e8f0a1b3c5d7e",
	"served":         "meridian-ultra-long-context-instruct-preview-2026-11-20",
	"prompt":         "May I refund 4,200 credits to the customer who was charged twice in the night of the long migration?",
	"reply":          "The cloakroom is in the basement. Umbrellas of more than a metre have to stay there until you leave.",
	"accountName":    "The Society of Friends of the Museum of Modern Umbrellas and Parasols",
}

// lengthen replaces the texts of a reply.
func lengthen(t *testing.T, body string) string {
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Error(err)
	}
	long, err := json.Marshal(longer(v, 0))
	if err != nil {
		t.Error(err)
	}
	return string(long)
}

// longer returns v with long names, which differ within a list.
func longer(v any, nth int) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if long, ok := lengthened[name]; ok && member != nil {
				if _, is := member.(string); is {
					if nth > 0 {
						long += " " + strconv.Itoa(nth+1)
					}
					v[name] = long
					continue
				}
			}
			v[name] = longer(member, nth)
		}
	case []any:
		for i := range v {
			v[i] = longer(v[i], i)
		}
	}
	return v
}

// settled reports whether the page at an address has loaded everything. Requests that wait
// for events do not count.
const settled = `(() => {
	if (!window.underWay) {
		const send = window.fetch;
		window.underWay = new Set();
		window.fetch = (...what) => {
			if (/waitSeconds|events/.test(String(what[0]?.url ?? what[0]))) return send(...what);
			const one = {};
			underWay.add(one);
			return send(...what).finally(() => setTimeout(() => underWay.delete(one)));
		};
	}
	return underWay.size === 0 && !!document.querySelector("main h1") && !document.querySelector("main .skeletons");
})()`

// misfits returns what does not fit in the window: a page or a table that scrolls sideways,
// scrollbars of what hardly scrolls, words that are broken between letters though they fit in
// a line, and controls that are cut.
const misfits = `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() => {
	const out = new Set(), width = document.documentElement.clientWidth;
	const name = (e) => e.tagName.toLowerCase() + "." + e.className + " “" + (e.ariaLabel ?? e.innerText ?? "").slice(0, 40).replaceAll("\n", " ") + "”";
	const box = (e) => e.getBoundingClientRect();
	if (document.documentElement.scrollWidth > width) out.add("the page is " + document.documentElement.scrollWidth + " wide: " + [...document.querySelectorAll("body *")].filter((e) => box(e).right > width + 1).slice(0, 3).map(name).join(", "));
	for (const e of document.querySelectorAll("main .scrolls")) if (e.checkVisibility() && e.scrollWidth > e.clientWidth + 1) out.add("a table scrolls: " + e.ariaLabel + " " + e.scrollWidth + " in " + e.clientWidth);
	for (const e of document.querySelectorAll("body *")) {
		const style = getComputedStyle(e), borders = (...sides) => sides.reduce((sum, side) => sum + parseFloat(style["border" + side + "Width"]), 0);
		if (!/auto|scroll/.test(style.overflow) || !e.checkVisibility() || e.matches("select, input")) continue;
		const bars = [["vertical", e.offsetWidth - e.clientWidth - borders("Left", "Right"), e.scrollHeight - e.clientHeight], ["horizontal", e.offsetHeight - e.clientHeight - borders("Top", "Bottom"), e.scrollWidth - e.clientWidth]];
		for (const [kind, thick, hidden] of bars) if (thick > 1 && hidden < 24) out.add("a " + kind + " scrollbar for " + hidden + " px: " + name(e));
	}
	for (const e of document.querySelectorAll("main :is(button, a.button, input, select, textarea):not([role=tab])")) {
		if (!e.checkVisibility() || box(e).width === 0) continue;
		let left = 0, right = width;
		for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") [left, right] = [Math.max(left, box(p).left), Math.min(right, box(p).right)];
		const cut = box(e).left < left - 1 || box(e).right > right + 1;
		if (cut && !(e.matches(".link") && box(e).left < right - 24)) out.add("cut: " + name(e));
	}
	const texts = document.createTreeWalker(document.querySelector("#main"), NodeFilter.SHOW_TEXT), range = document.createRange();
	for (let text; (text = texts.nextNode()); ) {
		const parent = text.parentElement;
		if (!parent.checkVisibility() || parent.closest("pre, .mono, .unseen, svg")) continue;
		range.selectNodeContents(text);
		const figure = parent.closest(".figure dd:not(.sub, .word)");
		if (figure && range.getBoundingClientRect().right > box(figure).right + 1) out.add("cut: " + text.data);
		if (range.getClientRects().length < 2) continue;
		let block = parent;
		while (getComputedStyle(block).display.startsWith("inline")) block = block.parentElement;
		for (const word of text.data.matchAll(/[\p{L}\p{N}_]{2,}/gu)) {
			range.setStart(text, word.index);
			range.setEnd(text, word.index + word[0].length);
			const rects = [...range.getClientRects()];
			if (new Set(rects.map((r) => Math.round(r.top))).size > 1 && rects.reduce((sum, r) => sum + r.width, 0) < block.clientWidth - 24) out.add("broken: “" + word[0] + "” in " + name(block));
		}
	}
	return [...out];
})`

// shifted is the layout shift since the page was loaded, with the elements that moved.
const shifted = `new Promise((done) => {
	let sum = 0;
	const moved = new Set();
	const add = (e) => {
		sum += e.hadRecentInput ? 0 : e.value;
		for (const s of e.sources) moved.add(s.node?.getAttribute?.("class") || s.node?.nodeName);
	};
	new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({ type: "layout-shift", buffered: true });
	requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done({ sum, moved: [...moved] }))));
})`

// everyPage returns the addresses of the console's pages.
func everyPage() []string {
	agent := "agents/" + stubAgent
	return []string{
		"", "playground", "agents", agent, agent + "/settings", agent + "/drive", agent + "/sessions", agent + "/tasks", agent + "/hooks", agent + "/embeds/embed-urls", agent + "/versions", agent + "/tasks/" + stubTask,
		agent + "/sessions/" + stubSession, "sessions", "feedback", "tool-calls", "connections", "connections/" + stubConnection, "connections/secrets", "webhooks", "webhooks/" + stubHook, "usage", "credits", "credits/ledger", "credits/books", "invoices",
		"requests", "audit", "budgets", "keys", "members", "accounts", "accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz", "accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz/keys", "accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz/budgets",
		"accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz/ledger", "accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz/limits", "providers", "providers?settings=family", "providers?settings=model", "providers?settings=alias", "providers?settings=plan", "providers?settings=history", "nodes",
	}
}

// Every page fits into every window, whatever the names in it, and axe-core finds no barrier in
// either theme.
func TestPagesFitIntoEveryWindow(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.lengthens.Store(true)
	p := signIn(t, browser, srv.URL, goodKey, "", look{"", false, 1440, 900})
	p.allow("404") // the stub has not every reply
	for _, page := range everyPage() {
		p.do(chromedp.Navigate(srv.URL + "/console#/" + page))
		p.see(settled)
		for _, width := range []int64{1920, 1440, 1024, 768, 390} {
			p.do(chromedp.EmulateViewport(width, 900))
			found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](misfits, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			for _, misfit := range found {
				t.Errorf("#/%s at %d: %s", page, width, misfit)
			}
			if width == 1440 {
				p.axe()
			}
			p.picture(fmt.Sprintf("%s at %d", page, width))
		}
		p.as(look{"", true, 390, 900})
		p.shot(page + " dark")
		p.as(look{"", false, 390, 900})
	}
}

// The pages that are opened most hardly move while they load.
func TestPagesDoNotShift(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, width := range []int64{1440, 390} {
		p := signIn(t, browser, srv.URL, goodKey, "", look{"", false, width, 900})
		p.allow("404")
		for _, page := range []string{"", "requests", "credits", "keys", "sessions", "members", "accounts", "providers", "invoices", "audit", "tool-calls"} {
			p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(srv.URL+"/console#/"+page))
			p.see(settled)
			type shift struct {
				Sum   float64
				Moved []string
			}
			got, err := chromedp.Run(p.ctx, chromedp.Evaluate[shift](shifted, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			if got.Sum >= 0.1 {
				t.Errorf("#/%s at %d shifts by %.3f: %q", page, width, got.Sum, got.Moved)
			}
		}
	}
}
