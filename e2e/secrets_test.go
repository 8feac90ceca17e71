package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stoa/internal/agents/oauth"
)

// TestNoSecretIsFoundAnywhere sends secrets of every kind to servers that repeat them in
// every part of a reply, and then searches for them in everything that leaves the process or
// remains: replies of every endpoint, streams, the log, the trace of a crash, metrics, spans,
// requests to the vendor of the model, webhooks, a backup and the database.
func TestNoSecretIsFoundAnywhere(t *testing.T) { secretsEverywhere(t, "") }

func TestNoSecretIsFoundAnywhereOnPostgreSQL(t *testing.T) { secretsEverywhere(t, aPostgres(t)) }

// A hidden is a value that must not occur anywhere.
type hidden struct{ what, value string }

// forms returns the texts that would reveal the value: itself, in hexadecimal, and in base64
// at any offset.
func (v hidden) forms() (all [][]byte) {
	all = append(all, []byte(v.value), []byte(hex.EncodeToString([]byte(v.value))))
	for _, name := range []func(string) string{url.QueryEscape, url.PathEscape} {
		all = append(all, []byte(name(v.value)))
	}
	for shift := range 3 {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString([]byte("xyz"[:shift] + v.value))
			all = append(all, []byte(text[(shift*8+5)/6:(shift+len(v.value))*8/6]))
		}
	}
	return all
}

