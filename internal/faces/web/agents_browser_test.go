package web_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

func TestAgentsInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents", l)
			p.says("Knows the handbook")
			p.fits()
			p.shot("agents")
			p.press("Create agent")
			p.type_("#agent-name", "Helper")
			p.type_("#agent-instructions", "Answer.")
			p.shot("make an agent")
			p.says("The system prompt of every session.")
			p.press("Create the agent")
			p.see(`location.hash.includes("agt_")`)
			p.says("waiting for input")
			p.fits()
			p.shot("sessions")

			p.press("Drive")
			p.says("handbook/")
			p.fits()
			p.shot("drive")
			p.do(chromedp.KeyEvent("/"))
			p.see(`document.activeElement.id === "drive-search"`)
			p.do(chromedp.KeyEvent("refunds"))
			p.says("Money back within 14 days.")
			p.says("The search was stopped because it took too long.")
			p.fits()
			p.shot("search")
			p.press("readme.md")
			p.see(`document.querySelector("dialog textarea")?.value.includes("The handbook is in its folder.")`)
			p.fits()
			p.shot("file")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)
			for _, s := range []string{"Partly read", "Not read yet", "No text", "Encrypted", "Damaged", "Too large to read", "Not readable", "Unknown encoding"} {
				p.says(s)
			}
			p.says("Not a PDF")
			p.press("ready.pdf")
			p.see(`document.querySelectorAll("dialog .pdfpage img").length > 0 && document.querySelector("dialog .pdfpage").innerText.includes("Money back within 14 days.")`)
			p.fits()
			p.shot("pages")
			p.press("Text")
			p.see(`document.querySelector("dialog textarea")?.value.includes("[page 1]")`)
			p.says("12 pages")
			p.press("Read again")
			p.says("The file was read again")
			p.fits()
			p.shot("document")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)
			p.press("legacy.csv")
			p.says("The encoding of this text is unknown.")
			p.choose("#encoding", "koi8-r")
			p.fits()
			p.shot("encoding")
			p.press("Read again")
			p.says("The file was read again")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)

			p.press("Settings")
			p.see(`document.querySelector("#instructions")?.value.startsWith("Answer from the files.")`)
			p.type_("#name", " of all")
			p.fits()
			p.shot("settings")
			p.press("Save")
			p.says("Saved")

			p.press("Versions")
			p.says("Go back to it")
			p.fits()
			p.shot("versions")
		})
	}
}

