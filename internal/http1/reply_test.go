package http1

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// headers are of replies; whether they are read here is said first.
var headers = []struct {
	usual bool
	text  string
}{
	{true, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nCF-RAY: 8a1\r\nset-cookie: a=b\r\nSet-Cookie: c=d; Path=/\r\nX-Unknown-To-Us:\r\n\r\n5\r\nhello"},
	{true, "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 12\r\nretry-after: \t 7 \r\nconnection: keep-alive\r\n\r\nslow, please"},
	{true, "HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n"},
	{true, "HTTP/1.1 599 \r\nContent-Length: 281474976710655\r\n\r\n"},
	{false, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{false, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{false, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"},
	{false, "HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\n\r\nup to the end"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 281474976710656\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, close\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nPragma: no-cache\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n b\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\nX: a\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\n\nok\r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n: x\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nno colon\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: \xc3\xa9\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: \x00\r\n\r\nok"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + strings.Repeat("x", 41) + ": a\r\n\r\nok"},
	{false, "HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{false, "HTTP/1.1 200  OK\r\nContent-Length: 2\r\n\r\nok"},
	{false, "HTTP/1.1 20x OK\r\nContent-Length: 2\r\n\r\nok"},
	{false, "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok"},
	{false, "HTTP/1.1 \r\n\r\n"},
	{false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"},
}

// TestHeadersAreReadAsByNetHTTP reads headers, and such with a few bytes that changed.
func TestHeadersAreReadAsByNetHTTP(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, h := range headers {
		if usual := sameHeader(t, h.text); usual != h.usual {
			t.Errorf("it is %t that this header is read here: %q", usual, h.text)
		}
		for range 2000 {
			sameHeader(t, mutate(random, h.text, 0, "\r\n\t :,;-x0123456789\x00\x7f\x80"))
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, h := range headers {
		f.Add(h.text)
	}
	f.Fuzz(func(t *testing.T, text string) { sameHeader(t, text) })
}

// sameHeader reports whether a header is read here. Then it has to be what net/http
// makes of it.
func sameHeader(t *testing.T, text string) bool {
	t.Helper()
	got, n := usualHeader([]byte(text))
	if n == 0 {
		return false
	}
	in := bufio.NewReaderSize(strings.NewReader(text), 1<<20)
	want, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatalf("%q: net/http says %v", text, err)
	}
	if (got.Body == http.NoBody) != (want.Body == http.NoBody) {
		t.Errorf("%q: one has a body, the other none", text)
	}
	want.Body, want.Request, got.Body = nil, nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q:\n%+v, net/http has\n%+v", text, got, want)
	}
	rest, err := io.ReadAll(in)
	if err != nil || string(rest) != text[n:] {
		t.Errorf("%q: %q is left, at net/http %q, %v", text, text[n:], rest, err)
	}
	return true
}

func BenchmarkHeader(b *testing.B) {
	came := []byte(headers[0].text)
	for name, read := range map[string]func(){
		"here": func() { usualHeader(came) },
		"net/http": func() {
			_, _ = http.ReadResponse(bufio.NewReaderSize(strings.NewReader(headers[0].text), 1<<10), nil)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
