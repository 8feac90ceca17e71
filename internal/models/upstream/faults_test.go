package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakeup"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		prompt   string
		code     stoa.Code
		attempts int // received by the vendor
		started  int // Started events
		deltas   int // minimum
		change   func(*Config)
		took     time.Duration // exact; 0 means not checked
		socket   bool          // needs a real socket
	}{
		{name: "a server error is retried twice", prompt: "fail: 500", code: stoa.CodeUpstream, attempts: 3},
		{name: "an overload is retried twice", prompt: "fail: 529", code: stoa.CodeOverloaded, attempts: 3},
		{name: "a rate limit is retried twice", prompt: "fail: 429", code: stoa.CodeOverloaded, attempts: 3},
		{name: "a long retry-after is not waited for", prompt: "fail: 429\nretry-after: 8", code: stoa.CodeOverloaded, attempts: 1},
		{name: "a fault that passes is retried", prompt: "flaky: 2\nfail: 503\ntokens: 4", attempts: 3, started: 1, deltas: 4},
		{name: "an empty reply at the second try", prompt: "flaky: 1\nfail: 500\nempty", attempts: 2, started: 1},
		{name: "a fault in the stream that passes is retried", prompt: "flaky: 1\nfault: error-in-stream\ntokens: 4", attempts: 2, started: 2, deltas: 4},
		{name: "our key is refused", prompt: "fail: 401", code: stoa.CodeUpstream, attempts: 1},
		{name: "our bill is not paid", prompt: "fail: 402", attempts: 1, code: "502 or 503"},
		{name: "our right is missing", prompt: "fail: 403", code: stoa.CodeUpstream, attempts: 1},
		{name: "the upstream model is unknown", prompt: "fail: 404", code: stoa.CodeUpstream, attempts: 1},
		{name: "no headers come", prompt: "fault: hang", code: stoa.CodeUpstreamTimeout, attempts: 1, change: shortWaits, took: 200 * time.Millisecond},
		{name: "nothing follows the headers", prompt: "fault: hang-body", code: stoa.CodeUpstreamTimeout, attempts: 1, started: 1, change: shortWaits, took: 200 * time.Millisecond},
		{name: "nothing follows some text", prompt: "fault: hang-body after 3\ntokens: 9", code: stoa.CodeUpstreamTimeout, attempts: 1, started: 1, deltas: 3, change: shortWaits, took: 200 * time.Millisecond},
		{name: "comments alone do not outlast the total", prompt: "fault: comments after 2\ntokens: 9", code: stoa.CodeUpstreamTimeout, attempts: 1, started: 1, deltas: 2, change: shortTotal, took: 300 * time.Millisecond},
		{name: "bytes come one at a time", prompt: "fault: drip\ntokens: 9", attempts: 1, started: 1, deltas: 9},
		{name: "the connection is closed before the headers", prompt: "fault: close", code: stoa.CodeUpstream, attempts: 3},
		{name: "the connection is reset before the text", prompt: "fault: reset", code: stoa.CodeUpstream, attempts: 3, started: 3, socket: true},
		{name: "the connection is reset in the text", prompt: "fault: reset after 3\ntokens: 9", code: stoa.CodeUpstream, attempts: 1, started: 1, deltas: 0, socket: true},
		{name: "the stream is cut before the text", prompt: "cut: 0\ntokens: 9", code: stoa.CodeUpstream, attempts: 3, started: 3},
		{name: "the stream is cut in the text", prompt: "cut: 3\ntokens: 9", code: stoa.CodeUpstream, attempts: 1, started: 1, deltas: 3},
		{name: "the format's end is missing", prompt: "fault: no-end\ntokens: 9", code: stoa.CodeUpstream, attempts: 1, started: 1, deltas: 9},
		{name: "an event is no JSON", prompt: "fault: malformed after 2\ntokens: 9", code: stoa.CodeUpstream, attempts: 1, started: 1, deltas: 2},
		{name: "an overload is told inside the stream, first", prompt: "fault: error-in-stream\ntokens: 9", code: stoa.CodeOverloaded, attempts: 3, started: 3},
		{name: "an overload is told inside the text", prompt: "fail: 529 after 2\ntokens: 9", code: "502 or 503", attempts: 1, started: 1, deltas: 2},
		{name: "a line is huge", prompt: "fault: huge-line after 1\ntokens: 9", code: stoa.CodeUpstream, attempts: 1, started: 1, deltas: 1},
		{name: "a header is huge", prompt: "fault: huge-header", code: stoa.CodeUpstream, attempts: 3},
		{name: "text never ends", prompt: "fault: endless", code: stoa.CodeUpstream, attempts: 1, started: 1, deltas: 100, change: smallReply},
		{name: "a web page comes", prompt: "fault: html", code: stoa.CodeUpstream, attempts: 3},
		{name: "a redirect is not followed", prompt: "fault: redirect", code: stoa.CodeUpstream, attempts: 1},
		{name: "an empty body", prompt: "fault: empty-body", code: stoa.CodeUpstream, attempts: 3, started: 3},
		{name: "no content", prompt: "fault: no-content", code: stoa.CodeUpstream, attempts: 3},
		{name: "an empty reply that has an end", prompt: "empty", attempts: 1, started: 1},
		{name: "no usage is told", prompt: "usage: none\ntokens: 4", attempts: 1, started: 1, deltas: 4},
		{name: "an absurd usage is told", prompt: "usage: huge\ntokens: 4", attempts: 1, started: 1, deltas: 4},
		{name: "a negative usage is told", prompt: "usage: negative\ntokens: 4", attempts: 1, started: 1, deltas: 4},
		{name: "the limit is reached", prompt: "stop: length\ntokens: 4", attempts: 1, started: 1, deltas: 4},
		{name: "a filter ends it", prompt: "stop: content_filter\ntokens: 4", attempts: 1, started: 1, deltas: 4},
	}
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			for _, tt := range tests {
				run := func(t *testing.T) {
					fake := start(t, "fake.test")
					if tt.socket {
						fake = fakeup.Start(t)
					}
					pr := fake.Provider(w.name)
					cfg := quick(pr)
					if tt.change != nil {
						tt.change(&cfg)
					}
					p := openPipe(t, cfg, fake)
					if tt.socket {
						p = open(t, cfg)
					}
					began := time.Now()
					r := collect(t.Context(), p, at(w.model, pr), ask(tt.prompt))
					if tt.code == "502 or 503" {
						if c := stoa.CodeOf(r.err); c != stoa.CodeUpstream && c != stoa.CodeOverloaded && c != stoa.CodeModelUnavailable {
							t.Errorf("the stream ended with %q", c)
						}
					} else {
						r.expect(t, tt.code)
					}
					if took := time.Since(began); !tt.socket && (took > 4*time.Second || tt.took != 0 && took != tt.took) {
						t.Errorf("it took %v, want %v", took, tt.took)
					}
					if r.deltas < tt.deltas {
						t.Errorf("%d deltas came, want at least %d", r.deltas, tt.deltas)
					}
					if len(r.started) != tt.started {
						t.Errorf("started %d times, want %d", len(r.started), tt.started)
					}
					if got := len(fake.WaitEnded(t, tt.attempts)); got != tt.attempts {
						t.Errorf("the vendor saw %d attempts, want %d", got, tt.attempts)
					}
					if s := p.Stats(); s.Active != 0 || s.Retrying != 0 || s.Providers[0].InFlight != 0 {
						t.Errorf("something is left in flight: %+v", s)
					}
					if r.err != nil && strings.Contains(stoa.AsError(r.err).Message, "fake") {
						t.Errorf("the caller gets the vendor's words: %v", r.err)
					}
				}
				if tt.socket {
					t.Run(tt.name, run)
				} else {
					inBubble(t, tt.name, run)
				}
			}
		})
	}
}

