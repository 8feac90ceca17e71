package api_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

const compactPath = responses + "/compact"

// A compacted is the reply of POST /responses/compact.
type compacted struct {
	ID, Object string
	CreatedAt  int64             `json:"created_at"`
	Output     []json.RawMessage `json:"output"`
	Usage      struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	}
}

// TestAConversationIsCompacted compacts a conversation with each family and continues it with every
// other: the vendors receive the summary. It is a call with a receipt.
func TestAConversationIsCompacted(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c, other := h.Client(t), newCustomer(t, h)
	models := []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"}
	for _, model := range models {
		before := len(f.Served())
		var got compacted
		reply := c.Want(200, "POST", compactPath, body{
			"model": model, "stream": true, "max_output_tokens": 5, "instructions": "Be brief.",
			"tools": []body{{"type": "function", "name": "look", "parameters": body{"type": "object"}}},
			"input": []body{
				{"role": "user", "content": "Plan a trip to Oslo."},
				{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
				{"type": "function_call_output", "call_id": "c1", "output": "drizzle"},
				{"role": "assistant", "content": "Two days."},
				{"role": "user", "content": "And Bergen?"},
			},
		})
		reply.JSON(&got)
		if got.Object != "response.compaction" || got.CreatedAt == 0 || len(got.Output) != 3 || got.Usage.Output == 0 ||
			!strings.Contains(string(got.Output[0]), `"Plan a trip to Oslo."`) || !strings.Contains(string(got.Output[1]), `"And Bergen?"`) || !strings.Contains(string(got.Output[2]), `"type":"compaction"`) {
			t.Fatalf("%s: %s", model, reply.Body)
		}
		asked := string(f.Served()[before].Body)
		if !strings.Contains(asked, "Summarize the conversation up to here.") || !strings.Contains(asked, "look") || !strings.Contains(asked, "4096") {
			t.Errorf("%s was asked %s", model, asked)
		}
		var receipt struct {
			CreditsMicro int64 `json:"creditsMicro"`
		}
		if c.Want(200, "GET", "/api/v1/receipts/"+got.ID, nil).JSON(&receipt); receipt.CreditsMicro == 0 {
			t.Errorf("%s: the receipt is %+v", model, receipt)
		}
		input := []any{}
		for _, item := range got.Output {
			input = append(input, item)
		}
		input = append(input, body{"role": "user", "content": "say: fine"})
		for _, next := range models {
			c.Want(200, "POST", responses, body{"model": next, "input": input})
			served := f.Served()
			if asked := string(served[len(served)-1].Body); !strings.Contains(asked, "A summary replaces the beginning") || strings.Contains(asked, "drizzle") {
				t.Errorf("%s was asked %s", next, asked)
			}
		}
		if e := other.WantError(stoa.CodeInvalidValue, "POST", responses, body{"model": model, "input": input}); *e.Param != "input[2].encrypted_content" {
			t.Errorf("another account is refused at %s", *e.Param)
		}
	}
}

// TestACompactionIsMadeOnce repeats a compaction under its Idempotency-Key.
func TestACompactionIsMadeOnce(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t).With("Idempotency-Key", "once")
	ask := body{"model": "alpha-haiku-4-5", "input": "Hello"}
	first := c.Want(200, "POST", compactPath, ask)
	again := c.Want(200, "POST", compactPath, ask)
	if string(first.Body) != string(again.Body) || len(f.Served()) != 1 {
		t.Errorf("%s was repeated as %s with %d calls", first.Body, again.Body, len(f.Served()))
	}
	c.WantError(stoa.CodeIdempotencyReused, "POST", compactPath, body{"model": "alpha-haiku-4-5", "input": "Other"})
	hangs := body{"model": "alpha-haiku-4-5", "stream": false, "input": "fault: hang\n"}
	breakOff(t, h, compactPath, "hangs", hangs, received(t, f, 2))
	h.Client(t).With("Idempotency-Key", "hangs").WantError(stoa.CodeIdempotencyRunning, "POST", compactPath, hangs)
	h.Server.Stop() // it hangs for ever otherwise
	f.WaitEnded(t, 1)
}

