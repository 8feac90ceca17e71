package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

const responses = "/api/v1/responses"

type body = map[string]any

// vendors starts a fake provider and a service that uses it: a family by a
// wire.
func vendors(t *testing.T, cfg apitest.Config) (*apitest.Service, *fakeup.Server) {
	t.Helper()
	return vendorsAsking(t, cfg, "auto")
}

// vendorsAsking is [vendors] with `wholeReplies` of the providers; auto goes by how fast
// this machine is.
func vendorsAsking(t *testing.T, cfg apitest.Config, wholeReplies string) (*apitest.Service, *fakeup.Server) {
	t.Helper()
	f := fakeup.Start(t, fakeup.Options{Cache: true})
	cfg.Families = map[string][]stoa.Route{}
	for family, wire := range map[string]string{"alpha": "messages", "beta": "gemini", "gamma": "responses", "delta": "deepseek"} {
		p := f.Provider(wire)
		p.WholeReplies = wholeReplies
		cfg.Providers = append(cfg.Providers, p)
		cfg.Families[family] = []stoa.Route{{Provider: wire}}
	}
	return start(t, cfg), f
}

// receipt returns the one receipt of a service that made one call.
func receipt(t *testing.T, h *apitest.Service) store.Receipt {
	t.Helper()
	all := receipts(t, h)
	if len(all) != 1 {
		t.Fatalf("there are %d receipts, want one: %+v", len(all), all)
	}
	return all[0]
}

func receipts(t *testing.T, h *apitest.Service) (all []store.Receipt) {
	t.Helper()
	err := h.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
		all, _, err = tx.Books().Receipts(t.Context(), h.Account.ID, store.ReceiptFilter{}, store.Page{Limit: 100})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// quiet is the balance once nothing is held any more.
func quiet(t *testing.T, h *apitest.Service) stoa.Balance {
	t.Helper()
	b, err := h.Ledger.Balance(t.Context(), h.Account.ID)
	if err != nil {
		t.Fatal(err)
	}
	if b.Held != 0 || b.Granted != b.Available+b.Spent {
		t.Errorf("the books are not at rest: %+v", b)
	}
	return b
}

func TestEveryModelOfTheCatalogAnswersInBothForms(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	for asked, served := range map[string]string{
		"alpha-haiku-4-5": "", "alpha-sonnet-5-5": "", "alpha-opus-5-5": "", "alpha-fable-5-1": "",
		"beta-3.1-pro": "", "beta-3.1-flash": "", "beta-3.7-flash": "", "beta-3.8-flash": "",
		"gamma-6.1-sol": "", "gamma-6-luna": "", "delta-v4-flash": "", "delta-v4-pro": "",
		"alpha-sonnet-5": "alpha-sonnet-5-5", "alpha-opus-5": "alpha-opus-5-5",
		"gamma-5.6-sol": "gamma-6.1-sol", "gamma-5.6-terra": "gamma-6.1-sol", "gamma-5.6-luna": "gamma-6-luna",
	} {
		if served == "" {
			served = asked
		}
		for _, stream := range []bool{false, true} {
			r := c.Want(200, "POST", responses, body{
				"model": asked, "input": "say: Grüße, “quotes” 🙂\u2028\ndata: x", "stream": stream,
				"temperature": 1.5, "top_p": 0.5, "reasoning": body{"effort": "none"}, "instructions": "Be brief.",
			})
			if got, want := r.Text(), "Grüße, “quotes” 🙂\u2028\ndata: x"; got != want {
				t.Errorf("%s, stream %v: the text is %q, want %q", asked, stream, got, want)
			}
			if !strings.Contains(string(r.Body), `"model":"`+served+`"`) {
				t.Errorf("%s, stream %v: not served as %s", asked, stream, served)
			}
			if got := r.Header.Get("stoa-model-requested"); (got != "") != (asked != served) {
				t.Errorf("%s: stoa-model-requested is %q", asked, got)
			}
		}
	}
	quiet(t, h)
}

func TestAReplyEchoesWhatWasSent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Version1: true})
	var r contract.Response
	h.Client(t).Want(200, "POST", responses, body{
		"model": "auto", "input": "say: x", "instructions": "", "max_output_tokens": 50, "max_tool_calls": 3, "parallel_tool_calls": false,
		"prompt_cache_key": "pk", "safety_identifier": "si", "user": "u", "reasoning": body{"effort": "low", "summary": "auto"},
		"temperature": 0.25, "top_p": 1, "presence_penalty": -0.5, "frequency_penalty": 2, "text": body{"verbosity": "high"},
		"tool_choice": "none", "truncation": "auto", "metadata": body{"a": "b\n"}, "store": true, "service_tier": "auto",
	}).JSON(&r)
	empty, u, si, pk, low, fifty, three := "", "u", "si", "pk", "low", int64(50), int64(3)
	want := contract.Response{
		ID: r.ID, Object: "response", CreatedAt: r.CreatedAt, CompletedAt: r.CompletedAt, Status: "completed",
		Instructions: &empty, MaxOutputTokens: &fifty, MaxToolCalls: &three, Model: r.Model, Output: r.Output, PromptCacheKey: &pk, SafetyIdentifier: &si,
		Reasoning: &contract.Reasoning{Effort: &low}, ServiceTier: "default", Temperature: 0.25, TopP: 1, PresencePenalty: -0.5, FrequencyPenalty: 2,
		Text: contract.TextSettings{Format: contract.TextFormat{Type: "text"}, Verbosity: "high"}, ToolChoice: "none", Tools: []contract.FunctionTool{},
		Truncation: "auto", Usage: r.Usage, User: &u, Metadata: map[string]string{"a": "b\n"},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAGatedModelFallsBackToTheDefault(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Plans: []stoa.Plan{{ID: "pro"}}}) // the owner's plan, without gated models
	var r contract.Response
	reply := h.Client(t).Want(200, "POST", responses, body{"model": "alpha-opus-5", "input": "say: hi"}).JSON(&r)
	if r.Model != "beta-3.8-flash" || reply.Header.Get("stoa-model-requested") != "alpha-opus-5" {
		t.Errorf("served by %s, requested %q", r.Model, reply.Header.Get("stoa-model-requested"))
	}
	if c := receipt(t, h); c.Asked != "alpha-opus-5" || c.Served != "beta-3.8-flash" || c.Reason != "plan" {
		t.Errorf("the receipt says %s, %s, %q", c.Asked, c.Served, c.Reason)
	}
}

