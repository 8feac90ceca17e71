package listen_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/listen"
)

// A station is a server in a bubble whose connections are pipes.
type station struct {
	*listen.Listener
	src    *source
	server *http.Server
	served chan error
	active atomic.Int32 // connections that net/http has

	cancelled atomic.Bool // a request was
}

func open(t *testing.T, cfg listen.Config) *station {
	s := &station{src: &source{conns: make(chan net.Conn)}, served: make(chan error, 1)}
	s.Listener = listen.New(s.src, cfg)
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.URL.Path == "/slow" {
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
			}
			if err := r.Context().Err(); err != nil {
				s.cancelled.Store(true)
			}
			fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
		}),
		ReadHeaderTimeout: 15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ConnContext:       listen.Context,
		ConnState: func(c net.Conn, state http.ConnState) {
			listen.State(c, state)
			switch state {
			case http.StateNew:
				s.active.Add(1)
			case http.StateClosed:
				s.active.Add(-1)
			}
		},
	}
	go func() { s.served <- s.server.Serve(s.Listener) }()
	t.Cleanup(func() {
		s.server.Close()
		<-s.served
	})
	return s
}

// dial opens a connection; net.Pipe has deadlines but no buffer.
func (s *station) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	s.src.conns <- peer{theirs, "192.0.2.1:1"}
	return ours, bufio.NewReader(ours)
}

// ask makes a request, whose parts are written one after another, and returns what was
// answered.
func ask(t *testing.T, to net.Conn, from *bufio.Reader, parts ...string) string {
	t.Helper()
	go func() {
		for _, part := range parts {
			if _, err := io.WriteString(to, part); err != nil {
				return
			}
		}
	}()
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(res.Body)
	synctest.Wait()
	return string(text)
}

// park opens a connection, makes a request and waits until the connection is parked.
func (s *station) park(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, r := s.dial(t)
	ask(t, c, r, request("/"))
	time.Sleep(time.Second)
	s.expect(t, 1, 1, 0)
	return c, r
}

func (s *station) expect(t *testing.T, open, parked int, active int32) {
	t.Helper()
	synctest.Wait()
	if s.Open() != open || s.Parked() != parked || s.active.Load() != active {
		t.Errorf("%d connections are open, %d parked, net/http has %d; want %d, %d, %d", s.Open(), s.Parked(), s.active.Load(), open, parked, active)
	}
}

func request(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }

func TestIdleConnectionsAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, listen.Config{Connections: 5})
		c, r := s.dial(t)
		for i := range 4 {
			path := fmt.Sprint("/", i)
			parts := []string{request(path)}
			if i == 2 { // byte by byte
				parts = strings.Split(request(path), "")
			}
			if got := ask(t, c, r, parts...); got != "GET "+path+" " {
				t.Fatalf("%d: %q", i, got)
			}
			s.expect(t, 1, 0, 1)
			time.Sleep(400 * time.Millisecond)
			s.expect(t, 1, 0, 1)
			time.Sleep(200 * time.Millisecond)
			s.expect(t, 1, 1, 0)
			time.Sleep(time.Duration(i) * 30 * time.Second)
		}
		// The time for which it may be idle counts from its last request.
		time.Sleep(28 * time.Second)
		s.expect(t, 1, 1, 0)
		time.Sleep(2 * time.Second)
		s.expect(t, 0, 0, 0)
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("an idle connection is not closed: %v", err)
		}
	})
}

func TestRequestsThatFollowAtOnceAreNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, listen.Config{})
		c, r := s.dial(t)
		if got := ask(t, c, r, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"+request("/b")+"G"); got != "POST /a hi" {
			t.Fatalf("%q", got)
		}
		if got := ask(t, c, r); got != "GET /b " {
			t.Fatalf("%q", got)
		}
		time.Sleep(10 * time.Second) // a part of a request has come
		s.expect(t, 1, 0, 1)
		if got := ask(t, c, r, request("/c")[1:]); got != "GET /c " {
			t.Fatalf("%q", got)
		}
		time.Sleep(time.Second)
		s.expect(t, 1, 1, 0)
	})
}

// TestARequestThatWasPipelinedIsNotCutOff: it waits in the buffer of net/http, which
// reads nothing for it.
func TestARequestThatWasPipelinedIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, listen.Config{})
		c, r := s.dial(t)
		if got := ask(t, c, r, request("/a")+request("/slow")); got != "GET /a " {
			t.Fatalf("%q", got)
		}
		if got := ask(t, c, r); got != "GET /slow " || s.cancelled.Load() {
			t.Fatalf("%q, cancelled: %v", got, s.cancelled.Load())
		}
		time.Sleep(time.Second)
		s.expect(t, 1, 1, 0)
	})
}

func TestAParkedConnectionThatItsPeerClosesIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, listen.Config{})
		c, _ := s.park(t)
		c.Close()
		s.expect(t, 0, 0, 0)
	})
}

// TestARequestAfterParkingMustArrive within the time for headers.
func TestARequestAfterParkingMustArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, listen.Config{})
		c, r := s.park(t)
		_, _ = io.WriteString(c, "G")
		time.Sleep(14 * time.Second)
		s.expect(t, 1, 0, 1)
		if text, err := io.ReadAll(r); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
			t.Errorf("%q, %v", text, err)
		}
		time.Sleep(time.Second)
		s.expect(t, 0, 0, 0)
	})
}

func TestAStopClosesParkedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, listen.Config{})
		_, r := s.park(t)
		idle, r2 := s.dial(t)
		ask(t, idle, r2, request("/"))
		s.expect(t, 2, 1, 1)
		if err := s.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		s.expect(t, 0, 0, 0)
		for _, r := range []*bufio.Reader{r, r2} {
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("a connection is not closed: %v", err)
			}
		}
	})
}

// TestAConnectionWithAnUnclearEndIsNotParked: what its bytes mean is not followed.
func TestAConnectionWithAnUnclearEndIsNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, listen.Config{})
		c, r := s.dial(t)
		if got := ask(t, c, r, "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"); got != "POST /a hi" {
			t.Fatalf("%q", got)
		}
		time.Sleep(time.Minute)
		s.expect(t, 1, 0, 1)
		if got := ask(t, c, r, request("/b")); got != "GET /b " {
			t.Fatalf("%q", got)
		}
	})
}
