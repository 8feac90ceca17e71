package signin_test

import (
	"net/http"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/testkit/fakeidp"
)

func staff(p *config.OIDC) { p.Groups = []config.GroupRule{{Group: "staff", Role: "viewer"}} }

// TestWhereProvidersPutClaims signs in with providers that give the claims in the token or at userinfo, with
// or without a scope for groups.
func TestWhereProvidersPutClaims(t *testing.T) {
	t.Parallel()
	for _, style := range []fakeidp.Style{
		{}, {Thin: true}, {GroupsScope: "groups"}, {Thin: true, GroupsScope: "groups"}, {NoUserinfo: true}, {Zitadel: true}, {Zitadel: true, GroupsScope: "groups"},
	} {
		s := start(t, staff)
		s.idp.Behave(style)
		s.idp.Set(object{"groups": []string{"staff"}})
		b := s.browser()
		if status, page := b.signIn(); status != http.StatusSeeOther {
			t.Errorf("%+v: %d %s", style, status, page)
			continue
		}
		m := s.members()[0]
		if m.Role != "viewer" || m.Person.Name != "Ada" || m.Person.Email != "ada@example.com" || m.Person.Subject != "ada" {
			t.Errorf("%+v: the member is %+v", style, m)
		}
		want := 0
		if style.Thin || style.Zitadel {
			want = 1
		}
		if n := s.idp.Served("/me"); n != want {
			t.Errorf("%+v: userinfo was read %d times, want %d", style, n, want)
		}
		// An address that the provider has not verified is not stored, wherever it comes from.
		s.idp.Set(object{"email_verified": false})
		if status, _ := b.signIn(); status != http.StatusSeeOther || s.members()[0].Person.Email != "" {
			t.Errorf("%+v: an address that is not verified: %d %+v", style, status, s.members()[0].Person)
		}
	}
}

// TestScopesOfSignIns: the scope groups is requested only if the provider announces it and a rule uses groups,
// because some providers refuse unknown scopes.
func TestScopesOfSignIns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		style  fakeidp.Style
		change func(*config.OIDC)
		want   string
	}{
		{fakeidp.Style{}, staff, "openid email profile"},
		{fakeidp.Style{GroupsScope: "groups"}, func(*config.OIDC) {}, "openid email profile"},
		{fakeidp.Style{GroupsScope: "groups"}, staff, "openid email profile groups"},
		{fakeidp.Style{GroupsScope: "groups"}, func(p *config.OIDC) { staff(p); p.Scopes = []string{"groups", "email", "urn:roles"} }, "openid email profile groups urn:roles"},
		{fakeidp.Style{GroupsScope: "urn:roles"}, func(p *config.OIDC) { staff(p); p.Scopes = []string{"urn:roles"} }, "openid email profile urn:roles"},
	} {
		s := start(t, c.change)
		s.idp.Behave(c.style)
		_, location, _ := s.browser().do("GET", "/signin/corp", nil)
		if got := mustParse(t, location).Query().Get("scope"); got != c.want {
			t.Errorf("%+v: the scope is %q, want %q", c.style, got, c.want)
		}
	}
}

// TestGroupsThatWereNotRead: without the claim nothing changes, and the log says what was missing.
func TestGroupsThatWereNotRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		style  fakeidp.Style
		fault  fakeidp.Fault
		set    object
		status int
		log    string
	}{
		{"no claim", fakeidp.Style{}, fakeidp.None, object{"groups": nil}, 403, `neither the ID token nor userinfo has the claim \"groups\"`},
		{"no claim in a thin token", fakeidp.Style{Thin: true}, fakeidp.None, object{"groups": nil}, 403, `has the claim \"groups\"`},
		{"a scope that is not requested", fakeidp.Style{GroupsScope: "other"}, fakeidp.None, nil, 403, `has the claim \"groups\"`},
		{"no userinfo", fakeidp.Style{Thin: true, NoUserinfo: true}, fakeidp.None, nil, 403, "no userinfo_endpoint"},
		{"userinfo fails", fakeidp.Style{Thin: true}, fakeidp.UserinfoFails, nil, 502, "answered 500"},
		{"userinfo is huge", fakeidp.Style{Thin: true}, fakeidp.UserinfoHuge, nil, 502, "userinfo"},
		{"another subject", fakeidp.Style{Thin: true}, fakeidp.UserinfoSubject, nil, 401, "another subject"},
	} {
		s := start(t, staff)
		s.idp.Behave(fakeidp.Style{NoUserinfo: c.style.NoUserinfo})
		s.idp.Set(object{"groups": []string{"staff"}})
		b := s.browser()
		if status, page := b.signIn(); status != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", c.name, status, page)
		}
		before := s.members()
		s.idp.Set(c.set)
		s.idp.Behave(c.style)
		s.idp.Misbehave(c.fault)
		if status, page := s.browser().signIn(); status != c.status || !strings.Contains(page, "Not signed in") {
			t.Errorf("%s: %d %s", c.name, status, page)
		}
		if log := s.log.String(); !strings.Contains(log, c.log) || strings.Contains(log, fakeidp.Secret) {
			t.Errorf("%s: the log is %s", c.name, log)
		}
		after := s.members()
		if len(after) != 1 || after[0].Member != before[0].Member || after[0].Person != before[0].Person || b.account(s.Account.ID) != 200 {
			t.Errorf("%s: the members are %+v, before %+v", c.name, after, before)
		}
	}
}
