package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"stoa/internal/testkit/fakeup"
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

	p.press("Models and prices")
	p.see(`(() => { const row = [...document.querySelectorAll("tr")].find((r) => r.innerText.includes("alpha-haiku-4-5")); const b = row?.querySelector("button"); b?.click(); return !!b; })()`)
	p.fill("#model-output", "9")
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

// TestAnOperatorSharesAFamilyBetweenTwoVendors connects a second vendor with two keys, routes a family
// to both by weight, keeps a name of a client, disables a vendor and restores the first version.
func TestAnOperatorSharesAFamilyBetweenTwoVendors(t *testing.T) {
	t.Parallel()
	one, two := fakeup.Start(t), fakeup.Start(t)
	url, p := consoleInABrowser(t)
	apply := func(version string) {
		t.Helper()
		p.press("Review and apply")
		p.see(`!!document.querySelector("dialog h3")`)
		p.shot("review of version " + version)
		p.press("Apply")
		p.says("Version " + version + " is applied")
	}
	saved := func() {
		t.Helper()
		p.press("Save to the draft")
		p.see(`!document.querySelector("dialog")`)
	}
	// row presses the button of a row, or opens its menu.
	row := func(name, button string) {
		t.Helper()
		p.see(`(() => { const row = [...document.querySelectorAll("section[aria-labelledby=settings] tr")].find((r) => r.innerText.includes("` + name + `")); const b = row?.querySelector("` + button + `"); b?.click(); return !!b; })()`)
	}
	item := func(name, title string) {
		t.Helper()
		row(name, "button[aria-haspopup]")
		p.see(`(() => { const b = [...document.querySelectorAll("[popover]:popover-open [role=menuitem]")].find((b) => b.innerText === "` + title + `"); b?.click(); return !!b; })()`)
	}
	change := func(field, text string) {
		t.Helper()
		p.see(`(() => { const f = document.querySelector("` + field + `"); if (!f) return false; f.value = ""; f.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
		p.fill(field, text)
	}
	p.do(chromedp.Navigate(url + "/console#/providers"))
	p.press("Add provider")
	p.fill("#provider-url", one.URL)
	p.fill("#provider-key", fakeup.Key)
	saved()
	apply("1")

	p.press("Add provider")
	p.see(`document.querySelector("#provider-name").value === "anthropic-2"`)
	p.fill("#provider-url", two.URL+"/v1?x=1") // an error of the check stands at its field
	p.press("Use several keys")
	p.fill("#key-0-secret", fakeup.Key)
	p.fill("#key-1-secret", fakeup.Key)
	p.fill("#key-1-weight", "3")
	p.shot("two keys")
	p.press("Save to the draft")
	p.see(`document.querySelector("#provider-url-problem")?.textContent.includes("remove the part after")`)
	p.shot("a problem at its field")
	change("#provider-url", two.URL)
	p.press("Save to the draft") // the provider is in the draft now
	p.see(`!document.querySelector("dialog")`)
	p.says("2 keys")

	p.press("Routes")
	item("alpha", "Edit")
	p.fill("#family-0-weight", "1")
	p.fill("#family-1-weight", "3")
	p.shot("routes")
	saved()
	p.says("75 %")
	p.press("Names")
	p.press("Add alias")
	p.fill("#alias-match", "gpt-4o")
	saved()
	p.press("Models and prices")
	row("alpha-haiku-4-5", "button")
	p.shot("model")
	p.fill("#model-output", "9")
	saved()
	row("delta-v4-flash", "button") // its hours stay when a rate changes
	change("#model-output", "0.7")
	saved()
	item("delta-v4-flash", "Edit")
	p.see(`document.querySelector("#model-output")?.value === "0.7" && document.querySelector("#model-zone").value === "Asia/Shanghai" && document.querySelector("#model-hours-1-to").value === "18:00"`)
	p.press("Cancel")
	row("beta-3.1-pro", "button")
	p.see(`(() => { const s = document.querySelector("dialog details summary"); s?.click(); return !!s; })()`)
	change("#model-above", "300000")
	saved()
	item("beta-3.1-pro", "Edit")
	p.see(`document.querySelector("#model-above")?.value === "300000" && document.querySelector("#model-above-output").value === "1.5"`)
	p.press("Cancel")
	p.press("Add model")
	p.fill("#model-id", "local-1")
	p.fill("#model-input", "0")
	p.fill("#model-output", "0")
	p.press("Add a provider")
	p.fill("#model-0-model", "llama3.2")
	p.see(`(() => { const s = document.querySelector("dialog details summary"); s?.click(); return !!s; })()`)
	p.see(`(() => { const c = document.querySelector("dialog details .check input"); c?.click(); return !!c; })()`)
	p.shot("own model")
	saved()
	p.shot("settings of a draft")
	apply("2")
	p.says("local-1")

	p.press("Providers")
	item("anthropic-2", "Disable")
	p.press("Disable it in the draft")
	p.says("disabled")
	apply("3")
	p.see(`document.querySelector('section[aria-label="anthropic-2#key-1"]')?.innerText.includes("It gets no calls")`)
	p.shot("disabled")
	p.press("History")
	p.see(`(() => { const b = [...document.querySelectorAll("section[aria-labelledby=settings] tr button")].filter((b) => b.innerText === "Restore").at(-1); b?.click(); return !!b; })()`)
	p.see(`(() => { const b = document.querySelector("dialog footer .main"); b?.click(); return !!b; })()`)
	p.says("Version 4 has the settings of version 1")
}