func TestASessionIsATrace(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/sessions/"+stubSession, l)
			p.says("What about refunds?")
			p.see(`document.querySelector(".turn.assistant .reply")?.innerText === "Money 💶 comes back"`)
			p.says("Home or abroad?")
			p.see(`scrollY === 0`) // it waits: nothing moves by itself
			p.see(`document.querySelector(".session-head").getBoundingClientRect().top < innerHeight && !!document.querySelector(".session-head button")`)
			p.see(`[...document.querySelectorAll(".chip")].map((c) => c.innerText).join() === "handbook/refunds.md"`)
			p.fits()
			p.shot("session")
			if l.width < 1100 {
				p.see(`!document.querySelector(".happened").checkVisibility()`)
				p.press("Log")
				p.see(`!document.querySelector(".talk").checkVisibility()`)
			}
			p.says("Model call 1")
			p.see(`(() => { const b = document.querySelector(".trace .span")?.getBoundingClientRect(); return b?.width >= 90 && b.height >= 8 && b.right <= innerWidth && !!document.querySelector(".scale"); })()`) // its bar on the scale of the turn
			p.says("Read 2 files")
			p.see(`!document.querySelector(".happened").innerText.includes("live")`) // it does not run
			p.see(`[...document.querySelectorAll("h1")].map((e) => e.innerText).join() === "Session" && !!document.querySelector(".crumb a[href='#/sessions']")`)
			p.see(`[...document.querySelectorAll(".trace a[href='#/credits?id=` + stubSession + `.1.1']")].some((a) => a.innerText.endsWith("credits"))`)
			p.click(".trace li details summary")
			p.says("I look into <b>the</b> files.") // of the model call, as text
			p.see(`[...document.querySelectorAll(".modelcall .request summary")].map((e) => e.children[0].innerText + ", " + e.lastChild.innerText).join("; ") ===
				"Tools, 96 tokens; Instructions of the agent, 320 tokens; Instructions of the service, 40 tokens; 1 file of the drive, 700 tokens; Turn 1, 32 tokens; Message of this turn · new, 52 tokens"`)
			p.see(`[...document.querySelectorAll(".modelcall .request details[open] pre")].map((e) => e.innerText).join() === "What about refunds?,[It is Friday.]"`)
			p.see(`(() => { const d = [...document.querySelectorAll(".modelcall .request details")][4]; d.open = true; return d.innerText.includes("<b>What</b> can I do?"); })()`) // as text
			p.says("The text of a file that the request contained has been deleted.")
			p.see(`document.querySelector(".modelcall a[href*='try=What+about+refunds'][href*='from=` + stubSession + `']")?.innerText === "Ask the draft the same"`)
			p.fits()
			p.shot("model-call")
			p.click(".trace li details summary")
			p.see(`(() => { const d = [...document.querySelectorAll(".trace details")].find((d) => d.querySelector(":scope > summary")?.innerText.includes("drive_search")); d.open = true; return d.innerText.includes('"query": "refunds"'); })()`)
			p.says("<b>Money</b> back within 14 days.") // as text
			for path, shown := range map[string]string{"logo.png": `!!pre.nextElementSibling?.matches("img.picture[alt='logo.png']") && pre.nextElementSibling.naturalWidth === 1`, "gone.png": `!!pre.nextElementSibling?.innerText.includes("no longer there")`} {
				p.see(`(() => { const d = [...document.querySelectorAll(".trace details")].find((d) => d.querySelector(":scope > pre")?.textContent.includes("` + path + `")); d.open = true; const pre = d.querySelectorAll("pre")[1]; return ` + shown + `; })()`)
			}
			p.fits()
			p.shot("trace")
			// A receipt leads to its model call.
			p.open("agents/" + stubAgent + "/sessions/" + stubSession + "?step=" + stubSession + ".1.1")
			p.do(chromedp.Reload())
			p.says("I look into <b>the</b> files.")
			p.see(`(() => { const r = document.querySelector(".replay input"); r.value = "2"; r.dispatchEvent(new Event("input", {bubbles: true})); return document.body.innerText.includes("event 2 of"); })()`)
			p.see(`document.querySelectorAll(".turn").length === 1`)
			p.see(`(() => { const r = document.querySelector(".replay input"); r.value = r.max; r.dispatchEvent(new Event("input", {bubbles: true})); return document.querySelectorAll(".turn").length === 2; })()`)
			if l.width < 1100 {
				p.press("Conversation")
			}
			p.press("abroad")
			p.press("Compare")
			p.says("No other sessions")
			p.open("agents/" + stubAgent + "/sessions/" + stubSession + "/with/" + stubSession)
			p.see(`document.querySelectorAll(".compare thead a").length === 2 && document.querySelector(".compare").innerText.includes("drive_search")`)
			p.see(`document.querySelectorAll(".compare tbody tr").length === document.querySelectorAll(".compare tr.same").length`) // a session is like itself
			p.fits()
			p.shot("comparison")
		})
	}
	stub.sent("POST /api/v1/api-agents/" + stubAgent + "/sessions/" + stubSession + "/input")
}

