package web_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestAgentsInABrowser(t *testing.T) {
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range looks() {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents", l)
			p.says("Knows the handbook")
			p.fits()
			p.shot("agents")
			p.press("Make an agent")
			p.type_("#agent-name", "Helper")
			p.type_("#agent-instructions", "Answer.")
			p.shot("make an agent")
			p.says("What it is told before every conversation.")
			p.press("Make the agent")
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
			p.says("The search took too long and was ended.")
			p.fits()
			p.shot("search")
			p.press("readme.md")
			p.see(`document.querySelector("dialog textarea")?.value.includes("The handbook is in its folder.")`)
			p.fits()
			p.shot("file")
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

func TestASessionIsFollowedLive(t *testing.T) {
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range looks() {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "agents/"+stubAgent+"/sessions/"+stubSession, l)
			p.says("What about refunds?")
			p.see(`document.querySelector(".turn.assistant .reply")?.innerText === "Money 💶 comes back"`)
			p.says("handbook/refunds.md, lines 3 to 9")
			p.says("live")
			p.says("Home or abroad?")
			p.fits()
			p.shot("session")
			p.press("abroad")
			p.see(`true`)
		})
	}
	stub.mu.Lock()
	defer stub.mu.Unlock()
	if !slices.Contains(stub.asked, "POST /api/v1/api-agents/"+stubAgent+"/sessions/"+stubSession+"/input") {
		t.Error("the choice was never sent")
	}
}

func TestFilesAreUploaded(t *testing.T) {
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
