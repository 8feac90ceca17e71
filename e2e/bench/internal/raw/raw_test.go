package raw_test

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/e2e/bench/internal/null"
	"stoa/e2e/bench/internal/raw"
)

func TestRepliesOfTheNullVendorPass(t *testing.T) {
	server := httptest.NewServer(&null.Vendor{})
	defer server.Close()
	address := server.Listener.Addr().String()
	c, err := raw.Dial(address, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	plan := null.Plan{Deltas: 7, Bytes: 300}
	text := null.Text(plan.Bytes)
	for range 2 { // on one connection
		var body []byte
		request := raw.Request("POST", address, "/v1/responses", "k", []byte(`{"input":"`+null.Prompt(plan)+`"}`))
		status, err := c.Do(request, func(b []byte) error { body = append(body, b...); return nil })
		if err != nil || status != 200 {
			t.Fatal(status, err)
		}
		if err := raw.Whole(body, text); err != nil {
			t.Error(err)
		}
		deltas := 0
		s := raw.Stream{Text: text, OnDelta: func(int) { deltas++ }}
		request = raw.Request("POST", address, "/v1/responses", "k", []byte(`{"stream":true,"input":"`+null.Prompt(plan)+`"}`))
		if status, err = c.Do(request, s.Write); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		if err := s.End(); err != nil || deltas != plan.Deltas {
			t.Errorf("%v, %d deltas", err, deltas)
		}
	}
}

func TestWrongStreamsAreFound(t *testing.T) {
	const (
		a        = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"ab\"}\n\n"
		b        = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"cd\"}\n\n"
		complete = "data: {\"type\":\"response.completed\"}\n\n"
		failed   = "data: {\"type\":\"response.failed\"}\n\n"
	)
	for name, c := range map[string]struct {
		stream string
		ok     bool
	}{
		"right":               {a + b + complete, true},
		"with an end marker":  {a + b + complete + "data: [DONE]\n\n", true},
		"without the end":     {a + b, false},
		"without a delta":     {a + complete, false},
		"in another order":    {b + a + complete, false},
		"a delta twice":       {a + a + b + complete, false},
		"failed":              {a + b + failed, false},
		"more after the last": {a + b + complete + b, false},
	} {
		for _, size := range []int{1, 7, 1000} { // of the pieces that it comes in
			s := raw.Stream{Text: "abcd"}
			var err error
			for rest := c.stream; rest != "" && err == nil; {
				n := min(size, len(rest))
				err = s.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if err == nil {
				err = s.End()
			}
			if (err == nil) != c.ok {
				t.Errorf("%s in pieces of %d: %v", name, size, err)
			}
		}
	}
}

func TestWrongRepliesAreFound(t *testing.T) {
	const right = `{"status":"completed","output":[{"text":"abcd"}]}`
	if err := raw.Whole([]byte(right), "abcd"); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{strings.Replace(right, "abcd", "abc", 1), strings.Replace(right, "completed", "failed", 1)} {
		if raw.Whole([]byte(wrong), "abcd") == nil {
			t.Errorf("%s passes", wrong)
		}
	}
}

func TestResponsesThatAreCutAreErrors(t *testing.T) {
	for _, response := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nabcd",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := c.Read(make([]byte, 1000)); err != nil {
				t.Error(err)
			}
			if _, err := c.Write([]byte(response)); err != nil {
				t.Error(err)
			}
		}()
		c, err := raw.Dial(l.Addr().String(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(raw.Request("GET", "x", "/", "k", nil), nil); err == nil {
			t.Errorf("no error for %q", response)
		}
		c.Close()
		l.Close()
	}
}
