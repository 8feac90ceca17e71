package api_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// echoServer is a server of tools whose only tool, search, repeats what requests carry:
// headers, address, and both in other forms.
func echoServer(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		user, password, _ := r.BasicAuth()
		echo, _ := json.Marshal(fmt.Sprintf("%s %s %s %s:%s %v", r.Method, r.URL, r.URL.Query(), user, password, r.Header))
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		switch m.Method {
		case "tools/list":
			result = `{"resultType":"complete","tools":[` + readTool + `]}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":` + string(echo) + `}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestKindsOfSecretsAreSent(t *testing.T) {
	t.Parallel()
	const value = "correct+horse/battery"
	url := echoServer(t)
	log := &strings.Builder{}
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	c := h.Client(t)
	for i, k := range []struct {
		body object
		sent string
	}{
		{object{"kind": "bearer", "value": value}, "Authorization:[Bearer [secret]]"},
		{object{"kind": "header", "headerName": "X-Key", "value": value}, "X-Key:[[secret]]"},
		{object{"kind": "basic", "value": "somebody:" + value}, "Authorization:[Basic [secret]]"},
		{object{"kind": "query", "parameterName": "key", "value": value}, "/?a=b&key=[secret] map[a:[b] key:[[secret]]]"},
	} {
		k.body["name"], k.body["origin"] = "key", url
		var secret contract.Secret
		c.Want(201, "POST", "/api/v1/secrets", k.body).JSON(&secret)
		var made contract.Connection
		c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": fmt.Sprint("git", i), "url": url + "/?a=b", "auth": object{"type": "secret", "secretId": secret.ID}}).JSON(&made)
		path := "/api/v1/connections/" + made.ID
		c.Want(200, "POST", path+"/refresh", nil)
		review(t, c, path, "search")
		r := c.Want(200, "POST", path+"/tools/test", object{"name": "search"})
		var out contract.ConnectionToolTest
		r.JSON(&out)
		if text := out.Text.MustGet(); !strings.Contains(text, k.sent) {
			t.Errorf("%s: %s", secret.Kind, text)
		}
		c.Want(200, "GET", "/api/v1/secrets/"+secret.ID, nil).JSON(&secret)
		if len(secret.UsedBy) != 1 || secret.UsedBy[0].ConnectionID != made.ID || secret.UsedBy[0].Use != "requests" || secret.LastUsedAt.IsNull() {
			t.Errorf("%+v", secret)
		}
		for _, told := range []string{string(r.Body), log.String()} {
			for _, form := range []string{value, "correct%2Bhorse"} {
				if strings.Contains(told, form) {
					t.Errorf("%s: the value is told: %s", secret.Kind, told)
				}
			}
		}

		// With another value that is over already, nothing is sent.
		next := object{"value": "somebody:another-value", "expiresAt": time.Now().Add(-time.Hour)}
		c.Want(200, "PUT", "/api/v1/secrets/"+secret.ID+"/value", next).JSON(&secret)
		if secret.ExpiresAt.IsNull() || secret.Version != 2 {
			t.Errorf("%+v", secret)
		}
		c.Want(200, "POST", path+"/tools/test", object{"name": "search"}).JSON(&out)
		if out.Outcome != "not_sent" || !strings.Contains(out.Message.MustGet(), "expired") {
			t.Errorf("%+v", out)
		}
	}
}

func TestSecretsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	const origin = "https://mcp.example.com"
	for param, body := range map[string]object{
		"value":          {"kind": "basic", "value": "without-colon"},
		"parameterName":  {"kind": "query", "value": "correct-horse"},
		"parameterName ": {"kind": "bearer", "value": "correct-horse", "parameterName": "key"},
		"headerName":     {"kind": "query", "value": "correct-horse", "parameterName": "key", "headerName": "X-Key"},
	} {
		body["name"], body["origin"] = "key", origin
		if e := c.Want(400, "POST", "/api/v1/secrets", body).Error(); e.Param == nil || *e.Param != strings.TrimSpace(param) {
			t.Errorf("%v: %+v", body, e)
		}
	}
	secret := func(more object) string {
		body := object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": origin}
		for k, v := range more {
			body[k] = v
		}
		var made contract.Secret
		c.Want(201, "POST", "/api/v1/secrets", body).JSON(&made)
		return made.ID
	}
	if e := c.Want(404, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": origin, "spaceId": "spc_none"}).Error(); e.Code != string(stoa.CodeSpaceNotFound) {
		t.Errorf("%+v", e)
	}
	var space contract.Space
	c.Want(201, "POST", "/api/v1/spaces", object{"name": "other"}).JSON(&space)
	for code, id := range map[int]string{
		400: secret(object{"kind": "token"}),
		422: secret(object{"spaceId": space.ID}),
		423: secret(object{"externalUserId": "user-1"}),
	} {
		want := min(code, 422)
		e := c.Want(want, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "git", "url": origin + "/mcp", "auth": object{"type": "secret", "secretId": id}}).Error()
		if e.Param == nil || *e.Param != "auth.secretId" {
			t.Errorf("%+v", e)
		}
	}
}

// TestADeletedSecretLeavesItsName: the value is deleted immediately, but a call still
// names the secret that it carried, as long as the call is kept.
func TestADeletedSecretLeavesItsName(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-battery"
	f := newToolServer(t, readTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	secret := func(name string) (made contract.Secret) {
		c.Want(201, "POST", "/api/v1/secrets", object{"name": name, "kind": "bearer", "value": value, "origin": f.url}).JSON(&made)
		return made
	}
	path := connect(t, c, f.url)
	id := strings.TrimPrefix(path, "/api/v1/connections/")
	of, own, never := secret("of the connection"), secret("of a session"), secret("never used")
	c.Want(200, "PATCH", path, object{"auth": object{"type": "secret", "secretId": of.ID}, "credentialsPerSession": "optional"})
	c.Want(200, "POST", path+"/refresh", nil)
	review(t, c, path, "search")
	var trial contract.ConnectionToolTest
	c.Want(200, "POST", path+"/tools/test", object{"name": "search"}).JSON(&trial)
	a := newAuthor(t, h, c, object{"tools": []any{ofConnection(path, "search")}})
	_, at := a.begin(t, "call: git__search {}", object{"credentials": object{id: own.ID}})
	a.until(t, at, "completed")
	_, kept := a.begin(t, "call: git__search {}", object{"credentials": object{id: own.ID}, "mode": "chat"})
	a.until(t, kept, "completed")

	called := func(callID string) string {
		t.Helper()
		var call contract.AgentToolCall
		c.Want(200, "GET", "/api/v1/tool-calls/"+callID, nil).JSON(&call)
		return orNone(call.SecretID)
	}
	var calls page[contract.AgentToolCall]
	c.Want(200, "GET", at+"/tool-calls", nil).JSON(&calls)
	if len(calls.Data) != 1 || called(calls.Data[0].ID) != own.ID || called(trial.CallID) != of.ID {
		t.Errorf("the calls name %+v and %s", calls.Data, called(trial.CallID))
	}

	c.Want(409, "DELETE", "/api/v1/secrets/"+of.ID, nil)
	c.Want(200, "PATCH", path, object{"auth": object{"type": "none"}})
	review(t, c, path, "search")
	for _, s := range []contract.Secret{of, own, never, own} { // also once more
		c.Want(204, "DELETE", "/api/v1/secrets/"+s.ID, nil)
	}
	c.Want(404, "GET", "/api/v1/secrets/"+never.ID, nil)
	for _, s := range []contract.Secret{of, own} {
		var now contract.Secret
		c.Want(200, "GET", "/api/v1/secrets/"+s.ID, nil).JSON(&now)
		if now.Name != s.Name || now.Origin != s.Origin || !now.Hint.IsNull() || now.DeletedAt.IsNull() || !now.DeletedAt.IsSpecified() || now.Unreadable {
			t.Errorf("%+v", now)
		}
		c.Want(404, "PUT", "/api/v1/secrets/"+s.ID+"/value", object{"value": value})
		c.Want(404, "PATCH", path, object{"auth": object{"type": "secret", "secretId": s.ID}})
	}
	var list page[contract.Secret]
	if c.Want(200, "GET", "/api/v1/secrets", nil).JSON(&list); len(list.Data) != 0 {
		t.Errorf("the list has %+v", list.Data)
	}
	if e := a.WantError(stoa.CodeSecretNotFound, "POST", a.agent+"/sessions", object{"message": "x", "credentials": object{id: own.ID}}); *e.Param != "credentials."+id {
		t.Errorf("%+v", e)
	}
	err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		return tx.Query(t.Context(), func(rows *sql.Rows) error {
			var sealed, hint string
			err := rows.Scan(&sealed, &hint)
			if sealed+hint != "" {
				t.Errorf("left is %q %q", sealed, hint)
			}
			return err
		}, `SELECT sealed, hint FROM secrets WHERE account_id = $1 ORDER BY created_at LIMIT 10`, h.Account.ID)
	})
	if err != nil {
		t.Error(err)
	}

	// A session that has it goes on without the tool.
	before := f.calls.Load()
	c.Want(202, "POST", kept+"/messages", object{"message": "call: git__search {}"})
	if s := a.until(t, kept, "completed"); f.calls.Load() != before || len(s.ToolsWithheld) != 1 || s.ToolsWithheld[0].Reason != "needs_authorization" {
		t.Errorf("%+v after %d calls", s.ToolsWithheld, f.calls.Load()-before)
	}

	// The row goes with the last call that names it.
	purge := func() (n int64) {
		t.Helper()
		if err := h.Store.Write(t.Context(), func(tx *store.Tx) (err error) {
			n, err = tx.Setup().PurgeSecrets(t.Context(), 10)
			return err
		}); err != nil {
			t.Error(err)
		}
		return n
	}
	if n := purge(); n != 0 {
		t.Errorf("%d rows were removed that calls name", n)
	}
	c.Want(204, "DELETE", at, nil)
	if n := purge(); n != 0 {
		t.Errorf("%d rows were removed that calls name", n)
	}
	c.Want(204, "DELETE", kept, nil)
	if n := purge(); n != 1 {
		t.Errorf("%d rows were removed", n)
	}
	c.Want(404, "GET", "/api/v1/secrets/"+own.ID, nil)
	c.Want(200, "GET", "/api/v1/secrets/"+of.ID, nil)
}
