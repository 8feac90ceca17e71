package api_test

import (
	"slices"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestAKeyKeepsToItsModels also checks that "auto" chooses among them, that lists show only them,
// and that the turns of agents obey the key that began them.
func TestAKeyKeepsToItsModels(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	newKey := func(in object) (*apitest.Client, contract.KeyWithSecret) {
		t.Helper()
		in["name"] = "k"
		var k contract.KeyWithSecret
		c.Want(201, "POST", "/api/v1/keys", in).JSON(&k)
		return h.ClientWith(t, k.Secret), k
	}
	limited, k := newKey(object{"models": []string{"beta-3.8-flash", "gamma-*"}})
	if !slices.Equal(k.Models.MustGet(), []string{"beta-3.8-flash", "gamma-*"}) || !k.Networks.IsNull() || k.RequireEndUser {
		t.Errorf("created %+v", k)
	}
	ask := func(model string) object { return object{"model": model, "input": "hi"} }
	for _, model := range []string{"beta-3.8-flash", "gamma-6-luna"} {
		limited.Want(200, "POST", "/api/v1/responses", ask(model))
	}
	for _, path := range []string{"/api/v1/responses", "/api/v1/responses/input_tokens"} {
		if e := limited.WantError(stoa.CodeModelNotAllowed, "POST", path, ask("alpha-haiku-4-5")); deref(e.Param) != "model" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	limited.WantError(stoa.CodeModelNotAllowed, "POST", "/api/v1/messages", object{"model": "alpha-haiku-4-5", "max_tokens": 10, "messages": []object{{"role": "user", "content": "hi"}}})
	var r contract.Response
	limited.Want(200, "POST", "/api/v1/responses", ask("auto")).JSON(&r)
	if r.Model != "beta-3.8-flash" && r.Model[:6] != "gamma-" {
		t.Errorf("auto is served by %s", r.Model)
	}
	var list contract.ModelObjectList
	limited.Want(200, "GET", "/api/v1/models", nil).JSON(&list)
	for _, m := range list.Data {
		if m.ID != "auto" && m.ID != "beta-3.8-flash" && m.ID[:6] != "gamma-" {
			t.Errorf("the list has %s", m.ID)
		}
	}
	if len(list.Data) < 3 {
		t.Errorf("the list is %+v", list.Data)
	}
	limited.WantError(stoa.CodeNotFound, "GET", "/api/v1/models/alpha-haiku-4-5", nil)
	// A key that it creates has the same lists, or narrower ones.
	var made contract.KeyWithSecret
	limited.Want(201, "POST", "/api/v1/keys", object{"name": "child"}).JSON(&made)
	if !slices.Equal(made.Models.MustGet(), k.Models.MustGet()) {
		t.Errorf("it creates %+v", made)
	}
	limited.WantError(stoa.CodeScope, "POST", "/api/v1/keys", object{"name": "child", "models": []string{"*"}})
	limited.WantError(stoa.CodeScope, "PATCH", "/api/v1/keys/"+k.ID, object{"models": nil})
	c.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/keys", object{"name": "child", "models": []string{"al*pha"}})

	a := newAuthor(t, h, limited, nil)
	a.Want(200, "PATCH", a.agent, object{"model": "alpha-haiku-4-5"})
	_, path := a.begin(t, "say: hi", nil)
	if s := a.until(t, path, "failed"); s.Error.MustGet().Code != string(stoa.CodeModelNotAllowed) {
		t.Errorf("the turn ended with %+v", s.Error)
	}
	c.Want(200, "PATCH", "/api/v1/keys/"+k.ID, object{"models": nil})
	limited.Want(200, "POST", "/api/v1/responses", ask("alpha-haiku-4-5"))
}

func TestAKeyKeepsToItsNetworks(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var k contract.KeyWithSecret
	c.Want(201, "POST", "/api/v1/keys", object{"name": "k", "networks": []string{"203.0.113.0/25", "2001:db8:1:2:3::/80"}}).JSON(&k)
	limited := h.ClientWith(t, k.Secret)
	for address, allowed := range map[string]bool{
		"203.0.113.7": true, "203.0.113.200": false, "2001:db8:1:2:3::4": true, "2001:db8:1:2:4::4": false,
		"203.0.113.7, 198.51.100.1": false, // appended by the proxy
		"unknown":                   false,
	} {
		r := limited.With("X-Forwarded-For", address).Do("GET", "/api/v1/users/me", nil)
		if (r.Status == 200) != allowed || !allowed && r.Error().Code != string(stoa.CodeNetworkNotAllowed) {
			t.Errorf("from %s: %d %s", address, r.Status, r.Body)
		}
	}
	limited.WantError(stoa.CodeNetworkNotAllowed, "GET", "/api/v1/users/me", nil) // an unknown address
	for _, wrong := range []string{"203.0.113.1/24", "203.0.113.1", "::ffff:1.2.3.0/120", "everywhere"} {
		if e := c.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/keys", object{"name": "k", "networks": []string{wrong}}); deref(e.Param) != "networks[0]" {
			t.Errorf("%s: %+v", wrong, e)
		}
	}
	c.Want(200, "PATCH", "/api/v1/keys/"+k.ID, object{"networks": []string{}})
	limited.Want(200, "GET", "/api/v1/users/me", nil)
}

func TestAKeyMayRequireEndUsers(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var k contract.KeyWithSecret
	c.Want(201, "POST", "/api/v1/keys", object{"name": "k", "requireEndUser": true}).JSON(&k)
	strict := h.ClientWith(t, k.Secret)
	if e := strict.WantError(stoa.CodeMissingParameter, "POST", "/api/v1/responses", object{"model": "auto", "input": "hi"}); deref(e.Param) != "safety_identifier" {
		t.Errorf("%+v", e)
	}
	for _, name := range []string{"user", "safety_identifier"} {
		strict.Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": "hi", name: "ann"})
	}
	agent := "/api/v1/api-agents/" + newAgent(t, h, h.Account.ID) + "/sessions"
	strict.WantError(stoa.CodeMissingParameter, "POST", agent, object{"message": "hi"})
	strict.Want(202, "POST", agent, object{"message": "hi", "externalUserId": "ann"})
	c.Want(200, "PATCH", "/api/v1/keys/"+k.ID, object{"requireEndUser": nil})
	strict.Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": "hi"})
}
