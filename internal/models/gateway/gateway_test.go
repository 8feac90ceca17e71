package gateway

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/models/catalog"
	"stoa/internal/models/wire"
	"stoa/internal/testkit/storetest"
)

// A script is a pool that yields prepared replies, by model.
type script map[string][]any // stoa.Event or error

func (s script) Healthy(string, stoa.Model) bool { return true }
func (script) Timeout(stoa.Model) time.Duration  { return time.Minute }

func (s script) Stream(ctx context.Context, m stoa.Model, _ stoa.Call) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		for _, step := range s[m.ID] {
			if err, ok := step.(error); ok {
				yield(nil, err)
				return
			}
			ev := step.(stoa.Event)
			if !yield(&ev, nil) {
				return
			}
		}
	}
}

// A fixture is a gateway over a real store and ledger, with one account.
type fixture struct {
	*Gateway
	ledger  *billing.Ledger
	store   *store.Store
	account stoa.Account
	stop    context.CancelFunc // of the ledger
}

// open creates a fixture whose account has the granted credits.
func open(t *testing.T, pool Pool, opts catalog.Options, grant stoa.Credits) *fixture {
	t.Helper()
	st := storetest.New(t).Open()
	ledger := billing.New(st, billing.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- ledger.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	cat, err := catalog.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{Catalog: new(atomic.Pointer[catalog.Catalog]), Ledger: ledger, Pool: pool, Logger: slog.New(slog.DiscardHandler)}
	g.Catalog.Store(cat)
	return &fixture{g, ledger, st, storetest.Account(t, st, grant), cancel}
}

func (h *fixture) caller(gated bool) stoa.Caller {
	return stoa.Caller{Account: h.account, Plan: stoa.Plan{ID: "p", GatedModels: gated}, Key: stoa.Key{ID: "key_1", AccountID: h.account.ID}}
}

// respond makes a call, reads it to its end and settles it.
func (h *fixture) respond(t *testing.T, c stoa.Caller, model string) (stoa.Charge, error) {
	t.Helper()
	s, err := h.Respond(t.Context(), c, Request{ID: stoa.NewID("resp"), Model: model, Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}})
	if err != nil {
		return stoa.Charge{}, err
	}
	defer s.Close()
	for _, err := range s.Events(t.Context()) {
		if err != nil {
			return stoa.Charge{}, err
		}
	}
	return s.Settle(t.Context())
}

func reply(text string, u stoa.Usage) []any {
	return []any{
		stoa.Event{Kind: stoa.Started, Provider: "p"},
		stoa.Event{Kind: stoa.Delta, Text: text},
		stoa.Event{Kind: stoa.Finished, Stop: stoa.StopEnd, Usage: u, HasUsage: true},
	}
}

var down = &wire.Failure{Err: stoa.Errorf(stoa.CodeOverloaded, "busy")}

func TestFallbackIsNeverDearerThanRequested(t *testing.T) {
	t.Parallel()
	cheap := stoa.Credits(10)
	opts := catalog.Options{
		Models: map[string]stoa.ModelChange{"cheap-gated": {Family: "alpha", Gated: new(true), Price: &stoa.Tariff{Input: cheap, CachedInput: cheap, Output: cheap}}},
		Auto:   []string{"alpha-haiku-4-5"},
	}
	h := open(t, script{"alpha-haiku-4-5": reply("x", stoa.Usage{InputTokens: 100, OutputTokens: 100})}, opts, stoa.Credit)
	c, err := h.respond(t, h.caller(false), "cheap-gated")
	if err != nil {
		t.Fatal(err)
	}
	if c.Amount != 1 || !c.Capped || c.Served != "alpha-haiku-4-5" || c.Reason != catalog.ReasonPlan {
		t.Errorf("charged %d, capped %v, served by %s for %q", c.Amount, c.Capped, c.Served, c.Reason)
	}
	if c, err = h.respond(t, h.caller(false), "auto"); err != nil || c.Amount != 600 || c.Capped {
		t.Errorf("auto: charged %d, capped %v, %v", c.Amount, c.Capped, err)
	}
}

