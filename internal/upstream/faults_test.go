package upstream

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"stoa/internal/fakeup"
	"stoa/internal/stoa"
)

func TestFaults(t *testing.T) {
	tests := []struct {
		name     string
		prompt   string
		code     stoa.Code
		attempts int // that reach the vendor
		started  int // Started events; -1: any number
		deltas   int // at least
		change   func(*Config)
		skip     string // a wire that has no such thing
	}{
		{name: "a server error is retried twice", prompt: "fail: 500", code: stoa.CodeUpstream, attempts: 3},
		{name: "an overload is retried twice", prompt: "fail: 529", code: stoa.CodeOverloaded, attempts: 3},
		{name: "a rate limit is retried twice", prompt: "fail: 429", code: stoa.CodeOverloaded, attempts: 3},
		{name: "a long retry-after is not waited for", prompt: "fail: 429\nretry-after: 8", code: stoa.CodeOverloaded, attempts: 1},
		{name: "a fault that passes is made up for", prompt: "flaky: 2\nfail: 503\ntokens: 4", attempts: 3, started: 1, deltas: 4},
		{name: "an empty reply at the second try", prompt: "flaky: 1\nfail: 500\nempty", attempts: 2, started: 1},
		{name: "a fault in the stream that passes is made up for", prompt: "flaky: 1\nfault: error-in-stream\ntokens: 4", attempts: 2, started: 2, deltas: 4},
		{name: "our key is refused", prompt: "fail: 401", code: stoa.CodeUpstream, attempts: 1},
		{name: "our bill is not paid", prompt: "fail: 402", attempts: 1, code: "502 or 503"},
		{name: "our right is missing", prompt: "fail: 403", code: stoa.CodeUpstream, attempts: 1},
		{name: "the upstream model is unknown", prompt: "fail: 404", code: stoa.CodeUpstream, attempts: 1},
		{name: "no headers come", prompt: "fault: hang", code: stoa.CodeUpstreamTimeout, attempts: 1, change: hasty},
		{name: "nothing follows the headers", prompt: "fault: hang-body", code: stoa.CodeUpstreamTimeout, attempts: 1, started: 1, change: hasty},
		{name: "nothing follows some text", prompt: "fault: hang-body after 3\ntokens: 9", code: stoa.CodeUpstreamTimeout, attempts: 1, started: 1, deltas: 3, change: hasty},
		{name: "comments alone do not outlast the total", prompt: "fault: comments after 2\ntokens: 9", code: stoa.CodeUpstreamTimeout, attempts: 1, started: 1, deltas: 2, change: shortTotal},
		{name: "bytes come one at a time", prompt: "fault: drip\ntokens: 9", attempts: 1, started: 1, deltas: 9},
		{name: "the connection is closed before the headers", prompt: "fault: close", code: stoa.CodeUpstream, attempts: 3},
		{name: "the connection is reset before the text", prompt: "fault: reset", code: stoa.CodeUpstream, attempts: 3, started: 3},
		{name: "the connection is reset in the text", prompt: "fault: reset after 3\ntokens: 9", code: stoa.CodeUpstream, attempts: 1, started: 1, deltas: 0},
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
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					cfg := quick(pr)
					if tt.change != nil {
						tt.change(&cfg)
					}
					p := open(t, cfg)
					before := len(fake.Served())
					began := time.Now()
					r := collect(t.Context(), p, at(w.model, pr), ask(tt.prompt))
					if tt.code == "502 or 503" {
						if c := stoa.CodeOf(r.err); c != stoa.CodeUpstream && c != stoa.CodeOverloaded && c != stoa.CodeModelUnavailable {
							t.Errorf("the stream ended with %q", c)
						}
					} else {
						r.expect(t, tt.code)
					}
					if took := time.Since(began); took > 4*time.Second {
						t.Errorf("it took %v", took)
					}
					if r.deltas < tt.deltas {
						t.Errorf("%d deltas came, want at least %d", r.deltas, tt.deltas)
					}
					if len(r.started) != tt.started && tt.started >= 0 {
						t.Errorf("started %d times, want %d", len(r.started), tt.started)
					}
					if got := len(fake.WaitEnded(t, before+tt.attempts)) - before; got != tt.attempts {
						t.Errorf("the vendor saw %d attempts, want %d", got, tt.attempts)
					}
					if s := p.Stats(); s.Active != 0 || s.Retrying != 0 || s.Providers[0].InFlight != 0 {
						t.Errorf("something is left in flight: %+v", s)
					}
					if r.err != nil && strings.Contains(stoa.AsError(r.err).Message, "fake") {
						t.Errorf("the caller is told the vendor's words: %v", r.err)
					}
				})
			}
		})
	}
}

func hasty(c *Config) {
	c.DefaultTimeout = stoa.Timeouts{FirstByte: 200 * time.Millisecond, Idle: 200 * time.Millisecond}
}
func shortTotal(c *Config) { c.DefaultTimeout = stoa.Timeouts{Total: 300 * time.Millisecond} }
func smallReply(c *Config) { c.MaxReplyBytes = 1 << 20 }

func TestTextIsAlwaysUTF8(t *testing.T) {
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

func TestTheReaderMayTakeLongerThanTheIdleTimeout(t *testing.T) {
	fake := fakeup.Start(t)
	pr := fake.Provider("messages")
	cfg := quick(pr)
	cfg.DefaultTimeout.Idle = 30 * time.Millisecond
	p := open(t, cfg)
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
}

func longAsk(prompt string) stoa.Call {
	c := ask(prompt)
	c.MaxOutputTokens = 10_000
	return c
}

func TestCancellingTheContextStopsTheVendorAtOnce(t *testing.T) {
	for _, prompt := range []string{"fault: hang", "fault: hang-body", "fault: hang-body after 3\ntokens: 9", "fault: endless"} {
		t.Run(prompt, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider("messages")
			p := open(t, quick(pr))
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
			if d := s[0].HungUpAt.Sub(left); s[0].HungUpAt.IsZero() || d > 100*time.Millisecond {
				t.Errorf("the vendor noticed after %v", d)
			}
			if len(s) != 1 {
				t.Errorf("%d attempts were made", len(s))
			}
			if st := p.Stats(); st.Providers[0].Routes[0].Failures != 0 {
				t.Error("the caller's leaving counts as the route's failure")
			}
		})
	}
}

func TestAReaderThatStopsHangsUp(t *testing.T) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			hangUp(t, open(t, quick(pr)), at(w.model, pr), fake)
		})
	}
}

func TestAContextThatHasEndedReachesNobody(t *testing.T) {
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
