package outbound_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/outbound/outboundtest"
)

// TestMain runs all tests with a proxy in the environment that must not be used. It is read
// once per process.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		os.Setenv(name, "http://127.0.0.1:1")
	}
	m.Run()
}

// exchange sends a request and returns the reply, or the reason for its absence.
func exchange(t *testing.T, s *outboundtest.Site, l outbound.Limits, method, url, body string) (*outbound.Reply, *outbound.Error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if l.Body == 0 {
		l.Body = 1000
	}
	reply, err := s.Network().Client(l).Exchange(req)
	if err == nil {
		return reply, nil
	}
	failed, ok := errors.AsType[*outbound.Error](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if text := failed.Error(); strings.ContainsAny(text, "0123456789/") || text == "" {
		t.Errorf("the error tells of the network: %q", text)
	}
	return nil, failed
}

func destinations(t *testing.T, list ...string) []outbound.Destination {
	t.Helper()
	d, err := outbound.ParseDestinations(list)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var loopback = netip.MustParseAddr("127.0.0.1")

// TestInnerAddressesInEverySpelling has a resolver that also resolves the odd spellings.
func TestInnerAddressesInEverySpelling(t *testing.T) {
	t.Parallel()
	spellings := []string{
		"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0", "0.0.0.0", "localhost", "localhost.",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fec0::1]", "[fe80::1%25eth0]",
		"10.0.0.1", "169.254.169.254", "metadata.google.internal", "public.example.com",
	}
	for _, plain := range []bool{false, true} {
		s := outboundtest.Serve(t, http.NotFoundHandler())
		for _, host := range spellings {
			s.Answers[host] = [][]netip.Addr{{loopback}}
			address := "https://" + host + "/"
			if plain {
				address = "http://" + host + "/"
			}
			_, err := exchange(t, s, outbound.Limits{}, http.MethodGet, address, "")
			if err == nil || err.Reason != outbound.NotAllowed || err.Sent {
				t.Errorf("%s: %+v", address, err)
			}
		}
		if d := s.Dialed(); len(d) != 0 {
			t.Errorf("dialed %v", d)
		}
	}
}

func TestANameThatResolvesAnew(t *testing.T) {
	t.Parallel()
	s := outboundtest.Serve(t, http.NotFoundHandler())
	s.Answers["a.example.com"] = [][]netip.Addr{{outboundtest.Public}, {loopback}}
	s.Answers["b.example.com"] = [][]netip.Addr{{outboundtest.Public, netip.MustParseAddr("::ffff:10.0.0.1")}}
	if reply, err := exchange(t, s, outbound.Limits{}, http.MethodGet, "https://a.example.com/", ""); err != nil || reply.Status != http.StatusNotFound {
		t.Errorf("the first: %v, %v", reply, err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := exchange(t, s, outbound.Limits{}, http.MethodGet, "https://"+name+".example.com/", ""); err == nil || err.Reason != outbound.NotAllowed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := exchange(t, s, outbound.Limits{}, http.MethodGet, "http://c.example.com/", ""); err == nil || err.Reason != outbound.NotAllowed {
		t.Errorf("without TLS: %v", err)
	}
	if d := s.Dialed(); len(d) != 1 || d[0] != outboundtest.Public.String()+":443" {
		t.Errorf("dialed %v", d)
	}
}

func TestWhatAnOperatorAllowsAndDenies(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "inner") }))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	elsewhere := "1" + port[1:]
	if elsewhere == port {
		elsewhere = "2" + port[1:]
	}
	resolve := func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{loopback}, nil }
	for _, c := range []struct {
		name, url string
		s         outbound.Settings
		public    bool
		want      outbound.Reason
	}{
		{"nothing is allowed", server.URL, outbound.Settings{}, false, outbound.NotAllowed},
		{"a block", server.URL, outbound.Settings{Allow: destinations(t, "127.0.0.0/8")}, false, ""},
		{"a name with its port", "http://mcp.internal:" + port, outbound.Settings{Allow: destinations(t, "mcp.internal:"+port)}, false, ""},
		{"a name with another port", "http://mcp.internal:" + port, outbound.Settings{Allow: destinations(t, "mcp.internal:"+elsewhere)}, false, outbound.NotAllowed},
		{"a name in a block", "http://mcp.internal:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.1")}, false, ""},
		{"an address that is denied", "http://mcp.internal:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.0/8"), Deny: destinations(t, "127.0.0.1")}, false, outbound.NotAllowed},
		{"a name that is denied", "http://mcp.internal:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.0/8"), Deny: destinations(t, "mcp.internal")}, false, outbound.NotAllowed},
		{"public addresses only", "http://mcp.internal:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.0/8")}, true, outbound.NotAllowed},
		{"the listener", server.URL, outbound.Settings{Allow: destinations(t, "127.0.0.0/8"), Own: []string{"127.0.0.1:" + port}}, false, outbound.NotAllowed},
		{"the listener at every address", "http://mcp.internal:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.0/8"), Own: []string{"[::]:" + port}}, false, outbound.NotAllowed},
		{"another listener", server.URL, outbound.Settings{Allow: destinations(t, "127.0.0.0/8"), Own: []string{":" + elsewhere, "127.0.0.1:" + elsewhere}}, false, ""},
		{"the origin", "http://stoa.example.com:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.0/8"), Own: []string{"Stoa.example.com:" + port}}, false, outbound.NotAllowed},
		{"a password in the URL", "http://a:b@127.0.0.1:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.0/8")}, false, outbound.NotAllowed},
		{"no HTTP", "ftp://127.0.0.1:" + port, outbound.Settings{Allow: destinations(t, "127.0.0.0/8")}, false, outbound.NotAllowed},
	} {
		c.s.Resolve = resolve
		reply, err := exchange(t, &outboundtest.Site{Settings: c.s}, outbound.Limits{Public: c.public}, http.MethodGet, c.url, "")
		switch {
		case c.want == "" && (err != nil || string(reply.Body) != "inner"):
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || err.Reason != c.want || err.Sent):
			t.Errorf("%s: %+v", c.name, err)
		}
	}
}

