// Package browsertest finds the browser in which tests look at pages.
package browsertest

import (
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
			// The last flag disables what chromedp disables, and the spare process of each page, but
			// not the processes of frames, which users have; the headless shell has none by default.
			return append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
				chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-domain-reliability", true), chromedp.Flag("no-pings", true),
				chromedp.Flag("site-per-process", true), chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess"))
		}
	}
	t.Skip("neither Chromium nor Chrome is installed: the pages were not looked at")
	return nil
}
