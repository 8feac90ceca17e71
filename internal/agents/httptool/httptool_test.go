package httptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/remote"
	"stoa/internal/base/outbound"
)

// A fake is a server that answers as a test specifies, and records its requests.
type fake struct {
	Server
	mu    sync.Mutex
	asked []*http.Request
	sent  []string // the bodies
}

func serve(t *testing.T, handler http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.asked, f.sent = append(f.asked, r), append(f.sent, string(data))
		f.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	f.Endpoint = remote.Endpoint{Network: network(t), URL: server.URL + "/v1?team=docs"}
	return f
}

func network(t *testing.T) *outbound.Network {
	t.Helper()
	allow, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	return outbound.New(outbound.Settings{Allow: allow})
}

func (f *fake) last() (*http.Request, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return nil, ""
	}
	return f.asked[len(f.asked)-1], f.sent[len(f.sent)-1]
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// definition returns that of an operation.
func definition(t *testing.T, operation string) string {
	t.Helper()
	tools, err := FromOperations("[" + operation + "]")
	if err != nil || tools[0].Problem != "" {
		t.Fatal(err, tools)
	}
	return tools[0].Definition
}

const putOrder = `{"name":"put_order","method":"PUT","path":"/orders/{id}/{part}","parameters":{"properties":{
	"id":{"type":["string","integer"],"in":"path"},"part":{"type":"string","in":"path"},"tags":{"type":"array","items":{"type":"string"},"in":"query"},
	"q":{"in":"query"},"X-Note":{"type":"string","in":"header"},"total":{"type":"number","in":"body"},"lines":{"type":"array","in":"body"}},"required":["id"]}}`

func TestValuesBecomeARequest(t *testing.T) {
	t.Parallel()
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) })
	f.Headers = map[string]string{"X-Team": "docs"}
	f.Credential = remote.Credential{Header: "Authorization", Value: "Bearer secret-token"}
	got, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Definition: definition(t, putOrder), Arguments: json.RawMessage(
		`{"id":12345678901234567,"part":"a b?#&%2e%2e","tags":["x&y=z","é"],"q":"a+b","X-Note":"hello","total":1.10,"lines":[{"n":9007199254740993}]}`,
	)})
	if err != nil || got.IsError || got.Text != "Status: 200\n{\"ok\":true}" {
		t.Fatalf("%+v, %v", got, err)
	}
	r, body := f.last()
	if want := "/v1/orders/12345678901234567/a%20b%3F%23%26%252e%252e?team=docs&q=a%2Bb&tags=x%26y%3Dz&tags=%C3%A9"; r.RequestURI != want {
		t.Errorf("%s, want %s", r.RequestURI, want)
	}
	if want := `{"lines":[{"n":9007199254740993}],"total":1.10}`; body != want {
		t.Errorf("%s", body)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer secret-token", "X-Team": "docs", "X-Note": "hello", "Idempotency-Key": "cal_1", "Content-Type": "application/json", "Accept-Encoding": "identity",
	} {
		if all := r.Header.Values(name); len(all) != 1 || all[0] != want {
			t.Errorf("%s: %q", name, all)
		}
	}
}

