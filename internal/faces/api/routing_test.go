package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

var loopTools = []body{{"type": "function", "name": "weather", "parameters": body{"type": "object", "properties": body{"city": body{"type": "string"}}}}}

// called makes the first call of a loop and returns the input of the next call: the
// input so far with the items of the reply, and the result of its call.
func called(t *testing.T, c *apitest.Client, model string) (input []any, r contract.Response) {
	t.Helper()
	question := body{"role": "user", "content": "think: 40\ncall: weather {\"city\":\"Oslo\"}\nsay: sunny"}
	reply := c.Want(200, "POST", responses, body{"model": model, "input": []any{question}, "tools": loopTools})
	reply.JSON(&r)
	var raw struct {
		Output []body `json:"output"`
	}
	reply.JSON(&raw)
	input = append(input, question)
	for _, item := range raw.Output {
		input = append(input, item)
		if item["type"] == "function_call" {
			input = append(input, body{"type": "function_call_output", "call_id": item["call_id"], "output": "4 °C"})
		}
	}
	return input, r
}

func TestALoopFailsOverWithoutItsReasoning(t *testing.T) {
	t.Parallel()
	first, second := fakeup.Start(t), fakeup.Start(t)
	one, two := first.Provider("messages"), second.Provider("messages")
	one.Name, two.Name = "one", "two"
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{one, two},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "one"}, {Provider: "two"}}},
	})
	c := h.Client(t)
	input, _ := called(t, c, "alpha-sonnet-5-5")
	next := body{"model": "alpha-sonnet-5-5", "input": input, "tools": loopTools}
	c.Want(200, "POST", responses, next)
	if sent := string(first.Served()[1].Body); !strings.Contains(sent, `"type":"thinking"`) || !strings.Contains(sent, "4 °C") {
		t.Errorf("the one that made the call gets %s", sent)
	}
	// It is away: the other serves, and gets none of the first one's reasoning.
	first.Close()
	c.Want(200, "POST", responses, next)
	served := second.Served()
	if len(served) != 1 {
		t.Fatalf("the second was asked %d times", len(served))
	}
	if sent := string(served[0].Body); strings.Contains(sent, `"type":"thinking"`) || !strings.Contains(sent, "4 °C") {
		t.Errorf("the other one gets %s", sent)
	}
	quiet(t, h)
}

func TestALoopGoesToWhereItsReasoningIsFrom(t *testing.T) {
	t.Parallel()
	first, second := fakeup.Start(t), fakeup.Start(t)
	one, two := first.Provider("messages"), second.Provider("messages")
	one.Name, two.Name = "one", "two"
	// Two models are one at the vendor.
	const upstream = "claude-sonnet-5-5"
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{one, two},
		Families: map[string][]stoa.Route{
			"alpha": {{Provider: "two", Model: upstream}, {Provider: "one", Model: upstream}},
			"beta":  {{Provider: "one", Model: upstream}},
		},
	})
	c := h.Client(t)
	input, _ := called(t, c, "beta-3.8-flash")
	c.Want(200, "POST", responses, body{"model": "alpha-sonnet-5-5", "input": input, "tools": loopTools})
	if n, other := len(first.Served()), len(second.Served()); n != 2 || other != 0 {
		t.Errorf("the loop goes on at %d, %d", n, other)
	}
	c.Want(200, "POST", responses, body{"model": "alpha-sonnet-5-5", "input": "Hi", "tools": loopTools})
	if other := len(second.Served()); other != 1 {
		t.Errorf("a call without a loop goes to the first route: %d", other)
	}
}

func TestAnAutomaticChoiceStaysInALoop(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	input, r := called(t, c, "alpha-haiku-4-5")
	if r.Model != "alpha-haiku-4-5" {
		t.Fatalf("%s answers", r.Model)
	}
	var next, fresh contract.Response
	c.Want(200, "POST", responses, body{"model": "auto", "input": input, "tools": loopTools}).JSON(&next)
	if next.Model != "alpha-haiku-4-5" {
		t.Errorf("the open loop is answered by %s", next.Model)
	}
	if sent := string(f.Served()[1].Body); !strings.Contains(sent, `"type":"thinking"`) {
		t.Errorf("its reasoning is not sent back: %s", sent)
	}
	c.Want(200, "POST", responses, body{"model": "auto", "input": "Hi", "tools": loopTools}).JSON(&fresh)
	if fresh.Model == "alpha-haiku-4-5" {
		t.Error("a call without a loop has no reason to go there")
	}
}

