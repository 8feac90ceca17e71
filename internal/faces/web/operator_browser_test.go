package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"stoa/internal/base/contract"
)

// sizes are a desktop and a phone as people have them, light and dark.
func sizes() []look {
	return []look{
		{"light desktop", false, 1440, 900},
		{"dark desktop", true, 1440, 900},
		{"light phone", false, 390, 844},
		{"dark phone", true, 390, 844},
	}
}

// askedFor fails the test unless the pages made a call to an address with these parts.
func (s *stub) askedFor(parts ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
next:
	for _, url := range s.urls {
		for _, part := range parts {
			if !strings.Contains(url, part) {
				continue next
			}
		}
		return
	}
	s.t.Errorf("nothing was asked with %q", parts)
}

// choose picks an option of a select.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	p.see(`(() => { const s = document.querySelector("` + selector + `"); if (!s) return false; s.value = "` + value + `"; s.dispatchEvent(new Event("change", { bubbles: true })); return s.value === "` + value + `"; })()`)
}

// pick searches a name in a picker and selects the object that has it.
func (p *tab) pick(selector, name string) {
	p.t.Helper()
	p.type_(selector, name)
	p.see(fmt.Sprintf(`[...document.querySelectorAll("[role=option]")].map((o) => o.firstChild.textContent).join("|") === %q`, name))
	p.enter()
	p.see(fmt.Sprintf(`!document.querySelector("[role=listbox]") && document.querySelector(%q).value === %q`, selector, name))
}

func TestNodesInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "nodes", l)
			p.says("node_01JQ8Z6W5T3S9K2M4N6P8R0V3X")
			p.says("do not have the same settings")
			p.says("2 versions")
			p.see(`[...document.querySelectorAll("tbody tr")].map((r) => r.innerText.includes("differs")).join() === "false,false,true"`)
			p.see(`[...document.querySelectorAll("tbody tr")].map((r) => /26 h/.test(r.innerText)).join() === "true,true,true"`)
			p.says("They continue on other nodes")
			p.says("There is no leader.")
			p.fits()
			p.shot("nodes")
		})
	}
}

// Pages of a new service begin with their figures, and a list without a row has no filters.
func TestPagesOfMoneyAndPeopleOfANewService(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	for _, l := range usual(looks()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, st.h.URL, st.h.Key, "credits", l)
			p.see(`[...document.querySelectorAll(".figure dt")].map((f) => f.innerText).join() === "Available, this account,Spent in 30 days, all customers,Granted in all, this account" && ![...document.querySelectorAll(".figure dd")].some((f) => f.innerText === "–")`)
			p.fits()
			p.shot("credits")
			p.do(chromedp.Navigate(st.h.URL + "/console#/members"))
			p.says("No members")
			p.see(`!document.querySelector("search")`)
			p.press("Invite")
			p.press("Create the link")
			p.press("Done")
			p.says("Anyone with the link")
			p.see(`/invited.*by .*expires/s.test(document.querySelector("tbody tr").innerText)`)
			p.fits()
			p.press("New link")
			p.press("Create the link")
			p.see(`document.querySelector("dialog")?.innerText.includes("/join#inv_")`)
			p.press("Done")
			p.press("Revoke")
			p.press("Revoke the invitation")
			p.says("No members")
			p.see(`!document.querySelector("search")`)
			p.do(chromedp.Navigate(st.h.URL + "/console#/nodes"))
			p.says("If the node stops")
			p.says("Up for")
			p.fits()
			p.shot("node")
		})
	}
}

// A search without other filters stands in the head of its list, not in a bar between head and rows.
func TestASearchAloneStandsInTheHead(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	const account = "accounts/acc_01k9zqd3m8w5x7y2c4b6n8p0rz/keys"
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "", l)
			for _, one := range [][3]string{{"budgets", "Budgets", "q"}, {"keys", "Keys", "q"}, {"members", "Members", "q"}, {account, "Acme", "key"}, {"webhooks", "Webhooks", "q"}} {
				p.do(chromedp.Navigate(srv.URL + "/console#/" + one[0]))
				p.see(fmt.Sprintf(`document.querySelector("h1")?.innerText === %q && !!document.querySelector("main header #filter-%s") && !document.querySelector(".filters") && document.querySelectorAll("tbody tr").length > 0`, one[1], one[2]))
				p.fits()
				p.shot(one[0])
			}
			p.type_("#filter-q", "hooks")
			p.see(`location.hash === "#/webhooks?q=hooks"`)
		})
	}
	stub.askedFor("GET /api/v1/webhooks?", "q=hooks")
}

func TestNoticesInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "", l)
			p.says("Needs attention")
			p.see(`document.querySelector("section[aria-labelledby=attention] a")?.textContent === "A provider does not answer: claude"`)
			p.see(`document.querySelector("nav a[href='#/'] .count").textContent === "1 need attention"`)
			p.fits()
			p.shot("notices")
		})
	}
}

func TestTheRequestLogInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "requests?status=4xx&range=24h&account=*", l)
			p.says("insufficient_quota")
			p.says("17 rows")
			p.says("4 requests, 3 errors")
			p.says("first key")
			p.see(`document.querySelector("#filter-status").value === "4xx"`)
			p.fits()
			p.shot("requests")
			p.press("Show more")
			p.see(`document.querySelectorAll("tbody tr").length === 5 && ![...document.querySelectorAll("button")].some((b) => b.innerText === "Show more")`)
			p.see(`!document.querySelector("#filter-slow").checkVisibility() && document.querySelector("#filter-status").checkVisibility()`)
			p.press("All filters")
			p.see(`document.querySelector("#filter-slow").checkVisibility()`)
			p.choose("#filter-slow", "5000")
			p.press("Fewer filters")
			p.see(`document.querySelector("#filter-slow").checkVisibility()`) // it is set
			p.see(`location.hash.includes("slow=5000") && location.hash.includes("status=4xx")`)
			p.click("tbody tr:nth-child(2) .button")
			p.says("2 attempts")
			p.says("What the codes mean")
			p.fits()
			p.shot("request")
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)
			p.press("Clear filters")
			p.see(`location.hash === "#/requests"`)
		})
	}
	stub.askedFor("GET /api/v1/requests?", "status=4xx", "from=2", "accountId=*")
	stub.askedFor("minDurationMilliseconds=5000")
	stub.askedFor("GET /api/v1/requests/summary?", "minDurationMilliseconds=5000", "status=4xx")
}

func TestTheAuditLogInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "audit?object=whk_1&range=24h", l)
			p.says("Update webhook")
			p.says("first key")
			p.says("Helper")
			p.see(`[...document.querySelectorAll("tbody tr")].map((r) => r.innerText.includes("enabled: yes, url")).join() === "true,false,false"`)
			p.fits()
			p.shot("audit")
			p.press("Update webhook")
			p.says("updateWebhook")
			p.says("https://example.net/(masked)")
			p.see(`document.querySelectorAll("dialog .diff .new").length === 2 && document.querySelectorAll("dialog .diff .gone").length === 2`)
			p.fits()
			p.shot("change")
			p.do(chromedp.KeyEvent("\u001b"))
			p.press("Delete agent")
			p.says("Deleted")
			p.do(chromedp.KeyEvent("\u001b"))
			p.press("Clear filters")
			p.see(`location.hash === "#/audit"`)
			p.press("This account")
			// The filter offers the actions that the log has.
			p.see(`[...document.querySelectorAll("#filter-action option")].map((o) => o.innerText).join() === "Any,Create space,Update webhook,Webhook disabled"`)
			p.choose("#filter-action", "webhook.disabled")
			p.see(`location.hash === "#/audit?action=webhook.disabled"`)
		})
	}
	stub.askedFor("GET /api/v1/audit?", "object=whk_1", "from=2")
	stub.askedFor("GET /api/v1/audit?", "action=webhook.disabled")
}

func TestInvoicesInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "invoices", l)
			p.says("Acme")
			p.says("1.2346")
			p.fits()
			p.shot("invoices")
			p.says("Charged to all accounts")
			p.see(`[...document.querySelectorAll(".figure dd")].map((f) => f.innerText.trim()).filter((_, i) => i !== 1).slice(0, 3).join() === "1.2346,12,57,000 tokens"`)
			p.click("tbody tr")
			p.see(`location.hash.endsWith("of=acc_01k9zqd3m8w5x7y2c4b6n8p0ra")`)
			p.says("Closing balance")
			p.see(`/^Total\s+12\s.*1[.]234567$/s.test(document.querySelector("section > [aria-label='Charges by model'] tbody tr:last-child")?.innerText.trim() ?? "")`)
			p.see(`document.querySelectorAll("section[aria-labelledby=by-day] .bar-of").length >= 1`)
			p.says("Print")
			p.fits()
			p.shot("invoice")
			p.do(chromedp.Navigate(srv.URL + "/console#/invoices?of=own"))
			p.see(`document.querySelector("#filter-of").value === "This account"`)
			p.says("Opening balance")
			p.says("6.265433")
			p.fits()
			p.shot("statement")
		})
	}
	stub.askedFor("GET /api/v1/statements/", "accountId=*")
	stub.askedFor("GET /api/v1/statements/", "accountId=acc_01k9zqd3m8w5x7y2c4b6n8p0ra")
}

// TestTheInvoicesAddUp compares the sum above the statements of all accounts with the rows below it, of a
// service with charges and a refund.
func TestTheInvoicesAddUp(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	for i := range 3 {
		var made contract.AccountWithKey
		st.c.Want(201, "POST", "/api/v1/accounts", map[string]any{"name": fmt.Sprint("Customer ", i), "grantMicro": 5_000_000}).JSON(&made)
		for range i + 1 {
			st.h.ClientWith(t, made.Key.Secret).Want(200, "POST", "/api/v1/responses", map[string]any{"model": "beta-3.8-flash", "input": "hi"})
		}
		st.c.Want(201, "POST", "/api/v1/accounts/"+made.ID+"/withdrawals", map[string]any{"amountMicro": 1_000_000, "externalRef": fmt.Sprint("refund-", i)})
	}
	p := signIn(t, browser, st.h.URL, st.h.Key, "invoices", sizes()[0])
	p.see(`document.querySelectorAll("tbody tr").length === 3`)
	const rows = `[...document.querySelectorAll("tbody tr")].reduce((sum, r) => sum + Number(r.querySelector("[data-title=Charged] span").title.replace(/[^0-9]/g, "")), 0)`
	const all = `Number(document.querySelector(".figure dd span").title.replace(/[^0-9]/g, ""))`
	if sum, total := eval[int](p, rows), eval[int](p, all); sum == 0 || sum != total {
		t.Errorf("the rows add up to %d micro-credits, the page says %d", sum, total)
	}
	p.see(`[...document.querySelectorAll("tbody tr")].reduce((sum, r) => sum + Number(r.querySelector("[data-title=Calls]").innerText), 0) === 6 && document.querySelectorAll(".figure")[1].innerText.includes("6")`)
	charged := `[...document.querySelectorAll("tbody tr")].map((r) => r.innerText.match(/Customer \d/)?.[0]).join()`
	p.see(charged + ` === "Customer 2,Customer 1,Customer 0" && document.querySelector("th[aria-sort=descending]").innerText === "Charged"`)
	p.press("Charged")
	p.see(charged + ` === "Customer 0,Customer 1,Customer 2" && location.hash.includes("order=charged.asc")`)
	p.says("1 account without charges")
	p.click("details.folded > summary")
	p.see(`document.querySelectorAll("details.folded tbody tr").length === 1`)
}

func TestBudgetsInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "budgets", l)
			p.says("The whole account")
			p.says("Each end user")
			p.see(`document.querySelector("progress").getAttribute("aria-label").includes("3.20 of 5.00 credits spent")`)
			p.see(`document.querySelector(".meter").innerText === "64 %" && document.querySelector(".meter progress").getBoundingClientRect().width > 80`)
			p.fits()
			p.shot("budgets")
			p.press("see each")
			p.says("ann@example.com")
			p.see(`document.querySelector("dialog .meter .badge.warning").innerText.trim() === "82 %"`)
			p.do(chromedp.KeyEvent("\u001b"))
			p.see(`!document.querySelector("dialog")`)
			p.press("Subjects")
			p.says("ann@example.com")
			p.fits()
			p.do(chromedp.KeyEvent("\u001b"))
			p.press("Create budget")
			p.type_("#budget-limit", "2.5")
			p.fits()
			p.shot("create-budget")
			p.press("Create")
			p.says("The budget is created")
		})
	}
	stub.sent("POST /api/v1/budgets")
}

