package gateway

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
	"stoa/internal/models/wire"
)

// A poolFunc is a pool that is one function.
type poolFunc func(call stoa.Call, yield func(*stoa.Event, error) bool)

func (poolFunc) Healthy(string, stoa.Model) bool  { return true }
func (poolFunc) Timeout(stoa.Model) time.Duration { return time.Minute }

func (f poolFunc) Stream(_ context.Context, _ stoa.Model, call stoa.Call) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) { f(call, yield) }
}

func hello(limit int64) stoa.Call {
	return stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}, MaxOutputTokens: limit}
}

func TestLimitFitsTheContext(t *testing.T) {
	t.Parallel()
	models := map[string]stoa.ModelChange{
		"small":   {Family: "local", Price: &stoa.Tariff{Input: 10, Output: 10}, ContextTokens: 4096},
		"unknown": {Family: "local", Price: &stoa.Tariff{Input: 10, Output: 10}},
		"set":     {Family: "local", Price: &stoa.Tariff{Input: 10, Output: 10}, ContextTokens: 40960, DefaultOutput: 2000},
	}
	for name, tt := range map[string]struct {
		model     string
		call      stoa.Call
		limit     int64
		byDefault bool
	}{
		"nothing named":              {"small", hello(0), 4096 - 5, true},
		"more than there is":         {"small", hello(5000), 4096 - 5, false},
		"less":                       {"small", hello(100), 100, false},
		"little is left":             {"small", stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, strings.Repeat("long ", 2600))}}, 512, true},
		"an unknown context":         {"unknown", hello(0), stoa.DefaultOutput, true},
		"the operator's own default": {"set", hello(0), 2000, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent stoa.Call
			pool := poolFunc(func(call stoa.Call, yield func(*stoa.Event, error) bool) {
				sent = call
				yield(&stoa.Event{Kind: stoa.Finished, Stop: stoa.StopEnd}, nil)
			})
			h := open(t, pool, catalog.Options{Models: models, Sandbox: "always"}, stoa.Credit)
			s, err := h.Respond(t.Context(), h.caller(true), Request{ID: stoa.NewID("resp"), Model: tt.model, Call: tt.call})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range s.Events(t.Context()) {
			}
			if sent.MaxOutputTokens != tt.limit || sent.LimitDefault != tt.byDefault || sent.Account != h.account.ID {
				t.Errorf("sent a limit of %d, default %v, for account %q; want %d, %v", sent.MaxOutputTokens, sent.LimitDefault, sent.Account, tt.limit, tt.byDefault)
			}
		})
	}
}

func TestRejectedDefaultLimitMeansLongInput(t *testing.T) {
	t.Parallel()
	rejected := &wire.Failure{Err: stoa.Errorf(stoa.CodeInvalidValue, "lower it").At("max_output_tokens"), Caller: true, Detail: "as the vendor says"}
	for limit, want := range map[int64]stoa.Code{0: stoa.CodeContextLength, 500: stoa.CodeInvalidValue} {
		h := open(t, script{"alpha-haiku-4-5": []any{rejected}}, catalog.Options{}, stoa.Credit)
		s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: hello(limit)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, err = range s.Events(t.Context()) {
		}
		if stoa.CodeOf(err) != want || !strings.Contains(err.Error(), "as the vendor says") {
			t.Errorf("with limit %d: %v", limit, err)
		}
	}
}

func TestReplyFarBeyondTheLimitIsCut(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]stoa.Event{
		"words":      {Kind: stoa.Delta, Text: " word"},
		"characters": {Kind: stoa.Delta, Text: "a"},
		"batches":    {Kind: stoa.Delta, Text: strings.Repeat("some words of it ", 100)},
		"thinking":   {Kind: stoa.Thinking, Thinking: 40},
	} {
		t.Run(name, func(t *testing.T) {
			sent, stopped := 0, false
			pool := poolFunc(func(_ stoa.Call, yield func(*stoa.Event, error) bool) {
				yield(&stoa.Event{Kind: stoa.Started, Provider: "p"}, nil)
				for !stopped && sent < 1_000_000 {
					sent++
					stopped = !yield(&piece, nil)
				}
			})
			h := open(t, pool, catalog.Options{}, stoa.Credit)
			s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: hello(16)})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var last stoa.Event
			for ev, err := range s.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				last = *ev
			}
			if !stopped || sent > 12*(2*16+outputSlack)+12 {
				t.Errorf("stopped %v after %d pieces", stopped, sent)
			}
			if last.Kind != stoa.Finished || last.Stop != stoa.StopLength {
				t.Errorf("it ends with %+v", last)
			}
			c, err := s.Settle(t.Context())
			if err != nil || c.Usage != (stoa.Usage{InputTokens: 5, OutputTokens: 16}) || !c.Estimated || c.State != "incomplete" {
				t.Errorf("charged %+v, %v", c, err)
			}
		})
	}
}

// A reply within its limit is never cut, regardless of its pieces.
func TestReplyWithinTheLimitIsNotCut(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words":   strings.Repeat(" word", 300),
		"letters": strings.Repeat("a", 1200),
		"hindi":   strings.Repeat("नमस्ते ", 120),
		"russian": strings.Repeat("предложение ", 110),
	} {
		events := []any{stoa.Event{Kind: stoa.Started, Provider: "p"}}
		step := 1
		if name != "letters" {
			step = 3
		}
		for runes := []rune(text); len(runes) > 0; runes = runes[min(step, len(runes)):] {
			events = append(events, stoa.Event{Kind: stoa.Delta, Text: string(runes[:min(step, len(runes))])})
		}
		usage := stoa.Usage{InputTokens: 5, OutputTokens: 300}
		events = append(events, stoa.Event{Kind: stoa.Finished, Stop: stoa.StopLength, Usage: usage, HasUsage: true})
		h := open(t, script{"alpha-haiku-4-5": events}, catalog.Options{}, stoa.Credit)
		if c, err := h.respond(t, h.caller(false), "alpha-haiku-4-5"); err != nil || c.Usage != usage || c.Estimated {
			t.Errorf("%s: charged %+v, %v", name, c, err)
		}
	}
}