func TestARunningSessionIsLive(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.runs = true
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/sessions/"+stubSession, l)
			p.says("What about refunds?")
			p.says("running")
			p.see(`(() => { const b = [...document.querySelectorAll(".session-head button")].find((b) => b.innerText.trim() === "Stop"); const r = b?.getBoundingClientRect(); return !!r && r.top >= 0 && r.bottom <= innerHeight; })()`)
			p.see(`!document.querySelector(".replay")`)
			p.fits()
			p.shot("running")
			if l.width < 1100 {
				p.press("Log")
			}
			p.see(`document.querySelector(".happened .badge.ok")?.innerText === "live"`)
			p.see(`!!document.querySelector(".trace summary") && !document.querySelector(".scale")`) // its end is unknown
			p.press("Stop")
			p.see(`performance.getEntriesByType("resource").some((e) => e.name.endsWith("/cancel"))`)
		})
	}
	stub.sent("POST /api/v1/api-agents/" + stubAgent + "/sessions/" + stubSession + "/cancel")
}

func TestALongTitleFitsAPhone(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.runs, stub.title = true, "Where is the nearest cloakroom and may I bring a folding pram into the east wing?"
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/sessions/"+stubSession, sizes()[2])
	p.says("Where is the nearest cloakroom")
	p.see(`document.scrollingElement.scrollWidth <= innerWidth && innerWidth === 390`)
	p.see(`[...document.querySelectorAll(".session-head button, .session-head a")].every((b) => b.getBoundingClientRect().right <= innerWidth)`)
	p.fits()
	p.shot("session")
}

func TestSessionsOfAllAgentsInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "sessions", l)
			p.says("The turn made 50 model calls")
			p.says("It asks: Home or abroad?")
			p.says("What about refunds?")
			p.see(`[...document.querySelectorAll("main td a")].some((a) => a.innerText === "Helper")`)
			// The list is read again when the window is shown.
			reads := `performance.getEntriesByType("resource").filter((e) => /api\/v1\/sessions(\?|$)/.test(e.name)).length`
			p.see(`(window.before = ` + reads + `, document.dispatchEvent(new Event("visibilitychange")), true)`)
			p.see(reads + ` > before`)
			p.see(`!!document.querySelector(".rail a[href='#/sessions']") && !document.querySelector(".rail a[href='#/sessions'] .count")`) // Tool calls counts what waits
			p.fits()
			p.shot("sessions")
			p.see(`(() => { const s = document.querySelector("#filter-status"); s.value = "failed"; s.dispatchEvent(new Event("change", {bubbles: true})); return true; })()`)
			p.see(`location.hash === "#/sessions/status=failed"`)
			p.says("What about refunds?")
			// A session belongs to the page of all sessions, and leads back to the list as it was.
			current := `document.querySelector(".rail a[aria-current]")?.getAttribute("href")`
			p.click(".clamp")
			p.see(`!!document.querySelector(".session-head") && ` + current + ` === "#/sessions"`)
			p.see(`document.querySelector(".crumb a")?.getAttribute("href") === "#/sessions/status=failed"`)
			p.open("agents/" + stubAgent + "/tasks/" + stubTask)
			p.see(`!!document.querySelector("a[href*='/sessions/" + "` + stubSession + `" + "']") && ` + current + ` === "#/agents"`)
			p.open("agents/" + stubAgent + "/sessions/" + stubSession)
			p.see(`document.querySelector(".crumb a")?.getAttribute("href") === "#/agents/` + stubAgent + `/tasks/` + stubTask + `" && document.querySelector(".crumb").innerText === "Scheduled task · Helper"`)
			p.open("agents/" + stubAgent + "/sessions")
			p.see(`!!document.querySelector("#start")`)
			p.open("agents/" + stubAgent + "/sessions/" + stubSession)
			p.see(`document.querySelector(".crumb")?.innerText === "Helper · Sessions"`)
			p.fits()
		})
	}
	stub.sent("GET /api/v1/sessions")
}

