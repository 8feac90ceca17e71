package api_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

const countTokens = responses + "/input_tokens"

func TestTokensAreCountedByTheVendor(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	for i, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna"} {
		var got struct {
			Object string
			Tokens int64 `json:"input_tokens"`
		}
		c.Want(200, "POST", countTokens, body{
			"model": model, "input": []body{{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "And?"}},
			"instructions": "Be brief.", "stream": true, "max_output_tokens": 100, "temperature": 0.5, "reasoning": body{"effort": "low"},
		}).JSON(&got)
		asked := f.Served()[i]
		if want := fakeup.Count(len(asked.Body)); got.Object != "response.input_tokens" || got.Tokens != want || asked.Status != 200 {
			t.Errorf("%s: %+v, the vendor counted %d, %s %s", model, got, want, asked.Refused, asked.Body)
		}
		if !strings.Contains(string(asked.Body), "Be brief.") || strings.Contains(string(asked.Body), "stream") {
			t.Errorf("%s was asked %s", model, asked.Body)
		}
	}
	if all := receipts(t, h); len(all) != 0 {
		t.Errorf("counting was charged: %+v", all)
	}
	quiet(t, h)
}

func TestTokensAreEstimatedWithoutAVendor(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	count := func(model, input string) int64 {
		var got struct {
			Tokens int64 `json:"input_tokens"`
		}
		c.Want(200, "POST", countTokens, body{"model": model, "input": input}).JSON(&got)
		return got.Tokens
	}
	const fails = "fail: 500\nand more"
	estimate := stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, fails)}}.EstimateInput()
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		if got := count(model, fails); got != estimate {
			t.Errorf("%s: %d tokens, the estimate is %d", model, got, estimate)
		}
	}
	if n := len(f.Served()); n != 3 {
		t.Errorf("vendors were asked %d times", n)
	}
	quiet(t, h)
}

func TestCountingRefusesWhatCallsRefuse(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	for name, in := range map[string]body{
		"no input":        {"model": "auto"},
		"a server's tool": {"model": "auto", "input": "Hi", "tools": []body{{"type": "web_search"}}},
		"a stored reply":  {"model": "auto", "input": "Hi", "previous_response_id": "resp_1"},
	} {
		want := c.Do("POST", responses, in)
		got := c.Do("POST", countTokens, in)
		if want.Status != 400 || got.Status != 400 || got.Error().Message != want.Error().Message || *got.Error().Param != *want.Error().Param {
			t.Errorf("%s: %d, %+v; a call %d, %+v", name, got.Status, got.Error(), want.Status, want.Error())
		}
	}
	tools := []body{{"type": "function", "name": "f"}}
	image := []body{{"role": "user", "content": []body{{"type": "input_image", "image_url": "https://example.com/a.png"}}}}
	for name, in := range map[string]body{
		"a choice that cannot be forced": {"model": "alpha-sonnet-5-5", "input": "Hi", "tools": tools, "tool_choice": "required"},
		"a model that thinks":            {"model": "delta-v4-flash", "input": "Hi", "tools": tools, "tool_choice": "required"},
		"a blind model":                  {"model": "delta-v4-flash", "input": image},
		"no such format":                 {"model": "alpha-sonnet-5-5", "input": "Hi", "text": body{"format": body{"type": "json_object"}}},
	} {
		want := c.WantError(stoa.CodeUnsupportedValue, "POST", responses, in)
		if got := c.WantError(stoa.CodeUnsupportedValue, "POST", countTokens, in); got.Message != want.Message || *got.Param != *want.Param {
			t.Errorf("%s: counting says %+v, a call %+v", name, got, want)
		}
	}
	c.Want(200, "POST", countTokens, body{"model": "delta-v4-flash", "input": "Hi", "tools": tools, "tool_choice": "required", "reasoning": body{"effort": "none"}})
	c.WantError(stoa.CodeModelNotFound, "POST", countTokens, body{"model": "nope", "input": "Hi"})
	c.WantError(stoa.CodeContextLength, "POST", countTokens, body{"model": "alpha-haiku-4-5", "input": strings.Repeat("word ", 600_000)})
	quiet(t, h)
}

func TestFilesAreCountedBeforeTheHold(t *testing.T) {
	t.Parallel()
	pages := strings.Repeat("1 0 obj <</Type /Page>> endobj\n", 60)
	doc := "data:application/pdf;base64," + base64.StdEncoding.EncodeToString([]byte("%PDF-1.7\n"+pages+"trailer <</Root 1 0 R>>\n%%EOF"))
	file := body{"type": "input_file", "filename": "a.pdf", "file_data": doc}
	// By its pages the file is dearer than the account can pay; its vendors know better.
	h, f := vendors(t, apitest.Config{Grant: 50_000})
	c := h.Client(t)
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna"} {
		c.Want(200, "POST", responses, with(seen(model, file), body{"max_output_tokens": 300}))
		served := f.Served()
		counted, called := served[len(served)-2], served[len(served)-1]
		if !strings.HasSuffix(counted.Wire, " count") || counted.Status != 200 || strings.HasSuffix(called.Wire, " count") || len(served)%2 != 0 {
			t.Errorf("%s: %s with %d, then %s", model, counted.Wire, counted.Status, called.Wire)
		}
	}
	n := len(f.Served())
	// Where the vendor does not count, the pages do.
	e := c.WantError(stoa.CodeQuota, "POST", responses, with(seen("alpha-haiku-4-5", file), body{"instructions": "fail: 500"}))
	if served := f.Served(); len(served) != n+1 || e.Code != "insufficient_quota" {
		t.Errorf("the vendor was asked %d times: %+v", len(served)-n, e)
	}
	// Nothing else is counted: neither images nor texts.
	n = len(f.Served())
	c.Want(200, "POST", responses, with(seen("alpha-haiku-4-5", body{"type": "input_image", "image_url": picture(t)}, body{"type": "input_file", "file_data": "data:text/plain;base64,SGVq"}), body{"max_output_tokens": 300}))
	if got := len(f.Served()); got != n+1 {
		t.Errorf("a call without a PDF makes %d requests", got-n)
	}
	quiet(t, h)
}
