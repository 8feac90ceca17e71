package tool

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/oauth"
	"stoa/internal/agents/remote"
	"stoa/internal/base/store"
)

// A gate is a proxy in front of a server with an authorization server, which records the
// tokens of the calls.
type gate struct {
	demo *oauth.Demo

	mu     sync.Mutex
	sent   []string                    // values of Authorization of requests that are not OAuth's
	tokens func(w http.ResponseWriter) // answers requests for tokens; nil means that the server does
	none   bool                        // refuse every token
	lacks  string                      // refuse the token of each request because it lacks this scope
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	tokens, none, lacks := g.tokens, g.none, g.lacks
	if r.URL.Path == "/mcp" && r.Header.Get("Authorization") != "" {
		g.sent = append(g.sent, r.Header.Get("Authorization"))
	}
	g.mu.Unlock()
	switch {
	case r.URL.Path == "/token" && tokens != nil:
		tokens(w)
	case r.URL.Path == "/mcp" && lacks != "" && r.Header.Get("Authorization") != "":
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+lacks+`", error_description="no"`)
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Path == "/mcp" && none:
		w.WriteHeader(http.StatusUnauthorized)
	default:
		g.demo.ServeHTTP(w, r)
	}
}

// set changes the answers of the server, and clears the recorded tokens.
func (g *gate) set(none bool, tokens func(w http.ResponseWriter)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent, g.none, g.tokens = nil, none, tokens
}

// tokensSent returns the tokens that were sent, each once, in the order of their first use,
// and the number of uses of the first one.
func (g *gate) tokensSent() (all []string, first int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := map[string]bool{}
	for _, token := range g.sent {
		if !seen[token] {
			all = append(all, token)
		}
		seen[token] = true
		if token == all[0] {
			first++
		}
	}
	return all, first
}

// gated is [authorized] behind a gate, with an approved tool.
func gated(t *testing.T) (*bench, *gate, *int) {
	t.Helper()
	g := &gate{}
	b, demo, told := authorized(t, newVault(t, "a"), time.Hour)
	g.demo = demo
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	b.write(func(ctx context.Context, tx *store.Tx) error { // its tokens are for its own origin, so it must be authorized again
		_, err := tx.Setup().EditConnection(ctx, b.account, b.connection, func(c *store.Connection) error {
			c.URL = server.URL + "/mcp"
			return nil
		})
		return err
	})
	demo.Origin = server.URL
	begun, err := b.Authorize(t.Context(), b.account, b.connection)
	if err != nil {
		t.Fatal(err)
	}
	if l := b.Land(t.Context(), answerTo(t, begun.URL)); l.Question == nil || !b.Confirm(t.Context(), l.Question.Token, true).Authorized {
		t.Fatalf("%+v", l)
	}
	b.approve("search_notes")
	g.set(false, nil)
	return b, g, told
}

// TestMoreScopesAreRequested has a server that refuses a call because the token lacks scopes:
// the model learns which, the next authorization requests them too, and the tools stay.
func TestMoreScopesAreRequested(t *testing.T) {
	t.Parallel()
	b, g, told := gated(t)
	scopes := func() string {
		t.Helper()
		begun, err := b.Authorize(t.Context(), b.account, b.connection)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(begun.URL)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("scope")
	}
	if got := scopes(); got != "notes" {
		t.Errorf("before: %q", got)
	}
	g.mu.Lock()
	g.lacks = "notes notes:write"
	g.mu.Unlock()
	turn := b.Turn(Credentials{})
	defer turn.Close()
	r := turn.Call(t.Context(), b.search(), "cal_1", `{"word":"welcome"}`, time.Minute)
	if r.Class != Refused || !r.Hopeless || r.Unauthorized || !strings.Contains(r.Text, "scopes: notes notes:write") {
		t.Errorf("%+v", r)
	}
	if c := b.kept(); *told != 0 || !c.Authorized || !strings.Contains(c.ErrorMessage, "notes:write") || c.ErrorCode == NeedsAuthorization {
		t.Errorf("%d told, %+v", *told, c)
	}
	if got := scopes(); got != "notes notes:write" {
		t.Errorf("after: %q", got)
	}
	if c := b.kept(); clientForm("", scopesOf(c, nil)).Get("scope") != "notes notes:write" {
		t.Errorf("%+v", c.OAuth)
	}
}

// search returns the target of calls of the bench's tool.
func (b *bench) search() (to Target) {
	b.t.Helper()
	rows := b.rows()
	return Target{b.kept(), rows["search_notes"], false}
}

func (b *bench) calls(turn *Turn, n int) (all []Reply) {
	b.t.Helper()
	for range n {
		all = append(all, turn.Call(b.t.Context(), b.search(), "cal_1", `{"word":"welcome"}`, 10*time.Second))
	}
	return all
}

