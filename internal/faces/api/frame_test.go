package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakestripe"
	"stoa/internal/testkit/storetest"
)

func start(t *testing.T, cfg apitest.Config) *apitest.Service {
	cfg.Recorder = &recorder
	return apitest.Start(t, cfg)
}

// hello is a model call that succeeds.
var hello = map[string]any{"model": "auto", "input": "say: hello"}

// eachOperation calls back for every operation of the contract.
func eachOperation(t *testing.T, do func(t *testing.T, op apitest.Operation)) {
	for _, op := range apitest.Operations() {
		t.Run(op.OperationID, func(t *testing.T) { do(t, op) })
	}
}

func TestTheRoutesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	inContract := map[string]string{}
	for _, op := range apitest.Operations() {
		scope, _ := op.Extensions["x-scope"].(string)
		if op.Security != nil {
			scope = "public"
		}
		inContract[op.Method+" "+op.Path] = scope
	}
	for pattern, scope := range api.RoutesForTest() {
		want, ok := inContract[pattern]
		if !ok {
			t.Errorf("%s is served and not in the contract", pattern)
		} else if want != scope {
			t.Errorf("%s needs %q, the contract says %q", pattern, scope, want)
		}
		delete(inContract, pattern)
	}
	for pattern := range inContract {
		t.Errorf("%s is in the contract and not served", pattern)
	}
}

func TestTheKeyComesBeforeTheBody(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.RateLimited = func() bool { return false } }})
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if op.Security != nil {
			return
		}
		var first contract.ErrorBody
		for i, key := range []string{"", "sk_wrong", "nothing like a key"} {
			r := op.Sample("x")
			if r.Body != nil {
				r.Body = "{ this is not JSON"
			}
			got := h.ClientWith(t, key).SendForError("Unauthorized", r).Error()
			got.RequestID, got.Message = "", "" // the message says what is wrong with the key
			if i == 0 {
				first = got
			} else if got != first {
				t.Errorf("the refusals differ: %+v and %+v", first, got)
			}
		}
	})
}

func TestAKeyNeedsTheScope(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	reader, _ := h.NewKey(h.Account.ID, "usage:read")
	writer, _ := h.NewKey(h.Account.ID, "embeds:write")
	star, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		scope, _ := op.Extensions["x-scope"].(string)
		if op.Security != nil || scope == "" {
			return
		}
		weak := reader
		if scope == "usage:read" {
			weak = writer
		}
		h.ClientWith(t, weak).SendForError("insufficient_scope", op.Sample("x"))
		if stoa.OfService(scope) || scope == stoa.ScopeAccountRead || scope == stoa.ScopeAccountWrite {
			h.ClientWith(t, star).SendForError("insufficient_scope", op.Sample("x"))
		}
	})
}

func TestASuspendedAccountIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	var made contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", map[string]any{"name": "Acme"}).JSON(&made)
	customer := h.ClientWith(t, made.Key.Secret)
	customer.Want(200, "GET", "/api/v1/users/me", nil)
	h.Client(t).Want(200, "PATCH", "/api/v1/accounts/"+made.ID, map[string]any{"suspended": true})
	for _, path := range []string{"/api/v1/users/me", "/api/v1/models", "/api/v1/models/auto"} {
		customer.WantError(stoa.CodeSuspended, "GET", path, nil)
	}
	customer.WantError(stoa.CodeSuspended, "POST", "/api/v1/responses", hello)
	h.Client(t).Want(200, "PATCH", "/api/v1/accounts/"+made.ID, map[string]any{"suspended": false})
	customer.Want(200, "GET", "/api/v1/users/me", nil)
}

func TestEveryOperationIsLimited(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if op.Security != nil {
			return
		}
		secret, _ := h.NewKeyLike(stoa.Key{AccountID: h.Account.ID, Scopes: []string{stoa.ScopeAll, stoa.ScopeOperator}, RequestsPerMinute: 1})
		c := h.ClientWith(t, secret)
		c.Want(200, "GET", "/api/v1/users/me", nil)
		if e := c.SendForError("rate_limit_exceeded", op.Sample("x")).Error(); !e.Retryable {
			t.Error("a rate limit is worth a retry")
		}
	})
}

