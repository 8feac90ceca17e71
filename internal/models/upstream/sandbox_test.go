package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
)

func sandboxModel() stoa.Model {
	return stoa.Model{ID: "alpha-haiku-4-5", Routes: []stoa.Route{{Provider: "sandbox", Model: "alpha-haiku-4-5", Wire: "sandbox"}}}
}

func TestSandboxIsServedLikeAVendor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		prompt  string
		code    stoa.Code
		started int
		deltas  int
	}{
		{prompt: "say: hello you", started: 1, deltas: 2},
		{prompt: "fail: 429", code: stoa.CodeOverloaded},
		{prompt: "fail: 529", code: stoa.CodeOverloaded},
		{prompt: "fail: 500", code: stoa.CodeUpstream},
		{prompt: "fail: 401", code: stoa.CodeUpstream},
		{prompt: "fail: 400", code: stoa.CodeInvalidPrompt},
		{prompt: "fail: 529 after 3\ntokens: 9", code: stoa.CodeOverloaded, started: 1, deltas: 3},
		{prompt: "cut: 3\ntokens: 9", code: stoa.CodeUpstream, started: 1, deltas: 3},
		{prompt: "wait: 10s", code: stoa.CodeUpstreamTimeout},
		{prompt: "slow: 10s\ntokens: 9", code: stoa.CodeUpstreamTimeout, started: 1, deltas: 1},
		{prompt: "empty", started: 1},
	}
	cfg := quick()
	cfg.DefaultTimeout = stoa.Timeouts{FirstByte: 50 * time.Millisecond, Idle: 50 * time.Millisecond}
	for _, tt := range tests {
		inBubble(t, tt.prompt, func(t *testing.T) {
			p := open(t, cfg)
			began := time.Now()
			r := collect(t.Context(), p, sandboxModel(), ask(tt.prompt))
			r.expect(t, tt.code)
			if len(r.started) != tt.started || r.deltas != tt.deltas {
				t.Errorf("started %d times, %d deltas; want %d, %d", len(r.started), r.deltas, tt.started, tt.deltas)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestSandboxNamesTheModel(t *testing.T) {
	t.Parallel()
	r := collect(t.Context(), open(t, quick()), sandboxModel(), ask("hello"))
	r.expect(t, "")
	if !strings.Contains(r.text, "alpha-haiku-4-5") || len(r.started) != 1 || r.started[0] != "sandbox" {
		t.Errorf("started by %q, said %q", r.started, r.text)
	}
}

func TestSandboxFailuresKeepTheCircuitClosed(t *testing.T) {
	t.Parallel()
	p := open(t, quick())
	for range 3 * breakerFailures {
		collect(t.Context(), p, sandboxModel(), ask("fail: 500")).expect(t, stoa.CodeUpstream)
	}
	if !p.Healthy("", sandboxModel()) {
		t.Error("the sandbox's circuit opened")
	}
}

func TestSandboxStopsWithItsReader(t *testing.T) { synctest.Test(t, sandboxStops) }

func sandboxStops(t *testing.T) {
	p := open(t, quick())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for ev, err := range p.Stream(ctx, sandboxModel(), ask("slow: 10ms\ntokens: 1000")) {
		if err != nil {
			if err != context.Canceled {
				t.Errorf("got %v", err)
			}
			continue
		}
		if ev.Kind == stoa.Delta {
			cancel()
		}
	}
	for range p.Stream(t.Context(), sandboxModel(), ask("tokens: 1000")) {
		break
	}
	if s := p.Stats(); s.Active != 0 {
		t.Errorf("left: %+v", s)
	}
}