// TestARefusedTokenIsSentOnce checks that a refusal of one call applies to later calls,
// including those of other turns and nodes, and when there is no other token yet.
func TestARefusedTokenIsSentOnce(t *testing.T) {
	t.Parallel()
	b, g, told := gated(t)
	other := &Tools{Store: b.Store, Vault: b.Vault, Network: b.Network, Logger: b.Logger} // as on another node
	g.demo.Revoke(false)
	g.set(false, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) })
	first := b.Turn(Credentials{})
	defer first.Close()
	second := other.Turn(Credentials{})
	defer second.Close()
	for i, turn := range []*Turn{first, first, second} {
		for _, r := range b.calls(turn, 1) {
			if r.Class != NotSent || r.Unauthorized || !strings.Contains(r.Text, "could not be refreshed") {
				t.Errorf("call %d: %+v", i, r)
			}
		}
	}
	if _, n := g.tokensSent(); n != 1 || *told != 0 || b.kept().ErrorCode != "" {
		t.Errorf("the token was sent %d times; told %d times; %+v", n, *told, b.kept())
	}

	// Once there is another token, it is used without a further refusal.
	g.set(false, nil)
	clear(b.gates.broken) // three consecutive failures
	for _, turn := range []*Turn{first, second} {
		for _, r := range b.calls(turn, 2) {
			if r.Class != Answered {
				t.Errorf("%+v", r)
			}
		}
	}
	if all, _ := g.tokensSent(); len(all) != 1 || g.demo.Asked("refresh_token") != 1 {
		t.Errorf("%d tokens were sent, %d refreshes", len(all), g.demo.Asked("refresh_token"))
	}
}

