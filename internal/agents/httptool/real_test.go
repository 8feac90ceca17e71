package httptool

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/remote"
)

// sent calls a tool of a document, and returns the line, the type and the body of its request.
func sent(t *testing.T, text, tool, arguments string) (line, kind, body string) {
	t.Helper()
	f := serve(t, func(http.ResponseWriter, *http.Request) {})
	origin := strings.TrimSuffix(f.URL, "/v1?team=docs")
	f.Document = strings.NewReplacer("ORIGIN", origin, "HOST", strings.TrimPrefix(origin, "http://")).Replace(text)
	f.Server.URL = ""
	got, err := f.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Server.URL = got.URL
	at := slices.IndexFunc(got.Tools, func(t remote.Tool) bool { return t.Name == tool })
	if at < 0 || got.Tools[at].Problem != "" {
		t.Fatalf("%s: %+v", tool, got.Tools)
	}
	if _, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Definition: got.Tools[at].Definition, Arguments: json.RawMessage(arguments)}); err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	r, body := f.last()
	return r.Method + " " + r.RequestURI, r.Header.Get("Content-Type"), body
}

const payments = `{"openapi":"3.0.0","servers":[{"url":"ORIGIN/"}],"paths":{
	"/v1/customers":{"post":{"operationId":"PostCustomers","requestBody":{"required":false,"content":{"application/x-www-form-urlencoded":{
		"encoding":{"address":{"explode":true,"style":"deepObject"},"expand":{"explode":true,"style":"deepObject"},"joined":{"explode":false}},
		"schema":{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string"},"balance":{"type":"integer"},"address":{"type":"object","properties":{"city":{"type":"string"}}},
			"expand":{"type":"array","items":{"type":"string"}},"tags":{"type":"array","items":{"type":"string"}},"joined":{"type":"array","items":{"type":"string"}},"lines":{"type":"array","items":{"type":"object"}},"none":{}}}}}}}},
	"/v1/files":{"post":{"operationId":"PostFiles","requestBody":{"content":{"multipart/form-data":{"schema":{}}}}}},
	"/v1/both":{"post":{"operationId":"both","requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":{}},"application/json":{"schema":{}}}}}}}}`

