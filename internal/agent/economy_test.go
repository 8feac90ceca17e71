package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/fakeup"
	"stoa/internal/sessiontest"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// fixedText is a text of some 24,000 tokens: the instructions of an agent.
var fixedText = strings.Repeat("Answer the customer politely and name the paragraph. ", 1_850)

// rateOf returns the part of the full rate of input that a vendor asks for the input of
// requests.
func rateOf(price stoa.Price, served []fakeup.Served) float64 {
	asked, full := stoa.Credits(0), stoa.Credits(0)
	for _, s := range served {
		u := stoa.Usage{InputTokens: s.Usage.Input, CachedTokens: s.Usage.Cached, CacheWriteTokens: s.Usage.Written, CacheWriteLongTokens: s.Usage.Long}
		asked += price.Cost(u)
		full += price.Cost(stoa.Usage{InputTokens: u.InputTokens})
	}
	return float64(asked) / float64(full)
}

// TestAnAgentPaysForItsPrefixOnce has an agent with long instructions take ten steps before a
// vendor with a cache, then begin a second session. Each charge is what the vendor asks.
func TestAnAgentPaysForItsPrefixOnce(t *testing.T) {
	t.Parallel()
	const model = "alpha-sonnet-5-5"
	h, vendor := onVendor(t, "messages")
	a := h.Agent(func(a *stoa.Agent) {
		a.Model, a.Instructions, a.DriveAccess, a.Limits.MaxSteps = model, fixedText, stoa.DriveReadWrite, 10
	})
	h.File(a, "long.md", strings.Repeat("A row of a table with some figures.\n", 66)) // 600 tokens
	r := h.Service()
	sessiontest.Run(t, r)
	price := priceOf(t, h, model)
	run := func() []fakeup.Served {
		t.Helper()
		before := len(vendor.Served())
		s := h.Until(r, h.Begin(r, a, "rounds: 9\ncall: drive_read {\"path\":\"long.md\"}\nsay: done"), stoa.SessionCompleted)
		served := vendor.Served()[before:]
		if len(served) != 10 {
			t.Fatalf("%d steps", len(served))
		}
		charges := chargesOf(t, h, r, s)
		for i, got := range served {
			u := got.Usage
			want := price.Cost(stoa.Usage{InputTokens: u.Input, CachedTokens: u.Cached, CacheWriteTokens: u.Written, CacheWriteLongTokens: u.Long, OutputTokens: u.Output})
			if charges[i] != want {
				t.Errorf("step %d is charged %d, and the vendor asks %d (%+v)", i+1, charges[i], want, u)
			}
		}
		return served
	}
	first, second := run(), run()
	checkAccepted(t, vendor)
	if got := rateOf(price, first); got > 0.25 {
		t.Errorf("ten steps pay %.3f of the full rate", got)
	}
	if got := rateOf(price, second); got > 0.15 {
		t.Errorf("ten steps of a second session pay %.3f of the full rate", got)
	}
	t.Logf("first %.3f, second %.3f", rateOf(price, first), rateOf(price, second))
	for i, s := range first { // a request begins with the bytes of the one before
		if i > 0 && prefixOf(first[i-1].Body) != prefixOf(s.Body)[:len(prefixOf(first[i-1].Body))] {
			t.Errorf("request %d does not begin with the one before", i+1)
		}
	}
}

// prefixOf returns the instructions and messages of a request without marks and its end.
func prefixOf(body []byte) string {
	text, _, _ := strings.Cut(string(body), `],"max_tokens"`)
	for _, mark := range []string{`,"cache_control":{"type":"ephemeral"}`} {
		text = strings.ReplaceAll(text, mark, "")
	}
	return text
}

// priceOf returns the price of a model.
func priceOf(t *testing.T, h *sessiontest.Fixture, model string) stoa.Price {
	t.Helper()
	res, err := h.Gateway.Catalog.Load().Resolve(model, h.Caller().Plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Models[0].Price
}

// chargesOf returns the charges of the steps of a session's first turn.
func chargesOf(t *testing.T, h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session) (list []stoa.Credits) {
	t.Helper()
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		for n := int64(1); ; n++ {
			c, found, err := tx.ChargeByID(t.Context(), stoa.StepID(s.ID, 1, n))
			if err != nil || !found {
				return err
			}
			list = append(list, c.Amount)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal(fmt.Sprint("no charges: ", h.Log(r, s)))
	}
	return list
}