// TestARenewedTokenKeepsTheSession has a stateful server that refuses a token early: the call
// is made again with the next token in the same session at the server.
func TestARenewedTokenKeepsTheSession(t *testing.T) {
	t.Parallel()
	b, g, _ := gated(t)
	var mu sync.Mutex
	sessions := map[string]int{} // numbers of calls
	next := mcp.Demo(true)
	g.demo.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") != "" {
			mu.Lock()
			sessions[r.Header.Get("Mcp-Session-Id")]++
			mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
	b.refresh()
	clear(sessions)
	turn := b.Turn(Credentials{})
	defer turn.Close()
	for i := range 3 {
		if i > 0 {
			g.demo.Revoke(false)
		}
		for _, r := range b.calls(turn, 1) {
			if r.Class != Answered {
				t.Fatalf("%+v", r)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sessions) != 1 || g.demo.Asked("refresh_token") != 2 {
		t.Errorf("%v, %d refreshes", sessions, g.demo.Asked("refresh_token"))
	}
}

// TestAFreshTokenIsTriedOnce checks that a server which refuses a new token too refuses more
// than the token.
func TestAFreshTokenIsTriedOnce(t *testing.T) {
	t.Parallel()
	b, g, told := gated(t)
	g.set(true, nil)
	turn := b.Turn(Credentials{})
	defer turn.Close()
	replies := b.calls(turn, 1)
	if c := b.kept(); !replies[0].Unauthorized || c.ErrorCode != NeedsAuthorization || *told != 1 {
		t.Errorf("%+v, told %d times: %+v", replies, *told, c)
	}
	if all, n := g.tokensSent(); len(all) != 2 || n != 1 || g.demo.Asked("refresh_token") != 1 {
		t.Errorf("%d tokens were sent, the first %d times, %d refreshes", len(all), n, g.demo.Asked("refresh_token"))
	}
	g.set(false, nil)
	before, _ := g.tokensSent()
	if err := b.use(b.Tools); err != nil || len(before) != 0 || g.demo.Asked("refresh_token") != 2 {
		t.Errorf("the second token is used again: %v, %d refreshes", err, g.demo.Asked("refresh_token"))
	}
}

// TestAnUnreadableRefusalIsNoReason lets the token server refuse with a body that is too long
// to be read: it may come from any proxy, and counts only if it persists.
func TestAnUnreadableRefusalIsNoReason(t *testing.T) {
	t.Parallel()
	b, demo, told := authorized(t, newVault(t, "a"), 30*time.Second)
	g := &gate{demo: demo, tokens: func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error_description":"` + strings.Repeat("x", 2*oauth.MaxDocument) + `","error":"invalid_grant"}`))
	}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	edit := func(set string) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE connection_tokens SET `+set)
			return err
		})
	}
	move := func() { // the endpoint, to the gate
		b.write(func(ctx context.Context, tx *store.Tx) error {
			row, err := tx.Setup().Tokens(ctx, b.account, b.connection)
			if err != nil {
				return err
			}
			var h holding
			if err := b.openJSON(tokensRef(*row), row.Sealed, &h); err != nil {
				return err
			}
			h.Endpoint = server.URL + "/token"
			if row.Sealed, err = b.sealJSON(tokensRef(*row), h); err != nil {
				return err
			}
			return tx.Setup().PutTokens(ctx, *row)
		})
	}
	move()
	edit(`expires_at = 1`)
	fails := func(unauthorized bool) {
		t.Helper()
		err := b.use(b.Tools)
		if failed, ok := errors.AsType[*remote.Error](err); !ok || failed.Unauthorized != unauthorized || failed.Class != remote.NotSent {
			t.Errorf("%v", err)
		}
	}
	for range 2 * maxRefusals { // within a minute they count once at most
		fails(false)
	}
	for i := range maxRefusals {
		if !b.kept().Authorized {
			t.Fatalf("the tokens are lost after %d refusals", i)
		}
		edit(`refreshed_at = 1`)
		fails(i == maxRefusals-1)
	}
	if c := b.kept(); c.Authorized || c.ErrorCode != NeedsAuthorization || *told != 1 {
		t.Errorf("%+v, told %d times", c, *told)
	}

	// A successful refresh resets the count.
	again, second, _ := authorized(t, newVault(t, "a"), 30*time.Second)
	b, g.demo = again, second
	move()
	for range 2 {
		for range maxRefusals - 1 {
			edit(`refreshed_at = 1, expires_at = 1`)
			fails(false)
		}
		refusing := g.tokens
		g.set(false, nil)
		if err := b.use(b.Tools); err != nil {
			t.Fatal(err)
		}
		g.set(false, refusing)
	}
	if !b.kept().Authorized {
		t.Error("the tokens are lost")
	}
}

// TestWhatCameOfAnAuthorizationIsKept checks that the person who began it, in another window,
// can read the outcome.
func TestWhatCameOfAnAuthorizationIsKept(t *testing.T) {
	t.Parallel()
	b, _, _ := authorized(t, newVault(t, "a"), time.Hour)
	last := func() store.Authorization {
		t.Helper()
		c := b.kept()
		if c.Authorization == nil {
			t.Fatal("there is none")
		}
		return *c.Authorization
	}
	if a := last(); a.Status != store.AuthorizationDone || a.EndedAt.IsZero() || a.Message != "" {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		name, status, message string
		end                   func(begun Authorization)
	}{
		{"cancelled at the server", store.AuthorizationFailed, "access_denied", func(begun Authorization) {
			answer := answerTo(t, begun.URL)
			answer.Del("code")
			answer.Set("error", "access_denied")
			b.Land(t.Context(), answer)
		}},
		{"cancelled here", store.AuthorizationCancelled, "The person who signed in", func(begun Authorization) {
			b.Confirm(t.Context(), b.Land(t.Context(), answerTo(t, begun.URL)).Question.Token, false)
		}},
		{"another issuer", store.AuthorizationFailed, `from the authorization server "https://evil.example.com", but "http://127.0.0.1:`, func(begun Authorization) {
			answer := answerTo(t, begun.URL)
			answer.Set("iss", "https://evil.example.com")
			b.Land(t.Context(), answer)
		}},
		{"a code that is refused", store.AuthorizationFailed, "invalid_grant", func(begun Authorization) {
			answer := answerTo(t, begun.URL)
			answer.Set("code", "none")
			b.Confirm(t.Context(), b.Land(t.Context(), answer).Question.Token, true)
		}},
		{"a key that is lost", store.AuthorizationFailed, "can no longer be decrypted", func(begun Authorization) {
			other := &Tools{Store: b.Store, Vault: newVault(t, "b"), Network: b.Network, Logger: b.Logger}
			other.Land(t.Context(), answerTo(t, begun.URL))
		}},
		{"a key that is lost before the answer", store.AuthorizationFailed, "can no longer be decrypted", func(begun Authorization) {
			other := &Tools{Store: b.Store, Vault: newVault(t, "b"), Network: b.Network, Logger: b.Logger}
			other.Confirm(t.Context(), b.Land(t.Context(), answerTo(t, begun.URL)).Question.Token, true)
		}},
		{"deauthorized", store.AuthorizationCancelled, "deauthorized", func(Authorization) {
			if _, err := b.Deauthorize(t.Context(), b.account, b.connection); err != nil {
				t.Error(err)
			}
		}},
		{"in time", store.AuthorizationDone, "", func(begun Authorization) {
			b.Confirm(t.Context(), b.Land(t.Context(), answerTo(t, begun.URL)).Question.Token, true)
		}},
		{"too late", store.AuthorizationFailed, "in time", func(Authorization) {
			b.write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE authorizations SET started_at = 1`)
				return err
			})
		}},
	} {
		begun, err := b.Authorize(t.Context(), b.account, b.connection)
		if err != nil {
			t.Fatal(err)
		}
		if a := last(); a.ID != begun.ID || a.Status != store.AuthorizationPending || !a.EndedAt.IsZero() {
			t.Errorf("%s: %+v", c.name, a)
		}
		c.end(begun)
		if a := last(); a.ID != begun.ID || a.Status != c.status || a.EndedAt.IsZero() || !strings.Contains(a.Message, c.message) || c.message == "" && a.Message != "" {
			t.Errorf("%s: %+v", c.name, a)
		}
	}

	// The end of an older authorization says nothing about the newest.
	older, err := b.Authorize(t.Context(), b.account, b.connection)
	if err != nil {
		t.Fatal(err)
	}
	answer := answerTo(t, older.URL)
	newer, err := b.Authorize(t.Context(), b.account, b.connection)
	if err != nil {
		t.Fatal(err)
	}
	b.Confirm(t.Context(), b.Land(t.Context(), answer).Question.Token, false)
	if a := last(); a.ID != newer.ID || a.Status != store.AuthorizationPending {
		t.Errorf("%+v", a)
	}
}
