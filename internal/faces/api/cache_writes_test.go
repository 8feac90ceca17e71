package api_test

import (
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestCacheWritesCostWhatTheVendorAsks compares charges with the invoice that the
// vendors' price lists make of the usage that the fake vendor reported.
func TestCacheWritesCostWhatTheVendorAsks(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	h.Gateway.Now = func() time.Time { return time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC) } // a peak hour of DeepSeek
	rates := map[string][5]int64{                                                             // input, read, written, written long, output
		"alpha-haiku-4-5": {1_000_000, 100_000, 1_250_000, 2_000_000, 5_000_000},
		"gamma-6-luna":    {100_000, 10_000, 125_000, 125_000, 500_000},
		"delta-v4-flash":  {300_000, 6_000, 300_000, 300_000, 1_200_000},
	}
	for model, rate := range rates {
		for _, stream := range []bool{false, true} {
			before := quiet(t, h)
			r := h.Client(t).Want(200, "POST", responses, body{"model": model, "input": "cached: 20\nwritten: 40\nwritten-long: 15\nmark: " + strings.Repeat("x", 400) + "\nsay: done", "stream": stream})
			told := f.WaitEnded(t, 1)
			u := told[len(told)-1].Usage
			if u.Cached != 20 || u.Written != 40 || u.Long != 15 {
				t.Fatalf("%s: the fake vendor reported %+v", model, u)
			}
			want := ((u.Input-60)*rate[0] + 20*rate[1] + 25*rate[2] + 15*rate[3] + u.Output*rate[4] + 999_999) / 1_000_000
			after := quiet(t, h)
			if got := int64(after.Spent - before.Spent); got != want {
				t.Errorf("%s, stream %v: charged %d, the vendor asks %d", model, stream, got, want)
			}
			if !stream {
				var reply contract.Response
				r.JSON(&reply)
				if reply.Usage.InputTokensDetails.CacheWriteTokens != u.Written {
					t.Errorf("%s: told %+v", model, reply.Usage)
				}
			}
			var got contract.Receipt
			h.Client(t).Want(200, "GET", "/api/v1/receipts/"+receipts(t, h)[0].ID, nil).JSON(&got)
			if got.Usage.CacheWriteTokens != 40 || got.Usage.CacheWriteLongTokens != 15 || got.Price.CacheWriteMicroPerMillion != rate[2] || got.Price.CacheWriteLongMicroPerMillion != rate[3] {
				t.Errorf("%s: receipt %+v at %+v", model, got.Usage, got.Price)
			}
		}
	}
	if diffs, err := h.Ledger.Verify(t.Context()); err != nil || len(diffs) != 0 {
		t.Errorf("the books differ: %+v, %v", diffs, err)
	}
}

// TestTheHoldCoversCacheWrites has an account that could pay a long prompt at the
// rate of input alone.
func TestTheHoldCoversCacheWrites(t *testing.T) {
	t.Parallel()
	prompt := strings.Repeat("word ", 6_000)
	input := stoa.EstimateTokens(len(prompt)) + stoa.TokensPerMessage
	atInput := stoa.Price{Input: 100_000, Output: 500_000}.Cost(stoa.Usage{InputTokens: input, OutputTokens: 256})
	h, _ := vendors(t, apitest.Config{Grant: atInput})
	h.Client(t).WantError(stoa.CodeQuota, "POST", responses, body{"model": "gamma-6-luna", "input": prompt})
}
