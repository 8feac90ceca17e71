package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoa/internal/apitest"
	"stoa/internal/contract"
	"stoa/internal/stoa"
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
