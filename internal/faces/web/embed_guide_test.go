package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// snippet is the code of the guide that carries that name.
func snippet(t *testing.T, name string) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "embeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```\\w+ test=" + name + "\n(.*?)```").FindSubmatch(guide)
	if m == nil {
		t.Fatalf("the guide has no snippet %q", name)
	}
	return string(m[1])
}

// curl runs a snippet of the guide, with the origin of the example's site replaced.
func (st stage) curl(t *testing.T, name, origin string, into any) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl is installed: the guide was not tried")
	}
	script := strings.ReplaceAll(snippet(t, name), "https://www.example.com", origin)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Env = append(os.Environ(), "STOA_BASE_URL="+st.h.URL, "STOA_API_KEY="+st.h.Key, "AGENT_ID="+st.agent[strings.LastIndex(st.agent, "/")+1:])
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
}

// TestTheGuideToEmbedsWorks does what docs/embeds.md says, word for word.
func TestTheGuideToEmbedsWorks(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	var page atomic.Value
	page.Store("")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>A site</title>"+page.Load().(string))
	}))
	defer site.Close()
	origin := strings.Replace(site.URL, "127.0.0.1", "localhost", 1)

	var tag contract.EmbedTag
	st.curl(t, "tag", origin, &tag)
	page.Store(tag.Snippet)
	p, leave := visitHost(t, browser, origin)
	p.holds(`!!document.querySelector("[data-stoa]")?.shadowRoot.querySelector(".launcher")`)
	leave()

	var link contract.EmbedURLWithLink
	st.curl(t, "link", origin, &link)
	page.Store(strings.ReplaceAll(snippet(t, "frame"), "{{url}}", link.URL) +
		`<script>window.heard = []; addEventListener("message", (e) => heard.push(e.data.type))</script>`)
	p, leave = visitHost(t, browser, origin)
	p.holds(`heard.includes("stoa.ready") && heard.includes("stoa.resize")`)
	leave()

	var session contract.EmbedSessionWithToken
	st.curl(t, "session", origin, &session)
	page.Store("<script>" + snippet(t, "page") + "</script>")
	p, _ = visitHost(t, browser, origin)
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(
		`(async () => { let pieces = 0; const text = await ask(%q, %q, %q, "slow: 100ms\ntokens: 12", () => pieces++); return (pieces > 1) + " " + text; })()`,
		st.h.URL, session.Token, session.ChatSessionID), chromedp.EvalAwaitPromise))
	if err != nil || !strings.HasPrefix(got, "true stoa is a quiet place") {
		t.Errorf("the page read %q, %v", got, err)
	}
}
