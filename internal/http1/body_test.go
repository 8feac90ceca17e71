package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

// bodies are replies whose bodies net/http reads, in the forms that servers write.
var bodies = []string{
	"Content-Length: 5\r\n\r\nhello",
	"Content-Length: 5\r\n\r\nhel",
	"Content-Length: 0\r\n\r\n",
	"\r\nuntil the end",
	"Connection: close\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\nA;ext=\"x\"\r\n0123456789\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n0005 \t\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n00000\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhello",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5 ;a\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n;a\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("x", maxLine-3) + "\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("x", maxLine-2) + "\r\nhello\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\nh\r\n", 40) + "0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nh\r\n", 5000) + "0\r\n\r\n",
}

// TestBodiesAreReadAsByNetHTTP reads replies that come in pieces of many sizes.
func TestBodiesAreReadAsByNetHTTP(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, text := range bodies {
		compare(t, random, text)
		for range 300 { // with bytes that changed, are missing or came in addition
			compare(t, random, mutateBody(random, text))
		}
	}
}

func FuzzBody(f *testing.F) {
	for i, text := range bodies {
		f.Add(text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) < 1<<16 {
			compare(t, rand.New(rand.NewPCG(seed, 1)), text)
		}
	})
}

// mutateBody changes a few bytes after the header.
func mutateBody(random *rand.Rand, text string) string {
	at := strings.Index(text, "\r\n\r\n") + 4
	if strings.HasPrefix(text, "\r\n") {
		at = 2
	}
	return mutate(random, text, at, "\r\n0123456789abcdef;x ")
}

// mutate changes a few bytes from that place on, to some of others, or removes or doubles
// them, or all that follow.
func mutate(random *rand.Rand, text string, at int, others string) string {
	b := []byte(text)
	for range 1 + random.IntN(2) {
		if len(b) <= at {
			break
		}
		i := at + random.IntN(len(b)-at)
		switch random.IntN(4) {
		case 0:
			b[i] = others[random.IntN(len(others))]
		case 1:
			b = append(b[:i], b[i+1:]...)
		case 2:
			b = append(b[:i], append([]byte{b[i]}, b[i:]...)...)
		case 3:
			b = b[:i]
		}
	}
	return string(b)
}

// compare reads a reply as net/http reads it, and here, in pieces that come and are
// asked for in random sizes.
func compare(t *testing.T, random *rand.Rand, text string) {
	t.Helper()
	text = "HTTP/1.1 200 OK\r\n" + text
	// The header is read by the same code here, so only the body matters.
	head, framed, found := strings.Cut(text, "\r\n\r\n")
	if !found || strings.Contains(head, "\n\n") || strings.Contains(head, "\n\r\n") {
		return // where it ends is not seen below
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(strings.NewReader(text), firstRead), nil)
	if err != nil {
		return
	}
	want, wantErr := io.ReadAll(res.Body)
	_, chunkErr := io.ReadAll(httputil.NewChunkedReader(bufio.NewReaderSize(strings.NewReader(framed), firstRead)))
	trailerOnly := wantErr != nil && len(res.TransferEncoding) > 0 && chunkErr == nil // is wrong; it is not parsed here

	in := bufio.NewReaderSize(&pieces{random, []byte(text)}, firstRead)
	res, err = http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	from := &pieces{random, []byte(framed)[min(in.Buffered(), len(framed)):]}
	b := &body{conn: &conn{from: from, Conn: closed{}}, ctx: context.Background(), stop: func() bool { return true }, in: in}
	b.begin(res)
	got, gotErr := io.ReadAll(&asks{random, b})
	if errors.Is(gotErr, errTooLarge) && wantErr != nil {
		return // net/http takes some sizes of which no such body can come
	}
	if !bytes.Equal(got, want) || !trailerOnly && (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%q: net/http read %d bytes and %v, here they were %d and %v", text, len(want), wantErr, len(got), gotErr)
	}
	// What is malformed is seen here at its first byte, by net/http in a whole line.
	if wantCut, gotCut := errors.Is(wantErr, io.ErrUnexpectedEOF), errors.Is(gotErr, io.ErrUnexpectedEOF); wantCut != gotCut && !(wantCut && errors.Is(gotErr, errChunk)) && !trailerOnly {
		t.Fatalf("%q: net/http says %v, here it is %v", text, wantErr, gotErr)
	}
	if !b.ended.Load() {
		t.Fatalf("%q: the connection is in use after the end", text)
	}
}

// closed is a connection that may be closed.
type closed struct{ net.Conn }

func (closed) Close() error { return nil }

// pieces reads some bytes at a time.
type pieces struct {
	random *rand.Rand
	rest   []byte
}

func (r *pieces) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1+r.random.IntN(min(len(p), 40))], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// asks asks for some bytes at a time.
type asks struct {
	random *rand.Rand
	from   io.Reader
}

func (r *asks) Read(p []byte) (int, error) { return r.from.Read(p[:1+r.random.IntN(min(len(p), 60))]) }

// TestTrailersAreSkipped within their bound.
func TestTrailersAreSkipped(t *testing.T) {
	for _, tc := range []struct {
		trailer string
		ok      bool
	}{
		{"\r\n", true},
		{"\n", true},
		{"X-A: 1\r\n\r\n", true},
		{"X-A: 1\n\n", true},
		{strings.Repeat("X-A: 1\r\n", maxTrailer/8-1) + "\r\n", true},
		{strings.Repeat("X-A: 1\r\n", maxTrailer/8+1) + "\r\n", false},
		{"X-A: 1\r\n", false},
	} {
		var c chunks
		r := iotest.OneByteReader(strings.NewReader("2\r\nab\r\n0\r\n" + tc.trailer))
		got, err := io.ReadAll(readerFunc(func(p []byte) (int, error) {
			n, err := r.Read(p)
			return c.remove(p[:n], err)
		}))
		if string(got) != "ab" || (err == nil) != tc.ok {
			t.Errorf("%.40q of %d bytes: %q, %v", tc.trailer, len(tc.trailer), got, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
