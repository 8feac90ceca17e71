package web_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// TestFilesAreAttachedInABrowser has a visitor and the owner attach files to messages: the chat
// shows them, the agent reads them, and the owner opens the visitor's file.
func TestFilesAreAttachedInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	note, long := write("note.txt", "The gate is green.\n"), write("a rather long name of a file that has to be cut somewhere on a phone.md", "# Long\n")
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			made, path := st.link(t, map[string]any{"attachments": map[string]any{"enabled": true}, "maxMessages": 20, "messagesPerMinute": 60})
			p := open(t, browser, st.h.URL, path, l)
			p.see(`!!document.querySelector("button[aria-label='Attach files']")`)
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{note, long}))
			p.see(`!!(document.querySelectorAll(".chat-composer .attached li").length === 2 && document.querySelector(".chat-composer .attached").innerText.includes("19 bytes"))`)
			p.fits()
			p.shot("attached")
			p.click("button[aria-label='Remove the file']")
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{note}))
			p.see(`!!(document.querySelectorAll(".chat-composer .attached li").length === 2)`)
			p.say(`call: drive_read {"path":"note.txt","attached":true}`)
			p.says("The gate is green.")
			p.see(`!!(document.querySelector(".turn.user .attached").innerText.includes("note.txt") && !document.querySelector(".chat-composer .attached"))`)
			p.fits()
			p.shot("sent")

			var list contract.SessionAttachmentList
			session := st.agent + "/sessions/" + made.ChatSessionID
			st.c.Want(200, "GET", session+"/attachments", nil).JSON(&list)
			if len(list.Data) != 2 {
				t.Fatalf("the attachments are %+v", list.Data)
			}
			o := signIn(t, browser, st.h.URL, st.c.Key, strings.TrimPrefix(st.agent, "/api/v1/api-")+"/sessions/"+made.ChatSessionID, l)
			o.see(`!!document.querySelector(".turn.user .attached button")`)
			o.do(chromedp.SetUploadFiles(chromedp.CSS(".composer input[type=file]"), []string{note}))
			o.see(`!!(document.querySelector(".composer .attached")?.innerText.includes("19 bytes"))`)
			o.fits()
			o.shot("owner")
		})
	}
}
