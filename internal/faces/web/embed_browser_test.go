package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// A stage is a service with an agent whose chat is shown in pages.
type stage struct {
	h     *apitest.Service
	c     *apitest.Client
	agent string // path
}

// newStage starts a service with an agent. It sends requests to addresses of callers
// only where they are allowed.
func newStage(t *testing.T, allow ...string) stage {
	t.Helper()
	h := apitest.Start(t, apitest.Config{Allow: allow})
	st := stage{h: h, c: h.Client(t)}
	var me contract.User
	st.c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	space, err := me.DefaultSpaceID.Get()
	if err != nil {
		t.Fatal(err)
	}
	var agent contract.Agent
	st.c.Want(201, "POST", "/api/v1/api-agents", map[string]any{"spaceId": space, "name": "Visitors’ guide", "instructions": "Be brief."}).JSON(&agent)
	st.agent = "/api/v1/api-agents/" + agent.ID
	return st
}

// link makes an embed URL; the address is without the origin.
func (st stage) link(t *testing.T, more map[string]any) (made contract.EmbedURLWithLink, path string) {
	t.Helper()
	body := map[string]any{"allowedOrigins": []string{"https://www.example.com"}}
	for k, v := range more {
		body[k] = v
	}
	st.c.Want(201, "POST", st.agent+"/embed-urls", body).JSON(&made)
	return made, strings.TrimPrefix(made.URL, st.h.URL)
}

// say writes a message and sends it with Enter.
func (p *tab) say(text string) {
	p.t.Helper()
	p.see(`!!(document.querySelector("#message") && document.querySelector("button[type=submit]") && document.querySelector(".chat-state").innerText.match(/^(Offline)?$/))`)
	p.do(chromedp.Focus(chromedp.CSS("#message")))
	p.insert(text)
	p.enter()
}

func TestTheChatInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			_, path := st.link(t, map[string]any{"greeting": "Welcome. **Ask me** about the stoa.", "maxMessages": 12, "messagesPerMinute": 60})
			p := open(t, browser, st.h.URL, path, l)
			p.says("Welcome.")
			p.see(`!!(location.hash === "" && document.title === "Visitors’ guide" && document.cookie === "")`)
			p.fits()
			// The font is that of the preview, and only the part that the text needs is loaded.
			p.see(`document.fonts.status === "loaded" && getComputedStyle(document.body).fontFamily.startsWith("Inter")`)
			p.see(`performance.getEntriesByType("resource").filter((r) => r.name.endsWith(".woff2")).length === 1`)
			p.shot("greeting")
			p.say("say: # Prices\n\nA ticket costs **seven** drachmas:\n\n- for one day\n- for *all* halls\n\n| Hall | Hours |\n|---|---|\n| North | dawn to noon |\n\n`code` and [a link](https://example.com/more).")
			p.see(`!!(document.querySelector(".reply table td")?.innerText === "North")`)
			p.see(`!!([...document.querySelectorAll(".reply strong")].some((e) => e.innerText === "seven"))`)
			p.fits()
			p.shot("reply")

			// A stream shows its text as it comes, and can be stopped.
			p.say("slow: 300ms\ntokens: 400")
			p.see(`!!(document.querySelector("button[aria-label='Stop the answer']") && document.querySelectorAll(".turn.assistant")[2]?.innerText.length > 12)`)
			p.shot("streaming")
			p.click("button[aria-label='Stop the answer']")
			p.says("You stopped the answer.")
			p.see(`!!(document.querySelectorAll(".turn.assistant")[2].innerText.length > 12)`)
			p.fits()
			p.shot("stopped")

			p.say("ask: What is your name?")
			p.see(`!!(document.querySelector(".chat-input label")?.innerText === "What is your name?")`)
			p.shot("question")
			p.do(chromedp.Focus(chromedp.CSS("#answer")))
			p.insert("Zeno")
			p.enter()
			p.see(`!!([...document.querySelectorAll(".turn.user")].some((e) => e.innerText.endsWith("Zeno")))`)
			p.see(`!!(!document.querySelector(".chat-input"))`)

			p.say("ask: Which hall? | North | South, with a rather long name that has to wrap somewhere")
			p.says("South, with a rather long name")
			p.fits()
			p.shot("choice")
			p.press("North")
			p.see(`!!([...document.querySelectorAll(".turn.user")].some((e) => e.innerText.endsWith("North")))`)

			p.say(`call: ask_user {"question": "Buy the ticket?", "approval": true}`)
			p.says("Buy the ticket?")
			p.shot("approval")
			p.press("Approve")
			p.see(`!!(!document.querySelector(".chat-input"))`)

			p.say("fail: 400")
			p.see(`!!(document.querySelector(".notice.failed"))`)
			p.fits()
			p.shot("failed answer")

			// A reload goes on with the same chat.
			before := eval[string](p, `document.querySelector(".chat").innerText`)
			p.do(chromedp.Reload())
			p.see(fmt.Sprintf(`document.querySelector(".chat")?.innerText === %q`, before))

			p.say("say: nine")
			p.see(`!!([...document.querySelectorAll(".reply")].some((e) => e.innerText === "nine"))`)
			p.says("2 messages left")
			p.say("say: ten")
			p.says("One message left")
			p.say("say: eleven")
			p.says("This chat has reached its limit.")
			p.fits()
			p.shot("limit")
		})
	}
}

