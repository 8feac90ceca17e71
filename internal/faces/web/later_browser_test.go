package web_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// sent fails the test unless the pages made that call.
func (s *stub) sent(call string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.asked, call) {
		s.t.Errorf("%s was never sent", call)
	}
}

func TestScheduledTasksInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	const tasks = "/api/v1/api-agents/" + stubAgent + "/scheduled-tasks"
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/tasks", l)
			p.says("Daily report")
			p.says("paused after failures")
			p.fits()
			p.shot("tasks")
			p.press("Schedule a task")
			p.type_("#task-name", "Daily report")
			p.type_("#task-message", "Write the report of the day.")
			p.says("Mon, 23 Nov 2026, 09:00 +01:00")
			p.says("clocks go forward")
			p.fits()
			p.shot("schedule a task")
			p.allow("422")
			p.choose("#schedule-repeats", "own")
			p.type_("#schedule-expression", " nonsense")
			p.says("The expression has one field")
			p.do(chromedp.SetValue(chromedp.CSS("#schedule-type"), "interval"))
			p.see(`(() => { document.querySelector("#schedule-type").dispatchEvent(new Event("change", {bubbles: true})); return !!document.querySelector("#schedule-amount"); })()`)
			p.says("It will run")
			p.press("Schedule the task")
			p.see(`location.hash.includes("tsk_")`)
			p.says("0 9 * * MON-FRI")
			p.says("and 39 more instants")
			p.says("the previous run was still active")
			// A run that failed says why, how long it took and what it cost.
			p.see(`[...document.querySelectorAll("tr")].some((r) => r.querySelector("a[href$='/sessions/` + stubSession + `']") && ["The model's provider failed.", "4.0 s", "0.0042"].every((part) => r.textContent.includes(part)))`)
			p.fits()
			p.shot("task")
			p.press("Run now")
			p.says("It runs")
			p.press("Pause")
			p.says("It is paused")
			p.press("Change")
			p.see(`document.querySelector("#task-message")?.value.startsWith("Write the report")`)
			p.press("Save")
			p.says("Saved")
		})
	}
	stub.sent("POST " + tasks)
	stub.sent("POST " + tasks + "/" + stubTask + "/run")
	stub.sent("POST " + tasks + "/" + stubTask + "/pause")
	stub.sent("PATCH " + tasks + "/" + stubTask)
}

func TestSchedulesAreSaidInWords(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/tasks", l)
			p.see(`document.querySelector("td .when")?.innerText === "Mon–Fri 09:00 Europe/Berlin"`)
			p.see(`document.querySelector("td .when").title === "0 9 * * MON-FRI Europe/Berlin"`)
			if _, err := chromedp.Call(p.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"}); err != nil {
				t.Fatal(err)
			}
			p.press("Schedule a task")
			p.see(`document.querySelector("#schedule-zone").value === "Asia/Tokyo"`)
			// The fields express the usual schedules.
			set := func(id, value string) {
				p.see(fmt.Sprintf(`(() => { const e = document.querySelector(%q); if (!e) return false; e.value = %q; for (const type of ["input", "change"]) e.dispatchEvent(new Event(type, {bubbles: true})); return true; })()`, id, value))
			}
			reads := func(words string) {
				p.see(fmt.Sprintf(`document.querySelector("dialog .when")?.innerText === %q`, words+" Asia/Tokyo"))
			}
			reads("Mon–Fri 09:00")
			set("#schedule-time", "17:30")
			reads("Mon–Fri 17:30")
			set("#schedule-repeats", "week")
			set("#schedule-weekday", "FRI")
			reads("Fri 17:30")
			set("#schedule-repeats", "month")
			set("#schedule-day", "31")
			p.says("Shorter months are skipped.")
			reads("day 31 of each month 17:30")
			p.fits()
			p.shot("fields of a schedule")
			set("#schedule-repeats", "hour")
			set("#schedule-minute", "7")
			reads("every hour at :07")
			set("#schedule-repeats", "day")
			set("#schedule-time", "08:05")
			reads("every day 08:05")
			set("#schedule-repeats", "own")
			p.see(`document.querySelector("#schedule-expression").value === "5 8 * * *"`)
			for expression, words := range map[string]string{
				"0 9 * * MON-FRI":   "Mon–Fri 09:00",
				"30 7,19 * * *":     "every day 07:30, 19:30",
				"5 4 * * 0":         "Sun 04:05",
				"0 8 * * mon,Thu":   "Mon, Thu 08:00",
				"0 8 * * 5-7":       "Fri–Sun 08:00",
				"* * * * *":         "every minute",
				"*/15 * * * *":      "every 15 minutes",
				"0 * * * *":         "every hour",
				"7 * * * *":         "every hour at :07",
				"0 */6 * * *":       "every 6 hours",
				"0 9 1 * *":         "day 1 of each month 09:00",
				"0 0 25 12 *":       "25 Dec 00:00",
				"@daily":            "every day 00:00",
				"*/7 * * * *":       "*/7 * * * *", // not at an interval
				"0 0 13 * FRI":      "0 0 13 * FRI",
				"0 8-18/2 * * 1":    "0 8-18/2 * * 1",
				"0 9 * * MON-FRI/2": "0 9 * * MON-FRI/2",
				"0 9 * * 9":         "0 9 * * 9",
			} {
				p.see(fmt.Sprintf(`(() => { const e = document.querySelector("#schedule-expression"); e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`, expression))
				p.see(fmt.Sprintf(`document.querySelector("dialog .when")?.innerText === %q`, words+" Asia/Tokyo"))
			}
			p.fits()
			p.shot("words")
		})
	}
}

func TestEmbedsInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	const embeds = "/api/v1/api-agents/" + stubAgent + "/embed-"
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/embeds/embed-urls", l)
			p.says("4 of 50 messages")
			p.fits()
			p.shot("embeds")
			p.press("3 requests")
			p.says("https://elsewhere.example")
			p.fits()
			p.shot("refused")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)
			p.press("Create link")
			p.type_("#embed-origins", "https://www.example.com")
			p.fits()
			p.shot("make a link")
			p.press("Create the link")
			p.says(`const chat = "https://stoa.example.com/embed/`)
			p.says("shown once")
			p.fits()
			p.shot("link")
			p.press("Done")
			p.press("Revoke")
			p.says("The conversation is kept")
			p.press("Revoke it")
			p.says("It is revoked")
			p.press("Tokens")
			p.says("No tokens yet")
			p.press("Create token")
			p.type_("#embed-origins", "https://www.example.com")
			p.press("Create the token")
			p.says("est_dGhl")
		})
	}
	stub.sent("POST " + embeds + "urls")
	stub.sent("DELETE " + embeds + "urls/" + stubEmbed)
	stub.sent("POST " + embeds + "sessions")
}

func TestHooksInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	const hooks = "/api/v1/api-agents/" + stubAgent + "/hooks"
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/hooks", l)
			p.says("200 turns a day")
			p.fits()
			p.shot("hooks")
			p.press("Slack")
			p.says("https://stoa.example.com/api/v1/hooks/" + stubSigned)
			p.says(`-H "X-Slack-Signature: v0=$sig"`)
			p.fits()
			p.shot("address")
			p.press("Done")
			p.press("Create hook")
			p.type_("#hook-name", "Issues")
			p.fits()
			p.shot("create a hook")
			p.press("Create the hook")
			p.says("This is shown once.")
			p.says("whsec_MfKQ9r8")
			p.press("Done")
			p.says("Send a test")
			p.press("Done")
			p.click(`button[aria-label="Actions for Slack"]`)
			p.press("New secret")
			p.type_("#hook-secret", "8f742231b10e8888abcd99yyyzzz85a5")
			p.press("Replace the secret")
			p.says("This is shown once.")
			p.press("Done")
			p.press("Done")
			p.click(`button[aria-label="Actions for Slack"]`)
			p.press("Disable")
			p.says("It is disabled")
			p.click(`button[aria-label="Actions for Slack"]`)
			p.press("Delete")
			p.says("Its sessions are kept")
			p.press("Delete it")
			p.says("It is deleted")
		})
	}
	stub.sent("POST " + hooks)
	stub.sent("POST " + hooks + "/" + stubSigned + "/rotate-secret")
	stub.sent("PATCH " + hooks + "/" + stubSigned)
	stub.sent("DELETE " + hooks + "/" + stubSigned)
}

func TestProvidersInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "providers", l)
			p.says("claude-opus-4-8")
			p.says("circuit open")
			p.says("all models serve")
			p.says("2 of 3 models not serving")
			p.says("The last 24 hours, without steps of agents")
			p.fits()
			p.shot("providers")
			p.press("Refresh")
			p.says("claude-opus-4-8")
		})
	}
}

func TestASessionIsDownloadedAndItsUserErased(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/sessions/"+stubSession, looks()[2])
	p.says("What about refunds?")
	p.fits()
	p.click(`button[aria-label="Download the session"]`)
	p.says("Markdown, to read")
	p.fits()
	p.shot("download")
	p.press("Markdown, to read")
	p.see(`!document.querySelector("dialog")`)
	stub.sent("GET /api/v1/api-agents/" + stubAgent + "/sessions/" + stubSession + "/export")
	p.press("Erase this user")
	p.says("Receipts stay under a random id")
	p.fits()
	p.shot("erase")
	p.press("Erase the user")
	p.says("The end user is being erased")
	stub.sent("DELETE /api/v1/end-users/user-1042")
}

func TestPagesShowErrorsAndEmptyLists(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, path := range []string{"agents/" + stubAgent + "/tasks", "agents/" + stubAgent + "/tasks/" + stubTask, "agents/" + stubAgent + "/hooks", "agents/" + stubAgent + "/embeds/embed-urls", "providers"} {
		t.Run(path, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "keys", looks()[2])
			p.says("website")
			p.allow("ERR_", "502")
			stub.cut.Store(true)
			defer stub.cut.Store(false)
			p.do(chromedp.Navigate(srv.URL + "/console#/" + path))
			p.says("Not connected")
			p.fits()
			stub.cut.Store(false)
			p.see(`(() => { for (const b of document.querySelectorAll("button")) if (b.innerText.trim() === "Try again") b.click(); return !document.body.innerText.includes("Not connected"); })()`)
		})
	}
	stub.mu.Lock()
	stub.bare = true
	stub.mu.Unlock()
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/tasks", looks()[3])
	p.says("No scheduled tasks yet")
	p.fits()
	p.shot("no tasks")
	p.press("Embeds")
	p.says("No script tags yet")
	p.press("Links")
	p.says("No links yet")
	p.fits()
	p.do(chromedp.Navigate(srv.URL + "/console#/providers"))
	p.says("not used yet")
}

func TestTabsAreVisibleOnAPhone(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	const seen = `(() => { const row = document.querySelector(%[1]q).getBoundingClientRect(), part = document.querySelector(%[2]q)?.getBoundingClientRect(); return !!part && part.left >= row.left && part.right <= row.right; })()`
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/versions", looks()[2])
	p.says("Go back to it")
	p.see(fmt.Sprintf(seen, ".tabs", ".tab[aria-selected=true]"))
	p.do(chromedp.Navigate(srv.URL + "/console#/providers"))
	p.says("claude-opus-4-8")
	p.see(fmt.Sprintf(seen, ".rail nav", ".rail nav a[aria-current]"))
	p.shot("in sight")
}

func TestATaskIsScheduledByKeyboard(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/tasks", looks()[0])
	p.says("Daily report")
	p.see(`(() => { const b = [...document.querySelectorAll("button")].find((b) => b.innerText.trim() === "Schedule a task"); b?.focus(); return document.activeElement === b; })()`)
	p.enter()
	p.see(`document.activeElement.id === "task-name"`)
	p.insert("Daily report")
	p.do(chromedp.KeyEvent("\t"))
	p.see(`document.activeElement.id === "task-message"`)
	p.insert("Write the report of the day.")
	p.do(chromedp.KeyEvent("\t"))
	p.see(`document.activeElement.id === "schedule-type"`)
	p.do(chromedp.KeyEvent("\t"))
	p.see(`document.activeElement.id === "schedule-repeats"`)
	p.do(chromedp.KeyEvent("\t"))
	p.see(`document.activeElement.id === "schedule-time"`)
	p.says("Mon, 23 Nov 2026, 09:00 +01:00")
	p.enter()
	p.see(`location.hash.includes("tsk_")`)
	stub.sent("POST /api/v1/api-agents/" + stubAgent + "/scheduled-tasks")
}
