package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// A host is a customer's site with a chat in a frame.
type host struct {
	*httptest.Server
	mu    sync.Mutex
	frame string // address
}

// theirPage follows docs/embeds.md for site owners, and records the messages.
const theirPage = `<!doctype html><title>Their page</title><h1>Their page</h1>
<iframe id="f" title="Chat" width="400" height="600" src="%s"></iframe>
<script>
window.heard = [];
const frame = document.getElementById("f");
addEventListener("message", (e) => { if (e.source === frame.contentWindow) heard.push(Object.assign({from: e.origin}, e.data)); });
frame.addEventListener("load", () => frame.contentWindow.postMessage({type: "stoa.init", theme: "dark"}, "*"));
</script>`

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, theirPage, h.frame)
	}))
	t.Cleanup(h.Close)
	return h
}

// origin is the host's under a name that is another site than Stoa's.
func (h *host) origin() string { return strings.Replace(h.URL, "127.0.0.1", "localhost", 1) }

// visitHost opens the host's page in a separate browser context.
func visitHost(t *testing.T, browser context.Context, address string) (p *tab, leave func()) {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancelTime := context.WithTimeout(ctx, 60*time.Second)
	t.Cleanup(cancelTime)
	p = &tab{t: t, ctx: ctx}
	p.do(chromedp.Navigate(address))
	return p, cancel
}

// inside returns the frame of a host's page, which runs in a separate process, and
// records its requests and errors.
func (p *tab) inside(base string) *tab {
	p.t.Helper()
	return p.other(base, func(info *target.Info) bool {
		return info.Type == "iframe" && strings.HasPrefix(info.URL, base+"/embed/")
	})
}

// other waits for a tab or a frame that the test has not opened itself, and watches it.
func (p *tab) other(base string, is func(*target.Info) bool) *tab {
	p.t.Helper()
	var id target.ID
	for id == "" {
		infos, err := chromedp.Targets(p.ctx)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, info := range infos {
			if is(info) {
				id = info.TargetID
			}
		}
	}
	ctx, cancel := chromedp.NewContext(p.ctx, chromedp.WithTargetID(id))
	p.t.Cleanup(cancel)
	in := &tab{t: p.t, ctx: ctx, base: base}
	if err := chromedp.Do(ctx); err != nil {
		p.t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		p.t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(ev any) {
		if sent, ok := ev.(*network.EventRequestWillBeSent); ok && !strings.HasPrefix(sent.Request.URL, base+"/") {
			in.complain("outside request: " + sent.Request.URL)
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		for _, w := range in.wrong {
			p.t.Error(w)
		}
	})
	return in
}

// holds is see for a frame, of which no picture can be taken.
func (p *tab) holds(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(20*time.Second))); err != nil {
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerHTML.slice(0, 3000)"))
		p.t.Fatalf("never came true: %s: %v\n%s", expression, err, text)
	}
}

// submit says something in a frame, where the keyboard of the test does not
// reach.
func (p *tab) submit(text string) {
	p.t.Helper()
	p.holds("!!document.querySelector('#message') && !!document.querySelector('button[type=submit]') && document.querySelector('.chat-state').innerText === ''")
	p.holds(fmt.Sprintf("(() => { const f = document.querySelector('#message'); f.value = %q; f.dispatchEvent(new InputEvent('input', {bubbles: true})); return true; })()", text))
	p.holds("(() => { const b = document.querySelector('button[type=submit]'); if (!b || b.disabled) return false; b.click(); return true; })()")
}