func TestBodiesAreCheckedAlikeEverywhere(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.MaxBody = 4096 }})
	c := h.Client(t)
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if !op.TakesJSON() || strings.Contains(op.Path, "/drive/") || op.VisitorOnly() { // the drive searches for the agent first
			return
		}
		path := op.Sample("x").Path
		tests := []struct {
			name string
			c    *apitest.Client
			body any
			want stoa.Code
		}{
			{"not JSON", c, "{", stoa.CodeInvalidJSON},
			{"an array", c, "[]", stoa.CodeInvalidJSON},
			{"two objects", c, "{}{}", stoa.CodeInvalidJSON},
			{"a member twice", c, `{"a":1,"a":2}`, stoa.CodeInvalidJSON},
			{"bad UTF-8", c, "{\"name\":\"\xff\"}", stoa.CodeInvalidJSON},
			{"too large", c, strings.Repeat(" ", 5000), stoa.CodeTooLarge},
			{"a form", c.With("Content-Type", "application/x-www-form-urlencoded"), "a=b", stoa.CodeMediaType},
			{"text", c.With("Content-Type", "text/plain"), "{}", stoa.CodeMediaType},
			{"gzip", c.With("Content-Encoding", "gzip"), "\x1f\x8b", stoa.CodeMediaType},
		}
		protocol := strings.HasPrefix(op.Path, "/api/v1/mcp") // whose messages may have more members
		for _, test := range tests {
			if got := test.c.Do(op.Method, path, test.body).Error().Code; got != string(test.want) {
				t.Errorf("%s: answered %s, want %s", test.name, got, test.want)
			}
		}
		if !slices.Contains([]string{"createResponse", "compactResponse", "countInputTokens", "createChatCompletion", "createMessage", "countMessageTokens", "generateContent", "streamGenerateContent", "countContentTokens"}, op.OperationID) && !protocol {
			e := c.WantError(stoa.CodeUnknownField, op.Method, path, `{"nmae":"typo"}`)
			if e.Param == nil || *e.Param != "nmae" {
				t.Errorf("param is %v, want the unknown member", e.Param)
			}
		}
	})
}

func TestAContentTypeMayCarryACharsetOrBeAbsent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for _, value := range []string{"application/json; charset=utf-8", "Application/JSON;charset=ISO-8859-1", ""} {
		h.Client(t).With("Content-Type", value).Want(200, "POST", "/api/v1/responses", hello)
		h.Client(t).With("Content-Type", value).Want(201, "POST", "/api/v1/keys", map[string]any{"name": "one more"})
	}
}

func TestUnknownPathsAndMethodsAnswerInJSON(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.Web = nil }}) // the pages have their own tests
	tests := []struct {
		method, path string
		want         stoa.Code
		allow        string
	}{
		{"GET", "/", stoa.CodeNotFound, ""},
		{"GET", "/api", stoa.CodeNotFound, ""},
		{"GET", "/api/v1", stoa.CodeNotFound, ""},
		{"POST", "/api/v1/chat/completion", stoa.CodeNotFound, ""},
		{"POST", "/api/v1/models/gemini-3:generateSpeech", stoa.CodeMethodNotAllowed, "GET, HEAD"},
		{"POST", "/api/v1//responses", stoa.CodeNotFound, ""},
		{"POST", "//api/v1/responses", stoa.CodeNotFound, ""},
		{"POST", "/api/v1/responses/", stoa.CodeNotFound, ""},
		{"POST", "/api/v1/./responses", stoa.CodeNotFound, ""},
		{"POST", "/api/v1/x/../responses", stoa.CodeNotFound, ""},
		{"GET", "/api/v1/health/", stoa.CodeNotFound, ""},
		{"GET", "/api/v1/responses/resp_1/input_items", stoa.CodeNotFound, ""},
		{"GET", "/api/v1/responses", stoa.CodeMethodNotAllowed, "POST"},
		{"DELETE", "/api/v1/keys", stoa.CodeMethodNotAllowed, "GET, HEAD, POST"},
		{"POST", "/api/v1/health", stoa.CodeMethodNotAllowed, "GET, HEAD"},
		{"PATCH", "/api/v1/users/me", stoa.CodeMethodNotAllowed, "GET, HEAD"},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			for _, key := range []string{"", h.Key} {
				r := h.ClientWith(t, key).Do(test.method, test.path, nil)
				if got := r.Error().Code; got != string(test.want) || r.Header.Get("Allow") != test.allow {
					t.Errorf("answered %s, Allow %q; want %s, %q", got, r.Header.Get("Allow"), test.want, test.allow)
				}
			}
		})
	}
}

