package signin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/testkit/fakeidp"
)

// TestTheErrorOfAProvider: the log has the code of a provider that refuses, and no other text of it.
func TestTheErrorOfAProvider(t *testing.T) {
	t.Parallel()
	s := start(t, func(*config.OIDC) {})
	for _, c := range []struct{ code, description, page, log string }{
		{"access_denied", "", "refused at the identity provider", "the identity provider answered access_denied"},
		{"invalid_scope", fakeidp.Secret, "has not confirmed", "the identity provider answered invalid_scope"},
		{"temporarily_unavailable", "", "at the moment", "answered temporarily_unavailable"},
		{"invalid_request", "AADSTS50011: the redirect URI " + fakeidp.Secret, "has not confirmed", "answered invalid_request AADSTS50011"},
		{"<" + fakeidp.Secret, "", "has not confirmed", "answered an unknown error"},
	} {
		b, logged := s.browser(), len(s.log.String())
		_, location, _ := b.do("GET", "/signin/corp", nil)
		q := url.Values{"error": {c.code}, "error_description": {c.description}, "state": {mustParse(t, location).Query().Get("state")}}
		status, _, page := b.do("GET", "/signin/corp/callback?"+q.Encode(), nil)
		if log := s.log.String()[logged:]; status != http.StatusUnauthorized || !strings.Contains(page, c.page) || !strings.Contains(log, c.log) || strings.Contains(page+log, fakeidp.Secret) {
			t.Errorf("%s: %d\n%s\n%s", c.code, status, page, log)
		}
	}
}

// TestAProviderChangesItsAlgorithm: what a provider says is read again when a token cannot be verified, at
// most once a minute.
func TestAProviderChangesItsAlgorithm(t *testing.T) {
	t.Parallel()
	s := start(t, staff)
	s.idp.Set(object{"groups": []string{"staff"}})
	b := s.browser()
	if status, page := b.signIn(); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, page)
	}
	s.idp.Behave(fakeidp.Style{Alg: "RS512"})
	const discovery = "/.well-known/openid-configuration"
	read := s.idp.Served(discovery)
	if status, _ := b.signIn(); status != http.StatusUnauthorized || s.idp.Served(discovery) != read {
		t.Errorf("within a minute: %d, the document was read %d times", status, s.idp.Served(discovery)-read)
	}
	s.SignIn.Age("corp", time.Minute)
	if status, page := b.signIn(); status != http.StatusSeeOther || s.idp.Served(discovery) != read+1 {
		t.Errorf("after it: %d %s, the document was read %d times", status, page, s.idp.Served(discovery)-read)
	}
}

// TestClocksDifferByAMinute: a token that has just expired by this clock is accepted, for providers whose clock is
// behind.
func TestClocksDifferByAMinute(t *testing.T) {
	t.Parallel()
	s := start(t, staff)
	s.idp.Set(object{"groups": []string{"staff"}})
	s.idp.Behave(fakeidp.Style{Behind: 90 * time.Second}) // its tokens live for a minute
	if status, page := s.browser().signIn(); status != http.StatusSeeOther {
		t.Errorf("30 s after the end: %d %s", status, page)
	}
	s.idp.Behave(fakeidp.Style{Behind: 3 * time.Minute})
	if status, _ := s.browser().signIn(); status != http.StatusUnauthorized {
		t.Errorf("2 min after the end: %d", status)
	}
}

// TestGroupsInAnObject: a claim may be named by a path, and a name may have dots itself.
func TestGroupsInAnObject(t *testing.T) {
	t.Parallel()
	for claim, set := range map[string]object{
		"realm_access.roles":         {"realm_access": object{"roles": []string{"staff"}}},
		"a.b.c":                      {"a": object{"b": object{"c": []string{"staff"}}}},
		"https://example.com/groups": {"https://example.com/groups": []string{"staff"}},
	} {
		s := start(t, func(p *config.OIDC) { staff(p); p.GroupsClaim = claim })
		s.idp.Set(set)
		if status, page := s.browser().signIn(); status != http.StatusSeeOther {
			t.Errorf("%s: %d %s", claim, status, page)
		}
		s.idp.Set(object{"realm_access": "text", "a": object{"b": 1}, "https://example.com/groups": nil})
		if status, _ := s.browser().signIn(); status != http.StatusForbidden {
			t.Errorf("%s without it: %d", claim, status)
		}
	}
}

// TestTheNextSignInAsks: after somebody has signed out in a browser, the provider is told to ask, until somebody
// has signed in.
func TestTheNextSignInAsks(t *testing.T) {
	t.Parallel()
	s := start(t, staff)
	s.idp.Set(object{"groups": []string{"staff"}})
	b := s.browser()
	prompt := func() string {
		t.Helper()
		_, location, _ := b.do("GET", "/signin/corp", nil)
		return mustParse(t, location).Query().Get("prompt")
	}
	if got := prompt(); got != "" {
		t.Errorf("the first sign-in asks: %q", got)
	}
	if status, page := b.signIn(); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, page)
	}
	if status, _, text := b.do("DELETE", "/console/session", nil); status != http.StatusNoContent {
		t.Fatalf("sign out: %d %s", status, text)
	}
	if got := prompt(); got != "login" {
		t.Errorf("after signing out: %q", got)
	}
	if status, page := b.signIn(); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, page)
	}
	if got := prompt(); got != "" {
		t.Errorf("after the next sign-in: %q", got)
	}
}