func secretsEverywhere(t *testing.T, postgres string) {
	var out, said, hooks, spans witness // requests to the vendor, replies of the service, and so on
	vendor := newVendor(t, nil)
	watched := httptest.NewServer(out.watched(vendor.Handler))
	defer watched.Close()
	receiver := httptest.NewServer(hooks.watched(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, echoed(r, nil))
	})))
	defer receiver.Close()
	tracer := httptest.NewServer(spans.watched(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer tracer.Close()
	h := newServer(t, watched.URL, actingSettings(t, "log: {level: debug}\ntelemetry: {traces: \""+tracer.URL+"\"}\n"))
	admin := freePort(t)
	h.postgres = postgres
	h.env = []string{fmt.Sprintf("STOA_ADMIN_LISTEN=127.0.0.1:%d", admin)}
	h.log = &witness{}
	h.http.Transport = listener{h.http.Transport, &said}
	p := h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	must := func(method, path string, body, into any) {
		t.Helper()
		if _, err := h.call(ctx, method, a.key, path, body, into); err != nil {
			t.Fatal(err)
		}
	}
	secrets := []hidden{{"the master key", string(unhex(t, actingKey))}}
	hide := func(what, value string) string {
		secrets = append(secrets, hidden{what, value})
		return value
	}

	// The webhook for all events: its secret is shown once, and once more for a repeated
	// request.
	var hook struct{ ID, Secret string }
	unheard := context.WithValue(ctx, quiet{}, true)
	for range 2 {
		body := object{"url": receiver.URL, "events": []string{"session.completed", "session.failed", "tool_call.unknown", "connection.review_needed", "connection.needs_authorization"}}
		if code, err := h.callOnce(unheard, "POST", a.key, "the-webhook", "/webhooks", body, &hook); err != nil {
			t.Fatal(code, err)
		}
	}
	former := hook.Secret
	if code, err := h.call(unheard, "POST", a.key, "/webhooks/"+hook.ID+"/rotate-secret", object{}, &hook); err != nil {
		t.Fatal(code, err)
	}
	hide("the webhook's former secret", former[len("whsec_"):])
	hide("the webhook's secret", hook.Secret[len("whsec_"):])
	if former == hook.Secret {
		t.Error("the secret of the webhook was not replaced")
	}

	// The servers, and a connection to them for each kind of secret.
	plain := newEcho(t, func(next http.Handler) http.Handler { return next })
	tells := &teller{Demo: &oauth.Demo{Life: time.Hour}}
	behind := newEcho(t, func(next http.Handler) http.Handler { tells.Next = next; return tells })
	tells.Origin = behind.URL
	type secret struct{ kind, value, header, parameter string }
	keep := func(name, origin string, s secret) (id string) {
		t.Helper()
		var made struct{ ID string }
		body := object{"name": name, "kind": s.kind, "value": s.value, "origin": origin}
		if s.header != "" {
			body["headerName"] = s.header
		}
		if s.parameter != "" {
			body["parameterName"] = s.parameter
		}
		must("POST", "/secrets", body, &made)
		return made.ID
	}
	connections, ids, review := []string{}, map[string]string{}, map[string]func(){}
	space := ""
	connect := func(name, kind, at string, auth object) {
		t.Helper()
		var made struct{ ID, SpaceID string }
		body := object{"kind": kind, "name": name, "url": at, "limits": object{"callsPerMinute": 600}}
		if auth != nil {
			body["auth"] = auth
		}
		if kind == "http" {
			body["operations"] = []object{{
				"name": "act", "description": "Echoes.", "method": "POST", "path": "/act", "effects": "once",
				"parameters": object{"type": "object", "properties": object{"how": object{"type": "string", "in": "query"}}},
			}}
		}
		must("POST", "/connections", body, &made)
		path := "/connections/" + made.ID
		connections, ids[name], space = append(connections, name), made.ID, made.SpaceID
		review[name] = func() {
			t.Helper()
			must("POST", path+"/refresh", nil, nil)
			var catalog struct {
				Data []struct{ Name, Sha256 string }
			}
			must("GET", path+"/tools", nil, &catalog)
			must("POST", path+"/tools/review", object{"tools": []object{{"name": "act", "sha256": catalog.Data[0].Sha256, "decision": "approve", "approval": "never", "effects": "once"}}}, nil)
		}
	}
	const odd = `/+"=\%&<z9`
	for name, s := range map[string]secret{
		"bearer": {"bearer", hide("bearer", `one-5cb81f0a9e`+odd), "", ""},
		"header": {"header", hide("header", `two-40d7be2c11`+odd), "X-Key", ""},
		"basic":  {"basic", "somebody:" + hide("basic", `three-93aa40b8d2`+odd), "", ""},
		"query":  {"query", hide("query", `four-0f6c2b7d55`+odd), "", "key"},
		"plain":  {"query", hide("query of requests", `five-8e13c9a7f4`+odd), "", "key"},
		"forms":  {"bearer", hide("bearer of requests", `six-2ad90e6b73`+odd), "", ""},
		"client": {"token", hide("token", "demo-secret"), "", ""},
	} {
		switch kind := map[bool]string{true: "http", false: "mcp"}[name == "plain" || name == "forms"]; name {
		case "client":
			id := keep(name, behind.URL, s)
			connect(name, "mcp", behind.URL+"/", object{"type": "oauth", "grant": "client_credentials", "clientId": "demo", "clientSecretId": id})
		default:
			connect(name, kind, plain.URL+"/", object{"type": "secret", "secretId": keep(name, plain.URL, s)})
		}
		review[name]()
	}
	connect("own", "mcp", plain.URL+"/", nil)
	review["own"]()
	must("PATCH", "/connections/"+ids["own"], object{"credentialsPerSession": "optional"}, nil)
	ofUser := keep("of a user", plain.URL, secret{"bearer", hide("the session's own", `seven-77b1d3f0c6`+odd), "", ""})
	connect("person", "mcp", behind.URL+"/", object{"type": "oauth"})
	authorize := func(want int) { // the status of the final page; 0 means that the question stays open
		t.Helper()
		var begun struct{ AuthorizeURL string }
		must("POST", "/connections/"+ids["person"]+"/authorize", nil, &begun)
		res, err := behind.Client().Transport.RoundTrip(httptest.NewRequest("GET", begun.AuthorizeURL, nil)) // no redirect
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		back, err := res.Location()
		if err != nil {
			t.Fatal(err)
		}
		hide("a code", back.Query().Get("code"))
		page := func(req *http.Request, err error) (int, string) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			res, err := h.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, string(text)
		}
		code, text := page(http.NewRequestWithContext(ctx, "GET", back.String(), nil))
		_, token, found := strings.Cut(text, `name="token" value="`)
		token, _, _ = strings.Cut(token, `"`)
		if code != 200 || !found {
			t.Fatal(code, text)
		}
		if want == 0 {
			return
		}
		back.RawQuery = ""
		req, err := http.NewRequestWithContext(ctx, "POST", back.String(), strings.NewReader(url.Values{"token": {token}, "decision": {"connect"}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		if code, text = page(req, err); code != want {
			t.Fatal(code, text)
		}
	}
	authorize(200)
	review["person"]()

	// An agent calls all of them, regardless of their answers; so do people in trial calls.
	tools := []object{}
	for _, name := range connections {
		tools = append(tools, object{"type": "connection", "connectionId": ids[name], "allow": []string{"act"}})
	}
	var agent struct{ ID string }
	must("POST", "/api-agents", object{"spaceId": space, "name": "acts", "instructions": "Do as you are told.", "model": "alpha-haiku-4-5", "tools": tools}, &agent)
	here := "/api-agents/" + agent.ID + "/sessions"
	sessions := []string{}
	for _, name := range connections {
		var order strings.Builder
		for _, how := range hows {
			fmt.Fprintf(&order, "call: %s__act {\"how\":%q}\n", name, how)
		}
		body := object{"message": order.String()}
		if name == "own" {
			body["credentials"] = object{ids["own"]: ofUser}
		}
		var s struct{ ID string }
		must("POST", here, body, &s)
		sessions = append(sessions, s.ID)
	}
	for i, id := range sessions {
		var s struct {
			Status string
			Usage  struct{ ToolCalls int }
		}
		for s.Status == "" || s.Status == "queued" || s.Status == "running" {
			h.get(t, a.key, here+"/"+id+"?waitSeconds=15", &s)
		}
		var list struct {
			Data []struct{ Status, Outcome string }
		}
		h.get(t, a.key, here+"/"+id+"/tool-calls?limit=100", &list)
		outcomes := map[string]int{}
		for _, c := range list.Data {
			outcomes[c.Outcome]++
		}
		if s.Status != "completed" || len(list.Data) != len(hows) || outcomes["ok"] < 5 || outcomes["unknown"] < 2 {
			t.Errorf("session %d (%s) is %s after %v", i, connections[i], s.Status, outcomes)
		}
	}
	for _, name := range connections {
		for _, how := range hows {
			_, _ = h.call(ctx, "POST", a.key, "/connections/"+ids[name]+"/tools/test", object{"name": "act", "arguments": object{"how": how}, "confirm": true}, nil)
		}
	}
	for _, how := range hows {
		if _, asked := plain.asked.Load(how); !asked {
			t.Errorf("no server was asked for %q", how)
		}
	}

	// Tokens are refused and refreshed, and the authorization server repeats them too.
	again := func(name string, statuses ...int) {
		t.Helper()
		tells.mu.Lock()
		tells.refuse = statuses
		tells.mu.Unlock()
		tells.Revoke(false)
		_, _ = h.call(ctx, "POST", a.key, "/connections/"+ids[name]+"/tools/test", object{"name": "act", "arguments": object{"how": "result"}, "confirm": true}, nil)
	}
	for _, statuses := range [][]int{{503}, {500}, {0}, {400}} {
		again("client", statuses...)
		again("person", statuses...)
	}
	tells.mu.Lock()
	tells.refuse = nil
	tells.mu.Unlock()
	authorize(200)
	tells.mu.Lock()
	tells.refuse = []int{400}
	tells.mu.Unlock()
	authorize(400) // the code is refused
	authorize(0)
	tells.mu.Lock()
	for i, token := range slices.Compact(tells.tokens) {
		hide(fmt.Sprint("token ", i), token)
	}
	if len(tells.tokens) < 6 {
		t.Errorf("only %d tokens were given", len(tells.tokens))
	}
	tells.mu.Unlock()
	var broken struct{ ID string }
	must("POST", "/connections", object{"kind": "mcp", "name": "gone", "url": "http://127.0.0.1:1/", "auth": object{"type": "secret", "secretId": keep("gone", "http://127.0.0.1:1", secret{"query", hide("query of nobody", `eight-b20c55e871`+odd), "", "key"})}}, &broken)
	_, _ = h.call(ctx, "POST", a.key, "/connections/"+broken.ID+"/refresh", nil, nil)

	// Everything that can be read.
	lists := []string{
		"/secrets", "/connections", "/webhooks", "/webhooks/" + hook.ID, "/webhooks/" + hook.ID + "/deliveries?limit=100", "/receipts?limit=100", "/requests?limit=100", "/sessions?limit=100", "/tool-calls?limit=100",
		"/api-agents/" + agent.ID, "/api-agents/" + agent.ID + "/versions", "/inputs", "/credits/ledger", "/usage", "/keys", "/users/me",
	}
	for _, id := range ids {
		lists = append(lists, "/connections/"+id, "/connections/"+id+"/tools")
	}
	for _, id := range sessions {
		at := here + "/" + id
		for _, more := range []string{"", "/turns", "/messages", "/events?limit=1000", "/tool-calls?limit=100", "/receipts", "/sources", "/export?format=jsonl", "/export?format=markdown"} {
			lists = append(lists, at+more)
		}
	}
	for _, path := range lists {
		if text := h.text(t, a.key, path); text == "" {
			t.Errorf("%s is empty", path)
		}
	}
	var deliveries struct{ Data []struct{ ID, Status string } }
	h.get(t, a.key, "/webhooks/"+hook.ID+"/deliveries?limit=100", &deliveries)
	for _, d := range deliveries.Data {
		h.text(t, a.key, "/webhooks/"+hook.ID+"/deliveries/"+d.ID)
	}
	for _, path := range []string{"/metrics", "/readyz"} {
		if res, err := h.http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", admin, path)); err != nil {
			t.Error(err)
		} else {
			io.Copy(io.Discard, res.Body) // it is recorded on its way
			res.Body.Close()
		}
	}
	stream, done := context.WithCancel(ctx)
	req, _ := http.NewRequestWithContext(stream, "GET", h.url+"/api/v1"+here+"/"+sessions[0]+"/events", nil)
	req.Header.Set("Authorization", "Bearer "+a.key)
	req.Header.Set("Accept", "text/event-stream")
	if res, err := h.http.Do(req); err != nil {
		t.Error(err)
	} else {
		io.CopyN(io.Discard, res.Body, 20_000)
		res.Body.Close()
	}
	done()
	if echoes := strings.Count(said.String(), "[secret]"); echoes < 100 {
		t.Errorf("only %d secrets were blanked: the servers do not repeat them", echoes)
	}

	// The remaining data: a backup, the log with the trace of a crash, the database.
	behindIt := map[string][]byte{}
	if postgres == "" {
		file := filepath.Join(t.TempDir(), "backup.tar")
		if text, wrong, code := run(t, "backup", "--data", h.data, file); code != 0 {
			t.Fatal(text, wrong)
		}
		behindIt["a backup"], _ = os.ReadFile(file)
	}
	p.signal(t, syscall.SIGQUIT)
	if p.exit(t); !strings.Contains(h.log.String(), "goroutine ") {
		t.Error("the process left no trace")
	}
	if postgres == "" {
		files, _ := filepath.Glob(filepath.Join(h.data, "*"))
		for _, file := range files {
			behindIt[filepath.Base(file)], _ = os.ReadFile(file)
		}
	} else {
		behindIt["the database"] = []byte(dumped(t, postgres))
	}
	for name, w := range map[string]*witness{"the log": h.log, "the model's vendor": &out, "a reply": &said, "a webhook": &hooks, "a span": &spans} {
		behindIt[name] = []byte(w.String())
		if len(behindIt[name]) < 1000 {
			t.Errorf("%s has %d bytes", name, len(behindIt[name]))
		}
	}
	for where, text := range behindIt {
		for _, v := range secrets {
			for _, form := range v.forms() {
				if at := bytes.Index(text, form); at >= 0 {
					t.Errorf("%s is in %s: …%q", v.what, where, text[max(0, at-150):min(len(text), at+len(form)+20)])
					break
				}
			}
		}
	}
	t.Logf("%d values, %d places, %d calls", len(secrets), len(behindIt), len(sessions)*len(hows))
}

// unhex returns the bytes of a text.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// dumped returns all rows of a database as text.
func dumped(t testing.TB, postgres string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	tables, err := c.Query(t.Context(), `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	if err != nil || len(names) < 20 {
		t.Fatal(names, err)
	}
	var all strings.Builder
	for _, name := range names {
		rows, err := c.Query(t.Context(), `SELECT row_to_json(r)::text FROM `+name+` r`)
		if err != nil {
			t.Fatal(name, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(name, err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", name, strings.Join(lines, "\n"))
	}
	return all.String()
}

// A listener is a transport that records all replies, except in quiet contexts.
type listener struct {
	http.RoundTripper
	said *witness
}

// RoundTrip makes a request.
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.Context().Value(quiet{}) == nil {
		fmt.Fprintf(l.said, "%s %s %d %v\n", r.Method, r.URL.Path, res.StatusCode, res.Header)
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(res.Body, l.said), res.Body}
	}
	return res, err
}

// quiet is the context key that disables recording.
type quiet struct{}
