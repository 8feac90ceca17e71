package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestMembersThatChangeTheMeaningAreRefused: without them the request would mean something else, and nobody would be
// told. The same members with values that ask for nothing are served.
func TestMembersThatChangeTheMeaningAreRefused(t *testing.T) {
	t.Parallel()
	c := start(t, apitest.Config{}).Client(t)
	const messages, chat = "/api/v1/messages", "/api/v1/chat/completions"
	bodies := map[string]body{
		responses: {"model": "auto", "input": "say: x"},
		chat:      {"model": "auto", "messages": []body{{"role": "user", "content": "say: x"}}},
		messages:  {"model": "auto", "max_tokens": 99, "messages": []body{{"role": "user", "content": "say: x"}}},
	}
	blocks := body{"policy": body{"input": body{"mode": "block"}, "output": body{"mode": "score"}}}
	for _, r := range []struct {
		path, param string
		value       any
	}{
		{messages, "thread", body{"type": "create"}},
		{messages, "thread", body{"type": "continue", "previous_message_id": "msg_1"}},
		{messages, "inference_geo", "us"},
		{responses, "moderation", blocks},
		{chat, "moderation", blocks},
		{responses, "moderation", "block"},
		{chat, "moderation", body{"mode": "BLOCK"}},
		{responses, "prompt_cache_options.prewarm", true},
		{chat, "prompt_cache_options.prewarm", true},
	} {
		name, member, nested := strings.Cut(r.param, ".")
		value := r.value
		if nested {
			value = body{member: r.value, "mode": "implicit"}
		}
		for _, stream := range []bool{false, true} {
			e := c.Want(400, "POST", r.path, with(body{name: value, "stream": stream}, bodies[r.path]))
			if text := string(e.Body); e.Error().Code != string(stoa.CodeUnsupported) || !strings.Contains(text, `"param":"`+r.param+`"`) || strings.Contains(text, `"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}`) != (name == "thread") {
				t.Errorf("%s of %s: %s", r.param, r.path, text)
			}
		}
	}
	for _, r := range []struct {
		path, name string
		value      any
	}{
		{messages, "thread", nil},
		{messages, "inference_geo", "global"},
		{responses, "moderation", body{"policy": body{"input": body{"mode": "score"}}}},
		{responses, "prompt_cache_options", body{"mode": "implicit", "prewarm": false}},
		{chat, "prompt_cache_options", body{"mode": "implicit"}},
	} {
		c.Want(200, "POST", r.path, with(body{r.name: r.value}, bodies[r.path]))
	}
}

// TestTheFormerNameOfAFormat sends output_format, which output_config.format has replaced.
func TestTheFormerNameOfAFormat(t *testing.T) {
	t.Parallel()
	c := start(t, apitest.Config{}).Client(t)
	schema := body{"type": "object", "properties": body{"n": body{"type": "integer"}}, "required": []string{"n"}, "additionalProperties": false}
	call := body{"model": "auto", "max_tokens": 99, "messages": []body{{"role": "user", "content": "say: x"}}, "output_format": body{"type": "json_schema", "schema": schema}}
	c.Want(200, "POST", "/api/v1/messages", call)
	var list struct{ Data []contract.Receipt }
	c.Want(200, "GET", "/api/v1/receipts?limit=1", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].Ignored != nil {
		t.Errorf("%+v", list.Data)
	}
	call["output_format"] = body{"type": "xml"}
	if e := c.Want(400, "POST", "/api/v1/messages", call); !strings.Contains(string(e.Body), `"param":"output_format.type"`) {
		t.Errorf("%s", e.Body)
	}
}

// TestLongIDsAreNamed: an id that is much too long is named, and what follows it is still read.
func TestLongIDsAreNamed(t *testing.T) {
	t.Parallel()
	c := start(t, apitest.Config{}).Client(t)
	for _, n := range []int{600, 4_000, 8_000, 200_000} {
		id := strings.Repeat("x", n)
		for path, call := range map[string]body{
			responses:                  {"model": "auto", "input": []body{{"role": "user", "content": "hi"}, {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": id, "output": "x"}}},
			"/api/v1/chat/completions": {"model": "auto", "messages": []body{{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": []body{{"id": id, "type": "function", "function": body{"name": "f", "arguments": "{}"}}}}, {"role": "tool", "tool_call_id": id, "content": "x"}}},
			"/api/v1/messages":         {"model": "auto", "max_tokens": 9, "messages": []body{{"role": "user", "content": "hi"}, {"role": "assistant", "content": []body{{"type": "tool_use", "id": id, "name": "f", "input": body{}}}}, {"role": "user", "content": []body{{"type": "tool_result", "tool_use_id": id, "content": "x"}}}}},
		} {
			e := c.Want(400, "POST", path, call)
			if text := string(e.Body); e.Error().Code != string(stoa.CodeInvalidValue) || !strings.Contains(text, "id") || strings.Contains(text, `"param":null`) {
				t.Errorf("%d letters on %s: %s", n, path, e.Body)
			}
		}
	}
}
