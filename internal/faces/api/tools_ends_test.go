package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

var allWires = []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"}

// callTools asks a model with the tools f and g in one of the three formats.
func callTools(path, model, prompt string, more body) body {
	tools := []body{}
	for _, name := range []string{"f", "g"} {
		switch path {
		case responses:
			tools = append(tools, body{"type": "function", "name": name})
		case "/api/v1/messages":
			tools = append(tools, body{"name": name, "input_schema": body{"type": "object"}})
		default:
			tools = append(tools, body{"type": "function", "function": body{"name": name}})
		}
	}
	call := body{"model": model, "tools": tools, "stream": true}
	if path == responses {
		call["input"] = prompt
	} else {
		call["messages"] = []body{{"role": "user", "content": prompt}}
	}
	if path == "/api/v1/messages" {
		call["max_tokens"] = 1000
	}
	return with(call, more)
}

var allFormats = []string{responses, "/api/v1/chat/completions", "/api/v1/messages"}

func TestAMiBOfArgumentsArrivesWhole(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	large := `{"a":"` + strings.Repeat("x", 1<<20-8) + `"}`
	for _, model := range []string{"alpha-sonnet-5-5", "gamma-6.1-sol", "delta-v4-flash"} {
		r := h.Client(t).Want(200, "POST", responses, callTools(responses, model, "call: f "+large+"\ncall: g {}", body{"max_output_tokens": 100_000}))
		pieces := map[string]string{}
		for _, ev := range r.Events {
			if ev.Type == contract.EventArgumentsDelta {
				if ev.Delta == "" {
					t.Errorf("%s: a delta is empty", model)
				}
				pieces[ev.ItemID] += ev.Delta
			}
			if ev.Type == contract.EventArgumentsDone && ev.Arguments != pieces[ev.ItemID] {
				t.Errorf("%s: the end has other arguments than the pieces", model)
			}
		}
		out := calls(r.Events[len(r.Events)-1].Response)
		if len(out) != 2 || out[0].Arguments != large || pieces[out[0].ID] != large || out[1].Arguments != "{}" || pieces[out[1].ID] != "{}" {
			t.Errorf("%s: %d calls came, %s", model, len(out), r.Events[len(r.Events)-1].Type)
		}
	}
	quiet(t, h)
}

func TestACutCallEndsItsReply(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	const prompt = "call: f {\"a\":1}\ncall: g {\"long\":\"value\"}\ncut-call: 6"
	for _, model := range allWires {
		if model == "beta-3.8-flash" { // its calls come whole
			continue
		}
		r := c.Want(200, "POST", responses, callTools(responses, model, prompt, nil))
		last := r.Events[len(r.Events)-1]
		out := calls(last.Response)
		if last.Type != contract.EventIncomplete || last.Response.IncompleteDetails.Reason != "max_output_tokens" || len(out) != 2 ||
			out[0].Status != "completed" || out[1].Status != "incomplete" || out[1].Arguments != `{"long` {
			t.Errorf("%s: %s with %+v", model, last.Type, out)
		}
		for path, want := range map[string]string{"/api/v1/chat/completions": `"finish_reason":"length"`, "/api/v1/messages": `"stop_reason":"max_tokens"`} {
			if r := c.Want(200, "POST", path, callTools(path, model, prompt, nil)); !strings.Contains(string(r.Body), want) {
				t.Errorf("%s at %s: %s", model, path, r.Body)
			}
		}
	}
	for _, got := range receipts(t, h) {
		if got.State != "incomplete" || got.Usage.OutputTokens == 0 || got.Estimated || got.Adjustments != 0 {
			t.Errorf("%s was charged %+v", got.Served, got.Charge)
		}
	}
	quiet(t, h)
}

func TestAVendorThatDiesInACallIsFree(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	for _, model := range []string{"alpha-haiku-4-5", "gamma-6-luna", "delta-v4-flash"} {
		const prompt = "call: f {\"a\":\"some text\"}\nfault: reset after 2"
		r := c.Want(200, "POST", responses, callTools(responses, model, prompt, nil))
		n := len(r.Events)
		if r.Events[n-2].Type != contract.EventError || r.Events[n-1].Type != contract.EventFailed || r.Events[n-3].Type != contract.EventArgumentsDelta {
			t.Errorf("%s ends with %s", model, r.Body)
		}
		chat := c.Want(200, "POST", "/api/v1/chat/completions", callTools("/api/v1/chat/completions", model, prompt, nil))
		if text := string(chat.Body); !strings.Contains(text, `data: {"error":`) || strings.Contains(text, "[DONE]") || strings.Contains(text, `"finish_reason":"`) {
			t.Errorf("%s ends as chat with %s", model, text)
		}
		messages := c.Want(200, "POST", "/api/v1/messages", callTools("/api/v1/messages", model, prompt, nil))
		if text := string(messages.Body); !strings.Contains(text, "event: error") || strings.Contains(text, "message_stop") {
			t.Errorf("%s ends as Messages with %s", model, text)
		}
	}
	if all := receipts(t, h); len(all) != 0 {
		t.Errorf("%d calls that broke off were charged", len(all))
	}
	quiet(t, h)
}