// TestAFormatThatIsOffIsNamed: clients take a 404 there for an unknown model, and show the text of another error.
func TestAFormatThatIsOffIsNamed(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Version1: true})
	for path, extension := range map[string]string{"/api/v1/chat/completions": "chatCompletions", "/api/v1/messages": "messages", "/api/v1/messages/count_tokens": "messages"} {
		r := h.Client(t).Do("POST", path, object{"model": "auto", "messages": []object{{"role": "user", "content": "x"}}})
		text := string(r.Body)
		if r.Status != 400 || !strings.Contains(text, `extension \"`+extension+`\"`) || strings.HasPrefix(text, `{"type":"error","error":{"type":"invalid_request_error"`) != (extension == "messages") {
			t.Errorf("%s: %d %s", path, r.Status, text)
		}
	}
}

func TestAWebSocketIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t).With("Upgrade", "WebSocket").With("Connection", "keep-alive, Upgrade")
	for _, path := range []string{"/api/v1/responses", "/v1/responses"} {
		r := c.Want(426, "GET", path, nil)
		if e := r.Error(); e.Code != string(stoa.CodeUpgradeRequired) || r.Header.Get("Upgrade") != "HTTP/1.1" || r.Header.Get("Connection") != "Upgrade" || r.Header.Get("x-should-retry") != "false" {
			t.Errorf("%s: %+v, the headers are %v", path, e, r.Header)
		}
	}
	c.Want(405, "GET", "/api/v1/chat/completions", nil)
	// As nginx, Apache and Varnish pass it on.
	h.Client(t).With("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==").With("Sec-WebSocket-Version", "13").Want(426, "GET", "/api/v1/responses", nil)
	h.Client(t).With("Upgrade", "h2c").With("Connection", "Upgrade").Want(405, "GET", "/api/v1/responses", nil)
	h.Client(t).Want(405, "GET", "/api/v1/responses", nil)
}

// TestErrorsSayWhetherToRetry: in every format, for what no repetition mends.
func TestErrorsSayWhetherToRetry(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for path, body := range map[string]object{
		"/api/v1/responses":        {"input": "x"},
		"/api/v1/chat/completions": {"messages": []object{{"role": "user", "content": "x"}}},
		"/api/v1/messages":         {"max_tokens": 1, "messages": []object{{"role": "user", "content": "x"}}},
		"/api/v1/keys":             {"name": "x"},
	} {
		for status, r := range map[int]*apitest.Reply{
			400: h.Client(t).Do("POST", path, object{"model": 1}),
			401: h.ClientWith(t, "sk_wrong").Do("POST", path, body),
		} {
			if r.Status != status || r.Header.Get("x-should-retry") != "false" {
				t.Errorf("%s: %d, want %d, with x-should-retry %q", path, r.Status, status, r.Header.Get("x-should-retry"))
			}
		}
	}
	if r := h.Client(t).Want(404, "GET", "/api/v1/none", nil); r.Header.Get("x-should-retry") != "false" {
		t.Errorf("404 has x-should-retry %q", r.Header.Get("x-should-retry"))
	}
}

func TestHeadWorksWhereGetDoes(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for _, path := range []string{"/api/v1/health", "/api/v1/meta", "/api/v1/openapi.json", "/api/v1/users/me"} {
		h.Client(t).Want(200, "HEAD", path, nil)
	}
}

func TestDrainingRefusesWhatIsNewAndSaysSo(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	h.Server.Drain()
	h.Server.Drain() // twice is fine
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		c := h.Client(t)
		if op.OperationID == "getHealth" {
			var health unhealthy
			c.Want(503, "GET", op.Path, nil).JSON(&health)
			if health.Status != "draining" {
				t.Errorf("health says %q", health.Status)
			}
			return
		}
		r := c.SendForError("server_is_overloaded", op.Sample("x"))
		if r.Header.Get("Retry-After") == "" || !r.Close {
			t.Errorf("the headers are %v; Retry-After and Connection: close should be among them", r.Header)
		}
	})
	select {
	case <-h.Server.Draining():
	default:
		t.Error("Draining is not closed")
	}
}

