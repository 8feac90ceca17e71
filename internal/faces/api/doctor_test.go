package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestTheDoctorFindsEachFault provokes one fault after the other, in a service without
// faults.
func TestTheDoctorFindsEachFault(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(release) })
	f := newToolServer(t, readTool)
	var documents error
	machine := api.Machine{FreeDisk: 10 << 30, Disk: 20 << 30, OpenFiles: 4096, NeedsOf: 1024}
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}, Server: func(s *api.Server) {
		s.Doctor.Machine = func() api.Machine { return machine }
		s.Doctor.Documents = func(context.Context) error { return documents }
		s.Agents.Tools.PublicURL = "http://127.0.0.1:1"
	}})
	c := h.Client(t)
	look := func() map[string]contract.DiagnosisCheck {
		t.Helper()
		var d contract.Diagnosis
		c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
		all, status := map[string]contract.DiagnosisCheck{}, "ok"
		for _, check := range d.Checks {
			all[check.Name] = check
			if check.Status == "attention" {
				status = "attention"
			}
		}
		if d.Status != status {
			t.Errorf("%s, want %s", d.Status, status)
		}
		return all
	}
	sql := func(query string) {
		t.Helper()
		if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), query)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	attention := func(name, summary string, count int64, ids ...string) {
		t.Helper()
		found := look()[name]
		if found.Status != "attention" || found.Count != count || !strings.Contains(found.Summary, summary) || len(found.Items) < len(ids) {
			t.Fatalf("%+v", found)
		}
		for i, id := range ids {
			if item := found.Items[i]; orNone(item.ID) != id || orNone(item.AccountID) != h.Account.ID || item.Detail == "" {
				t.Errorf("%s: %+v, want %s", name, item, id)
			}
		}
	}

	// A service with a connection, a secret and a webhook that work has nothing.
	path := connect(t, c, f.url)
	c.Want(200, "POST", path+"/refresh", nil)
	var secret contract.Secret
	c.Want(201, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": f.url}).JSON(&secret)
	for name, check := range look() {
		if check.Status != "ok" {
			t.Errorf("%s: %+v", name, check)
		}
	}

	var failing, unauthorized contract.Connection
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "gone", "url": "http://127.0.0.1:1"}).JSON(&failing)
	c.WantError(stoa.CodeToolServer, "POST", "/api/v1/connections/"+failing.ID+"/refresh", nil)
	attention("connections", "1 connection is not ready", 1, failing.ID)
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "login", "url": f.url, "auth": object{"type": "oauth"}}).JSON(&unauthorized)
	attention("connections", "2 connections are not ready", 2, failing.ID, unauthorized.ID)
	for _, off := range []struct{ this, other string }{{failing.ID, unauthorized.ID}, {unauthorized.ID, failing.ID}} { // switched-off connections do not count
		c.Want(200, "PATCH", "/api/v1/connections/"+off.this, object{"enabled": false})
		attention("connections", "1 connection is not ready", 1, off.other)
		c.Want(200, "PATCH", "/api/v1/connections/"+off.this, object{"enabled": true})
	}

	h.Server.Agents.Tools.PublicURL = ""
	attention("publicUrl", "set publicUrl", 0)

	sql(`UPDATE secrets SET sealed = 'x'`)
	attention("secrets", "1 cannot be decrypted", 1, secret.ID)

	a := newAuthor(t, h, c, object{"tools": []any{object{"type": "client", "name": "look_up", "description": "x", "parameters": object{"type": "object"}}}})
	s, at := a.begin(t, "call: look_up {}", nil)
	a.until(t, at, "waiting_for_input")
	if found := look()["waiting"]; found.Status != "ok" || found.Count != 1 || len(found.Items) != 1 || orNone(found.Items[0].ID) != s.ID || found.Items[0].Detail != "tool_call" || found.Items[0].Since.IsNull() {
		t.Errorf("%+v", found)
	}

	var hook contract.WebhookWithSecret
	c.Want(201, "POST", hooks, object{"url": hanging.URL, "events": []string{"*"}}).JSON(&hook)
	for range 6 { // four are sent at a time
		c.Want(202, "POST", hooks+"/"+hook.ID+"/test", nil)
	}
	sql(`UPDATE deliveries SET due_at = 1 WHERE status = 'pending'`)
	attention("webhooks", "late", 0)
	sql(`UPDATE deliveries SET status = 'failed', finished_at = 5 WHERE lease = ''`)
	if found := look()["webhooks"]; found.Status != "attention" || found.Count == 0 || len(found.Items) == 0 || !strings.HasPrefix(orNone(found.Items[0].ID), "dlv_") || !strings.Contains(found.Summary, "failed permanently") {
		t.Errorf("%+v", found)
	}

	req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+"/api/v1/credits", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk_wrong")
	req.Header.Set("X-Forwarded-For", "unknown")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	attention("proxies", "X-Forwarded-For", 0)

	machine.FreeDisk = 1 << 20
	attention("disk", "1 MiB of 20480 MiB", 0)
	machine.OpenFiles = 512
	attention("files", "can open 512 files", 0)
	machine = api.Machine{}
	if all := look(); all["disk"].Status != "unknown" || all["files"].Status != "unknown" {
		t.Errorf("%+v", all)
	}

	documents = errors.New("the directory is not writable")
	attention("documents", "Not all documents can be read: the directory is not writable.", 0)
	documents = context.DeadlineExceeded
	if found := look()["documents"]; found.Status != "unknown" || !strings.Contains(found.Summary, "is being compiled") {
		t.Errorf("%+v", found)
	}

	key, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, key).WantError(stoa.CodeScope, "GET", "/api/v1/doctor", nil)
}

