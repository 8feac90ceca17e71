package web_test

import "testing"

// Rows show what they spent by day, all from one report.
func TestRowsShowWhatTheySpent(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	st.c.Want(200, "POST", "/api/v1/responses", map[string]any{"model": "auto", "input": "say: hi"})
	st.c.Want(200, "GET", st.agent+"/sessions/"+st.begun(t)+"?waitSeconds=30", nil)
	p := signIn(t, browser, st.h.URL, st.h.Key, "keys", looks()[0])
	p.see(`(window.reports = () => performance.getEntriesByType("resource").filter((e) => e.name.includes("/usage?") && e.name.includes("groupBy=day")).length, true)`)
	const drawn = `document.querySelector("td.num .spark path")?.getAttribute("d").startsWith("M59.0 16v-15") && /0[.]\d+/.test(document.querySelector("td.num:has(.spark)").innerText)`
	p.see(drawn)
	if n := eval[int](p, `reports()`); n != 1 {
		t.Errorf("the page read %d reports", n)
	}
	p.fits()
	p.shot("keys")
	p = signIn(t, browser, st.h.URL, st.h.Key, "agents", looks()[0])
	p.see(drawn)
	p.fits()
	p.shot("agents")
	p = signIn(t, browser, st.h.URL, st.h.Key, "accounts", looks()[0])
	p.see(drawn)
	p.fits()
	p.shot("accounts")
	p = signIn(t, browser, st.h.URL, st.h.Key, "usage", looks()[0])
	p.see(`!!document.querySelector("td.num .spark path")?.getAttribute("d")`)
}

// begun returns the id of a new session of the stage's agent.
func (st stage) begun(t *testing.T) string {
	t.Helper()
	var made struct{ ID string }
	st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": "say: hello", "mode": "once"}).JSON(&made)
	return made.ID
}