// A call with strict_model is rejected instead of answered by another model, at no
// cost; models in the plan are served.
func TestStrictModelRefusesAnotherModel(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Plans: []stoa.Plan{{ID: "pro", Name: "Professional"}}})
	c := h.Client(t)
	for _, stream := range []bool{false, true} {
		e := c.WantError(stoa.CodeModelNotInPlan, "POST", responses, body{"model": "alpha-opus-5", "input": "say: hi", "strict_model": true, "stream": stream})
		want := "The plan Professional does not include alpha-opus-5-5, and strict_model keeps beta-3.8-flash from answering in its place. Choose another model, or leave strict_model out."
		if e.Param == nil || *e.Param != "model" || e.Message != want {
			t.Errorf("param %v: %s", e.Param, e.Message)
		}
	}
	for _, model := range []string{"auto", "alpha-haiku-4-5"} {
		c.Want(200, "POST", responses, body{"model": model, "input": "say: hi", "strict_model": true})
	}
	c.Want(200, "POST", responses, body{"model": "alpha-opus-5", "input": "say: hi", "strict_model": nil})
	c.WantError(stoa.CodeInvalidType, "POST", responses, body{"model": "auto", "input": "say: hi", "strict_model": "yes"})
}

func TestTheChargeIsTheVendorsUsageTimesThePrice(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		r := h.Client(t).Want(200, "POST", responses, body{"model": model, "input": "cached: 2\nthink: 90\ntokens: 20"})
		var got contract.Response
		r.JSON(&got)
		told := f.WaitEnded(t, 1)
		u := told[len(told)-1].Usage
		if got.Usage.InputTokens != u.Input || got.Usage.OutputTokens != u.Output || got.Usage.InputTokensDetails.CachedTokens != u.Cached || got.Usage.OutputTokensDetails.ReasoningTokens != u.Reasoning {
			t.Errorf("%s: told %+v, the vendor said %+v", model, got.Usage, u)
		}
	}
	var sum stoa.Credits
	for _, c := range receipts(t, h) {
		if c.Amount != c.Price.Cost(c.Usage) || c.Estimated || c.Clamped || c.Capped || c.State != "completed" {
			t.Errorf("receipt %+v", c.Charge)
		}
		sum += c.Amount
	}
	if b := quiet(t, h); b.Spent != sum {
		t.Errorf("spent %d, the receipts say %d", b.Spent, sum)
	}
}