func TestASecretSurvivesEscape(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/embeds/embed-urls", sizes()[0])
	p.press("Create link")
	p.type_("#embed-origins", "https://www.example.com")
	p.press("Create the link")
	p.says("shown once")
	for range 3 { // a browser closes at the second, unless the key is taken
		p.do(chromedp.KeyEvent("\u001b"))
	}
	p.says("shown once")
	p.see(`document.querySelector("dialog").open`)
	p.press("Done")
	p.see(`!document.querySelector("dialog")`)
}

func TestFilesAreUploaded(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/drive", looks()[0])
	p.says("readme.md")
	file := filepath.Join(t.TempDir(), "upload.txt")
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{file}))
	p.says("upload.txt")
	p.says("done")
	stub.mu.Lock()
	defer stub.mu.Unlock()
	if !slices.Contains(stub.asked, "PUT /api/v1/api-agents/"+stubAgent+"/drive/files/content") {
		t.Error("the file was never sent")
	}
}

func TestManyFilesAreMovedAndDeleted(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	large := filepath.Join(t.TempDir(), "large.bin")
	if err := os.WriteFile(large, make([]byte, 10<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/drive", l)
			p.says("readme.md")
			p.do(chromedp.Click(chromedp.CSS("input[aria-label='Select readme.md']")), chromedp.Click(chromedp.CSS("input[aria-label='Select logo.png']")))
			p.says("2 files selected")
			p.fits()
			p.shot("selected")
			p.press("Move")
			p.type_("#move-folder", "old/2025")
			p.do(chromedp.KeyEvent("\r"))
			p.says("2 files moved")
			if sent := stub.latest(); !strings.Contains(sent, `{"op":"move","from":"readme.md","to":"old/2025/readme.md"},{"op":"move","from":"logo.png","to":"old/2025/logo.png"}`) {
				t.Errorf("sent %s", sent)
			}
			p.do(chromedp.Click(chromedp.CSS("input[aria-label='Select readme.md']")))
			p.press("Delete")
			p.press("Delete the files")
			p.says("1 file deleted")
			if sent := stub.latest(); !strings.Contains(sent, `{"operations":[{"op":"delete","path":"readme.md"}]}`) {
				t.Errorf("sent %s", sent)
			}
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{large}))
			p.says("It has 10 MiB; a file can have 10 MiB. It was not sent.")
			stub.mu.Lock()
			defer stub.mu.Unlock()
			if slices.Contains(stub.asked, "PUT /api/v1/api-agents/"+stubAgent+"/drive/files/content") {
				t.Error("the file was sent")
			}
		})
	}
}

func TestASourceOpensItsPage(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/drive/ready.pdf?page=3&from=7&to=9", looks()[0])
	p.see(`document.querySelector("dialog .pdfpage:nth-of-type(3)")?.innerText.includes("Page 3, cited")`)
	p.see(`document.querySelectorAll("dialog .pdfpage:nth-of-type(3) img").length === 1`)
	stub.askedFor("/drive/files/page?", "page=3", "fromLine=7", "toLine=9")
}