func TestUncountedUsageIsEstimated(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		told, want stoa.Usage
		estimated  bool
	}{
		"nothing":   {stoa.Usage{}, stoa.Usage{InputTokens: 5, OutputTokens: 3}, true},
		"no output": {stoa.Usage{InputTokens: 9}, stoa.Usage{InputTokens: 9, OutputTokens: 3}, true},
		"no input":  {stoa.Usage{OutputTokens: 2}, stoa.Usage{InputTokens: 5, OutputTokens: 2}, true},
		"both":      {stoa.Usage{InputTokens: 9, OutputTokens: 2}, stoa.Usage{InputTokens: 9, OutputTokens: 2}, false},
	} {
		h := open(t, script{"alpha-haiku-4-5": reply("some text", tt.told)}, catalog.Options{}, stoa.Credit)
		c, err := h.respond(t, h.caller(false), "alpha-haiku-4-5")
		if err != nil || c.Usage != tt.want || c.Estimated != tt.estimated {
			t.Errorf("%s: charged %+v, estimated %v, %v", name, c.Usage, c.Estimated, err)
		}
	}
}

func TestBufferedReplyBeginsAgain(t *testing.T) {
	t.Parallel()
	started := stoa.Event{Kind: stoa.Started, Provider: "p"}
	broken := []any{started, stoa.Event{Kind: stoa.Delta, Text: "some words of a reply that breaks"}, down}
	for _, buffered := range []bool{true, false} {
		h := open(t, script{"beta-3.8-flash": broken, "gamma-6-luna": reply("x", stoa.Usage{InputTokens: 3, OutputTokens: 1})},
			catalog.Options{Auto: []string{"beta-3.8-flash", "gamma-6-luna"}}, stoa.Credit)
		s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "auto", Call: hello(0), Buffered: buffered})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		text := ""
		for ev, e := range s.Events(t.Context()) {
			if err = e; e != nil {
				break
			}
			switch ev.Kind {
			case stoa.Started:
				text = ""
			case stoa.Delta:
				text += ev.Text
			}
		}
		if !buffered {
			if err == nil {
				t.Error("a reply began again after its caller had read text")
			}
			continue
		}
		c, chargeErr := s.Settle(t.Context())
		if err != nil || chargeErr != nil || text != "x" || c.Usage != (stoa.Usage{InputTokens: 3, OutputTokens: 1}) || c.Served != "gamma-6-luna" || c.Estimated {
			t.Errorf("%q, charged %+v, %v, %v", text, c, err, chargeErr)
		}
		if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Held != 0 || b.Spent != c.Amount {
			t.Errorf("%+v, %v", b, err)
		}
	}
}

// Agents answer a cut reply by a call with a higher limit. If the credits cut it, they cover even less of that one.
func TestAfterACutByCreditsLessIsRefused(t *testing.T) {
	t.Parallel()
	pool := poolFunc(func(call stoa.Call, yield func(*stoa.Event, error) bool) {
		usage := stoa.Usage{InputTokens: 5, OutputTokens: call.MaxOutputTokens / 2} // the credits cover some more
		for _, ev := range []stoa.Event{
			{Kind: stoa.Started, Provider: "p"},
			{Kind: stoa.Delta, Text: strings.Repeat(" word", int(usage.OutputTokens))},
			{Kind: stoa.Finished, Stop: stoa.StopLength, Usage: usage, HasUsage: true},
		} {
			yield(&ev, nil)
		}
	})
	models := map[string]stoa.ModelChange{"small": {Family: "local", Price: &stoa.Tariff{Input: 1_000_000, Output: 1_000_000}, ContextTokens: 100_000}}
	h := open(t, pool, catalog.Options{Models: models, Sandbox: "always"}, 2_005)
	for i, step := range []struct {
		endUser string
		limit   int64
		topUp   stoa.Credits
		output  int64 // 0: refused
	}{
		{"", 0, 0, 1000}, // of 8192
		{"", 8192, 0, 0},
		{"", 0, 0, 0},
		{"", 400, 0, 200}, // covered
		{"", 8192, 0, 0},
		{"another", 8192, 0, 395},
		{"another", 8192, 0, 0},
		{"another", 8192, 20_000, 4096},
	} {
		if step.topUp > 0 {
			if _, _, err := h.ledger.Grant(t.Context(), stoa.Grant{AccountID: h.account.ID, Amount: step.topUp, Reason: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		s, err := h.Respond(t.Context(), h.caller(true), Request{ID: stoa.NewID("resp"), Model: "small", EndUser: step.endUser, Call: hello(step.limit)})
		if step.output == 0 {
			if stoa.CodeOf(err) != stoa.CodeQuota || !strings.Contains(err.Error(), "was cut") {
				t.Errorf("step %d: %v", i, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		for range s.Events(t.Context()) {
		}
		if c, err := s.Settle(t.Context()); err != nil || c.Usage.OutputTokens != step.output {
			t.Errorf("step %d: charged %+v, %v", i, c.Usage, err)
		}
		s.Close()
	}
}
