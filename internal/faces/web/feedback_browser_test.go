package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// TestAnAnswerIsRated has a visitor rate an answer and say why; the owner sees it in the session and in the list, and rates it too.
func TestAnAnswerIsRated(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			made, path := st.link(t, map[string]any{"externalUserId": "ada"})
			p := open(t, browser, st.h.URL, path, l)
			p.see(`!!document.querySelector("#message")`)
			p.say("say: A ticket costs seven drachmas.")
			p.see(`!!document.querySelector(".turn.assistant button[aria-label='Bad answer']")`)
			p.click("button[aria-label='Bad answer']")
			p.see(`document.querySelector("button[aria-label='Bad answer']").getAttribute("aria-pressed") === "true" && document.querySelector("button[aria-label='Good answer']").getAttribute("aria-pressed") === "false"`)
			p.press("Say why")
			p.see(`document.activeElement?.getAttribute("aria-label") === "Your comment"`)
			p.insert("=That was last year. <b>x</b>")
			p.fits()
			p.shot("why")
			p.do(chromedp.Click(chromedp.CSS(".rating button")))
			p.says("Change the comment")
			p.fits()
			p.shot("rated")
			p.do(chromedp.Reload())
			p.see(`document.querySelector("button[aria-label='Bad answer']")?.getAttribute("aria-pressed") === "true"`)

			c := signIn(t, browser, st.h.URL, st.h.Key, strings.TrimPrefix(st.agent, "/api/v1/api-")+"/sessions/"+made.ChatSessionID, l)
			c.says("Visitor: bad · =That was last year. <b>x</b>") // as text
			c.do(chromedp.Focus(chromedp.CSS("button[aria-label='Good answer']")))
			c.enter()
			c.see(`document.querySelector("button[aria-label='Good answer']")?.getAttribute("aria-pressed") === "true"`)
			c.fits()
			c.shot("session")
			c.open("feedback")
			c.see(`[...document.querySelectorAll(".badge")].map((e) => e.innerText).filter((w) => w === "good" || w === "bad").join() === "good,bad"`)
			c.says("=That was last year. <b>x</b>")
			c.fits()
			c.shot("list")
			c.open("feedback?rating=up")
			c.see(`[...document.querySelectorAll(".badge")].map((e) => e.innerText).filter((w) => w === "good" || w === "bad").join() === "good"`)

			// A click on the same thumb removes the rating.
			p.click("button[aria-label='Bad answer']")
			p.see(`document.querySelector("button[aria-label='Bad answer']").getAttribute("aria-pressed") === "false" && !document.querySelector(".rating")`)
			var left contract.FeedbackList
			if st.c.Want(200, "GET", "/api/v1/feedback?by=visitor", nil).JSON(&left); len(left.Data) != 0 {
				t.Errorf("the visitor's ratings are %+v", left.Data)
			}
		})
	}
}
