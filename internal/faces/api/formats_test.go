package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// TestSelfHostedModelsTakeASchema calls a server without configured traits, as STOA_UPSTREAM
// sets it up.
func TestSelfHostedModelsTakeASchema(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{f.Provider("compatible")},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "compatible", Model: "llama3.2"}}},
	})
	schema := body{"type": "json_schema", "name": "n", "schema": body{"type": "object"}}
	r := h.Client(t).Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "input": `say: {"a":1}`, "text": body{"format": schema}})
	if sent := string(f.Served()[0].Body); r.Text() != `{"a":1}` || !strings.Contains(sent, `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"`) {
		t.Errorf("%s was sent for %s", sent, r.Body)
	}
	quiet(t, h)
}

// TestAdviceNamesWhatTheModelSupports checks that the error about a format recommends no format
// that would be refused too, and that errors name the operator's setting.
func TestAdviceNamesWhatTheModelSupports(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{f.Provider("responses"), f.Provider("messages"), f.Provider("deepseek")},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "messages"}}, "beta": {{Provider: "responses", Model: "llama3.2"}}, "delta": {{Provider: "deepseek"}}},
	})
	object, schema := body{"format": body{"type": "json_object"}}, body{"format": body{"type": "json_schema", "name": "n", "schema": body{"type": "object"}}}
	tools := []body{{"type": "function", "name": "f"}}
	const words, forced = "extensionOptions.formats.bestEffort", "extensionOptions.tools.forced"
	for _, tt := range []struct {
		call     body
		has, not string
	}{
		{body{"model": "alpha-haiku-4-5", "input": "Hi", "text": object}, `"json_schema"`, "another model"},
		{body{"model": "delta-v4-pro", "input": "Hi", "text": schema}, `"json_object"`, "does not exist"},
		{body{"model": "beta-3.8-flash", "input": "Hi", "text": schema}, words, `"json_object"`},
		{body{"model": "beta-3.8-flash", "input": "Hi", "text": object}, words, `"json_schema"`},
		{body{"model": "alpha-sonnet-5-5", "input": "Hi", "tools": tools, "tool_choice": "required"}, forced, "reasons"},
		{body{"model": "delta-v4-pro", "input": "Hi", "tools": tools, "tool_choice": "required"}, forced, "choose another"},
	} {
		e := h.Client(t).WantError(stoa.CodeUnsupportedValue, "POST", responses, tt.call)
		if !strings.Contains(e.Message, tt.has) || strings.Contains(e.Message, tt.not) {
			t.Errorf("%v: %q; want %q and not %q", tt.call, e.Message, tt.has, tt.not)
		}
	}
	quiet(t, h)
}

// TestABodyMayBeginWithAByteOrderMark sends what programs on Windows write.
func TestABodyMayBeginWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for path, text := range map[string]string{
		responses:                  `{"model":"auto","input":"say: yes"}`,
		"/api/v1/chat/completions": `{"model":"auto","messages":[{"role":"user","content":"say: yes"}]}`,
		"/api/v1/messages":         `{"model":"auto","max_tokens":9,"messages":[{"role":"user","content":"say: yes"}]}`,
	} {
		if status, reply := plainly(t, h, "POST", path, "\ufeff"+text); status != 200 || !strings.Contains(reply, "yes") {
			t.Errorf("%s: %d %s", path, status, reply)
		}
		if status, _ := plainly(t, h, "POST", path, "\ufeff"); status != 400 {
			t.Errorf("%s: %d for a mark alone", path, status)
		}
	}
}
