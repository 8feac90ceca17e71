package api_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// longText has 2,400 characters.
var longText = strings.TrimSpace(strings.Repeat("long text ", 240))

// replyOf makes a call and returns the reply as an object, in either form.
func replyOf(t *testing.T, c *apitest.Client, call body) (r contract.Response) {
	t.Helper()
	got := c.Want(200, "POST", responses, call)
	if call["stream"] != true {
		got.JSON(&r)
		return r
	}
	last := got.Events[len(got.Events)-1]
	if text := got.Text(); text != last.Response.OutputText() {
		t.Errorf("the pieces are %q, the end has %q", text, last.Response.OutputText())
	}
	return *last.Response
}

// paidFor checks the receipt of a reply.
func paidFor(t *testing.T, h *apitest.Service, r contract.Response, state string, adjusted stoa.Adjustments) stoa.Charge {
	t.Helper()
	all := receipts(t, h)
	i := slices.IndexFunc(all, func(c store.Receipt) bool { return c.ID == r.ID })
	if i < 0 {
		t.Errorf("%s has no receipt", r.ID)
		return stoa.Charge{}
	}
	if c := all[i].Charge; c.Amount <= 0 || c.State != state || c.Adjustments != adjusted || r.Usage == nil || r.Usage.OutputTokens != c.Usage.OutputTokens {
		t.Errorf("charged %+v, the reply says %+v", c, r.Usage)
	}
	return all[i].Charge
}

func TestACallThatWasNotOfferedIsLeftOut(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	history := func(prompt string) []body {
		return []body{
			{"role": "user", "content": "hi"},
			{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
			{"type": "function_call_output", "call_id": "c1", "output": "x"},
			{"role": "assistant", "content": "done"},
			{"role": "user", "content": prompt},
		}
	}
	made := 0
	for _, model := range allWires {
		for _, stream := range []bool{true, false} {
			for _, text := range []string{longText, ""} {
				prompt := "stray\ncall: f {\"a\":1}\n"
				if text != "" {
					prompt += "say: " + text
				}
				for _, input := range []any{prompt, history(prompt)} {
					r := replyOf(t, c, body{"model": model, "stream": stream, "input": input})
					if made++; r.Status != "completed" || r.OutputText() != text || len(calls(&r)) != 0 {
						t.Errorf("%s, stream %v: %s with %+v", model, stream, r.Status, r.Output)
					}
					if got := paidFor(t, h, r, "completed", stoa.CallsDropped); got.Estimated {
						t.Errorf("%s, stream %v: the vendor's usage does not count: %+v", model, stream, got)
					}
				}
			}
		}
	}
	if n := len(f.Served()); n != made {
		t.Errorf("%d requests for %d calls", n, made)
	}
	for _, path := range allFormats[1:] {
		for _, model := range allWires {
			call := callTools(path, model, "stray\ncall: f {}\nsay: "+longText, nil)
			delete(call, "tools")
			if r := c.Want(200, "POST", path, call); strings.Contains(string(r.Body), "tool_call") || strings.Contains(string(r.Body), "tool_use") {
				t.Errorf("%s at %s: %s", model, path, r.Body)
			}
			made++
		}
	}
	if n := len(receipts(t, h)); n != made {
		t.Errorf("%d receipts for %d calls", n, made)
	}
	quiet(t, h)
}

func TestACallThatCannotBeReadEndsItsReply(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	tools := body{"tools": []body{{"type": "function", "name": "f"}}}
	const model = "beta-3.8-flash"
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"} {
		for _, stream := range []bool{true, false} {
			prompt := "finish: " + reason + "\nsay: " + longText
			r := replyOf(t, c, with(body{"model": model, "stream": stream, "input": prompt}, tools))
			if r.Status != "incomplete" || r.IncompleteDetails.Reason != "calls_dropped" || r.OutputText() != longText {
				t.Errorf("%s, stream %v: %s with %+v", reason, stream, r.Status, r.Output)
			}
			if got := paidFor(t, h, r, "incomplete", stoa.CallsDropped); got.Estimated {
				t.Errorf("%s, stream %v: the vendor's usage does not count: %+v", reason, stream, got)
			}
			for _, text := range []string{longText, ""} { // without tools
				prompt := "finish: " + reason + "\nempty"
				if text != "" {
					prompt = "finish: " + reason + "\nsay: " + text
				}
				r := replyOf(t, c, body{"model": model, "stream": stream, "input": prompt})
				if r.Status != "completed" || r.OutputText() != text {
					t.Errorf("%s, stream %v: %s with %+v", reason, stream, r.Status, r.Output)
				}
				paidFor(t, h, r, "completed", stoa.CallsDropped)
			}
		}
	}
	all := len(receipts(t, h))
	if n := len(f.Served()); n != all {
		t.Errorf("%d requests for %d replies", n, all)
	}
	// Nothing came before it: another attempt may do better, and what fails is free.
	for _, stream := range []bool{true, false} {
		c.WantError(stoa.CodeUpstream, "POST", responses, with(body{"model": model, "stream": stream, "input": "finish: MALFORMED_FUNCTION_CALL\nempty"}, tools))
	}
	if n := len(receipts(t, h)); n != all {
		t.Errorf("%d receipts, want %d", n, all)
	}
	quiet(t, h)
}

