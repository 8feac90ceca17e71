package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/oauth"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakestripe"
	"stoa/internal/testkit/storetest"
)

// An oauthSetup is a service, an authorization server, and a connection to the server of
// tools behind it.
type oauthSetup struct {
	*apitest.Client
	harness *apitest.Service
	demo    *oauth.Demo
	tools   *tool.Tools
	log     *lockedLog
	path    string // of the connection
}

type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newOAuth(t *testing.T, auth object) *oauthSetup {
	s := &oauthSetup{demo: &oauth.Demo{Life: time.Hour, Next: mcp.Demo(false)}, log: &lockedLog{}}
	server := httptest.NewServer(s.demo)
	t.Cleanup(server.Close)
	s.demo.Origin = server.URL
	s.harness = start(t, apitest.Config{
		Payments: fakestripe.New(t).Payments(), Allow: []string{"127.0.0.1"}, Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Server: func(a *api.Server) { s.tools = a.Agents.Tools; a.Agents.Tools.PublicURL = "http://127.0.0.1:1" },
	})
	s.Client = s.harness.Client(t)
	if auth == nil {
		auth = object{"type": "oauth"}
	}
	var made contract.Connection
	s.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "notes", "url": server.URL + "/mcp", "auth": auth}).JSON(&made)
	s.path = "/api/v1/connections/" + made.ID
	return s
}

// answer opens the address where a person authorizes, and returns what the server sends
// the person back with.
func (s *oauthSetup) answer(t *testing.T) url.Values {
	t.Helper()
	var begun contract.AuthorizationStart
	s.Want(200, "POST", s.path+"/authorize", nil).JSON(&begun)
	if at := s.demo.Origin; begun.Issuer != at || begun.SignInOrigin != at || begun.TokenOrigin != at {
		t.Errorf("the authorization names %+v", begun)
	}
	return follow(t, begun.AuthorizeURL)
}

func follow(t *testing.T, address string) url.Values {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if to.Path != tool.CallbackPath {
		t.Fatalf("people are sent to %s", to)
	}
	return to.Query()
}

// land brings an answer back, and connects if that is asked.
func (s *oauthSetup) land(t *testing.T, answer url.Values) tool.Landing {
	l := s.tools.Land(t.Context(), answer)
	if l.Question != nil {
		return s.tools.Confirm(t.Context(), l.Question.Token, true)
	}
	return l
}

func (s *oauthSetup) authorize(t *testing.T) {
	t.Helper()
	if l := s.land(t, s.answer(t)); !l.Authorized {
		t.Fatalf("%+v", l)
	}
}

func TestAConnectionIsAuthorized(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	if c := status(t, s.Client, s.path); c.Status != "needs_authorization" || c.Auth.Type != "oauth" || c.Auth.Grant.MustGet() != "authorization_code" {
		t.Errorf("%+v", c)
	}
	s.Want(502, "POST", s.path+"/refresh", nil)
	s.authorize(t)
	s.Want(200, "POST", s.path+"/refresh", nil)
	review(t, s.Client, s.path, "search_notes")
	var out contract.ConnectionToolTest
	s.Want(200, "POST", s.path+"/tools/test", object{"name": "search_notes", "arguments": object{"word": "demo"}}).JSON(&out)
	if out.Outcome != "ok" {
		t.Errorf("%+v", out)
	}

	// A token that the server takes no more is replaced, and the call is made.
	s.demo.Revoke(false)
	if s.Want(200, "POST", s.path+"/tools/test", object{"name": "search_notes", "arguments": object{"word": "demo"}}).JSON(&out); out.Outcome != "ok" || s.demo.Asked("refresh_token") != 1 {
		t.Errorf("%+v after %d refreshes", out, s.demo.Asked("refresh_token"))
	}

	// Where it cannot be replaced, the connection needs authorization.
	s.demo.Revoke(true)
	s.Want(200, "POST", s.path+"/tools/test", object{"name": "search_notes", "arguments": object{"word": "demo"}}).JSON(&out)
	if c := status(t, s.Client, s.path); out.Outcome == "ok" || c.Status != "needs_authorization" {
		t.Errorf("%+v %+v", out, c)
	}
	s.authorize(t)
	s.Want(200, "POST", s.path+"/refresh", nil)
	s.Want(200, "POST", s.path+"/deauthorize", nil)
	s.Want(502, "POST", s.path+"/refresh", nil)

	if log := s.log.String(); strings.Contains(log, "access-") || strings.Contains(log, "refresh-") {
		t.Errorf("a token is in the log: %s", log)
	}
}

func TestAnswersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	good := s.answer(t)
	changed := func(answer url.Values, name, value string) url.Values {
		out := url.Values{}
		for k, v := range answer {
			out[k] = v
		}
		if out.Set(name, value); value == "" {
			out.Del(name)
		}
		return out
	}
	if l := s.land(t, changed(good, "state", strings.Repeat("x", 43))); l.Authorized {
		t.Error("another state is taken")
	}
	if l := s.land(t, good); !l.Authorized {
		t.Fatalf("%+v", l)
	}
	if l := s.land(t, good); l.Authorized || s.demo.Asked("authorization_code") != 1 {
		t.Errorf("a state is taken twice: %+v", l)
	}
	for name, answer := range map[string]func(url.Values) url.Values{
		"another issuer": func(v url.Values) url.Values { return changed(v, "iss", "https://evil.example.com") },
		"no issuer":      func(v url.Values) url.Values { return changed(v, "iss", "") },
		"two issuers": func(v url.Values) url.Values {
			v = changed(v, "a", "b")
			v["iss"] = append(v["iss"], v["iss"][0])
			return v
		},
		"an error": func(v url.Values) url.Values { return changed(v, "error", "access_denied") },
	} {
		given := s.answer(t)
		if l := s.land(t, answer(given)); l.Authorized || s.demo.Asked("authorization_code") != 1 {
			t.Errorf("%s: %+v", name, l)
		}
		if l := s.land(t, given); l.Authorized { // the state is used up
			t.Errorf("%s, and then the right answer: %+v", name, l)
		}
	}
	given := s.answer(t)
	s.Want(200, "PATCH", s.path, object{"url": s.demo.Origin + "/other"})
	if l := s.land(t, given); l.Authorized {
		t.Error("a connection that was changed is authorized")
	}
	given = s.answer(t)
	err := s.harness.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE oauth_states SET expires_at = 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if l := s.land(t, given); l.Authorized {
		t.Error("a state is taken after its time")
	}
}

func TestAuthorizationServersAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(map[string]any)
		status int
		code   stoa.Code
	}{
		"without PKCE":        {func(m map[string]any) { delete(m, "code_challenge_methods_supported") }, 502, stoa.CodeToolServer},
		"with another issuer": {func(m map[string]any) { m["issuer"] = "https://accounts.example.com" }, 502, stoa.CodeToolServer},
		"with a script":       {func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }, 502, stoa.CodeToolServer},
		"without TLS":         {func(m map[string]any) { m["authorization_endpoint"] = "http://accounts.example.com/" }, 502, stoa.CodeToolServer},
		"at an inner address": {func(m map[string]any) {
			m["registration_endpoint"], m["token_endpoint"] = "http://169.254.169.254/latest", "http://169.254.169.254/token"
		}, 422, stoa.CodeAddressNotAllowed},
		"of another site":        {func(m map[string]any) { m["authorization_endpoint"] = "https://accounts.example.com/authorize" }, 502, stoa.CodeToolServer},
		"registered elsewhere":   {func(m map[string]any) { m["registration_endpoint"] = "https://accounts.example.com/register" }, 502, stoa.CodeToolServer},
		"where nobody registers": {func(m map[string]any) { delete(m, "registration_endpoint") }, 502, stoa.CodeToolServer},
	} {
		s := newOAuth(t, nil)
		s.demo.Metadata = c.change
		if e := s.Want(c.status, "POST", s.path+"/authorize", nil).Error(); e.Code != string(c.code) {
			t.Errorf("%s: %+v", name, e)
		}
	}

	// A server whose refusal leads to an inner address.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://10.1.2.3/.well-known/oauth-protected-resource"`)
		w.WriteHeader(401)
	}))
	t.Cleanup(server.Close)
	s := newOAuth(t, nil)
	s.Want(200, "PATCH", s.path, object{"url": server.URL})
	if e := s.Want(422, "POST", s.path+"/authorize", nil).Error(); e.Code != string(stoa.CodeAddressNotAllowed) {
		t.Errorf("%+v", e)
	}
	s.tools.PublicURL = ""
	if e := s.Want(422, "POST", s.path+"/authorize", nil).Error(); e.Code != string(stoa.CodePublicURLRequired) {
		t.Errorf("%+v", e)
	}
	s.Want(200, "PATCH", s.path, object{"auth": object{"type": "none"}})
	s.Want(409, "POST", s.path+"/authorize", nil)
}