func TestAFailureBeforeTheFirstTextIsAnHTTPError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		input string
		code  stoa.Code
	}{
		{"fail: 529", stoa.CodeOverloaded},
		{"fail: 429", stoa.CodeOverloaded},
		{"fail: 500", stoa.CodeUpstream},
		{"fail: 401", stoa.CodeUpstream},
		{"fault: error-in-stream", stoa.CodeOverloaded},
		{"fault: no-end\nempty", stoa.CodeUpstream},
		{"fault: malformed", stoa.CodeUpstream},
		{"fault: html", stoa.CodeUpstream},
		{"fault: close", stoa.CodeUpstream},
	} {
		h, _ := vendors(t, apitest.Config{}) // a new server: models that fail too often are avoided for a while
		for _, stream := range []bool{false, true} {
			e := h.Client(t).WantError(c.code, "POST", responses, body{"model": "alpha-haiku-4-5", "input": c.input, "stream": stream})
			if strings.Contains(e.Message, "claude") || strings.Contains(e.Message, fakeup.Key) {
				t.Errorf("%s: the message gives the vendor away: %s", c.input, e.Message)
			}
		}
		if n := len(receipts(t, h)); n != 0 {
			t.Errorf("%s: %d failed calls were charged", c.input, n)
		}
		quiet(t, h)
	}
}

func TestAFailureAfterTheFirstTextEndsTheStream(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		for _, fault := range []string{"error-in-stream", "no-end", "reset"} { // TestABrokenStreamIsPaid has the others
			r := h.Client(t).Want(200, "POST", responses, body{"model": model, "stream": true, "input": "fault: " + fault + " after 3\ntokens: 10"})
			last := r.Events[len(r.Events)-1]
			if last.Type != contract.EventFailed || last.Response.Error.Code != "server_error" || last.Response.OutputText() == "" {
				t.Errorf("%s, %s: ends with %s, %+v", model, fault, last.Type, last.Response)
			}
			h.Client(t).WantError(stoa.CodeUpstream, "POST", responses, body{"model": model, "input": "fault: no-end after 3\ntokens: 10"})
		}
	}
	if n := len(receipts(t, h)); n != 0 {
		t.Errorf("%d failed calls were charged", n)
	}
	quiet(t, h)
}

// TestAFailureIsToldBeforeItsKeyIsFreed fails a stream while nothing can be written to the
// store: freeing the Idempotency-Key has to wait for it, the client has not.
func TestAFailureIsToldBeforeItsKeyIsFreed(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	text, err := json.Marshal(body{"model": "delta-v4-flash", "stream": true, "input": "tokens: 400\nslow: 5ms\nfault: no-end after 40"})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+responses, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	req.Header.Set("Idempotency-Key", "told-first")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	busy, free := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- h.Store.Write(context.Background(), func(*store.Tx) error { close(busy); <-free; return nil })
	}()
	<-busy
	failed, last := false, ""
	for lines := bufio.NewScanner(res.Body); last != "data: [DONE]" && lines.Scan(); last = lines.Text() {
		failed = failed || lines.Text() == "event: "+contract.EventFailed
	}
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !failed || last != "data: [DONE]" {
		t.Errorf("failed: %v; the stream ends with %q", failed, last)
	}
	f.WaitEnded(t, 1)
	h.HTTP.Close() // waits for the handler
	quiet(t, h)
}

func TestAReplyMayEndEarlyOrBeEmpty(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, c := range []struct {
		input, status, reason string
	}{
		{"stop: length\ntokens: 5", "incomplete", "max_output_tokens"},
		{"stop: content_filter\ntokens: 5", "incomplete", "content_filter"},
		{"empty", "completed", ""},
	} {
		for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
			var r contract.Response
			h.Client(t).Want(200, "POST", responses, body{"model": model, "input": c.input}).JSON(&r)
			if string(r.Status) != c.status || len(r.Output) != 1 || len(r.Output[0].Content) != 1 || r.Output[0].Status != c.status {
				t.Errorf("%s, %s: %s with %+v", model, c.input, r.Status, r.Output)
			}
			if r.IncompleteDetails != nil && r.IncompleteDetails.Reason != c.reason {
				t.Errorf("%s, %s: the reason is %s", model, c.input, r.IncompleteDetails.Reason)
			}
			h.Client(t).Want(200, "POST", responses, body{"model": model, "input": c.input, "stream": true})
		}
	}
}

