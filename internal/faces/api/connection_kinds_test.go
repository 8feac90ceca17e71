package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// A shop is a server without a protocol for tools, and its OpenAPI document.
type shop struct {
	url      string
	document atomic.Pointer[string]
	paths    atomic.Pointer[string] // of requests, each with a space
}

func newShop(t *testing.T) *shop {
	t.Helper()
	f := &shop{}
	f.document.Store(new(`{"openapi":"3.1.0","info":{"title":"Shop","description":"Sells."},"paths":{"/orders":{"get":{"operationId":"list","summary":"Lists."},"post":{"operationId":"add"}}}}`))
	f.paths.Store(new(""))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.paths.Store(new(*f.paths.Load() + r.Method + " " + r.RequestURI + " "))
		if r.URL.Path == "/openapi.json" {
			_, _ = io.WriteString(w, *f.document.Load())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[{"id":12345678901234567},2,3],"key":"`+r.Header.Get("Authorization")+`"}`)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// requests returns the requests since the last call.
func (f *shop) requests() string { return strings.TrimSpace(*f.paths.Swap(new(""))) }

func operation(more object) object {
	o := object{
		"name": "get_order", "description": "Reads an order.", "method": "GET", "path": "/orders/{id}", "result": object{"pointer": "/data", "maxItems": 1},
		"parameters": object{"properties": object{"id": object{"type": "string", "in": "path"}, "q": object{"type": "string", "in": "query"}}},
	}
	for k, v := range more {
		o[k] = v
	}
	return o
}

func TestOperationsAreTools(t *testing.T) {
	t.Parallel()
	f := newShop(t)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	var made contract.Connection
	body := object{"kind": "http", "name": "shop", "url": f.url + "/v1", "operations": []object{operation(nil), operation(object{"name": "put", "method": "PUT"})}, "limits": object{"timeoutSeconds": 5, "callsPerMinute": 3}}
	c.Want(201, "POST", "/api/v1/connections", body).JSON(&made)
	path := "/api/v1/connections/" + made.ID
	if made.Status != "review_needed" || made.ToolCounts.New != 2 || len(made.Operations.MustGet()) != 2 || made.OnChange != "block" ||
		made.Limits != (contract.ConnectionLimits{TimeoutSeconds: 5, MaxResultBytes: 262144, MaxConcurrent: 8, CallsPerMinute: 3}) {
		t.Errorf("%+v", made)
	}
	if o := made.Operations.MustGet()[0]; o.Name != "get_order" || o.Result.MustGet().Pointer.MustGet() != "/data" || o.Method != "GET" || o.Path != "/orders/{id}" {
		t.Errorf("%+v", o)
	}
	get := tools(t, c, path)["get_order"]
	if get.State != "new" || get.Suggested != (contract.ConnectionToolPolicy{Approval: "never", Effects: "read"}) || get.Request.MustGet()["path"] != "/orders/{id}" || get.ModelName != "shop__get_order" ||
		get.Visitors != "no" || get.TimeoutSeconds != 5 || get.DefinitionTokens == 0 {
		t.Errorf("%+v", get)
	}
	if put := tools(t, c, path)["put"]; put.Suggested != (contract.ConnectionToolPolicy{Approval: "always", Effects: "idempotent"}) {
		t.Errorf("%+v", put)
	}
	decide := func(name, visitors, effects string) object {
		return object{"tools": []object{{"name": name, "sha256": tools(t, c, path)[name].Sha256, "decision": "approve", "approval": "never", "effects": effects, "visitors": visitors}}}
	}
	if e := c.Want(400, "POST", path+"/tools/review", decide("put", "yes", "idempotent")).Error(); *e.Param != "tools[0].visitors" {
		t.Errorf("%+v", e)
	}
	c.Want(200, "POST", path+"/tools/review", decide("get_order", "yes", "read"))
	if s := tools(t, c, path)["get_order"]; s.State != "approved" || s.Visitors != "yes" {
		t.Errorf("%+v", s)
	}
	try := object{"name": "get_order", "arguments": object{"id": "a b", "q": "&x"}}
	var out contract.ConnectionToolTest
	c.Want(200, "POST", path+"/tools/test", try).JSON(&out)
	if out.Outcome != "ok" || out.Text.MustGet() != "Status: 200\n[{\"id\":12345678901234567}]\n(These are 1 of 3 entries; the others were left out.)" || f.requests() != "GET /v1/orders/a%20b?q=%26x" {
		t.Errorf("%+v", out)
	}
	var calls contract.ToolCallList
	c.Want(200, "GET", "/api/v1/tool-calls", nil).JSON(&calls)
	if len(calls.Data) != 1 {
		t.Fatalf("%+v", calls)
	}
	if one := calls.Data[0]; one.ID != out.CallID || one.SessionID != "" || one.Turn != 0 || one.Step != 0 || one.Place != 0 || one.Tool != "shop__get_order" || one.ConnectionID.MustGet() != made.ID ||
		one.Outcome.MustGet() != "ok" || one.ResultText.MustGet() != out.Text.MustGet() || string(one.Arguments) != `{"id":"a b","q":"\u0026x"}` && string(one.Arguments) != `{"id":"a b","q":"&x"}` {
		t.Errorf("%+v", one)
	}

	// Another request behind the name is another definition.
	c.Want(200, "PATCH", path, object{"operations": []object{operation(object{"path": "/v2/orders/{id}"})}})
	now := tools(t, c, path)["get_order"]
	if now.State != "changed" || now.Previous.MustGet().Request.MustGet()["path"] != "/orders/{id}" || status(t, c, path).Status != "review_needed" {
		t.Errorf("%+v", now)
	}
	if e := c.Want(409, "POST", path+"/tools/test", try).Error(); e.Code != string(stoa.CodeToolChanged) {
		t.Errorf("%+v", e)
	}
	c.Want(200, "PATCH", path, object{"onChange": "keep"})
	c.Want(200, "POST", path+"/tools/test", try).JSON(&out)
	if sent := f.requests(); out.Outcome != "ok" || sent != "GET /v1/orders/a%20b?q=%26x" {
		t.Errorf("%+v after %s", out, sent)
	}
	c.Want(200, "POST", path+"/tools/test", try)
	if e := c.Want(429, "POST", path+"/tools/test", try).Error(); e.Code != string(stoa.CodeRateLimit) {
		t.Errorf("a fourth call in a minute: %+v", e)
	}
	c.Want(200, "PATCH", path, object{"url": f.url})
	if s := status(t, c, path); s.ToolCounts.Approved+s.ToolCounts.Changed != 0 || s.Status != "review_needed" || tools(t, c, path)["get_order"].Visitors != "no" {
		t.Errorf("after another address: %+v", s)
	}
	c.Want(200, "POST", path+"/refresh", nil)
	c.Want(204, "DELETE", path, nil)
}

func TestADocumentIsReadAgain(t *testing.T) {
	t.Parallel()
	f := newShop(t)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	var secret contract.Secret
	c.Want(201, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": f.url}).JSON(&secret)
	auth := object{"type": "secret", "secretId": secret.ID}
	var made contract.Connection
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "openapi", "name": "shop", "documentUrl": f.url + "/openapi.json", "auth": auth}).JSON(&made)
	path := "/api/v1/connections/" + made.ID
	if made.URL != "" || made.Status != "unchecked" || made.DocumentURL.MustGet() != f.url+"/openapi.json" {
		t.Errorf("%+v", made)
	}
	var d contract.RefreshedConnection
	c.Want(200, "POST", path+"/refresh", nil).JSON(&d)
	if !slices.Equal(d.Added, []string{"list", "add"}) || d.Connection.URL != f.url+"/" || d.Connection.Instructions.MustGet() != "Sells." {
		t.Errorf("%+v", d)
	}
	review(t, c, path, "list")
	f.requests()
	var out contract.ConnectionToolTest
	c.Want(200, "POST", path+"/tools/test", object{"name": "list"}).JSON(&out)
	if sent := f.requests(); sent != "GET /orders" || !strings.Contains(out.Text.MustGet(), `"key":"Bearer [secret]"`) {
		t.Errorf("%s %+v", sent, out)
	}
	// The document moves the server away, and changes an operation.
	f.document.Store(new(strings.Replace(strings.Replace(*f.document.Load(), `"paths"`, `"servers":[{"url":"https://elsewhere.example.com"}],"paths"`, 1), "Lists.", "Lists all.", 1)))
	c.Want(200, "POST", path+"/refresh", nil).JSON(&d)
	if !slices.Equal(d.Changed, []string{"list"}) || d.Unchanged != 1 || d.Connection.URL != f.url+"/" {
		t.Errorf("%+v", d)
	}
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "openapi", "name": "other", "documentUrl": f.url + "/openapi.json", "auth": auth}).JSON(&made)
	if e := c.Want(422, "POST", "/api/v1/connections/"+made.ID+"/refresh", nil).Error(); e.Code != string(stoa.CodeSecretOrigin) {
		t.Errorf("%+v", e)
	}
	if s := status(t, c, "/api/v1/connections/"+made.ID); s.URL != "" || s.ToolCounts.New != 0 || s.LastError.MustGet().Code != string(stoa.CodeSecretOrigin) {
		t.Errorf("%+v", s)
	}
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "openapi", "name": "inline", "url": f.url, "document": *f.document.Load()}).JSON(&made)
	c.Want(200, "POST", "/api/v1/connections/"+made.ID+"/refresh", nil).JSON(&d)
	if len(d.Added) != 2 || d.Connection.URL != f.url {
		t.Errorf("%+v", d)
	}
	// A filter selects operations; without one all are tools again.
	c.Want(200, "PATCH", "/api/v1/connections/"+made.ID, object{"filter": object{"search": "lists"}}).JSON(&made)
	if f := made.Filter.MustGet(); f.Search != "lists" {
		t.Errorf("%+v", f)
	}
	c.Want(200, "POST", "/api/v1/connections/"+made.ID+"/refresh", nil).JSON(&d)
	if !slices.Equal(d.Missing, []string{"add"}) || d.Unchanged != 1 {
		t.Errorf("with a filter: %+v", d)
	}
	c.Want(200, "PATCH", "/api/v1/connections/"+made.ID, object{"filter": nil}).JSON(&made)
	c.Want(200, "POST", "/api/v1/connections/"+made.ID+"/refresh", nil).JSON(&d)
	if !slices.Equal(d.Added, []string{"add"}) || !made.Filter.IsNull() {
		t.Errorf("without a filter: %+v, %+v", d, made.Filter)
	}
	c.Want(200, "PATCH", "/api/v1/connections/"+made.ID, object{"document": "none"})
	c.Want(502, "POST", "/api/v1/connections/"+made.ID+"/refresh", nil)
	if s := status(t, c, "/api/v1/connections/"+made.ID); s.Status != "unreachable" || s.ToolCounts.New != 2 {
		t.Errorf("%+v", s)
	}
}

func TestWhatDoesNotFitAKind(t *testing.T) {
	t.Parallel()
	c := start(t, apitest.Config{}).Client(t)
	const api = "https://api.example.com"
	for param, all := range map[string][]object{
		"url":                {{"kind": "mcp"}, {"kind": "http", "operations": []object{operation(nil)}}},
		"operations":         {{"kind": "http", "url": api}, {"kind": "mcp", "url": api, "operations": []object{operation(nil)}}},
		"documentUrl":        {{"kind": "openapi", "url": api}, {"kind": "mcp", "url": api, "documentUrl": api}, {"kind": "openapi", "documentUrl": "ftp://a.example.com"}},
		"document":           {{"kind": "http", "url": api, "operations": []object{operation(nil)}, "document": "{}"}, {"kind": "openapi", "documentUrl": api, "document": "{}"}},
		"operations[1].path": {{"kind": "http", "url": api, "operations": []object{operation(nil), operation(object{"name": "b", "path": "/a/../{id}"})}}},
		"operations[0].parameters": {
			{"kind": "http", "url": api, "operations": []object{operation(object{"path": "/a", "parameters": object{"properties": object{"Cookie": object{"in": "header"}}}})}},
		},
		"limits.timeoutSeconds": {{"kind": "mcp", "url": api, "limits": object{"timeoutSeconds": 301}}, {"kind": "mcp", "url": api, "limits": object{"timeoutSeconds": 0}}},
		"limits.maxResultBytes": {{"kind": "mcp", "url": api, "limits": object{"maxResultBytes": 4194305}}},
		"filter":                {{"kind": "mcp", "url": api, "filter": object{"search": "a"}}},
		"filter.tags":           {{"kind": "openapi", "documentUrl": api, "filter": object{"tags": []string{}}}},
		"sessions":              {{"kind": "openapi", "documentUrl": api, "sessions": "session"}, {"kind": "mcp", "url": api, "sessions": "day"}},
		"onChange":              {{"kind": "mcp", "url": api, "onChange": "allow"}},
		"headers":               {{"kind": "mcp", "url": api, "headers": object{"Transfer-Encoding": "chunked"}}, {"kind": "http", "url": api, "operations": []object{operation(nil)}, "headers": object{"X": "a\r\nb"}}},
	} {
		for _, b := range all {
			b["name"] = "shop"
			e := c.Want(400, "POST", "/api/v1/connections", b).Error()
			if e.Param == nil || *e.Param != param {
				text, _ := json.Marshal(b)
				t.Errorf("%s: %+v", text, e)
			}
			if header := param == "headers" || param == "operations[0].parameters"; header != (e.Code == string(stoa.CodeInvalidHeader)) {
				t.Errorf("%s has the code %s", param, e.Code)
			}
		}
	}
}

func TestAConnectionInUseIsKept(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	review(t, c, path, "search")
	id, space := strings.TrimPrefix(path, "/api/v1/connections/"), status(t, c, path).SpaceID
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		c.Want(201, "POST", "/api/v1/api-agents", object{"name": name, "spaceId": space, "instructions": "Help.", "tools": []object{{"type": "connection", "connectionId": id, "allow": []string{"search"}}}})
	}
	if e := c.Want(409, "DELETE", path, nil).Error(); e.Code != string(stoa.CodeConnectionInUse) || !strings.Contains(e.Message, `"a", "b", "c", "d", "e" and others`) {
		t.Errorf("%+v", e)
	}
	c.Want(204, "DELETE", path+"?force=true", nil)
	c.Want(404, "GET", path, nil)
	c.WantError(stoa.CodeConnectionNotFound, "DELETE", path, nil)
}

// TestConnectionsInUseAreRefreshed has one due connection that an agent has tools of, and
// one that none has; two nodes look at the same time.
func TestConnectionsInUseAreRefreshed(t *testing.T) {
	t.Parallel()
	f := newToolServer(t, readTool)
	h := start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	c := h.Client(t)
	path := connect(t, c, f.url)
	review(t, c, path, "search")
	id, space := strings.TrimPrefix(path, "/api/v1/connections/"), status(t, c, path).SpaceID
	c.Want(201, "POST", "/api/v1/api-agents", object{"name": "a", "spaceId": space, "instructions": "Help.", "tools": []object{{"type": "connection", "connectionId": id, "allow": []string{"search"}}}})
	var idle contract.Connection
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "idle", "url": f.url}).JSON(&idle)
	c.Want(200, "POST", "/api/v1/connections/"+idle.ID+"/refresh", nil)
	var hook contract.Webhook
	c.Want(201, "POST", hooks, object{"events": []string{"connection.review_needed", "connection.needs_authorization"}}).JSON(&hook)
	sweep := func(old bool) {
		t.Helper()
		if old {
			if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
				_, err := tx.Exec(t.Context(), `UPDATE connections SET checked_at = 1000000, refresh_at = 0`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		var group errgroup.Group
		for range 2 {
			group.Go(func() error { return h.Server.Agents.Tools.Sweep(t.Context()) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	events := func() (all []string) {
		var sent contract.DeliveryList
		c.Want(200, "GET", hooks+"/"+hook.ID+"/deliveries?order=asc", nil).JSON(&sent)
		for _, d := range sent.Data {
			all = append(all, string(d.Type))
		}
		return all
	}
	changed := strings.Replace(readTool, "Finds.", "Finds all.", 1)
	f.tools.Store(&changed)
	sweep(false) // nothing is due
	if s := tools(t, c, path)["search"]; s.State != "approved" {
		t.Errorf("%+v", s)
	}
	sweep(true)
	if s := tools(t, c, path)["search"]; s.State != "changed" {
		t.Errorf("%+v", s)
	}
	if s := status(t, c, "/api/v1/connections/"+idle.ID); s.LastCheckedAt.MustGet().Time().Year() != 1970 {
		t.Errorf("a connection that no agent has tools of was refreshed: %+v", s)
	}
	sweep(true)
	f.key.Store(new("Bearer x"))
	sweep(true)
	sweep(true)
	if s := status(t, c, path); s.Status != "needs_authorization" {
		t.Errorf("%+v", s)
	}
	if got, want := events(), []string{"connection.review_needed", "connection.needs_authorization"}; !slices.Equal(got, want) {
		t.Errorf("the webhook was told %v, want %v", got, want)
	}
}