func TestTheChatInAFrame(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	ours, foreign := newHost(t), newHost(t)
	made, _ := st.link(t, map[string]any{"allowedOrigins": []string{"https://www.example.com", ours.origin()}, "messagesPerMinute": 60})
	ours.frame, foreign.frame = made.URL, made.URL

	// A page that is not listed shows nothing of it, and uses up no ticket.
	p, leave := visitHost(t, browser, foreign.origin())
	p.see("document.readyState === 'complete' && heard.length === 0")
	leave()
	// Nor does a page under the listed one's name with another port or host.
	p, leave = visitHost(t, browser, ours.URL)
	p.see("document.readyState === 'complete' && heard.length === 0")
	leave()
	var untouched contract.EmbedURL
	if st.c.Want(200, "GET", st.agent+"/embed-urls/"+made.ID, nil).JSON(&untouched); untouched.Status != "pending" {
		t.Errorf("the link is %s after pages that may not show it", untouched.Status)
	}

	p, _ = visitHost(t, browser, ours.origin())
	p.see(fmt.Sprintf("heard.some((m) => m.type === 'stoa.ready' && m.chatSessionId === %q && m.from === %q)", made.ChatSessionID, st.h.URL))
	in := p.inside(st.h.URL)
	in.holds("document.documentElement.dataset.theme === 'dark'")
	in.submit("slow: 60ms\ntokens: 30")
	in.holds("!!document.querySelector(\".turn.assistant .streaming\")")
	in.holds("document.querySelector('.turn.assistant .reply:not(.streaming)')?.innerText.split(' ').length >= 29")
	p.see("heard.some((m) => m.type === 'stoa.status' && m.status === 'running') && heard.at(-1).type !== 'stoa.error'")
	p.see("heard.some((m) => m.type === 'stoa.resize' && m.height > 100)")

	in.submit("ask: Which? | red | blue")
	in.holds("(() => { const b = [...document.querySelectorAll('button')].find((b) => b.innerText === 'blue'); if (b) b.click(); return !!b; })()")
	in.holds("[...document.querySelectorAll('.turn.user')].some((e) => e.innerText.endsWith('blue')) && !document.querySelector('.chat-input')")
	in.submit("slow: 500ms\ntokens: 300")
	in.holds("!!document.querySelector(\"button[aria-label='Stop the answer']\")")
	in.holds("(document.querySelector(\"button[aria-label='Stop the answer']\").click(), true)")
	in.holds("document.body.innerText.includes('You stopped the answer.')")
	p.see("heard.some((m) => m.type === 'stoa.status' && m.status === 'cancelled')")

	// The theme follows; messages outside of the protocol change nothing.
	p.see("(frame.contentWindow.postMessage({type: 'stoa.theme', theme: 'light'}, '*'), frame.contentWindow.postMessage('x', '*'), frame.contentWindow.postMessage({type: 'stoa.init', theme: 7}, '*'), true)")
	in.holds("document.documentElement.dataset.theme === 'light'")
	if got := eval[string](in, "document.cookie + location.hash"); strings.TrimSpace(got) != "" {
		t.Errorf("the frame has %q", got)
	}

	// A page that is loaded again brings a used ticket, and goes on all the same.
	p.do(chromedp.Reload())
	p.see("heard.some((m) => m.type === 'stoa.ready')")
	p.inside(st.h.URL).holds("document.body.innerText.includes('You stopped the answer.')")
}

func TestTheChatPageHasSecurityHeaders(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	made, path := st.link(t, map[string]any{"theme": "dark", "allowedOrigins": []string{"https://*.example.com", "http://localhost:3000"}})
	path, _, _ = strings.Cut(path, "#")
	r := ask(t, st.h.Server.Handler(), "GET", path, "Accept", "text/html")
	body := bodyOf(t, r)
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
			"frame-ancestors https://*.example.com http://localhost:3000; require-trusted-types-for 'script'; trusted-types dompurify",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "", "Set-Cookie": "",
	}
	for name, value := range want {
		if got := r.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if r.StatusCode != 200 || !strings.Contains(body, `data-theme="dark"`) || strings.Contains(body, "<script>") || strings.Contains(body, "<style") || strings.Contains(body, "style=") {
		t.Errorf("%d: %s", r.StatusCode, body)
	}
	st.c.Want(204, "DELETE", st.agent+"/embed-urls/"+made.ID, nil)
	for path, status := range map[string]int{path: 200, "/embed/" + "emu_00000000000000000000000000": 404, "/embed/x": 404, "/embed/": 404, "/embed/" + made.ChatSessionID: 404} {
		r := ask(t, st.h.Server.Handler(), "GET", path, "Accept", "text/html")
		if r.StatusCode != status {
			t.Errorf("%s answers %d, want %d", path, r.StatusCode, status)
		}
		if policy := r.Header.Get("Content-Security-Policy"); status == 404 && !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s may be framed: %s", path, policy)
		}
	}
	if r := ask(t, st.h.Server.Handler(), "POST", path); r.StatusCode != 405 {
		t.Errorf("a POST answers %d", r.StatusCode)
	}
}