func TestALowBalanceShortensAReplyAndThenRefuses(t *testing.T) {
	t.Parallel()
	// The balance covers the input and about 300 tokens of output.
	h, f := vendors(t, apitest.Config{Grant: 20 + 300*5})
	c := h.Client(t)
	var r contract.Response
	c.Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "input": "tokens: 1000"}).JSON(&r)
	if r.Status != "incomplete" || r.MaxOutputTokens != nil {
		t.Errorf("status %s, max_output_tokens %v", r.Status, r.MaxOutputTokens)
	}
	reply := c.Do("POST", responses, body{"model": "alpha-haiku-4-5", "input": "hi", "stream": true})
	if e := reply.Error(); reply.Status != 429 || e.Code != "insufficient_quota" || e.Type != "insufficient_quota" || e.Retryable {
		t.Errorf("%d %+v", reply.Status, e)
	}
	if reply.Header.Get("x-should-retry") != "false" || reply.Header.Get("Retry-After") != "" {
		t.Errorf("x-should-retry %q, Retry-After %q", reply.Header.Get("x-should-retry"), reply.Header.Get("Retry-After"))
	}
	if n := len(f.Served()); n != 1 {
		t.Errorf("%d calls reached the vendor", n)
	}
	if b := quiet(t, h); b.Available < 0 {
		t.Errorf("overdrawn: %+v", b)
	}
}

func TestUsageThatCannotBeIsCountedHere(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, order := range []string{"usage: none", "usage: huge", "usage: negative"} {
		for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
			var r contract.Response
			h.Client(t).Want(200, "POST", responses, body{"model": model, "input": order + "\ntokens: 30"}).JSON(&r)
			if u := r.Usage; u.InputTokens <= 0 || u.OutputTokens <= 0 || u.OutputTokens > 500 {
				t.Errorf("%s, %s: told %+v", model, order, u)
			}
		}
	}
	for _, c := range receipts(t, h) {
		if !c.Estimated || c.Amount != c.Price.Cost(c.Usage) {
			t.Errorf("%s: estimated %v, %d credits for %+v", c.Served, c.Estimated, c.Amount, c.Usage)
		}
	}
	quiet(t, h)
}

// disconnect makes a call and leaves after the first delta, or at once where the
// call is not streamed.
func disconnect(t *testing.T, h *apitest.Service, f *fakeup.Server, header, input string, stream bool) {
	t.Helper()
	disconnectFrom(t, h, f, responses, header, body{"model": "alpha-haiku-4-5", "input": input, "stream": stream})
}

// disconnectFrom is [disconnect] for a call of any format.
func disconnectFrom(t *testing.T, h *apitest.Service, f *fakeup.Server, path, header string, call body) {
	t.Helper()
	stream := call["stream"].(bool)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text, _ := json.Marshal(call)
	req, err := http.NewRequestWithContext(ctx, "POST", h.URL+path, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	if header != "" {
		req.Header.Set("Idempotency-Key", header)
	}
	if !stream {
		go func() {
			f.WaitDeltas(t, 3)
			cancel()
		}()
	}
	res, err := http.DefaultClient.Do(req)
	if !stream {
		if err == nil {
			res.Body.Close()
			t.Fatal("a call that was broken off answered")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		for _, delta := range []string{"output_text.delta", `"text_delta"`, `"delta":{"content"`, `"parts":[{"text"`} {
			if strings.Contains(lines.Text(), delta) {
				return
			}
		}
	}
	t.Fatal("no delta came")
}

func TestACallerWhoHangsUpPaysForWhatWasMade(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		h, f := vendors(t, apitest.Config{})
		disconnect(t, h, f, "", "tokens: 5000\nslow: 2ms", stream)
		served := f.WaitEnded(t, 1)
		if served[0].Completed || served[0].DisconnectedAt.IsZero() {
			t.Errorf("stream %v: the vendor was not cancelled", stream)
		}
		h.HTTP.Close() // waits for the handler
		if c := receipt(t, h); !c.Estimated || c.State != "cancelled" || c.Amount <= 0 || c.Usage.OutputTokens > 2000 {
			t.Errorf("stream %v: charged %+v", stream, c.Charge)
		}
		quiet(t, h)
	}
}

func TestACallThatIsMadeOnceIsChargedOnceAndReplayed(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, stream := range []bool{false, true} {
		key := map[bool]string{false: "whole", true: "streamed"}[stream]
		c := h.Client(t).With("Idempotency-Key", key)
		call := body{"model": "alpha-sonnet-5", "input": "tokens: 8", "stream": stream, "metadata": body{"a": "b"}}
		first := c.Want(200, "POST", responses, call)
		again := c.Want(200, "POST", responses, call)
		if again.Header.Get("Idempotency-Replayed") != "true" || first.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("stream %v: Idempotency-Replayed is %q, then %q", stream, first.Header.Get("Idempotency-Replayed"), again.Header.Get("Idempotency-Replayed"))
		}
		if stream {
			one, two := first.Events[len(first.Events)-1].Response, again.Events[len(again.Events)-1].Response
			if diff := cmp.Diff(one, two); diff != "" {
				t.Errorf("the final objects differ:\n%s", diff)
			}
		} else {
			if string(first.Body) != string(again.Body) {
				t.Errorf("first %s\nagain %s", first.Body, again.Body)
			}
			for _, name := range []string{"stoa-charge-micro", "stoa-model-requested"} {
				if first.Header.Get(name) == "" || first.Header.Get(name) != again.Header.Get(name) {
					t.Errorf("%s is %q, then %q", name, first.Header.Get(name), again.Header.Get(name))
				}
			}
		}
		c.WantError(stoa.CodeIdempotencyReused, "POST", responses, body{"model": "auto", "input": "else"})
	}
	if n := len(f.Served()); n != 2 {
		t.Errorf("%d calls reached the vendor, want 2", n)
	}
	if n := len(receipts(t, h)); n != 2 {
		t.Errorf("%d receipts, want 2", n)
	}
	h.Client(t).With("Idempotency-Key", "no spaces").WantError(stoa.CodeInvalidValue, "POST", responses, body{"model": "auto", "input": "x"})
	quiet(t, h)
}