func TestAClientStandsForItself(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	var secret contract.Secret
	s.Want(201, "POST", "/api/v1/secrets", object{"name": "client", "kind": "token", "value": "demo-secret", "origin": s.demo.Origin}).JSON(&secret)
	auth := object{"type": "oauth", "grant": "client_credentials", "clientId": "demo", "clientSecretId": secret.ID}
	s.Want(200, "PATCH", s.path, object{"auth": auth})
	s.Want(200, "POST", s.path+"/refresh", nil)
	if n := s.demo.Asked("client_credentials"); n != 1 {
		t.Errorf("%d requests for a token", n)
	}
	s.demo.Revoke(true)
	s.Want(200, "POST", s.path+"/refresh", nil)
	s.Want(409, "DELETE", "/api/v1/secrets/"+secret.ID, nil)
	s.Want(200, "GET", "/api/v1/secrets/"+secret.ID, nil).JSON(&secret)
	if len(secret.UsedBy) != 1 || secret.UsedBy[0].Use != "oauth_client" {
		t.Errorf("%+v", secret)
	}

	// The secret of a client goes to its own origin alone.
	s.Want(201, "POST", "/api/v1/secrets", object{"name": "client", "kind": "token", "value": "demo-secret", "origin": "https://accounts.example.com"}).JSON(&secret)
	s.Want(200, "PATCH", s.path, object{"auth": object{"type": "oauth", "grant": "client_credentials", "clientId": "demo", "clientSecretId": secret.ID}})
	if e := s.Want(502, "POST", s.path+"/refresh", nil).Error(); !strings.Contains(e.Message, "kind token") {
		t.Errorf("%+v", e)
	}
	for param, bad := range map[string]object{
		"auth.clientSecretId": {"type": "oauth", "grant": "client_credentials", "clientId": "demo"},
		"auth.clientId":       {"type": "oauth", "clientSecretId": secret.ID},
		"auth.scopes[0]":      {"type": "oauth", "scopes": []string{"a b"}},
		"auth.type":           {"type": "none", "scopes": []string{"a"}},
	} {
		if e := s.Want(400, "PATCH", s.path, object{"auth": bad}).Error(); e.Param == nil || *e.Param != param {
			t.Errorf("%v: %+v", bad, e)
		}
	}
}

func TestWhatAnAuthorizationMeets(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	var secret contract.Secret
	s.Want(201, "POST", "/api/v1/secrets", object{"name": "client", "kind": "token", "value": "demo-secret", "origin": s.demo.Origin}).JSON(&secret)
	auth := func(id string) object {
		return object{"auth": object{"type": "oauth", "clientId": "demo", "clientSecretId": id}}
	}
	s.Want(200, "PATCH", s.path, auth(secret.ID))
	breakSecret(t, s.harness, secret.ID)
	s.WantError(stoa.CodeSecretsKeyMissing, "POST", s.path+"/authorize", nil)
	s.Want(201, "POST", "/api/v1/secrets", object{"name": "client", "kind": "token", "value": "demo-secret", "origin": "https://accounts.example.com"}).JSON(&secret)
	s.Want(200, "PATCH", s.path, auth(secret.ID))
	s.WantError(stoa.CodeSecretOrigin, "POST", s.path+"/authorize", nil)
	s.Want(200, "PATCH", s.path, object{"auth": object{"type": "oauth"}})
	err := s.harness.Store.Write(t.Context(), func(tx *store.Tx) error {
		for i := range store.MaxStates {
			if err := tx.Setup().InsertOAuthState(t.Context(), store.OAuthState{Hash: strconv.Itoa(i), AccountID: s.harness.Account.ID, ConnectionID: "con_x", ExpiresAt: tx.Now.Add(time.Hour)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.WantError(stoa.CodeLimitReached, "POST", s.path+"/authorize", nil)
}

func TestAFullDiskIsToldOfAuthorizations(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	s := newOAuth(t, nil)
	fillDisk(t, s.harness, "oauth_states", "oauth_clients", "connections")
	for _, verb := range []string{"authorize", "deauthorize"} {
		if r := s.Do("POST", s.path+"/"+verb, nil); r.Status != 507 {
			t.Errorf("%s: %d %s", verb, r.Status, r.Body)
		}
	}
}