func TestAFolderIsUploaded(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	folder := filepath.Join(t.TempDir(), "manual")
	for _, name := range []string{"start.md", "parts/one.md", "parts/deep/two.md", "refused.md", ".git/config"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(t.TempDir(), "manual.zip")
	packed := zipped(t, "manual/", "manual/start.md", "manual/parts/one.md", "manual/parts/deep/two.md", "manual/refused.md", "manual/.git/config", "__MACOSX/manual/start.md")
	if err := os.WriteFile(archive, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.zip")
	packed = zipped(t, "manual/start.md")
	packed[bytes.Index(packed, []byte("of manual/start.md"))] ^= 1
	if err := os.WriteFile(damaged, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/drive/handbook%2F", l)
			p.says("Upload a folder")
			p.allow("400")
			uploaded := func() {
				t.Helper()
				p.says("4 of 4 files, 1 failed")
				p.says("This name is not taken.")
				p.fits()
				p.shot("folder")
				stub.mu.Lock()
				defer stub.mu.Unlock()
				var got []string
				for _, asked := range stub.urls {
					if _, path, ok := strings.Cut(asked, "/drive/files/content?path="); ok && strings.HasPrefix(asked, "PUT ") {
						got = append(got, path)
					}
				}
				slices.Sort(got)
				if want := []string{"handbook%2Fmanual%2Fparts%2Fdeep%2Ftwo.md", "handbook%2Fmanual%2Fparts%2Fone.md", "handbook%2Fmanual%2Frefused.md", "handbook%2Fmanual%2Fstart.md"}; !slices.Equal(got, want) {
					t.Errorf("sent %q, want %q", got, want)
				}
				stub.urls = nil
			}
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[aria-label='Folder to upload']"), []string{folder}))
			uploaded()
			p.press("Dismiss")
			p.see(`!document.querySelector(".uploads")`)
			p.drop(".drop", folder)
			uploaded()
			p.press("Dismiss")
			p.see(`!document.querySelector(".uploads")`)
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[aria-label='Zip to unpack']"), []string{archive}))
			uploaded()
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[aria-label='Zip to unpack']"), []string{filepath.Join(folder, "start.md")}))
			p.says("Not a zip archive")
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[aria-label='Zip to unpack']"), []string{damaged}))
			p.says("The archive is damaged.")
		})
	}
}

// zipped returns an archive of folders and files, the first file of which is stored as
// it is and the others deflated.
func zipped(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	method := zip.Store
	for _, name := range names {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		method = zip.Deflate
		if _, err := f.Write([]byte("The text of " + name + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAFileHasAHistory(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	const files = "/api/v1/api-agents/" + stubAgent + "/drive/files"
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/drive", l)
			p.press("readme.md")
			p.says("Preview")
			p.press("Preview")
			p.see(`document.querySelector("dialog .rendered h1")?.innerText === "Read me"`)
			p.press("Rename or move")
			p.fits()
			p.shot("move")
			p.press("History")
			p.press("Restore")
			p.says("Version 3 is restored")
			p.press("History")
			p.says("now")
			p.fits()
			p.shot("history")
			p.press("Content")
			p.type_("dialog textarea", "more")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`document.querySelector("dialog").open`) // what is not saved stays
			p.press("Discard changes")
			p.press("Delete")
			p.says("Earlier contents are kept")
			p.press("Delete the file")
			p.says("readme.md is deleted")
			p.press("Undo")
			p.says("readme.md is back")
		})
	}
	stub.sent("POST " + files + "/restore")
	stub.sent("GET " + files + "/versions")
}

func TestTheConsoleShowsHowToCallAnAgent(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range sizes() {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/call", l)
			p.see(`document.title === "Helper · Call · Stoa console"`)
			p.says("agent/Helper")
			p.says("claude mcp add --transport http Helper " + srv.URL + "/api/v1/mcp/agents/" + stubAgent)
			p.fits()
			p.shot("call")
			p.press("Python")
			p.says("from openai import OpenAI")
			p.press("Settings")
			p.see(`[...document.querySelectorAll("label.check")].find((l) => l.innerText.includes("Offer it as a model"))?.querySelector("input").checked`)
			p.see(`(() => { const box = [...document.querySelectorAll("label.check")].find((l) => l.innerText.includes("Offer it as a tool"))?.querySelector("input"); if (box?.checked) box.click(); return box && !box.checked; })()`)
			p.press("Save")
			p.says("Saved")
			if sent := stub.latest(); !strings.Contains(sent, `{"expose":["responses"]}`) {
				t.Errorf("what is saved is %s", sent)
			}
		})
	}
}

