package api_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// A socket is a connection to the service that sends what HTTP clients do not.
type socket struct {
	t *testing.T
	*net.TCPConn
	in *bufio.Reader
}

func dial(t *testing.T, h *apitest.Service) *socket {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &socket{t: t, TCPConn: c.(*net.TCPConn), in: bufio.NewReader(c)}
}

// head is the beginning of a request with a key.
func head(h *apitest.Service, method, path, more string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + h.Key + "\r\n" + more + "\r\n"
}

func (s *socket) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		s.t.Fatalf("send: %v", err)
	}
}

// reply reads one reply; status 0: the connection was closed without one.
func (s *socket) reply() (res *http.Response, body string) {
	s.t.Helper()
	res, err := http.ReadResponse(s.in, nil)
	if err != nil {
		return &http.Response{}, ""
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Errorf("read a reply: %v", err)
	}
	return res, string(text)
}

// closed fails unless the service closes the connection, and sends nothing before.
func (s *socket) closed(what string) {
	s.t.Helper()
	if rest, err := io.ReadAll(s.in); len(rest) > 0 {
		s.t.Errorf("%s: the service sent more (%v):\n%s", what, err, rest)
	}
}

// eachBody calls back for every operation with a body, with a client that may call
// it and a path that leads somewhere.
func eachBody(t *testing.T, h *apitest.Service, do func(t *testing.T, op apitest.Operation, c *apitest.Client, path string)) {
	a := newAuthor(t, h, h.Client(t), nil)
	visit := newVisit(t, a, object{"attachments": object{"enabled": true}})
	id := strings.TrimPrefix(a.agent, "/api/v1/api-agents/")
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if op.RequestBody == nil {
			return
		}
		c, path := h.Client(t), op.Sample(id).Path
		if op.VisitorOnly() {
			c, path = h.ClientWith(t, visit.embed.Token).With("Origin", site), op.Sample(visit.embed.ChatSessionID).Path
		}
		do(t, op, c, path)
	})
}

func TestEveryBodyHasALimit(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	eachBody(t, h, func(t *testing.T, op apitest.Operation, c *apitest.Client, path string) {
		most, ok := op.Extensions["x-max-body"].(float64)
		if !ok || most < 1 || most > 16<<20 {
			t.Fatalf("x-max-body is %v", op.Extensions["x-max-body"])
		}
		for _, status := range []int{408, 413} {
			if op.Responses.Status(status) == nil {
				t.Errorf("%d is not documented", status)
			}
		}
		if op.TakesJSON() && most < 16<<20 {
			c.WantError(stoa.CodeTooLarge, op.Method, path, strings.Repeat(" ", int(most)+1))
		}
	})
}

func TestAStalledBodyIs408(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.BodyIdle = 20 * time.Millisecond }})
	eachBody(t, h, func(t *testing.T, op apitest.Operation, c *apitest.Client, path string) {
		if !op.TakesJSON() {
			c = c.With("Content-Type", "text/plain")
		}
		r := c.Stall(op.Method, path)
		if e := r.Error(); e.Code != string(stoa.CodeRequestTimeout) || !e.Retryable || !r.Close {
			t.Errorf("%d %+v, Connection: close %v", r.Status, e, r.Close)
		}
	})
}

func TestABodyThatEndsEarlyIs400(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	for _, length := range []string{"Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"} {
		for _, route := range []string{
			"POST /api/v1/responses", "POST /api/v1/keys", "POST " + a.agent + "/sessions", "POST /api/v1/accounts/" + h.Account.ID + "/grants",
			"PUT " + a.agent + "/drive/files", "PUT " + a.agent + "/drive/files/content?path=a",
		} {
			method, path, _ := strings.Cut(route, " ")
			s := dial(t, h)
			s.send(head(h, method, path, length) + "5\r\n{\"a\":")
			if err := s.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			res, body := s.reply()
			if res.StatusCode != 400 || !strings.Contains(body, `"invalid_json"`) || !strings.Contains(body, "ended early") || !res.Close {
				t.Errorf("%s with %q: %d %s", route, length, res.StatusCode, body)
			}
			s.closed(route)
		}
	}
	a.WantError(stoa.CodeFileNotFound, "GET", a.agent+"/drive/files/content?path=a", nil)
}

