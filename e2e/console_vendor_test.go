package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/fakeup"
)

// TestAVendorIsAddedInTheConsole adds a provider to a service without one, tests it, puts it in
// force, changes a price, and restores the first version.
func TestAVendorIsAddedInTheConsole(t *testing.T) {
	t.Parallel()
	up := fakeup.Start(t)
	url, p := consoleInABrowser(t)
	p.do(chromedp.Navigate(url + "/console#/providers"))
	p.says("No vendor is connected.")
	p.press("Add provider")
	p.fill("#provider-url", up.URL)
	p.fill("#provider-key", fakeup.Key)
	p.press("Save to the draft")
	p.says("The draft is not in force.")
	p.press("Review and apply")
	p.says("families.alpha")
	p.press("Test anthropic")
	p.says("It responded.")
	p.press("Apply")
	p.says("Version 1 is applied")
	p.see(`document.body.innerText.includes("managed here")`)

	p.press("Prices")
	p.see(`(() => { const row = [...document.querySelectorAll("tr")].find((r) => r.innerText.includes("alpha-haiku-4-5")); const b = row?.querySelector("button"); b?.click(); return !!b; })()`)
	p.fill("#price-output", "9")
	p.press("Save to the draft")
	p.says("The draft is not in force.")
	p.press("Review and apply")
	p.says("models.alpha-haiku-4-5")
	p.press("Apply")
	p.says("Version 2 is applied")
	p.press("History")
	p.press("Restore")
	p.see(`(() => { const b = document.querySelector("dialog footer .main"); b?.click(); return !!b; })()`)
	p.says("Version 3 has the settings of version 1")
	p.shot("vendors")
}
