package api_test

import (
	"slices"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

func TestALifeOfAKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var made contract.KeyWithSecret
	r := c.Want(201, "POST", "/api/v1/keys", object{"name": "site", "scopes": []string{"usage:read", "responses"}, "requestsPerMinute": 100, "expiresAt": nil})
	r.JSON(&made)
	path := "/api/v1/keys/" + made.ID
	if r.Header.Get("Location") != path || made.Status != "active" || made.Hint != stoa.Hint(made.Secret) {
		t.Errorf("made %+v at %s", made, r.Header.Get("Location"))
	}
	holder := h.ClientWith(t, made.Secret)
	holder.Want(200, "GET", "/api/v1/credits", nil)

	var k contract.Key
	c.Want(200, "PATCH", path, object{"name": "shop", "scopes": []string{"responses"}, "requestsPerMinute": nil, "maxCreditsMicroPerDay": 1000}).JSON(&k)
	if k.Name != "shop" || !slices.Equal(k.Scopes, []string{"responses"}) || !k.RequestsPerMinute.IsNull() || k.MaxCreditsMicroPerDay.MustGet() != 1000 {
		t.Errorf("after the change it is %+v", k)
	}
	holder.WantError(stoa.CodeScope, "GET", "/api/v1/credits", nil)

	var next contract.KeyWithSecret
	c.Want(201, "POST", path+"/rotate", object{"overlapSeconds": 600}).JSON(&next)
	if next.Secret == made.Secret || next.Name != "shop" || next.MaxCreditsMicroPerDay.MustGet() != 1000 || next.Replaces.MustGet().ID != made.ID {
		t.Errorf("the successor is %+v", next)
	}
	if left := time.Until(next.Replaces.MustGet().EndsAt.Time()); left < 9*time.Minute || left > 11*time.Minute {
		t.Errorf("the old key lives on for %v", left)
	}
	holder.Want(200, "GET", "/api/v1/users/me", nil)
	h.ClientWith(t, next.Secret).Want(200, "GET", "/api/v1/users/me", nil)
	c.WantError(stoa.CodeConflict, "POST", path+"/rotate", nil)

	c.Want(204, "DELETE", path, nil)
	c.Want(204, "DELETE", path, nil)
	c.WantError(stoa.CodeNotFound, "DELETE", "/api/v1/keys/key_none", nil)
	holder.WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	c.Want(200, "GET", path, nil).JSON(&k)
	if k.Status != "revoked" || k.RevokedAt.IsNull() {
		t.Errorf("a revoked key is %+v", k)
	}
	var last contract.KeyWithSecret
	c.Want(201, "POST", "/api/v1/keys/"+next.ID+"/rotate", object{"overlapSeconds": 0}).JSON(&last)
	h.ClientWith(t, next.Secret).WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	var list page[contract.Key]
	c.Want(200, "GET", "/api/v1/keys", nil).JSON(&list)
	if len(list.Data) != 4 || list.Data[0].ID != last.ID {
		t.Errorf("the list is %+v", list.Data)
	}
}

func TestAKeyNeverGrantsMoreThanItHas(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	soon := time.Now().Add(time.Hour)
	secret, _ := h.NewKeyLike(stoa.Key{
		AccountID: h.Account.ID, Scopes: []string{"keys:write", "responses"}, ExpiresAt: soon, RequestsPerMinute: 500, MaxCreditsPerDay: 1000,
	})
	weak := h.ClientWith(t, secret)
	later := soon.Add(time.Hour).UTC().Format(time.RFC3339)
	for param, body := range map[string]object{
		"scopes":                {"name": "x", "scopes": []string{"usage:read"}},
		"expiresAt":             {"name": "x", "expiresAt": later},
		"requestsPerMinute":     {"name": "x", "requestsPerMinute": 501},
		"maxCreditsMicroPerDay": {"name": "x", "maxCreditsMicroPerDay": 1001},
	} {
		if e := weak.WantError(stoa.CodeScope, "POST", "/api/v1/keys", body); deref(e.Param) != param {
			t.Errorf("param is %q, want %q: %s", deref(e.Param), param, e.Message)
		}
	}
	// What is left open is as narrow as the key itself.
	var k contract.KeyWithSecret
	weak.Want(201, "POST", "/api/v1/keys", object{"name": "x"}).JSON(&k)
	if !slices.Equal(k.Scopes, []string{"keys:write", "responses"}) || k.RequestsPerMinute.MustGet() != 500 || k.MaxCreditsMicroPerDay.MustGet() != 1000 || k.ExpiresAt.IsNull() {
		t.Errorf("it made %+v", k)
	}
	// Nor can it widen or take over another.
	_, strong := h.NewKey(h.Account.ID, stoa.ScopeAll)
	weak.WantError(stoa.CodeScope, "POST", "/api/v1/keys/"+strong.ID+"/rotate", nil)
	weak.WantError(stoa.CodeScope, "PATCH", "/api/v1/keys/"+k.ID, object{"scopes": []string{"*"}})
	weak.WantError(stoa.CodeScope, "PATCH", "/api/v1/keys/"+k.ID, object{"maxCreditsMicroPerDay": nil})

	operator, _ := h.NewKey(h.Account.ID, stoa.ScopeOperator, "keys:write")
	h.ClientWith(t, operator).WantError(stoa.CodeScope, "POST", "/api/v1/keys", object{"name": "x", "scopes": []string{"*"}})
	h.Client(t).WantError(stoa.CodeInvalidValue, "POST", "/api/v1/keys", object{"name": "x", "expiresAt": "2001-01-01T00:00:00Z"})
	h.Client(t).WantError(stoa.CodeInvalidValue, "POST", "/api/v1/keys", object{"name": "x", "scopes": []string{"everything"}})
}