func TestAValueChangesNoOtherPart(t *testing.T) {
	t.Parallel()
	f := serve(t, func(http.ResponseWriter, *http.Request) {})
	d := definition(t, putOrder)
	for name, arguments := range map[string]string{
		"a dot": `{"id":".","part":"b"}`, "two dots": `{"id":"..","part":"b"}`, "a slash": `{"id":"a/b","part":"b"}`, "a backslash": `{"id":"a\\b","part":"b"}`,
		"an empty part": `{"id":"","part":"b"}`, "a line break": `{"id":"a\r\nHost: x","part":"b"}`, "a zero": `{"id":"a\u0000","part":"b"}`, "null": `{"id":null,"part":"b"}`, "none": `{"part":"b"}`,
		"an object": `{"id":"a","part":"b","q":{"a":1}}`, "lists": `{"id":"a","part":"b","q":[[1]]}`,
		"a header beyond ASCII": `{"id":"a","part":"b","X-Note":"é"}`, "a header with a space": `{"id":"a","part":"b","X-Note":" a"}`,
		"a header line": `{"id":"a","part":"b","X-Note":"a\r\nX-Evil: 1"}`, "a long header": `{"id":"a","part":"b","X-Note":"` + strings.Repeat("x", maxHeaderValue+1) + `"}`,
		"an unknown name": `{"id":"a","part":"b","Host":"evil.example.com"}`, "a wrong type": `{"id":"a","part":"b","total":"x"}`, "no object": `[1]`,
		"a long address": `{"id":"` + strings.Repeat("x", maxURL) + `","part":"b"}`,
	} {
		_, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Definition: d, Arguments: json.RawMessage(arguments)})
		if failed, ok := errors.AsType[*remote.Error](err); !ok || failed.Class != remote.NotSent || failed.Message == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := f.count(); n != 0 {
		t.Fatalf("%d requests were sent", n)
	}
	for _, id := range []string{"@evil.example.com", "evil.example.com:80", "%2e%2e", "%2f", "...", ";a=b", "a:b", "//x"[2:], "é\u202e"} {
		arguments, _ := json.Marshal(map[string]string{"id": id, "part": "b"})
		if _, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Definition: d, Arguments: arguments}); err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		r, _ := f.last()
		if parts := strings.Split(r.URL.EscapedPath(), "/"); len(parts) != 5 || r.URL.Path != "/v1/orders/"+id+"/b" || "http://"+r.Host+"/v1?team=docs" != f.URL {
			t.Errorf("%s: %s at %s", id, r.RequestURI, r.Host)
		}
	}
}

func TestWrongOperations(t *testing.T) {
	t.Parallel()
	with := func(change string) string {
		o := map[string]any{"name": "a", "method": "POST", "path": "/x"}
		more := map[string]any{}
		_ = json.Unmarshal([]byte(change), &more)
		maps.Copy(o, more)
		text, _ := json.Marshal([]any{o})
		return string(text)
	}
	if _, err := FromOperations(with(`{}`)); err != nil {
		t.Fatal(err)
	}
	in := func(name, in string) string {
		return `{"parameters":{"properties":{"` + name + `":{"type":"string","in":"` + in + `"}}}}`
	}
	for member, changes := range map[string][]string{
		"name":            {`{"name":"a b"}`, `{"name":""}`},
		"method":          {`{"method":"TRACE"}`, `{"method":"GET / HTTP/1.1\r\nX: y"}`},
		"path":            {`{"path":"x"}`, `{"path":"/../x"}`, `{"path":"/%2e%2e/x"}`, `{"path":"/a%2fb"}`, `{"path":"/a?b"}`, `{"path":"//a"}`, `{"path":"/{a"}`, `{"path":"/a}"}`, `{"path":"/{}"}`, `{"path":"/a\nb"}`},
		"result.pointer":  {`{"result":{"pointer":"data"}}`, `{"result":{"pointer":"` + strings.Repeat("/a", 21) + `"}}`},
		"result.maxItems": {`{"result":{"maxItems":1001}}`},
		"parameters": {
			`{"path":"/{id}"}`, in("id", "path"), in("a", "cookie"), in("a", ""), in("Authorization", "header"), in("Cookie", "header"), in("host", "header"), in("Transfer-Encoding", "header"),
			in("Idempotency-Key", "header"), in("a b", "header"), in("a:b", "header"), `{"method":"GET","parameters":{"properties":{"a":{"in":"body"}}}}`, `{"parameters":{"properties":[]}}`, `{"parameters":{"type":"array"}}`,
			`{"parameters":{"properties":{"a":{"in":"query","$ref":"https://example.com/a"}}}}`, `{"parameters":{"properties":{"a":{"in":"query","type":7}}}}`,
		},
	} {
		for _, change := range changes {
			_, err := FromOperations(with(change))
			if wrong, ok := errors.AsType[*OperationError](err); !ok || wrong.Member != member {
				t.Errorf("%s: %v, want %s", change, err, member)
			}
		}
	}
	if _, err := FromOperations("[" + strings.Repeat(`{"name":"a","method":"GET","path":"/"},`, 100) + `{"name":"a","method":"GET","path":"/"}]`); err == nil {
		t.Error("101 operations")
	}
	if _, err := FromOperations(`[{"name":"a","method":"GET","path":"/"},{"name":"a","method":"GET","path":"/"}]`); err == nil {
		t.Error("two of one name")
	}
}