func TestAnAnnouncedBodyTakesNoMemory(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	const connections = 40
	for range connections {
		s := dial(t, h)
		s.send(head(h, "POST", "/api/v1/responses", "Content-Length: 16777216\r\nExpect: 100-continue\r\n"))
		if line, err := s.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") { // it is being read
			t.Fatalf("%q, %v", line, err)
		}
	}
	if used := h.Server.BodyBytes(); used > connections*8<<10 {
		t.Errorf("%d bytes are held for %d bodies of which nothing has come", used, connections)
	}
}

func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.Limits.BodiesInFlight = 64 << 10 }})
	large := object{"model": "auto", "input": "say: " + strings.Repeat("x", 100_000)}
	r := h.Client(t).Do("POST", "/api/v1/responses", large)
	if e := r.Error(); r.Status != 503 || e.Code != string(stoa.CodeOverloaded) || !e.Retryable || r.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %+v", r.Status, e)
	}
	h.Client(t).Want(200, "POST", "/api/v1/responses", hello)
	if used := h.Server.BodyBytes(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
}

func TestAPoliteClientSeesThe413(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for _, length := range []string{"Content-Length: 20971520\r\n", "Transfer-Encoding: chunked\r\n"} {
		s := dial(t, h)
		s.send(head(h, "POST", "/api/v1/responses", length))
		chunk := strings.Repeat(" ", 1<<20)
		for range 20 { // all of it is sent before anything is read
			if strings.HasPrefix(length, "T") {
				s.send("100000\r\n" + chunk + "\r\n")
			} else {
				s.send(chunk)
			}
		}
		if res, body := s.reply(); res.StatusCode != 413 || !strings.Contains(body, "request_too_large") || !res.Close {
			t.Errorf("%s: %d %s", length, res.StatusCode, body)
		}
	}
}

func TestUnreadBodiesHoldNothing(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.BodyIdle = 20 * time.Millisecond }})
	for _, test := range []struct {
		route  string
		status int
	}{
		{"GET /api/v1/health", 200},
		{"GET /api/v1/meta", 200},
		{"GET /nothing", 404},
		{"POST /api/v1/embed/exchange", 408},
		{"POST /api/v1/keys/x/rotate", 408},
		{"DELETE /api/v1/keys/x", 404},
	} {
		method, path, _ := strings.Cut(test.route, " ")
		s := dial(t, h)
		s.send(head(h, method, path, "Content-Length: 100\r\n")) // and no body
		res, _ := s.reply()
		if res.StatusCode != test.status || !res.Close {
			t.Errorf("%s: %d, closing %v", test.route, res.StatusCode, res.Close)
		}
		s.closed(test.route)
	}
}