func shortWaits(c *Config) {
	c.DefaultTimeout = stoa.Timeouts{FirstByte: 200 * time.Millisecond, Idle: 200 * time.Millisecond}
}
func shortTotal(c *Config) { c.DefaultTimeout = stoa.Timeouts{Total: 300 * time.Millisecond} }
func smallReply(c *Config) { c.MaxReplyBytes = 1 << 20 }

func TestTextIsAlwaysUTF8(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			r := collect(t.Context(), open(t, quick(pr)), at(w.model, pr), ask("fault: bad-utf8 after 1\ntokens: 3"))
			if !utf8.ValidString(r.text) {
				t.Errorf("%q is not UTF-8", r.text)
			}
		})
	}
}

func TestReaderMayTakeLongerThanIdleTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := start(t, "fake.test")
		pr := fake.Provider("messages")
		cfg := quick(pr)
		cfg.DefaultTimeout.Idle = 30 * time.Millisecond
		p := openPipe(t, cfg, fake)
		deltas := 0
		for ev, err := range p.Stream(t.Context(), at("claude-haiku-4-5", pr), longAsk("tokens: 3000")) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == stoa.Delta {
				if deltas++; deltas == 1 {
					<-time.After(100 * time.Millisecond) // the reader is slow, the vendor is not
				}
			}
		}
		if deltas != 3000 {
			t.Errorf("%d deltas came", deltas)
		}
	})
}

func longAsk(prompt string) stoa.Call {
	c := ask(prompt)
	c.MaxOutputTokens = 10_000
	return c
}

func TestCancelStopsTheVendorAtOnce(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{"fault: hang", "fault: hang-body", "fault: hang-body after 3\ntokens: 9", "fault: endless"} {
		inBubble(t, prompt, func(t *testing.T) {
			fake := start(t, "fake.test")
			pr := fake.Provider("messages")
			p := openPipe(t, quick(pr), fake)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan reply)
			go func() { done <- collect(ctx, p, at("claude-haiku-4-5", pr), ask(prompt)) }()
			fake.Wait(t, "the request", func(s []fakeup.Served) bool {
				return len(s) == 1 && (prompt == "fault: hang" || s[0].Status == 200)
			})
			left := time.Now()
			cancel()
			r := <-done
			if r.err != context.Canceled {
				t.Errorf("the stream ended with %v", r.err)
			}
			s := fake.WaitEnded(t, 1)
			if !s[0].DisconnectedAt.Equal(left) {
				t.Errorf("the vendor saw the disconnect at %v, the caller left at %v", s[0].DisconnectedAt, left)
			}
			if len(s) != 1 {
				t.Errorf("%d attempts were made", len(s))
			}
			if st := p.Stats(); st.Providers[0].Routes[0].Failures != 0 {
				t.Error("the caller's disconnect counts as the route's failure")
			}
		})
	}
}

func TestReaderThatStopsClosesTheConnection(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			stopRanging(t, open(t, quick(pr)), at(w.model, pr), fake)
		})
		inBubble(t, w.name+" at once", func(t *testing.T) {
			fake := start(t, "fake.test")
			pr := fake.Provider(w.name)
			if d := stopRanging(t, openPipe(t, quick(pr), fake), at(w.model, pr), fake); d != 0 {
				t.Errorf("the vendor saw the disconnect after %v", d)
			}
		})
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	fake := fakeup.Start(t)
	pr := fake.Provider("messages")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := collect(ctx, open(t, quick(pr)), at("claude-haiku-4-5", pr), ask("hi")); r.err != context.Canceled {
		t.Errorf("got %v", r.err)
	}
	if n := len(fake.Served()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}