func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// hostile contains content that a reply must not execute.
const hostile = "say: <script>window.hurt = 1</script>\n" +
	"<img src=x onerror=\"window.hurt = 2\">\n\n" +
	"![picture](https://evil.example/pixel.png) ![data](data:image/png;base64,iVBORw0KGgo=)\n\n" +
	"[press](javascript:window.hurt=3) [vb](vbscript:x) [data](data:text/html,<script>parent.hurt=4</script>) [tricky](java\tscript:window.hurt=5)\n\n" +
	"<a href=\"javascript:window.hurt=6\">raw</a> <iframe src=\"https://evil.example/\"></iframe> <form action=\"https://evil.example/\"><input name=q autofocus onfocus=\"window.hurt=7\"></form>\n\n" +
	"<style>body { display: none; background: url(https://evil.example/bg) }</style><link rel=stylesheet href=https://evil.example/x.css><base href=https://evil.example/>\n\n" +
	"<svg onload=\"window.hurt=8\"><use href=\"https://evil.example/#x\"/></svg> <math><mtext><table><mglyph><style><img src=x onerror=window.hurt=9>\n\n" +
	"<https://ok.example/auto> <javascript:window.hurt=10> [ref][1]\n\n[1]: javascript:window.hurt=11\n\n| a | b |\n|---|---|\n| <img src=x onerror=window.hurt=12> | x |\n\n" +
	"<div id=message class=chat-input style=\"position:fixed;inset:0\" onmouseover=\"window.hurt=13\">cover</div>\n\n" +
	"`<script>window.hurt = 14</script>`\n\n```html\n<img src=x onerror=window.hurt=15>\n```\n\nThe end."

func TestAHostileReplyLoadsAndRunsNothing(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	_, path := st.link(t, map[string]any{"greeting": strings.TrimPrefix(hostile, "say: "), "maxMessageChars": 10000})
	p := open(t, browser, st.h.URL, path, looks()[0])
	p.says("The end.")
	p.say(hostile)
	p.see(`!!(document.querySelectorAll(".turn.assistant").length === 2 && document.querySelectorAll(".turn.assistant")[1].innerText.includes("The end."))`)
	// Every link that is left is pressed; nothing but the page opens.
	if got := eval[string](p, `(() => {
		const wrong = [];
		// The page's own: a button that copies beside each block of code, and the reach of
		// what scrolls. Just these, as they are.
		const own = '<button type="button" class="button quiet small copy">Copy</button>';
		for (const frame of document.querySelectorAll("div.reply div.block")) {
			const [pre, button] = frame.children;
			if (frame.children.length === 2 && frame.attributes.length === 1 && pre.tagName === "PRE" && button.outerHTML === own) frame.replaceWith(pre);
		}
		for (const e of document.querySelectorAll("div.reply :is(pre, table)[tabindex='0']")) e.removeAttribute("tabindex");
		for (const e of document.querySelectorAll("div.reply *")) {
			if (!"A P BR STRONG EM DEL CODE PRE UL OL LI BLOCKQUOTE H1 H2 H3 H4 H5 H6 HR TABLE THEAD TBODY TR TH TD".split(" ").includes(e.tagName)) wrong.push(e.tagName);
			for (const a of e.attributes) if (!["href", "start", "target", "rel", "data-host"].includes(a.name)) wrong.push(e.tagName + " " + a.name);
			if (e.tagName === "A") {
				const href = e.getAttribute("href");
				if (href && !/^https?:|^mailto:/.test(href)) wrong.push(href);
				if (href && (e.rel !== "noopener noreferrer nofollow" || e.target !== "_blank")) wrong.push("rel " + e.rel);
				if (!href) e.click();
			}
		}
		return wrong.join(", ");
	})()`); got != "" {
		t.Errorf("it made %s", got)
	}
	if got := eval[string](p, `[...document.querySelectorAll(".reply a[href]")].map((a) => a.getAttribute("href")).join(" ")`); strings.Contains(got, "script:") {
		t.Errorf("links: %s", got)
	}
	if got := eval[int](p, `window.hurt ?? 0`); got != 0 {
		t.Errorf("script %d ran", got)
	}
	if got := eval[string](p, `getComputedStyle(document.body).display`); got == "none" {
		t.Error("a style of the reply's took hold")
	}
	p.shot("hostile")
}

