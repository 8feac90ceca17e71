package httptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"stoa/internal/agents/remote"
)

const head = `{"openapi":"3.1.0","servers":[{"url":"https://api.example.com"}],`

// posting returns a document with an operation a whose body has a schema, and another
// operation.
func posting(schema string) string {
	return head + `"paths":{"/a":{"post":{"operationId":"a","requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}},"/b":{"get":{"operationId":"b"}}}}`
}

// laughs returns a document in YAML in which each line references the previous one ten times.
func laughs(lines int) string {
	text := "openapi: 3.0.0\nservers: [{url: 'https://a.example.com'}]\nx0: &x0 {type: string}\n"
	for i := range lines {
		text += fmt.Sprintf("x%d: &x%d {type: object, properties: {%s}}\n", i+1, i+1, strings.ReplaceAll("a: *, b: *, c: *, d: *, e: *, f: *, g: *, h: *, i: *, j: *", "*", fmt.Sprintf("*x%d", i)))
	}
	return text + fmt.Sprintf("paths: {/a: {post: {operationId: a, requestBody: {content: {application/json: {schema: *x%d}}}}}, /b: {get: {operationId: b}}}\n", lines)
}

// Each limit of a document is enforced, affects one operation if possible, is reported with
// its number, and is in the documentation. None uses more memory than a document of the
// largest size.
func TestLimitsOfDocumentsAreTold(t *testing.T) {
	// Not parallel: it measures the memory that the process allocates.
	docs, err := os.ReadFile("../../../docs/connection-calls.md")
	if err != nil {
		t.Fatal(err)
	}
	wild := func(n int) string { return fmt.Sprintf(`"(?:%da?%s){1000}"`, n, strings.Repeat("a?", 300)) }
	var parameters, patterns, long []string
	for i := range maxParameters + 1 {
		parameters = append(parameters, fmt.Sprintf(`{"name":"p%d","in":"query","schema":{}}`, i))
	}
	for i := range 20 {
		patterns = append(patterns, fmt.Sprintf(`"p%d":{"pattern":%s}`, i, wild(i)))
	}
	for i := range 4000 {
		long = append(long, fmt.Sprintf(`"p%d":{"pattern":%s}`, i, wild(i)))
	}
	of := func(values string) string { return posting(`{"enum":[` + values + `]}`) }
	for name, c := range map[string]struct{ text, told, published string }{
		"values of a schema":      {of(strings.TrimSuffix(strings.Repeat(`1,`, maxSchemaValues), ",")), "5000 values", "5,000 values"},
		"depth of a schema":       {posting(strings.Repeat(`{"items":`, 19) + `{}` + strings.Repeat(`}`, 19)), "18 levels of nesting", "18 levels"},
		"a billion laughs":        {laughs(9), "5000 values", "5,000 values"},
		"endless laughs":          {laughs(200), "5000 values", "5,000 values"},
		"parameters":              {head + `"paths":{"/a":{"get":{"operationId":"a","parameters":[` + strings.Join(parameters, ",") + `]}},"/b":{"get":{"operationId":"b"}}}}`, "more than 200 parameters", "200 parameters"},
		"states of patterns":      {posting(`{"properties":{` + strings.Join(patterns, ",") + `}}`), "50000 states", "50,000 states"},
		"bytes of patterns":       {posting(`{"properties":{` + strings.Join(long[:1000], ",") + `}}`), "32 KiB of regular expressions", ""},
		"patterns in references":  {strings.TrimSuffix(posting(`{"$ref":"#/components/schemas/a"}`), "}") + `,"components":{"schemas":{"a":{"properties":{` + strings.Join(long, ",") + `}}}}}`, "32 KiB of regular expressions", ""},
		"names that are patterns": {posting(`{"patternProperties":{` + strings.ReplaceAll(strings.Join(long[:40], ","), `{"pattern":`, `{"title":`) + `,` + wild(1) + `:{},` + wild(2) + `:{}}}`), "50000 states", "50,000 states"},
		"references in a circle":  {head + `"paths":{"/a":{"get":{"operationId":"a","parameters":[{"$ref":"#/components/parameters/x"}]}},"/b":{"get":{"operationId":"b"}}},"components":{"parameters":{"x":{"$ref":"#/components/parameters/y"},"y":{"$ref":"#/components/parameters/x"}}}}`, "too many other references", "20 references"},
		"schemas in a circle":     {posting(`{"properties":{"x":{"$ref":"#/components/schemas/x"}}}`)[:len(posting(`{"properties":{"x":{"$ref":"#/components/schemas/x"}}}`))-1] + `,"components":{"schemas":{"x":{"$ref":"#/components/schemas/y"},"y":{"$ref":"#/components/schemas/x"}}}}`, "leads back to itself", ""},
	} {
		var all map[string]remote.Tool
		used := allocated(func() { all = read(t, c.text) })
		if problem := all["a"].Problem; !strings.Contains(problem, c.told) || len(problem) > 500 {
			t.Errorf("%s: %q, want %q", name, problem, c.told)
		}
		if b, ok := all["b"]; !ok || b.Problem != "" {
			t.Errorf("%s costs another operation: %q", name, b.Problem)
		}
		if !strings.Contains(string(docs), c.published) {
			t.Errorf("%s: the documentation does not say %q", name, c.published)
		}
		if used > 256<<20 {
			t.Errorf("%s: %d MiB were allocated for %d bytes", name, used>>20, len(c.text))
		}
	}
	for name, c := range map[string]struct{ text, told, published string }{
		"bytes":              {head + strings.Repeat(" ", MaxJSON) + `"paths":{}}`, "16 MiB", "16 MiB"},
		"bytes of YAML":      {"a: [" + strings.Repeat(" ", MaxDocument) + "]", "4 MiB", "4 MiB"},
		"values":             {head + `"a":[` + strings.Repeat("1,", maxValues) + `1]}`, "500000 values", "500,000"},
		"values in YAML":     {"a: [" + strings.Repeat("1,", maxValues) + "1]", "500000 values", "500,000"},
		"depth in JSON":      {strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600), "512 levels of nesting", "512 in JSON"},
		"depth in YAML":      {"a: " + strings.Repeat("[", maxNested+1) + strings.Repeat("]", maxNested+1), "100 levels of nesting", "500,000; 100 levels in YAML"},
		"an alias in itself": {"a: &a {b: *a}", "100 levels of nesting", "500,000; 100 levels in YAML"},
		"operations":         {head + `"paths":{` + operations(remote.MaxTools+1) + `}}`, "more than 500 operations", "500 operations"},
	} {
		var failed *remote.Error
		used := allocated(func() {
			_, err := Server{Document: c.text}.Catalog(t.Context())
			failed, _ = errors.AsType[*remote.Error](err)
		})
		if failed == nil || !strings.Contains(failed.Message, c.told) {
			t.Errorf("%s: %+v, want %q", name, failed, c.told)
		}
		if !strings.Contains(string(docs), c.published) {
			t.Errorf("%s: the documentation does not say %q", name, c.published)
		}
		if used > 1<<30 {
			t.Errorf("%s: %d MiB were allocated for %d bytes", name, used>>20, len(c.text))
		}
	}
}

