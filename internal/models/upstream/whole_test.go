package upstream

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakeup"
)

func buffered(prompt string) stoa.Call {
	call := ask(prompt)
	call.Buffered = true
	return call
}

// inWhole returns which of the recorded requests asked for a whole reply.
func inWhole(served []fakeup.Served) (out []bool) {
	for _, s := range served {
		out = append(out, s.Header.Get("Accept") == "application/json")
	}
	return out
}

func TestWholeRepliesOnEveryWire(t *testing.T) {
	t.Parallel()
	vendor := fakeup.Start(t)
	for _, w := range wires {
		pr := vendor.Provider(w.name)
		pr.WholeReplies = "always"
		p := open(t, quick(pr))
		whole := collect(t.Context(), p, at(w.model, pr), buffered("say: one two three"))
		whole.expect(t, "")
		stream := collect(t.Context(), p, at(w.model, pr), ask("say: one two three"))
		stream.expect(t, "")
		if whole.text != stream.text || whole.deltas != 1 || stream.deltas != 3 {
			t.Errorf("%s: %q in %d pieces, streamed %q in %d", w.name, whole.text, whole.deltas, stream.text, stream.deltas)
		}
		a, b := whole.finished[0], stream.finished[0]
		if a.Usage.OutputTokens != b.Usage.OutputTokens || a.Usage.InputTokens == 0 || !a.HasUsage || a.Stop != b.Stop {
			t.Errorf("%s: %+v, streamed %+v", w.name, a, b)
		}
	}
	if got, want := inWhole(vendor.Served()), slices.Repeat([]bool{true, false}, len(wires)); !slices.Equal(got, want) {
		t.Errorf("whole: %v", got)
	}
}

// TestWholeWhereTheRouteIsFast checks when a whole reply is requested: once the pace of the
// route is known, if the longest reply fits into half of the timeout.
func TestWholeWhereTheRouteIsFast(t *testing.T) {
	t.Parallel()
	inBubble(t, "auto", func(t *testing.T) {
		vendor := start(t, "v.test")
		pr := vendor.Provider("chat")
		pr.Timeouts.Whole = time.Minute
		p := openPipe(t, quick(pr), vendor)
		m := at("gpt-6-luna", pr)
		limited := func(n int64, over bool) stoa.Call {
			c := buffered("tokens: 101\nslow: 10ms")
			c.MaxOutputTokens, c.LimitDefault = n, over
			return c
		}
		calls := []stoa.Call{
			limited(200, false),  // the pace is unknown
			limited(3000, false), // 3,000 × 10 ms
			limited(3100, false), // more than 30 s
			limited(1600, true),  // possibly 3,200
			limited(1500, true),  // possibly 3,000
			ask("say: a streamed call"),
		}
		for _, c := range calls {
			r := collect(t.Context(), p, m, c)
			r.expect(t, "")
		}
		if got, want := inWhole(vendor.Served()), []bool{false, true, false, false, true, false}; !slices.Equal(got, want) {
			t.Errorf("whole: %v, want %v", got, want)
		}
	})
	inBubble(t, "never", func(t *testing.T) {
		vendor := start(t, "v.test")
		pr := vendor.Provider("chat")
		pr.WholeReplies = "never"
		p := openPipe(t, quick(pr), vendor)
		for range 3 {
			collect(t.Context(), p, at("gpt-6-luna", pr), buffered("say: x")).expect(t, "")
		}
		if slices.Contains(inWhole(vendor.Served()), true) {
			t.Error("a reply was requested in one piece")
		}
	})
}

// TestFailedWholeIsMadeAsAStream makes a whole reply fail in each way; the next attempt is a
// stream on the same route.
func TestFailedWholeIsMadeAsAStream(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{
		"fault: hang", "fault: hang-body", "fault: reset", "fault: no-end", "fault: malformed", "fault: comments",
		"fault: close", "fault: error-in-stream", "fail: 504", "cut: 1", "fault: endless", "fault: huge-header",
	} {
		for _, w := range wires {
			inBubble(t, prompt+"/"+w.name, func(t *testing.T) {
				vendor := start(t, "v.test")
				pr := vendor.Provider(w.name)
				pr.WholeReplies = "always"
				pr.Timeouts = stoa.Timeouts{FirstByte: time.Hour, Idle: time.Hour, Whole: time.Second, Total: 10 * time.Hour}
				cfg := quick(pr)
				cfg.MaxReplyBytes = 1 << 20
				p := openPipe(t, cfg, vendor)
				m := at(w.model, pr)
				if prompt == "fault: comments" { // never silent: only the total time is limited
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if r := collect(ctx, p, m, buffered(prompt)); r.err == nil || r.text != "" {
						t.Errorf("%q, %v", r.text, r.err)
					}
					return
				}
				r := collect(t.Context(), p, m, buffered("flaky: 1\n"+prompt+"\nsay: one two"))
				got := inWhole(vendor.WaitEnded(t, 1))
				if prompt == "fault: endless" { // a reply that is too large is not retried
					r.expect(t, stoa.CodeUpstream)
					return
				}
				r.expect(t, "")
				if !strings.HasSuffix(r.text, "one two") || !slices.Equal(got, []bool{true, false}) {
					t.Errorf("%q, requested whole %v", r.text, got)
				}
			})
		}
	}
}

