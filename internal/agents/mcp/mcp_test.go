package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/agents/remote"
	"stoa/internal/base/outbound"
)

// A fake is a server that answers as a test specifies. It counts its requests.
type fake struct {
	Server
	mu    sync.Mutex
	asked []string
	keys  []string
}

// serve starts a server that counts every request.
func serve(t *testing.T, handler http.Handler) *fake {
	t.Helper()
	f := &fake{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(data))
		var m envelope
		_ = json.Unmarshal(data, &m)
		f.mu.Lock()
		if r.Method != http.MethodGet || r.Header.Get("Last-Event-ID") != "" { // the stream of a session, which is requested at any time
			f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+m.Method))
		}
		f.keys = append(f.keys, r.Header.Get("Authorization"))
		f.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	allow, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	f.Server = Server{Endpoint: remote.Endpoint{Network: outbound.New(outbound.Settings{Allow: allow}), URL: server.URL}, Version: "test"}
	return f
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// forget clears the list of requests.
func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = nil
}

// credentials returns the headers Authorization that were sent.
func (f *fake) credentials() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.keys)
}

// modern answers the handshake of the modern era, and calls answer for the rest.
func modern(answer func(w http.ResponseWriter, r *http.Request, id, method string, params json.RawMessage)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		if m.Method == "server/discover" {
			result(w, string(m.ID), `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
			return
		}
		answer(w, r, string(m.ID), m.Method, m.Params)
	})
}

func result(w http.ResponseWriter, id, text string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, text)
}

func TestServersOfBothEras(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		legacy bool
		listed []string
		called []string
	}{
		"modern": {false, []string{"POST server/discover", "POST tools/list"}, []string{"POST tools/call"}},
		"legacy": {
			true,
			[]string{"POST server/discover", "POST initialize", "POST notifications/initialized", "POST tools/list", "DELETE"},
			[]string{"POST initialize", "POST notifications/initialized", "POST tools/call", "DELETE"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, Demo(c.legacy))
			f.Headers, f.Credential = map[string]string{"X-Team": "docs"}, remote.Credential{Header: "Authorization", Value: "Bearer secret-token"}
			got, err := f.Catalog(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != "stoa-demo" || got.Version != "1.0.0" || got.Instructions == "" || (got.Protocol >= Modern) == c.legacy {
				t.Errorf("%+v", got)
			}
			var names []string
			for _, tool := range got.Tools {
				names = append(names, tool.Name+tool.Problem)
				approval, effects := remote.Suggested(remote.Parse(tool.Definition))
				if want := map[string]string{"search_notes": "never read", "put_note": "always idempotent", "append_note": "always once"}[tool.Name]; approval+" "+effects != want {
					t.Errorf("%s: %s %s", tool.Name, approval, effects)
				}
			}
			if want := []string{"append_note", "put_note", "search_notes"}; !slices.Equal(names, want) {
				t.Errorf("tools %v", names)
			}
			if asked := f.requests(); !slices.Equal(asked, c.listed) {
				t.Errorf("asked %v, want %v", asked, c.listed)
			}
			f.forget()
			f.Protocol = got.Protocol
			answer, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Tool: "append_note", Arguments: json.RawMessage(`{"name":"a","text":"b"}`)})
			if err != nil || answer.IsError || answer.Text != "Written. The note has 1 lines." {
				t.Errorf("%+v, %v", answer, err)
			}
			if asked := f.requests(); !slices.Equal(asked, c.called) {
				t.Errorf("asked %v, want %v", asked, c.called)
			}
			answer, err = f.Call(t.Context(), remote.Call{ID: "cal_2", Tool: "append_note", Arguments: json.RawMessage(`{"name":"a"}`)})
			failed, _ := errors.AsType[*remote.Error](err)
			if err == nil && !answer.IsError || err != nil && failed.Class != remote.Refused {
				t.Errorf("wrong arguments: %+v, %v", answer, err)
			}
			for _, key := range f.credentials() {
				if key != "Bearer secret-token" {
					t.Errorf("a request carried %q", key)
				}
			}
		})
	}
}

func TestAWrongToolCostsNoOther(t *testing.T) {
	t.Parallel()
	entries := []string{
		`null`, `{"name":""}`, `{"name":"twice","inputSchema":{"type":"object"}}`, `{"name":"twice","inputSchema":{"type":"object"}}`,
		`{"name":"annotated","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}`, `{"name":"bare"}`,
		`{"name":"remote","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/a"}}}}`,
		`{"name":"deep","inputSchema":{"type":"object","a":` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}}`,
		`{"name":"good","inputSchema":{"type":"object","properties":{"n":{"maximum":12345678901234567}}}}`, `7`,
		`{"name":"large","description":"` + strings.Repeat("x", 64<<10) + `","inputSchema":{"type":"object"}}`,
	}
	f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, id, _ string, _ json.RawMessage) {
		result(w, id, `{"resultType":"complete","tools":[`+strings.Join(entries, ",")+`]}`)
	}))
	got, err := f.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var good, bad []string
	for _, tool := range got.Tools {
		if tool.Problem == "" {
			good = append(good, tool.Name)
		} else {
			bad = append(bad, tool.Name)
		}
	}
	if want := []string{"annotated", "good"}; !slices.Equal(good, want) {
		t.Errorf("good: %v", good)
	}
	if want := []string{"(entry 1)", "(entry 2)", "twice", "bare", "remote", "deep", "(entry 10)", "large"}; !slices.Equal(bad, want) {
		t.Errorf("bad: %v", bad)
	}
	if i := slices.IndexFunc(got.Tools, func(t remote.Tool) bool { return t.Name == "good" }); !strings.Contains(got.Tools[i].Definition, "12345678901234567") {
		t.Errorf("a number was rounded: %s", got.Tools[i].Definition)
	}
}

// TestListsEndAtAMissingCursor has servers that send every form of a next cursor.
func TestListsEndAtAMissingCursor(t *testing.T) {
	t.Parallel()
	page := func(name, next string) string {
		return `{"tools":[{"name":"` + name + `","inputSchema":{"type":"object"}}]` + next + `}`
	}
	for name, c := range map[string]struct {
		pages map[string]string // by cursor; "none" without one
		tools []string
		noted bool
		asked int
	}{
		"empty":        {map[string]string{"none": page("first", `,"nextCursor":""`), `""`: page("second", "")}, []string{"first", "second"}, false, 2},
		"null":         {map[string]string{"none": page("first", `,"nextCursor":null`)}, []string{"first"}, false, 1},
		"always empty": {map[string]string{"none": page("first", `,"nextCursor":""`), `""`: page("first", `,"nextCursor":""`)}, []string{"first"}, true, 2},
		"empty within": {map[string]string{"none": page("first", `,"nextCursor":"a"`), `"a"`: page("second", `,"nextCursor":""`), `""`: page("third", "")}, []string{"first", "second", "third"}, false, 3},
		"a circle":     {map[string]string{"none": page("first", `,"nextCursor":"a"`), `"a"`: page("second", `,"nextCursor":"b"`), `"b"`: page("third", `,"nextCursor":"a"`)}, []string{"first", "second", "third"}, true, 3},
	} {
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprint(name, old), func(t *testing.T) {
				t.Parallel()
				asked := atomic.Int64{}
				list := func(w http.ResponseWriter, id string, params json.RawMessage) {
					asked.Add(1)
					var sent struct{ Cursor json.RawMessage }
					_ = json.Unmarshal(params, &sent)
					answer, found := c.pages[cmp.Or(string(sent.Cursor), "none")]
					if !found {
						t.Errorf("the cursor %s was sent", sent.Cursor)
					}
					result(w, id, answer)
				}
				f := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var m struct {
						ID, Params json.RawMessage
						Method     string
					}
					_ = json.NewDecoder(r.Body).Decode(&m)
					switch {
					case m.Method == "tools/list":
						list(w, string(m.ID), m.Params)
					case m.Method == "server/discover" && !old:
						result(w, string(m.ID), `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
					case m.Method == "initialize":
						result(w, string(m.ID), `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`)
					case m.ID == nil:
						w.WriteHeader(http.StatusAccepted)
					default:
						w.WriteHeader(http.StatusNotFound)
					}
				}))
				got, err := f.Catalog(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, tool := range got.Tools {
					names = append(names, tool.Name+tool.Problem)
				}
				if !slices.Equal(names, c.tools) || (got.Note != "") != c.noted || asked.Load() != int64(c.asked) {
					t.Errorf("%v, %q after %d requests", names, got.Note, asked.Load())
				}
			})
		}
	}
}

