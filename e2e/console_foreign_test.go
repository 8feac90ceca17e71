package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// foreignAttempts tries to use the session of the console from a page of another origin, and returns a
// line for each attempt.
const foreignAttempts = `(async (base, account, key) => {
	const got = [];
	const attempt = async (name, path, init) => {
		try {
			const reply = await fetch(base + path, { credentials: "include", ...init });
			got.push(name + ": " + reply.type + " " + (await reply.text()));
		} catch {
			got.push(name + ": refused");
		}
	};
	const headers = { "Stoa-Account": account };
	await attempt("read", "/api/v1/users/me");
	await attempt("read with the account", "/api/v1/users/me", { headers });
	await attempt("read who is signed in", "/console/session");
	await attempt("change with the account", "/api/v1/keys", { method: "POST", body: '{"name":"evil","scopes":["usage:read"]}', headers });
	await attempt("change with JSON", "/api/v1/keys", { method: "POST", body: '{"name":"evil","scopes":["usage:read"]}', headers: { "Content-Type": "application/json" } });
	await attempt("sign out", "/console/session", { method: "DELETE" });
	await attempt("blind read", "/api/v1/users/me", { mode: "no-cors" });
	await attempt("blind change", "/api/v1/keys", { mode: "no-cors", method: "POST", body: '{"name":"evil","scopes":["usage:read"]}' });
	await attempt("blind sign-in", "/console/session", { mode: "no-cors", method: "POST", body: JSON.stringify({ key }) });
	await new Promise((done) => {
		const image = new Image();
		image.onload = image.onerror = done;
		image.src = base + "/api/v1/users/me";
	});
	for (const [path, name, value] of [["/api/v1/keys", '{"name":"evil","scopes":["usage:read"],"x":"', '"}'], ["/console/session", '{"key":"' + key + '","x":"', '"}'], ["/console/join", '{"token":"inv_x","x":"', '"}']]) {
		const frame = document.createElement("iframe");
		frame.name = "frame" + got.length;
		document.body.append(frame);
		const form = document.createElement("form");
		Object.assign(form, { method: "POST", action: base + path, target: frame.name, enctype: "text/plain" });
		const input = document.createElement("input");
		Object.assign(input, { name, value });
		form.append(input);
		document.body.append(form);
		const posted = new Promise((done) => (frame.onload = done));
		form.submit();
		await posted;
		got.push("form: sent");
	}
	return got.join("\n");
})`

// While the owner is signed in to the console, a page of another origin, of the same site (another
// port) or of another one, reads nothing and changes nothing.
func TestAForeignPageCannotUseTheConsole(t *testing.T) {
	t.Parallel()
	url, p := consoleInABrowser(t)
	account := p.text(`fetch("/console/session").then((r) => r.json()).then((who) => who.accounts[0].id)`)
	const keys = `fetch("/api/v1/keys", { headers: { "Stoa-Account": sessionStorage.account } }).then((r) => r.text())`
	p.see(fmt.Sprintf(`(sessionStorage.account = %q) !== ""`, account))
	before := p.text(keys)
	signedIn := p.text(`fetch("/console/session").then((r) => r.text())`)
	if !strings.Contains(before, "key_") || !strings.Contains(signedIn, "key_") {
		t.Fatalf("the console cannot read its keys: %s %s", before, signedIn)
	}

	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><body>evil</body>")
	}))
	t.Cleanup(evil.Close)
	for _, origin := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		p.do(chromedp.Navigate(origin))
		p.see(`document.title === "evil"`)
		got := p.text(fmt.Sprintf("%s(%q, %q, %q)", foreignAttempts, url, account, ownerKey))
		for line := range strings.SplitSeq(got, "\n") {
			if _, outcome, _ := strings.Cut(line, ": "); outcome != "refused" && outcome != "sent" && outcome != "opaque " {
				t.Errorf("%s: %s", origin, line)
			}
		}
		if n := strings.Count(got, "\n") + 1; n != 12 {
			t.Errorf("%s: %d attempts:\n%s", origin, n, got)
		}
	}

	p.do(chromedp.Navigate(url + "/console"))
	p.see(`!!document.querySelector(".rail")`) // still signed in
	if after := p.text(keys); withoutUse(after) != withoutUse(before) {
		t.Errorf("the keys have changed:\n%s\n%s", before, after)
	}
	if after := p.text(`fetch("/console/session").then((r) => r.text())`); after != signedIn {
		t.Errorf("another session is in force:\n%s\n%s", signedIn, after)
	}
}

// withoutUse removes the times of last use from a list of keys.
func withoutUse(list string) string {
	parts := strings.Split(list, `"lastUsedAt":`)
	for i := range parts[1:] {
		_, parts[i+1], _ = strings.Cut(parts[i+1], ",")
	}
	return strings.Join(parts, "")
}

// text returns the text that a promise in the page resolves to.
func (p page) text(promise string) string {
	p.t.Helper()
	out, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](promise, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}
