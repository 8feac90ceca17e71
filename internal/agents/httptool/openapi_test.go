package httptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/agents/remote"
)

// read returns the tools of a document by name.
func read(t *testing.T, text string) map[string]remote.Tool {
	t.Helper()
	got, err := Server{Document: text}.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]remote.Tool{}
	for _, tool := range got.Tools {
		all[tool.Name] = tool
	}
	return all
}

const shop = `
openapi: 3.0.3
info: {title: Shop, version: "1.2", description: Sells things.}
servers: [{url: "https://{place}.example.com/v1", variables: {place: {default: api}}}]
paths:
  /orders/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer, maximum: 12345678901234567}}
    get:
      operationId: getOrder
      summary: Reads an order
      parameters:
        - {name: fields, in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: id, in: query, schema: {type: string, nullable: true}}
    put:
      operationId: putOrder
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Order'}}}}
    delete: {operationId: deleteOrder}
    patch:
      operationId: patchOrder
      parameters: [{name: Idempotency-Key, in: header, required: true, schema: {type: string}}]
      requestBody: {$ref: '#/components/requestBodies/Order'}
  /orders:
    post: {operationId: postOrder, requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Order'}}}}}
    get: {operationId: upload, requestBody: {required: true, content: {application/json: {schema: {}}}}}
  /bad:
    post: {operationId: multipart, requestBody: {required: true, content: {multipart/form-data: {schema: {}}}}}
    get: {operationId: cookie, parameters: [{name: sid, in: cookie, schema: {type: string}}]}
    put: {operationId: remote, parameters: [{name: a, in: query, schema: {$ref: 'https://example.com/a.json'}}]}
    patch: {operationId: callback, callbacks: {done: {}}}
    delete: {operationId: hop, parameters: [{name: Transfer-Encoding, in: header, schema: {type: string}}]}
  /bad/{id}:
    get: {operationId: nopath}
    put: {operationId: piped, parameters: [{name: id, in: path, required: true, schema: {type: string}}, {name: f, in: query, style: pipeDelimited, schema: {type: array}}]}
    post: {operationId: elsewhere, servers: [{url: "https://evil.example.com"}]}
    patch: {operationId: getOrder}
    delete: {operationId: nothere, parameters: [{$ref: '#/components/parameters/none'}]}
  /nameless:
    get: {summary: has no id}
components:
  requestBodies: {Order: {content: {application/json: {schema: {$ref: '#/components/schemas/Order'}}}}}
  schemas:
    Order:
      type: object
      required: [lines]
      properties:
        example: {type: string, example: x, pattern: '(?=x)y'}
        price: {type: number, minimum: 0, exclusiveMinimum: true}
        lines: {type: array, items: {$ref: '#/components/schemas/Line'}}
    Line: {type: object, properties: {sub: {$ref: '#/components/schemas/Order'}}}
`

func TestADocumentBecomesTools(t *testing.T) {
	t.Parallel()
	server := Server{Document: shop}
	got, err := server.Catalog(t.Context())
	if err != nil || got.Name != "Shop" || got.Version != "1.2" || got.Instructions != "Sells things." || got.URL != "https://api.example.com/v1" {
		t.Fatalf("%+v, %v", got, err)
	}
	all := read(t, shop)
	for name, want := range map[string]string{
		"getOrder": "The document has two operations with this id.", "putOrder": "always idempotent", "deleteOrder": "always idempotent", "patchOrder": "always idempotent", "postOrder": "always once",
		"upload": "A request with GET cannot have a body.", "multipart": "It requires a body of the type multipart/form-data; only JSON and forms are supported.", "cookie": "It requires a cookie (sid).",
		"remote":   "It references another document (https://example.com/a.json), which is never fetched.",
		"callback": "It has callbacks, which this service does not receive.", "hop": "It requires the header Transfer-Encoding, which cannot be set.", "nopath": `Its path requires a parameter "id".`,
		"piped": "The parameter f has the style pipeDelimited, which is not supported.", "elsewhere": "It has its own server, but a connection has only one.",
		"nothere": "It references #/components/parameters/none, which is not in the document.",
	} {
		tool, ok := all[name]
		d := remote.Parse(tool.Definition)
		approval, effects := remote.Suggested(d)
		if !ok || strings.HasPrefix(want, "always") && (tool.Problem != "" || approval+" "+effects != want) || !strings.HasPrefix(want, "always") && tool.Problem != want {
			t.Errorf("%s: %q %s %s", name, tool.Problem, approval, effects)
		}
	}
	if got := all["get_nameless"]; got.Problem != "" || !strings.Contains(got.Definition, "has no id") {
		t.Errorf("without an id: %+v", got)
	}
	if len(all) != 16 {
		t.Errorf("%d tools", len(all))
	}
	once := read(t, strings.Replace(shop, "operationId: getOrder}", "operationId: other}", 1))["getOrder"]
	if once.Problem != "" || !strings.Contains(once.Definition, "12345678901234567") {
		t.Errorf("%+v", once)
	}
	if again := read(t, shop)["putOrder"]; again != all["putOrder"] {
		t.Error("the same document gives another definition")
	}
}