// TestABodyMayBeAForm has bodies of forms with members of every kind.
func TestABodyMayBeAForm(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{}`:                                  "",
		`{"body":{}}`:                         "",
		`{"body":{"name":"a b&c=é"}}`:         "name=a%20b%26c%3D%C3%A9",
		`{"body":{"balance":-5,"none":null}}`: "balance=-5",
		`{"body":{"address":{"city":"Oslo"},"expand":["a","b"],"tags":["x","y"],"joined":["1","2"],"lines":[{"price":{"id":7}},{"ok":true}]}}`: "address%5Bcity%5D=Oslo&expand%5B0%5D=a&expand%5B1%5D=b&" +
			"joined=1%2C2&lines%5B0%5D%5Bprice%5D%5Bid%5D=7&lines%5B1%5D%5Bok%5D=true&tags=x&tags=y",
	} {
		line, kind, body := sent(t, payments, "PostCustomers", arguments)
		if line != "POST /v1/customers" || body != want || body != "" && kind != formType {
			t.Errorf("%s: %s, %s, %s", arguments, line, kind, body)
		}
	}
	if _, kind, body := sent(t, payments, "both", `{"body":{"a":1}}`); kind != "application/json" || body != `{"a":1}` {
		t.Errorf("%s, %s", kind, body)
	}
	if problem := read(t, strings.ReplaceAll(payments, "ORIGIN", "https://a.example.com"))["PostFiles"].Problem; !strings.Contains(problem, "multipart/form-data") {
		t.Errorf("an optional body of files: %q", problem)
	}
}

// TestAQueryHasObjects sends parameters of the style deepObject, in brackets.
func TestAQueryHasObjects(t *testing.T) {
	t.Parallel()
	text := `{"openapi":"3.0.0","servers":[{"url":"ORIGIN/"}],"paths":{"/v1/prices":{"get":{"operationId":"GetPrices","parameters":[
		{"name":"created","in":"query","style":"deepObject","explode":true,"schema":{"anyOf":[{"type":"object","properties":{"gt":{"type":"integer"}}},{"type":"integer"}]}},
		{"name":"expand","in":"query","style":"deepObject","explode":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"recurring","in":"query","style":"deepObject","schema":{"type":"object","properties":{"interval":{"type":"string"}},"additionalProperties":false}},
		{"name":"limit","in":"query","schema":{"type":"integer"}}]}}}}`
	for arguments, want := range map[string]string{
		`{}`: "",
		`{"created":{"gt":5},"expand":["a&b","c"],"recurring":{"interval":"month"},"limit":3}`: "?created%5Bgt%5D=5&expand%5B0%5D=a%26b&expand%5B1%5D=c&limit=3&recurring%5Binterval%5D=month",
		`{"created":7,"expand":[]}`: "?created=7",
	} {
		if line, _, _ := sent(t, text, "GetPrices", arguments); line != "GET /v1/prices"+want {
			t.Errorf("%s: %s", arguments, line)
		}
	}
}

// TestOperationsWithoutIDsHaveNames checks the names that are made of method and path: they
// are distinct, and the same for the same document.
func TestOperationsWithoutIDsHaveNames(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("x", 200)
	text := `{"openapi":"3.1.0","servers":[{"url":"https://a.example.com"}],"paths":{
		"/a/{id}.json":{"get":{},"options":{}},"/a/{id}/json":{"get":{}},"/b":{"get":{"operationId":"get_c"}},"/c":{"get":{}},"/d":{"get":{"operationId":" d"}},"` + long + `":{"get":{}}}}`
	all := read(t, text)
	var names []string
	for name, tool := range all {
		names = append(names, name)
		if reason := map[bool]string{true: "", false: "The method OPTIONS is not supported."}[name != "options_a_id_json"]; tool.Problem != reason && !strings.HasPrefix(name, "get_a_id_json") {
			t.Errorf("%s: %q", name, tool.Problem)
		}
	}
	slices.Sort(names)
	if want := "get_a_id_json get_a_id_json_ca197a82 get_c get_c_24792510 get_d get_" + strings.Repeat("x", 96) + "_93f9e982 options_a_id_json"; strings.Join(names, " ") != want {
		t.Errorf("names are %q", names)
	}
}

// TestPathsOfTheSameOriginHaveServers has paths with servers of their own.
func TestPathsOfTheSameOriginHaveServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ root, of, line string }{
		"the same":     {`"servers":[{"url":"ORIGIN/v1"}],`, `"servers":[{"url":"ORIGIN/v1"}],`, "GET /v1/a"},
		"another path": {`"servers":[{"url":"ORIGIN/v1"}],`, `"servers":[{"url":"ORIGIN/v2/"}],`, "GET /v2/a"},
		"no path":      {`"servers":[{"url":"ORIGIN/v1"}],`, `"servers":[{"url":"ORIGIN"}],`, "GET /a"},
		"only of it":   {"", `"servers":[{"url":"ORIGIN/v3"}],`, "GET /v3/a"},
	} {
		if line, _, _ := sent(t, `{"openapi":"3.0.1",`+c.root+`"paths":{"/a":{`+c.of+`"get":{"operationId":"a"}}}}`, "a", `{}`); line != c.line {
			t.Errorf("%s: %s", name, line)
		}
	}
	behind := Server{Endpoint: remote.Endpoint{URL: "https://proxy.example.com/x"}, Document: `{"openapi":"3.0.1","servers":[{"url":"https://a.example.com/v1"}],"paths":{"/a":{"servers":[{"url":"https://a.example.com/v1"}],"get":{"operationId":"a"}}}}`}
	if got, err := behind.Catalog(t.Context()); err != nil || got.Tools[0].Problem != "" || strings.Contains(got.Tools[0].Definition, "server") {
		t.Errorf("behind a proxy: %+v, %v", got, err)
	}
	other := read(t, `{"openapi":"3.0.1","servers":[{"url":"https://a.example.com"}],"paths":{"/a":{"servers":[{"url":"https://b.example.com"}],"get":{"operationId":"a"}}}}`)["a"]
	if other.Problem != "It has its own server, but a connection has only one." {
		t.Errorf("%q", other.Problem)
	}
}

const forge = `{"swagger":"2.0","info":{"title":"Forge","version":"1"},"host":"HOST","basePath":"/api/v1","schemes":["http"],"consumes":["application/json","text/plain"],
	"paths":{
		"/repos/{owner}":{
			"parameters":[{"name":"owner","in":"path","required":true,"type":"string"}],
			"get":{"operationId":"list","parameters":[{"name":"type","in":"query","type":"array","items":{"type":"string","enum":["a","b"]},"collectionFormat":"multi"},{"name":"ids","in":"query","type":"array","items":{"type":"integer"}},{"$ref":"#/parameters/page"}]},
			"post":{"operationId":"create","parameters":[{"name":"body","in":"body","schema":{"$ref":"#/definitions/Repo"}}]},
			"put":{"operationId":"form","consumes":["application/x-www-form-urlencoded"],"parameters":[{"name":"name","in":"formData","required":true,"type":"string"},{"name":"tags","in":"formData","type":"array","items":{"type":"string"}}]},
			"patch":{"operationId":"upload","consumes":["multipart/form-data"],"parameters":[{"name":"file","in":"formData","type":"file"}]},
			"delete":{"operationId":"piped","parameters":[{"name":"q","in":"query","type":"array","items":{"type":"string"},"collectionFormat":"pipes"}]}}},
	"parameters":{"page":{"name":"page","in":"query","type":"integer","minimum":1,"exclusiveMinimum":false,"description":"the page"}},
	"definitions":{"Repo":{"type":"object","required":["name"],"properties":{"name":{"type":"string","example":"x"},"parent":{"$ref":"#/definitions/Repo"}}}}}`

func TestSwaggerDocumentsBecomeTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tool, arguments, line, kind, body string }{
		{"list", `{"owner":"o","type":["a","b"],"ids":[1,2],"page":3}`, "GET /api/v1/repos/o?ids=1,2&page=3&type=a&type=b", "", ""},
		{"create", `{"owner":"o","body":{"name":"n","parent":{"name":"p"}}}`, "POST /api/v1/repos/o", "application/json", `{"name":"n","parent":{"name":"p"}}`},
		{"form", `{"owner":"o","body":{"name":"n","tags":["a","b"]}}`, "PUT /api/v1/repos/o", formType, "name=n&tags=a%2Cb"},
	} {
		line, kind, body := sent(t, forge, c.tool, c.arguments)
		if line != c.line || kind != c.kind || body != c.body {
			t.Errorf("%s: %s, %s, %s", c.tool, line, kind, body)
		}
	}
	all := read(t, strings.ReplaceAll(forge, "HOST", "forge.example.com"))
	for name, want := range map[string]string{
		"upload": "It requires a body of the type multipart/form-data; only JSON and forms are supported.", "piped": "The parameter q has the style pipes, which is not supported.",
	} {
		if all[name].Problem != want {
			t.Errorf("%s: %q", name, all[name].Problem)
		}
	}
	for _, part := range []string{`"minimum":1`, `"description":"the page"`} {
		if !strings.Contains(all["list"].Definition, part) {
			t.Errorf("%s is missing in %s", part, all["list"].Definition)
		}
	}
}

// TestALargeDefinitionIsShortened has schemas that are too large because of their texts, or too
// deep: they are shortened, never stricter, and smaller ones stay as they are.
func TestALargeDefinitionIsShortened(t *testing.T) {
	t.Parallel()
	described := func(n, length int) string {
		var all []string
		for i := range n {
			all = append(all, `"m`+strings.Repeat("x", i%7)+string(rune('a'+i%26))+string(rune('a'+i/26))+`":{"type":"string","description":"`+strings.Repeat("d", length)+`","example":"`+strings.Repeat("e", 200)+`"}`)
		}
		return `{"type":"object","properties":{` + strings.Join(all, ",") + `}}`
	}
	deep := strings.Repeat(`{"items":`, 14) + `{"type":"string"}` + strings.Repeat(`}`, 14)
	for name, c := range map[string]struct {
		schema string
		kept   int // characters of a description
	}{
		"small": {described(10, 500), 500}, "long texts": {described(50, 1000), 300}, "many texts": {described(300, 1000), 0}, "deep": {deep, 0},
		"deep in one of": {`{"oneOf":[` + deep + `,` + deep + `]}`, 0},
	} {
		tool := read(t, posting(c.schema))["a"]
		if tool.Problem != "" || strings.Contains(tool.Definition, "eee") || strings.Contains(tool.Definition, strings.Repeat("d", max(c.kept, 9)+1)) || !strings.Contains(tool.Definition, strings.Repeat("d", c.kept)) {
			t.Errorf("%s: %q, %.300s", name, tool.Problem, tool.Definition)
		}
		d := remote.Parse(tool.Definition)
		if err := checkArguments(d, json.RawMessage(`{"body":[[[[[[[[7]]]]]]]]}`)); strings.HasPrefix(name, "deep") && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
