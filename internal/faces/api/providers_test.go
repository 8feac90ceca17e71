package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/auth"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/storetest"
)

// provider is the report about one provider.
func provider(t *testing.T, c *apitest.Client, name string) contract.Provider {
	t.Helper()
	var list contract.ProviderList
	c.Want(200, "GET", "/api/v1/providers", nil).JSON(&list)
	for _, p := range list.Data {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("%s is not among the providers %+v", name, list.Data)
	return contract.Provider{}
}

func TestAnOperatorSeesHowProvidersDo(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	if p := provider(t, c, "messages"); p.Wire != "messages" || p.MaxInFlight == 0 || p.Requests != 0 || len(p.Routes) != 0 || !p.LastFailure.IsNull() {
		t.Errorf("before any call: %+v", p)
	}
	c.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "say: hi"})
	p := provider(t, c, "messages")
	if p.Requests != 1 || p.Failures != 0 || p.InFlight != 0 || len(p.Routes) != 1 || !p.LastFailure.IsNull() {
		t.Fatalf("after a call: %+v", p)
	}
	if r := p.Routes[0]; r.Model == "" || r.State != "closed" || !r.OpenUntil.IsNull() || r.Requests != 1 {
		t.Errorf("its model: %+v", r)
	}
	c.Want(502, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "fail: 500"})
	p = provider(t, c, "messages")
	if p.Failures == 0 || p.Requests != 1+p.Failures || p.Retries != p.Failures-1 {
		t.Errorf("after a call that failed: %+v", p)
	}
	last, err := p.LastFailure.Get()
	if err != nil || last.Code != string(stoa.CodeUpstream) || last.Status.MustGet() != 500 || last.At.IsZero() {
		t.Errorf("the failure is %+v", last)
	}
	if other := provider(t, c, "gemini"); other.Requests != 0 {
		t.Errorf("another provider: %+v", other)
	}
}

func TestARestingProviderIsSeenWithoutItsWords(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	for range 10 {
		r := c.Do("POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "fail: 500"})
		if r.Status == 200 {
			t.Fatal("a call that should fail was served")
		}
	}
	r := c.Want(200, "GET", "/api/v1/providers", nil)
	if text := string(r.Body); strings.Contains(text, fakeup.Key) || strings.Contains(text, "http") || strings.Contains(text, "message\"") {
		t.Errorf("the page says more than it should: %s", text)
	}
	p := provider(t, c, "messages")
	if len(p.Routes) != 1 || p.Routes[0].State != "open" || p.Routes[0].OpenUntil.IsNull() {
		t.Errorf("after many failures: %+v", p)
	}
}

func TestOnlyAnOperatorSeesProviders(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	key, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, key).WantError(stoa.CodeScope, "GET", "/api/v1/providers", nil)
	h.ClientWith(t, "").WantError(stoa.CodeUnauthorized, "GET", "/api/v1/providers", nil)
}

func TestProvidersOfAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // on PostgreSQL it is a node that has ended
	h := start(t, apitest.Config{})
	c := h.Client(t)
	c.Want(200, "GET", "/api/v1/users/me", nil)
	if err := h.Store.Close(); err != nil {
		t.Fatal(err)
	}
	// Counters are in memory, so cached keys can still read them; a key that is not
	// cached cannot be verified.
	c.Want(200, "GET", "/api/v1/providers", nil)
	h.ClientWith(t, auth.Mint()).WantError(stoa.CodeInternal, "GET", "/api/v1/providers", nil)
}