func TestForcedChoicesAreHeldAgainstTheModel(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	for _, model := range []string{"alpha-sonnet-5-5", "alpha-opus-5-5", "alpha-fable-5-1", "delta-v4-flash"} {
		for _, choice := range []any{"required", body{"type": "function", "name": "weather"}} {
			e := c.WantError(stoa.CodeUnsupportedValue, "POST", responses, body{"model": model, "input": "Hi", "tools": loopTools, "tool_choice": choice})
			if e.Param == nil || *e.Param != "tool_choice" {
				t.Errorf("%s: %+v", model, e)
			}
		}
	}
	if n := len(f.Served()); n != 0 {
		t.Errorf("vendors were asked %d times", n)
	}
	c.Want(200, "POST", responses, body{"model": "delta-v4-flash", "input": "Hi", "tools": loopTools, "tool_choice": "required", "reasoning": body{"effort": "none"}})
	if sent := string(f.Served()[0].Body); !strings.Contains(sent, `"tool_choice":"required"`) || !strings.Contains(sent, `"thinking":{"type":"disabled"}`) {
		t.Errorf("delta is sent %s", sent)
	}
	c.Want(200, "POST", responses, body{"model": "delta-v4-flash", "input": "Hi", "tools": loopTools, "tool_choice": "auto"})
	if sent := string(f.Served()[1].Body); strings.Contains(sent, "tool_choice") {
		t.Errorf("delta, which thinks, is sent %s", sent)
	}
	quiet(t, h)
}

func TestACallIsCutByALimit(t *testing.T) {
	t.Parallel()
	// A limit inside of the second call leaves the first whole, and is charged. Gemini
	// sends calls whole or not at all.
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		before := len(receipts(t, h))
		r := c.Want(200, "POST", responses, body{"model": model, "stream": true, "tools": loopTools, "input": "cut-call: 5\ncall: weather {\"city\":\"Oslo\"}\ncall: weather {\"city\":\"Rome\"}"})
		last := r.Events[len(r.Events)-1]
		all := objects(t, r)
		response := all[len(all)-1]["response"].(body)
		output := response["output"].([]any)
		states := ""
		for _, item := range output {
			if it := item.(body); it["type"] == "function_call" {
				states += it["status"].(string) + " "
			}
		}
		if last.Type != contract.EventIncomplete || !slices.Contains([]string{"completed incomplete ", "completed "}, states) {
			t.Errorf("%s: %s with %q", model, last.Type, states)
		}
		if n := len(receipts(t, h)) - before; n != 1 {
			t.Errorf("%s: %d receipts", model, n)
		}
	}
	quiet(t, h)
}

func TestStrictIsEchoedAsItIsInForce(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	var tools []body
	for i := range 22 {
		tools = append(tools, body{"type": "function", "name": fmt.Sprint("f", i), "strict": true, "parameters": body{"type": "object", "properties": body{}, "additionalProperties": false, "required": []string{}}})
	}
	for model, want := range map[string]int{"alpha-sonnet-5-5": 20, "gamma-6.1-sol": 22} {
		var r contract.Response
		h.Client(t).Want(200, "POST", responses, body{"model": model, "input": "say: x", "tools": tools}).JSON(&r)
		echoed := 0
		for _, tool := range r.Tools {
			if tool.Strict {
				echoed++
			}
		}
		served := f.Served()
		sent := strings.Count(string(served[len(served)-1].Body), `"strict":true`)
		if echoed != want || sent != want {
			t.Errorf("%s: %d are echoed and %d sent as strict, want %d", model, echoed, sent, want)
		}
	}
}

// TestAFormatBesideToolsIsRefusedBeforeItCosts asks a model of Google's second
// generation for JSON while it has tools, which its vendor does not support: an account
// without credits gets that error, and a later model of another route serves.
func TestAFormatBesideToolsIsRefusedBeforeItCosts(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	old := stoa.Route{Provider: "gemini", Model: "gemini-2.5-flash", Override: &stoa.Traits{Schema: "native"}}
	serve := func(grant stoa.Credits, routes ...stoa.Route) *apitest.Service {
		return start(t, apitest.Config{Grant: grant, Providers: []stoa.Provider{f.Provider("gemini")}, Families: map[string][]stoa.Route{"beta": routes}})
	}
	asked := body{"model": "beta-3.8-flash", "input": "Hi", "tools": loopTools, "text": body{"format": body{"type": "json_object"}}}
	h := serve(1, old)
	c := h.Client(t)
	for _, path := range []string{responses, countTokens} {
		if e := c.WantError(stoa.CodeUnsupportedValue, "POST", path, asked); *e.Param != "text.format" || !strings.Contains(e.Message, "while it has tools") {
			t.Errorf("%s: %+v", path, e)
		}
	}
	e := c.WantError(stoa.CodeUnsupportedValue, "POST", "/api/v1/chat/completions", body{
		"model": "beta-3.8-flash", "messages": []body{{"role": "user", "content": "Hi"}},
		"tools": []body{{"type": "function", "function": loopTools[0]}}, "response_format": body{"type": "json_object"},
	})
	if *e.Param != "response_format" {
		t.Errorf("chat completions: %+v", e)
	}
	if served, all := f.Served(), receipts(t, h); len(served) > 0 || len(all) > 0 {
		t.Errorf("the vendor was asked %d times, and there are %d receipts", len(served), len(all))
	}
	quiet(t, h)
	h = serve(stoa.Credit, old, stoa.Route{Provider: "gemini"})
	h.Client(t).Want(200, "POST", responses, asked)
	if served := f.Served(); len(served) != 1 || served[0].Model != "gemini-3.8-flash" {
		t.Errorf("served by %+v", served)
	}
}
