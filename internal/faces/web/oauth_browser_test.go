package web_test

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/oauth"
	"stoa/internal/base/contract"
	"stoa/internal/base/store"
)

// TestAConnectionIsSignedInTo goes from the console to the authorization server of
// stoa mcp-demo --oauth and back, also with what goes wrong there.
func TestAConnectionIsSignedInTo(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t, onLoopback, "10.0.0.9")
	const name = `<b>Ada & Co</b>`
	if err := st.h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE accounts SET name = $2 WHERE id = $1`, st.h.Account.ID, name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var answers, metadata atomic.Value // func(url.Values), func(map[string]any)
	answers.Store(func(url.Values) {})
	metadata.Store(func(map[string]any) {})
	demo := &oauth.Demo{
		Life: time.Hour, Next: mcp.Demo(false), Redirect: func(v url.Values) { answers.Load().(func(url.Values))(v) },
		Metadata: func(m map[string]any) { metadata.Load().(func(map[string]any))(m) },
	}
	server := httptest.NewServer(demo)
	t.Cleanup(server.Close)
	demo.Origin = server.URL
	p := signIn(t, browser, st.h.URL, st.h.Key, "connections", sizes()[0])
	p.press("Connect a server")
	p.fill("#connection-url", server.URL+"/mcp")
	p.fill("#connection-name", "notes")
	p.choose("#access", "client")
	p.see(`document.querySelector("dialog footer .main").disabled && !!document.querySelector("#access-client-secret")`)
	p.choose("#access", "oauth")
	p.see(`!document.querySelector("#access-client-secret")`)
	p.fill("#access-scopes", "notes  more")
	p.everywhere("connect")
	p.press("Connect it")
	p.says("Sign-in required.")
	p.says("OAuth, not signed in")
	var c contract.Connection
	path := "/api/v1/connections/" + st.connection(t)
	if st.c.Want(200, "GET", path, nil).JSON(&c); c.Auth.Type != "oauth" || strings.Join(c.Auth.Scopes.MustGet(), ",") != "notes,more" {
		t.Errorf("%+v", c.Auth)
	}
	p.everywhere("wants a sign-in")

	// An address that is neither https nor on this machine is text alone.
	metadata.Store(func(m map[string]any) {
		m["authorization_endpoint"], m["token_endpoint"] = "http://10.0.0.9/authorize", "http://10.0.0.9/token"
	})
	p.press("Sign in")
	p.see(`document.querySelector(".address strong")?.textContent === "http://10.0.0.9" && !document.querySelector("dialog a")`)
	p.says("Not opened here.")
	p.everywhere("an address that is not opened")
	p.close()
	metadata.Store(func(map[string]any) {})

	// The address is there to be read, and nothing is open yet.
	p.press("Sign in")
	p.see(`document.querySelector(".address strong")?.textContent === "` + server.URL + `"`)
	p.see(`(() => { const a = document.querySelector("dialog a.main"); return a.href === document.querySelector(".address").textContent && a.href.includes("code_challenge_method=S256") && a.target === "_blank" && a.rel === "noopener noreferrer"; })()`)
	if infos, err := chromedp.Targets(p.ctx); err != nil || strings.Contains(urls(infos), server.URL) {
		t.Errorf("it is open before anybody said so: %s, %v", urls(infos), err)
	}
	p.everywhere("an address")

	// A person who refuses returns to a page that confirms it, and the console shows
	// it.
	answers.Store(func(v url.Values) {
		v.Del("code")
		v.Set("error", "access_denied")
		v.Set("error_description", `<img src=x onerror="document.title='broken'">`)
	})
	back, leave := p.opened(st.h.URL)
	back.says("Not authorized")
	back.see(`document.querySelector("q").textContent === "access_denied: <img src=x onerror=\"document.title='broken'\">" && !document.querySelector("q *") && document.referrer === "" && document.title.startsWith("Not authorized")`)
	back.everywhere("refused")
	leave()
	p.says("Not authorized.")
	p.says("It says: access_denied: <img src=x")
	p.see(`!document.querySelector("dialog .notice img")`)
	p.everywhere("what the server said")

	// An answer to another question does not count, and the time passes.
	p.press("Begin again")
	answers.Store(func(v url.Values) { v.Set("state", "another") })
	back, leave = p.opened(st.h.URL)
	back.says("has expired, was already used, or does not belong to this service")
	leave()
	p.says("Sign in there, and connect on the page that follows.")
	p.everywhere("waiting")
	p.see(`(() => { const now = Date.now; Date.now = () => now() + 660000; document.dispatchEvent(new Event("visibilitychange")); Date.now.back = now; return true; })()`)
	p.says("The sign-in has timed out.")
	p.see(`(Date.now = Date.now.back, true)`)
	p.everywhere("the time is over")

	// The page that people come back to says for whom it is, and its button decides.
	answers.Store(func(url.Values) {})
	p.press("Begin again")
	back, leave = p.opened(st.h.URL)
	back.says("Connect notes?")
	back.says(name)
	back.see(`!document.querySelector("main b b") && document.referrer === ""`)
	back.everywhere("question")
	back.press("Cancel")
	back.says("Nothing was connected")
	back.everywhere("cancelled")
	leave()
	p.says("The person who signed in cancelled the authorization.")
	p.press("Begin again")
	back, leave = p.opened(st.h.URL)
	back.press("Connect")
	back.says("is authorized")
	back.see(`location.search === "" && document.querySelector("main a.button").getAttribute("href").endsWith("connections/` + c.ID + `")`)
	back.everywhere("authorized")
	leave()
	p.says("OAuth, signed in")
	p.says("3 to review")
	p.see(`!document.querySelector("dialog")`)
	p.everywhere("signed in")

	// Signing out asks first.
	p.press("Sign out of it")
	p.everywhere("sign out")
	p.press("Delete the tokens")
	p.says("OAuth, not signed in")
	if st.c.Want(200, "GET", path, nil).JSON(&c); c.Status != "needs_authorization" {
		t.Errorf("%+v", c)
	}

	// A client that was registered needs its secret, which is stored on the way, and no person.
	p.press("Access")
	p.choose("#access", "client")
	p.fill("#access-client", "demo")
	p.fill("#access-scopes", "")
	p.press("New secret")
	p.fill("#secret-origin", server.URL)
	p.fill("#secret-value", "demo-secret")
	p.see(`!document.querySelector("#secret-kind") && !document.querySelector("#secret-user")`)
	p.press("Store it")
	p.see(`document.querySelector("#access-client-secret")?.selectedOptions[0].text === "notes" && document.querySelector("#access-client").value === "demo"`)
	p.everywhere("client")
	p.press("Use it")
	p.says("OAuth, as a client")
	p.says("3 to review")
	if st.c.Want(200, "GET", path, nil).JSON(&c); c.Status != "review_needed" || c.Auth.Grant.MustGet() != "client_credentials" || demo.Asked("client_credentials") != 1 {
		t.Errorf("%+v", c)
	}
}

func urls(infos []*target.Info) string {
	var all []string
	for _, info := range infos {
		all = append(all, info.URL)
	}
	return strings.Join(all, " ")
}

// opened presses the link that opens the authorization server, which sends people on to
// the service at base, and returns the tab. leave goes back to this one.
func (p *tab) opened(base string) (in *tab, leave func()) {
	p.t.Helper()
	before, err := chromedp.Targets(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(chromedp.Click(chromedp.CSS("dialog a.main")))
	in = p.other(base, func(info *target.Info) bool {
		known := slices.ContainsFunc(before, func(old *target.Info) bool { return old.TargetID == info.TargetID })
		return !known && info.Type == "page" && strings.HasPrefix(info.URL, base+"/oauth/callback")
	})
	return in, func() {
		if _, err := chromedp.Call(p.ctx, page.BringToFront, cdp.Empty{}); err != nil {
			p.t.Fatal(err)
		}
	}
}
