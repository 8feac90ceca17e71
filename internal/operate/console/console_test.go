package console_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"stoa/internal/base/audit"
	"stoa/internal/base/auth"
	"stoa/internal/base/config"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Both(m).Run()) }

// A reply is an answer of the service.
type reply struct {
	*http.Response
	body string
}

func (r reply) code() string {
	var e struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal([]byte(r.body), &e)
	return e.Error.Code
}

// ask sends a request with headers, each as "Name: value".
func ask(t *testing.T, h *apitest.Service, method, path, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range headers {
		name, value, _ := strings.Cut(text, ": ")
		req.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res, string(raw)}
}

func (r reply) want(t *testing.T, what string, status int, code stoa.Code) {
	t.Helper()
	if r.StatusCode != status || r.code() != string(code) {
		t.Errorf("%s: %d %s, want %d %s: %s", what, r.StatusCode, r.code(), status, code, r.body)
	}
}

// signIn signs in with a key and returns the cookie that the service sets.
func signIn(t *testing.T, h *apitest.Service, key string, headers ...string) *http.Cookie {
	t.Helper()
	r := ask(t, h, "POST", "/console/session", `{"key":"`+key+`"}`, headers...)
	if r.StatusCode != http.StatusCreated || len(r.Cookies()) != 1 || strings.Contains(r.body, r.Cookies()[0].Value) {
		t.Fatalf("sign in: %d %s %v", r.StatusCode, r.body, r.Header)
	}
	return r.Cookies()[0]
}

func TestSignInWithAKey(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	c := signIn(t, h, h.Key)
	if c.Name != "stoa-session" || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*60*60 || len(c.Value) != 43 {
		t.Errorf("the cookie is %v", c)
	}
	cookie, account := "Cookie: stoa-session="+c.Value, "Stoa-Account: "+h.Account.ID
	r := ask(t, h, "GET", "/console/session", "", cookie)
	if !strings.Contains(r.body, `"signedIn":true,"person":null,"accounts":[{"id":"`+h.Account.ID+`","name":"test","role":null}],"keyId":"key_`) || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("signed in: %s", r.body)
	}
	r = ask(t, h, "GET", "/console/session", "")
	if strings.TrimSpace(r.body) != `{"signedIn":false,"person":null,"accounts":[],"keyId":null,"expiresAt":null,"signIn":[]}` || r.StatusCode != 200 {
		t.Errorf("not signed in: %s", r.body)
	}
	const me = "/api/v1/users/me"
	other, key := h.NewKey(h.Account.ID, "usage:read")
	ask(t, h, "GET", me, "", cookie, account).want(t, "cookie and account", 200, "")
	ask(t, h, "GET", me, "", cookie).want(t, "no account", 401, stoa.CodeUnauthorized)
	ask(t, h, "GET", me, "", account).want(t, "no cookie", 401, stoa.CodeUnauthorized)
	ask(t, h, "GET", me, "", cookie, account, account).want(t, "two accounts", 401, stoa.CodeUnauthorized)
	ask(t, h, "GET", me, "", cookie, "Stoa-Account: acc_other").want(t, "another account", 401, stoa.CodeUnauthorized)
	ask(t, h, "GET", me, "", cookie+"; stoa-session="+strings.Repeat("a", 43), account).want(t, "two cookies", 401, stoa.CodeUnauthorized)
	ask(t, h, "GET", me, "", "Cookie: __Host-stoa="+c.Value, account).want(t, "the cookie of https", 401, stoa.CodeUnauthorized)
	ask(t, h, "GET", me, "", cookie, account, "Authorization: Bearer sk_wrong").want(t, "a wrong key", 401, stoa.CodeUnauthorized)
	ask(t, h, "GET", me, "", cookie, account, "x-api-key: sk_wrong").want(t, "a wrong x-api-key", 401, stoa.CodeUnauthorized)
	if r := ask(t, h, "GET", me, "", cookie, account, "Authorization: Bearer "+other); !strings.Contains(r.body, key.ID) {
		t.Errorf("a key was not preferred to the cookie: %s", r.body)
	}
	ask(t, h, "PUT", "/console/session", "", cookie).want(t, "another method", 405, stoa.CodeMethodNotAllowed)

	r = ask(t, h, "DELETE", "/console/session", "", cookie)
	if r.StatusCode != 204 || len(r.Cookies()) != 2 || r.Cookies()[0].MaxAge != -1 || r.Cookies()[0].Value != "" || r.Cookies()[1].Name != rest.SignedOutCookie {
		t.Errorf("sign out: %d %v", r.StatusCode, r.Header)
	}
	ask(t, h, "GET", me, "", cookie, account).want(t, "after signing out", 401, stoa.CodeUnauthorized)

	var actions []string
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		_, list, err := tx.People().AuditRows(t.Context(), h.Account.ID, 0, 100)
		for _, e := range list {
			actions = append(actions, e.Action)
		}
		return err
	}); err != nil || !strings.Contains(strings.Join(actions, " "), "signIn") {
		t.Errorf("the audit log has %v: %v", actions, err)
	}
}