func TestASmallUnreadBodyKeepsTheConnection(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	s := dial(t, h)
	for range 3 {
		s.send(head(h, "GET", "/api/v1/health", "Content-Length: 10\r\n") + "0123456789")
		if res, body := s.reply(); res.StatusCode != 200 || res.Close {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
}

// Forms in which one server may see one request and another server two.
func TestSmugglingFormsAreClosed(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	second := head(h, "GET", "/api/v1/users/me", "")
	for name, form := range map[string]string{
		"both lengths":           head(h, "POST", "/api/v1/spaces", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
		"both, the other order":  head(h, "POST", "/api/v1/spaces", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n") + "0\r\n\r\n",
		"two lengths":            head(h, "POST", "/api/v1/spaces", "Content-Length: 0\r\nContent-Length: 5\r\n"),
		"a list of lengths":      head(h, "POST", "/api/v1/spaces", "Content-Length: 0, 5\r\n"),
		"a signed length":        head(h, "POST", "/api/v1/spaces", "Content-Length: +0\r\n"),
		"a hexadecimal length":   head(h, "POST", "/api/v1/spaces", "Content-Length: 0x0\r\n"),
		"an unknown coding":      head(h, "POST", "/api/v1/spaces", "Transfer-Encoding: xchunked\r\n"),
		"two codings":            head(h, "POST", "/api/v1/spaces", "Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n",
		"chunked twice":          head(h, "POST", "/api/v1/spaces", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
		"a space before a colon": head(h, "POST", "/api/v1/spaces", "Transfer-Encoding : chunked\r\n") + "0\r\n\r\n",
		"a folded header":        head(h, "POST", "/api/v1/spaces", "Transfer-Encoding:\r\n chunked\r\n") + "0\r\n\r\n",
		"a NUL in a header":      head(h, "POST", "/api/v1/spaces", "X: a\x00b\r\n"),
		"a bare return":          head(h, "POST", "/api/v1/spaces", "X: a\rb\r\n"),
		"a chunk with a sign":    head(h, "POST", "/api/v1/spaces", "Transfer-Encoding: chunked\r\n") + "+0\r\n\r\n",
		"a chunk that is long":   head(h, "POST", "/api/v1/spaces", "Transfer-Encoding: chunked\r\n") + "fffffffffffffffff\r\n\r\n",
		"no host":                "POST /api/v1/spaces HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
		"two hosts":              "POST /api/v1/spaces HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
	} {
		s := dial(t, h)
		s.send(form + second)
		if res, body := s.reply(); res.StatusCode != 400 && res.StatusCode != 501 {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
		s.closed(name)
	}
}

func TestAHalfClosedClientIsToldTheTruth(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for range 20 {
		for _, test := range []struct {
			path, body string
			status     []int // 0: no reply
		}{
			{"/api/v1/spaces", `{"name":"x"}`, []int{201}},
			{"/api/v1/responses", `{"model":"auto","input":"say: hello"}`, []int{200, 0}},
		} {
			s := dial(t, h)
			s.send(head(h, "POST", test.path, fmt.Sprintf("Content-Length: %d\r\n", len(test.body))) + test.body)
			if err := s.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			res, body := s.reply()
			if res.StatusCode != test.status[0] && res.StatusCode != test.status[len(test.status)-1] || res.StatusCode != 0 && !strings.Contains(body, `"id"`) {
				t.Errorf("%s: %d %q", test.path, res.StatusCode, body)
			}
		}
		s := dial(t, h)
		s.send(head(h, "GET", "/api/v1/health", ""))
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if res, body := s.reply(); res.StatusCode != 200 {
			t.Errorf("health is %d %s", res.StatusCode, body)
		}
	}
}

func TestLongNamesAreNotRepeated(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := start(t, apitest.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a := newAuthor(t, h, h.Client(t), nil)
	long := strings.Repeat("a", 500_000)
	for _, test := range []struct{ method, path, body string }{
		{"POST", "/api/v1/spaces", `{"` + long + `":1}`},
		{"POST", "/api/v1/spaces", `{"name":"x","metadata":{"` + long + `":1}}`},
		{"POST", "/api/v1/spaces", `{"name":"x","metadata":{"` + long + `":"\u0000"}}`},
		{"POST", "/api/v1/responses", `{"model":"` + long + `","input":"x"}`},
		{"PUT", a.agent + "/drive/files", `{"` + long + `":1}`},
		{"POST", a.agent + "/drive/batch", `{"operations":[{"op":"` + long + `"}]}`},
	} {
		r := h.Client(t).Do(test.method, test.path, test.body)
		if r.Status != 400 || len(r.Body) > 2<<10 {
			t.Errorf("%s %.40s: %d, %d bytes", test.path, test.body, r.Status, len(r.Body))
		}
	}
	h.Client(t).WantError(stoa.CodeNotFound, "GET", "/api/v1/keys/"+long[:1000], nil)
	h.HTTP.Close() // the log is complete
	for line := range strings.SplitSeq(log.String(), "\n") {
		if len(line) > 2<<10 {
			t.Errorf("a line of %d bytes was logged: %.200s…", len(line), line)
		}
	}
}

func TestA401SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	expired, _ := h.NewKeyLike(stoa.Key{AccountID: h.Account.ID, Name: "x", Scopes: []string{stoa.ScopeAll}, ExpiresAt: time.Now().Add(50 * time.Millisecond)})
	for h.ClientWith(t, expired).Do("GET", "/api/v1/users/me", nil).Status == 200 { // until it has expired
	}
	revoked, key := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.Client(t).Want(204, "DELETE", "/api/v1/keys/"+key.ID, nil)
	for secret, want := range map[string]string{
		"": "missing", "nonsense": "an API key of this service", "sk_" + strings.Repeat("0", 40): "no such API key", expired: "expired", revoked: "revoked",
	} {
		e := h.ClientWith(t, secret).WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
		if !strings.Contains(e.Message, want) {
			t.Errorf("%q: %s; want %q", secret, e.Message, want)
		}
	}
}

func TestWrongKeysAreSlowed(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	guess := h.ClientWith(t, "sk_"+strings.Repeat("0", 40))
	me := func(c *apitest.Client, address string) *apitest.Reply {
		return c.With("X-Forwarded-For", address).Do("GET", "/api/v1/users/me", nil)
	}
	for i := range 60 {
		if r := me(guess, "203.0.113.9, 198.51.100.1"); r.Status != 401 {
			t.Fatalf("%d: %d %s", i, r.Status, r.Body)
		}
	}
	r := me(guess, "198.51.100.1")
	if e := r.Error(); r.Status != 429 || e.Code != string(stoa.CodeRateLimit) || r.Header.Get("Retry-After") == "" {
		t.Errorf("the 61st is %d %+v", r.Status, e)
	}
	if r := me(h.ClientWith(t, "est_"+strings.Repeat("0", 40)), "198.51.100.1"); r.Status != 429 {
		t.Errorf("a wrong key of another kind is %d", r.Status)
	}
	if r := me(h.Client(t), "198.51.100.1"); r.Status != 200 {
		t.Errorf("a good key is %d from that address", r.Status)
	}
	if r := me(h.ClientWith(t, ""), "198.51.100.1"); r.Status != 401 {
		t.Errorf("no key is %d from that address", r.Status)
	}
	if r := me(guess, "198.51.100.2"); r.Status != 401 {
		t.Errorf("another address is %d", r.Status)
	}
}

func TestDrainWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	s := dial(t, h)
	body := `{"model":"auto","input":"wait: 300ms","stream":true}`
	s.send(head(h, "POST", "/api/v1/responses", fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n", len(body))))
	if line, err := s.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") { // it has been taken
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = s.in.ReadString('\n')
	h.Server.Drain()
	select {
	case <-h.Server.Idle():
		t.Error("it is idle while a call runs")
	default:
	}
	h.Client(t).Do("GET", "/api/v1/health", nil) // does not count
	s.send(body)
	if res, text := s.reply(); res.StatusCode != 200 || !strings.Contains(text, "response.completed") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	<-h.Server.Idle()
	idle := start(t, apitest.Config{})
	idle.Server.Drain()
	<-idle.Server.Idle()
}

func TestConnectionRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ofAddress bool
		status    int
		code      stoa.Code
	}{{true, 429, stoa.CodeRateLimit}, {false, 503, stoa.CodeOverloaded}} {
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(rest.RefuseConnection(test.ofAddress))), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != test.status || !res.Close || res.Header.Get("Retry-After") != "1" ||
			!strings.Contains(string(body), string(test.code)) || !strings.Contains(string(body), cmp.Or(res.Header.Get("x-request-id"), "?")) {
			t.Errorf("%d %v %s (%v)", res.StatusCode, res.Header, body, err)
		}
	}
}
