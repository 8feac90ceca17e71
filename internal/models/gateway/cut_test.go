package gateway

import (
	"context"
	"iter"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
	"stoa/internal/models/wire"
)

// TestACutReplyIsCharged ends replies at a limit of this service.
func TestACutReplyIsCharged(t *testing.T) {
	t.Parallel()
	cut := &wire.Failure{Err: stoa.Errorf(stoa.CodeUpstreamTimeout, "too long"), Cut: true}
	started := stoa.Event{Kind: stoa.Started, Provider: "p"}
	text := stoa.Event{Kind: stoa.Delta, Text: "twelve bytes"}
	early := stoa.Event{Kind: stoa.UsageSoFar, Usage: stoa.Usage{InputTokens: 77}}
	for name, c := range map[string]struct {
		steps []any
		usage stoa.Usage // zero means that it fails and is free
	}{
		"after text":            {[]any{started, text, cut}, stoa.Usage{InputTokens: 5, OutputTokens: 4}},
		"after early counts":    {[]any{started, early, text, cut}, stoa.Usage{InputTokens: 77, OutputTokens: 4}},
		"in a call":             {[]any{started, stoa.Event{Kind: stoa.CallStarted, Call: stoa.ToolCall{ID: "c", Name: "get"}}, cut}, stoa.Usage{InputTokens: 5, OutputTokens: 1}},
		"before text":           {[]any{started, stoa.Event{Kind: stoa.Thinking, Thinking: 300}, cut}, stoa.Usage{}},
		"before it was sent":    {[]any{cut}, stoa.Usage{}},
		"by the vendor's fault": {[]any{started, text, down}, stoa.Usage{}},
	} {
		h := open(t, script{"alpha-haiku-4-5": c.steps}, catalog.Options{}, stoa.Credit)
		got, err := h.respond(t, h.caller(false), "alpha-haiku-4-5")
		if c.usage == (stoa.Usage{}) {
			if err == nil {
				t.Errorf("%s: charged %+v", name, got)
			}
		} else if err != nil || got.Usage != c.usage || !got.Estimated || got.State != "incomplete" {
			t.Errorf("%s: %v, charged %+v", name, err, got)
		}
		if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Held != 0 || (b.Spent > 0) != (c.usage != stoa.Usage{}) {
			t.Errorf("%s: %v, the balance is %+v", name, err, b)
		}
	}
}

// A leaving is a pool whose caller disconnects after some events. void means that the last of
// them belongs to an attempt that has failed.
type leaving struct {
	script
	void bool
}

func (l leaving) Stream(ctx context.Context, m stoa.Model, call stoa.Call) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		l.script.Stream(ctx, m, call)(yield)
		call.Trail.Void = l.void
		yield(nil, context.Canceled)
	}
}

// TestADisconnectPaysWhatWasSent disconnects from calls at each moment.
func TestADisconnectPaysWhatWasSent(t *testing.T) {
	t.Parallel()
	started := stoa.Event{Kind: stoa.Started, Provider: "p"}
	text := stoa.Event{Kind: stoa.Delta, Text: "twelve bytes"}
	for name, c := range map[string]struct {
		steps []any
		void  bool
		usage stoa.Usage // zero means free
	}{
		"before it was sent":      {nil, false, stoa.Usage{}},
		"before the answer":       {[]any{started}, false, stoa.Usage{InputTokens: 5}},
		"before a second answer":  {[]any{started, text, started}, false, stoa.Usage{InputTokens: 5}},
		"after text":              {[]any{started, text}, false, stoa.Usage{InputTokens: 5, OutputTokens: 4}},
		"after an error":          {[]any{started}, true, stoa.Usage{}},
		"after text and an error": {[]any{started, text}, true, stoa.Usage{}},
	} {
		h := open(t, leaving{script{"alpha-haiku-4-5": c.steps}, c.void}, catalog.Options{}, stoa.Credit)
		s, err := h.Respond(t.Context(), h.caller(false), Request{ID: "resp_1", Model: "alpha-haiku-4-5", Buffered: true, Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}})
		if err != nil {
			t.Fatal(err)
		}
		for range s.Events(t.Context()) {
		}
		got, err := s.Abandon(t.Context())
		if err != nil || got.Usage != c.usage || (got.ID != "") != (c.usage != stoa.Usage{}) || got.Estimated != (got.ID != "") {
			t.Errorf("%s: %v, charged %+v", name, err, got)
		}
		if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Held != 0 || b.Spent != got.Amount {
			t.Errorf("%s: %v, the balance is %+v", name, err, b)
		}
	}
}

// TestADisconnectIsCoveredByItsHold disconnects with the minimum balance for a call.
func TestADisconnectIsCoveredByItsHold(t *testing.T) {
	t.Parallel()
	started := stoa.Event{Kind: stoa.Started, Provider: "p"}
	const grant = 7 + 256*5 // micro-credits: five tokens of input at the rate of cache writes, and the minimum output
	h := open(t, leaving{script: script{"alpha-haiku-4-5": {started}}}, catalog.Options{}, grant)
	req := Request{ID: "resp_1", Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}}
	s, err := h.Respond(t.Context(), h.caller(false), req)
	if err != nil {
		t.Fatal(err)
	}
	for range s.Events(t.Context()) {
	}
	if got, err := s.Abandon(t.Context()); err != nil || got.Amount != 5 || got.Clamped {
		t.Errorf("%v, charged %+v", err, got)
	}
	if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Available != grant-5 || b.Held != 0 {
		t.Errorf("%v, the balance is %+v", err, b)
	}
	req.ID = "resp_2"
	if _, err := h.Respond(t.Context(), h.caller(false), req); stoa.CodeOf(err) != stoa.CodeQuota {
		t.Errorf("the next call: %v", err)
	}
}

// TestWhatIsNotPaidIsSetAside closes a call that its provider has, without a charge: its cost
// is available to no other call.
func TestWhatIsNotPaidIsSetAside(t *testing.T) {
	t.Parallel()
	started := stoa.Event{Kind: stoa.Started, Provider: "p"}
	const grant = 7 + 256*5 // see TestADisconnectIsCoveredByItsHold
	for name, c := range map[string]struct {
		steps []any
		void  bool
		code  stoa.Code // of the next call
	}{
		"not sent":  {nil, false, ""},
		"sent":      {[]any{started}, false, stoa.CodeQuota},
		"an answer": {[]any{started}, true, ""},
	} {
		h := open(t, leaving{script{"alpha-haiku-4-5": c.steps}, c.void}, catalog.Options{}, grant)
		req := Request{ID: "resp_1", Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}}
		s, err := h.Respond(t.Context(), h.caller(false), req)
		if err != nil {
			t.Fatal(err)
		}
		for range s.Events(t.Context()) {
		}
		s.Close()
		req.ID = "resp_2"
		next, err := h.Respond(t.Context(), h.caller(false), req)
		if stoa.CodeOf(err) != c.code {
			t.Errorf("%s: the next call: %v", name, err)
		}
		if next != nil {
			next.Close()
		}
		if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Available != grant {
			t.Errorf("%s: %v, the balance is %+v", name, err, b)
		}
	}
}