// TestOutcomesOfRequests covers every fault that leaves open, or not, whether a request was
// carried out: each is sent once.
func TestOutcomesOfRequests(t *testing.T) {
	t.Parallel()
	reply := func(status int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if kind != "" {
				w.Header().Set("Content-Type", kind)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	js := "application/json; charset=utf-8"
	const list = `{"data":{"items":[{"id":12345678901234567,"x":1.10},2,3]}}`
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  remote.Class // empty means a result
		text   string       // of the result; with IsError if it begins with !
	}{
		"a part of JSON":  {reply(200, js, list), "", "Status: 200\n[{\"id\":12345678901234567,\"x\":1.10},2]\n(These are 2 of 3 entries; the others were left out.)"},
		"nothing at it":   {reply(200, js, `{"a":1}`), "", "Status: 200\n{\"a\":1}\n(The reply has nothing at \"/data/items\"; this is all of it.)"},
		"of another kind": {reply(200, "application/problem+json", `{"data":{"items":[]}}`), "", "Status: 200\n[]"},
		"of no kind":      {reply(201, "", `{"data":{"items":[1]}}`), "", "Status: 201\n[1]"},
		"no body":         {reply(204, "", ""), "", "Status: 204\nDone. The reply is empty."},
		"spaces":          {reply(200, js, " \n"), "", "Status: 200\nDone. The reply is empty."},
		"wrong JSON":      {reply(200, js, `{"data":`), "", "Status: 200\n(The server says that this is JSON, and it cannot be read as that.)\n{\"data\":"},
		"HTML":            {reply(200, "text/html", "<p>Hello"), "", "Status: 200\n(The reply is not JSON, so no part of it was selected.)\n<p>Hello"},
		"an image":        {reply(200, "image/png", "\x89PNG\x00"), "", "Status: 200\n(The reply is not JSON, so no part of it was selected.)\n(image/png, 1 kB, left out: this service passes text only.)"},
		"400":             {reply(400, js, `{"error":"no"}`), "", "!Status: 400\n{\"error\":\"no\"}"},
		"403":             {reply(403, "text/plain", "no"), "", "!Status: 403\nno"},
		"404":             {reply(404, "text/plain", strings.Repeat("x", 10_000)), "", "!Status: 404\n" + strings.Repeat("x", remote.MaxErrorText) + "…"},
		"422 of no kind":  {reply(422, "", ""), "", "!Status: 422\nThe reply is empty."},
		"401":             {reply(401, js, `{}`), remote.Refused, ""},
		"408":             {reply(408, js, `{}`), remote.Unknown, ""},
		"429":             {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "2"); w.WriteHeader(429) }, remote.Refused, ""},
		"500":             {reply(500, js, `{}`), remote.Unknown, ""},
		"503":             {reply(503, js, `{}`), remote.Unknown, ""},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, remote.Unknown, ""},
		"too large":      {reply(200, js, `"`+strings.Repeat("x", 2000)+`"`), "", "Status: 200\n" + remote.CutNote(688) + `"` + strings.Repeat("x", 687)},
		"a large image":  {reply(200, "image/png", "\x89PNG\x00"+strings.Repeat("x", 2000)), "", "Status: 200\n(image/png, 1 kB, left out: this service passes text only.)"},
		"Latin-1":        {reply(200, "text/plain; charset=iso-8859-1", "Gr\xfc\xdfe"), "", "Status: 200\n(The reply is not JSON, so no part of it was selected.)\nGrüße"},
		"UTF-16":         {reply(200, "application/json; charset=utf-16le", "{\x00}\x00"), "", "Status: 200\n{}\n(The reply has nothing at \"/data/items\"; this is all of it.)"},
		"Latin-1 of 404": {reply(404, "text/plain; charset=iso-8859-1", "Gr\xfc\xdfe"), "", "!Status: 404\nGrüße"},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(make([]byte, 100))
		}, remote.Unknown, ""},
		"the body ends early": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{}")
		}, remote.Unknown, ""},
		"the connection closes": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, remote.Unknown, ""},
		"a reset": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		}, remote.Unknown, ""},
		"no reply in time": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, remote.Unknown, ""},
		"bytes that drip": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				w.(http.Flusher).Flush()
			}
		}, remote.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, c.answer)
			f.Credential = remote.Credential{Header: "X-Key", Value: "secret-token"}
			d := definition(t, `{"name":"a","method":"POST","path":"/a","effects":"idempotent","parameters":{"properties":{"n":{"in":"body"}}},"result":{"pointer":"/data/items","maxItems":2}}`)
			ctx := t.Context()
			most := int64(1000)
			if name == "no reply in time" || name == "bytes that drip" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
				most = 1 << 30
			}
			got, err := f.Call(ctx, remote.Call{ID: "cal_1", Definition: d, Arguments: json.RawMessage(`{"n":1}`), MaxResult: most})
			failed, ok := errors.AsType[*remote.Error](err)
			want, isError := strings.CutPrefix(c.text, "!")
			switch {
			case c.class == "" && (err != nil || got.Text != want || got.IsError != isError):
				t.Errorf("%+v, %v", got, err)
			case c.class != "" && (!ok || failed.Class != c.class || failed.Message == "" || failed.Unauthorized != (name == "401")):
				t.Errorf("%+v, %v", got, err)
			case name == "503" && failed.Message != "The server answered with the status 503: {}.":
				t.Error(failed.Message)
			case name == "429" && failed.RetryAfter != 2*time.Second:
				t.Errorf("wait %v", failed.RetryAfter)
			}
			if r, body := f.last(); f.count() != 1 || r.Header.Get("Idempotency-Key") != "cal_1" || body != `{"n":1}` {
				t.Errorf("%d requests, the last with %s", f.count(), body)
			}
		})
	}
	if elsewhere.count() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestRequestsThatAreNotSent(t *testing.T) {
	t.Parallel()
	d := definition(t, `{"name":"a","method":"POST","path":"/a"}`)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, s := range map[string]Server{
		"refused":     {Endpoint: remote.Endpoint{Network: network(t), URL: closed.URL}},
		"no TLS":      {Endpoint: remote.Endpoint{Network: network(t), URL: strings.Replace(plain.URL, "http:", "https:", 1)}},
		"not allowed": {Endpoint: remote.Endpoint{Network: outbound.New(outbound.Settings{}), URL: plain.URL}},
		"no address":  {Endpoint: remote.Endpoint{Network: network(t)}},
	} {
		_, err := s.Call(t.Context(), remote.Call{ID: "cal_1", Definition: d})
		if failed, ok := errors.AsType[*remote.Error](err); !ok || failed.Class != remote.NotSent {
			t.Errorf("%s: %v", name, err)
		}
	}
	if plain.count() != 0 {
		t.Error("a request was sent")
	}
}

