package upstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// TestALimitOfOursIsNoFaultOfARoute ends replies at limits of this service after some text:
// the failure says so, and the circuit stays closed regardless of their number.
func TestALimitOfOursIsNoFaultOfARoute(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prompt string
		change func(*Config)
		cut    bool
	}{
		"the total timeout": {"fault: hang-body after 2\ntokens: 9", shortTotal, true},
		"the largest reply": {"fault: endless", smallReply, true},
		"the idle timeout":  {"fault: hang-body after 2\ntokens: 9", shortWaits, false},
		"a broken reply":    {"fault: no-end\ntokens: 9", func(*Config) {}, false},
	} {
		for _, w := range wires {
			inBubble(t, name+"/"+w.name, func(t *testing.T) {
				fake := start(t, "fake.test")
				pr := fake.Provider(w.name)
				cfg := quick(pr)
				tt.change(&cfg)
				p := openPipe(t, cfg, fake)
				m := at(w.model, pr)
				for range breakerFailures {
					var trail stoa.Trail
					call := ask(tt.prompt)
					call.Trail = &trail
					r := collect(t.Context(), p, m, call)
					fail, ok := errors.AsType[*wire.Failure](r.err)
					if !ok || fail.Cut != tt.cut || trail.Void == tt.cut || r.text == "" {
						t.Fatalf("%q, then %+v, void %v", r.text, r.err, trail.Void)
					}
				}
				if p.Healthy("", m) != tt.cut {
					t.Errorf("healthy: %v", !tt.cut)
				}
			})
		}
	}
}

// TestACutReplyIsNotMadeAgain cuts a reply that no reader has seen, although another route
// could begin it again.
func TestACutReplyIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := start(t, "one.test"), start(t, "two.test")
		a, b := named(one.Provider("messages"), "one"), named(two.Provider("messages"), "two")
		a.Timeouts.Total = 200 * time.Millisecond
		p := openPipe(t, quick(a, b), one, two)
		r := collect(t.Context(), p, at("claude-haiku-4-5", a, b), buffered("fault: hang-body after 2\ntokens: 9"))
		r.expect(t, stoa.CodeUpstreamTimeout)
		if len(two.Served()) != 0 || r.text != "word word" {
			t.Errorf("%q, then %d requests to the second route", r.text, len(two.Served()))
		}
	})
}

// TestAnAttemptThatFailedIsVoid disconnects while a retry waits: the output of the failed
// attempt does not count.
func TestAnAttemptThatFailedIsVoid(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{"fail: 500", "fault: error-in-stream"} {
		synctest.Test(t, func(t *testing.T) {
			fake := start(t, "fake.test")
			pr := fake.Provider("messages")
			cfg := quick(pr)
			cfg.Backoff = time.Hour
			cfg.DefaultTimeout.Total = 10 * time.Hour
			var trail stoa.Trail
			call := ask(prompt)
			call.Trail = &trail
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(time.Minute, cancel).Stop()
			if r := collect(ctx, openPipe(t, cfg, fake), at("claude-haiku-4-5", pr), call); r.err != context.Canceled || !trail.Void {
				t.Errorf("%s: %v, void %v", prompt, r.err, trail.Void)
			}
		})
	}
}

// TestASlowReaderGetsItsWholeReply reads a reply for longer than the total timeout.
func TestASlowReaderGetsItsWholeReply(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		inBubble(t, w.name, func(t *testing.T) {
			fake := start(t, "fake.test")
			pr := fake.Provider(w.name)
			cfg := quick(pr)
			shortTotal(&cfg)
			deltas := 0
			for ev, err := range openPipe(t, cfg, fake).Stream(t.Context(), at(w.model, pr), longAsk("tokens: 3000")) {
				if err != nil {
					t.Fatalf("after %d deltas: %v", deltas, err)
				}
				if ev.Kind == stoa.Delta {
					deltas++
					time.Sleep(time.Millisecond)
				}
			}
			if deltas != 3000 {
				t.Errorf("%d deltas", deltas)
			}
		})
	}
}

// TestWhichPartsOfRepliesAreKept fails replies after some text, before the reader was late
// and after.
func TestWhichPartsOfRepliesAreKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prompt       string
		change       func(*Config)
		kept, toLate stoa.Adjustments // 0 means that it is free
	}{
		"the total timeout": {"fault: hang-body after 2\ntokens: 9", shortTotal, stoa.ReplyCut, stoa.ReplyCut},
		"the idle timeout":  {"fault: hang-body after 2\ntokens: 9", shortWaits, 0, stoa.ReplyCut},
		"an invalid event":  {"fault: malformed after 2\ntokens: 9", func(*Config) {}, 0, stoa.ReplyCut},
		"no end":            {"cut: 2\ntokens: 9", func(*Config) {}, 0, stoa.ReplyCut},
		"an error event":    {"fail: 529 after 2\ntokens: 9", func(*Config) {}, 0, stoa.ReplyCut},
	} {
		for _, w := range wires {
			inBubble(t, name+"/"+w.name, func(t *testing.T) {
				fake := start(t, "fake.test")
				pr := fake.Provider(w.name)
				cfg := quick(pr)
				tt.change(&cfg)
				for _, reader := range []struct {
					keeps, late bool
					want        stoa.Adjustments
				}{{true, false, tt.kept}, {true, true, tt.toLate}, {false, true, tt.kept}} {
					var trail stoa.Trail
					call := ask(tt.prompt)
					call.Trail, call.KeepsParts = &trail, reader.keeps
					var err error
					text := ""
					for ev, failed := range openPipe(t, cfg, fake).Stream(t.Context(), at(w.model, pr), call) {
						if err = failed; err == nil && ev.Kind == stoa.Delta {
							if text += ev.Text; text == "word" && reader.late {
								time.Sleep(slowReader + time.Second)
							}
						}
					}
					fail, ok := errors.AsType[*wire.Failure](err)
					if !ok || text == "" || fail.Cut != (reader.want != 0) || trail.Void == fail.Cut || trail.Cut != reader.want {
						t.Errorf("%+v: %q, %+v, %+v", reader, text, err, trail)
					}
				}
			})
		}
	}
}