// TestWhatIsKnownBeforeARequest has a resolver that resolves no name: an early refusal is
// also a refusal of every request.
func TestWhatIsKnownBeforeARequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address     string
		allow, deny []string
		refused     bool
	}{
		{"https://hooks.example.com/x", nil, nil, false},
		{"http://hooks.example.com/x", nil, nil, true},
		{"http://hooks.example.com:8080", []string{"other.example.com", "hooks.example.com:80"}, nil, true},
		{"http://hooks.example.com:8080", []string{"Hooks.example.com.:8080"}, nil, false},
		{"http://hooks.example.com", []string{"hooks.example.com"}, nil, false},
		{"http://hooks.example.com", []string{"hooks.example.com"}, []string{"hooks.example.com"}, true},
		{"https://hooks.example.com", nil, []string{"hooks.example.com:443"}, true},
		{"http://hooks.example.com", []string{"10.0.0.0/8"}, nil, false}, // it may have such an address
		{"http://hooks.example.com:8080", []string{"10.0.0.7:80"}, nil, true},
		{"http://10.0.0.7:8080", []string{"10.0.0.7:8080"}, nil, false},
		{"http://10.0.0.7", []string{"10.0.0.7:8080"}, nil, true},
		{"http://192.0.9.1/", nil, nil, true},
		{"https://10.0.0.7/", nil, nil, true},
		{"https://[::1]/", nil, nil, true},
		{"ftp://hooks.example.com/", []string{"hooks.example.com"}, nil, true},
	} {
		n := outbound.New(outbound.Settings{
			Allow: destinations(t, c.allow...), Deny: destinations(t, c.deny...),
			Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such name") },
			Dial:    func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") },
		})
		u, err := url.Parse(c.address)
		if err != nil {
			t.Fatal(err)
		}
		failed, _ := errors.AsType[*outbound.Error](n.Check(t.Context(), u))
		if c.refused != (failed != nil && failed.Reason == outbound.NotAllowed) {
			t.Errorf("%s with %v, without %v: %v", c.address, c.allow, c.deny, failed)
		}
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.RequestURI)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer proxy.Close()
	s := outboundtest.Serve(t, http.NotFoundHandler())
	if reply, err := exchange(t, s, outbound.Limits{}, http.MethodGet, "https://a.example.com/", ""); err != nil || reply.Status != http.StatusNotFound {
		t.Errorf("with a proxy in the environment: %v, %v", reply, err)
	}

	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	set := &outboundtest.Site{Settings: outbound.Settings{Proxy: u, Allow: destinations(t, "mcp.internal:8000"), Own: []string{"stoa.example.com:443"}}}
	for address, want := range map[string]string{
		"https://a.example.com/x":      "CONNECT a.example.com:443",
		"http://mcp.internal:8000/x":   "GET http://mcp.internal:8000/x",
		"http://a.example.com/":        "",
		"https://metadata/":            "",
		"https://a.internal/":          "",
		"https://0x7f.1/":              "",
		"https://10.0.0.1/":            "",
		"https://[::ffff:127.0.0.1]/":  "",
		"https://stoa.example.com/api": "",
	} {
		asked = atomic.Value{}
		_, err := exchange(t, set, outbound.Limits{}, http.MethodGet, address, "")
		if want == "" && (err == nil || err.Reason != outbound.NotAllowed || asked.Load() != nil) || want != "" && asked.Load() != want {
			t.Errorf("%s: %v, the proxy was asked for %v", address, err, asked.Load())
		}
	}
}

