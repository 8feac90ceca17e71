package api_test

import (
	"context"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

func TestASessionHasSecretsOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	id := strings.TrimPrefix(path, "/api/v1/connections/")
	review(t, c, path, "search")
	secret := func(name, value, origin, user string) string {
		body := object{"name": name, "kind": "bearer", "value": value, "origin": origin}
		if user != "" {
			body["externalUserId"] = user
		}
		var made contract.Secret
		c.Want(201, "POST", "/api/v1/secrets", body).JSON(&made)
		return made.ID
	}
	ann, far := secret("ann", "token-of-ann-1", f.url, "ann"), secret("far", "token-for-others", "https://mcp.example.com", "")
	all := secret("all", "token-of-everybody", f.url, "")
	a := newAuthor(t, h, c, object{"tools": []any{ofConnection(path, "search")}})
	order := "call: git__search {}"
	own := func(id, secret string) object {
		return object{"credentials": object{id: secret}, "externalUserId": "ann"}
	}

	// A connection takes such secrets if its owner says so.
	if e := a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/sessions", object{"message": order, "credentials": object{id: all}}); *e.Param != "credentials."+id {
		t.Errorf("%+v", e)
	}
	var changed contract.Connection
	for sessions, want := range map[any]string{"session": "session", nil: "turn"} {
		c.Want(200, "PATCH", path, object{"sessions": sessions}).JSON(&changed)
		if changed.Sessions != want {
			t.Errorf("sessions %v: %s", sessions, changed.Sessions)
		}
	}
	c.Want(200, "PATCH", path, object{"credentialsPerSession": "required"}).JSON(&changed)
	if changed.CredentialsPerSession != "required" || changed.ToolCounts.Approved != 1 {
		t.Fatalf("the connection is %+v", changed)
	}
	s, at := a.begin(t, order, nil)
	if len(s.ToolsWithheld) != 1 || s.ToolsWithheld[0] != (contract.WithheldTool{Tool: "git__search", Reason: "needs_authorization"}) {
		t.Errorf("withheld are %+v", s.ToolsWithheld)
	}
	a.until(t, at, "completed")
	if f.calls.Load() != 0 {
		t.Error("a tool was called without the secret that it needs")
	}

	// What a session has is what is sent, and nothing else.
	s, at = a.begin(t, order, own(id, ann))
	if a.until(t, at, "completed"); len(s.ToolsWithheld) != 0 || *f.with.Load() != "Bearer token-of-ann-1" {
		t.Errorf("sent was %q; withheld %+v", *f.with.Load(), s.ToolsWithheld)
	}
	c.Want(200, "PATCH", path, object{"credentialsPerSession": "optional"})
	_, other := a.begin(t, order, nil)
	if a.until(t, other, "completed"); *f.with.Load() != "" {
		t.Errorf("a session without a secret sent %q", *f.with.Load())
	}
	c.Want(200, "PATCH", path, object{"auth": object{"type": "secret", "secretId": all}})
	review(t, c, path, "search")
	_, at = a.begin(t, order, own(id, ann))
	if a.until(t, at, "completed"); *f.with.Load() != "Bearer token-of-ann-1" {
		t.Errorf("sent was %q", *f.with.Load())
	}
	var read contract.Session
	if c.Want(200, "GET", at, nil).JSON(&read); len(orNone(read.Credentials)) != 1 || orNone(read.Credentials)[id] != ann {
		t.Errorf("the session has %+v", read.Credentials)
	}
	if c.Want(200, "GET", other, nil).JSON(&read); !read.Credentials.IsSpecified() || len(orNone(read.Credentials)) != 0 {
		t.Errorf("a session without a secret has %+v", read.Credentials)
	}
	c.Want(204, "DELETE", at, nil)
	err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		left, err := tx.Setup().OwnCredentials(context.Background(), h.Account.ID, strings.TrimPrefix(at, a.agent+"/sessions/"))
		if len(left) > 0 {
			t.Errorf("a deleted session left %v", left)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	// Objects that start sessions supply the secrets: a task, a link, a script tag.
	c.Want(200, "PATCH", path, object{"credentialsPerSession": "required"})
	var task contract.ScheduledTask
	a.Want(201, "POST", a.agent+"/scheduled-tasks", object{"name": "x", "message": order, "schedule": object{"type": "interval", "everySeconds": 86400}, "credentials": object{id: all}}).JSON(&task)
	tasks := a.agent + "/scheduled-tasks/" + task.ID
	var run contract.TaskRun
	a.Want(202, "POST", tasks+"/run", nil).JSON(&run)
	a.until(t, a.agent+"/sessions/"+orNone(run.SessionID), "completed")
	if *f.with.Load() != "Bearer token-of-everybody" {
		t.Errorf("a task sent %q", *f.with.Load())
	}
	if a.Want(200, "GET", tasks, nil).JSON(&task); orNone(task.Credentials)[id] != all {
		t.Errorf("the task has %+v", task.Credentials)
	}
	a.Want(200, "PATCH", tasks, object{"credentials": nil})
	if a.Want(200, "GET", tasks, nil).JSON(&task); !task.Credentials.IsSpecified() || len(orNone(task.Credentials)) != 0 {
		t.Errorf("the task has %+v", task.Credentials)
	}
	a.Want(202, "POST", tasks+"/run", nil).JSON(&run)
	a.until(t, a.agent+"/sessions/"+orNone(run.SessionID), "completed")
	if calls := f.calls.Load(); calls != 4 {
		t.Errorf("%d calls were made", calls)
	}

	weak, _ := h.NewKey(h.Account.ID, "agents:write", "sessions:write", "sessions:read", "schedules:write", "embeds:write")
	user := h.ClientWith(t, weak)
	for _, place := range []struct {
		path string
		body object
	}{
		{"/sessions", object{"message": order, "externalUserId": "ben"}},
		{"/scheduled-tasks", object{"name": "x", "message": order, "schedule": object{"type": "interval", "everySeconds": 86400}}},
		{"/embed-urls", object{"allowedOrigins": []string{"https://www.example.com"}, "externalUserId": "ben"}},
		{"/embed-sessions", object{"allowedOrigins": []string{"https://www.example.com"}, "externalUserId": "ben"}},
		{"/embed-tags", object{"allowedOrigins": []string{"https://www.example.com"}}},
	} {
		for _, wrong := range []struct {
			connection, secret string
			code               stoa.Code
		}{
			{id, far, stoa.CodeSecretOrigin},
			{id, ann, stoa.CodeSecretOrigin},
			{id, stoa.NewID("sec"), stoa.CodeSecretNotFound},
			{stoa.NewID("con"), all, stoa.CodeConnectionNotFound},
		} {
			place.body["credentials"] = object{wrong.connection: wrong.secret}
			if e := a.WantError(wrong.code, "POST", a.agent+place.path, place.body); *e.Param != "credentials."+wrong.connection {
				t.Errorf("%s: %+v", place.path, e)
			}
		}
		place.body["credentials"] = object{id: all}
		if e := user.WantError(stoa.CodeScope, "POST", a.agent+place.path, place.body); *e.Param != "credentials" {
			t.Errorf("%s: %+v", place.path, e)
		}
		var made struct {
			ID          string
			Credentials map[string]string
		}
		a.Want(map[bool]int{true: 202, false: 201}[place.path == "/sessions"], "POST", a.agent+place.path, place.body).JSON(&made)
		if a.Want(200, "GET", a.agent+place.path+"/"+made.ID, nil).JSON(&made); len(made.Credentials) != 1 || made.Credentials[id] != all {
			t.Errorf("%s: %+v", place.path, made)
		}
	}
}
