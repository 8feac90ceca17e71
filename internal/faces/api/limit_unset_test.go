package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestNoLimitThatNobodySet: a call without a limit may write as much as its model can, if the account has plenty; then
// the limit is sent to the vendor, whose own default may be lower. The receipt of a reply that ends at it says that the
// caller has not set it.
func TestNoLimitThatNobodySet(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	rich := h.ClientWith(t, keyOf(t, h, 10_000*stoa.Credit))
	poor := h.ClientWith(t, keyOf(t, h, 2*stoa.Credit))
	sent := func(c *apitest.Client, model string, more body) int64 {
		t.Helper()
		c.Want(200, "POST", responses, with(body{"model": model, "input": "say: x"}, more))
		served := f.Served()
		return limitOf(t, served[len(served)-1].Body)
	}
	for model, most := range map[string]int64{"alpha-haiku-4-5": 64_000, "beta-3.8-flash": 65_536, "gamma-6-luna": 128_000, "delta-v4-flash": 393_216} {
		if n := sent(rich, model, nil); n != most {
			t.Errorf("%s: %d tokens for a rich account, want %d", model, n, most)
		}
		if n := sent(rich, model, body{"max_output_tokens": 500}); n != 500 {
			t.Errorf("%s: %d tokens instead of the limit of the caller", model, n)
		}
	}
	if n := sent(poor, "alpha-haiku-4-5", nil); n != 8_192 {
		t.Errorf("%d tokens for a poor account", n)
	}
	set := start(t, apitest.Config{
		Providers: []stoa.Provider{f.Provider("messages")}, Families: map[string][]stoa.Route{"alpha": {{Provider: "messages"}}},
		Models: map[string]stoa.ModelChange{"alpha-haiku-4-5": {DefaultOutput: 7_000}},
	})
	if n := sent(set.ClientWith(t, keyOf(t, set, 10_000*stoa.Credit)), "alpha-haiku-4-5", nil); n != 7_000 {
		t.Errorf("%d tokens, although the operator has set 7,000", n)
	}
	for limit, want := range map[any]string{nil: "limit_set_here", 50: ""} {
		r := poor.Want(200, "POST", responses, with(body{"max_output_tokens": limit}, body{"model": "alpha-haiku-4-5", "input": "tokens: 8200"}))
		if got := adjustmentsOf(t, poor, r); got != want {
			t.Errorf("with the limit %v the receipt has %q, want %q", limit, got, want)
		}
	}
}

// keyOf returns a key of a new account with credits.
func keyOf(t *testing.T, h *apitest.Service, credits stoa.Credits) string {
	t.Helper()
	key, _ := h.NewKey(storetest.Account(t, h.Store, credits).ID, stoa.ScopeAll)
	return key
}

// limitOf returns the limit of output tokens of a request to a vendor.
func limitOf(t *testing.T, request []byte) int64 {
	t.Helper()
	var v struct {
		A int64 `json:"max_tokens"`
		B int64 `json:"max_output_tokens"`
		C int64 `json:"max_completion_tokens"`
		D struct {
			Max int64 `json:"maxOutputTokens"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(request, &v); err != nil || !strings.HasPrefix(string(request), "{") {
		t.Fatal(err)
	}
	return max(v.A, v.B, v.C, v.D.Max)
}