// TestADocumentsRequests calls tools of a document that is fetched from its server.
func TestADocumentsRequests(t *testing.T) {
	t.Parallel()
	text := strings.Replace(strings.Replace(shop, "operationId: getOrder}", "operationId: other}", 1), `{url: "https://{place}.example.com/v1", variables: {place: {default: api}}}`, "{url: /v2/}", 1)
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	origin := strings.TrimSuffix(f.URL, "/v1?team=docs")
	f.Server.URL, f.DocumentURL, f.ReadWith = "", origin+"/openapi.yaml", f.Endpoint
	f.ReadWith.Credential = remote.Credential{Header: "X-Key", Value: "secret-token"}
	got, err := f.Catalog(t.Context())
	if err != nil || got.URL != origin+"/v2/" {
		t.Fatalf("%+v, %v", got, err)
	}
	if r, _ := f.last(); r.URL.Path != "/openapi.yaml" || r.Header.Get("X-Key") != "secret-token" {
		t.Errorf("%s", r.RequestURI)
	}
	f.Server.URL = got.URL
	definitions := map[string]string{}
	for _, tool := range got.Tools {
		definitions[tool.Name] = tool.Definition
	}
	for _, c := range []struct{ tool, arguments, line, body, key string }{
		{"getOrder", `{"id":12345678901234567,"fields":["a,b","c"],"query_id":null,"X-Trace":"t"}`, "GET /v2/orders/12345678901234567?fields=a%2Cb,c", "", ""},
		{"getOrder", `{"id":1,"query_id":"x"}`, "GET /v2/orders/1?id=x", "", ""},
		{"putOrder", `{"id":1,"body":{"lines":[{"sub":{"lines":[]}}],"price":1.50,"example":"y"}}`, "PUT /v2/orders/1", `{"lines":[{"sub":{"lines":[]}}],"price":1.50,"example":"y"}`, ""},
		{"putOrder", `{"id":1,"body":{"lines":[],"price":0}}`, "", "", ""},
		{"putOrder", `{"id":1}`, "", "", ""},
		{"putOrder", `{"id":1,"body":{"lines":[{"sub":{}}]}}`, "", "", ""},
		{"patchOrder", `{"id":1,"body":{"lines":[]}}`, "PATCH /v2/orders/1", `{"lines":[]}`, "cal_1"},
		{"postOrder", `{}`, "POST /v2/orders", "", ""},
	} {
		before := f.count()
		_, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Definition: definitions[c.tool], Arguments: json.RawMessage(c.arguments)})
		if c.line == "" {
			if failed, ok := errors.AsType[*remote.Error](err); !ok || failed.Class != remote.NotSent || f.count() != before {
				t.Errorf("%s %s: %v", c.tool, c.arguments, err)
			}
			continue
		}
		r, body := f.last()
		if err != nil || r.Method+" "+r.RequestURI != c.line || body != c.body || r.Header.Get("Idempotency-Key") != c.key {
			t.Errorf("%s %s: %s %s with %s, %v", c.tool, c.arguments, r.Method, r.RequestURI, body, err)
		}
	}
}

func TestDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	head := `{"openapi":"3.1.0","servers":[{"url":"https://api.example.com"}],`
	operations := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"/p%d":{"get":{"operationId":"o%d"}},`, i, i)
		}
		return head + `"paths":{` + strings.TrimSuffix(b.String(), ",") + `}}`
	}
	aliases := "openapi: 3.0.0\nservers: [{url: 'https://a.example.com'}]\nx0: &x0 {type: string}\n"
	for i := range 30 {
		aliases += fmt.Sprintf("x%d: &x%d {type: object, properties: {%s}}\n", i+1, i+1, strings.ReplaceAll("a: *x, b: *x, c: *x, d: *x, e: *x, f: *x, g: *x, h: *x, i: *x, j: *x, k: *x, l: *x", "*x", fmt.Sprintf("*x%d", i)))
	}
	aliases += "paths: {/a: {post: {operationId: a, requestBody: {content: {application/json: {schema: *x30}}}}}}\n"
	chain := head + `"paths":{"/a":{"post":{"operationId":"a","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/s0"}}}}}}},"components":{"schemas":{`
	for i := range 2000 {
		chain += fmt.Sprintf(`"s%d":{"allOf":[{"$ref":"#/components/schemas/s%d"},{"$ref":"#/components/schemas/s%d"}]},`, i, i+1, i+1)
	}
	chain += `"s2000":{}}}}`
	of := func(schema string) string {
		return head + `"paths":{"/a":{"post":{"operationId":"a","requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}},"/b":{"get":{"operationId":"b"}}}}`
	}
	for name, text := range map[string]string{
		"aliases": aliases, "a chain": chain,
		"a huge enum":    of(`{"enum":[` + strings.Repeat(`"abcdefgh",`, 100_000) + `1]}`),
		"deep":           of(strings.Repeat(`{"items":`, 60) + `{}` + strings.Repeat(`}`, 60)),
		"itself":         of(`{"$ref":"#/paths/~1a/post/requestBody/content/application~1json/schema"}`),
		"many members":   of(`{"properties":{` + wide(20_000) + `}}`),
		"a wrong type":   of(`{"type":7}`),
		"a wrong schema": of(`7`),
	} {
		all := read(t, text)
		if all["a"].Problem == "" || len(all["a"].Problem) > 500 {
			t.Errorf("%s: %q", name, all["a"].Problem)
		}
		if b, ok := all["b"]; ok && b.Problem != "" {
			t.Errorf("%s costs another: %s", name, b.Problem)
		}
	}
	if all := read(t, operations(remote.MaxTools)); len(all) != remote.MaxTools {
		t.Errorf("%d tools", len(all))
	}
	if all := read(t, of(`{"type":"object","properties":{"child":{"$ref":"#/paths/~1a/post/requestBody/content/application~1json/schema"}}}`)); all["a"].Problem != "" {
		t.Errorf("a tree: %s", all["a"].Problem)
	}
	for name, text := range map[string]string{
		"10,000 operations":  operations(10_000),
		"too large":          strings.Repeat(" ", MaxDocument+1),
		"too many values":    head + `"a":[` + strings.Repeat("1,", maxValues) + `1]}`,
		"deep JSON":          strings.Repeat(`{"a":`, 100_000),
		"deep YAML":          "a: " + strings.Repeat("[", 1_000_000),
		"YAML in YAML":       strings.Repeat("- ", 1_000_000),
		"many in YAML":       "a: [" + strings.Repeat("1,", 2_000_000) + "1]",
		"an alias in itself": "a: &a [*a]",
		"Swagger":            `{"swagger":"2.0"}`,
		"no object":          `[1]`,
		"nothing":            " ",
		"no server":          `{"openapi":"3.0.0","paths":{}}`,
		"a server of files":  `{"openapi":"3.0.0","servers":[{"url":"file:///etc"}],"paths":{}}`,
		"HTML":               "<!doctype html><p>Hello: <b>you</b>",
	} {
		got, err := Server{Document: text}.Catalog(t.Context())
		if failed, ok := errors.AsType[*remote.Error](err); !ok || failed.Message == "" || len(failed.Message) > 500 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// wide returns n members.
func wide(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"m%d":{"type":"string"}`, i))
	}
	return strings.Join(all, ",")
}
