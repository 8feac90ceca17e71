package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTransport returns a transport that counts its connections.
func newTransport(t testing.TB) (tr *Transport, dials *atomic.Int32) {
	dials = new(atomic.Int32)
	base := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 8 << 10,
	}
	base.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	tr = New(base)
	t.Cleanup(tr.CloseIdleConnections)
	return tr, dials
}

func post(ctx context.Context, url, body string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	return req
}

// ask makes a request and reads its reply.
func ask(t testing.TB, tr http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Got", r.Header.Get("X-Sent"))
	fmt.Fprintf(w, "%s %s %s %d %s", r.Method, r.Host, r.RequestURI, r.ContentLength, body)
}

func TestRequestsAreMade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	tr, dials := newTransport(t)
	for i := range 20 {
		body := strings.Repeat("x", 1+i*i*100)
		req := post(t.Context(), server.URL+"/a%2Fb?c=d", body)
		req.Header.Set("X-Sent", fmt.Sprint(i))
		res, text := ask(t, tr, req)
		if want := fmt.Sprintf("POST %s /a%%2Fb?c=d %d %s", req.URL.Host, len(body), body); text != want || res.Header.Get("X-Got") != fmt.Sprint(i) {
			t.Errorf("%d: %.80q, header %v", i, text, res.Header)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("20 requests took %d connections", n)
	}
}

// TestWhatIsLeftToNetHTTP makes requests that this package does not make.
func TestWhatIsLeftToNetHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer secure.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "by proxy") }))
	defer proxy.Close()

	tr, _ := newTransport(t)
	tr.base.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	large := strings.Repeat("x", MaxBody+1)
	if _, text := ask(t, tr, post(t.Context(), server.URL, large)); !strings.HasSuffix(text, large) {
		t.Errorf("a large body: %.80q", text)
	}
	if _, text := ask(t, tr, post(t.Context(), secure.URL, "over TLS")); !strings.HasSuffix(text, "over TLS") {
		t.Errorf("%q", text)
	}
	get, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if _, text := ask(t, tr, get); !strings.HasPrefix(text, "GET ") {
		t.Errorf("%q", text)
	}
	chunked := post(t.Context(), server.URL, "of unknown length")
	chunked.ContentLength = -1
	if _, text := ask(t, tr, chunked); !strings.HasSuffix(text, "-1 of unknown length") {
		t.Errorf("%q", text)
	}
	to, _ := url.Parse(proxy.URL)
	tr.base.Proxy = http.ProxyURL(to)
	if _, text := ask(t, tr, post(t.Context(), server.URL, "hi")); text != "by proxy" {
		t.Errorf("%q", text)
	}
}

// A script is a server that answers each connection's requests with given bytes. The
// bytes "close" close the connection, "wait" waits until the client has closed it.
func script(t testing.TB, connections ...[]string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for _, replies := range connections {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serve(c, replies) })
		}
	})
	return "http://" + l.Addr().String()
}

func serve(c net.Conn, replies []string) {
	defer c.Close()
	buf := make([]byte, 64<<10)
	for _, reply := range replies {
		if reply == "wait" {
			_, _ = c.Read(buf)
			return
		}
		if _, err := c.Read(buf); err != nil {
			return
		}
		if reply == "close" {
			return
		}
		_, _ = io.WriteString(c, reply)
	}
}

