package api_test

import (
	"fmt"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// made is what a key created: an embed with a visitor's token, a task, a key, and
// what that key created.
type made struct {
	a      author
	key    contract.KeyWithSecret
	child  contract.KeyWithSecret
	embeds []string // paths
	tokens []string
	tasks  []string // paths
}

func makeThings(t *testing.T, a author) made {
	t.Helper()
	m := made{a: a}
	scopes := []string{"keys:write", "embeds:write", "schedules:write", "agents:read", "sessions:read"}
	a.Want(201, "POST", "/api/v1/keys", object{"name": "leaked", "scopes": scopes}).JSON(&m.key)
	leaked := a.h.ClientWith(t, m.key.Secret)
	leaked.Want(201, "POST", "/api/v1/keys", object{"name": "child", "scopes": scopes}).JSON(&m.child)
	for _, c := range []*apitest.Client{leaked, a.h.ClientWith(t, m.child.Secret)} {
		var embed contract.EmbedSessionWithToken
		c.Want(201, "POST", a.agent+"/embed-sessions", object{"allowedOrigins": []string{"https://www.example.com"}}).JSON(&embed)
		m.embeds, m.tokens = append(m.embeds, a.agent+"/embed-sessions/"+embed.ID), append(m.tokens, embed.Token)
		var task contract.ScheduledTask
		c.Want(201, "POST", a.agent+"/scheduled-tasks", object{"name": "n", "message": "say: x", "schedule": object{"type": "cron", "expression": "0 9 * * *", "timezone": "UTC"}}).JSON(&task)
		m.tasks = append(m.tasks, a.agent+"/scheduled-tasks/"+task.ID)
	}
	return m
}

// check says for the key itself and for its child whether what they made goes on.
func (m made) check(t *testing.T, what string, own, childs, child bool) {
	t.Helper()
	for i, goesOn := range []bool{own, childs} {
		var embed contract.EmbedSession
		m.a.Want(200, "GET", m.embeds[i], nil).JSON(&embed)
		if revoked := !embed.RevokedAt.IsNull(); revoked == goesOn {
			t.Errorf("%s: embed %d is revoked: %v", what, i, revoked)
		}
		visitor := m.a.h.ClientWith(t, m.tokens[i]).With("Origin", "https://www.example.com").Do("GET", "/api/v1/embed/chat-sessions/"+embed.ChatSessionID, nil)
		if want := map[bool]int{true: 200, false: 401}[goesOn]; visitor.Status != want {
			t.Errorf("%s: visitor %d gets %d, want %d", what, i, visitor.Status, want)
		}
		var task contract.ScheduledTask
		m.a.Want(200, "GET", m.tasks[i], nil).JSON(&task)
		reason := ""
		if r, err := task.PauseReason.Get(); err == nil {
			reason = r
		}
		if task.Enabled != goesOn || !goesOn && reason != "key_revoked" {
			t.Errorf("%s: task %d is enabled: %v, paused by %q", what, i, task.Enabled, reason)
		}
	}
	var k contract.Key
	m.a.Want(200, "GET", "/api/v1/keys/"+m.child.ID, nil).JSON(&k)
	if (k.Status == "active") != child {
		t.Errorf("%s: the key that it made is %s", what, k.Status)
	}
}

func TestWhatARevokedKeyMadeEndsWithIt(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	operator := h.Client(t)
	a := newAuthor(t, h, operator, nil)
	endsWithItsKey(t, a, operator)
	endsWithItsKey(t, newAuthor(t, h, newCustomer(t, h), nil), operator)
	a.WantError(stoa.CodeInvalidValue, "DELETE", "/api/v1/keys/key_none?revokeMade=some", nil)

	m := makeThings(t, a) // a rotated key is replaced: what it made goes on
	a.Want(201, "POST", "/api/v1/keys/"+m.key.ID+"/rotate", object{"overlapSeconds": 0})
	m.check(t, "after a rotation", true, true, true)
}

// endsWithItsKey revokes keys of an author with the key of by.
func endsWithItsKey(t *testing.T, a author, by *apitest.Client) {
	t.Helper()
	for _, tt := range []struct {
		query              string
		own, childs, child bool // go on
	}{
		{"", false, true, true},
		{"?revokeMade=true", false, true, true},
		{"?revokeMade=all", false, false, false},
		{"?revokeMade=false", true, true, true},
	} {
		m := makeThings(t, a)
		m.check(t, "before", true, true, true)
		for range 2 { // it may be repeated
			by.Want(204, "DELETE", "/api/v1/keys/"+m.key.ID+tt.query, nil)
		}
		m.check(t, fmt.Sprintf("after %q", tt.query), tt.own, tt.childs, tt.child)
	}
}

// TestWhatARevokedKeyChangedIsPaused revokes a key that changed objects of its owner: they go on
// as changed, unless the revocation pauses them.
func TestWhatARevokedKeyChangedIsPaused(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, newCustomer(t, h), nil)
	var leaked contract.KeyWithSecret
	a.Want(201, "POST", "/api/v1/keys", object{"name": "leaked"}).JSON(&leaked)
	thief := h.ClientWith(t, leaked.Secret)

	task := object{"name": "n", "message": "say: x", "schedule": object{"type": "cron", "expression": "0 9 * * *", "timezone": "UTC"}}
	var objects []string // paths of a changed and an unchanged object of each kind
	for _, kind := range []struct {
		path           string
		create, change object
	}{
		{a.agent + "/scheduled-tasks", task, object{"message": "say: y"}},
		{"/api/v1/webhooks", object{"url": "https://hooks.example.com/a", "events": []string{"session.failed"}}, object{"url": "https://thief.example.com/a"}},
		{a.agent + "/embed-tags", object{"allowedOrigins": []string{"https://www.example.com"}, "enabled": true}, object{"greeting": "other"}},
		{a.agent + "/hooks", githubHook, object{"turnsPerDay": 9}},
		{"/api/v1/connections", object{"name": "one", "kind": "mcp", "url": "https://tools.example.com/mcp"}, object{"url": "https://thief.example.com/mcp"}},
	} {
		for _, name := range []string{"changed", "unchanged"} {
			if kind.create["kind"] == "mcp" {
				kind.create["name"] = name
			}
			var made struct{ ID string }
			a.Want(201, "POST", kind.path, kind.create).JSON(&made)
			objects = append(objects, kind.path+"/"+made.ID)
		}
		thief.Want(200, "PATCH", objects[len(objects)-2], kind.change)
	}
	check := func(what string, paused bool) {
		t.Helper()
		for i, path := range objects {
			var shown struct {
				Enabled     *bool
				Status      string
				PauseReason string
			}
			a.Want(200, "GET", path, nil).JSON(&shown)
			off := shown.Enabled != nil && !*shown.Enabled || shown.Status == "disabled"
			if off != (paused && i%2 == 0) {
				t.Errorf("%s: %s is %+v", what, path, shown)
			}
		}
	}
	a.Want(204, "DELETE", "/api/v1/keys/"+leaked.ID, nil)
	check("after the revocation", false)
	for range 2 { // it may be repeated
		a.Want(204, "DELETE", "/api/v1/keys/"+leaked.ID+"?pauseChanged=true", nil)
		check("after pauseChanged", true)
	}
	a.WantError(stoa.CodeInvalidType, "DELETE", "/api/v1/keys/"+leaked.ID+"?pauseChanged=some", nil)
}

// TestEndsContinueAfterACrash: the process dies between the revocation and the end of what the keys
// made, or before the end of what a revoked child made.
func TestEndsContinueAfterACrash(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, newCustomer(t, h), nil)
	everything := stoa.Key{Scopes: []string{stoa.ScopeAll}}
	for _, childToo := range []bool{false, true} {
		m := makeThings(t, a)
		err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
			revoked := map[string]store.KeyObjects{m.key.ID: {Made: true, Keys: true}}
			if childToo {
				revoked[m.child.ID] = store.KeyObjects{Made: true, Keys: true}
			}
			for id, which := range revoked {
				k, err := h.Keys.Revoke(t.Context(), tx, everything, accountOf(a.Client), id)
				if err == nil {
					err = tx.People().SetEnding(t.Context(), k.AccountID, k.ID, which)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Server.People.EndRest(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.check(t, fmt.Sprint("child too: ", childToo), false, false, false)
		if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			left, err := tx.People().KeysEnding(t.Context(), "", 10)
			if len(left) > 0 {
				t.Errorf("%v are not marked as ended", left)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