func TestTheRequestLogIsFollowed(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "requests", sizes()[0])
	p.says("upstream_error")
	stub.mu.Lock()
	stub.fresh = []string{stubRequest("e", 200, ""), stubRequest("f", 503, "overloaded_just_now")}
	stub.mu.Unlock()
	p.click(".head .check input")
	p.says("overloaded_just_now")
	p.see(`document.querySelectorAll("tbody tr").length === 6 && document.querySelector("tbody tr").innerText.includes("overloaded_just_now")`)
	stub.askedFor("order=asc", "cursor=follow")
	p.shot("live")
}

func TestARequestIsFoundByItsId(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "requests", sizes()[2])
	p.says("upstream_error")
	p.allow("404")
	p.type_("#filter-id", "req_nothing")
	p.enter()
	p.says("There is no request with that id")
	p.do(chromedp.Navigate(srv.URL + "/console#/requests?id=req_01k9zqd3m8w5x7y2c4b6n8found"))
	p.says("model_not_found")
	p.see(`document.querySelectorAll("tbody tr").length === 1`)
	p.do(chromedp.Navigate(srv.URL + "/console#/requests?status=3xx"))
	p.says("No matching requests")
	p.shot("nothing")
}

func TestTheRequestLogIsSavedAsCSV(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, srv := serve(t)
	p := signIn(t, browser, srv.URL, goodKey, "requests", sizes()[0])
	p.says("upstream_error")
	p.see(`(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => (window.saved = text)); return make(blob); }; return true; })()`)
	p.press("CSV")
	p.see(`window.saved?.split("\r\n").length === 7 && window.saved.startsWith("id,startedAt,accountId") && window.saved.includes("8c,2026-11-20T11:57:00.000Z")`)
	p.says("5 rows are saved")
}

func TestUsageInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "usage", l)
			p.says("in the period before")
			p.see(`document.querySelectorAll(".chart .bar-of").length === 14`)
			p.fits()
			p.shot("usage")
			// By keyboard: the last bar has the focus first, the arrow goes back.
			p.see(`(() => { const b = document.querySelector(".bar-of[tabindex='0']"); b?.focus(); return b !== null && document.activeElement === b; })()`)
			p.do(chromedp.KeyEvent("\u0302")) // the arrow to the left
			p.see(`[...document.querySelectorAll(".bar-of")].indexOf(document.activeElement) === 12 && document.querySelector(".tip").innerText.includes("credits") === false && /\d/.test(document.querySelector(".tip b")?.innerText ?? "")`)
			p.enter()
			p.see(`location.hash.startsWith("#/credits/receipts?range=custom&from=")`)
			p.do(chromedp.Navigate(srv.URL + "/console#/usage?metric=p95&group=provider&range=24h"))
			p.says("1.2 s")
			p.says("claude")
			p.fits()
			p.shot("latency")
			p.choose("#filter-metric", "errors")
			p.says("3 errors")
			p.choose("#filter-group", "account")
			p.says("Acme")
			p.fits()
			p.shot("errors")
		})
	}
	stub.askedFor("GET /api/v1/usage?", "groupBy=day%2Cmodel")
	t.Run("in another time zone", func(t *testing.T) {
		p := signIn(t, browser, srv.URL, goodKey, "usage", sizes()[0])
		if _, err := chromedp.Call(p.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
			t.Fatal(err)
		}
		p.do(chromedp.Navigate(srv.URL + "/console?again#/usage"))
		p.says("Days are those of Asia/")
		p.see(`document.querySelectorAll(".chart .bar-of").length === 14`)
		stub.askedFor("GET /api/v1/usage?", "timeZone=Asia%2F", "T18%3A30%3A00.000Z") // the zone has two names
	})
	stub.askedFor("GET /api/v1/requests/summary?", "accountId=*", "from=2", "to=2", "groupBy=account")
	stub.askedFor("GET /api/v1/requests/summary?", "interval=hour")
}

