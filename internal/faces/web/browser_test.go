package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"stoa/internal/testkit/browsertest"
)

// A look is a way a page is seen.
type look struct {
	name          string
	dark          bool
	width, height int64
}

func looks() []look {
	return []look{
		{"light desktop", false, 1280, 860},
		{"dark desktop", true, 1280, 860},
		{"light phone", false, 360, 740},
		{"dark phone", true, 360, 740},
	}
}

// inAllLooks reports whether the pages are checked in all looks, as in the nightly checks.
func inAllLooks() bool { return os.Getenv("STOA_TEST_LOOKS") == "all" }

// usual returns the first look, or all of them in the nightly checks. Every page is also seen
// dark, on a phone and in other widths, by TestPagesFitIntoEveryWindow.
func usual(all []look) []look {
	if inAllLooks() {
		return all
	}
	return all[:1]
}

// ends returns the first and the last look, which differ in theme and in size, or all of
// them in the nightly checks. It is for pages that are used differently on a phone.
func ends(all []look) []look {
	if inAllLooks() {
		return all
	}
	return []look{all[0], all[len(all)-1]}
}

// browsers are those that run and that no test has, with what stops each. One test has a
// browser at a time: only one of its pages has the focus.
var browsers struct {
	sync.Mutex
	free []runningBrowser
}

type runningBrowser struct {
	ctx  context.Context
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, b := range browsers.free {
		b.stop()
	}
	os.Exit(code)
}

// startBrowser starts a separate headless browser for the test, or skips the test if
// none is installed. Every page is opened in a separate browser context, so that tests
// do not share state.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	opts := browsertest.Options(t)
	b := takeBrowser()
	if b.stop == nil {
		allocated, stop := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, cancel := chromedp.NewContext(allocated)
		b = runningBrowser{ctx, func() { cancel(); stop() }}
	}
	t.Cleanup(func() {
		if t.Failed() { // it may hang
			b.stop()
			return
		}
		browsers.Lock()
		defer browsers.Unlock()
		browsers.free = append(browsers.free, b)
	})
	limited, release := context.WithTimeout(b.ctx, 10*time.Minute) // a browser that hangs fails one test only
	t.Cleanup(release)
	if err := chromedp.Do(b.ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return limited
}

// takeBrowser returns a browser that no test has, or the zero value.
func takeBrowser() (b runningBrowser) {
	browsers.Lock()
	defer browsers.Unlock()
	if last := len(browsers.free) - 1; last >= 0 {
		b, browsers.free = browsers.free[last], browsers.free[:last]
	}
	return b
}

// A tab is a page that is being watched: what it asks for elsewhere, and what
// it complains about, fails the test at its end.
type tab struct {
	t      *testing.T
	ctx    context.Context
	base   string
	mu     sync.Mutex
	wrong  []string
	expect []string // parts of complaints that belong to the test
	looked string   // the elements at the last look of axe-core
}

// open loads a page as seen by l, which may complain as allow says.
func open(t *testing.T, browser context.Context, base, path string, l look, allowed ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	return watch(t, ctx, cancel, base, path, l, allowed...)
}