const small = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestConnectionsAreUsedAgainOnlyIfTheyAreSound(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first       []string
		connections int32
		closed      bool // by the server, while it is idle
	}{
		{"kept", []string{small, small}, 1, false},
		{"without a length it ends with the connection", []string{"HTTP/1.1 200 OK\r\n\r\nok"}, 2, false},
		{"the server says that it closes", []string{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "wait"}, 2, false},
		{"HTTP/1.0", []string{"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "wait"}, 2, false},
		{"closed while idle", []string{small}, 2, true},
		{"more than was asked for", []string{small + small, "wait"}, 2, false},
		{"more after the last chunk", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n!", "wait"}, 2, false},
		{"chunks", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", small}, 1, false},
		{"nothing to read", []string{"HTTP/1.1 204 No Content\r\n\r\n", small}, 1, false},
		{"an interim reply", []string{"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + small, small}, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr, dials := newTransport(t)
			at := script(t, tc.first, []string{small})
			if _, text := ask(t, tr, post(t.Context(), at, "hi")); text != "ok" && text != "" {
				t.Fatalf("%q", text)
			}
			if tc.closed {
				waitClosed(tr, at)
			}
			if _, text := ask(t, tr, post(t.Context(), at, "hi")); text != "ok" {
				t.Fatalf("%q", text)
			}
			if n := dials.Load(); n != tc.connections {
				t.Errorf("two requests took %d connections, not %d", n, tc.connections)
			}
		})
	}
}

// waitClosed waits until it can be seen that the server has closed the connection that
// is idle.
func waitClosed(tr *Transport, at string) {
	u, _ := url.Parse(at)
	for c := tr.hosts[u.Host].idle[0]; c.alive(); {
		runtime.Gosched()
	}
}

// TestAConnectionThatDiesIsNotRepeated: whether the server did something is not known.
func TestAConnectionThatDiesIsNotRepeated(t *testing.T) {
	tr, dials := newTransport(t)
	at := script(t, []string{small, "close"}, []string{small})
	ask(t, tr, post(t.Context(), at, "hi"))
	if res, err := tr.RoundTrip(post(t.Context(), at, "hi")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, %v", res, err)
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestRepliesThatAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, reply, says string }{
		{"no HTTP", "SSH-2.0-OpenSSH\r\n", "malformed HTTP"},
		{"a large header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 9<<10) + "\r\n\r\n", "too large"},
		{"half a header", "HTTP/1.1 200 OK\r\nX: ", "without a reply"},
		{"nothing", "", "without a reply"},
		{"interim replies without end", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 7), "too many replies 1xx"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", "multiple Content-Length"},
		{"an unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok!", "unsupported transfer encoding"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr, _ := newTransport(t)
			_, err := tr.RoundTrip(post(t.Context(), script(t, []string{tc.reply}), "hi"))
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	tr, dials := newTransport(t)
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("X-Key", "a\r\nX-Other: b") },
		func(r *http.Request) { r.Header["X Key"] = []string{"a"} },
		func(r *http.Request) { r.Host = "a b" },
		func(r *http.Request) { r.ContentLength = 9 },
	} {
		req := post(t.Context(), "http://127.0.0.1:1", "hi")
		change(req)
		if _, err := tr.RoundTrip(req); err == nil || strings.Contains(err.Error(), "Other") {
			t.Errorf("%v", err)
		}
	}
	if dials.Load() != 0 {
		t.Error("it connected")
	}
}

// TestAnEarlyRefusalIsRead has a server answer and close before it has read a request
// that does not fit the buffers of the connection.
func TestAnEarlyRefusalIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := New(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe() // has no buffer
			go func() {
				buf := make([]byte, 100)
				_, _ = theirs.Read(buf)
				time.Sleep(time.Second)
				theirs.Close()
			}()
			return refusing{ours}, nil
		}})
		res, text := ask(t, tr, post(t.Context(), "http://vendor.example", strings.Repeat("x", 1000)))
		if res.StatusCode != http.StatusUnauthorized || text != "no" {
			t.Errorf("%d %q", res.StatusCode, text)
		}
	})
}

// refusing is a connection with a reply to read, though the other end is closed.
type refusing struct{ net.Conn }