// TestVendorThatOnlyStreams refuses whole replies: the call is repeated as a stream, and all
// later calls of the route are streams. If the stream is refused too, that is the answer, and
// says nothing about whole replies.
func TestVendorThatOnlyStreams(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		for _, fail := range []string{"", "fail: 404\n", "fail: 405\n"} {
			inBubble(t, w.name+"/"+fail, func(t *testing.T) {
				vendor := start(t, "v.test")
				pr := vendor.Provider(w.name)
				pr.WholeReplies = "always"
				p := openPipe(t, quick(pr), vendor)
				m := at(w.model, pr)
				if fail != "" {
					collect(t.Context(), p, m, buffered(fail+"say: no")).expect(t, stoa.CodeUpstream)
				}
				for _, mark := range []string{"1", "2"} {
					r := collect(t.Context(), p, m, buffered("mark: "+mark+"\nfault: stream-only\n"+fail+"say: one two"))
					r.expect(t, "")
					if r.text != "one two" {
						t.Errorf("%q", r.text)
					}
				}
				want := []bool{true, false, false}
				if fail != "" {
					want = append([]bool{true, false}, want...)
				}
				if got := inWhole(vendor.WaitEnded(t, len(want))); !slices.Equal(got, want) {
					t.Errorf("whole: %v, want %v", got, want)
				}
			})
		}
	}
}

// TestDisconnectBeforeTheHeaders ends a call before the vendor answers: the reader must learn
// that the vendor has the request.
func TestDisconnectBeforeTheHeaders(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		vendor := fakeup.Start(t, fakeup.Options{TLS: !whole})
		pr := vendor.Provider("messages")
		pr.WholeReplies = map[bool]string{true: "always", false: "never"}[whole]
		cfg := quick(pr)
		if !whole { // over HTTP/2
			transport := newTransport()
			transport.TLSClientConfig = vendor.TLSConfig()
			cfg.Transport = transport
		}
		p := open(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		wrote, done := make(chan struct{}), make(chan reply)
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) }})
		go func() { done <- collect(traced, p, at("claude-haiku-4-5", pr), buffered("fault: hang")) }()
		<-wrote
		vendor.Wait(t, "the request", func(all []fakeup.Served) bool { return len(all) == 1 && all[0].Attempt == 1 })
		cancel()
		r := <-done
		if r.err != context.Canceled || !slices.Equal(r.started, []string{"messages"}) {
			t.Errorf("whole %v: %+v", whole, r)
		}
		if s := vendor.WaitEnded(t, 1)[0]; s.DisconnectedAt.IsZero() {
			t.Error("the vendor was not left")
		}
	}
}

// TestRequestThatWasNotSent ends a call while its request waits for a connection.
func TestRequestThatWasNotSent(t *testing.T) {
	t.Parallel()
	for _, whole := range []string{"always", "never"} {
		vendor := fakeup.Start(t)
		pr := vendor.Provider("messages")
		pr.WholeReplies = whole
		ctx, cancel := context.WithCancel(t.Context())
		cfg := quick(pr)
		cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			cancel()
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		if r := collect(ctx, open(t, cfg), at("claude-haiku-4-5", pr), buffered("hi")); len(r.started) != 0 || r.err != context.Canceled {
			t.Errorf("whole %s: %+v", whole, r)
		}
	}
}

// TestRequestThatLiesInABuffer ends a call whose request net/http reports as written although
// it was not sent.
func TestRequestThatLiesInABuffer(t *testing.T) {
	t.Parallel()
	for _, whole := range []string{"always", "never"} {
		vendor := fakeup.Start(t)
		pr := vendor.Provider("messages")
		pr.WholeReplies = whole
		ctx, cancel := context.WithCancel(t.Context())
		transport := newTransport()
		transport.DialContext = counted(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe() // written bytes are only sent when they are read, so never
			t.Cleanup(func() { theirs.Close() })
			return atWrite{ours, cancel}, nil
		})
		cfg := quick(pr)
		cfg.Transport = transport
		if r := collect(ctx, open(t, cfg), at("claude-haiku-4-5", pr), buffered("hi")); len(r.started) != 0 || r.err != context.Canceled {
			t.Errorf("whole %s: %+v", whole, r)
		}
	}
}

// atWrite calls a function before something is written.
type atWrite struct {
	net.Conn
	do func()
}

func (c atWrite) Write(p []byte) (int, error) {
	c.do()
	return c.Conn.Write(p)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
