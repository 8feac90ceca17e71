package signin_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/storetest"
)

// TestAStateCostsOneRequest: a stranger has one state, and sends it with many codes.
func TestAStateCostsOneRequest(t *testing.T) {
	t.Parallel()
	s := start(t, func(*config.OIDC) {})
	b := s.browser()
	_, location, _ := b.do("GET", "/signin/corp", nil)
	state := mustParse(t, location).Query().Get("state")
	cookies := b.http.Jar.Cookies(mustParse(t, s.URL))
	for range 10 {
		b.http.Jar.SetCookies(mustParse(t, s.URL), cookies)
		if status, _, page := b.do("GET", "/signin/corp/callback?code=x&state="+state, nil); status != 401 {
			t.Errorf("%d %s", status, page)
		}
	}
	if n := s.idp.Served("/token"); n != 1 {
		t.Errorf("the identity provider has got %d codes, want 1", n)
	}
}

// TestTheLimitIsAskedBeforeTheProvider: each callback of a stranger has a state of its own.
func TestTheLimitIsAskedBeforeTheProvider(t *testing.T) {
	t.Parallel()
	s := start(t, func(*config.OIDC) {})
	callback := func() int {
		t.Helper()
		b := s.browser()
		status, location, page := b.do("GET", "/signin/corp", nil)
		if status != http.StatusSeeOther {
			t.Fatalf("%d %s", status, page)
		}
		status, _, _ = b.do("GET", "/signin/corp/callback?code=x&state="+mustParse(t, location).Query().Get("state"), nil)
		return status
	}
	for n := 0; callback() != 429; n++ {
		if n == 200 {
			t.Fatal("200 callbacks are not limited")
		}
	}
	before := s.idp.Served("/token")
	for range 5 {
		if status := callback(); status != 429 {
			t.Errorf("a refused address: %d", status)
		}
	}
	if n := s.idp.Served("/token"); n != before {
		t.Errorf("the identity provider has got %d codes of a refused address", n-before)
	}
}

func TestBeginningsOfSignInsAreLimited(t *testing.T) {
	t.Parallel()
	s := start(t, func(*config.OIDC) {})
	b := s.browser()
	for range 200 {
		if status, _, page := b.do("GET", "/signin/corp", nil); status == 429 {
			return
		} else if status != http.StatusSeeOther {
			t.Fatalf("%d %s", status, page)
		}
	}
	t.Error("200 sign-ins were begun in a minute")
}

// TestAReplacedLinkAdmitsNobody replaces the link while the person who opened it is at the identity provider.
func TestAReplacedLinkAdmitsNobody(t *testing.T) {
	t.Parallel()
	s := start(t, func(*config.OIDC) {})
	b := s.browser()
	var made struct{ ID, Link string }
	token := s.invite(object{"role": "member"})
	var list struct{ Data []struct{ ID string } }
	s.Client(t).Want(200, "GET", "/api/v1/invitations", nil).JSON(&list)
	_, _, text := b.do("POST", "/console/join", object{"token": token})
	var reply struct{ Location string }
	if err := json.Unmarshal([]byte(text), &reply); err != nil || reply.Location == "" {
		t.Fatal(text)
	}
	s.Client(t).Want(201, "POST", "/api/v1/invitations/"+list.Data[0].ID+"/link", nil).JSON(&made)
	if status, _, page := b.do("GET", s.idp.SignIn(t, reply.Location), nil); status != 410 || len(s.members()) != 0 {
		t.Errorf("with the replaced link: %d %s", status, page)
	}
	// The new one admits.
	token = made.Link[len(s.URL+"/join#"):]
	_, _, text = b.do("POST", "/console/join", object{"token": token})
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatal(text)
	}
	if status, _, page := b.do("GET", s.idp.SignIn(t, reply.Location), nil); status != http.StatusSeeOther || len(s.members()) != 1 {
		t.Errorf("with the new link: %d %s", status, page)
	}
}

// TestNobodyInvitesThemself accepts invitations with the identity that created them.
func TestNobodyInvitesThemself(t *testing.T) {
	t.Parallel()
	s := start(t, func(p *config.OIDC) {
		p.Groups = []config.GroupRule{{Group: "money", Operator: "billing"}}
	})
	s.idp.Set(object{"groups": []string{"money"}})
	customer := storetest.Account(t, s.Store, stoa.Credit).ID
	b := s.browser()
	if status, page := b.signIn(); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, page)
	}
	for path, body := range map[string]object{
		"/api/v1/accounts/" + customer + "/members": {"role": "owner"},
		"/api/v1/accounts/invitations":              {"accountName": "Acme"},
	} {
		status, _, text := b.do("POST", path, body, "Stoa-Account", s.Account.ID, "Origin", s.URL)
		var made struct{ Link string }
		if err := json.Unmarshal([]byte(text), &made); err != nil || status != 201 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		accept := func() (int, string) {
			t.Helper()
			_, _, text := b.do("POST", "/console/join", object{"token": made.Link[len(s.URL+"/join#"):]})
			var reply struct{ Location string }
			if err := json.Unmarshal([]byte(text), &reply); err != nil || reply.Location == "" {
				t.Fatal(text)
			}
			status, _, page := b.do("GET", s.idp.SignIn(t, reply.Location), nil)
			return status, page
		}
		if status, page := accept(); status != 403 || b.account(customer) != 401 {
			t.Errorf("%s, accepted by its sender: %d %s", path, status, page)
		}
		s.idp.Set(object{"sub": "eve"})
		if status, page := accept(); status != http.StatusSeeOther {
			t.Errorf("%s, accepted by another person: %d %s", path, status, page)
		}
		s.idp.Set(object{"sub": "ada"})
		if status, page := b.signIn(); status != http.StatusSeeOther {
			t.Fatalf("%d %s", status, page)
		}
	}
}