func TestWhatCameBeforeTheTotalTimeoutIsPaid(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	cfg := apitest.Config{Families: map[string][]stoa.Route{}}
	for family, wire := range map[string]string{"alpha": "messages", "beta": "gemini", "gamma": "responses", "delta": "deepseek"} {
		pr := f.Provider(wire)
		pr.Timeouts.Total = 2 * time.Second
		cfg.Providers, cfg.Families[family] = append(cfg.Providers, pr), []stoa.Route{{Provider: wire}}
	}
	h := start(t, cfg)
	c := h.Client(t)
	text := strings.TrimSpace(strings.Repeat("word ", 40))
	var calls sync.WaitGroup
	for _, model := range allWires {
		for _, stream := range []bool{true, false} {
			calls.Go(func() {
				got, err := c.Try(t.Context(), "POST", responses, body{"model": model, "stream": stream, "input": "tokens: 100\nfault: hang-body after 40"})
				if err != nil || got.Status != 200 {
					t.Errorf("%s, stream %v: %v, %v", model, stream, got, err)
					return
				}
				var r contract.Response
				if stream {
					r = *got.Events[len(got.Events)-1].Response
				} else {
					got.JSON(&r)
				}
				if r.Status != "incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" || r.OutputText() != text {
					t.Errorf("%s, stream %v: %s with %q", model, stream, r.Status, r.OutputText())
				}
				if got := paidFor(t, h, r, "incomplete", stoa.ReplyCut); !got.Estimated || got.Usage.OutputTokens < 40 || got.Usage.OutputTokens > 100 {
					t.Errorf("%s, stream %v: charged %+v", model, stream, got)
				}
			})
			calls.Go(func() { // before the first text it is free
				got, err := c.Try(t.Context(), "POST", responses, body{"model": model, "stream": stream, "input": "fault: hang"})
				if err != nil || got.Error().Code != string(stoa.CodeUpstreamTimeout) {
					t.Errorf("%s, stream %v: %v, %v", model, stream, got, err)
				}
			})
		}
	}
	calls.Wait()
	if requests, paid := len(f.Served()), len(receipts(t, h)); requests != 16 || paid != 8 {
		t.Errorf("%d requests, %d receipts", requests, paid)
	}
	quiet(t, h)
}

// TestAStallIsNotALimit breaks replies after some text: the vendor stalls, or sends something invalid. Clients repeat what
// failed, and take a shortened reply for an answer, so that a stream ends with an error that can be repeated. It is
// free, and the next call with its Idempotency-Key is a new one.
func TestAStallIsNotALimit(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	cfg := apitest.Config{Families: map[string][]stoa.Route{}}
	for family, wire := range map[string]string{"alpha": "messages", "beta": "gemini", "gamma": "responses", "delta": "deepseek"} {
		pr := f.Provider(wire)
		pr.Timeouts.Idle = 100 * time.Millisecond
		cfg.Providers, cfg.Families[family] = append(cfg.Providers, pr), []stoa.Route{{Provider: wire}}
	}
	h := start(t, cfg)
	c := h.Client(t)
	for _, model := range allWires {
		for i, prompt := range []string{"tokens: 9\nfault: hang-body after 4", "tokens: 9\nfault: malformed after 4"} {
			keyed := c.With("Idempotency-Key", fmt.Sprint(model, i))
			before := len(f.Served())
			for range 2 {
				r := replyOf(t, keyed, body{"model": model, "stream": true, "input": prompt})
				if r.Status != "failed" || r.Error == nil || r.Error.Code != "server_error" || !strings.Contains(r.Error.Message, "Try again") || r.IncompleteDetails != nil {
					t.Errorf("%s, %q: %s %+v, %+v", model, prompt, r.Status, r.Error, r.IncompleteDetails)
				}
			}
			if n := len(f.Served()) - before; n != 2 {
				t.Errorf("%s, %q: two calls with one key made %d requests", model, prompt, n)
			}
			for path, failed := range map[string]string{"/api/v1/chat/completions": `"code":"server_error"`, "/api/v1/messages": `"retryable":true`} {
				raw := c.Do("POST", path, body{"model": model, "stream": true, "max_tokens": 99, "messages": []body{{"role": "user", "content": prompt}}})
				if text := string(raw.Body); !strings.Contains(text, failed) || strings.Contains(text, `"finish_reason":"length"`) || strings.Contains(text, `"stop_reason":"max_tokens"`) {
					t.Errorf("%s, %q of %s: %s", model, prompt, path, text)
				}
			}
			if got := c.Do("POST", responses, body{"model": model, "input": prompt}); got.Status < 500 || !strings.Contains(string(got.Body), `"retryable":true`) {
				t.Errorf("%s, %q: %d %s", model, prompt, got.Status, got.Body)
			}
		}
	}
	if n := len(receipts(t, h)); n != 0 {
		t.Errorf("%d receipts", n)
	}
	quiet(t, h)
}
