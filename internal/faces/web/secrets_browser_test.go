package web_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
)

// everywhere checks the current page in the usual sizes and themes.
func (p *tab) everywhere(name string) {
	p.t.Helper()
	all := usual(sizes())
	for i := range all {
		l := all[len(all)-1-i] // the first one stays
		p.as(l)
		p.fits()
		p.shot(name + " " + l.name)
	}
}

// keeps reports whether the page, one of its fields or what the browser keeps has a
// text.
func (p *tab) keeps(text string) bool {
	p.t.Helper()
	quoted, _ := json.Marshal(text)
	return eval[bool](p, `[document.documentElement.outerHTML, ...[...document.querySelectorAll("input, textarea")].map((e) => e.value), JSON.stringify(localStorage), JSON.stringify(sessionStorage), location.href].some((t) => t.includes(`+string(quoted)+`))`)
}

// TestSecretsInTheConsole stores a secret of each kind, replaces and deletes.
func TestSecretsInTheConsole(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	st := newStage(t, onLoopback)
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	var other contract.Space
	st.c.Want(201, "POST", "/api/v1/spaces", map[string]any{"name": "Workshop"}).JSON(&other)
	p := signIn(t, browser, st.h.URL, st.h.Key, "connections/secrets", sizes()[0])
	p.allow("400", "409", "422")
	p.says("No secrets")

	// The error is shown at its field, and the input is kept.
	p.press("Store a secret")
	p.fill("#secret-name", "first")
	p.fill("#secret-origin", server.URL+"/path")
	p.fill("#secret-value", "correct-horse-battery")
	p.press("Store it")
	p.see(`document.querySelector("#secret-origin-problem")?.innerText.includes("must consist of scheme, host and port") && document.querySelector("#secret-value").value.length === 21`)
	p.fill("#secret-origin", server.URL)
	p.choose("#secret-kind", "basic")
	p.fill("#secret-user-name", "a:b")
	p.says("A user name cannot contain a colon.")
	p.see(`document.querySelector("dialog footer .main").disabled`)
	p.everywhere("a form with what is wrong")
	p.press("Cancel")

	soon := time.Now().Add(48 * time.Hour).Truncate(time.Minute)
	for _, c := range []struct {
		kind, called, value, stored string
		header, parameter           string
	}{
		{kind: "bearer", value: "correct-horse-bearer"},
		{kind: "header", called: "X-Api-Key", value: "correct-horse-header", header: "X-Api-Key"},
		{kind: "basic", value: "correct-horse-basic-", stored: "…sic-"},
		{kind: "query", called: "api_key", value: "correct-horse-query", parameter: "api_key"},
		{kind: "token", value: "correct-horse-token-"},
	} {
		p.press("Store a secret")
		p.fill("#secret-name", "of kind "+c.kind)
		p.fill("#secret-origin", server.URL)
		p.choose("#secret-kind", c.kind)
		p.see(`(document.querySelector("#secret-called") !== null) === ` + map[bool]string{true: "true", false: "false"}[c.called != ""])
		if c.called != "" {
			p.fill("#secret-called", c.called)
		}
		if c.kind == "basic" {
			p.fill("#secret-user-name", "ada")
		}
		p.fill("#secret-value", c.value)
		if c.kind == "query" {
			p.pick("#secret-space", "Workshop")
			p.fill("#secret-user", "user-7")
			p.fill("#secret-expires", soon.Local().Format("2006-01-02T15:04"))
			p.everywhere("a form")
		}
		p.press("Store it")
		p.see(`!document.querySelector("dialog") && document.querySelector("table")?.innerText.includes("of kind ` + c.kind + `")`)
		if p.keeps("correct-horse") {
			t.Fatalf("the page holds the value of the kind %s", c.kind)
		}
		got := st.secret(t, "of kind "+c.kind)
		if got.Kind != c.kind || orEmpty(got.HeaderName.Get()) != c.header || orEmpty(got.ParameterName.Get()) != c.parameter || got.Origin != server.URL {
			t.Errorf("%+v", got)
		}
		if expires, _ := got.ExpiresAt.Get(); c.kind == "query" && (orEmpty(got.SpaceID.Get()) != other.ID || orEmpty(got.ExternalUserID.Get()) != "user-7" || !time.Time(expires).Equal(soon)) {
			t.Errorf("%+v", got)
		}
	}

	// The list shows the purpose of each.
	bearer, token := st.secret(t, "of kind bearer"), st.secret(t, "of kind token")
	auth := map[string]any{"type": "oauth", "grant": "client_credentials", "clientId": "demo", "clientSecretId": token.ID}
	st.c.Want(201, "POST", "/api/v1/connections", map[string]any{"kind": "mcp", "name": "notes", "url": server.URL, "auth": auth})
	st.c.Want(201, "POST", "/api/v1/connections", map[string]any{"kind": "mcp", "name": "shop", "url": server.URL, "auth": map[string]any{"type": "secret", "secretId": bearer.ID}})
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	st.c.Want(201, "POST", "/api/v1/secrets", map[string]any{"name": "of last year", "kind": "bearer", "value": "gone", "origin": server.URL, "expiresAt": past})
	p.open("connections")
	p.says("Connect a server")
	p.open("connections/secrets")
	p.says("notes (its OAuth client)")
	for _, row := range [][]string{
		{"of kind query", "as the parameter api_key", "sessions of user-7", "space Workshop", "expires", "never"},
		{"of kind bearer", "shop", "as Authorization: Bearer"},
		{"of kind header", "as X-Api-Key", "no connection", "all spaces"},
		{"of last year", "expired"},
	} {
		for _, text := range row {
			p.see(`[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.includes("` + row[0] + `") && r.innerText.includes("` + text + `"))`)
		}
	}
	p.everywhere("list")

	// A new value has its own expiry; one that is used cannot be deleted.
	p.row("of last year", "Replace")
	p.fill("#secret-value", "another-value-of-it")
	p.everywhere("replace")
	p.press("Replace the value")
	p.see(`!document.querySelector("dialog") && !document.querySelector("table").innerText.includes("expired")`)
	if got := st.secret(t, "of last year"); got.Version != 2 || got.ExpiresAt.IsSpecified() && !got.ExpiresAt.IsNull() || p.keeps("another-value") {
		t.Errorf("%+v", got)
	}
	p.row("of kind bearer", "Delete")
	p.see(`document.querySelector("dialog .notice")?.innerText.includes("Give another secret, or none, to shop.")`)
	p.says("1 connection uses it and must be changed first.")
	p.see(`document.querySelector("dialog footer .danger").disabled`)
	st.c.WantError("secret_in_use", "DELETE", "/api/v1/secrets/"+st.secret(t, "of kind bearer").ID, nil)
	p.everywhere("in use")
	p.press("Keep it")
	p.row("of last year", "Delete")
	p.press("Delete it")
	p.press("Undo")
	p.says("Undone: nothing was sent")
	st.secret(t, "of last year") // is still there
	p.row("of last year", "Delete")
	p.press("Delete it")
	p.see(`!document.querySelector("dialog") && !document.querySelector("table").innerText.includes("of last year")`)

	// A read-only key shows the list without changes.
	reader, _ := st.h.NewKey(st.h.Account.ID, "connections:read")
	p = signIn(t, browser, st.h.URL, reader, "connections/secrets", sizes()[2])
	p.says("of kind query")
	p.see(`![...document.querySelectorAll("button")].some((b) => ["Store a secret", "Replace", "Delete"].includes(b.innerText.trim()))`)
}

// secret is the secret of a name.
func (st stage) secret(t *testing.T, name string) (found contract.Secret) {
	t.Helper()
	var list contract.SecretList
	st.c.Want(200, "GET", "/api/v1/secrets", nil).JSON(&list)
	for _, s := range list.Data {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no secret %q", name)
	return found
}

// row presses a button in the row of a table that has a text.
func (p *tab) row(text, button string) {
	p.t.Helper()
	p.see(`(() => { const r = [...document.querySelectorAll("tbody tr")].find((r) => r.innerText.includes("` + text + `")); const b = [...(r?.querySelectorAll("button") ?? [])].find((b) => b.innerText.trim() === "` + button + `"); b?.click(); return !!b; })()`)
}

func orEmpty(text string, err error) string {
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}