func TestUnsavedSettingsAreGuarded(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range []look{sizes()[1], sizes()[2]} {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/settings", l)
			p.see(`document.title === "Helper · Settings · Stoa console"`)
			p.type_("#max-steps", "7")
			p.fits()
			p.shot("settings")
			p.press("Drive")
			p.says("Leave without saving?")
			p.shot("leave")
			p.press("Stay")
			p.see(`location.hash.endsWith("/settings") && document.querySelector("#max-steps")?.value === "7"`)
			p.says("Visitors can learn everything in its files by asking.")
			p.choose("#visitor-drive", "none")
			p.says("Visitors learn nothing from its files.")
			check := func(label string) {
				t.Helper()
				p.see(`(() => { const box = [...document.querySelectorAll("label.check")].find((l) => l.innerText.includes("` + label + `"))?.querySelector("input"); if (box && !box.checked) box.click(); return box?.checked; })()`)
			}
			check("Can write to its drive")
			check("A person approves each file before it is written")
			check("Remember each end user between sessions")
			check("A person approves each note before it is written")
			p.see(`(() => { const e = [...document.querySelectorAll("h2")].find((h) => h.innerText === "Memory"); e?.scrollIntoView(); return !!e; })()`)
			p.shot("memory")
			p.choose("#effort", "low")
			p.fill("#temperature", "0.3")
			p.unfold("Reply schema")
			p.fill("#reply-schema", "[]")
			p.says("Not a JSON object.")
			p.fill("#reply-schema", `{"type": "object"}`)
			p.see(`(() => { const e = document.querySelector("#effort"); e?.scrollIntoView(); return !!e; })()`)
			p.shot("answers")
			p.press("Save")
			p.says("Saved")
			if sent := stub.latest(); !strings.Contains(sent, `"visitorDrive":"none"`) || !strings.Contains(sent, `{"type":"drive","name":"drive_write","approval":"always"},{"type":"drive","name":"memory_write","approval":"always"}`) || !strings.Contains(sent, `"memory":"user"`) ||
				!strings.Contains(sent, `"replySchema":{"type":"object"},"reasoning":{"effort":"low"},"temperature":0.3`) {
				t.Errorf("what is saved is %s", sent)
			}
			p.press("Versions")
			p.see(`location.hash.endsWith("/versions")`)
			p.says("Go back to it")
			p.click(".clip summary")
			p.see(`document.querySelector(".diff .new")?.innerText.includes("Say which file you used.")`)
			p.see(`document.querySelector(".clip summary").innerText === "Instructions, Model, Tools, Limits, Drive, Drive in embeds, Time zone, Summarize at, Tables, Memory, Reply schema, Skills, Reasoning, Temperature, Tool search"`)
			for _, part := range []string{"alpha-haiku-4-5", "read_write", "lookup_order", `"maxSteps": 7`, "Europe/Berlin", "65", "true"} {
				p.see(`[...document.querySelectorAll(".clip[open] .diff .new")].some((e) => e.innerText.includes(` + "`" + part + "`" + `))`)
			}
			p.see(`[...document.querySelectorAll(".clip summary")].map((e) => e.innerText).slice(1).join() === "Instructions,First version"`)
			p.fits()
			p.shot("diff")
		})
	}
}

func TestAnUnknownAgentIsSaid(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "agents", sizes()[2])
	p.says("Knows the handbook")
	p.type_("#filter-q", "nothing")
	p.says("No such agents")
	p.allow("404")
	p.do(chromedp.Navigate(srv.URL + "/console#/agents/agt_nope"))
	p.says("There is no such agent")
	p.fits()
}

