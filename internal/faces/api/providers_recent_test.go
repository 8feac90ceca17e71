package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

func TestAnOperatorTestsAProvider(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	cfg := apitest.Config{Families: map[string][]stoa.Route{"alpha": {{Provider: "messages"}}, "beta": {{Provider: "gemini"}}, "gamma": {{Provider: "responses"}}, "delta": {{Provider: "deepseek"}}}}
	for _, wire := range []string{"messages", "gemini", "responses", "deepseek"} {
		cfg.Providers = append(cfg.Providers, f.Provider(wire))
	}
	wrong, away, spare := f.Provider("messages"), f.Provider("messages"), f.Provider("messages")
	wrong.Name, wrong.APIKey = "wrong", "sk-not-the-right-one"
	away.Name, away.BaseURL = "away", "http://127.0.0.1:1"
	spare.Name = "spare"
	cfg.Providers = append(cfg.Providers, wrong, away, spare)
	cfg.Families["alpha"] = append(cfg.Families["alpha"], stoa.Route{Provider: "wrong"}, stoa.Route{Provider: "away"})
	h := start(t, cfg)
	c := h.Client(t)
	test := func(name string) (out contract.ProviderTest) {
		t.Helper()
		r := c.Want(200, "POST", "/api/v1/providers/"+name+"/test", nil)
		if text := string(r.Body); strings.Contains(text, fakeup.Key) || strings.Contains(text, wrong.APIKey) || strings.Contains(text, "127.0.0.1") {
			t.Errorf("%s: the reply says more than it should: %s", name, text)
		}
		r.JSON(&out)
		return out
	}
	for _, name := range []string{"messages", "gemini", "responses", "deepseek", "sandbox"} {
		got := test(name)
		if !got.Ok || got.Provider != name || got.Model.IsNull() || got.Attempts != 1 || !got.ErrorCode.IsNull() || got.DurationMilliseconds == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, want := range []struct {
		name     string
		attempts int // at least
		status   int
		text     string
	}{
		{"wrong", 1, 401, "rejects the key"},
		{"away", 1, 0, "whether this machine can connect"},
		{"spare", 0, 0, "No model is routed"},
	} {
		got := test(want.name)
		status := 0
		if !got.Status.IsNull() {
			status = got.Status.MustGet()
		}
		if got.Ok || got.Attempts < want.attempts || status != want.status || !strings.Contains(got.Text, want.text) || got.Model.IsNull() != (want.attempts == 0) {
			t.Errorf("%s: %+v", want.name, got)
		}
	}
	c.WantError(stoa.CodeNotFound, "POST", "/api/v1/providers/nobody/test", nil)
	if all := receipts(t, h); len(all) != 0 {
		t.Errorf("tests were charged: %+v", all)
	}
	if rows := requestsOf(t, h, c, ""); len(rows) != 0 {
		t.Errorf("tests are in the request log: %+v", rows)
	}
	key, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, key).WantError(stoa.CodeScope, "POST", "/api/v1/providers/messages/test", nil)
	h.ClientWith(t, "").WantError(stoa.CodeUnauthorized, "POST", "/api/v1/providers/messages/test", nil)
}

func TestProvidersHaveTheirModels(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	if p := provider(t, c, "messages"); len(p.Models) == 0 || !strings.HasPrefix(p.Models[0], "alpha-") {
		t.Errorf("%+v", p)
	}
	if p := provider(t, c, "sandbox"); len(p.Models) != 0 {
		t.Errorf("%+v", p)
	}
}

// recently is what providers did lately.
func recently(t *testing.T, h *apitest.Service) (list contract.RecentProviderList) {
	t.Helper()
	if err := h.Requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Client(t).Want(200, "GET", "/api/v1/providers/recent", nil).JSON(&list)
	return list
}

func TestWhatProvidersDidLately(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	if list := recently(t, h); len(list.Data) != 0 || list.Rows != 0 || list.Cut {
		t.Errorf("before any call: %+v", list)
	}
	row := func(ago time.Duration, n int, r stoa.Request) {
		t.Helper()
		rows := make([]stoa.Request, n)
		for i := range rows {
			rows[i] = r
			rows[i].ID, rows[i].AccountID = stoa.NewID("req"), "acc_other"
			rows[i].Duration = time.Duration(i+1) * time.Second
		}
		var scratch []any
		err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
			tx.Now = tx.Now.Add(-ago)
			return tx.Operations().InsertRequests(t.Context(), rows, 0, &scratch)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	row(25*time.Hour, 3, stoa.Request{Provider: "messages", Served: "alpha-haiku-4-5", Status: 200})
	row(2*time.Hour, 20, stoa.Request{Provider: "gemini", Served: "beta-3.8-flash", Status: 200})
	row(time.Minute, 2, stoa.Request{Provider: "gemini", Asked: "beta-3.8-flash", Status: 504, Code: stoa.CodeUpstreamTimeout})
	row(time.Minute, 1, stoa.Request{Provider: "gemini", Served: "beta-3.8-flash", Status: 200, Code: stoa.CodeUpstream})
	row(time.Minute, 4, stoa.Request{Provider: "gemini", Asked: "gone", Status: 400, Code: stoa.CodeInvalidPrompt})
	row(time.Minute, 5, stoa.Request{Status: 429, Code: stoa.CodeQuota})
	c.Want(200, "POST", responses, object{"model": "alpha-haiku-4-5", "input": "say: hi"})
	list := recently(t, h)
	if len(list.Data) != 2 || list.Rows != 33 || list.Cut || list.Data[0].Name != "gemini" || list.Data[1].Name != "messages" {
		t.Fatalf("%+v", list)
	}
	sums := func(r contract.RecentCalls) string {
		p50, _ := r.P50Milliseconds.Get()
		p95, _ := r.P95Milliseconds.Get()
		return fmt.Sprint(r.Calls, " ", r.Errors, " ", p50, " ", p95)
	}
	g := list.Data[0]
	if got := sums(g.Hour) + ", " + sums(g.Day); got != "7 3 0 0, 27 3 10000 19000" || !g.Hour.P50Milliseconds.IsNull() {
		t.Errorf("gemini: %s", got)
	}
	if last, err := g.LastError.Get(); err != nil || last.Code != string(stoa.CodeUpstream) || last.Status != 200 || last.RequestID == "" || last.Text == "" {
		t.Errorf("its last error: %+v", last)
	}
	if len(g.Models) != 2 || g.Models[0].Model != "beta-3.8-flash" || sums(g.Models[0].Day) != "23 3 10000 19000" || sums(g.Models[1].Hour) != "4 0 0 0" {
		t.Errorf("its models: %+v", g.Models)
	}
	if m := list.Data[1]; m.Hour.Calls != 1 || m.Day.Calls != 1 || !m.LastError.IsNull() || m.Hour.P95Milliseconds.IsNull() {
		t.Errorf("messages: %+v", m)
	}
	row(0, 20_000-5, stoa.Request{Provider: "responses", Served: "gamma-6-luna", Status: 200})
	day := list.Since.Time()
	list = recently(t, h)
	if !list.Cut || list.Rows != 20_000 || len(list.Data) != 2 || list.Data[0].Name != "messages" || list.Since.Time().Sub(day) < 23*time.Hour {
		t.Errorf("of too many rows: %d rows, cut %v, since %v, %d providers", list.Rows, list.Cut, list.Since, len(list.Data))
	}
	key, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, key).WantError(stoa.CodeScope, "GET", "/api/v1/providers/recent", nil)
}
