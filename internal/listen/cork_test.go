package listen

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

func TestACorkedConnectionWritesOnce(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(plain, Config{})
	text := bytes.Repeat([]byte("0123456789abcdef"), corkAt/16)
	var writes []int
	s := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ours := c.(*conn)
			ours.Conn = noted{ours.Conn, &writes}
			ours.bulk.raw = nil
			return Context(ctx, c)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cork := CorkOf(r.Context())
			out := http.NewResponseController(w)
			for _, n := range []int{10, 9000, 20_000, 2 * corkAt} {
				cork.Stop()
				for n > 0 {
					sent, _ := w.Write(text[:min(n, len(text))])
					n -= sent
				}
				if err := out.Flush(); err != nil {
					t.Error(err)
				}
				if err := cork.Release(); err != nil {
					t.Error(err)
				}
				writes = append(writes, 0)
			}
		}),
	}
	defer s.Close()
	go func() { _ = s.Serve(l) }()
	res, err := http.Get("http://" + plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if want := 10 + 9000 + 20_000 + 2*corkAt; err != nil || len(got) != want || !bytes.HasPrefix(got[10+9000+20_000:], text) {
		t.Errorf("%d bytes, want %d; %v", len(got), want, err)
	}
	var times []int
	n := 0
	for _, w := range writes {
		if n++; w == 0 {
			times = append(times, n-1)
			n = 0
		}
	}
	for i, most := range []int{1, 1, 1, 12} { // the last is more than a cork gathers, in pieces of 32 KiB
		if i >= len(times) || times[i] > most {
			t.Fatalf("pieces took %v writes, at most %d for the one at %d: %v", times, most, i, writes)
		}
	}
}

func TestAFailedCorkSaysSo(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &conn{Conn: ours, timeout: writeTimeout}
	cork := CorkOf(Context(t.Context(), c))
	cork.Stop()
	if n, err := c.Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	theirs.Close()
	if err := cork.Release(); err == nil {
		t.Error("a write to a closed connection succeeded")
	}
	if err := cork.Release(); err != nil {
		t.Errorf("nothing was gathered: %v", err)
	}
	if CorkOf(Context(t.Context(), ours)) != nil {
		t.Error("a plain connection has a cork")
	}
}

// A noted connection notes how much each write takes.
type noted struct {
	net.Conn
	writes *[]int
}

func (n noted) Write(b []byte) (int, error) {
	*n.writes = append(*n.writes, len(b))
	return n.Conn.Write(b)
}
