package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestUsageByProviderIsTheVendors makes calls of which some fail after their vendor has reported the
// input: the usage by provider has the input of all requests, as the vendor counted it.
func TestUsageByProviderIsTheVendors(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	call := func(model, orders string) {
		t.Helper()
		c.Do("POST", responses, body{"model": model, "stream": true, "input": orders + "mark: " + strings.Repeat("x", 300)})
	}
	call("alpha-haiku-4-5", "mark: 1\ntokens: 9\n")
	call("alpha-haiku-4-5", "mark: 2\ntokens: 9\nfault: reset after 2\n")
	call("alpha-haiku-4-5", "mark: 3\ntokens: 9\nfault: error-in-stream after 2\n")
	call("gamma-6-luna", "mark: 4\ntokens: 9\n")
	want := map[string]int64{}
	requests := map[string]int64{}
	for _, s := range f.WaitEnded(t, 4) {
		want[s.Wire] += s.Usage.Input
		requests[s.Wire]++
	}
	var report contract.UsageReport
	eventually(t, "the failures are recorded", func() bool {
		report = contract.UsageReport{}
		c.Want(200, "GET", "/api/v1/usage?groupBy=provider", nil).JSON(&report)
		for _, row := range report.Data {
			if row.Provider == "messages" && row.FailedCalls.MustGet() == 2 {
				return true
			}
		}
		return false
	})
	for _, query := range []string{"?groupBy=provider,model,day", "?groupBy=account,provider&accountId=*"} {
		c.Want(200, "GET", "/api/v1/usage"+query, nil).JSON(&report)
		if len(report.Data) != 2 {
			t.Errorf("%s: %+v", query, report.Data)
		}
		for _, row := range report.Data {
			if got := row.Calls + row.FailedCalls.MustGet(); got != requests[row.Provider] || row.InputTokens != want[row.Provider] {
				t.Errorf("%s: %d requests with %d tokens, want %d with %d", row.Provider, got, row.InputTokens, requests[row.Provider], want[row.Provider])
			}
			if failed := row.FailedCalls.MustGet(); (row.Provider == "messages") != (failed == 2) {
				t.Errorf("%s: %d failed", row.Provider, failed)
			}
		}
	}
	if csv := string(c.Want(200, "GET", "/api/v1/usage?groupBy=provider&format=csv", nil).Body); !strings.HasPrefix(csv, "provider,failedCalls,estimatedCalls,calls") {
		t.Errorf("CSV: %s", csv)
	}
	c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/usage?groupBy=provider,key", nil)
	customer, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, customer).WantError(stoa.CodeScope, "GET", "/api/v1/usage?groupBy=provider", nil)
}