// TestTheDoctorSeesAStoreThatIsGone: it answers all the same, and says what it does not
// know.
func TestTheDoctorSeesAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // on PostgreSQL it is a node that has ended
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var d contract.Diagnosis
	c.Want(200, "GET", "/api/v1/doctor", nil) // the key is known from then on
	if err := h.Store.Close(); err != nil {
		t.Fatal(err)
	}
	c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
	if d.Status != "attention" || d.Checks[0].Name != "store" || d.Checks[0].Status != "attention" || d.Checks[1].Status != "unknown" {
		t.Errorf("%+v", d)
	}
}

// TestStoredSecretsThatNoKeyOpens runs the service with another master key, and with a
// row that was copied to another account: tools are withheld, this is reported, and
// everything else works.
func TestStoredSecretsThatNoKeyOpens(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool)
	log, logger := capture()
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}, Logger: logger})
	other := storetest.Account(t, h.Store, 10*stoa.Credit)
	otherKey, _ := h.NewKey(other.ID, stoa.ScopeAll)
	type tenant struct {
		c      *apitest.Client
		a      author
		path   string
		secret contract.Secret
	}
	prepare := func(c *apitest.Client, value string) (x tenant) {
		x.c = c
		c.Want(201, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": value, "origin": f.url}).JSON(&x.secret)
		var made contract.Connection
		c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "git", "url": f.url, "auth": object{"type": "secret", "secretId": x.secret.ID}}).JSON(&made)
		x.path = "/api/v1/connections/" + made.ID
		c.Want(200, "POST", x.path+"/refresh", nil)
		review(t, c, x.path, "search")
		x.a = newAuthor(t, h, c, object{"tools": []any{ofConnection(x.path, "search")}})
		return x
	}
	mine, theirs := prepare(h.Client(t), "correct-horse-of-mine"), prepare(h.ClientWith(t, otherKey), "correct-horse-of-theirs")
	sees := func(x tenant, unreadable bool) {
		t.Helper()
		before := f.calls.Load()
		_, at := x.a.begin(t, "call: git__search {}", nil)
		s := x.a.until(t, at, "completed")
		var secret contract.Secret
		x.c.Want(200, "GET", "/api/v1/secrets/"+x.secret.ID, nil).JSON(&secret)
		if called := f.calls.Load() > before; called == unreadable || secret.Unreadable != unreadable || (len(s.ToolsWithheld) == 1) != unreadable {
			t.Errorf("called %t, unreadable %t, withheld %+v", called, secret.Unreadable, s.ToolsWithheld)
		}
		if unreadable && len(s.ToolsWithheld) > 0 && s.ToolsWithheld[0].Reason != "needs_authorization" {
			t.Errorf("%+v", s.ToolsWithheld)
		}
		if unreadable {
			x.c.Do("POST", x.path+"/tools/test", object{"name": "search"})
			if line := `level=ERROR msg="a secret cannot be read"`; !strings.Contains(log.text(), line) || !strings.Contains(log.text(), "connection="+strings.TrimPrefix(x.path, "/api/v1/connections/")) {
				t.Errorf("the log has %s", log.text())
			}
		}
	}
	sees(mine, false)
	sees(theirs, false)

	// The other account's row gets the ciphertext of mine.
	err := h.Store.Write(context.Background(), func(tx *store.Tx) error {
		_, err := tx.Exec(context.Background(), `UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE id = $1) WHERE id = $2`, mine.secret.ID, theirs.secret.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sees(theirs, true)
	sees(mine, false)
	if strings.Contains(log.text(), "correct-horse") || strings.Contains(*f.with.Load(), "theirs") {
		t.Error("a value is told")
	}

	// The service has another key.
	was := h.Server.Agents.Tools.Vault
	lost, err := vault.Open([]seal.MasterKey{{ID: "other", Key: []byte("fedcba9876543210fedcba9876543210")}}, "")
	if err != nil {
		t.Fatal(err)
	}
	h.Server.Agents.Tools.Vault = lost
	sees(mine, true)
	_, at := mine.a.begin(t, "say: hello", nil)
	mine.a.until(t, at, "completed") // the vault is not in use when it is set again
	if r := mine.c.Do("GET", "/api/v1/health", nil); r.Status != 200 {
		t.Errorf("the service says %d", r.Status)
	}
	h.Server.Agents.Tools.Vault = was
	sees(mine, false)
}