func TestACallThatIsMadeOnceGoesOnWithoutItsCaller(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		h, f := vendors(t, apitest.Config{})
		const input = "tokens: 60\nslow: 10ms"
		disconnect(t, h, f, "k", input, stream)
		c := h.Client(t).With("Idempotency-Key", "k")
		call := body{"model": "alpha-haiku-4-5", "input": input, "stream": stream}
		if served := f.WaitEnded(t, 1); !served[0].Completed {
			t.Fatal("the call was broken off")
		}
		var r *apitest.Reply
		for r = c.Do("POST", responses, call); r.Status == 409; r = c.Do("POST", responses, call) {
		}
		if r.Status != 200 || len(strings.Fields(r.Text())) < 50 {
			t.Errorf("stream %v: %d %q", stream, r.Status, r.Text())
		}
		h.HTTP.Close() // waits for the handler of the first call, which gives back what it held
		if got := receipt(t, h); got.Estimated || got.State != "completed" {
			t.Errorf("stream %v: charged %+v", stream, got.Charge)
		}
		quiet(t, h)
	}
}

func TestACallThatIsMadeOnceRunsOnlyOnce(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	const input = "fault: hang-body after 3\ntokens: 10"
	disconnect(t, h, f, "k", input, true)
	c := h.Client(t).With("Idempotency-Key", "k")
	r := c.Do("POST", responses, body{"model": "alpha-haiku-4-5", "input": input, "stream": true})
	if e := r.Error(); e.Code != string(stoa.CodeIdempotencyRunning) || !e.Retryable || r.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %+v, Retry-After %q", r.Status, e, r.Header.Get("Retry-After"))
	}
	h.Server.Stop() // it hangs for ever otherwise
	f.WaitEnded(t, 1)
}

func TestAFailedCallGivesItsKeyBack(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t).With("Idempotency-Key", "k")
	call := body{"model": "alpha-haiku-4-5", "input": "flaky: 3\nsay: at last"}
	c.WantError(stoa.CodeOverloaded, "POST", responses, call)
	if r := c.Want(200, "POST", responses, call); r.Text() != "at last" || r.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%q, replayed %q", r.Text(), r.Header.Get("Idempotency-Replayed"))
	}
	if n := len(f.Served()); n != 4 {
		t.Errorf("%d attempts, want three that failed and one", n)
	}
	receipt(t, h)
}

func TestASlowVendorsStreamBeginsByItself(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{Server: func(s *api.Server) { s.Calls.HeaderWait, s.Calls.KeepAlive = 20*time.Millisecond, 20*time.Millisecond }})
	r := h.Client(t).Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "stream": true, "input": "wait: 2s\nsay: late"})
	if r.Text() != "late" || !strings.Contains(string(r.Body), ": keepalive\n\n") {
		t.Errorf("%q: no comment in the silence, or no text", r.Body)
	}
	// From then on a failure is reported inside the stream, without a fallback.
	r = h.Client(t).Want(200, "POST", responses, body{"model": "auto", "stream": true, "input": "wait: 100ms\nfail: 400"})
	if last := r.Events[len(r.Events)-1]; last.Type != contract.EventFailed || len(last.Response.Output) != 0 {
		t.Errorf("ends with %s", last.Type)
	}
}

