package api_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestAForbiddenCallAloneIsCharged has every vendor call a tool that tool_choice forbids and write
// nothing else: a caller can bring that about, and the vendor has billed the input.
func TestAForbiddenCallAloneIsCharged(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{Server: lenient})
	c := h.Client(t)
	long := strings.Repeat("x", 3000)
	for _, model := range allWires {
		for _, path := range allFormats {
			choice := body{"type": "function", "name": "g"}
			switch path {
			case "/api/v1/chat/completions":
				choice = body{"type": "function", "function": body{"name": "g"}}
			case "/api/v1/messages":
				choice = body{"type": "tool", "name": "g"}
			}
			for _, stream := range []bool{false, true} {
				sent := len(f.Served())
				r := c.Want(200, "POST", path, callTools(path, model, "call: f {}\nmark: "+long, body{"tool_choice": choice, "stream": stream}))
				if text := string(r.Body); strings.Contains(text, `"name":"f","arg`) || strings.Contains(text, "tool_use") || strings.Contains(text, `"finish_reason":"tool_calls"`) || strings.Contains(text, `"error":{`) {
					t.Errorf("%s at %s has the call: %s", model, path, text)
				}
				got := receipts(t, h)[0]
				if got.Served != model || got.Amount == 0 || got.Estimated || got.Usage.InputTokens < 500 || got.Adjustments&stoa.CallsDropped == 0 {
					t.Errorf("%s at %s: charged %+v", model, path, got.Charge)
				}
				if n := len(f.Served()) - sent; n != 1 {
					t.Errorf("%s at %s was asked %d times", model, path, n)
				}
			}
		}
	}
	if n, want := len(receipts(t, h)), len(allWires)*len(allFormats)*2; n != want {
		t.Errorf("%d receipts, want %d", n, want)
	}
	quiet(t, h)
}

// TestACallOfAnotherToolIsOmitted has every vendor call a tool that is not among the offered ones:
// a client that runs calls by their names would run it.
func TestACallOfAnotherToolIsOmitted(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{Server: lenient})
	c := h.Client(t)
	for _, model := range allWires {
		for _, path := range allFormats {
			for _, stream := range []bool{false, true} {
				r := c.Want(200, "POST", path, callTools(path, model, "call: other {}\nsay: a", body{"stream": stream}))
				if text := string(r.Body); strings.Contains(text, `"name":"other"`) || strings.Contains(text, `"tool_use"`) || strings.Contains(text, `"finish_reason":"tool_calls"`) {
					t.Errorf("%s at %s has the call: %s", model, path, text)
				}
				if got := receipts(t, h)[0]; got.Amount == 0 || got.Adjustments&stoa.CallsDropped == 0 {
					t.Errorf("%s at %s: charged %+v", model, path, got.Charge)
				}
			}
		}
	}
	quiet(t, h)
}

// TestACallWithoutANameIsOmitted has a vendor of the chat format call no tool by name, whole and
// streamed, alone and beside a text.
func TestACallWithoutANameIsOmitted(t *testing.T) {
	t.Parallel()
	text, n := "", 0
	vendor := chatVendor(t, "vendor", func([]map[string]any) chatReply {
		n++
		return chatReply{[]string{`"content":"` + text + `","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"","arguments":"{}"}}]`}, "tool_calls", 500, 9}
	})
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{vendor},
		Families:  map[string][]stoa.Route{"gamma": {{Provider: "vendor"}}},
	})
	for _, text = range []string{"", "Hello."} {
		for _, stream := range []bool{false, true} {
			r := replyOf(t, h.Client(t), body{"model": "gamma-6-luna", "stream": stream, "input": strings.Repeat("x", 3000), "tools": []body{{"type": "function", "name": "f"}}})
			if r.Status != "completed" || len(calls(&r)) != 0 {
				t.Errorf("%q, stream %v: %s with %+v", text, stream, r.Status, r.Output)
			}
			if got := receipts(t, h)[0]; got.Amount == 0 || got.Estimated || got.Adjustments&stoa.CallsDropped == 0 {
				t.Errorf("%q, stream %v: charged %+v", text, stream, got.Charge)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d requests, want one for each call", n)
	}
	quiet(t, h)
}

// TestACallThatGeminiWithholdsIsCharged has Gemini withhold calls that a caller can bring about, and
// write nothing else.
func TestACallThatGeminiWithholdsIsCharged(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for i, reason := range []string{"UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"} {
		for j, stream := range []bool{false, true} {
			r := replyOf(t, h.Client(t), body{"model": "beta-3.8-flash", "stream": stream, "input": "finish: " + reason + "\nempty", "tools": []body{{"type": "function", "name": "f"}}})
			if r.Status != "incomplete" || len(calls(&r)) != 0 {
				t.Errorf("%s, stream %v: %s with %+v", reason, stream, r.Status, r.Output)
			}
			paidFor(t, h, r, "incomplete", stoa.CallsDropped)
			if n := len(f.Served()); n != 2*i+j+1 {
				t.Errorf("%s, stream %v: %d requests", reason, stream, n)
			}
		}
	}
	quiet(t, h)
}

// TestACompactionWithoutASummaryIsCharged refuses to repeat it, also under its Idempotency-Key.
func TestACompactionWithoutASummaryIsCharged(t *testing.T) {
	t.Parallel()
	message, n := "", 0
	vendor := chatVendor(t, "vendor", func([]map[string]any) chatReply {
		n++
		return chatReply{[]string{message}, "stop", 500, 9}
	})
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{vendor},
		Families:  map[string][]stoa.Route{"gamma": {{Provider: "vendor"}}},
	})
	for i, text := range []string{
		`"content":""`,
		`"content":" \n"`,
		`"content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]`,
	} {
		message = text
		c := h.Client(t).With("Idempotency-Key", fmt.Sprint("k", i))
		call := body{"model": "gamma-6-luna", "input": strings.Repeat("x", 3000), "tools": []body{{"type": "function", "name": "f"}}}
		var first string
		for range 2 {
			r := c.Do("POST", compactPath, call)
			e := r.Error()
			if r.Status != 502 || e.Code != string(stoa.CodeUpstream) || e.Retryable || r.Header.Get("x-should-retry") != "false" || !strings.Contains(e.Message, "was charged") {
				t.Errorf("%s: %d %s", message, r.Status, r.Body)
			}
			if first == "" {
				first = e.Message
			} else if e.Message != first || r.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s again: %s", message, r.Body)
			}
		}
		if all := receipts(t, h); n != i+1 || len(all) != i+1 || all[0].Amount == 0 || all[0].Usage.InputTokens != 500 {
			t.Errorf("%s: %d requests, %d receipts, %+v", message, n, len(all), all)
		}
	}
	quiet(t, h)
}