func TestRepliesAreBounded(t *testing.T) {
	t.Parallel()
	compressed := func(w io.Writer) {
		z := gzip.NewWriter(w)
		_, _ = z.Write(make([]byte, 1<<20))
		_ = z.Close()
	}
	large := strings.Repeat("x", 20_000)
	limits := outbound.Limits{Connect: 5 * time.Second, Total: 20 * time.Second, Idle: 3 * time.Second, Body: 1000, ErrorBody: 100}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    outbound.Reason
		status  int
		size    int
		longest time.Duration
	}{
		"as large as it may be": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large[:1000]) }, "", 200, 1000, 0},
		"too large":             {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large[:1001]) }, outbound.TooLarge, 0, 0, 0},
		"too large, unsaid": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, large)
		}, outbound.TooLarge, 0, 0, 0},
		"an error is cut": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, large, http.StatusBadGateway) }, "", 502, 100, 0},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://other.example.com/", http.StatusTemporaryRedirect)
		}, "", 307, 0, 0},
		"gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			compressed(w)
		}, outbound.Encoded, 0, 0, 0},
		"gzip that is not named": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "identity" {
				http.Error(w, "encoding", http.StatusTeapot)
				return
			}
			compressed(w)
		}, outbound.TooLarge, 0, 0, 0},
		"an error with gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(503)
			compressed(w)
		}, "", 503, 0, 0},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", outbound.MaxHeader))
		}, outbound.Broken, 0, 0, 0},
		"comments one by one": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ":\n")
				w.(http.Flusher).Flush()
				pause(r.Context(), time.Second)
			}
		}, outbound.Timeout, 0, 0, 20 * time.Second},
		"a pause in the body": {func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			pause(r.Context(), time.Hour)
		}, outbound.Timeout, 0, 0, 3 * time.Second},
		"no reply": {func(_ http.ResponseWriter, r *http.Request) { pause(r.Context(), time.Hour) }, outbound.Timeout, 0, 0, 20 * time.Second},
		"a cut body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "900")
			_, _ = io.WriteString(w, large[:500])
			panic(http.ErrAbortHandler)
		}, outbound.Broken, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := outboundtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					c.handler(w, r)
				}))
				began := time.Now()
				reply, err := exchange(t, s, limits, http.MethodPost, "https://a.example.com/", "body")
				if took := time.Since(began); took != c.longest {
					t.Errorf("it took %v, want %v", took, c.longest)
				}
				if c.want != "" {
					if err == nil || err.Reason != c.want || !err.Sent {
						t.Fatalf("%+v", err)
					}
					return
				}
				if err != nil || reply.Status != c.status || c.status != 307 && len(reply.Body) != c.size {
					t.Fatalf("%+v, %v", reply, err)
				}
				if d := s.Dialed(); len(d) != 1 {
					t.Errorf("dialed %v", d)
				}
			})
		})
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// TestWhetherARequestWasSent has servers that do not speak HTTP.
func TestWhetherARequestWasSent(t *testing.T) {
	t.Parallel()
	plain := destinations(t, "a.example.com")
	read := func(c net.Conn) { _, _ = c.Read(make([]byte, 10_000)) }
	for name, c := range map[string]struct {
		scheme string
		serve  func(net.Conn)
		dial   error
		want   outbound.Reason
		sent   bool
	}{
		"refused":             {"http", nil, errors.New("connection refused"), outbound.Unreachable, false},
		"no such name":        {"http", nil, &net.DNSError{Err: "no such host"}, outbound.Unreachable, false},
		"no TLS":              {"https", func(c net.Conn) { read(c); _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, nil, outbound.TLS, false},
		"closed during TLS":   {"https", func(c net.Conn) { read(c) }, nil, outbound.Unreachable, false},
		"closed after a read": {"http", read, nil, outbound.Broken, true},
		"no HTTP":             {"http", func(c net.Conn) { read(c); _, _ = io.WriteString(c, "SSH-2.0\r\n\r\n") }, nil, outbound.Broken, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := outboundtest.Serve(t, nil)
				s.Settings.Allow = plain
				if c.dial != nil {
					s.Settings.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, c.dial }
				} else {
					go func() {
						conn := s.Accept()
						c.serve(conn)
						conn.Close()
					}()
				}
				_, err := exchange(t, s, outbound.Limits{}, http.MethodPost, c.scheme+"://a.example.com/", "body")
				if err == nil || err.Reason != c.want || err.Sent != c.sent {
					t.Fatalf("%+v", err)
				}
				if n := len(s.Dialed()); c.dial == nil && n != 1 {
					t.Errorf("it was tried %d times", n)
				}
			})
		})
	}
}

