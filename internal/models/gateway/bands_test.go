package gateway

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
)

// TestACallCostsAtMostItsHold makes calls of any length around the lengths and hours from which
// vendors ask more, whose requests begin at any time until the deadline.
func TestACallCostsAtMostItsHold(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var usage stoa.Usage
	var late time.Duration
	pool := poolFunc(func(call stoa.Call, yield func(*stoa.Event, error) bool) {
		call.Trail.Sent = time.Now().Add(late)
		_ = yield(&stoa.Event{Kind: stoa.Started, Provider: "p"}, nil) &&
			yield(&stoa.Event{Kind: stoa.Finished, Stop: stoa.StopEnd, Usage: usage, HasUsage: true}, nil)
	})
	h := open(t, pool, catalog.Options{Sandbox: "always"}, 1000*stoa.Credit)
	var clock time.Time
	h.Now = func() time.Time { return clock }
	bands := map[string]int{}
	for n := range 400 {
		model := []string{"beta-3.1-pro", "gamma-6-luna", "delta-v4-flash", "gamma-6.1-sol"}[n%4]
		clock = time.Date(2026, 11, 28, []int{1, 4, 6, 10}[random.IntN(4)], 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(180)-120) * time.Second)
		late = time.Duration(random.IntN(60)) * time.Second // poolFunc's timeout is a minute
		text := strings.Repeat("abc", 100_000+random.IntN(200_000))
		s, err := h.Respond(t.Context(), h.caller(true), Request{ID: stoa.NewID("resp"), Model: model, Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, text)}}})
		if err != nil {
			t.Fatal(err)
		}
		held := s.holding.Amount()
		usage = stoa.Usage{InputTokens: s.inputEstimate - random.Int64N(100), OutputTokens: s.limit}
		usage.CacheWriteTokens = random.Int64N(usage.InputTokens)
		for _, err := range s.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
		}
		c, err := s.Settle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.Clamped || c.Amount > held {
			t.Errorf("%s at %s, %s later: %d are held, the call costs %d (%+v)", model, clock, late, held, c.Amount, c.Usage)
		}
		bands[c.Price.Band]++
		s.Close()
	}
	for _, band := range []string{"", "above 200000 tokens", "above 272000 tokens", "09:00-12:00 Asia/Shanghai", "14:00-18:00 Asia/Shanghai"} {
		if bands[band] == 0 {
			t.Errorf("no call was in band %q: %v", band, bands)
		}
	}
}

func TestAFallbackIsCappedInTheBandOfItsCall(t *testing.T) {
	t.Parallel()
	opts := catalog.Options{Sandbox: "always", Auto: []string{"beta-3.1-pro"}, Models: map[string]stoa.ModelChange{
		"asked": {Family: "alpha", Gated: new(true), Price: &stoa.Tariff{Input: 1_000_000, Output: 12_000_000, Above: &stoa.LongInput{Tokens: 250_000, Input: 3, Output: 1}}},
	}}
	h := open(t, script{"beta-3.1-pro": reply("x", stoa.Usage{InputTokens: 260_000, OutputTokens: 1000})}, opts, 100*stoa.Credit)
	s, err := h.Respond(t.Context(), h.caller(false), Request{ID: stoa.NewID("resp"), Model: "asked", Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, strings.Repeat("abc", 260_000))}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range s.Events(t.Context()) { //nolint:revive // to the end
	}
	// Served: 260,000 × 4 + 1,000 × 18; asked: 260,000 × 3 + 1,000 × 12.
	if c := s.Due(); c.Amount != 792_000 || !c.Capped || c.Price.Input != 4_000_000 {
		t.Errorf("charged %d, capped %v at %+v", c.Amount, c.Capped, c.Price)
	}
}