// TestCompactionsAreChecked sends what cannot be compacted, and items that are not compactions.
func TestCompactionsAreChecked(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	item := func(members body) body {
		members["type"] = "compaction_summary"
		return body{"model": "auto", "input": []body{members}}
	}
	for _, tt := range []struct {
		path string
		body any
		code stoa.Code
		at   string
	}{
		{compactPath, body{"input": "x"}, stoa.CodeMissingParameter, "model"},
		{compactPath, body{"model": "auto", "input": nil}, stoa.CodeMissingParameter, "input"},
		{compactPath, body{"model": "auto", "input": "x", "previous_response_id": "resp_1"}, stoa.CodeUnsupported, "previous_response_id"},
		{responses, item(body{}), stoa.CodeInvalidValue, "input[0].encrypted_content"},
		{responses, item(body{"encrypted_content": "forged"}), stoa.CodeInvalidValue, "input[0].encrypted_content"},
		{responses, item(body{"encrypted_content": 5}), stoa.CodeInvalidType, "input[0].encrypted_content"},
	} {
		if e := c.WantError(tt.code, "POST", tt.path, tt.body); e.Param == nil || *e.Param != tt.at {
			t.Errorf("%v is refused at %v, want %s", tt.body, e.Param, tt.at)
		}
	}
	if n := len(f.Served()); n > 0 {
		t.Errorf("%d calls", n)
	}
	c.WantError(stoa.CodeUpstream, "POST", compactPath, body{"model": "alpha-haiku-4-5", "input": "stray\ncall: look {}\n"})
	if all := receipts(t, h); len(all) != 1 || all[0].Amount == 0 {
		t.Errorf("a call without a summary was not charged: %+v", all)
	}
}

// TestATriggerIsACompaction ends the input with compaction_trigger: the reply has one item, whole, as a stream and
// again under its key, and every other model continues from it.
func TestATriggerIsACompaction(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	said := []any{
		body{"role": "user", "content": "Plan a trip to Oslo."},
		body{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
		body{"type": "function_call_output", "call_id": "c1", "output": "drizzle"},
		body{"role": "user", "content": "say: the summary"},
	}
	trigger := body{"type": "compaction_trigger"}
	response := func(r *apitest.Reply) (got contract.Response) {
		if n := len(r.Events); n > 0 {
			return *r.Events[n-1].Response
		}
		r.JSON(&got)
		return got
	}
	for _, model := range allWires {
		for _, stream := range []bool{true, false} {
			ask := body{"model": model, "stream": stream, "max_output_tokens": 5, "tools": []body{{"type": "function", "name": "look", "parameters": body{"type": "object"}}}, "input": append(said[:4:4], trigger)}
			key := c.With("Idempotency-Key", fmt.Sprint(model, stream))
			before := len(f.Served())
			first := key.Want(200, "POST", responses, ask)
			if asked := string(f.Served()[before].Body); !strings.Contains(asked, "Summarize the conversation up to here.") || !strings.Contains(asked, "4096") {
				t.Errorf("%s was asked %s", model, asked)
			}
			if stream {
				added, done := strings.Count(string(first.Body), "event: response.output_item.added"), strings.Count(string(first.Body), "event: response.output_item.done")
				if added != 1 || done != 1 || strings.Contains(string(first.Body), "output_text.delta") {
					t.Errorf("%s: %d items added, %d done: %s", model, added, done, first.Body)
				}
			}
			r := response(first)
			if r.Status != "completed" || len(r.Output) != 1 || r.Output[0].Type != "compaction" || r.Output[0].EncryptedContent == "" || r.Usage.OutputTokens == 0 {
				t.Fatalf("%s: %+v", model, r)
			}
			if again := key.Want(200, "POST", responses, ask); !reflect.DeepEqual(response(again), r) || len(f.Served()) != before+1 {
				t.Errorf("%s was repeated as %s with %d calls", first.Body, again.Body, len(f.Served())-before)
			}
			for _, next := range allWires {
				c.Want(200, "POST", responses, body{"model": next, "input": []any{body{"type": "compaction", "encrypted_content": r.Output[0].EncryptedContent}, body{"role": "user", "content": "say: fine"}}})
				served := f.Served()
				if asked := string(served[len(served)-1].Body); !strings.Contains(asked, "the summary") || strings.Contains(asked, "drizzle") {
					t.Errorf("%s was asked %s", next, asked)
				}
			}
		}
		if e := c.WantError(stoa.CodeInvalidValue, "POST", responses, body{"model": model, "input": []any{said[0], trigger, said[3]}}); *e.Param != "input[1]" {
			t.Errorf("refused at %s", *e.Param)
		}
		c.WantError(stoa.CodeInvalidValue, "POST", responses, body{"model": model, "input": []any{trigger}})
	}
	for _, stream := range []bool{true, false} { // no summary
		made := len(receipts(t, h))
		c.WantError(stoa.CodeUpstream, "POST", responses, body{"model": "alpha-haiku-4-5", "stream": stream, "input": []any{body{"role": "user", "content": "stray\ncall: look {}\n"}, trigger}})
		if len(receipts(t, h)) != made+1 {
			t.Error("a compaction without a summary is not charged")
		}
	}
}