func TestAnotherAccountsKeysDoNotExist(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	var acme contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Acme"}).JSON(&acme)
	theirs := "/api/v1/keys/" + acme.Key.ID
	secret, _ := h.NewKey(h.Account.ID, stoa.ScopeAll) // without operator, which may revoke them
	c := h.ClientWith(t, secret)
	for _, path := range []string{theirs, "/api/v1/keys/" + stoa.NewID("key"), "/api/v1/keys/a%2Fb", "/api/v1/keys/%20"} {
		c.WantError(stoa.CodeNotFound, "GET", path, nil)
		c.WantError(stoa.CodeNotFound, "PATCH", path, object{"name": "x"})
		c.WantError(stoa.CodeNotFound, "POST", path+"/rotate", object{})
		c.WantError(stoa.CodeNotFound, "DELETE", path, nil)
	}
	h.ClientWith(t, acme.Key.Secret).Want(200, "GET", "/api/v1/users/me", nil)
}

func TestAnOperatorRevokesACustomersKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	var acme contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Acme"}).JSON(&acme)
	customer := h.ClientWith(t, acme.Key.Secret)
	var leaked contract.KeyWithSecret
	customer.Want(201, "POST", "/api/v1/keys", object{"name": "leaked"}).JSON(&leaked)
	c := h.Client(t)
	var list page[contract.Key]
	c.Want(200, "GET", "/api/v1/keys?accountId="+acme.ID, nil).JSON(&list)
	if len(list.Data) != 2 || list.Data[0].ID != leaked.ID {
		t.Fatalf("the operator sees %+v", list.Data)
	}
	var seen contract.Key
	c.Want(200, "PATCH", "/api/v1/keys/"+leaked.ID, object{"name": "suspect", "requestsPerMinute": 1})
	if c.Want(200, "GET", "/api/v1/keys/"+leaked.ID, nil).JSON(&seen); seen.Name != "suspect" {
		t.Errorf("the operator changed %+v", seen)
	}
	var rotated contract.KeyWithSecret
	c.Want(201, "POST", "/api/v1/keys/"+acme.Key.ID+"/rotate", object{"overlapSeconds": 3600}).JSON(&rotated)
	if h.ClientWith(t, rotated.Secret).Want(200, "GET", "/api/v1/keys/"+rotated.ID, nil).JSON(&seen); seen.ID != rotated.ID {
		t.Errorf("the rotated key is %+v", seen)
	}
	_, other := h.NewKey(h.Account.ID, "keys:write")
	customer.WantError(stoa.CodeNotFound, "GET", "/api/v1/keys/"+other.ID, nil)
	for range 2 { // it may be repeated
		c.Want(204, "DELETE", "/api/v1/keys/"+leaked.ID, nil)
	}
	h.ClientWith(t, leaked.Secret).WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	customer.Want(200, "GET", "/api/v1/users/me", nil)
	c.WantError(stoa.CodeNotFound, "DELETE", "/api/v1/keys/"+stoa.NewID("key"), nil)

	_, wider := h.NewKey(acme.ID, stoa.ScopeAll, stoa.ScopeOperator)
	narrow, _ := h.NewKey(h.Account.ID, stoa.ScopeOperator, "keys:write")
	h.ClientWith(t, narrow).WantError(stoa.CodeScope, "DELETE", "/api/v1/keys/"+wider.ID, nil)
}
