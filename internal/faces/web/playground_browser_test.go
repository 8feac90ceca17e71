package web_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// models returns the models that were asked, in alphabetical order, and forgets them.
func (s *stub) models() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, body := range s.sends {
		_, rest, _ := strings.Cut(body, `"model":"`)
		model, _, _ := strings.Cut(rest, `"`)
		all = append(all, model)
	}
	s.sends = nil
	slices.Sort(all)
	return all
}

func TestTwoModelsAreCompared(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "playground", l)
			p.says("Ask something")
			p.see(`(() => { const s = document.querySelector("#compared"); s.value = "gamma-6-luna"; s.dispatchEvent(new Event("change", { bubbles: true })); return s.value === "gamma-6-luna"; })()`)
			p.type_("#question", "Why is the sky blue?")
			p.enter()
			p.see(`document.querySelectorAll(".sides .turn .meta").length === 2`)
			p.see(`[...document.querySelectorAll(".sides .turn .meta")].every((m, i) => m.innerText.includes(["beta-3.8-flash", "gamma-6-luna"][i]) && m.innerText.includes("14 in, 41 out tokens") && m.innerText.includes("first words after") && m.innerText.includes("credits"))`)
			if got := stub.models(); !slices.Equal(got, []string{"auto", "gamma-6-luna"}) {
				t.Errorf("asked %q", got)
			}
			p.fits()
			p.shot("compared")

			p.press("Raw")
			p.says("Time to first token")
			p.says(`"stream": true`)
			p.fits()
			p.shot("raw")
			p.press("Events")
			p.says(`"type":"response.output_text.delta"`)
			p.press("Response")
			p.says(`"status": "completed"`)
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)

			// A block of code is copied without what surrounds it.
			p.click(".reply .block .copy")
			p.see(`document.querySelector(".reply .block .copy").textContent === "Copied"`)
			p.do(chromedp.Focus(chromedp.CSS("#question")))
			p.paste()
			p.see(`document.querySelector("#question").value === "sky = blue\n"`)

			// An earlier question is changed; the later rounds are removed.
			p.enter()
			p.see(`document.querySelectorAll(".turn.user").length === 2 && document.querySelectorAll(".sides .turn .meta").length === 4`)
			p.press("Edit")
			p.says("Later messages are removed.")
			p.see(`document.activeElement.id === "edited"`)
			p.insert(" Really?")
			p.fits()
			p.shot("edit")
			p.press("Send again")
			p.see(`document.querySelectorAll(".turn.user").length === 1 && document.querySelectorAll(".sides .turn .meta").length === 2`)
			p.see(`document.querySelector(".turn.user").innerText.includes(" Really?")`)
			p.type_("#question", "More?")
			p.enter()
			p.see(`document.querySelectorAll(".sides .turn .meta").length === 4`)
			p.press("Regenerate from here")
			p.see(`document.querySelectorAll(".turn.user").length === 1 && document.querySelectorAll(".sides .turn .meta").length === 2`)
			stub.models()
		})
	}
}

func TestPromptsAreSavedInTheBrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "playground", l)
			p.says("Ask something")
			p.type_("#question", "Why is the sky blue?")
			p.press("Saved prompts")
			p.says("No saved prompts yet.")
			p.type_("#prompt-name", "Sky")
			p.press("Save the prompt")
			p.see(`document.querySelector(".prompts")?.innerText.includes("Why is the sky blue?")`)
			p.fits()
			p.shot("saved")
			p.do(chromedp.KeyEvent("\u001b"))
			p.type_("#question", " And green?")
			p.press("Saved prompts")
			p.press("Load")
			p.see(`!document.querySelector("dialog") && document.querySelector("#question").value === "Why is the sky blue?"`)
			p.press("Saved prompts")
			p.click("button[aria-label='Delete Sky']")
			p.says("No saved prompts yet.")
			p.see(`Object.entries(localStorage).filter(([k]) => k.startsWith("stoa-prompts")).every(([, v]) => v === "[]")`)
		})
	}
}

func TestALinkHoldsAPrompt(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "playground", sizes()[0])
	p.says("Ask something")
	p.see(`[...document.querySelectorAll("button")].find((b) => b.innerText.trim() === "Copy link to this prompt").disabled`)
	p.type_("#instructions", "Be brief – 💶.")
	p.type_("#question", "Why is the sky blue?")
	p.click(".head button:nth-of-type(2)")
	p.says("Link copied.")
	p.see(`(() => { const q = document.querySelector("#question"); q.focus(); q.select(); return true; })()`)
	p.paste()
	link, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.querySelector("#question").value`))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(link)
	if err != nil || u.Path != "/console" || u.RawQuery != "" || !strings.HasPrefix(u.Fragment, "/playground?prompt=") {
		t.Fatalf("the link is %q", link)
	}
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, strings.TrimPrefix(u.Fragment, "/"), l)
			p.see(`document.querySelector("#question")?.value === "Why is the sky blue?" && document.querySelector("#instructions").value === "Be brief – 💶."`)
			p.see(`location.hash === "#/playground"`)
			p.fits()
			p.shot("from a link")
			p.do(chromedp.Navigate(srv.URL + "/console#/playground?prompt=eyJzZXR0aW5ncyI6MX0"))
			p.says("The prompt in this link is incomplete")
			p.see(`document.querySelector("#question").value === "Why is the sky blue?"`)
		})
	}
	if got := stub.models(); len(got) > 0 {
		t.Errorf("a link alone asked %q", got)
	}
}
