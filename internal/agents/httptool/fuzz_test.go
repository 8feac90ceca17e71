package httptool

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"stoa/internal/agents/remote"
)

// FuzzDocuments reads any text as a document, and calls the resulting tools with any
// arguments: requests stay at the origin of the connection, below its path.
func FuzzDocuments(f *testing.F) {
	f.Add(shop, `{"id":1,"fields":["a/b","c"],"X-Trace":"t"}`)
	f.Add(laughs(5), `{}`)
	f.Add(posting(`{"properties":{"x":{"$ref":"#/paths"},"y":{"pattern":"(?:a?){9}"}}}`), `{"body":{"x":[1.0],"y":"a"}}`)
	f.Add(head+`"paths":{"/a/{b}/{c}":{"get":{"operationId":"a","parameters":[{"name":"b","in":"path","schema":{}},{"name":"c","in":"path","schema":{}}]}}}}`, `{"b":"..","c":"%2e"}`)
	f.Add("a: &a [*a]", `[]`)
	f.Fuzz(func(t *testing.T, text, arguments string) {
		if len(text) > 64<<10 || len(arguments) > 16<<10 {
			t.Skip("it would be slow")
		}
		const base = "https://api.example.com/v1"
		got, err := Server{Document: text, Endpoint: remote.Endpoint{URL: base}}.Catalog(t.Context())
		if err != nil {
			if failed, ok := err.(*remote.Error); !ok || failed.Message == "" || len(failed.Message) > 1000 || remote.Visible(failed.Message) != failed.Message {
				t.Fatalf("%v", err)
			}
			return
		}
		names := map[string]bool{}
		for _, tool := range got.Tools {
			if tool.Name == "" || names[tool.Name] || len(tool.Problem) > 2000 || !json.Valid([]byte(tool.Definition)) {
				t.Fatalf("%+v", tool)
			}
			names[tool.Name] = true
			if tool.Problem != "" {
				continue
			}
			d := remote.Parse(tool.Definition)
			p, err := planOf(d)
			if err != nil {
				t.Fatalf("%v of %s", err, tool.Definition)
			}
			made, err := p.request(d, base, json.RawMessage(arguments))
			if err != nil {
				continue
			}
			u, err := url.Parse(made.url)
			if err != nil || u.Scheme != "https" || u.Host != "api.example.com" || !strings.HasPrefix(u.EscapedPath(), "/v1/") || u.Fragment != "" || strings.Contains(made.url, "#") || made.body != nil && !json.Valid(made.body) {
				t.Fatalf("%+v, %v", made, err)
			}
			if got, want := strings.Count(u.EscapedPath(), "/"), strings.Count(p.Path, "/")+1; got != want {
				t.Fatalf("%s has %d parts, and %s of the document %d", u.EscapedPath(), got, p.Path, want)
			}
			for _, part := range strings.Split(u.EscapedPath(), "/") {
				if plain, err := url.PathUnescape(part); err != nil || plain == "." || plain == ".." || strings.ContainsAny(plain, `/\\`) {
					t.Fatalf("%s leads elsewhere", made.url)
				}
			}
			for name, value := range made.headers {
				if !remote.HeaderName(name) || strings.ContainsAny(value, "\r\n\x00") {
					t.Fatalf("%q: %q", name, value)
				}
			}
		}
	})
}
