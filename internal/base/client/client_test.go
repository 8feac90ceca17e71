package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

func newClient(t *testing.T) (*client.Client, *apitest.Service) {
	h := apitest.Start(t, apitest.Config{})
	c, err := client.New(h.URL+"/api/v1/", h.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c, h
}

// against makes a client of a server that answers like that.
func against(t *testing.T, handle http.HandlerFunc) *client.Client {
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "sk_secret")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func call(input string) client.Call {
	return client.Call{CreateResponse: contract.CreateResponse{Model: "auto", Input: input}}
}

func TestAWholeReplyCarriesItsTextAndCharge(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	r, err := c.Respond(t.Context(), call("say: hello there"))
	if err != nil {
		t.Fatal(err)
	}
	if r.OutputText() != "hello there" || r.ChargeMicro <= 0 || r.RequestID == "" {
		t.Errorf("got %q for %d micro-credits in %s", r.OutputText(), r.ChargeMicro, r.RequestID)
	}
}

func TestAStreamCarriesTheSameText(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	var text, last string
	for ev, err := range c.Stream(t.Context(), call("say: hello there")) {
		if err != nil {
			t.Fatal(err)
		}
		text += ev.Delta
		last = ev.Type
	}
	if text != "hello there" || last != contract.EventCompleted {
		t.Errorf("got %q, ending with %s", text, last)
	}
}

func TestAFailureInsideAStreamIsAnError(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	var err error
	for _, e := range c.Stream(t.Context(), call("cut: 3\ntokens: 50")) {
		err = e
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code != "server_error" || e.RequestID == "" {
		t.Errorf("got %v, want server_error with a request id", err)
	}
}

func TestARefusalIsATypedError(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	_, err := c.Respond(t.Context(), client.Call{CreateResponse: contract.CreateResponse{Model: "nothing", Input: "x"}})
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != 400 || e.Code != "model_not_found" || e.Param != "model" || e.RequestID == "" {
		t.Errorf("got %#v", err)
	}
}

func TestMeIsTheAccountOfTheKey(t *testing.T) {
	t.Parallel()
	c, h := newClient(t)
	me, err := c.Me(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if me.ID != h.Account.ID {
		t.Errorf("got %s, want %s", me.ID, h.Account.ID)
	}
}

func TestAnotherServiceIsNotTakenForStoa(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"{}", "<html>Welcome</html>", ""} {
		c := against(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
		if _, err := c.Me(t.Context()); err == nil || !strings.Contains(err.Error(), "check the base URL") {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

func TestJSONCreatesAndReportsErrors(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	var made contract.KeyWithSecret
	_, err := c.JSON(t.Context(), "POST", "/keys", nil, contract.CreateKey{Name: "second"}, &made)
	if err != nil || made.Secret == "" {
		t.Errorf("got %+v, %v", made, err)
	}
	_, err = c.JSON(t.Context(), "GET", "/keys/key_none", nil, nil, nil)
	if client.CodeOf(err) != "not_found" {
		t.Errorf("got %v, want not_found", err)
	}
}

func TestAListIsRangedOverItsPages(t *testing.T) {
	t.Parallel()
	c, h := newClient(t)
	for range 120 {
		h.NewKey(h.Account.ID, "responses")
	}
	for limit, want := range map[int]int{0: 121, 3: 3, 105: 105} {
		n := 0
		for _, err := range c.All(t.Context(), "/keys", url.Values{"order": {"asc"}}, limit) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("with a limit of %d there are %d rows, want %d", limit, n, want)
		}
	}
}

func TestAnEmptyPageEndsAList(t *testing.T) {
	t.Parallel()
	c := against(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[],"hasMore":false,"nextCursor":""}`)
	})
	for row, err := range c.All(t.Context(), "/receipts", nil, 0) {
		t.Errorf("there is a row %s, %v", row, err)
	}
}

func TestATruncatedStreamIsErrCutOff(t *testing.T) {
	t.Parallel()
	c := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"delta\":\"hel\"}\n\n")
	})
	var last error
	for _, err := range c.Stream(t.Context(), call("x")) {
		last = err
	}
	if !errors.Is(last, client.ErrCutOff) {
		t.Errorf("got %v", last)
	}
}

func TestAProxyPageIsNotAnEnvelope(t *testing.T) {
	t.Parallel()
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/responses") {
			http.Redirect(w, r, "https://example.com/", http.StatusMovedPermanently)
			return
		}
		http.Error(w, "<html>Not Found</html>", http.StatusNotFound)
	})
	_, err := c.JSON(t.Context(), "GET", "/meta", nil, nil, nil)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 404 || e.Code != "" {
		t.Errorf("got %v", err)
	}
	_, err = c.Respond(t.Context(), call("x"))
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 301 {
		t.Errorf("the redirect was followed: %v", err)
	}
}

// An address with the wrong scheme is answered with the right one.
func TestTheOtherSchemeIsNamed(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	for base, want := range map[string]string{
		"https" + strings.TrimPrefix(plain.URL, "http"):  "the service answers plain HTTP there; write " + plain.URL,
		"http" + strings.TrimPrefix(secure.URL, "https"): "the service answers HTTPS there; write " + secure.URL,
	} {
		c, err := client.New(base, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.JSON(t.Context(), "GET", "/meta", nil, nil, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", base, err, want)
		}
	}
}

// A creating POST is sent again with the same key when its answer got lost; a
// model call, which has no such key, is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	lose := func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	busy := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"error":{"message":"Busy.","type":"server_error","param":null,"code":"server_is_overloaded","requestId":"req_1","retryable":true}}`)
	}
	poor := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"No credits.","type":"insufficient_quota","param":null,"code":"insufficient_quota","requestId":"req_1","retryable":false}}`)
	}
	for name, tc := range map[string]struct {
		request client.Request
		first   func(http.ResponseWriter)
		tries   int32
	}{
		"a read whose answer got lost":                {client.Request{Path: "/keys"}, lose, 2},
		"a creation whose answer got lost":            {client.Request{Method: "POST", Path: "/keys", Body: []byte("{}")}, lose, 2},
		"a model call whose answer got lost":          {client.Request{Method: "POST", Path: "/responses", Body: []byte("{}"), Once: true}, lose, 1},
		"a conditional write whose answer got lost":   {client.Request{Method: "PUT", Path: "/x", Header: http.Header{"If-Match": {`"a"`}}}, lose, 1},
		"a model call that was refused for a moment":  {client.Request{Method: "POST", Path: "/responses", Body: []byte("{}"), Once: true}, busy, 2},
		"a model call that the credits cannot cover":  {client.Request{Method: "POST", Path: "/responses", Body: []byte("{}"), Once: true}, poor, 1},
		"an upload whose body has to be opened again": {client.Request{Method: "PUT", Path: "/x", Size: 3, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("abc")), nil }}, busy, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int32
			var seen []string
			c := against(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				seen = append(seen, fmt.Sprintf("%s %s %s", r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), body))
				if tries.Add(1) == 1 {
					tc.first(w)
					return
				}
				io.WriteString(w, `{}`)
			})
			_, _, err := c.Bytes(t.Context(), tc.request)
			if got := tries.Load(); got != tc.tries {
				t.Errorf("sent %d times, want %d (%v)", got, tc.tries, err)
			}
			if (err == nil) != (tc.tries == 2) {
				t.Errorf("got %v", err)
			}
			if len(seen) == 2 && seen[0] != seen[1] {
				t.Errorf("the second try differs: %s", cmp.Diff(seen[0], seen[1]))
			}
		})
	}
}

func TestACancelledContextIsTheError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n")
		http.NewResponseController(w).Flush()
		<-ctx.Done()
	})
	var last error
	for _, err := range c.Stream(ctx, call("x")) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
}

func TestBaseURLForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:8080":          "http://127.0.0.1:8080",
		"https://stoa.example/api/v1/":   "https://stoa.example",
		" https://x.example/stoa/api/v1": "https://x.example/stoa",
		"localhost:8080":                 "",
		"ftp://x":                        "",
		"":                               "",
		"https://x.example?a=b":          "",
		"https://user:secret@x.example":  "",
	} {
		c, err := client.New(text, "")
		if err != nil {
			if want != "" {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if c.BaseURL() != want {
			t.Errorf("%q is %q, want %q", text, c.BaseURL(), want)
		}
	}
}

// A filtered list may have an empty page with more behind it.
func TestAnEmptyPageIsNotTheEnd(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"":  `{"data":[{"n":1}],"hasMore":true,"nextCursor":"a"}`,
		"a": `{"data":[],"hasMore":true,"nextCursor":"b"}`,
		"b": `{"data":[{"n":2}],"hasMore":true,"nextCursor":"c"}`,
		"c": `{"data":[],"hasMore":true,"nextCursor":"c"}`, // no server of ours; it must not go on for ever
	}
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, pages[r.URL.Query().Get("cursor")])
	})
	var got []string
	for row, err := range c.All(t.Context(), "/receipts", nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(row))
	}
	if strings.Join(got, " ") != `{"n":1} {"n":2}` {
		t.Errorf("the rows are %s", got)
	}
}