func TestAClientMayLeaveInsideACall(t *testing.T) {
	t.Parallel()
	for _, path := range allFormats {
		h, f := vendors(t, apitest.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		text, _ := json.Marshal(callTools(path, "alpha-haiku-4-5", "call: f {\"a\":\"some text\"}\nfault: hang-body after 2", nil))
		req, err := http.NewRequestWithContext(ctx, "POST", h.URL+path, strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.Key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(res.Body); lines.Scan() && !strings.Contains(lines.Text(), `{\"a`); {
		}
		cancel()
		res.Body.Close()
		served := f.WaitEnded(t, 1)
		h.HTTP.Close() // waits for the handler
		if served[0].DisconnectedAt.IsZero() {
			t.Errorf("%s: the vendor went on", path)
		}
		if got := receipt(t, h); got.State != "cancelled" || !got.Estimated || got.Usage.OutputTokens == 0 || got.Usage.InputTokens == 0 {
			t.Errorf("%s: charged %+v", path, got.Charge)
		}
		quiet(t, h)
	}
}

func TestTooLittleForToolsIsRefusedBefore(t *testing.T) {
	t.Parallel()
	// The balance covers a short call, but neither tools of that size nor images.
	h, f := vendors(t, apitest.Config{Grant: 2_500})
	c := h.Client(t)
	c.Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "input": "say: x"})
	n := len(f.Served())
	for _, path := range allFormats {
		code := stoa.CodeQuota
		long := callTools(path, "alpha-haiku-4-5", "call: f {}", nil)
		tool := long["tools"].([]body)[0]
		if inner, ok := tool["function"].(body); ok {
			tool = inner
		}
		tool["description"] = strings.Repeat("long ", 2000)
		c.WantError(code, "POST", path, long)
	}
	c.WantError(stoa.CodeQuota, "POST", responses, seen("alpha-haiku-4-5", body{"type": "input_image", "image_url": picture(t)}))
	if got := len(f.Served()); got != n {
		t.Errorf("the vendor was asked %d times", got-n)
	}
	quiet(t, h)
}

func TestTwentyImagesAreBelievable(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	images := make([]body, 20)
	for i := range images { // the vendor counts a token for four bytes: some 1,500 each
		images[i] = body{"type": "input_image", "image_url": picture(t) + strings.Repeat("AAAA", 1500)}
	}
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna"} {
		c.Want(200, "POST", responses, seen(model, images...))
	}
	for _, got := range receipts(t, h) {
		if got.Estimated || got.Usage.InputTokens < 20_000 {
			t.Errorf("%s: the usage %+v was not believed", got.Served, got.Usage)
		}
	}
	quiet(t, h)
}

func TestFailoverIsBeforeTheFirstItem(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	breaking := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(events ...string) {
			for _, data := range events {
				fmt.Fprintf(w, "data: %s\n\n", data)
			}
		}
		say(`{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"AAAA"}}`,
			`{"type":"content_block_stop","index":0}`)
		if strings.Contains(string(asked), "late") {
			say(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`)
		}
		say(`{"type":"error","error":{"type":"api_error","message":"broken"}}`)
	}))
	t.Cleanup(breaking.Close)
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{{Name: "breaking", Wire: "messages", BaseURL: breaking.URL, APIKey: "x"}, f.Provider("deepseek")},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "breaking"}, {Provider: "deepseek", Model: "deepseek-v4-flash"}}},
	})
	c := h.Client(t)
	// Reasoning that shows nothing is held back, so that the other route can serve.
	r := c.Want(200, "POST", responses, callTools(responses, "alpha-haiku-4-5", "call: f {}", nil))
	if last := r.Events[len(r.Events)-1]; last.Type != contract.EventCompleted || len(calls(last.Response)) != 1 || len(f.Served()) != 1 {
		t.Errorf("the reply ends with %s: %+v", last.Type, last.Response.Output)
	}
	// Behind the beginning of a call it cannot.
	r = c.Want(200, "POST", responses, callTools(responses, "alpha-haiku-4-5", "call: f {}\nmark: late", nil))
	if last := r.Events[len(r.Events)-1]; last.Type != contract.EventFailed || len(f.Served()) != 1 {
		t.Errorf("the reply ends with %s", last.Type)
	}
	quiet(t, h)
}

// calls returns the calls of a reply.
func calls(r *contract.Response) (calls []contract.OutputItem) {
	for _, it := range r.Output {
		if it.Type == "function_call" {
			calls = append(calls, it)
		}
	}
	return calls
}
