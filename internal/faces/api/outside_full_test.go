package api_test

import (
	"database/sql"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/storetest"
)

// fillDisk leaves no space for any write to the tables: a trigger would add a row for
// which there are no pages.
func fillDisk(t *testing.T, h *apitest.Service, tables ...string) {
	t.Helper()
	statements := []string{"CREATE TABLE filler (v BLOB)"}
	for _, table := range tables {
		for _, verb := range []string{"INSERT", "UPDATE", "DELETE"} {
			statements = append(statements, "CREATE TRIGGER full_"+verb+"_"+table+" BEFORE "+verb+" ON "+table+" BEGIN INSERT INTO filler VALUES (zeroblob(10000000)); END")
		}
	}
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		for _, statement := range append(statements, "PRAGMA max_page_count = 1") { // no page more than there are
			if err := tx.Query(t.Context(), func(*sql.Rows) error { return nil }, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskIsToldOfWhatActsToo(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	f := newToolServer(t, readTool)
	h := start(t, apitest.Config{Idle: true, Server: unlimited, Allow: toLoopback})
	c := h.Client(t)
	hook := hooks + "/" + newHook(t, c, object{"url": "https://example.com", "enabled": false}).ID
	off := hooks + "/" + newHook(t, c, object{"enabled": false}).ID
	emit(t, h)
	var sent page[contract.DeliverySummary]
	c.Want(200, "GET", hook+"/deliveries", nil).JSON(&sent)
	c.Want(200, "POST", hook+"/enable", nil)
	connection := connect(t, c, f.url)
	review(t, c, connection, "search")
	decision := object{"name": "search", "sha256": tools(t, c, connection)["search"].Sha256, "decision": "approve", "policy": "by_annotations"}
	f.tools.Store(new(readTool + "," + writeTool))
	key := object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": "https://mcp.example.com"}
	var secret contract.Secret
	c.Want(201, "POST", "/api/v1/secrets", key).JSON(&secret)
	fillDisk(t, h, "webhooks", "deliveries", "connections", "connection_tools", "secrets", "tool_calls")
	for _, ask := range []struct {
		method, path string
		body         any
	}{
		{"POST", hooks, object{"events": []string{"*"}}},
		{"PATCH", hook, object{"description": "x"}},
		{"POST", hook + "/test", nil},
		{"POST", hook + "/rotate-secret", nil},
		{"POST", off + "/enable", nil},
		{"POST", hook + "/deliveries/" + sent.Data[0].ID + "/redeliver", nil},
		{"POST", hook + "/recover", object{"since": "2026-01-01T00:00:00Z"}},
		{"DELETE", hook, nil},
		{"POST", "/api/v1/secrets", key},
		{"PUT", "/api/v1/secrets/" + secret.ID + "/value", object{"value": "battery-staple"}},
		{"DELETE", "/api/v1/secrets/" + secret.ID, nil},
		{"POST", "/api/v1/connections", object{"kind": "mcp", "name": "other", "url": f.url}},
		{"PATCH", connection, object{"headers": object{"X-Team": "docs"}}},
		{"POST", connection + "/tools/test", object{"name": "search"}},
		{"POST", connection + "/refresh", nil},
		{"POST", connection + "/tools/review", object{"tools": []object{decision}}},
		{"DELETE", connection, nil},
	} {
		if r := c.Do(ask.method, ask.path, ask.body); r.Status != 507 {
			t.Errorf("%s %s: %d %s", ask.method, ask.path, r.Status, r.Body)
		}
	}
	c.Want(200, "GET", hook, nil)
	c.Want(200, "GET", connection, nil)
}

func TestConnectionsHaveTags(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	body := object{"kind": "mcp", "name": "git", "url": "https://mcp.example.com"}
	var made contract.Connection
	tag := c.With("Idempotency-Key", "k").Want(201, "POST", "/api/v1/connections", body).JSON(&made).Header.Get("ETag")
	path := "/api/v1/connections/" + made.ID
	c.With("If-None-Match", tag).Want(304, "GET", path, nil)
	c.Want(200, "PATCH", path, object{"headers": object{"X-Team": "docs"}})
	c.With("If-None-Match", tag).Want(200, "GET", path, nil)
	c.With("If-Match", tag).WantError(stoa.CodePrecondition, "PATCH", path, object{"headers": object{}})
	c.With("If-Match", tag).WantError(stoa.CodePrecondition, "DELETE", path, nil)
	body["name"] = "other"
	c.With("Idempotency-Key", "k").WantError(stoa.CodeIdempotencyReused, "POST", "/api/v1/connections", body)
}

// breakSecret leaves a secret as a restore without the key of the service does.
func breakSecret(t *testing.T, h *apitest.Service, id string) {
	t.Helper()
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Setup().SetSecret(t.Context(), h.Account.ID, id, func(s *store.Secret) error {
			s.Sealed = "stoa2.gone.AAAA"
			return nil
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestASecretThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool)
	h := start(t, apitest.Config{Idle: true, Allow: toLoopback})
	c := h.Client(t)
	var secret contract.Secret
	c.Want(201, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": f.url}).JSON(&secret)
	path := connect(t, c, f.url)
	c.Want(200, "PATCH", path, object{"auth": object{"type": "secret", "secretId": secret.ID}})
	c.Want(200, "POST", path+"/refresh", nil)
	review(t, c, path, "search")
	breakSecret(t, h, secret.ID)
	c.WantError(stoa.CodeSecretsKeyMissing, "POST", path+"/tools/test", object{"name": "search"})
	if c.Want(200, "GET", "/api/v1/secrets/"+secret.ID, nil).JSON(&secret); !secret.Unreadable {
		t.Errorf("%+v", secret)
	}
	c.Want(200, "PUT", "/api/v1/secrets/"+secret.ID+"/value", object{"value": "battery-staple"})
	c.Want(200, "POST", path+"/tools/test", object{"name": "search"})
}

func TestNoSecretIsSetWithoutTheKey(t *testing.T) {
	t.Parallel()
	none, err := vault.Open(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, apitest.Config{Idle: true, Vault: none})
	secret := store.Secret{ID: stoa.NewID("sec"), AccountID: h.Account.ID, Name: "key", Kind: store.SecretBearer, Origin: "https://mcp.example.com", Sealed: "stoa2.gone.AAAA", Version: 1}
	err = h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Setup().InsertSecret(t.Context(), secret)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Client(t).WantError(stoa.CodeSecretsKeyMissing, "PUT", "/api/v1/secrets/"+secret.ID+"/value", object{"value": "battery-staple"})
}

func TestAnAccountHasSoManySecrets(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: unlimited})
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		for range 500 {
			if _, err := tx.Setup().InsertSecret(t.Context(), store.Secret{ID: stoa.NewID("sec"), AccountID: h.Account.ID, Name: "key", Kind: store.SecretBearer, Origin: "https://mcp.example.com", Version: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Client(t).WantError(stoa.CodeLimitReached, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": "https://mcp.example.com"})
}

func TestAServerThatNeverSaysItsTools(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t)
	f.Always("server/discover", "hang")
	h := start(t, apitest.Config{Idle: true, Allow: toLoopback, Server: func(s *api.Server) { s.Agents.Tools.Refreshes = time.Millisecond }})
	c := h.Client(t)
	var made contract.Connection
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "git", "url": f.URL}).JSON(&made)
	path := "/api/v1/connections/" + made.ID
	c.WantError(stoa.CodeToolServerTimeout, "POST", path+"/refresh", nil)
	if got := status(t, c, path); got.Status != "unreachable" {
		t.Errorf("%+v", got)
	}
}