func operations(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"/p%d":{"get":{"operationId":"o%d"}}`, i, i))
	}
	return strings.Join(all, ",")
}

// allocated returns the number of bytes that a function has allocated, most of which are free
// again.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A pattern that the check does not support, or that is too long, is left out; others apply.
func TestUnknownPatternsAreLeftOut(t *testing.T) {
	t.Parallel()
	tool := read(t, posting(`{"properties":{"ahead":{"pattern":"(?=x)y"},"long":{"pattern":"`+strings.Repeat("a", maxPattern+1)+`"},"short":{"pattern":"^[a-z]+$"}},"patternProperties":{"(?<=x)y":false,"^x-":{"type":"string"}}}`))["a"]
	schema, err := json.Marshal(remote.Parse(tool.Definition).InputSchema)
	if text := string(schema); err != nil || tool.Problem != "" || strings.Contains(text, "(?") || strings.Contains(text, "aaaa") || !strings.Contains(text, `"^[a-z]+$"`) || !strings.Contains(text, `"^x-"`) {
		t.Errorf("%q: %s, %v", tool.Problem, schema, err)
	}
}

// External references of a document are never fetched.
func TestRemoteReferencesAreNeverFetched(t *testing.T) {
	t.Parallel()
	var visits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()
	to := elsewhere.URL + "/schema.json"
	var asked atomic.Int64
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, `{"openapi":"3.1.0","servers":[{"url":"/v1"}],"paths":{
			"/a":{"post":{"operationId":"a","requestBody":{"content":{"application/json":{"schema":{"$ref":%[1]q}}}}}},
			"/b":{"get":{"operationId":"b","parameters":[{"$ref":%[1]q}]}},
			"/c":{"post":{"operationId":"c","requestBody":{"$ref":%[1]q}}},
			"/d":{"$ref":%[1]q},
			"/e":{"post":{"operationId":"e","requestBody":{"content":{"application/json":{"schema":{"properties":{"x":{"$ref":"other.json#/x"}}}}}}}},
			"/f":{"post":{"operationId":"f","requestBody":{"content":{"application/json":{"schema":{"$schema":%[1]q,"$id":%[1]q,"type":"object"}}}}}},
			"/g":{"get":{"operationId":"g","externalDocs":{"url":%[1]q}}}}}`, to)
	})
	origin := strings.TrimSuffix(f.URL, "/v1?team=docs")
	got, err := Server{DocumentURL: origin + "/openapi.json", ReadWith: f.Endpoint}.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	problems := map[string]string{}
	for _, tool := range got.Tools {
		problems[tool.Name] = tool.Problem
	}
	for name, problem := range problems {
		if never := strings.Contains(problem, "which is never fetched"); never != strings.Contains("abce path_d", name) {
			t.Errorf("%s: %q", name, problem)
		}
	}
	if len(problems) != 7 || visits.Load() != 0 || asked.Load() != 1 {
		t.Errorf("%v, %d requests elsewhere, %d for the document", problems, visits.Load(), asked.Load())
	}
}

// TestAccountsReadDocumentsInTurn has an account read a document for ever: another one of its
// documents waits, that of another account does not.
func TestAccountsReadDocumentsInTurn(t *testing.T) {
	t.Parallel()
	release, err := reading.Acquire(t.Context(), "one", maxReading, maxReading/2)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	document := head + `"paths":{"/b":{"get":{"operationId":"b"}}}}`
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := (Server{Document: document, Account: "one"}).Catalog(gone); err == nil {
		t.Error("an account reads two documents")
	}
	if _, err := (Server{Document: document, Account: "two"}).Catalog(t.Context()); err != nil {
		t.Error(err)
	}
}
