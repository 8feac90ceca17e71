package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// latest returns the latest body that the console sent.
func (s *stub) latest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sends[len(s.sends)-1]
}

// extended is [serve] for a service with extensions.
func extended(t *testing.T, names string) (*stub, string) {
	t.Helper()
	stub, srv := serve(t)
	stub.extensions = `"extensions":[` + names + `],`
	return stub, srv.URL
}

func TestThePlaygroundCallsTools(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, url := extended(t, `"tools","formats"`)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, url, goodKey, "playground", l)
			p.says("Ask something")
			p.see(`(() => { const d = document.querySelector("details.choices"); d.open = true; return true; })()`)
			p.unfold("More settings")
			p.type_("#tools", "[")
			p.says("Invalid JSON")
			p.fits()
			p.see(`(() => { const t = document.querySelector("#tools"); t.value = ""; t.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`)
			p.press("Fill in an example")
			p.see(`document.querySelector("#tools").value.includes('"weather"')`)
			// Another tool, by the form: a function without effects or approval.
			p.press("Add a tool")
			p.type_("#tool-name", "clock")
			p.type_("#tool-description", "The time in a city.")
			p.press("Add a parameter")
			p.type_("#parameter-0", "city")
			p.fits()
			p.shot("tool")
			p.see(`!document.querySelector("#tool-effects") && (document.querySelector("button[form=tool]").click(), true)`)
			p.see(`(() => { const all = JSON.parse(document.querySelector("#tools").value); return all.length === 2 && all[1].type === "function" && all[1].parameters.properties.city.type === "string" && !("effects" in all[1]); })()`)
			p.see(`([...document.querySelectorAll(".picked > li")].at(-1).querySelector("[role=menuitem].danger").click(), true)`)
			p.see(`JSON.parse(document.querySelector("#tools").value).length === 1`)
			p.type_("#question", "The weather of Oslo?")
			p.enter()
			p.see(`document.querySelector(".calls pre")?.innerText.includes('"city": "Oslo"')`)
			p.says("Result of weather")
			p.fits()
			p.shot("a call")
			p.type_("#result-call_0", "4 °C")
			p.press("Send the result")
			p.says("Because air scatters")
			p.says("weather gave 4 °C")
			p.fits()
			p.shot("a result")
			body := stub.latest()
			for _, want := range []string{
				`{"role":"user","content":"The weather of Oslo?"}`,
				`{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"stoa1.AAAA"}`,
				`"call_id":"call_0","name":"weather"`,
				`{"type":"function_call_output","call_id":"call_0","output":"4 °C"}`,
				`"tools":[{"type":"function","name":"weather"`,
			} {
				if !strings.Contains(body, want) {
					t.Errorf("the call lacks %s:\n%s", want, body)
				}
			}
		})
	}
}

func TestThePlaygroundTriesASchema(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, url := extended(t, `"formats"`)
	p := signIn(t, browser, url, goodKey, "playground", sizes()[0])
	p.says("Ask something")
	p.see(`!document.querySelector("#tools")`)
	p.unfold("More settings")
	p.press("Fill in an example")
	p.see(`document.querySelector("#schema").value.includes('"tags"')`)
	p.type_("#question", "Why is the sky blue?")
	p.enter()
	p.says("Because air scatters")
	if body := stub.latest(); !strings.Contains(body, `"text":{"format":{"type":"json_schema","name":"reply","schema":{"type":"object"`) {
		t.Errorf("sent %s", body)
	}
}

func TestThePlaygroundTakesImages(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, url := extended(t, `"images"`)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, url, goodKey, "playground", l)
			p.says("Ask something")
			// Drops an image, and a file that is not an image.
			p.see(`(() => {
				const png = Uint8Array.from(atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="), (c) => c.charCodeAt(0));
				const data = new DataTransfer();
				data.items.add(new File([png], "dot.png", { type: "image/png" }));
				data.items.add(new File(["x"], "note.txt", { type: "text/plain" }));
				document.querySelector(".composer").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
				return true;
			})()`)
			p.see(`document.querySelector(".composer img")?.alt === "dot.png"`)
			p.says("note.txt is not a PNG")
			p.fits()
			p.shot("an image")
			p.do(chromedp.Focus(chromedp.CSS("#question")))
			p.insert("What is this?")
			p.enter()
			p.see(`document.querySelector(".turn.user img")?.alt === "dot.png" && !document.querySelector(".composer img")`)
			p.says("Because air scatters")
			if body := stub.latest(); !strings.Contains(body, `"content":[{"type":"input_text","text":"What is this?"},{"type":"input_image","image_url":"data:image/png;base64,iVBOR`) {
				t.Errorf("sent %.400s", body)
			}
		})
	}
}

func TestWithoutExtensionsThePlaygroundIsPlain(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "playground", sizes()[0])
	p.says("Ask something")
	p.see(`!document.querySelector("#tools") && !document.querySelector("#schema") && !document.querySelector(".images")`)
}