// Reads of the console have a limit of their own, so that a page neither stops at the limit of the
// key nor takes calls from it.
func TestReadsOfTheConsoleCountSeparately(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	var created struct{ Secret string }
	r := ask(t, h, "POST", "/api/v1/keys", `{"name":"slow","requestsPerMinute":2}`, "Authorization: Bearer "+h.Key)
	if err := json.Unmarshal([]byte(r.body), &created); err != nil || r.StatusCode != 201 {
		t.Fatal(r.StatusCode, r.body, err)
	}
	cookie, account, bearer := "Cookie: stoa-session="+signIn(t, h, created.Secret).Value, "Stoa-Account: "+h.Account.ID, "Authorization: Bearer "+created.Secret
	const me = "/api/v1/users/me"
	for range 10 {
		ask(t, h, "GET", me, "", cookie, account).want(t, "a read of the console", 200, "")
	}
	ask(t, h, "GET", me, "", bearer).want(t, "the first request of the key", 200, "")
	ask(t, h, "POST", "/api/v1/webhooks", "{}", cookie, account).want(t, "a change in the console", 400, stoa.CodeMissingParameter)
	ask(t, h, "POST", "/api/v1/webhooks", "{}", cookie, account).want(t, "a change beyond the limit", 429, stoa.CodeRateLimit)
	ask(t, h, "GET", me, "", bearer).want(t, "a request beyond the limit", 429, stoa.CodeRateLimit)
	ask(t, h, "GET", me, "", cookie, account).want(t, "a read after that", 200, "")
	status := 200
	for n := 11; status == 200 && n <= 1300; n++ {
		status = ask(t, h, "GET", me, "", cookie, account).StatusCode
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("1,300 reads of the console end with %d", status)
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	cookie, account := "Cookie: stoa-session="+signIn(t, h, h.Key).Value, "Stoa-Account: "+h.Account.ID
	for _, foreign := range [][]string{{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Origin: https://evil.example"}} {
		with := append([]string{cookie, account}, foreign...)
		ask(t, h, "GET", "/api/v1/users/me", "", with...).want(t, foreign[0], 403, stoa.CodeCrossOrigin)
		ask(t, h, "POST", "/api/v1/keys", `{"name":"x"}`, with...).want(t, foreign[0], 403, stoa.CodeCrossOrigin)
		ask(t, h, "POST", "/console/session", `{"key":"`+h.Key+`"}`, foreign...).want(t, foreign[0], 403, stoa.CodeCrossOrigin)
		ask(t, h, "DELETE", "/console/session", "", with...).want(t, foreign[0], 403, stoa.CodeCrossOrigin)
		ask(t, h, "GET", "/console/session", "", with...).want(t, foreign[0], 403, stoa.CodeCrossOrigin)
	}
	ask(t, h, "POST", "/console/session", `{"key":"`+h.Key+`"}`, "Content-Type: text/plain").want(t, "a form", 415, stoa.CodeMediaType)
	ask(t, h, "GET", "/api/v1/users/me", "", cookie, account, "Sec-Fetch-Site: same-origin", "Origin: "+h.URL).want(t, "the console", 200, "")
	for _, path := range []string{"/api/v1/users/me", "/console/session"} {
		r := ask(t, h, "OPTIONS", path, "", "Origin: https://evil.example", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: stoa-account")
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: a preflight is answered with %s", path, name)
			}
		}
	}
}

func TestTheCookieOfHTTPS(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{PublicURL: "https://stoa.example"})
	c := signIn(t, h, h.Key, "Origin: https://stoa.example")
	if c.Name != "__Host-stoa" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie is %v", c)
	}
	account := "Stoa-Account: " + h.Account.ID
	ask(t, h, "GET", "/api/v1/users/me", "", "Cookie: __Host-stoa="+c.Value, account, "Origin: https://stoa.example").want(t, "with the prefix", 200, "")
	ask(t, h, "GET", "/api/v1/users/me", "", "Cookie: stoa-session="+c.Value, account).want(t, "without the prefix", 401, stoa.CodeUnauthorized)
}

func TestWrongKeysAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	for range 30 {
		ask(t, h, "POST", "/console/session", `{"key":"`+auth.Mint()+`"}`).want(t, "a wrong key", 401, stoa.CodeUnauthorized)
		ask(t, h, "GET", "/api/v1/users/me", "", "Cookie: stoa-session="+strings.Repeat("a", 43), "Stoa-Account: "+h.Account.ID).want(t, "a wrong session", 401, stoa.CodeUnauthorized)
	}
	ask(t, h, "POST", "/console/session", `{"key":"`+auth.Mint()+`"}`).want(t, "one more", 429, stoa.CodeRateLimit)
	if err := h.SignIn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var failed []string
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		_, list, err := tx.People().AuditRows(t.Context(), audit.Service, 0, 100)
		for _, e := range list {
			failed = append(failed, e.Action+" "+e.After)
		}
		return err
	}); err != nil || strings.Join(failed, "\n") != `sign_in.failed {"count":31,"reason":"Unauthorized"}` {
		t.Errorf("the audit log has %q: %v", failed, err)
	}
	signIn(t, h, h.Key)
	ask(t, h, "POST", "/console/session", `{"key":1}`).want(t, "not JSON of a key", 400, stoa.CodeInvalidJSON)
}

// A stored reply with a secret belongs to the session that created the object.
func TestAReplyWithASecretIsSealedForTheSession(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	first, second := signIn(t, h, h.Key), signIn(t, h, h.Key)
	create := func(c *http.Cookie) reply {
		return ask(t, h, "POST", "/api/v1/keys", `{"name":"ci","scopes":["usage:read"]}`, "Cookie: stoa-session="+c.Value, "Stoa-Account: "+h.Account.ID, "Content-Type: application/json", "Idempotency-Key: once")
	}
	made := create(first)
	made.want(t, "create a key", 201, "")
	if again := create(first); again.StatusCode != 201 || again.body != made.body {
		t.Errorf("a repetition: %d %s", again.StatusCode, again.body)
	}
	create(second).want(t, "another session", 422, stoa.CodeIdempotencyReused)
}

func TestAStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	cookie, account := "Cookie: stoa-session="+signIn(t, h, h.Key).Value, "Stoa-Account: "+h.Account.ID
	owner := h.Client(t)
	var space, agent, session struct{ ID string }
	owner.Want(201, "POST", "/api/v1/spaces", map[string]any{"name": "s"}).JSON(&space)
	owner.Want(201, "POST", "/api/v1/api-agents", map[string]any{"spaceId": space.ID, "name": "a", "instructions": "x"}).JSON(&agent)
	owner.Want(202, "POST", "/api/v1/api-agents/"+agent.ID+"/sessions", map[string]any{"message": "x"}).JSON(&session)

	req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+"/api/v1/api-agents/"+agent.ID+"/sessions/"+session.ID+"/events?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cookie", strings.TrimPrefix(cookie, "Cookie: "))
	req.Header.Set("Stoa-Account", h.Account.ID)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v %v", res, err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() {
		t.Fatalf("the stream has no event: %v", lines.Err())
	}
	ask(t, h, "DELETE", "/console/session", "", cookie, account)
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end: %v", err)
	}
}

func TestAPersonSeesTheirAccounts(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{SignIn: []config.OIDC{{Name: "corp", Issuer: "https://id.example.com", ClientID: "stoa"}}})
	m := h.NewMember(h.Account.ID, stoa.RoleViewer, "")
	var secret string
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) (err error) {
		secret, err = h.Keys.BeginSession(t.Context(), tx, stoa.ConsoleSession{PersonID: m.PersonID})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	cookie, account := "Cookie: stoa-session="+secret, "Stoa-Account: "+h.Account.ID
	r := ask(t, h, "GET", "/console/session", "", cookie)
	for _, part := range []string{
		`"signedIn":true,"person":{"id":"` + m.PersonID + `",`, `"accounts":[{"id":"` + h.Account.ID + `","name":"test","role":"viewer"}],"keyId":null,`,
		`"signIn":[{"name":"corp","url":"/signin/corp"}]`,
	} {
		if !strings.Contains(r.body, part) {
			t.Errorf("%s is missing in %s", part, r.body)
		}
	}
	if r := ask(t, h, "GET", "/api/v1/users/me", "", cookie, account); !strings.Contains(r.body, m.KeyID) {
		t.Errorf("the key of the member is missing in %s", r.body)
	}
	ask(t, h, "POST", "/api/v1/keys", `{"name":"x"}`, cookie, account).want(t, "a viewer creates a key", 403, stoa.CodeScope)
	h.Client(t).Want(204, "DELETE", "/api/v1/members/"+m.PersonID, nil)
	ask(t, h, "GET", "/api/v1/users/me", "", cookie, account).want(t, "no member any more", 401, stoa.CodeUnauthorized)
	if r := ask(t, h, "GET", "/console/session", "", cookie); !strings.Contains(r.body, `"signedIn":false,"person":null`) {
		t.Errorf("still signed in: %s", r.body)
	}
}