// TestSecretsOfRequestsAreBlanked has a server that repeats the secret, also in the body of
// an error that is cut within it.
func TestSecretsOfRequestsAreBlanked(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse/battery-staple"
	d := definition(t, `{"name":"a","method":"GET","path":"/a"}`)
	told := remote.MaxErrorText + 2*remote.Credential{Header: "X-Key", Value: secret}.Longest()
	for offset := range 40 {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(404)
			key := r.Header.Get("X-Key")
			fmt.Fprint(w, strings.Repeat(key, 100), strings.Repeat("x", told-100*len(key)-offset), key, key)
		})
		f.Credential = remote.Credential{Header: "X-Key", Value: secret}
		got, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Definition: d})
		if err != nil || strings.Contains(got.Text, secret[:6]) || !got.IsError {
			t.Fatalf("%d: %v %s", offset, err, got.Text[len(got.Text)-60:])
		}
	}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"key":"%s"}`, strings.ReplaceAll(r.Header.Get("X-Key"), "/", `\/`))
	})
	f.Credential = remote.Credential{Header: "X-Key", Value: secret}
	if got, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Definition: d}); err != nil || got.Text != "Status: 200\n{\"key\":\"[secret]\"}" {
		t.Errorf("%+v, %v", got, err)
	}
}
