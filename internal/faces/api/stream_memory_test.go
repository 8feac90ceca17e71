package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestAnOpenStreamTakesLittleMemory measures what a stream holds while it waits for
// its provider: heap and stacks of both connections, after a collection. Its input is
// not among it, however long: it was sent, and is not sent again after the first text. Both far
// ends are bare sockets, which add about a kilobyte.
func TestAnOpenStreamTakesLittleMemory(t *testing.T) {
	// Not parallel: it measures the heap of the process.
	if testing.Short() {
		t.Skip("the race detector, which runs the short tests, takes memory of its own")
	}
	v := startBareVendor(t)
	h := apitest.Start(t, apitest.Config{
		Providers: []stoa.Provider{{Name: "bare", Wire: "chat", BaseURL: "http://" + v.Addr().String() + "/v1", MaxInFlight: 1000}},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "bare"}}}, Grant: 1_000_000 * stoa.Credit,
	})
	const streams = 100
	for _, tt := range []struct{ input, most int }{{1000, 84 << 10}, {200_000, 100 << 10}} {
		text, err := json.Marshal(body{"model": "alpha-haiku-4-5", "input": strings.Repeat("x", tt.input), "stream": true})
		if err != nil {
			t.Fatal(err)
		}
		open := func() { openBareStream(t, h, text) }
		open() // what is made once, and kept
		before := held()
		for range streams {
			open()
		}
		if each := (held() - before) / streams; each > tt.most {
			t.Errorf("with an input of %d bytes a stream holds %d bytes, more than %d", tt.input, each, tt.most)
		} else {
			t.Logf("with an input of %d bytes a stream holds %d bytes", tt.input, each)
		}
	}
}

// held returns the bytes of live objects and of stacks.
func held() int {
	for range 4 { // pools keep theirs for two, and a stack halves at most once in each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// openBareStream sends a call and reads its first text. The connection stays open
// until the test ends.
func openBareStream(t *testing.T, h *apitest.Service, text []byte) {
	t.Helper()
	c, err := net.Dial("tcp", h.HTTP.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", responses, h.Key, len(text), text)
	var got []byte
	for !bytes.Contains(got, []byte(`"delta":"word"`)) {
		var b [4 << 10]byte
		n, err := c.Read(b[:])
		if got = append(got, b[:n]...); err != nil {
			t.Fatalf("%s %v", got, err)
		}
	}
}

// startBareVendor starts a server of the chat format that sends one delta and then
// nothing, and keeps nothing of a call but its connection.
func startBareVendor(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	const event = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}` + "\n\n"
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nDate: %s\r\n\r\n%x\r\n%s\r\n", time.Now().UTC().Format(http.TimeFormat), len(event), event)
			}()
		}
	}()
	return l
}