func TestHealthAndCallsFollowTheDisk(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := start(t, apitest.Config{})
	ctx := context.Background()
	pages := func(n int) {
		t.Helper()
		if err := h.Store.Write(ctx, func(tx *store.Tx) error {
			_, err := tx.Get(ctx, fmt.Sprint("PRAGMA max_page_count = ", n), nil, new(int))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	c := h.Client(t)
	call := object{"model": "auto", "input": "hi"}
	c.Want(200, "POST", "/api/v1/responses", call)
	pages(1)
	if err := h.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: h.Account.ID, Description: strings.Repeat("x", 100_000)})
		return err
	}); stoa.CodeOf(err) != stoa.CodeStorageFull {
		t.Fatalf("a write on a full disk: %v", err)
	}
	for range 3 {
		if e := c.WantError(stoa.CodeStorageFull, "POST", "/api/v1/responses", call); e.Type == "" {
			t.Errorf("the error has no type: %+v", e)
		}
		var health unhealthy
		c.Want(503, "GET", "/api/v1/health", nil).JSON(&health)
		if health.Status != "unavailable" {
			t.Errorf("health says %q, want unavailable", health.Status)
		}
	}
	pages(1 << 30)
	for h.Store.Usable(ctx) != nil { // until the next probe is due
	}
	c.Want(200, "GET", "/api/v1/health", nil)
	c.Want(200, "POST", "/api/v1/responses", call)
}

func TestAStoreThatIsGoneIsOurFault(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // on PostgreSQL it is a node that has ended
	h := start(t, apitest.Config{Payments: fakestripe.New(t).Payments()})
	// The key is known from before, so that the request comes as far as the store.
	h.Client(t).Want(200, "GET", "/api/v1/users/me", nil)
	if err := h.Store.Close(); err != nil {
		t.Fatal(err)
	}
	var health unhealthy
	h.Client(t).Want(503, "GET", "/api/v1/health", nil).JSON(&health)
	if health.Status != "unavailable" {
		t.Errorf("health says %q, want unavailable", health.Status)
	}
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if op.Security != nil {
			return
		}
		client := h.Client(t)
		switch op.OperationID {
		case "listProviders", "testProvider", "listModels", "getModel", "countInputTokens", "countMessageTokens", "countContentTokens", "listPacks", // what they tell is in memory, but a key must be looked up
			"getDiagnosis": // which says that the store is gone: TestTheDoctorSeesAStoreThatIsGone
			client = h.ClientWith(t, "sk_0123456789abcdefghijklmnopqrstuvwxyzABCD")
		}
		id := "x"
		if op.OperationID == "getStatements" {
			id = string(stoa.MonthOf(time.Now()))
		}
		e := client.SendForError("server_error", op.Sample(id)).Error()
		if strings.Contains(e.Message, "database") {
			t.Errorf("the message tells of the inside: %s", e.Message)
		}
	})
}

func TestAPanicIsA500ThatIsLogged(t *testing.T) {
	t.Parallel()
	logs, logger := capture()
	h := start(t, apitest.Config{Logger: logger, Server: func(s *api.Server) {
		s.Web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/late" {
				io.WriteString(w, strings.Repeat("x", 10_000))
			}
			panic("a mistake of ours")
		})
	}})
	e := h.Client(t).WantError(stoa.CodeInternal, "GET", "/early", nil)
	if strings.Contains(e.Message, "mistake") {
		t.Errorf("the message tells of the inside: %s", e.Message)
	}
	if line := logs.text(); !strings.Contains(line, "a mistake of ours") || !strings.Contains(line, "stack=") || !strings.Contains(line, e.RequestID) {
		t.Errorf("the log should have the cause, the stack and the request id:\n%s", line)
	}
	if _, err := h.Client(t).Try(t.Context(), "GET", "/late", nil); err == nil {
		t.Error("a reply that broke off looks whole")
	}
}

func TestOneLogLineTellsWhatARequestWas(t *testing.T) {
	t.Parallel()
	logs, logger := capture()
	h := start(t, apitest.Config{Logger: logger})
	r := h.Client(t).Want(200, "POST", "/api/v1/responses", map[string]any{"model": "auto", "input": "say: a very private text"})
	h.HTTP.Close() // the line is written after the reply
	line := logs.text()
	for _, want := range []string{"method=POST", "path=/api/v1/responses", "status=200", "account=" + h.Account.ID, "key=key_", "model=auto", "served=", "inputTokens=", "creditsMicro=", "firstText=", r.Header.Get("x-request-id")} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is missing in\n%s", want, line)
		}
	}
	if strings.Contains(line, "private") || strings.Contains(line, h.Key) {
		t.Errorf("the line holds what it must not:\n%s", line)
	}
}

func TestABodyIsNotAwaitedWithoutAKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n") // and no body
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("answered %d, WWW-Authenticate %q", res.StatusCode, res.Header.Get("WWW-Authenticate"))
	}
}

func TestTwoKeysAreNoKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	req, err := http.NewRequestWithContext(context.Background(), "GET", h.URL+"/api/v1/users/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Authorization"] = []string{"Bearer " + h.Key, "Bearer " + h.Key}
	res, err := h.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("answered %d", res.StatusCode)
	}
}