func TestCommentsFillPausesBeforeHeaderWait(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{Server: func(s *api.Server) { s.Calls.HeaderWait, s.Calls.KeepAlive = time.Hour, 20*time.Millisecond }})
	r := h.Client(t).Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "stream": true, "input": "slow: 200ms\ntokens: 2"})
	if !strings.Contains(string(r.Body), ": keepalive\n\n") {
		t.Errorf("%q: no comment between the deltas", r.Body)
	}
}

func TestAutoPassesOverAModelThatFails(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	down := f.Provider("gemini")
	down.APIKey = "wrong"
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{down, f.Provider("responses")},
		Families:  map[string][]stoa.Route{"beta": {{Provider: "gemini"}}, "gamma": {{Provider: "responses"}}},
	})
	var r contract.Response
	h.Client(t).Want(200, "POST", responses, body{"model": "auto", "input": "say: hi"}).JSON(&r)
	if r.Model != "gamma-6-luna" || r.OutputText() != "hi" {
		t.Errorf("%s says %q", r.Model, r.OutputText())
	}
	h.Client(t).WantError(stoa.CodeUpstream, "POST", responses, body{"model": "beta-3.8-flash", "input": "say: hi"})
	h.Client(t).WantError(stoa.CodeModelUnavailable, "POST", responses, body{"model": "alpha-haiku-4-5", "input": "say: hi"})
	receipt(t, h)
	quiet(t, h)
}

func TestAStopEndsStreamsAsFailedAndFree(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	text, _ := json.Marshal(body{"model": "alpha-haiku-4-5", "stream": true, "input": "tokens: 100000\nslow: 2ms"})
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+responses, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines, deltas, last := bufio.NewScanner(res.Body), 0, []string{}
	for lines.Scan() {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			last = append(last, kind)
			if kind == contract.EventOutputTextDelta {
				if deltas++; deltas == 3 {
					h.Server.Stop()
				}
			}
		}
	}
	if n := len(last); n < 2 || last[n-2] != contract.EventError || last[n-1] != contract.EventFailed {
		t.Errorf("the stream ends with %v", last[max(0, len(last)-3):])
	}
	if n := len(receipts(t, h)); n != 0 {
		t.Errorf("%d calls were charged", n)
	}
	h.HTTP.Close() // waits for the handler, which gives the hold back
	quiet(t, h)
}

func TestLimitsOfAPlanSlowOneKeyOnly(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Plans: []stoa.Plan{{ID: "pro", RequestsPerMinute: 3, ConcurrentPerKey: 1}}})
	c := h.Client(t)
	for range 3 {
		c.Want(200, "POST", responses, body{"model": "auto", "input": "say: x"})
	}
	r := c.Do("POST", responses, body{"model": "auto", "input": "say: x"})
	if e := r.Error(); e.Code != "rate_limit_exceeded" || r.Header.Get("Retry-After") == "" || !e.Retryable {
		t.Errorf("%d %+v, Retry-After %q", r.Status, e, r.Header.Get("Retry-After"))
	}
	other, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, other).Want(200, "POST", responses, body{"model": "auto", "input": "say: x"})
}

func TestConcurrentCallsAreLimitedPerKey(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{Plans: []stoa.Plan{{ID: "pro", ConcurrentPerKey: 1}}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = h.Client(t).Try(ctx, "POST", responses, body{"model": "alpha-haiku-4-5", "input": "tokens: 100000\nslow: 2ms"})
	})
	f.WaitDeltas(t, 1)
	h.Client(t).WantError(stoa.CodeRateLimit, "POST", responses, body{"model": "alpha-haiku-4-5", "input": "say: x"})
	cancel()
	wg.Wait()
	f.WaitEnded(t, 1)
}

func TestBadCallsNeverReachAVendor(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, call := range []any{`{`, body{"model": "auto"}, body{"model": "nope", "input": "x"}, body{"model": "auto", "input": "x", "tools": []any{body{}}}} {
		if r := h.Client(t).Do("POST", responses, call); r.Status != 400 {
			t.Errorf("%v: %d", call, r.Status)
		}
	}
	if n := len(f.Served()); n != 0 {
		t.Errorf("%d calls reached the vendor", n)
	}
}