func TestThePlaygroundIsKept(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "playground", sizes()[0])
	p.press("Explain in three sentences why the sky is blue.")
	p.unfold("More settings")
	p.type_("#temperature", "0.5")
	p.says("temperature 0.5")
	p.click("#question")
	p.enter()
	p.says("14 in, 41 out tokens")
	p.shot("playground")
	p.do(chromedp.Navigate(srv.URL + "/console#/keys"))
	p.says("website")
	p.do(chromedp.Navigate(srv.URL + "/console#/playground"))
	p.says("14 in, 41 out tokens")
	p.see(`document.querySelector("#temperature").value === "0.5" && document.querySelector("#temperature").checkVisibility()`)
	// The last question is asked again from any field.
	p.type_("#instructions", "Be brief.")
	p.do(chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.see(`document.querySelectorAll(".turn.user").length === 1 && document.querySelector(".turn.assistant").innerText.includes("14 in, 41 out tokens")`)
	if body := stub.latest(); !strings.Contains(body, `"instructions":"Be brief."`) {
		t.Errorf("the repeated call is %s", body)
	}
	p.type_("#question", "And why is grass green?")
	p.click("#instructions")
	p.do(chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.see(`document.querySelectorAll(".turn.user").length === 2`)
	p.press("Copy as code")
	p.press("Python")
	p.says("temperature=0.5,")
	p.says(`api_key=os.environ["STOA_API_KEY"]`)
	p.do(chromedp.KeyEvent("\u001b"))
	p.press("Sign out")
	p.see(`sessionStorage.getItem("stoa-playground") === null`)
}

func TestSettingsAreTriedBeforeTheyAreSaved(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			last := func(want string) {
				t.Helper()
				stub.mu.Lock()
				defer stub.mu.Unlock()
				if got := stub.sends[len(stub.sends)-1]; got != want {
					t.Errorf("sent %s, want %s", got, want)
				}
			}
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/settings?from=ses_01k9zqd3m8w5x7y2c4b6n8p0rz", l)
			p.says("Try the settings as they are here")
			// Save is in reach wherever the form is scrolled.
			p.see(`(() => { const b = document.querySelector(".decide [type=submit]").getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight; })()`)
			p.fits()
			p.shot("before")
			p.type_("#instructions", " Be kind.")
			p.type_("#max-steps", "5")
			p.says("saving makes version ")
			p.type_("#try-message", "Refunds?")
			p.press("Send")
			p.see(`document.querySelector(".try .turn.assistant .reply")?.innerText === "Money 💶 comes back"`)
			last(`{"message":"Refunds?","draft":{"instructions":"Answer from the files. Say which file you used. Be kind.","limits":{"maxCreditsMicro":null,"maxSteps":5,"timeoutSeconds":null}}}`)
			p.says("Home or abroad?")
			p.see(`document.querySelector(".try-foot a").getAttribute("href") === "#/agents/` + stubAgent + `/sessions/` + stubSession + `"`)
			// A question of another session is asked again to compare both runs.
			p.see(`!!document.querySelector(".try-foot a[href='#/agents/` + stubAgent + `/sessions/ses_01k9zqd3m8w5x7y2c4b6n8p0rz/with/` + stubSession + `']")`)
			p.fits()
			p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".try").scrollIntoView()`))
			p.shot("tried")
			p.press("abroad")
			p.type_("#instructions", " Or else.")
			p.says("the next message starts a new conversation")

			p.press("Add metadata")
			p.type_("input[aria-label='Name 1']", "team")
			p.type_("input[aria-label='Value 1']", "support")
			p.fits()
			p.shot("metadata")
			p.press("Save")
			p.says("Saved")
			p.see(`(() => { for (const b of document.querySelectorAll(".toast button")) b.click(); return !document.querySelector(".toast"); })()`)
			last(`{"instructions":"Answer from the files. Say which file you used. Be kind. Or else.","limits":{"maxCreditsMicro":null,"maxSteps":5,"timeoutSeconds":null},"metadata":{"team":"support"}}`)
			// The test chat is still there, and the saved settings are no longer a
			// draft.
			p.see(`document.querySelector(".try .turn.assistant .reply")?.innerText === "Money 💶 comes back"`)
			p.type_("#try-message", "And now?")
			p.press("Send")
			p.see(`document.querySelector("#try-message").value === ""`)
			last(`{"message":"And now?"}`)
			p.click("button[aria-label='Remove team']")
			p.press("Save")
			p.says("Saved")
			last(`{"metadata":{"team":null}}`)
		})
	}
	stub.sent("POST /api/v1/api-agents/" + stubAgent + "/sessions/" + stubSession + "/input")
}

func TestATurnSaysThatHalfIsSpent(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	session := contract.Session{}
	st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": "say: hello"}).JSON(&session)
	path := st.agent + "/sessions/" + session.ID
	st.c.Want(200, "GET", path+"?waitSeconds=60", nil).JSON(&session)
	cost := session.Usage.CreditsMicro
	if cost == 0 {
		t.Fatalf("the turn cost nothing: %+v", session)
	}
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			limit := func(micro int64) *tab {
				t.Helper()
				st.c.Want(200, "PATCH", st.agent, map[string]any{"limits": map[string]any{"maxCreditsMicro": micro}})
				p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+strings.TrimPrefix(path, "/api/v1/api-agents/"), l)
				p.says("model call")
				return p
			}
			p := limit(2 * cost)
			p.says("credits that a turn of this agent may spend")
			p.fits()
			p.shot("half")
			p = limit(2*cost + 2)
			loaded := func(end string) string {
				return `performance.getEntriesByType("resource").some((r) => r.name.endsWith("` + end + `"))`
			}
			p.see(loaded("/meta") + " && " + loaded(st.agent) + ` && document.body.innerText.includes("hello")`)
			said, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
				done(document.body.innerText.includes("a turn of this agent may spend")))))`, chromedp.EvalAwaitPromise))
			if err != nil || said {
				t.Errorf("less than half is said to be half: %v, %v", said, err)
			}
		})
	}
}

