package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

func TestAProviderThatNeverAnswersIsATimeoutAndFree(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	vendor := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	defer vendor.Close()
	defer close(over)
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{{Name: "slow", Wire: "chat", Dialect: "compatible", BaseURL: vendor.URL, Timeouts: stoa.Timeouts{FirstByte: 50 * time.Millisecond}}},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "slow", Model: "m"}}},
	})
	c := h.Client(t)
	if e := c.WantError(stoa.CodeUpstreamTimeout, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "x"}); !e.Retryable {
		t.Error("a timeout is worth a retry")
	}
	var credits contract.Credits
	c.Want(200, "GET", "/api/v1/credits", nil).JSON(&credits)
	if credits.SpentMicro != 0 || credits.HeldMicro != 0 {
		t.Errorf("it was not free: %+v", credits)
	}
}
