package listen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stoa/internal/eventloop"
)

// TestAPeerThatDoesNotReadIsNotWaitedForOnALoop: the function of its reply leaves the
// loop, and all of its chunks come when the peer reads.
func TestAPeerThatDoesNotReadIsNotWaitedForOnALoop(t *testing.T) {
	var ready [2]int // a socket that can always be read
	if err := unix.Pipe2(ready[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ready[0])
	defer unix.Close(ready[1])
	if _, err := unix.Write(ready[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	loops := eventloop.New()
	defer loops.Close()

	for _, piece := range []string{strings.Repeat("little", 200), strings.Repeat("much", small/2)} { // the latter takes a turn, and leaves for that
		sent := make(chan int, 1)
		left := make(chan struct{})
		server := &http.Server{ConnContext: Context, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			k := ChunksOf(r)
			if err := k.Begin(http.NewResponseController(w).Flush); err != nil {
				t.Error(err)
			}
			loops.Run(r.Context(), func(ctx context.Context) {
				task := eventloop.Of(ctx)
				task.Wait(ready[0])
				go func() { // what is written then waits for the peer
					for loops.OnLoops() > 0 {
						runtime.Gosched()
					}
					close(left)
				}()
				n := 0
				for ; task.OnLoop(); n += len(piece) {
					if err := k.Write(chunkOf(piece), task); err != nil {
						t.Error(err)
					}
				}
				sent <- n
			})
		})}
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(New(plain, Config{})) }()
		res, err := http.Get("http://" + plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		<-left
		body, err := io.ReadAll(res.Body)
		if n := <-sent; err != nil || len(body) != n || strings.Repeat(piece, n/len(piece)) != string(body) {
			t.Errorf("%d bytes of %d came, or others: %v", len(body), n, err)
		}
		if err := errors.Join(res.Body.Close(), server.Close()); err != nil {
			t.Error(err)
		}
		<-served
	}
}