func (refusing) Read(p []byte) (int, error) {
	return copy(p, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"), nil
}

var errEnough = errors.New("enough")

func TestACancelEndsARequest(t *testing.T) {
	t.Run("while it connects", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		tr := New(&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel(errEnough)
			return nil, ctx.Err()
		}})
		if _, err := tr.RoundTrip(post(ctx, "http://vendor.example", "hi")); err != errEnough {
			t.Errorf("%v", err)
		}
	})
	t.Run("while it waits", func(t *testing.T) {
		tr, _ := newTransport(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		at := script(t, []string{"", "wait"})
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel(errEnough) }})
		if _, err := tr.RoundTrip(post(ctx, at, "hi")); err != errEnough {
			t.Errorf("%v", err)
		}
	})
	t.Run("while it reads", func(t *testing.T) {
		tr, dials := newTransport(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		at := script(t, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "wait"}, []string{small})
		res, err := tr.RoundTrip(post(ctx, at, "hi"))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		if n, err := res.Body.Read(buf); string(buf[:n]) != "ok" || err != nil {
			t.Fatalf("%q %v", buf[:n], err)
		}
		cancel(errEnough)
		if n, err := res.Body.Read(buf); n != 0 || err != errEnough {
			t.Errorf("%q %v", buf[:n], err)
		}
		res.Body.Close()
		ask(t, tr, post(t.Context(), at, "hi"))
		if n := dials.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestABodyThatIsNotReadClosesItsConnection, and only once.
func TestABodyThatIsNotReadClosesItsConnection(t *testing.T) {
	tr, dials := newTransport(t)
	at := script(t, []string{small, "wait"}, []string{small})
	res, err := tr.RoundTrip(post(t.Context(), at, "hi"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if n, err := res.Body.Read(make([]byte, 9)); n > 0 && err == nil {
		t.Errorf("read %d bytes after Close", n)
	}
	res.Body.Close()
	if _, text := ask(t, tr, post(t.Context(), at, "hi")); text != "ok" || dials.Load() != 2 {
		t.Errorf("%q, %d connections", text, dials.Load())
	}
}

// TestABodySaysWhatCameWithTheHeader has a body that came whole, and one that comes later.
func TestABodySaysWhatCameWithTheHeader(t *testing.T) {
	tr, _ := newTransport(t)
	url := script(t, []string{"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"})
	for _, want := range []int{5000, 0} {
		res, err := tr.RoundTrip(post(t.Context(), url, "a"))
		if err != nil {
			t.Fatal(err)
		}
		body := res.Body.(interface{ Buffered() int })
		if n := body.Buffered(); n != want {
			t.Errorf("%d bytes came with the header, it says", n)
		}
		if b, err := io.ReadAll(res.Body); len(b) != want || err != nil || body.Buffered() != 0 {
			t.Errorf("%d bytes, %v; %d are left", len(b), err, body.Buffered())
		}
		res.Body.Close()
	}
}

// TestTheTraceIsTold of the connection and of the request.
func TestTheTraceIsTold(t *testing.T) {
	tr, _ := newTransport(t)
	at := script(t, []string{small, small})
	for i := range 2 {
		var got, wrote int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) {
				if got++; info.Conn == nil || info.Reused != (i > 0) {
					t.Errorf("%d: %+v", i, info)
				}
			},
			WroteRequest: func(info httptrace.WroteRequestInfo) {
				if wrote++; info.Err != nil {
					t.Error(info.Err)
				}
			},
		})
		ask(t, tr, post(ctx, at, "hi"))
		if got != 1 || wrote != 1 {
			t.Errorf("%d: %d, %d", i, got, wrote)
		}
	}
}

// TestIdleConnectionsAreClosed after their time, beyond their number, and on request.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		tr := New(&http.Transport{MaxIdleConnsPerHost: 3, IdleConnTimeout: time.Minute, DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			open.Add(1)
			go func() {
				serve(theirs, []string{small, small, small, small, small, small})
				open.Add(-1)
			}()
			return ours, nil
		}})
		defer tr.CloseIdleConnections()
		// together leaves so many connections idle, or as many as may be.
		together := func(n int) {
			for range n {
				res, err := tr.RoundTrip(post(t.Context(), "http://vendor.example", "hi"))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _, _ = io.Copy(io.Discard, res.Body) }()
			}
		}
		expect := func(want int32) {
			t.Helper()
			synctest.Wait()
			if n := open.Load(); n != want {
				t.Errorf("%d connections are open, not %d", n, want)
			}
		}
		together(5)
		expect(3)
		time.Sleep(40 * time.Second)
		together(1) // one of them is used
		expect(3)
		time.Sleep(30 * time.Second)
		expect(1)
		time.Sleep(20 * time.Second)
		expect(1)
		time.Sleep(20 * time.Second)
		expect(0)
		together(2)
		expect(2)
		tr.CloseIdleConnections()
		expect(0)
	})
}

// TestManyRequests share few connections while some end early.
func TestManyRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for i := range 20 {
			fmt.Fprintf(w, "%s %d\n", body, i)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	tr, _ := newTransport(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				name := fmt.Sprintf("%d/%d", i, j)
				res, err := tr.RoundTrip(post(ctx, server.URL, name))
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				var want bytes.Buffer
				for k := range 20 {
					fmt.Fprintf(&want, "%s %d\n", name, k)
				}
				var text []byte
				if j%5 == 0 {
					text = make([]byte, 3)
					n, _ := res.Body.Read(text)
					text = text[:n]
				} else if text, err = io.ReadAll(res.Body); err != nil || len(text) != want.Len() {
					t.Errorf("%s: %d bytes of %d, %v", name, len(text), want.Len(), err)
				}
				if !bytes.HasPrefix(want.Bytes(), text) {
					t.Errorf("%s got %q", name, text)
				}
				if j%10 == 0 {
					cancel()
				}
				res.Body.Close()
				cancel()
			}
		})
	}
	all.Wait()
}

func BenchmarkCall(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	here := New(&http.Transport{})
	defer here.CloseIdleConnections()
	for name, tr := range map[string]http.RoundTripper{"http1": here, "nethttp": base} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(b, tr, post(b.Context(), server.URL, "hi"))
			}
		})
	}
}
