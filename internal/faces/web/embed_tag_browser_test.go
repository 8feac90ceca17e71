package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// tag makes a script tag of the stage's agent.
func (st stage) tag(t *testing.T, more map[string]any) (made contract.EmbedTag) {
	t.Helper()
	body := map[string]any{"allowedOrigins": []string{"https://www.example.com"}}
	for k, v := range more {
		body[k] = v
	}
	st.c.Want(201, "POST", st.agent+"/embed-tags", body).JSON(&made)
	return made
}

// A staticSite is a site of files: each page is what its owner wrote, once.
type staticSite struct {
	*httptest.Server
	page string
}

// newStaticSite serves a German page on a separate port, whose content policy allows
// only the service.
func newStaticSite(t *testing.T, service string) *staticSite {
	t.Helper()
	s := &staticSite{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; img-src data:; script-src %s; connect-src %s; frame-src %s; require-trusted-types-for 'script'", service, service, service))
		fmt.Fprint(w, s.page)
	}))
	t.Cleanup(s.Close)
	return s
}

// shows writes the page.
func (s *staticSite) shows(snippet string) {
	s.page = `<!doctype html><html lang="de-AT"><head><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><title>Laden</title></head><body><main><h1>Unser Laden</h1><p>Text</p></main>` + snippet + `</body></html>`
}

// origin is the site's under a name that is another site than the service's.
func (s *staticSite) origin() string { return strings.Replace(s.URL, "127.0.0.1", "localhost", 1) }

// forgive is allow for what may have come already, while the page was loaded.
func (p *tab) forgive(parts ...string) {
	p.allow(parts...)
	p.mu.Lock()
	before := p.wrong
	p.wrong = nil
	p.mu.Unlock()
	for _, what := range before {
		p.complain(what)
	}
}

const inLauncher = `document.querySelector("[data-stoa]")?.shadowRoot`

func TestAScriptTagOnAStaticPage(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	site := newStaticSite(t, st.h.URL)
	tag := st.tag(t, map[string]any{"allowedOrigins": []string{site.origin()}, "greeting": "Welcome.", "accentColor": "#ffd400"})
	site.shows(tag.Snippet)
	for _, l := range ends(looks()) {
		t.Run(l.name, func(t *testing.T) {
			phone := l.width < 480
			p := open(t, browser, site.origin(), "/", l)
			p.forgive(st.h.URL) // the one other host
			p.see(inLauncher + `?.querySelector(".launcher")?.getAttribute("aria-label") === "Chat mit Visitors’ guide"`)
			p.see(inLauncher + `.querySelector(".launcher").getAttribute("aria-expanded") === "false" && !` + inLauncher + `.querySelector("iframe")`)
			p.fits()
			p.shot("launcher")
			p.see(`(` + inLauncher + `.querySelector(".launcher").click(), true)`)
			p.see(inLauncher + `.querySelector(".launcher").getAttribute("aria-expanded") === "true" && !!` + inLauncher + `.querySelector("iframe")`)
			if got := eval[bool](p, `(() => { const r = `+inLauncher+`.querySelector(".panel").getBoundingClientRect(); return r.width === innerWidth && r.height === innerHeight; })()`); got != phone {
				t.Errorf("it takes the whole window: %v", got)
			}
			in := p.inside(st.h.URL)
			in.holds(`document.body.innerText.includes("Welcome.") && document.querySelector("#message").placeholder === "Nachricht schreiben" && document.documentElement.lang === "de"`)
			in.submit("say: answered on a static page")
			in.holds(`[...document.querySelectorAll(".turn.assistant .reply")].some((e) => e.innerText === "answered on a static page")`)
			if got := eval[string](in, `(() => { const s = getComputedStyle(document.querySelector(".turn.user")); return s.backgroundColor + " " + s.color; })()`); got != "rgb(255, 212, 0) rgb(0, 0, 0)" {
				t.Errorf("the accent is %s", got)
			}
			p.fits()
			p.shot("open")

			// A reload goes on with the chat. On a phone it waits to be opened.
			p.do(chromedp.Reload())
			p.see(`!!` + inLauncher + `?.querySelector(".launcher")`)
			if phone {
				p.see(`(` + inLauncher + `.querySelector(".launcher").click(), true)`)
			}
			p.see(`!!` + inLauncher + `.querySelector("iframe")`)
			in = p.inside(st.h.URL)
			in.holds(`[...document.querySelectorAll(".turn.assistant .reply")].some((e) => e.innerText === "answered on a static page")`)

			// Escape closes it, here and inside, and the focus goes back.
			p.see(`(` + inLauncher + `.querySelector(".bar button").focus(), ` + inLauncher + `.querySelector(".bar button").dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true, composed: true})), true)`)
			closed := inLauncher + `.querySelector(".panel").hidden && ` + inLauncher + `.activeElement?.className === "launcher" && ` + inLauncher + `.querySelector(".launcher").getAttribute("aria-expanded") === "false"`
			p.see(closed)
			p.see(`(` + inLauncher + `.querySelector(".launcher").click(), !` + inLauncher + `.querySelector(".panel").hidden)`)
			in.holds(`(document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true})), true)`)
			p.see(closed)
		})
	}
}

