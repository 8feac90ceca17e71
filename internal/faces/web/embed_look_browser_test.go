package web_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// picture returns a PNG image of one colour.
func picture(t *testing.T) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 32, 32))
	draw.Draw(img, img.Bounds(), image.NewUniform(color.NRGBA{200, 60, 30, 255}), image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const markup = `<b id="markup">Help</b> & <img src=x>`

func TestAChatHasATitleALogoAndStarters(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	var logo contract.EmbedLogo
	st.c.Want(201, "POST", "/api/v1/embed-logos", map[string]any{"content": base64.StdEncoding.EncodeToString(picture(t))}).JSON(&logo)
	tag := st.tag(t, map[string]any{"title": markup, "logo": logo.ID, "starters": []string{"say: from a <i>starter</i>", "What else?"}, "language": "de", "accentColor": "#7a3fb0"})
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := open(t, browser, st.h.URL, strings.TrimPrefix(tag.PreviewURL, st.h.URL), l)
			p.see(inLauncher + `?.querySelector(".launcher")?.getAttribute("aria-label") === ` + "`Chat mit " + markup + "`")
			p.see(`(` + inLauncher + `.querySelector(".launcher").click(), true)`)
			p.see(inLauncher + `.querySelector(".bar p").textContent === ` + "`" + markup + "`")
			p.see(inLauncher + `.querySelector(".face img")?.naturalWidth === 32`)
			inFrame := inLauncher + `.querySelector("iframe")?.contentDocument`
			p.see(inFrame + `?.querySelector("h1")?.textContent === ` + "`" + markup + "` && !" + inFrame + `.querySelector("#markup")`)
			p.see(inFrame + `.querySelector(".chat-head img")?.naturalWidth === 32`)
			p.see(inFrame + `.querySelector(".starters").ariaLabel === "Vorgeschlagene Fragen" && ` + inFrame + `.querySelectorAll(".starters button").length === 2`)
			// Nothing is left of the head that the launcher replaces, and the ring of the focus has the colour of the brand.
			p.see(inFrame + `.querySelector(".chat-head").offsetHeight === 0`)
			p.see(`(() => { const page = ` + inFrame + `; const style = page.defaultView.getComputedStyle(page.documentElement); return style.getPropertyValue("--accent").includes("oklch") && !style.getPropertyValue("--accent").includes("#0d6660"); })()`)
			p.shot("starters")
			p.see(`(` + inFrame + `.querySelector(".starters button").click(), true)`)
			p.see(`[...` + inFrame + `.querySelectorAll(".turn.user")].some((e) => e.textContent.includes("say: from a <i>starter</i>")) && !` + inFrame + `.querySelector(".starters")`)
			p.see(`[...` + inFrame + `.querySelectorAll(".turn.assistant .reply")].some((e) => e.textContent.includes("starter"))`)
		})
	}
	// The chat page loads this picture and no other.
	for want, more := range map[string]map[string]any{"; img-src " + logo.URL + ";": {"logo": logo.ID}, "": nil} {
		_, path := st.link(t, more)
		path, _, _ = strings.Cut(path, "#")
		got := ask(t, st.h.Server.Handler(), "GET", path).Header.Get("Content-Security-Policy")
		if want != "" && !strings.Contains(got, want) || want == "" && strings.Contains(got, "img-src") {
			t.Errorf("the policy is %s", got)
		}
	}
}

func TestTheConsoleShowsTheLookOfAScriptTag(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	file, text := filepath.Join(t.TempDir(), "logo.png"), filepath.Join(t.TempDir(), "logo.svg")
	for name, content := range map[string][]byte{file: picture(t), text: []byte("<svg/>")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent := strings.TrimPrefix(st.agent, "/api/v1/api-agents/")
	p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+agent+"/embeds/embed-tags", looks()[0])
	p.allow("400")
	p.press("Create script tag")
	p.type_("#tag-origins", "https://www.example.com")
	p.see(`document.querySelector(".preview b").innerText === "Visitors’ guide"`)
	p.type_("#embed-title", markup)
	p.type_("#embed-starters", "What is new?\n\nWhy?")
	p.type_("#tag-accent", "#ffd400")
	p.see(`document.querySelector(".preview b").innerText === ` + "`" + markup + "`" + ` && [...document.querySelectorAll(".preview .starter")].map((e) => e.innerText).join("|") === "What is new?|Why?"`)
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#embed-logo"), []string{text}))
	p.says("The content is not a PNG")
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#embed-logo"), []string{file}))
	p.see(`document.querySelector(".preview .face img")?.naturalWidth === 32 && getComputedStyle(document.querySelector(".preview .face")).backgroundColor === "rgb(255, 212, 0)"`)
	p.fits()
	p.shot("look")
	p.see(`(document.querySelector("button[form=tag-form]").click(), true)`)
	p.says("The script tag")
	var list contract.EmbedTagList
	st.c.Want(200, "GET", st.agent+"/embed-tags", nil).JSON(&list)
	tag := list.Data[0]
	if tag.Title.MustGet() != markup || tag.Logo.IsNull() || strings.Join(tag.Starters, "|") != "What is new?|Why?" {
		t.Errorf("it is %+v", tag)
	}
	p.press("Done")
	p.press("Edit")
	p.see(`document.querySelector("#embed-title")?.value === ` + "`" + markup + "`" + ` && document.querySelector(".preview .face img")?.naturalWidth === 32`)
	p.see(`(document.querySelector("[aria-label='Remove the logo']").click(), true)`)
	p.press("Save")
	p.says("The script tag")
	if st.c.Want(200, "GET", st.agent+"/embed-tags/"+tag.ID, nil).JSON(&tag); !tag.Logo.IsNull() {
		t.Errorf("it still has %+v", tag.Logo)
	}
}

// TestLogosAreChosenAgainAndDeletedInTheConsole uses a logo that was uploaded before, and deletes it.
func TestLogosAreChosenAgainAndDeletedInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			st := newStage(t)
			for range 26 { // more than a page
				st.c.Want(201, "POST", "/api/v1/embed-logos", map[string]any{"content": base64.StdEncoding.EncodeToString(picture(t))})
			}
			p := signIn(t, browser, st.h.URL, st.h.Key, "agents/"+strings.TrimPrefix(st.agent, "/api/v1/api-agents/")+"/embeds/embed-tags", l)
			p.press("Create script tag")
			const logos = `[...document.querySelectorAll("[aria-label='Uploaded logos'] button[aria-pressed]")]`
			p.see(logos + `.length === 24`)
			p.press("Show more")
			p.see(logos + `.length === 26 && !document.querySelector(".preview .face img")`)
			p.see(`(` + logos + `[25].click(), document.querySelector(".preview .face img")?.naturalWidth === 32 && ` + logos + `[25].ariaPressed === "true")`)
			p.fits()
			p.shot("logos")
			// A choice of a file that ends without one does not close the form.
			p.see(`(document.querySelector("#embed-logo").dispatchEvent(new Event("cancel", {bubbles: true, cancelable: true})), !!document.querySelector("#embed-logo"))`)
			p.press("Delete")
			p.says("show the first letter of their title instead")
			p.fits()
			p.press("Delete it")
			p.see(`!document.querySelector(".preview .face img") && ` + logos + `.length === 24`)
			var list contract.EmbedLogoList
			if st.c.Want(200, "GET", "/api/v1/embed-logos?limit=100", nil).JSON(&list); len(list.Data) != 25 {
				t.Errorf("%d logos are left", len(list.Data))
			}
		})
	}
}
