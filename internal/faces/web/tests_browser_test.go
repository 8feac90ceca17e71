package web_test

import (
	"strings"
	"testing"
)

// TestTestSetsInABrowser writes a test set, runs it beside a draft, and reads the verdicts.
func TestTestSetsInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+strings.TrimPrefix(st.agent, "/api/v1/api-agents/")+"/tests", l)
			p.says("No test sets yet")
			p.press("Create test set")
			p.type_("#test-name", "Returns")
			p.fill(`[id^=test-message-]`, "say: within 30 days")
			p.fill(`[id^=test-facts-]`, "30 days")
			p.press("Add a question")
			p.fill(`fieldset:nth-of-type(2) [id^=test-message-]`, "say: within 14 days")
			p.fill(`fieldset:nth-of-type(2) [id^=test-absent-]`, "14 DAYS")
			p.fits()
			p.shot("form")
			p.press("Create the test set")
			p.says("No runs yet")
			p.press("Run")
			p.choose("#test-against", "draft")
			p.fill("#test-instructions", "Be kind.")
			p.fits()
			p.shot("run form")
			p.click(`button[form="test-run"]`)
			p.says("contains: 14 DAYS")
			p.says("pass")
			p.says("fail")
			p.says("completed")
			p.says("1 of 2")
			p.fits()
			p.shot("results")
			p.press("All runs")
			p.says("Draft")
			p.fits()
			p.shot("runs")
			p.press("Edit")
			p.press("Remove question 2")
			p.press("Save")
			p.says("1 question")
			p.click(`a[href*="/tests/tst_"]`)
			p.says("All runs")
			p.click(`.tested a`)
			p.press("Add to test set")
			p.says("Remove personal data from it")
			p.see(`document.querySelectorAll("#test-set-of option").length === 2`)
			p.choose("#test-set-of", eval[string](p, `[...document.querySelectorAll("#test-set-of option")].find((o) => o.text === "Returns")?.value ?? ""`))
			p.fits()
			p.shot("add")
			p.press("Add the question")
			p.says("It is added")
		})
	}
}