func TestTheConsoleShowsTheHistoryOfAModelCall(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t, onLoopback)
	st.c.Want(200, "PATCH", st.agent, map[string]any{"description": "Answers.", "expose": []string{"responses"}})
	id := strings.TrimPrefix(st.agent, "/api/v1/api-agents/")
	said := func(role, text string) any { return map[string]any{"role": role, "content": text} }
	r := st.c.Want(200, "POST", "/api/v1/responses", map[string]any{"model": "agent/" + id, "input": []any{said("user", "What is a stoa?"), said("assistant", "A hall of columns."), said("user", "say: Yes")}})
	p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+id+"/sessions/"+r.Header.Get("Stoa-Session"), sizes()[0])
	p.says("2 earlier messages, as the caller reports them")
	p.click(".talk .clip summary")
	p.says("A hall of columns.")
	p.says("by model call")
	p.fits()
	p.shot("history")
}

// TestNewLeavesItsSession holds the replies that read a session back until New was pressed.
func TestNewLeavesItsSession(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t, onLoopback)
	p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+strings.TrimPrefix(st.agent, "/api/v1/api-agents/")+"/settings", sizes()[0])
	p.fill("#try-message", "Hello")
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const real = window.fetch, opened = new Promise((open) => { window.release = open; });
		window.held = 0;
		window.fetch = async (url, init) => {
			if (init?.method !== "GET" || !/\/sessions\/[^/]+$/.test(String(url))) return real(url, init);
			const reply = await real(url, { ...init, signal: undefined });
			window.held++;
			await opened;
			return reply;
		};
	})()`))
	p.press("Send")
	p.see(`window.held > 0`)
	p.press("New")
	p.see(`!document.querySelector(".try").innerText.includes("Open the session")`)
	p.do(chromedp.Evaluate[chromedp.Void](`window.release(); fetch("/api/v1/meta").then((r) => r.json()).then(() => { window.later = true; })`))
	p.see(`window.later`)
	p.fill("#try-message", "Hello again")
	p.press("Send")
	p.says("Open the session")
	var list contract.SessionList
	st.c.Want(200, "GET", st.agent+"/sessions", nil).JSON(&list)
	if len(list.Data) != 2 {
		t.Errorf("%d sessions, want one for each conversation", len(list.Data))
	}
}
