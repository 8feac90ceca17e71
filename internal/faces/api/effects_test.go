package api_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// effectsOf returns the effects of a change as kind → count, with the outcome of each that does not stop.
func effectsOf(t *testing.T, c *apitest.Client, query string) (map[string]int, string) {
	t.Helper()
	var got contract.Effects
	c.Want(200, "GET", "/api/v1/effects?"+query, nil).JSON(&got)
	all := map[string]int{}
	for _, e := range got.Data {
		kind := e.Kind
		if e.Outcome != "stop" {
			kind = e.Outcome + " " + kind
		}
		all[kind] = e.Count
	}
	return all, got.Text
}

func wantEffects(t *testing.T, c *apitest.Client, query string, want map[string]int, texts ...string) {
	t.Helper()
	got, text := effectsOf(t, c, query)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v (%s), want %v", query, got, text, want)
	}
	for _, part := range texts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q lacks %q", query, text, part)
		}
	}
}

// TestEffectsOfAKeyAreWhatEnds counts what a key created, revokes it, and finds as many embeds and tasks ended.
func TestEffectsOfAKeyAreWhatEnds(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, newCustomer(t, h), nil)
	m := makeThings(t, a)
	of := "of=key&id=" + m.key.ID
	wantEffects(t, a.Client, of, map[string]int{"tasks": 1, "embeds": 1, "continue keys": 1}, "1 schedule and 1 embed stop. 1 key that it created continues.")
	a.Want(204, "DELETE", "/api/v1/keys/"+m.key.ID, nil)
	m.check(t, "after", false, true, true)
	wantEffects(t, a.Client, of, map[string]int{"continue keys": 1}) // nothing is left to end
	other := newCustomer(t, h)
	other.WantError(stoa.CodeNotFound, "GET", "/api/v1/effects?"+of, nil)
	wantEffects(t, h.Client(t), of, map[string]int{"continue keys": 1}) // an operator revokes keys of customers

	agent := strings.TrimPrefix(a.agent, "/api/v1/api-agents/")
	wantEffects(t, a.Client, "of=agent&id="+agent, map[string]int{"tasks": 1, "embeds": 1}) // those of the other key
	a.Want(204, "DELETE", a.agent, nil)
	a.WantError(stoa.CodeNotFound, "GET", "/api/v1/effects?of=agent&id="+agent, nil)
}

// TestEffectsOnAnAccount counts what stops with the account of a customer, and refuses what nobody can answer.
func TestEffectsOnAnAccount(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	operator := h.Client(t)
	customer := newCustomer(t, h)
	a := newAuthor(t, h, customer, nil)
	makeThings(t, a)
	var me contract.User
	customer.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	var keys contract.KeyList
	customer.Want(200, "GET", "/api/v1/keys?unrevoked=true", nil).JSON(&keys)
	want := map[string]int{"keys": len(keys.Data), "agents": 1, "tasks": 2, "embeds": 2}
	of := "of=account&id=" + me.ID
	wantEffects(t, operator, of+"&change=suspend", want, "2 schedules and 2 embeds stop")
	want["delete agents"] = 1
	delete(want, "agents")
	wantEffects(t, operator, of, want, "1 agent is deleted.")
	wantEffects(t, operator, of+"&change=plan&to=free", map[string]int{}, "Nothing else stops.")
	operator.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/effects?"+of+"&change=plan&to=none", nil)
	operator.WantError(stoa.CodeMissingParameter, "GET", "/api/v1/effects?"+of+"&change=plan", nil)
	operator.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/effects?"+of+"&to=free", nil)
	operator.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/effects?"+of+"&change=role", nil)
	operator.WantError(stoa.CodeUnknownParameter, "GET", "/api/v1/effects?"+of+"&until=now", nil)
	operator.WantError(stoa.CodeNotFound, "GET", "/api/v1/effects?of=account&id=acc_none", nil)
	customer.WantError(stoa.CodeScope, "GET", "/api/v1/effects?"+of, nil)
	operator.Want(200, "PATCH", "/api/v1/accounts/"+me.ID, object{"suspended": true})
	customer.WantError(stoa.CodeSuspended, "GET", "/api/v1/effects?of=key&id="+me.Key.ID, nil)
}

