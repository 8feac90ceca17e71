package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"stoa/internal/agents/oauth"
)

// A witness records data. It is safe for concurrent use.
type witness struct {
	mu   sync.Mutex
	seen bytes.Buffer
}

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Write(p)
}

func (w *witness) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.String()
}

// watched returns a handler that records the whole request before next answers it.
func (w *witness) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %v\n%s\n", r.Method, r.URL, r.Header, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(rw, r)
	})
}

// echoed returns the content of a request in every spelling: its address and headers in
// plain, as parts of addresses, as JSON, as JSON within JSON, in base64 piece by piece and as
// a whole.
func echoed(r *http.Request, body []byte) string {
	var dump bytes.Buffer
	fmt.Fprintf(&dump, "%s %s %s\n", r.Method, r.URL, body)
	_ = r.Header.Write(&dump) // to memory
	pieces := []string{}
	for _, all := range r.Header {
		pieces = append(pieces, all...)
	}
	for _, all := range r.URL.Query() {
		pieces = append(pieces, all...)
	}
	if user, password, ok := r.BasicAuth(); ok {
		pieces = append(pieces, user+":"+password, password)
	}
	if form, err := url.ParseQuery(string(body)); err == nil {
		for _, all := range form {
			pieces = append(pieces, all...)
		}
	}
	plain := dump.String() + strings.Join(pieces, "\n")
	quoted, _ := json.Marshal(plain)
	twice, _ := json.Marshal(string(quoted))
	all := []string{plain, url.QueryEscape(plain), url.PathEscape(plain), string(quoted), string(twice), strings.ReplaceAll(string(quoted), "/", `\/`)}
	for _, p := range append(pieces, plain, "x"+plain, "xy"+plain) {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(p)), base64.RawURLEncoding.EncodeToString([]byte(p)))
	}
	return strings.Join(all, "\n")
}

// hows are the places in which an echo repeats the content of a request.
var hows = []string{"result", "error", "structured", "refused", "failed", "400", "result", "500", "type", "result", "redirect", "drop", "result", "cut", "another", "result"}

// An echo is a server of tools that repeats the content of its requests in every part of a
// reply. The argument of its tool act selects the place. Paths below /act are for connections
// of the kind http.
type echo struct {
	*httptest.Server
	asked sync.Map // how: true
}

func newEcho(t testing.TB, front func(http.Handler) http.Handler) *echo {
	e := &echo{}
	e.Server = httptest.NewServer(front(http.HandlerFunc(e.answer)))
	t.Cleanup(e.Close)
	return e
}

func (e *echo) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ How string } }
	}
	mcp := json.Unmarshal(body, &m) == nil && m.Method != ""
	how, told := m.Params.Arguments.How, echoed(r, body)
	if !mcp {
		how = r.URL.Query().Get("how")
	}
	quoted, _ := json.Marshal(told)
	result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":` + string(quoted) + `,"version":"1"},"instructions":` + string(quoted) + `}`
	failed, brief := "", fmt.Sprint("Echoes ", r.Header["Authorization"], r.Header["X-Key"], r.URL.RawQuery)
	if m.Method == "tools/list" {
		known, _ := json.Marshal(brief)
		result = `{"resultType":"complete","tools":[{"name":"act","description":` + string(known) + `,"inputSchema":{"type":"object","properties":{"how":{"type":"string","description":` + string(known) + `}}}}]}`
	} else if how != "" {
		e.asked.Store(how, true)
		result = `{"content":[{"type":"text","text":` + string(quoted) + `}]}`
	}
	w.Header().Set("X-Echo", brief)
	w.Header().Set("Content-Type", "application/json")
	switch how {
	case "error":
		result = `{"isError":true,"content":[{"type":"text","text":` + string(quoted) + `}]}`
	case "structured":
		result = `{"content":[],"structuredContent":{"echo":` + string(quoted) + `}}`
	case "refused":
		failed = `{"code":-32602,"message":` + string(quoted) + `}`
	case "failed":
		failed = `{"code":-32000,"message":` + string(quoted) + `,"data":` + string(quoted) + `}`
	case "400", "500":
		http.Error(w, told, map[string]int{"400": 400, "500": 500}[how])
		return
	case "type":
		w.Header().Set("Content-Type", "text/"+brief)
	case "redirect":
		w.Header().Set("Location", "/elsewhere?"+url.QueryEscape(brief))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	case "drop":
		panic(http.ErrAbortHandler)
	case "cut":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":%s`, m.ID, quoted)
		return
	case "another":
		m.ID = quoted
	}
	switch {
	case !mcp:
		fmt.Fprintf(w, `{"echo":%s}`, quoted)
	case failed != "":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, failed)
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

// A teller is an authorization server that records the issued tokens and, on demand, refuses
// a token request with all the content of the request.
type teller struct {
	*oauth.Demo
	mu     sync.Mutex
	tokens []string
	refuse []int // the statuses of the next answers; 0 means a normal answer
}

func (s *teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/token" {
		s.Demo.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refuse) > 0 {
		status := s.refuse[0]
		s.refuse = s.refuse[1:]
		if status != 0 {
			said, _ := json.Marshal(map[string]string{"error": "invalid_grant", "error_description": echoed(r, body)})
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(said)
			return
		}
	}
	kept := httptest.NewRecorder()
	s.Demo.ServeHTTP(kept, r)
	var given map[string]any
	if json.Unmarshal(kept.Body.Bytes(), &given) == nil {
		for _, name := range []string{"access_token", "refresh_token"} {
			if token, ok := given[name].(string); ok {
				s.tokens = append(s.tokens, token)
			}
		}
	}
	for name, values := range kept.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(kept.Code)
	_, _ = w.Write(kept.Body.Bytes())
}
