package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"stoa/internal/apitest"
	"stoa/internal/stoa"
)

// A toldVendor is a server of the chat format that sends what it is told to.
type toldVendor struct {
	net.Listener
	calls chan chan<- string // of each call: the events that it sends; closed: the connection ends
}

func startToldVendor(t *testing.T) toldVendor {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := toldVendor{l, make(chan chan<- string, 100)}
	var all sync.WaitGroup
	over := make(chan struct{})
	t.Cleanup(func() { l.Close(); close(over); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // it is not far ahead of who reads
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				told := make(chan string)
				v.calls <- told
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
				for {
					select {
					case event, more := <-told:
						if !more {
							return
						}
						fmt.Fprintf(c, "%x\r\n%s\r\n", len(event), event)
					case <-over:
						return
					}
				}
			})
		}
	})
	return v
}

func toldDelta(text string) string {
	return `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
}

const toldEnd = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}` + "\n\ndata: [DONE]\n\n"

// startTold starts a service before the vendor.
func startTold(t *testing.T, v toldVendor) *apitest.Service {
	return start(t, apitest.Config{
		Providers: []stoa.Provider{{Name: "told", Wire: "chat", BaseURL: "http://" + v.Addr().String() + "/v1"}},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "told"}}}, Grant: 1_000_000 * stoa.Credit,
	})
}

// A toldStream is a caller's end of a stream.
type toldStream struct {
	net.Conn
	lines *bufio.Scanner
	tell  chan<- string
}

// open makes a streamed call.
func (v toldVendor) open(t *testing.T, h *apitest.Service) *toldStream {
	t.Helper()
	c, err := net.Dial("tcp", h.HTTP.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(64 << 10) // what a caller does not read is soon too much
	text, _ := json.Marshal(body{"model": "alpha-haiku-4-5", "input": "hi", "stream": true, "max_output_tokens": 64_000})
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", responses, h.Key, len(text), text)
	s := &toldStream{c, bufio.NewScanner(c), <-v.calls}
	s.lines.Buffer(nil, 16<<20)
	return s
}

// exchange has the vendor send a delta, and waits for it.
func (s *toldStream) exchange(t *testing.T, text string) {
	t.Helper()
	s.tell <- toldDelta(text)
	s.wait(t, `"delta":"`+text+`"`)
}

// wait reads up to a line that has a text.
func (s *toldStream) wait(t *testing.T, text string) {
	t.Helper()
	for s.lines.Scan() {
		switch line := s.lines.Text(); {
		case strings.Contains(line, text):
			return
		case strings.Contains(line, `"type":"response.failed"`):
			t.Fatalf("%s did not come, but %.600s", text, line)
		}
	}
	t.Fatalf("%s did not come: %v", text, s.lines.Err())
}

// toLoop brings a stream to a loop.
func (s *toldStream) toLoop(t *testing.T, h *apitest.Service, streams int) {
	t.Helper()
	for i := range 8 {
		s.exchange(t, fmt.Sprintf("early%d", i))
	}
	waitOnLoops(h, streams)
}

func waitOnLoops(h *apitest.Service, streams int) {
	for h.Loops.OnLoops() != streams {
		runtime.Gosched()
	}
}

// TestSlowStreamsShareLoops: each delta comes to its own caller at once, and each reply is charged.
func TestSlowStreamsShareLoops(t *testing.T) {
	v := startToldVendor(t)
	h := startTold(t, v)
	const streams, deltas = 30, 10
	var all []*toldStream
	for i := range streams {
		all = append(all, v.open(t, h))
		all[i].toLoop(t, h, i+1)
	}
	for k := range deltas {
		for i, s := range all {
			s.exchange(t, fmt.Sprintf("%d of %d", k, i))
		}
	}
	if n := h.Loops.OnLoops(); n != streams {
		t.Errorf("%d of %d streams are on a loop", n, streams)
	}
	for i, s := range all {
		s.tell <- toldEnd
		s.wait(t, `"type":"response.completed"`)
		waitOnLoops(h, streams-1-i)
		close(s.tell)
	}
	charged := receipts(t, h)
	if len(charged) != streams {
		t.Errorf("%d receipts of %d streams", len(charged), streams)
	}
	for _, c := range charged {
		if c.Estimated || c.State != "completed" || c.Usage.OutputTokens != 4 {
			t.Errorf("charged %+v", c.Charge)
		}
	}
	quiet(t, h)
}

// TestACallerThatDoesNotReadLeavesItsLoop, and other streams of the loop go on.
func TestACallerThatDoesNotReadLeavesItsLoop(t *testing.T) {
	v := startToldVendor(t)
	h := startTold(t, v)
	stuck, other := v.open(t, h), v.open(t, h)
	stuck.toLoop(t, h, 1)
	other.toLoop(t, h, 2)
	var all sync.WaitGroup
	text := toldDelta(strings.Repeat("much", 1000))
	all.Go(func() {
		for h.Loops.OnLoops() == 2 {
			stuck.tell <- text
		}
		stuck.tell <- toldEnd
		close(stuck.tell)
	})
	waitOnLoops(h, 1) // its write waits for the caller
	other.exchange(t, "meanwhile")
	stuck.wait(t, `"usage":{"input_tokens"`) // it is complete, or was cut where it had become too long
	other.tell <- toldEnd
	other.wait(t, `"type":"response.completed"`)
	close(other.tell)
	all.Wait()
	waitOnLoops(h, 0)
	if n := len(receipts(t, h)); n != 2 {
		t.Errorf("%d receipts", n)
	}
}

// TestEndsOfStreamsOnALoop: a caller that disconnects pays for what came, and a vendor
// that breaks off is told as an error and free.
func TestEndsOfStreamsOnALoop(t *testing.T) {
	v := startToldVendor(t)
	h := startTold(t, v)
	gone := v.open(t, h)
	gone.toLoop(t, h, 1)
	gone.Close()
	waitOnLoops(h, 0)
	close(gone.tell)

	broken := v.open(t, h)
	broken.toLoop(t, h, 1)
	close(broken.tell)
	broken.wait(t, `"type":"response.failed"`)
	waitOnLoops(h, 0)

	malformed := v.open(t, h)
	malformed.toLoop(t, h, 1)
	malformed.tell <- "data: {\n\n"
	malformed.wait(t, `"type":"response.failed"`)
	waitOnLoops(h, 0)
	close(malformed.tell)

	h.HTTP.Close() // waits for the handlers
	if c := receipt(t, h); !c.Estimated || c.State != "cancelled" || c.Amount <= 0 {
		t.Errorf("charged %+v", c.Charge)
	}
	quiet(t, h)
}
