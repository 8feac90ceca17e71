package api_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// callback opens the page where people come back, and says something to its question if
// form is not nil.
func callback(t *testing.T, s *oauthSetup, answer, form url.Values, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.harness.URL+tool.CallbackPath+"?"+answer.Encode(), nil)
	if form != nil {
		req, err = http.NewRequestWithContext(t.Context(), "POST", s.harness.URL+tool.CallbackPath, strings.NewReader(form.Encode()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		req.Header.Set("Origin", "null") // as browsers send it from a page without referrer
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

var landingToken = regexp.MustCompile(`name="token" value="([\w-]{43})"`)

// asked opens the page and returns what confirms it.
func asked(t *testing.T, s *oauthSetup, answer url.Values) (token, page string) {
	t.Helper()
	resp, page := callback(t, s, answer, nil)
	found := landingToken.FindStringSubmatch(page)
	if resp.StatusCode != 200 || found == nil {
		t.Fatalf("%d %s", resp.StatusCode, page)
	}
	return found[1], page
}

func says(token, decision string) url.Values {
	return url.Values{"token": {token}, "decision": {decision}}
}

// TestAPersonIsAskedBeforeACodeIsUsed: the person who opens an authorize URL may not be
// the one who created it.
func TestAPersonIsAskedBeforeACodeIsUsed(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	const name = `<b>Evil & Co` + "\u202e"
	err := s.harness.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE accounts SET name = $2 WHERE id = $1`, s.harness.Account.ID, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	given := s.answer(t)
	resp, page := callback(t, s, given, nil)
	for header, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Content-Type": "text/html; charset=utf-8"} {
		if got := resp.Header.Get(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "script-src 'self'", "base-uri 'none'"} {
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, part) {
			t.Errorf("the policy is %s", policy)
		}
	}
	for _, want := range []string{
		"Connect notes?", s.demo.Origin, s.harness.Account.ID, "&lt;b&gt;Evil &amp; Co\\u{202e}", "will be able to use your access at " + s.demo.Origin,
		"<dt>You signed in at</dt><dd><code>" + s.demo.Origin + "</code>", "<dt>Its access comes from</dt><dd><code>" + s.demo.Origin + "</code>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q: %s", want, page)
		}
	}
	if resp.StatusCode != 200 || len(resp.Cookies()) != 0 || strings.Contains(page, given.Get("code")) || strings.Contains(page, given.Get("state")) {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Cookies(), page)
	}
	var rows []store.SealedRow
	if err := s.harness.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.SealedRows(t.Context(), "oauth_states", "", 10)
		return err
	}); err != nil || len(rows) != 1 || strings.Contains(rows[0].Sealed, given.Get("code")) {
		t.Errorf("%+v: %v", rows, err)
	}
	token := landingToken.FindStringSubmatch(page)[1]
	notYet := func(what string) {
		t.Helper()
		if c := status(t, s.Client, s.path); c.Status != "needs_authorization" || s.demo.Asked("authorization_code") != 0 {
			t.Fatalf("%s: %+v, %d codes are used", what, c, s.demo.Asked("authorization_code"))
		}
	}
	notYet("the page was opened")

	// Another page, another answer, another token, and the address once more: all nothing.
	for what, answer := range map[string]struct {
		form    url.Values
		headers []string
		status  int
	}{
		"another site":            {says(token, "connect"), []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.com"}, 403},
		"a sibling site":          {says(token, "connect"), []string{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example.com"}, 403},
		"an old browser, another": {says(token, "connect"), []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example.com"}, 403},
		"no decision":             {says(token, ""), nil, 400},
		"another decision":        {says(token, "yes"), nil, 400},
		"no token":                {says("", "connect"), nil, 400},
		"the state":               {says(given.Get("state"), "connect"), nil, 400},
		"the code":                {says(given.Get("code"), "connect"), nil, 400},
		"a body that is too long": {says(token+strings.Repeat("x", 5000), "connect"), nil, 400},
		"another content type":    {says(token, "connect"), []string{"Content-Type", "text/plain"}, 400},
	} {
		if resp, page := callback(t, s, nil, answer.form, answer.headers...); resp.StatusCode != answer.status {
			t.Errorf("%s: %d %s", what, resp.StatusCode, page)
		}
		notYet(what)
	}
	for what, again := range map[string]url.Values{"the address": given, "the token as a state": {"state": {token}, "code": {"x"}, "iss": given["iss"]}} {
		if resp, page := callback(t, s, again, nil); resp.StatusCode != 400 || landingToken.MatchString(page) {
			t.Errorf("%s again: %d %s", what, resp.StatusCode, page)
		}
	}
	notYet("the address was opened again")

	resp, page = callback(t, s, nil, says(token, "connect"))
	if resp.StatusCode != 200 || !strings.Contains(page, "is authorized") || s.demo.Asked("authorization_code") != 1 {
		t.Errorf("%d %s", resp.StatusCode, page)
	}
	s.Want(200, "POST", s.path+"/refresh", nil)
	for _, decision := range []string{"connect", "cancel"} {
		if resp, page := callback(t, s, nil, says(token, decision)); resp.StatusCode != 400 || s.demo.Asked("authorization_code") != 1 {
			t.Errorf("%s, once more: %d %s", decision, resp.StatusCode, page)
		}
	}
	if log := s.log.String(); strings.Contains(log, token) || strings.Contains(log, given.Get("code")) || strings.Contains(log, given.Get("state")) {
		t.Errorf("the log has what is secret: %s", log)
	}
}

func TestACancelledAuthorizationIsForgotten(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	token, _ := asked(t, s, s.answer(t))
	if resp, page := callback(t, s, nil, says(token, "cancel")); resp.StatusCode != 200 || !strings.Contains(page, "Nothing was connected") {
		t.Errorf("%d %s", resp.StatusCode, page)
	}
	if resp, _ := callback(t, s, nil, says(token, "connect")); resp.StatusCode != 400 {
		t.Errorf("%d", resp.StatusCode)
	}
	s.failed(t, "The person who signed in cancelled the authorization.")

	// What ends it between the question and its answer.
	for what, end := range map[string]func(){
		"forgotten tokens":     func() { s.Want(200, "POST", s.path+"/deauthorize", nil) },
		"another client":       func() { s.Want(200, "PATCH", s.path, object{"auth": object{"type": "oauth", "clientId": "another"}}) },
		"its time, which over": func() { expireStates(t, s.harness) },
	} {
		token, _ := asked(t, s, s.answer(t))
		end()
		if resp, page := callback(t, s, nil, says(token, "connect")); resp.StatusCode != 400 {
			t.Errorf("%s: %d %s", what, resp.StatusCode, page)
		}
	}
	if n := s.demo.Asked("authorization_code"); n != 0 {
		t.Errorf("%d codes are used", n)
	}

	// A forwarded address asks for its own connection, and for none if that was
	// deleted.
	given := s.answer(t)
	s.Want(204, "DELETE", s.path, nil)
	if resp, page := callback(t, s, given, nil); resp.StatusCode != 400 || landingToken.MatchString(page) {
		t.Errorf("%d %s", resp.StatusCode, page)
	}
}

// failed fails the test unless the owner reads at the connection why it is not authorized.
func (s *oauthSetup) failed(t *testing.T, why string) {
	t.Helper()
	if c := status(t, s.Client, s.path); c.Status != "needs_authorization" || c.LastError.IsNull() || !strings.HasPrefix(c.LastError.MustGet().Message, why) {
		t.Errorf("%+v", c)
	}
}

func expireStates(t *testing.T, h *apitest.Service) {
	t.Helper()
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE oauth_states SET expires_at = 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatAServerSaysOfARefusalIsData(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	given := s.answer(t)
	given.Del("code")
	given.Set("error", "access_denied")
	given.Set("error_description", "<script>alert(1)</script>\u202e"+strings.Repeat("x", 500))
	resp, page := callback(t, s, given, nil)
	if want := html.EscapeString(`access_denied: <script>alert(1)</script>\u{202e}` + "x"); resp.StatusCode != 400 || !strings.Contains(page, want) || strings.Contains(page, strings.Repeat("x", 300)) {
		t.Errorf("%d %s", resp.StatusCode, page)
	}
	s.failed(t, `The authorization server did not authorize the connection. It says: access_denied: <script>alert(1)</script>\u{202e}x`)

	// A connection that is authorized stays so, and an authorization clears the failure.
	s.authorize(t)
	if c := status(t, s.Client, s.path); c.Status != "unchecked" || !c.LastError.IsNull() {
		t.Errorf("%+v", c)
	}
	given = s.answer(t)
	given.Set("error", "access_denied")
	callback(t, s, given, nil)
	if c := status(t, s.Client, s.path); c.Status != "unchecked" || !c.LastError.IsNull() {
		t.Errorf("%+v", c)
	}

	// A code from another server has no effect.
	given = s.answer(t)
	given.Set("error", "call_this_number")
	given.Set("iss", "https://evil.example.com")
	if _, page := callback(t, s, given, nil); strings.Contains(page, "call_this_number") {
		t.Error(page)
	}
	given.Set("state", "none")
	if _, page := callback(t, s, given, nil); strings.Contains(page, "call_this_number") {
		t.Error(page)
	}
}

// TestRegistrationsFitTheirAddress registers the service from a public address and from
// this machine; the authorization server requires the matching application_type.
func TestRegistrationsFitTheirAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://agents.example.com", "http://127.0.0.1:1", "http://localhost:1"} {
		s := newOAuth(t, nil)
		s.tools.PublicURL = address
		var begun contract.AuthorizationStart
		s.Want(200, "POST", s.path+"/authorize", nil).JSON(&begun)
		if u, err := url.Parse(begun.AuthorizeURL); err != nil || !strings.HasPrefix(u.Query().Get("client_id"), "demo-") {
			t.Errorf("%s: %s, %v", address, begun.AuthorizeURL, err)
		}
	}
}

// TestTheClientDocumentIsExact: authorization servers read it at the client id, without a
// key, and compare its members.
func TestTheClientDocumentIsExact(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	fetch := func(method string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.harness.URL+tool.DocumentPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	s.tools.PublicURL = "https://agents.example.com/"
	const want = `{"application_type":"web","client_id":"https://agents.example.com/oauth/client.json","client_name":"Stoa","grant_types":["authorization_code","refresh_token"],` +
		`"redirect_uris":["https://agents.example.com/oauth/callback"],"response_types":["code"],"token_endpoint_auth_method":"none"}`
	resp, text := fetch("GET")
	if resp.StatusCode != 200 || text != want || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Cache-Control") != "public, max-age=300" {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
	}
	if resp, text := fetch("HEAD"); resp.StatusCode != 200 || text != "" || resp.ContentLength != int64(len(want)) {
		t.Errorf("%d %d %s", resp.StatusCode, resp.ContentLength, text)
	}
	if resp, _ := fetch("POST"); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}

	// A server that supports such a document receives its address, without a
	// registration. If it cannot read the document, because the service is local, a
	// client is registered.
	client := func() string {
		t.Helper()
		var begun contract.AuthorizationStart
		s.Want(200, "POST", s.path+"/authorize", nil).JSON(&begun)
		u, err := url.Parse(begun.AuthorizeURL)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("client_id")
	}
	s.demo.Metadata = func(m map[string]any) { m["client_id_metadata_document_supported"] = true }
	if id := client(); id != "https://agents.example.com/oauth/client.json" {
		t.Errorf("the client is %s", id)
	}
	s.tools.PublicURL = "http://127.0.0.1:1"
	if id := client(); !strings.HasPrefix(id, "demo-") {
		t.Errorf("the client is %s", id)
	}
	s.Want(200, "PATCH", s.path, object{"auth": object{"type": "oauth", "clientId": "given"}})
	if id := client(); id != "given" {
		t.Errorf("the client is %s", id)
	}
	for _, address := range []string{"", "http://agents.example.com"} {
		s.tools.PublicURL = address
		if resp, text := fetch("GET"); resp.StatusCode != 404 {
			t.Errorf("%q: %d %s", address, resp.StatusCode, text)
		}
		if e := s.Want(422, "POST", s.path+"/authorize", nil).Error(); e.Code != string(stoa.CodePublicURLRequired) || !strings.Contains(e.Message, "publicUrl") {
			t.Errorf("%q: %+v", address, e)
		}
	}
}
