package listen

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// chunk returns a chunk of that text as [Chunks.Write] takes it.
func chunkOf(text string) []byte { return append(make([]byte, ChunkHead), text...) }

// serve serves h on connections that note their writes, and returns the address and the
// writes.
func serve(t *testing.T, h http.HandlerFunc) (addr string, writes *[]string) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	writes = new([]string)
	s := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ours := c.(*conn)
			ours.Conn = noted{ours.Conn, writes}
			ours.bulk.raw = nil
			return Context(ctx, c)
		},
		Handler: h,
	}
	t.Cleanup(func() { s.Close() })
	go func() { _ = s.Serve(New(plain, Config{})) }()
	return plain.Addr().String(), writes
}

func TestAChunkTakesOneWrite(t *testing.T) {
	pieces := []string{"first", "x", strings.Repeat("0123456789abcdef", 600), strings.Repeat("y", 15), strings.Repeat("z", 16), "last"}
	addr, writes := serve(t, func(w http.ResponseWriter, r *http.Request) {
		k := ChunksOf(r)
		w.WriteHeader(http.StatusOK)
		if err := k.Begin(http.NewResponseController(w).Flush); err != nil {
			t.Error(err)
		}
		for i, piece := range pieces {
			send := func(b []byte) error { return k.Write(b, nil) }
			if i == len(pieces)-1 {
				send = k.End
			}
			if err := errors.Join(k.Write(chunkOf(""), nil), send(chunkOf(piece))); err != nil { // an empty one would end the body
				t.Error(err)
			}
		}
	})
	for range 2 { // the connection is used again
		res, err := http.Get("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if want := strings.Join(pieces, ""); string(got) != want || err != nil {
			t.Fatalf("%d bytes, want %d: %v", len(got), len(want), err)
		}
		if len(*writes) != len(pieces) {
			t.Fatalf("%d pieces took %d writes", len(pieces), len(*writes))
		}
		for i, piece := range pieces {
			want := fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
			switch got := (*writes)[i]; {
			case i == 0:
				if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "\r\n\r\n"+want) {
					t.Errorf("the first write is %q", got)
				}
			case i == len(pieces)-1:
				if got != want+"0\r\n\r\n" {
					t.Errorf("the last write is %q", got)
				}
			case got != want:
				t.Errorf("write %d has %d bytes, want %d", i, len(got), len(want))
			}
		}
		*writes = nil
	}
}

func TestALargeLastChunkIsNotKept(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", gatherMost/8)
	addr, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		k := ChunksOf(r)
		if err := errors.Join(k.Begin(http.NewResponseController(w).Flush), k.End(chunkOf(large))); err != nil {
			t.Error(err)
		}
		if kept := (*conn)(k).gathered; kept != nil {
			t.Errorf("%d bytes wait", len(*kept))
		}
	})
	res, err := http.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); string(got) != large || err != nil {
		t.Errorf("%d bytes, want %d: %v", len(got), len(large), err)
	}
}

func TestALargeHeaderDoesNotWait(t *testing.T) {
	value := strings.Repeat("v", 2*gatherMost)
	addr, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		k := ChunksOf(r)
		w.Header().Set("Large", value)
		if err := errors.Join(k.Begin(http.NewResponseController(w).Flush), k.Write(chunkOf("text"), nil)); err != nil {
			t.Error(err)
		}
	})
	res, err := http.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); string(got) != "text" || res.Header.Get("Large") != value || err != nil {
		t.Errorf("%q, %d bytes of the header: %v", got, len(res.Header.Get("Large")), err)
	}
}

func TestSomeRepliesHaveNoChunks(t *testing.T) {
	addr, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := fmt.Fprint(w, ChunksOf(r) != nil); err != nil {
			t.Error(err)
		}
	})
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n": "true",
		"GET / HTTP/1.0\r\n\r\n":                                 "false",
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); string(got) != want || err != nil {
			t.Errorf("%q: %q, %v", request, got, err)
		}
		c.Close()
	}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := &conn{Conn: ours, timeout: writeTimeout}
	r := &http.Request{Method: http.MethodHead, ProtoMajor: 1, ProtoMinor: 1}
	if ChunksOf(r.WithContext(Context(t.Context(), c))) != nil {
		t.Error("the reply to HEAD has chunks")
	}
	r.Method = http.MethodGet
	if ChunksOf(r.WithContext(Context(t.Context(), ours))) != nil {
		t.Error("the reply on a foreign connection has chunks")
	}
	r.ProtoMajor, r.ProtoMinor = 2, 0
	if ChunksOf(r.WithContext(Context(t.Context(), c))) != nil {
		t.Error("a reply by HTTP/2 has chunks")
	}
}

func TestAFailedChunkSaysSo(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &conn{Conn: ours, timeout: writeTimeout}
	k := (*Chunks)(c)
	header := func() error { _, err := c.Write(bytes.Repeat([]byte("h"), 100)); return err }
	if err := k.Begin(header); err != nil {
		t.Error(err)
	}
	theirs.Close()
	if err := k.Write(chunkOf("x"), nil); err == nil {
		t.Error("a write to a closed connection succeeded")
	}
	if err := k.Write(chunkOf("x"), nil); err == nil {
		t.Error("another one did")
	}
	if err := k.End(chunkOf("x")); err != nil {
		t.Errorf("the last chunk waits for the end: %v", err)
	}
	if n, err := c.Write([]byte("0\r\n\r\n")); n != 0 || err == nil {
		t.Errorf("the end was written: %d, %v", n, err)
	}
}

// A noted connection notes what each write takes.
type noted struct {
	net.Conn
	writes *[]string
}

func (n noted) Write(b []byte) (int, error) {
	*n.writes = append(*n.writes, string(b))
	return n.Conn.Write(b)
}
