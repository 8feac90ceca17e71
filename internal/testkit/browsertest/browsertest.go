// Package browsertest finds the browser in which tests look at pages, and has what they share.
package browsertest

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// names are the programs of Chromium, the cheapest first: the headless shell needs about a quarter
// less CPU time than the browser. Debian's command for it starts it as a child, which would outlive
// the command.
var names = []string{"/usr/lib/chromium/chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}

// Options returns the options with which chromedp starts a headless browser. If none is installed,
// or with -short, it skips the test.
func Options(t testing.TB) []chromedp.ExecAllocatorOption {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes long to start")
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			// Scrollbars are shown, as on most desktops. The last flag disables what chromedp disables,
			// and the spare process of each page, but not the processes of frames, which users have;
			// the headless shell has none by default.
			return append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("hide-scrollbars", false),
				chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-domain-reliability", true), chromedp.Flag("no-pings", true),
				chromedp.Flag("site-per-process", true), chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess"))
		}
	}
	t.Skip("neither Chromium nor Chrome is installed: the pages were not looked at")
	return nil
}

// Press returns an expression that clicks the visible button with a text, which may be in the menu of a row,
// and reports whether there is one.
func Press(text string) string {
	return fmt.Sprintf(`(() => {
		let b = [...document.querySelectorAll("button, a.button, [role=tab]")].find((b) => b.checkVisibility() && !b.disabled && b.innerText.trim() === %[1]q);
		if (!b) {
			b = [...document.querySelectorAll("[role=menuitem]")].find((b) => b.textContent.trim() === %[1]q && b.closest("[popover]").previousElementSibling.checkVisibility());
			b?.closest("[popover]").showPopover();
		}
		b?.click();
		return !!b;
	})()`, text)
}