func TestTheFirstStepsAreShown(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.bare = true
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "", l)
			p.says("Three steps to the first answer")
			p.says("Out of credits")
			p.says("curl " + srv.URL + "/api/v1/responses")
			p.see(`[...document.querySelectorAll(".steps li")].map((li) => li.innerText.includes("done")).join() === "false,true,false"`)
			p.see(`[...document.querySelectorAll("tr")].find((r) => r.innerText.includes("gamma-6-luna"))?.innerText.includes("sandbox")`)
			p.fits()
			p.shot("first steps")
		})
	}
	stub.mu.Lock()
	stub.bare = false
	stub.mu.Unlock()
	p := signIn(t, browser, srv.URL, goodKey, "", sizes()[0])
	p.says("Latest calls")
	p.says("beta-3.8-flash")
	p.see(`!document.body.innerText.includes("No vendor is connected")`)
	p.see(`!document.body.innerText.includes("Three steps") && !/Out of credits|Credits are low/.test(document.body.innerText)`)
}

func TestOnlyTheVendorIsMissing(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	stub.sandbox.Store(true)
	p := signIn(t, browser, srv.URL, goodKey, "", sizes()[0])
	p.says("No vendor is connected")
	p.says("Latest calls")
	p.see(`!document.body.innerText.includes("Three steps")`)
	p.shot("sandbox")
}

func TestAccountsAreFiltered(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range ends(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "accounts?q=ac&low=5", l)
			p.says("Broke Inc")
			p.see(`document.querySelector("#filter-q").value === "ac" && document.querySelector("#filter-low").value === "5"`)
			p.see(`[...document.querySelectorAll("tbody [data-title=Plan]")].map((c) => c.innerText).join() === "Free,Free"`)
			p.see(`[...document.querySelectorAll("tbody tr")].map((r) => [r.innerText.includes("4.0000"), r.innerText.includes("none"), r.innerText.includes("never")].join()).join(" ") === "true,false,false false,true,true"`)
			p.fits()
			p.shot("filtered")
			p.see(`document.querySelector("#filter-order").checkVisibility()`)
			p.choose("#filter-order", "asc")
			p.see(`location.hash === "#/accounts?q=ac&low=5&order=asc"`)
			p.press("Clear filters")
			p.see(`location.hash === "#/accounts"`)
		})
	}
	stub.askedFor("GET /api/v1/accounts?", "q=ac", "unspentBelowMicro=5000000", "order=asc")
}

func TestAnAccountHasAPage(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	const account = "acc_01k9zqd3m8w5x7y2c4b6n8p0rz"
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "accounts/"+account, l)
			p.says("Spent in 30 days")
			p.see(`[...document.querySelectorAll(".figure")].find((f) => f.innerText.startsWith("Plan"))?.querySelector("dd").innerText === "Free"`)
			p.says("Credits by day and model")
			p.fits()
			p.shot("usage")
			p.press("Ledger")
			p.says("first grant")
			p.see(`location.hash === "#/accounts/` + account + `/ledger"`)
			p.fits()
			p.shot("ledger")
			p.press("Keys")
			p.says("website")
			p.fits()
			p.shot("keys")
			p.press("Create key")
			p.type_("#key-name", "replacement")
			p.press("Create the key")
			p.says("sk_shownonce")
			p.press("Done")
			p.press("Limits")
			p.says("standard models")
			p.fits()
			p.shot("limits")
			p.click(".head a")
			p.says("Broke Inc")
			p.do(chromedp.Navigate(srv.URL + "/console#/accounts/" + account + "/limits"))
			p.press("Suspend the account")
			p.says("Its keys stop working")
			p.says("12 keys, 3 schedules and 2 embeds stop.")
			p.shot("suspend")
			p.press("Suspend")
			p.says("The account is suspended")
			p.press("Keys")
			p.press("Revoke")
			p.press("Revoke the key")
			p.says("is revoked")
			p.press("Budgets")
			p.says("set by the operator")
			p.fits()
			p.shot("budgets")
			p.press("Create budget")
			p.type_("#budget-limit", "500")
			p.press("Create")
			p.says("The budget is created")
			p.click(`.head button[aria-label="More"]`)
			p.press("Delete the account")
			p.says("Nobody can undo this")
			p.see(`document.querySelector("dialog .danger").disabled`)
			p.type_("#account-typed", "Acme")
			p.fits()
			p.shot("delete")
			p.click(`dialog .danger`)
			p.says("its data is being erased")
		})
	}
	stub.sent("POST /api/v1/accounts/" + account + "/budgets")
	stub.sent("DELETE /api/v1/accounts/" + account)
	stub.askedFor("GET /api/v1/usage?", "accountId="+account)
	stub.askedFor("GET /api/v1/credits/ledger?", "accountId="+account)
	stub.askedFor("GET /api/v1/keys?", "accountId="+account)
	stub.sent("POST /api/v1/accounts/" + account + "/keys")
	stub.sent("DELETE /api/v1/keys/key_01k9zqd3m8w5x7y2c4b6n8p0ra")
	stub.sent("PATCH /api/v1/accounts/" + account)
}

func TestAProviderIsTestedInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	const test = `(() => { const b = document.querySelector('section[aria-label="%s"] header button'); if (!b || b.disabled) return false; b.click(); return true; })()`
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "providers", l)
			p.says("19,571")
			p.says("1.8 s")
			p.says("only the latest 20,000 requests are counted")
			p.says("Serves alpha-sonnet-5-5, alpha-opus-5-5.")
			p.says("The model's provider failed.")
			p.see(`document.querySelector('a[href="#/requests?id=req_01k9zqd3m8w5x7y2c4b6n8found"]') !== null`)
			p.see(fmt.Sprintf(test, "openai"))
			p.says("It responded.")
			p.see(fmt.Sprintf(test, "claude"))
			p.says("The provider rejects the key")
			p.says("HTTP 401")
			p.fits()
			p.shot("tested")
		})
	}
	stub.sent("POST /api/v1/providers/openai/test")
	stub.sent("POST /api/v1/providers/claude/test")
}

func TestVendorsInABrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, goodKey, "providers", l)
			p.says("The draft is not in force.")
			p.says("set in /etc/stoa/stoa.yaml:14")
			p.fits()
			p.shot("settings")
			p.press("Add provider")
			p.type_("#provider-key", "sk-1")
			p.fits()
			p.shot("add-provider")
			p.press("Save to the draft")
			p.see(`!document.querySelector("dialog")`)
			p.says("It is in the draft")
			p.press("Add provider")
			p.press("Use several keys")
			p.type_("#key-0-secret", "sk-1")
			p.type_("#key-1-secret", "sk-2")
			p.fits()
			p.shot("several-keys")
			p.press("Cancel")
			p.press("Routes")
			p.says("75 %")
			p.fits()
			p.shot("routes")
			p.see(`(() => { const row = [...document.querySelectorAll("section[aria-labelledby=settings] tr")].find((r) => r.innerText.includes("alpha")); row.querySelector("[popover]").showPopover(); row.querySelector("[role=menuitem]").click(); return true; })()`)
			p.says("Routes of the alpha models")
			p.fits()
			p.shot("family")
			p.press("Cancel")
			p.press("Names")
			p.says("auto chooses alpha-sonnet-5-5")
			p.fits()
			p.shot("names")
			p.press("Change")
			p.fits()
			p.press("Cancel")
			p.press("Add alias")
			p.type_("#alias-match", "gpt-4o")
			p.fits()
			p.press("Save to the draft")
			p.see(`!document.querySelector("dialog")`)
			p.press("Models and prices")
			p.says("Credits per million tokens.")
			p.press("Add model")
			p.type_("#model-id", "local-1")
			p.press("Add a provider")
			p.see(`(() => { for (const d of document.querySelectorAll("dialog details")) d.open = true; document.querySelector("dialog details .check input").click(); return true; })()`)
			p.says("Replies as JSON")
			p.fits()
			p.shot("model")
			p.press("Cancel")
			p.press("Edit")
			p.fits()
			p.shot("price")
			p.press("Save to the draft")
			p.see(`!document.querySelector("dialog")`)
			p.press("Plans")
			p.see(`/^Free\s+free$/.test(document.querySelector("[aria-label='Settings of plans'] tbody td").innerText.trim())`)
			p.press("Add plan")
			p.type_("#plan-id", "team")
			p.fits()
			p.press("Save to the draft")
			p.see(`!document.querySelector("dialog")`)
			p.press("Review and apply")
			p.says("providers.claude")
			p.says("4.00 / 16.00")
			p.press("Test claude")
			p.says("It responded.")
			p.says("12 models stop, which the sandbox answers now")
			p.says("auto will have no model")
			p.see(`[...document.querySelectorAll("dialog footer button, dialog button")].find((b) => b.innerText === "Apply").disabled`)
			p.see(`(() => { document.querySelector("#accept-effects").click(); return true; })()`)
			p.fits()
			p.shot("review")
			p.press("Apply")
			p.says("Version 8 is applied")
			p.press("History")
			p.says("families.alpha added")
			p.fits()
			p.says("first key")
			p.says("Errors in 24 h")
			p.says("12 without a provider")
			p.shot("history")
			p.press("Restore")
			p.says("Restore version 6?")
			p.fits()
			p.press("Cancel")
		})
	}
	stub.sent("PUT /api/v1/config/draft")
	stub.sent("POST /api/v1/config/draft/apply")
	stub.sent("POST /api/v1/config/draft/test")
}

