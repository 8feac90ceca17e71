package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stoa/internal/testkit/browsertest"
)

// TestTheConsoleOnARealService performs an owner's first actions in a browser: an agent, a
// session, a schedule that is run immediately, an embed. The pages' own tests are in
// internal/faces/web with a stub.
func TestTheConsoleOnARealService(t *testing.T) {
	t.Parallel()
	url, p := consoleInABrowser(t)
	ctx := p.ctx

	p.do(chromedp.Navigate(url + "/console#/agents"))
	p.says("No agents yet")
	p.press("Create agent")
	p.fill("#agent-name", "Helper")
	p.fill("#agent-instructions", "Answer.")
	p.press("Create the agent")
	p.see(`location.hash.includes("agt_")`)
	p.fill("#start", "say: The stoa is open.")
	p.press("Start")
	p.says("The stoa is open.")
	p.says("completed")

	p.see(`(() => { const agent = [...document.querySelectorAll("main a")].find((a) => a.innerText.trim() === "Helper"); agent?.click(); return !!agent; })()`)
	p.press("Schedules")
	p.says("No scheduled tasks yet")
	p.press("Schedule a task")
	p.fill("#task-name", "Daily report")
	p.fill("#task-message", "say: All is well.")
	p.see(`document.querySelectorAll("dialog .instants li").length === 5`)
	p.press("Schedule the task")
	p.says("No runs yet")
	p.see(`document.querySelectorAll(".facts .instants li").length === 5`)
	p.press("Run now")
	p.see(`[...document.querySelectorAll("td .badge")].some((b) => b.innerText.trim() === "completed")`)
	p.press("Pause")
	p.says("none while it is paused")
	p.press("Change")
	p.see(`!!document.querySelector("#task-message")`)
	p.fill("#task-message", " So it is.")
	p.press("Save")
	p.says("So it is.")
	p.press("Resume")
	p.see(`document.querySelectorAll(".facts .instants li").length === 5`)
	p.shot("task")

	p.press("Embeds")
	p.press("Links")
	p.says("No links yet")
	p.press("Create link")
	p.fill("#embed-origins", "not an origin")
	p.press("Create the link")
	p.see(`!!document.querySelector("#embed-origins[aria-invalid=true]")`)
	p.see(`(() => { const f = document.querySelector("#embed-origins"); f.value = ""; f.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
	// A page elsewhere that only has the console's snippet.
	var element atomic.Value
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>Elsewhere</title><script>addEventListener("message", (e) => { if (e.data.type === "stoa.ready") document.title = "ready"; });</script>%v`, element.Load())
	}))
	t.Cleanup(elsewhere.Close)
	p.fill("#embed-origins", elsewhere.URL)
	p.press("Create the link")
	p.says("/embed/emu_")
	p.shot("link")
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("dialog .code pre").innerText`))
	if err != nil {
		t.Fatal(err)
	}
	element.Store(text)
	p.press("Done")
	p.says("not opened yet")
	embeds, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href`))
	if err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate(elsewhere.URL))
	p.see(`document.title === "ready"`)
	p.do(chromedp.Navigate(embeds))
	p.says("active")
	p.press("Revoke")
	p.press("Revoke it")
	p.says("revoked")

	p.press("Tokens")
	p.says("No tokens yet")
	p.press("Create token")
	p.fill("#embed-origins", elsewhere.URL)
	p.press("Create the token")
	p.says("est_")
	const blocks = `[...document.querySelectorAll("dialog .code pre")].map((b) => b.innerText)`
	told, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](blocks))
	if err != nil || len(told) != 2 {
		t.Fatalf("the token is shown as %q: %v", told, err)
	}
	element.Store(fmt.Sprintf(`<script type="module">const token = %q; const fetch = async (...a) => { const r = await window.fetch(...a); document.title = "sent " + r.status; return r; };
%s</script>`, strings.TrimSpace(told[0]), told[1]))
	p.press("Done")
	p.do(chromedp.Navigate(elsewhere.URL))
	p.see(`document.title === "sent 202"`)

	p.do(chromedp.Navigate(url + "/console#/providers"))
	p.says("all models serve")
	p.shot("providers")
}

// consoleInABrowser starts a service and a browser in which its owner has signed in, or skips the
// test if there is no browser.
func consoleInABrowser(t *testing.T) (url string, p page) {
	t.Helper()
	opts := browsertest.Options(t)
	url, stop, err := sandboxServer(self(t), filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	limited, release := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(release)
	allocated, end := chromedp.NewExecAllocator(limited, opts...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	p = page{t, ctx}
	p.do(chromedp.Navigate(url + "/console"))
	p.says("Sign in with a key")
	p.fill("#key", ownerKey)
	p.press("Sign in")
	p.see(`!!document.querySelector(".rail")`)
	return url, p
}

// A page is the page in the browser.
type page struct {
	t   *testing.T
	ctx context.Context
}

func (p page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// leaving finds the errors of a page that is being left.
var leaving = regexp.MustCompile("context with specified id|Not attached to an active page|Inspected target navigated")

// see waits until an expression in the page is true.
func (p page) see(expression string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(30*time.Second)))
	for err != nil && p.ctx.Err() == nil && leaving.MatchString(err.Error()) {
		_, err = chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(30*time.Second)))
	}
	if err != nil {
		p.shot("failed")
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 1500)`))
		p.t.Fatalf("never came true: %s: %v\n%s", expression, err, text)
	}
}

func (p page) says(text string) {
	p.t.Helper()
	p.see(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// press clicks the button with a text, which may be in the menu of a row.
func (p page) press(text string) {
	p.t.Helper()
	p.see(browsertest.Press(text))
}

func (p page) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// shot saves a picture if STOA_TEST_SCREENSHOTS names a folder.
func (p page) shot(name string) {
	p.t.Helper()
	dir := os.Getenv("STOA_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll("real service "+name, " ", "-")+".png"), picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
