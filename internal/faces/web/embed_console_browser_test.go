package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/base/contract"
)

func TestTheConsoleKeepsScriptTags(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			agent := strings.TrimPrefix(st.agent, "/api/v1/api-agents/")
			p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+agent+"/embeds/embed-tags", l)
			p.says("No script tags yet")
			p.press("Create script tag")
			p.type_("#tag-origins", "https://www.example.com")
			p.type_("#tag-accent", "#1a7f5a")
			p.see(`(() => { const b = document.querySelector("button[form=tag-form]").getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight; })()`) // in reach without scrolling
			p.see(`document.querySelector("[type=color]").value === "#1a7f5a"`)
			p.fits()
			p.shot("form")
			p.see(`(document.querySelector("#tag-form button[type=submit], button[form=tag-form]").click(), true)`)
			p.see(`document.querySelector("dialog pre")?.innerText.startsWith("<script src=\"` + st.h.URL + `/embed.js\" data-embed=\"pub_")`)
			var list contract.EmbedTagList
			st.c.Want(200, "GET", st.agent+"/embed-tags", nil).JSON(&list)
			tag := list.Data[0]
			p.see(`document.querySelector("dialog a.button").href === "` + tag.PreviewURL + `"`)
			p.fits()
			p.shot("snippet")
			p.press("Done")

			// A rejected page is shown to the owner.
			path := "/api/v1/embed/tags/" + tag.ID
			for range 2 {
				st.h.ClientWith(t, "").With("Origin", "https://evil.example").Want(403, "GET", path, nil)
			}
			p.press("Disable")
			p.says("disabled")
			p.press("2 requests")
			p.says("Blocked: https://evil.example is not among the allowed origins. 2 times")
			p.fits()
			p.shot("refused")
			p.see(`(document.querySelector("dialog").close(), true)`)
			p.press("Enable")
			p.see(`[...document.querySelectorAll("td .badge")].some((e) => e.innerText === "enabled")`)
			p.press("Edit")
			p.see(`document.querySelector("#tag-accent")?.value === "#1a7f5a"`)
			p.type_("#tag-chats", "0") // 200 and a zero
			p.press("Save")
			p.says("Open preview")
			st.c.Want(200, "GET", st.agent+"/embed-tags/"+tag.ID, nil).JSON(&tag)
			if tag.ChatsPerDay != 2000 || !tag.Enabled {
				t.Errorf("it is %+v", tag)
			}
			p.press("Done")
			p.press("Delete")
			p.press("Delete it")
			p.says("No script tags yet")
		})
	}
}

// TestServerSnippetsMakeLinks runs the code that the console shows, in each language
// that is installed here. Of PHP only the text is looked at.
func TestServerSnippetsMakeLinks(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	agent := strings.TrimPrefix(st.agent, "/api/v1/api-agents/")
	p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+agent+"/embeds/embed-urls", looks()[0])
	p.press("Create link")
	p.type_("#embed-origins", "https://www.example.com")
	p.type_("#embed-greeting", `It's "quoted" \ $HOME ü </script>`)
	p.press("Create the link")
	p.says("Try it now (works once)")
	p.see(`document.querySelector("dialog a.button").innerText === "Open preview" && document.querySelector("dialog a.button").href.includes("#t=")`)
	p.shot("link")
	run := map[string]func(text string) *exec.Cmd{
		"curl":   func(text string) *exec.Cmd { return exec.Command("sh", "-c", text+" --silent") },
		"Node":   func(text string) *exec.Cmd { return exec.Command("node", "--input-type=module", "-e", text) },
		"Python": func(text string) *exec.Cmd { return exec.Command("python3", "-c", text) },
		"Go": func(text string) *exec.Cmd {
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return exec.Command("go", "run", file)
		},
	}
	needs := map[string]string{"curl": "curl", "Node": "node", "Python": "python3", "Go": "go"}
	for _, name := range []string{"curl", "Node", "Python", "Go", "PHP"} {
		p.press(name)
		text := eval[string](p, `document.querySelector("dialog [data-server] pre").textContent`)
		if name == "PHP" {
			for _, part := range []string{"<?php\n", st.h.URL + "/api/v1/api-agents/" + agent + "/embed-urls'", `'greeting' => 'It\'s "quoted" \\ $HOME ü </script>'`, "'allowedOrigins' => ['https://www.example.com']", "getenv('STOA_API_KEY')"} {
				if !strings.Contains(text, part) {
					t.Errorf("PHP has no %q:\n%s", part, text)
				}
			}
			continue
		}
		if _, err := exec.LookPath(needs[name]); err != nil {
			t.Logf("%s is not installed: its code was not run", name)
			continue
		}
		cmd := run[name](text)
		cmd.Env = append(os.Environ(), "STOA_API_KEY="+st.h.Key)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), st.h.URL+"/embed/emu_") {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, text)
		}
	}
	var list contract.EmbedURLList
	st.c.Want(200, "GET", st.agent+"/embed-urls", nil).JSON(&list)
	for _, e := range list.Data {
		if greeting, err := e.Greeting.Get(); err != nil || greeting != `It's "quoted" \ $HOME ü </script>` {
			t.Errorf("a greeting is %q, %v", greeting, err)
		}
	}
	if len(list.Data) < 2 {
		t.Error("no language made a link")
	}
}
