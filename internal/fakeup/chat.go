package fakeup

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// chat is the Chat Completions format, as OpenAI, DeepSeek (by the model's name)
// and the servers compatible with them speak it.
type chat struct{}

var _ format = chat{}

func (chat) name() string { return "chat" }

func (chat) match(path string) bool {
	return path == "/v1/chat/completions" || path == "/chat/completions"
}

func (chat) read(r *http.Request, body object, key string) (a ask, no *refusal) {
	if no := bearer(r, key); no != nil {
		return a, no
	}
	if a.model, _ = body["model"].(string); a.model == "" {
		return a, bad("you must provide a model parameter")
	}
	deepseek, openai := strings.HasPrefix(a.model, "deepseek"), strings.HasPrefix(a.model, "gpt-")
	a.stream, _ = body["stream"].(bool)
	if options, ok := body["stream_options"].(object); ok {
		if !a.stream {
			return a, bad("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
		}
		a.usage, _ = options["include_usage"].(bool)
	}
	a.usage = a.usage || !a.stream
	for _, k := range []string{"max_tokens", "max_completion_tokens"} {
		v, ok := body[k]
		if !ok {
			continue
		}
		if k == "max_tokens" && openai && reasons(a.model) {
			return a, bad("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
		}
		n, isNumber := v.(float64)
		if !isNumber || n < 1 {
			return a, bad("Invalid %s value, the valid range of %s is [1, 393216]", k, k)
		}
		if !deepseek || k == "max_tokens" { // DeepSeek does not know the newer name
			a.maxTokens = int64(n)
		}
	}
	effort, _ := body["reasoning_effort"].(string)
	if openai && reasons(a.model) && effort != "none" && (body["temperature"] != nil || body["top_p"] != nil) {
		return a, bad("Unsupported value: 'temperature' does not support %v with this model. Only the default (1) value is supported.", body["temperature"])
	}
	if deepseek {
		if effort != "" && !slices.Contains([]string{"low", "high", "max"}, effort) {
			return a, &refusal{status: 422, kind: "invalid_request_error", text: "Failed to deserialize the JSON body: reasoning_effort: unknown variant"}
		}
		if t, ok := body["thinking"].(object); ok && t["type"] != "enabled" && t["type"] != "disabled" {
			return a, &refusal{status: 422, kind: "invalid_request_error", text: "Failed to deserialize the JSON body: thinking.type: unknown variant"}
		}
	}
	tools, _ := body["tools"].([]any)
	a.tools = len(tools) > 0
	for i, t := range tools {
		o, _ := t.(object)
		if f, ok := o["function"].(object); !ok || o["type"] != "function" || f["name"] == nil {
			return a, bad("Missing required parameter: 'tools[%d].function'.", i)
		}
	}
	turns, _ := body["messages"].([]any)
	if len(turns) == 0 {
		return a, bad("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	roles := []string{"system", "user", "assistant", "tool"}
	if !deepseek {
		roles = append(roles, "developer")
	}
	open := map[any]bool{}
	for i, t := range turns {
		m, _ := t.(object)
		role, _ := m["role"].(string)
		if !slices.Contains(roles, role) {
			return a, bad("messages[%d].role: unknown variant `%s`, expected one of `system`, `user`, `assistant`, `tool`", i, role)
		}
		text, isText := m["content"].(string)
		if parts, ok := m["content"].([]any); ok {
			isText = true
			for _, part := range parts {
				p, _ := part.(object)
				s, _ := p["text"].(string)
				text += s
			}
		}
		calls, _ := m["tool_calls"].([]any)
		if !isText && !(role == "assistant" && len(calls) > 0) {
			return a, bad("Invalid value for 'content': expected a string, got null. (messages[%d])", i)
		}
		if role != "tool" {
			for id, unanswered := range open {
				if unanswered {
					return a, bad("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (%v)", id)
				}
			}
		}
		switch role {
		case "assistant":
			if m["reasoning_content"] != nil && len(calls) == 0 && deepseek && i < len(turns)-1 {
				return a, bad("reasoning_content is only accepted inside a tool loop (messages[%d])", i)
			}
			for _, c := range calls {
				o, _ := c.(object)
				open[o["id"]] = true
			}
		case "tool":
			if !open[m["tool_call_id"]] {
				return a, bad("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'. (messages[%d])", i)
			}
			open[m["tool_call_id"]] = false
			a.results = true
		case "user":
			a.prompt, a.results = text, false
		}
	}
	return a, nil
}

func (chat) header(h http.Header, p plan) {
	if strings.HasPrefix(p.model, "deepseek") {
		h.Set("X-Ds-Trace-Id", "trace"+p.id)
		return
	}
	h.Set("X-Request-Id", "req_"+p.id)
}

func (chat) finish(p plan) string {
	return map[string]string{"end": "stop", "length": "length", "content_filter": "content_filter", "tool_calls": "tool_calls"}[p.stop]
}

func (chat) usage(p plan) object {
	u := object{
		"prompt_tokens": p.usage.Input, "completion_tokens": p.usage.Output, "total_tokens": p.usage.Input + p.usage.Output,
		"prompt_tokens_details":     object{"cached_tokens": p.usage.Cached},
		"completion_tokens_details": object{"reasoning_tokens": p.usage.Reasoning},
	}
	if strings.HasPrefix(p.model, "deepseek") {
		u["prompt_cache_hit_tokens"], u["prompt_cache_miss_tokens"] = p.usage.Cached, p.usage.Input-p.usage.Cached
	}
	return u
}

func (chat) chunk(p plan, choices []any) object {
	return object{"id": "chatcmpl-" + p.id, "object": "chat.completion.chunk", "created": 1_790_000_000, "model": p.model, "system_fingerprint": "fp_fake", "choices": choices}
}

func (f chat) frames(p plan) []frame {
	var out []frame
	add := func(c object, fr frame) {
		fr.bytes = fmt.Appendf(nil, "data: %s\n\n", encode(c))
		out = append(out, fr)
	}
	choice := func(delta object, finish any) []any {
		return []any{object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
	}
	deepseek := strings.HasPrefix(p.model, "deepseek")
	add(f.chunk(p, choice(object{"role": "assistant", "content": ""}, nil)), frame{})
	for _, t := range p.thinking {
		if deepseek {
			add(f.chunk(p, choice(object{"content": nil, "reasoning_content": t}, nil)), frame{})
		}
	}
	for _, t := range p.pieces {
		add(f.chunk(p, choice(object{"content": t}, nil)), frame{delta: true})
	}
	for i, c := range p.calls {
		half := len(c.arguments) / 2
		add(f.chunk(p, choice(object{"tool_calls": []any{object{"index": i, "id": c.id, "type": "function", "function": object{"name": c.name, "arguments": ""}}}}, nil)), frame{})
		for _, a := range []string{c.arguments[:half], c.arguments[half:]} {
			add(f.chunk(p, choice(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": a}}}}, nil)), frame{})
		}
	}
	last := f.chunk(p, choice(object{}, f.finish(p)))
	if deepseek && !p.noUsage {
		last["usage"] = f.usage(p)
	}
	add(last, frame{end: true})
	if !deepseek && !p.noUsage {
		u := f.chunk(p, []any{})
		u["usage"] = f.usage(p)
		add(u, frame{end: true})
	}
	return append(out, frame{bytes: []byte("data: [DONE]\n\n"), end: true})
}

func (f chat) whole(p plan) []byte {
	message := object{"role": "assistant", "content": strings.Join(p.pieces, "")}
	var calls []any
	for _, c := range p.calls {
		calls = append(calls, object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	reply := object{
		"id": "chatcmpl-" + p.id, "object": "chat.completion", "created": 1_790_000_000, "model": p.model,
		"choices": []any{object{"index": 0, "message": message, "logprobs": nil, "finish_reason": f.finish(p)}},
	}
	if !p.noUsage {
		reply["usage"] = f.usage(p)
	}
	return encode(reply)
}

func (chat) failure(status int, no *refusal, id string) []byte { return openAIError(status, no) }

func (chat) failureEvent(status int, p plan) []byte {
	return fmt.Appendf(nil, "data: %s\n\n", openAIError(status, &refusal{text: "The server had an error while processing your request."}))
}

func (chat) malformed() []byte {
	return []byte("data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"cont\n\n")
}

func (chat) text(s string) []byte {
	return fmt.Appendf(nil, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}]}\n\n", s)
}

func (chat) comment() []byte { return []byte(": keep-alive\n\n") }