// A link whose text is not its target shows where it leads.
func TestLinksShowTheirHost(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	_, path := st.link(t, map[string]any{"greeting": "[https://bank.example](https://evil.example/pay) [more](https://example.com) <https://ok.example/auto> " +
		"[plain.example](https://plain.example/) [Write](mailto:a@example.com) <b@example.com> [bank.example](https://bank.example@evil.example/) " +
		"[https://b\u0430nk.example/](https://b\u0430nk.example/) [**x**](https://user.example:8443/)"})
	p := open(t, browser, st.h.URL, path, looks()[0])
	p.see(`document.querySelectorAll(".reply a").length === 9`)
	got := eval[string](p, `[...document.querySelectorAll(".reply a")].map((a) => getComputedStyle(a, "::after").content.replace(/^none$|["\\]/g, "")).join("|")`)
	if want := " (evil.example)| (example.com)||| (a@example.com)|| (evil.example)| (xn--bnk-6cd.example)| (user.example:8443)"; got != want {
		t.Errorf("links show\n%s, want\n%s", got, want)
	}
	p.fits()
	p.shot("links")
}

// TestTheEndsOfAChat checks the view of a visitor when a chat cannot continue.
func TestTheEndsOfAChat(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	l := looks()[2]

	made, path := st.link(t, nil)
	p := open(t, browser, st.h.URL, path, l)
	p.say("say: hello")
	p.see(`!!([...document.querySelectorAll(".reply")].some((e) => e.innerText === "hello"))`)
	other := open(t, browser, st.h.URL, path, l, "409") // another visitor, the same link
	other.says("This link was used")
	other.says("Ask the site’s owner for a new one.")
	other.shot("used")

	st.c.Want(204, "DELETE", st.agent+"/embed-urls/"+made.ID, nil)
	p.allow("401")
	p.say("say: more")
	p.says("This chat has ended")
	p.see(`!!(sessionStorage.length === 0)`)
	p.fits()
	p.shot("ended")

	_, path = st.link(t, nil)
	p = open(t, browser, st.h.URL, strings.Split(path, "#")[0]+"#t=wrong", l, "401")
	p.says("This chat cannot be opened")
	p.shot("invalid")

	_, path = st.link(t, map[string]any{"chatExpiresInSeconds": 2})
	p = open(t, browser, st.h.URL, path, l, "401")
	p.says("This chat has ended")

	// A connection that breaks while the answer comes loses nothing of it.
	_, path = st.link(t, nil)
	p = open(t, browser, st.h.URL, path, l)
	p.allow("ERR_INTERNET_DISCONNECTED", "network error", "ERR_NETWORK_CHANGED", "ERR_INCOMPLETE")
	p.say("slow: 60ms\ntokens: 60")
	p.see(`!!(document.querySelector(".turn.assistant")?.innerText.length > 20)`)
	p.offline(true)
	st.h.HTTP.CloseClientConnections()
	p.says("You are offline")
	p.fits()
	p.shot("offline")
	p.offline(false)
	p.see(`!!(!document.querySelector("button[aria-label='Stop the answer']") && !document.querySelector(".notice"))`)
	var chat contract.MessageList
	id := eval[string](p, `JSON.parse(sessionStorage.getItem(sessionStorage.key(0))).chatSessionId`)
	st.c.Want(200, "GET", st.agent+"/sessions/"+id+"/messages", nil).JSON(&chat)
	if got, want := eval[string](p, `document.querySelector(".turn.assistant .reply").innerText`), chat.Data[1].Text; got != strings.TrimSpace(want) {
		t.Errorf("the page shows %q, the answer is %q", got, want)
	}
	// What cannot be sent goes back into the field, and is one message later.
	p.offline(true)
	p.say("say: once")
	p.says("Not sent")
	p.see(`!!(document.querySelector("#message").value === "say: once")`)
	p.offline(false)
	p.do(chromedp.Focus(chromedp.CSS("#message")))
	p.enter()
	p.see(`!!([...document.querySelectorAll(".turn.user")].filter((e) => e.innerText.endsWith("say: once")).length === 1 && [...document.querySelectorAll(".reply")].some((e) => e.innerText === "once"))`)
}

func (p *tab) offline(off bool) {
	p.t.Helper()
	type conditions = network.OverrideNetworkStateParams // the older command, with the same members
	emulate := cdp.Command[conditions, cdp.Empty]{Method: "Network.emulateNetworkConditions"}
	if _, err := chromedp.Call(p.ctx, emulate, conditions{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}); err != nil {
		p.t.Fatal(err)
	}
}