// watch loads a page in a new tab, which cancel closes.
func watch(t *testing.T, ctx context.Context, cancel func(), base, path string, l look, allowed ...string) *tab {
	t.Helper()
	t.Cleanup(cancel)
	ctx, cancelTime := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancelTime)
	p := &tab{t: t, ctx: ctx, base: base, expect: allowed}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(ev any) {
		if sent, ok := ev.(*network.EventRequestWillBeSent); ok {
			u, err := url.Parse(sent.Request.URL)
			if err != nil || u.Scheme != "data" && u.Scheme != "blob" && !strings.HasPrefix(sent.Request.URL, base+"/") {
				p.complain("outside request: " + sent.Request.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	console := chromedp.Console(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range console {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException || m.Type == chromedp.ConsoleWarning {
				p.complain(string(m.Type) + ": " + m.Text + " " + m.URL)
			}
		}
	}()
	p.as(l)
	p.do(chromedp.Navigate(base + path))
	t.Cleanup(func() {
		cancel()
		<-done
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.wrong {
			t.Error(w)
		}
	})
	return p
}

// as changes the emulated media of the page without reloading it.
func (p *tab) as(l look) {
	p.t.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		p.t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(l.width, l.height))
}

func (p *tab) complain(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.expect {
		if strings.Contains(what, part) {
			return
		}
	}
	p.wrong = append(p.wrong, what)
}

// allow names complaints that the test provokes.
func (p *tab) allow(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expect = append(p.expect, parts...)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// see waits until an expression in the page is true.
func (p *tab) see(expression string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(45*time.Second)))
	for tries := 0; leaving(err) && tries < 5000; tries++ {
		_, err = chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(45*time.Second)))
	}
	if err != nil {
		p.shot("failed")
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 1500)`))
		p.t.Fatalf("never came true: %s: %v\n%s", expression, err, text)
	}
}

// leaving reports whether an error is that of a page that is being left, which takes its
// answers with it.
func leaving(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"context with specified id", "Not attached to an active page", "Inspected target navigated"}, func(part string) bool {
		return strings.Contains(err.Error(), part)
	})
}

// says waits until the page shows a text.
func (p *tab) says(text string) {
	p.t.Helper()
	p.see(fmt.Sprintf("!!document.body?.innerText.includes(%q)", text))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// press clicks the button with a text, which may be in the menu of a row.
func (p *tab) press(text string) {
	p.t.Helper()
	p.see(browsertest.Press(text))
}

// unfold opens what is folded under a heading.
func (p *tab) unfold(heading string) {
	p.t.Helper()
	p.see(fmt.Sprintf(`(() => { const s = [...document.querySelectorAll("summary")].find((s) => s.checkVisibility() && s.innerText.trim().startsWith(%q)); if (s) s.parentElement.open = true; return !!s; })()`, heading))
}

// type_ inserts a text at once into a field.
func (p *tab) type_(selector, text string) {
	p.t.Helper()
	p.see(fmt.Sprintf(`(() => { const field = document.querySelector(%q); field?.focus(); return !!field && document.activeElement === field; })()`, selector))
	p.insert(text)
}

// enter presses Enter as a keyboard does: one event that carries the character,
// so that a page that prevents it gets none.
func (p *tab) enter() {
	p.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		press := input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13}
		if kind == input.DispatchKeyEventTypeKeyDown {
			press.Text = "\r"
		}
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, press); err != nil {
			p.t.Fatal(err)
		}
	}
}

// key presses a key that has one letter, in what has the focus.
func (p *tab) key(letter string) {
	p.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: letter}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// insert types a whole text at once into what has the focus.
func (p *tab) insert(text string) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		p.t.Fatal(err)
	}
}

// paste inserts what is on the clipboard into what has the focus.
func (p *tab) paste() {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: "v", Code: "KeyV", Modifiers: 2, Commands: []string{"paste"}}); err != nil {
		p.t.Fatal(err)
	}
}

// drop drops files and folders in the middle of an element.
func (p *tab) drop(selector string, paths ...string) {
	p.t.Helper()
	type point struct{ X, Y float64 }
	at, err := chromedp.Run(p.ctx, chromedp.Evaluate[point](fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return {X: r.x + r.width / 2, Y: r.y + r.height / 2}; })()`, selector)))
	if err != nil {
		p.t.Fatal(err)
	}
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: 1}
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		if _, err := chromedp.Call(p.ctx, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: at.X, Y: at.Y, Data: data}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// fits checks that nothing is wider than the window.
func (p *tab) fits() {
	p.t.Helper()
	wide, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`(() => { const w = document.documentElement.clientWidth; if (document.documentElement.scrollWidth <= w) return ""; return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > w + 1).slice(0, 5).map((e) => e.tagName + "." + e.className + " " + Math.round(e.getBoundingClientRect().right)).join(", ") || "the page"; })()`))
	if err != nil {
		p.t.Fatal(err)
	}
	if wide != "" {
		p.t.Errorf("wider than the window: %s", wide)
	}
}

// shot checks the accessibility, and stores a screenshot if STOA_TEST_SCREENSHOTS names
// a folder.
func (p *tab) shot(name string) {
	p.t.Helper()
	if name != "failed" {
		p.axe()
	}
	p.picture(name)
}

// picture keeps a picture where STOA_TEST_SCREENSHOTS names a folder.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("STOA_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	file := strings.NewReplacer("/", "_", " ", "-").Replace(p.t.Name() + "-" + name + ".png")
	if err := os.WriteFile(filepath.Join(dir, file), picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// lookForBarriers runs axe-core.
const lookForBarriers = `(async () => {
	const found = await axe.run(document, {resultTypes: ["violations"]});
	return found.violations.map((v) => location.hash + " " + v.id + ": " + v.help + " → " + v.nodes.slice(0, 4).map((n) => n.target.join(" ") + " (" + (n.any[0]?.message ?? "") + ")").join("; ")).join("\n");
})()`

// axe fails the test if axe-core finds a barrier on the current page, unless the last look of the
// tab was at the same elements, of which only the scroll position changed.
func (p *tab) axe() {
	p.t.Helper()
	elements, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.documentElement.outerHTML`))
	if err != nil {
		p.t.Fatal(err)
	}
	if elements == p.looked {
		return
	}
	p.looked = elements
	loaded, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`"axe" in window`))
	if err != nil {
		p.t.Fatal(err)
	}
	if !loaded {
		source, err := os.ReadFile(filepath.Join("ui", "node_modules", "axe-core", "axe.min.js"))
		if errors.Is(err, os.ErrNotExist) {
			p.t.Log("axe-core is not installed: run npm ci in internal/faces/web/ui")
			return
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[any](string(source)+";0")); err != nil {
			p.t.Fatal(err)
		}
	}
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](lookForBarriers, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	if found != "" {
		p.t.Errorf("axe at %s:\n%s", p.t.Name(), found)
	}
}