// TestEffectsOfAConnection counts the agents that use a connection and the connections that use a secret, as their deletion does.
func TestEffectsOfAConnection(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool+","+writeTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	review(t, c, path, "send")
	a := newAuthor(t, h, c, object{"tools": []any{ofConnection(path, "search")}})
	var connection contract.Connection
	c.Want(200, "GET", path, nil).JSON(&connection)
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	var secret contract.Secret
	c.Want(201, "POST", "/api/v1/secrets", object{"name": "s", "kind": "bearer", "value": "correct-horse", "origin": f.url}).JSON(&secret)
	wantEffects(t, c, "of=secret&id="+secret.ID, map[string]int{}, "Nothing else stops.")
	c.Want(200, "PATCH", path, object{"auth": object{"type": "secret", "secretId": secret.ID}})
	wantEffects(t, c, "of=secret&id="+secret.ID, map[string]int{"block connections": 1}, "1 connection uses it and must be changed first.")
	c.WantError(stoa.CodeSecretInUse, "DELETE", "/api/v1/secrets/"+secret.ID, nil)
	wantEffects(t, c, "of=connection&change=disable&id="+connection.ID, map[string]int{"narrow agents": 1}, "1 agent loses its tools.")
	c.WantError(stoa.CodeConnectionInUse, "DELETE", path, nil)
	wantEffects(t, c, "of=space&id="+agent.SpaceID, map[string]int{"delete agents": 1, "delete connections": 1})
	c.Want(204, "DELETE", "/api/v1/spaces/"+agent.SpaceID+"?force=true", nil)
	for _, of := range []string{"space&id=" + agent.SpaceID, "connection&id=" + connection.ID, "secret&id=sec_none", "member&id=none"} {
		c.WantError(stoa.CodeNotFound, "GET", "/api/v1/effects?of="+of, nil)
	}
}

// TestEffectsOfAMember counts the keys of a member that another role narrows or revokes, and changes the role.
func TestEffectsOfAMember(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	h.NewMember(h.Account.ID, "owner", "") // so that the other is not the last owner
	m := h.NewMember(h.Account.ID, "owner", "")
	as := asMember(t, h, m.PersonID)
	var narrowed, revoked contract.KeyWithSecret
	as.Want(201, "POST", "/api/v1/keys", object{"name": "both", "scopes": []string{"agents:read", "keys:write"}}).JSON(&narrowed)
	as.Want(201, "POST", "/api/v1/keys", object{"name": "writes", "scopes": []string{"connections:write"}}).JSON(&revoked)
	of := "of=member&id=" + m.PersonID
	wantEffects(t, c, of, map[string]int{"keys": 2}, "2 keys stop.")
	wantEffects(t, c, of+"&change=role&to=owner", map[string]int{})
	wantEffects(t, c, of+"&change=role&to=viewer", map[string]int{"keys": 1, "narrow keys": 1}, "1 key stops. 1 key loses scopes.")
	c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/effects?"+of+"&change=role&to=king", nil)
	c.Want(200, "PATCH", membersPath+"/"+m.PersonID, object{"role": "viewer"})
	var k contract.Key
	if c.Want(200, "GET", "/api/v1/keys/"+revoked.ID, nil).JSON(&k); k.Status != "revoked" {
		t.Errorf("%+v", k)
	}
	if c.Want(200, "GET", "/api/v1/keys/"+narrowed.ID, nil).JSON(&k); k.Status != "active" || len(k.Scopes) != 1 {
		t.Errorf("%+v", k)
	}
	wantEffects(t, c, of, map[string]int{"keys": 1})
}