func TestCatalogsAreBounded(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(n int) string{
		"no list":   func(int) string { return `{"tools":7}` },
		"too large": func(int) string { return `{"tools":[],"x":"` + strings.Repeat("x", remote.MaxCatalog) + `"}` },
		"large over all": func(n int) string {
			return fmt.Sprintf(`{"tools":["%s"],"nextCursor":"%d"}`, strings.Repeat("x", remote.MaxCatalog/2), n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64 // pages
			f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, id, _ string, _ json.RawMessage) {
				result(w, id, answer(int(n.Add(1))))
			}))
			if got, err := f.Catalog(t.Context()); err == nil {
				t.Errorf("%d tools", len(got.Tools))
			}
			if n := n.Load(); n > maxPages {
				t.Errorf("%d pages were read", n)
			}
		})
	}
}

func TestResultsBecomeText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"},{"type":"hologram"},{"type":"text","text":"b"}]}`:               "a\n(A part of the kind \"hologram\", which this service does not know, was left out.)\nb",
		`{"content":[],"structuredContent":{"id":1915883588174806058,"x":1.0}}`:                                 `{"id":1915883588174806058,"x":1.0}`,
		`{"content":[{"type":"text","text":"a"}],"structuredContent":{"b":1}}`:                                  "a\n{\"b\":1}",
		`{"content":[{"type":"text","text":"b is 1, and 2.50"}],"structuredContent":{"c":[2.50,null],"b":1}}`:   "b is 1, and 2.50",
		`{"content":[{"type":"text","text":"{\"b\":\"d\\u00f6rte\\n\"}"}],"structuredContent":{"b":"dörte\n"}}`: "{\"b\":\"d\\u00f6rte\\n\"}",
		`{"content":[{"type":"text","text":"[1]"},{"type":"text","text":"[2]"}],"structuredContent":[2,1]}`:     "[1]\n[2]",
		`{"content":[{"type":"text","text":""}],"structuredContent":{"a":"ada"}}`:                               `{"a":"ada"}`,
		`{"content":[{"type":"text","text":" \n"},{"type":"text","text":""}],"structuredContent":["ada"]}`:      `["ada"]`,
		`{"content":[{"type":"text","text":"1 person"}],"structuredContent":{"a":"ada"}}`:                       "1 person\n{\"a\":\"ada\"}",
		`{"content":[{"type":"resource","resource":{"uri":"u:1","text":""}}],"structuredContent":{"a":"ada"}}`:  "(From u:1)\n\n{\"a\":\"ada\"}",
		`{"content":[{"type":"resource","resource":{"uri":"u:1","text":"ada"}}],"structuredContent":["ada"]}`:   "(From u:1)\nada",
		`{"content":[{"type":"resource_link","name":"n","uri":"u:1"}],"structuredContent":{"a":"ada"}}`:         "(A link, which was not followed: n u:1)\n{\"a\":\"ada\"}",
		`{"content":[{"type":"hologram"},null],"structuredContent":{"a":"ada"}}`:                                "(A part of the kind \"hologram\", which this service does not know, was left out.)\n(A part of the result cannot be read.)\n{\"a\":\"ada\"}",
		`{"content":null,"structuredContent":{"a":"ada"}}`:                                                      `{"a":"ada"}`,
		`{"structuredContent":"ada"}`:                                                                           `"ada"`,
		`{"content":[{"type":"text","text":""}]}`:                                                               "(The result is empty.)",
		`{"content":[{"type":"text","text":"Done."}],"structuredContent":{}}`:                                   "Done.",
		`{"content":[null,{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", 4000) + `"}]}`: "(A part of the result cannot be read.)\n(image/png, 3 kB, left out: this service passes text only.)",
		`{"content":[{"type":"resource_link","name":"n","uri":"http://127.0.0.1/x"}]}`:                          "(A link, which was not followed: n http://127.0.0.1/x)",
		`{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"t"}}]}`:                           "(From file:///a)\nt",
		`{"content":7}`: "(The content of the result cannot be read.)",
		`{}`:            "(The result is empty.)",
		`[]`:            "(The result cannot be read.)",
	} {
		if got := resultOf(json.RawMessage(in)); got.Text != want || got.IsError {
			t.Errorf("%.60s: %q, want %q", in, got.Text, want)
		}
	}
	if got := resultOf(json.RawMessage(`{"isError":true,"content":[]}`)); !got.IsError {
		t.Error("an error is none")
	}
}

func TestSecretsAreBlanked(t *testing.T) {
	t.Parallel()
	f := serve(t, modern(func(w http.ResponseWriter, r *http.Request, id, method string, _ json.RawMessage) {
		if method == "tools/call" {
			text, _ := json.Marshal(r.Header.Get("Authorization") + " c2VjcmV0LXRva2Vu secret-token")
			result(w, id, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
		}
	}))
	f.Credential = remote.Credential{Header: "Authorization", Value: "Bearer secret-token"}
	got, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Tool: "echo"})
	if err != nil || got.Text != "Bearer [secret] [secret] [secret]" {
		t.Errorf("%+v, %v", got, err)
	}
}