func TestAutoTakesTheNextModelBeforeText(t *testing.T) {
	t.Parallel()
	opts := catalog.Options{Auto: []string{"beta-3.8-flash", "gamma-6-luna"}}
	good := reply("x", stoa.Usage{InputTokens: 1, OutputTokens: 1})
	refused := &wire.Failure{Err: stoa.Errorf(stoa.CodeContextLength, "too long"), Caller: true}
	started := stoa.Event{Kind: stoa.Started, Provider: "p"}
	for name, c := range map[string]struct {
		first  []any
		pin    bool
		served string // empty if it fails
	}{
		"a model that is down":           {[]any{down}, false, "gamma-6-luna"},
		"one that fails while it thinks": {[]any{started, stoa.Event{Kind: stoa.Thinking, Thinking: 9}, down}, false, "gamma-6-luna"},
		"one that fails after text":      {[]any{started, stoa.Event{Kind: stoa.Delta, Text: "x"}, down}, false, ""},
		"a fault of the caller":          {[]any{refused}, false, ""},
		"one that is named already":      {[]any{down}, true, ""},
		"one that ends without an end":   {[]any{started}, false, "gamma-6-luna"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, script{"beta-3.8-flash": c.first, "gamma-6-luna": good}, opts, stoa.Credit)
			s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "auto", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if c.pin {
				s.Pin()
			}
			for _, err = range s.Events(t.Context()) {
				if err != nil {
					break
				}
			}
			switch {
			case c.served == "" && err == nil:
				t.Error("it was served")
			case c.served != "" && err != nil:
				t.Errorf("it failed: %v", err)
			case c.served != "":
				if charge, err := s.Settle(t.Context()); err != nil || charge.Served != c.served || charge.Amount == 0 {
					t.Errorf("charged %+v, %v", charge, err)
				}
			}
			s.Close()
			if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Held != 0 {
				t.Errorf("%+v is held, %v", b, err)
			}
		})
	}
}

func TestChargeIsByPlausibleUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage     stoa.Usage
		estimated bool
	}{
		"plain":                      {stoa.Usage{InputTokens: 9, OutputTokens: 2}, false},
		"what a vendor adds":         {stoa.Usage{InputTokens: 3000, OutputTokens: 2}, false},
		"an input beyond its bytes":  {stoa.Usage{InputTokens: 900_000, OutputTokens: 2}, true},
		"an output beyond its limit": {stoa.Usage{InputTokens: 9, OutputTokens: 900_000}, true},
		"negative":                   {stoa.Usage{InputTokens: -9, OutputTokens: 2}, true},
		"more cached than there is":  {stoa.Usage{InputTokens: 9, CachedTokens: 10, OutputTokens: 2}, true},
	} {
		h := open(t, script{"alpha-haiku-4-5": reply("some text", c.usage)}, catalog.Options{}, stoa.Credit)
		charge, err := h.respond(t, h.caller(false), "alpha-haiku-4-5")
		if err != nil {
			t.Fatal(err)
		}
		if charge.Estimated != c.estimated || !c.estimated && charge.Usage != c.usage || c.estimated && (charge.Usage.InputTokens != 5 || charge.Usage.OutputTokens != 3) {
			t.Errorf("%s: charged %+v, estimated %v", name, charge.Usage, charge.Estimated)
		}
	}
}

// A caller chooses how many pages its file seems to have, so the vendor's count is believed
// up to the limits of vendors.
func TestUsageOfFilesIsTheVendors(t *testing.T) {
	t.Parallel()
	for tokens, estimated := range map[int64]bool{1_500_000: false, 8_000_000: true} {
		h := open(t, script{"alpha-haiku-4-5": reply("some text", stoa.Usage{InputTokens: tokens, OutputTokens: 2})}, catalog.Options{}, 100*stoa.Credit)
		file := stoa.Message{Role: stoa.RoleUser, Parts: []stoa.Part{{Kind: stoa.PartFile, Media: &stoa.Media{Type: "application/pdf", Pages: 1}}}}
		s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{file}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range s.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
		}
		charge, err := s.Settle(t.Context())
		if err != nil || charge.Estimated != estimated || !estimated && charge.Usage.InputTokens != tokens {
			t.Errorf("%d: charged %+v, estimated %v, %v", tokens, charge.Usage, charge.Estimated, err)
		}
		s.Close()
	}
}