func TestAWrongPageShowsNoLauncher(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	site := newStaticSite(t, st.h.URL)
	tag := st.tag(t, nil) // for another page
	site.shows(tag.Snippet)
	p := open(t, browser, site.origin(), "/", looks()[0])
	p.forgive(st.h.URL, "403", "CORS", "Failed to load", "is not shown")
	var now contract.EmbedTag
	for now.RefusedRequests == 0 { // the page asks when it is loaded
		if p.ctx.Err() != nil {
			t.Fatal("the page never asked")
		}
		st.c.Want(200, "GET", st.agent+"/embed-tags/"+tag.ID, nil).JSON(&now)
	}
	if len(now.RefusedOrigins) != 1 || now.RefusedOrigins[0].Origin != site.origin() {
		t.Errorf("its owner sees %+v", now.RefusedOrigins)
	}
	if eval[bool](p, `!!document.querySelector("[data-stoa]")`) {
		t.Error("there is a launcher")
	}
	// A page without a script tag's permission cannot frame the chat either.
	var ticket contract.EmbedTicket
	st.h.ClientWith(t, "").With("Origin", "https://www.example.com").Want(200, "POST", "/api/v1/embed/tags/"+tag.ID+"/tickets", nil).JSON(&ticket)
	path, _, _ := strings.Cut(strings.TrimPrefix(ticket.URL, st.h.URL), "#")
	if got := ask(t, st.h.Server.Handler(), "GET", path).Header.Get("Content-Security-Policy"); !strings.Contains(got, "frame-ancestors https://www.example.com 'self';") {
		t.Errorf("the policy is %s", got)
	}
}

func TestAScriptTagHasAPreview(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	tag := st.tag(t, map[string]any{"language": "fr", "position": "left", "theme": "dark"})
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := open(t, browser, st.h.URL, strings.TrimPrefix(tag.PreviewURL, st.h.URL), l)
			p.see(inLauncher + `?.querySelector(".launcher")?.getAttribute("aria-label") === "Discussion avec Visitors’ guide"`)
			p.fits()
			p.shot("preview")
			if left := eval[float64](p, inLauncher+`.querySelector(".launcher").getBoundingClientRect().left`); left != 20 {
				t.Errorf("the launcher is at %v", left)
			}
			p.see(`(` + inLauncher + `.querySelector(".launcher").click(), true)`)
			p.see(inLauncher + `.querySelector("iframe")?.contentDocument?.querySelector("#message")?.placeholder === "Écrire un message"`)
			p.see(inLauncher + `.querySelector("iframe").contentDocument.documentElement.dataset.theme === "dark"`)
			p.picture("open")
		})
	}
	r := ask(t, st.h.Server.Handler(), "GET", "/embed.js")
	if r.StatusCode != 200 || r.Header.Get("Cache-Control") != "public, max-age=3600" || r.Header.Get("Cross-Origin-Resource-Policy") != "cross-origin" || r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || r.Header.Get("ETag") == "" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
}