func TestTheEndOfCreditsIsSaid(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	stub, srv := serve(t)
	for _, l := range usual(sizes()) {
		t.Run(l.name, func(t *testing.T) {
			p := signIn(t, browser, srv.URL, freeKey, "playground", l)
			p.says("This key is close to its daily limit")
			p.says("0.01 credits")
			p.see(`!/Out of credits|Credits are low/.test(document.body.innerText) && [...document.querySelectorAll("#model option")].some((o) => o.textContent === "gamma-6-luna: sandbox")`)
			p.fits()
			p.shot("little of the day")
			stub.mu.Lock()
			stub.bare = true
			stub.mu.Unlock()
			defer func() {
				stub.mu.Lock()
				defer stub.mu.Unlock()
				stub.bare = false
			}()
			for _, page := range []string{"agents", "sessions", "playground"} {
				p.do(chromedp.Navigate(srv.URL + "/console#/" + page))
				p.says("Out of credits")
				p.see(`document.querySelector('a[href="https://example.com/top-up"]') !== null && document.querySelector('a[href="mailto:help@example.com"]') !== null`)
			}
			p.see(`(() => { const n = document.querySelector(".left .notice").getBoundingClientRect(); return n.top >= 57 && n.bottom < innerHeight; })()`)
			// The notice does not cover the head: an empty conversation needs no scrolling, although the
			// settings beside it are higher than the window.
			if l.width > 1100 {
				p.do(chromedp.EmulateViewport(int64(l.width), 700))
				p.unfold("More settings")
				p.see(`document.querySelector(".choices").scrollHeight > 500 && document.documentElement.scrollHeight <= innerHeight`)
			}
			p.see(`document.querySelector(".head").getBoundingClientRect().top >= document.querySelector(".left .notice").getBoundingClientRect().bottom`)
			p.fits()
			p.shot("no credits")
			p.do(chromedp.Navigate(srv.URL + "/console#/keys"))
			p.says("website")
			p.see(`!/Out of credits|Credits are low/.test(document.body.innerText)`)
		})
	}
}

// TestProblemsOfRulesAreAtTheirFields opens a model whose price has wrong hours in the draft.
func TestProblemsOfRulesAreAtTheirFields(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t)
	hours := map[string]any{"zone": "UTC", "from": "12:00", "to": "09:00", "days": []string{"noday"}, "factor": 2}
	price := map[string]any{"input": 1_000_000, "output": 2_000_000, "cacheWriteLong": 1, "above": map[string]any{"tokens": 1000, "input": 2, "output": 11}, "hours": []any{hours}}
	st.c.Want(200, "PUT", "/api/v1/config/draft", map[string]any{"settings": map[string]any{"models": map[string]any{"local-1": map[string]any{"family": "local", "price": price}}}})
	p := signIn(t, browser, st.h.URL, st.h.Key, "providers", sizes()[0])
	p.says("The draft is not in force.")
	p.press("Models and prices")
	p.says("Credits per million tokens.")
	p.see(`(() => { const row = [...document.querySelectorAll("section[aria-labelledby=settings] tr")].find((r) => r.innerText.includes("local-1")); const edit = [...(row?.querySelectorAll("button") ?? [])].find((b) => b.innerText === "Edit"); edit?.click(); return !!edit; })()`)
	for field, problem := range map[string]string{
		"#model-above-output-problem": "11 is not a factor", "#model-hours-0-to-problem": "is not after", "#model-hours-0-days-problem": "is not a day", "#model-cacheWriteLong-problem": "use at least",
	} {
		p.see(`document.querySelector("` + field + `")?.innerText.includes("` + problem + `") && document.querySelector("` + field + `").checkVisibility()`)
	}
	p.see(`!document.querySelector("#model-hours-0-from-problem") && !document.querySelector("dialog .notice.failed")`)
}