// TestACertificateOfAnother has a server whose certificate is for example.com.
func TestACertificateOfAnother(t *testing.T) {
	t.Parallel()
	s := outboundtest.Serve(t, http.NotFoundHandler())
	s.Settings.TLS.ServerName = ""
	if _, err := exchange(t, s, outbound.Limits{}, http.MethodGet, "https://elsewhere.com/", ""); err == nil || err.Reason != outbound.TLS || err.Sent {
		t.Errorf("%+v", err)
	}
}

// TestARequestIsSentOnce has a server that closes connections right after a reply, and
// clients whose requests could be repeated.
func TestARequestIsSentOnce(t *testing.T) {
	t.Parallel()
	var seen, conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := seen.Add(1)
		data, _ := io.ReadAll(r.Body)
		if n%2 == 0 || !bytes.Equal(data, []byte("body")) {
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := outbound.New(outbound.Settings{Allow: destinations(t, "127.0.0.1")}).Client(outbound.Limits{Body: 1000})
	for n := range 6 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "key")
		_, err = client.Exchange(req)
		failed, ok := errors.AsType[*outbound.Error](err)
		if answered := n%2 == 0; answered != (err == nil) || !answered && (!ok || !failed.Sent || failed.Reason != outbound.Broken) {
			t.Errorf("request %d: %v", n, err)
		}
	}
	if seen.Load() != 6 || conns.Load() != 6 {
		t.Errorf("6 requests, %d seen on %d connections", seen.Load(), conns.Load())
	}
}

func TestACallersContextEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := outboundtest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		client := s.Network().Client(outbound.Limits{Body: 1})
		for want, begin := range map[outbound.Reason]func() (context.Context, context.CancelFunc){
			outbound.Timeout: func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), time.Second)
			},
			outbound.Canceled: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := begin()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://a.example.com/", nil)
			_, err := client.Exchange(req)
			if failed, ok := errors.AsType[*outbound.Error](err); !ok || failed.Reason != want || !failed.Sent {
				t.Errorf("%v: %v", want, err)
			}
			cancel()
		}
	})
}
