package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"stoa/internal/eventloop"
)

// onLoops makes a request whose reply read reads; it is slow at once.
func onLoops(t testing.TB, loops *eventloop.Loops, tr *Transport, req *http.Request, read func(*eventloop.Task, io.ReadCloser)) {
	t.Helper()
	loops.Run(req.Context(), func(ctx context.Context) {
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		OnLoop(res, eventloop.Of(ctx), 0)
		read(eventloop.Of(ctx), res.Body)
	})
}

func newLoops(t testing.TB) *eventloop.Loops {
	l := eventloop.New()
	t.Cleanup(l.Close)
	return l
}

// early is how many reads of a connection there are before it is read on a loop, if all
// waits count.
const early = 1

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// A teller is a server that sends a piece of its reply when it is told to.
type teller struct {
	url  string
	tell chan string // closed: the server closes
}

// newTeller returns a server of so many requests, of one connection after the other.
func newTeller(t testing.TB, requests int) teller {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := teller{"http://" + l.Addr().String(), make(chan string)}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		buf := make([]byte, 4096)
		for requests > 0 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for ; requests > 0; requests-- {
				if _, err := c.Read(buf); err != nil {
					break
				}
				for text := range s.tell {
					if text == "end" {
						break
					}
					_, _ = io.WriteString(c, text)
				}
			}
			c.Close()
		}
	})
	return s
}

// later tells a piece of a reply of which k were read. After early, and the one that comes with the header, it comes when the
// reader waits for it on a loop.
func (s teller) later(loops *eventloop.Loops, k int, piece string) {
	go func() {
		for k > early && loops.OnLoops() == 0 {
			runtime.Gosched()
		}
		s.tell <- piece
	}()
}

// TestASlowReplyIsReadOnALoop, and its connection is used again, for another one of either kind.
func TestASlowReplyIsReadOnALoop(t *testing.T) {
	tr, dials := newTransport(t)
	loops := newLoops(t)
	s := newTeller(t, 3)
	for round := range 3 {
		go func() { s.tell <- chunked + "1\r\na\r\n" }()
		onLoops(t, loops, tr, post(t.Context(), s.url, "hi"), func(task *eventloop.Task, body io.ReadCloser) {
			var p [9]byte
			for k := range 8 {
				n, err := body.Read(p[:])
				if string(p[:n]) != "abcdefgh"[k:k+1] || err != nil {
					t.Errorf("round %d: %q %v", round, p[:n], err)
				}
				// The first came with the header, the next ones tell that it is slow.
				if was := task.OnLoop(); was != (k > early) {
					t.Errorf("round %d, piece %d: on a loop: %v", round, k, was)
				}
				if k < 7 {
					s.later(loops, k+1, fmt.Sprintf("1\r\n%c\r\n", 'b'+k))
				}
			}
			task.Leave()
			s.tell <- "0\r\n\r\n"
			if n, err := body.Read(p[:]); n != 0 || err != io.EOF || task.OnLoop() {
				t.Errorf("round %d: at the end %d %v", round, n, err)
			}
		})
		s.tell <- "end"
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("three replies took %d connections", n)
	}
}

// TestBodiesOnALoopAreTheSame: their bytes, their ends, their errors.
func TestBodiesOnALoopAreTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	loops := newLoops(t)
	for _, text := range bodies {
		for _, text := range []string{text, mutateBody(random, text), mutateBody(random, text)} {
			text = "HTTP/1.1 200 OK\r\n" + text
			tr, _ := newTransport(t)
			at := script(t, []string{text}, []string{text})
			var got, want, gotErr, wantErr string
			read := func(body io.Reader) (string, string) {
				all, err := io.ReadAll(&asks{random, body})
				return string(all), fmt.Sprint(err)
			}
			res, err := tr.RoundTrip(post(t.Context(), at, "hi"))
			if err != nil {
				continue
			}
			want, wantErr = read(res.Body)
			res.Body.Close()
			tr.CloseIdleConnections()
			onLoops(t, loops, tr, post(t.Context(), at, "hi"), func(task *eventloop.Task, body io.ReadCloser) {
				if got, gotErr = read(body); task.OnLoop() {
					t.Errorf("%q: on a loop after its end", text)
				}
			})
			if got != want || gotErr != wantErr {
				t.Errorf("%q: %q %s, on a loop %q %s", text, want, wantErr, got, gotErr)
			}
		}
	}
}

// TestACancelEndsAReplyOnALoop, whether it waits or is about to.
func TestACancelEndsAReplyOnALoop(t *testing.T) {
	for _, waits := range []bool{true, false} {
		for _, head := range []string{chunked + "1\r\na\r\n", "HTTP/1.1 200 OK\r\n\r\na"} { // the latter ends when the server closes
			tr, dials := newTransport(t)
			loops := newLoops(t)
			s := newTeller(t, 2)
			ctx, cancel := context.WithCancelCause(t.Context())
			piece := strings.TrimPrefix(strings.TrimPrefix(head, chunked), "HTTP/1.1 200 OK\r\n\r\n")
			go func() { s.tell <- head }()
			onLoops(t, loops, tr, post(ctx, s.url, "hi"), func(task *eventloop.Task, body io.ReadCloser) {
				var p [1]byte
				for k := range early + 2 { // the first comes with the header
					if n, err := body.Read(p[:]); n != 1 || err != nil {
						t.Errorf("piece %d: %d %v", k, n, err)
					}
					if k <= early {
						s.later(loops, k+1, piece)
					}
				}
				if !task.OnLoop() {
					t.Error("it is on no loop")
				}
				if waits {
					go func() { cancel(errEnough) }()
				} else {
					cancel(errEnough)
				}
				if n, err := body.Read(p[:]); n != 0 || err != errEnough || task.OnLoop() {
					t.Errorf("after the cancel: %d %v, on a loop: %v", n, err, task.OnLoop())
				}
			})
			s.tell <- "end"
			go func() { s.tell <- small; s.tell <- "end" }()
			if _, text := ask(t, tr, post(t.Context(), s.url, "hi")); text != "ok" || dials.Load() != 2 {
				t.Errorf("%q, %d connections", text, dials.Load())
			}
		}
	}
}

// TestCloseOnALoop leaves it, and closes the connection.
func TestCloseOnALoop(t *testing.T) {
	tr, dials := newTransport(t)
	s := newTeller(t, 2)
	go func() { s.tell <- chunked + "1\r\na\r\n" }()
	loops := newLoops(t)
	onLoops(t, loops, tr, post(t.Context(), s.url, "hi"), func(task *eventloop.Task, body io.ReadCloser) {
		var p [1]byte
		for k := range early + 2 { // the first comes with the header
			if _, err := body.Read(p[:]); err != nil {
				t.Error(err)
			}
			if k <= early {
				s.later(loops, k+1, "1\r\na\r\n")
			}
		}
		if !task.OnLoop() {
			t.Error("it is on no loop")
		}
		if err := errors.Join(body.Close(), body.Close()); err != nil || task.OnLoop() {
			t.Errorf("closed: %v, on a loop: %v", err, task.OnLoop())
		}
	})
	s.tell <- "end"
	go func() { s.tell <- small; s.tell <- "end" }()
	if _, text := ask(t, tr, post(t.Context(), s.url, "hi")); text != "ok" || dials.Load() != 2 {
		t.Errorf("%q, %d connections", text, dials.Load())
	}
}