func TestDisconnectIsChargedByWhatCame(t *testing.T) {
	t.Parallel()
	events := []any{
		stoa.Event{Kind: stoa.Started, Provider: "p"},
		stoa.Event{Kind: stoa.Thinking, Thinking: 30},
		stoa.Event{Kind: stoa.UsageSoFar, Usage: stoa.Usage{InputTokens: 100, OutputTokens: 12}},
		stoa.Event{Kind: stoa.Delta, Text: "123456789"},
		context.Canceled,
	}
	h := open(t, script{"alpha-haiku-4-5": events}, catalog.Options{}, stoa.Credit)
	leave := func(after int) stoa.Charge {
		s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		n := 0
		for range s.Events(t.Context()) {
			if n++; n >= after {
				break
			}
		}
		c, err := s.Abandon(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := leave(4); c.Usage != (stoa.Usage{InputTokens: 100, OutputTokens: 12 + 3}) || !c.Estimated || c.State != "cancelled" {
		t.Errorf("after text: %+v", c)
	}
	if c := leave(2); c.Usage != (stoa.Usage{InputTokens: 5, OutputTokens: 10}) {
		t.Errorf("while it thinks: %+v", c.Usage)
	}
	if c := leave(1); c.Usage != (stoa.Usage{InputTokens: 5}) || !c.Estimated || c.Amount == 0 {
		t.Errorf("before anything came: %+v", c)
	}
	h.Pool = script{"alpha-haiku-4-5": []any{
		stoa.Event{Kind: stoa.Started, Provider: "p"},
		stoa.Event{Kind: stoa.Delta, Text: "123456789", Usage: stoa.Usage{InputTokens: 200, OutputTokens: 20}, HasUsage: true},
		stoa.Event{Kind: stoa.Delta, Text: "123456789"},
		context.Canceled,
	}}
	for after, output := range map[int]int64{2: 20, 3: 20 + 3} {
		if c := leave(after); c.Usage != (stoa.Usage{InputTokens: 200, OutputTokens: output}) || !c.Estimated {
			t.Errorf("after %d events, of texts with their usage: %+v", after, c)
		}
	}
	h.Pool = script{"alpha-haiku-4-5": []any{down}}
	if c := leave(1); c.ID != "" {
		t.Errorf("before anybody accepted: %+v", c)
	}
	if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Held != 0 || b.Granted != b.Available+b.Spent {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestMaxCreditsBoundsTheCall(t *testing.T) {
	t.Parallel()
	h := open(t, script{"alpha-haiku-4-5": reply("x", stoa.Usage{InputTokens: 5, OutputTokens: 1})}, catalog.Options{}, stoa.Credit)
	req := Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}, MaxCredits: 5 + 256*5 - 1}
	if _, err := h.Respond(t.Context(), h.caller(false), req); stoa.CodeOf(err) != stoa.CodeQuota {
		t.Errorf("a limit below the least is %v", err)
	}
	req.MaxCredits += 100 * 5
	s, err := h.Respond(t.Context(), h.caller(false), req)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.limit < 256 || s.limit > 356 {
		t.Errorf("the call may make %d tokens", s.limit)
	}
}

func TestFailedSettlementIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := open(t, script{"alpha-haiku-4-5": reply("x", stoa.Usage{InputTokens: 5, OutputTokens: 1})}, catalog.Options{}, stoa.Credit)
	call := func(also func(context.Context, *store.Tx) error) (stoa.Charge, error) {
		s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range s.Events(t.Context()) {
		}
		return s.Settle(t.Context(), also)
	}
	tries := 0
	c, err := call(func(context.Context, *store.Tx) error {
		if tries++; tries < 3 {
			return errors.New("disk error")
		}
		return nil
	})
	if err != nil || c.Amount == 0 || tries != 3 {
		t.Errorf("%d tries: %+v, %v", tries, c, err)
	}
	tries = 0
	refusal := stoa.Errorf(stoa.CodeConflict, "no")
	if _, err = call(func(context.Context, *store.Tx) error { tries++; return refusal }); !errors.Is(err, refusal) || tries != 1 {
		t.Errorf("a refusal is tried %d times: %v", tries, err)
	}
	if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Held != 0 || b.Spent != c.Amount {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestStoppedLedgerEndsThePauses(t *testing.T) {
	t.Parallel()
	h := open(t, script{"alpha-haiku-4-5": reply("x", stoa.Usage{InputTokens: 5, OutputTokens: 1})}, catalog.Options{}, stoa.Credit)
	s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range s.Events(t.Context()) {
	}
	tries := 0
	_, err = s.Settle(t.Context(), func(context.Context, *store.Tx) error {
		tries++
		h.stop()
		return errors.New("disk error")
	})
	if err == nil || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestCallsUnderWayAreCounted(t *testing.T) {
	t.Parallel()
	h := open(t, script{"alpha-haiku-4-5": reply("x", stoa.Usage{InputTokens: 5, OutputTokens: 1})}, catalog.Options{}, stoa.Credit)
	for name, end := range map[string]func(*Stream) error{
		"settled":   func(s *Stream) error { _, err := s.Settle(t.Context()); return err },
		"abandoned": func(s *Stream) error { _, err := s.Abandon(t.Context()); return err },
		"closed":    func(*Stream) error { return nil },
	} {
		req := Request{ID: stoa.NewID("resp"), Model: "alpha-haiku-4-5", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}}}
		s, err := h.Respond(t.Context(), h.caller(false), req)
		if err != nil {
			t.Fatal(err)
		}
		for range s.Events(t.Context()) {
			if n := h.Active(); n != 1 {
				t.Errorf("%s: %d calls are under way, want 1", name, n)
			}
		}
		if err := end(s); err != nil {
			t.Error(err)
		}
		s.Close()
		s.Close()
		if n := h.Active(); n != 0 {
			t.Errorf("%s: %d calls are under way afterwards", name, n)
		}
	}
}
