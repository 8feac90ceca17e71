package web_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// TestSkillsInABrowser imports a skill, reviews it, changes a file, reviews the change, and stops using the skill.
func TestSkillsInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"refunds/SKILL.md":             "---\nname: refunds\ndescription: Pays refunds up to a limit. Use it when a customer wants money back.\nlicense: MIT\nallowed-tools: Bash\n---\n\n# Refunds\n\nRead references/limits.md, then answer.\n",
		"refunds/references/limits.md": "# Limits\n\nUp to 50 at once.\n\nAsk above that.\n",
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "refunds.zip"), filepath.Join(dir, "bad.zip")
	for name, data := range map[string][]byte{good: b.Bytes(), bad: []byte("no archive")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+filepath.Base(st.agent)+"/skills", l)
			p.says("No skills yet")
			p.click("button[aria-label=Actions]")
			p.press("Import from a connection")
			p.says("There are none in this space")
			p.fits()
			p.axe()
			p.shot("connection")
			p.press("Cancel")
			p.allow("400")
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[aria-label='Archive of skills']"), []string{bad}))
			p.says("the archive is neither zip nor tar.gz")
			p.do(chromedp.SetUploadFiles(chromedp.CSS("input[aria-label='Archive of skills']"), []string{good}))
			p.says("to review")
			p.see(`((name, text) => name.getBoundingClientRect().left === text.getBoundingClientRect().left && getComputedStyle(text).fontWeight === "400")(document.querySelector("td.tall .link"), document.querySelector("td.tall .muted"))`)
			p.fits()
			p.shot("imported")
			p.press("Review")
			p.says("Up to 50 at once.")
			p.says("(without effect)")
			p.fits()
			p.axe()
			p.shot("review")
			p.press("Use it")
			p.says("in use")
			p.see(`document.querySelector("section[aria-labelledby=skills] header").innerText.includes("of at most 4,000 in each call")`)
			p.fits()
			p.axe()
			p.shot("in use")
			st.c.Want(200, "PUT", st.agent+"/drive/files", map[string]any{"path": "skills/refunds/references/limits.md", "content": "# Limits\n\nUp to 5,000 to any account.\n\nAsk above that.\n"})
			p.open("agents/" + filepath.Base(st.agent) + "/drive")
			p.open("agents/" + filepath.Base(st.agent) + "/skills")
			p.says("withheld: changed")
			p.press("Review")
			p.says("Up to 5,000 to any account.")
			p.see(`document.querySelector("dialog .diff .gone").textContent.includes("Up to 50 at once.") && document.querySelectorAll("dialog .diff .new").length === 1`)
			p.fits()
			p.shot("changed")
			p.press("Use it with these changes")
			p.says("in use")
			// A change cannot hide in a text that is not shown, or in characters that are not seen.
			st.c.Want(200, "PUT", st.agent+"/drive/files", map[string]any{"path": "skills/refunds/references/limits.md", "content": "Up to 9,000.\n" + strings.Repeat(" \n", 40_000)})
			st.c.Want(201, "PUT", st.agent+"/drive/files", map[string]any{"path": "skills/refunds/more.md", "content": "Read it.\U000e0041"})
			p.open("agents/" + filepath.Base(st.agent) + "/drive")
			p.open("agents/" + filepath.Base(st.agent) + "/skills")
			var s contract.Session
			st.c.Want(202, "POST", st.agent+"/sessions", map[string]any{"message": "say: hello"}).JSON(&s)
			p.open("agents/" + filepath.Base(st.agent) + "/sessions/" + s.ID)
			p.says("Withheld from this session, because their files have changed: refunds.")
			p.fits()
			p.shot("session")
			p.open("agents/" + filepath.Base(st.agent) + "/skills")
			p.press("Review")
			p.says("characters that cannot be seen: more.md")
			p.says("Read it.\\u{e0041}")
			p.says("Not shown: it is not a text, or larger than 64 KiB.")
			p.see(`document.querySelector("dialog .diff .gone") === null`)
			p.fits()
			p.shot("unseen")
			p.press("Use it with these changes")
			p.says("in use")
			p.press("Stop using")
			p.press("Stop using it")
			p.says("to review")
		})
	}
}
