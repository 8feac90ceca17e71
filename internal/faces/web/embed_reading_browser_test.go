package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAChatIsEasyToRead checks what a visitor reads and copies.
func TestAChatIsEasyToRead(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			_, path := st.link(t, map[string]any{"messagesPerMinute": 60})
			p := open(t, browser, st.h.URL, path, l)
			// What goes to the clipboard is noted on its way there.
			p.see(`(() => { const write = navigator.clipboard.writeText.bind(navigator.clipboard); navigator.clipboard.writeText = (text) => { window.copied = text; return write(text); }; return true; })()`)
			p.say("say: | Wednesday | Opening | Closing | Entrance | Remarks | Temperature |\n|---|---|---|---|---|---|\n| Thursday | midmorning | afternoon | northeastern | unavailable | comfortable |\n\n```\nfirst := 1 // and a line of code that is much wider than the window of any phone in this test, and of the chat page on a desktop too\n```")
			p.see(`document.querySelector(".reply td")?.innerText === "Thursday" && !!document.querySelector(".turn.assistant time")`)
			// A cell is a line of whole words; the table and the code scroll, and keys reach them.
			p.see(`[...document.querySelectorAll(".reply td, .reply th")].every((e) => e.getBoundingClientRect().height < 45)`)
			p.see(`[...document.querySelectorAll(".reply table, .reply pre")].every((e) => e.tabIndex === 0) && document.querySelector(".reply pre").scrollWidth > document.querySelector(".reply pre").clientWidth`)
			p.see(`/\d\d:\d\d/.test(document.querySelector(".turn.user").dataset.time)`)
			p.press("Copy") // the button of the block
			p.see(`window.copied?.startsWith("first := 1") && !window.copied.includes("Thursday")`)
			p.click("button[aria-label='Copy the answer']")
			p.see(`window.copied.includes("| Thursday |") && window.copied.includes("first := 1")`)
			p.fits()
			p.shot("table")

			p.say("ask: Which hall do you mean?")
			p.see(`document.querySelector(".chat-input label")?.innerText === "Which hall do you mean?" && ![...document.querySelectorAll(".turn.assistant")].some((e) => e.innerText.includes("Which hall"))`)
			p.fits()
			p.shot("question")
			p.do(chromedp.Focus(chromedp.CSS("#answer")))
			p.insert("North")
			p.enter()
			p.see(`!document.querySelector(".chat-input") && [...document.querySelectorAll(".turn.assistant")].filter((e) => e.innerText.includes("Which hall")).length === 1`)

			p.say("slow: 60s\ntokens: 3")
			p.says("Still working…")
			p.shot("slow")
			p.click("button[aria-label='Stop the answer']")
			p.says("You stopped the answer.")
		})
	}
}
