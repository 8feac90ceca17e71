package fakeup

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// chat is the Chat Completions format, as implemented by OpenAI, DeepSeek (by the model's
// name) and the servers compatible with them.
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
	if deepseek {
		a.chatBlocks(body)
	}
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
			no := bad("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
			no.kind, no.param = "unsupported_parameter", k
			return a, no
		}
		n, isNumber := v.(float64)
		if !isNumber || n < 1 {
			return a, bad("Invalid %s value, the valid range of %s is [1, 393216]", k, k)
		}
		if !deepseek || k == "max_tokens" { // DeepSeek does not support the newer name
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
	thinks := deepseek
	if t, ok := body["thinking"].(object); ok {
		thinks = deepseek && t["type"] != "disabled"
	}
	names, no := a.chatTools(body, openai)
	if no != nil {
		return a, no
	}
	if no := a.chatChoice(body, names, thinks); no != nil {
		return a, no
	}
	if no := chatFormat(body, openai, deepseek); no != nil {
		return a, no
	}
	no = a.chatTurns(body, openai, deepseek)
	return a, no
}

// chatTools checks the tools and returns their names.
func (a *ask) chatTools(body object, openai bool) (names []any, no *refusal) {
	tools, _ := body["tools"].([]any)
	a.tools = len(tools) > 0
	for i, t := range tools {
		o, _ := t.(object)
		f, ok := o["function"].(object)
		if !ok || o["type"] != "function" || f["name"] == nil {
			return nil, bad("Missing required parameter: 'tools[%d].function'.", i)
		}
		names = append(names, f["name"])
		if what := openAIStrict.misfit(f["parameters"], "parameters"); openai && f["strict"] == true && what != "" {
			return nil, bad("Invalid schema for function '%v': %s.", f["name"], what)
		}
	}
	return names, nil
}

// chatTurns reads the messages.
func (a *ask) chatTurns(body object, openai, deepseek bool) *refusal {
	turns, _ := body["messages"].([]any)
	if len(turns) == 0 {
		return bad("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	roles := []string{"system", "user", "assistant", "tool"}
	if !deepseek {
		roles = append(roles, "developer")
	}
	open := map[any]bool{}
	var waiting []any // calls without results, in order
	for i, t := range turns {
		m, _ := t.(object)
		role, _ := m["role"].(string)
		if !slices.Contains(roles, role) {
			return bad("messages[%d].role: unknown variant `%s`, expected one of `system`, `user`, `assistant`, `tool`", i, role)
		}
		text, isText := m["content"].(string)
		if parts, ok := m["content"].([]any); ok {
			isText = true
			for _, part := range parts {
				p, _ := part.(object)
				switch {
				case p["type"] == "text":
					s, _ := p["text"].(string)
					text += s
				case role != "user" || deepseek || p["type"] != "image_url" && p["type"] != "file":
					return bad("Invalid content type '%v' in messages[%d].", p["type"], i)
				}
			}
		}
		calls, _ := m["tool_calls"].([]any)
		if !isText && !(role == "assistant" && len(calls) > 0) {
			return bad("Invalid value for 'content': expected a string, got null. (messages[%d])", i)
		}
		if role != "tool" {
			for id, unanswered := range open {
				if unanswered {
					return bad("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (%v)", id)
				}
			}
		}
		switch role {
		case "assistant":
			reasoning, sent := m["reasoning_content"].(string)
			waiting = waiting[:0]
			for _, c := range calls {
				o, _ := c.(object)
				id, _ := o["id"].(string)
				if id == "" || len(id) > 64 {
					return bad("Invalid 'messages[%d].tool_calls[0].id': string of length 1 to 64 expected.", i)
				}
				if want, thought := thoughtOf(id); thought && deepseek && (!sent || reasoning != "" && reasoning != want) {
					return bad("Missing `reasoning_content` field in the assistant message at message index %d.", i)
				}
				open[id] = true
				waiting = append(waiting, id)
			}
		case "tool":
			if !open[m["tool_call_id"]] {
				return bad("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'. (messages[%d])", i)
			}
			if !openai && (len(waiting) == 0 || waiting[0] != m["tool_call_id"]) {
				return bad("Tool messages must be in the order of the tool calls. (messages[%d])", i)
			}
			waiting = waiting[min(1, len(waiting)):]
			open[m["tool_call_id"]] = false
			a.results = true
			if len(waiting) == 0 {
				a.rounds++
			}
		case "user":
			if parts, _ := m["content"].([]any); a.results && len(parts) > 0 && strings.HasPrefix(text, "Image from call ") {
				continue // of a result
			}
			if !stoa.StandsAlone(text) {
				a.prompt, a.results, a.rounds = stoa.WithoutNotes(text), false, 0
			}
		}
	}
	return nil
}

// chatChoice checks the choice among tools. DeepSeek's reasoning models accept none.
func (a *ask) chatChoice(body object, names []any, thinks bool) *refusal {
	choice := body["tool_choice"]
	a.none = choice == "none"
	switch c := choice.(type) {
	case nil:
	case string:
		switch {
		case !a.tools:
			return bad("'tool_choice' is only allowed when 'tools' are specified.")
		case thinks && c != "none":
			return bad("Thinking mode does not support this tool_choice")
		case !slices.Contains([]string{"auto", "none", "required"}, c):
			return bad("Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required'.", c)
		}
	case object:
		f, _ := c["function"].(object)
		switch {
		case thinks:
			return bad("Thinking mode does not support this tool_choice")
		case c["type"] == "allowed_tools" && strings.HasPrefix(a.model, "gpt-"):
		case c["type"] != "function" || !slices.Contains(names, f["name"]):
			return bad("Invalid value: tool_choice names a function that is not in tools.")
		}
	}
	if body["parallel_tool_calls"] != nil && !a.tools {
		return bad("'parallel_tool_calls' is only allowed when 'tools' are specified.")
	}
	return nil
}

// chatFormat checks the format of the text.
func chatFormat(body object, openai, deepseek bool) *refusal {
	f, ok := body["response_format"].(object)
	if !ok {
		return nil
	}
	switch s, _ := f["json_schema"].(object); f["type"] {
	case "text":
	case "json_object":
		if (openai || deepseek) && !strings.Contains(strings.ToLower(string(encode(body["messages"]))), "json") {
			return bad("Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.")
		}
	case "json_schema":
		if deepseek {
			return bad("This response_format type is unavailable now")
		}
		if s["name"] == nil || s["schema"] == nil {
			return bad("Missing required parameter: 'response_format.json_schema'.")
		}
		if what := openAIStrict.misfit(s["schema"], "schema"); openai && s["strict"] == true && what != "" {
			return bad("Invalid schema for response_format '%v': %s.", s["name"], what)
		}
	default:
		return bad("Invalid value: response_format.type '%v'.", f["type"])
	}
	return nil
}

func (chat) header(h http.Header, p plan) {
	if strings.HasPrefix(p.model, "deepseek") {
		h.Set("X-Ds-Trace-Id", "trace"+p.id)
		return
	}
	h.Set("X-Request-Id", "req_"+p.id)
}

func (chat) finish(p plan) string {
	if p.chunks == ChunksFinishStop {
		return "stop"
	}
	return map[string]string{"end": "stop", "length": "length", "content_filter": "content_filter", "tool_calls": "tool_calls"}[p.stop]
}

func (chat) usage(p plan) object {
	u := object{
		"prompt_tokens": p.usage.Input, "completion_tokens": p.usage.Output, "total_tokens": p.usage.Input + p.usage.Output,
		"prompt_tokens_details":     p.usage.inputDetails(),
		"completion_tokens_details": object{"reasoning_tokens": p.usage.Reasoning},
	}
	if strings.HasPrefix(p.model, "deepseek") {
		u["prompt_cache_hit_tokens"], u["prompt_cache_miss_tokens"] = p.usage.Cached, p.usage.Input-p.usage.Cached
		if p.usage.Reasoning == 0 {
			delete(u, "completion_tokens_details")
		}
	}
	if sells(p) {
		u["prompt_tokens_details"].(object)["audio_tokens"] = 0
		for _, name := range []string{"audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"} {
			u["completion_tokens_details"].(object)[name] = 0
		}
	}
	return u
}

// sells reports whether a reply has the members that OpenAI alone has. Servers that imitate it have some of them,
// so that other models do so in turn.
func sells(p plan) bool {
	return strings.HasPrefix(p.model, "gpt-") || !strings.HasPrefix(p.model, "deepseek") && p.turn%2 == 0
}

func (chat) chunk(p plan, choices []any) object {
	c := object{"id": "chatcmpl-" + p.id, "object": "chat.completion.chunk", "created": 1_790_000_000, "model": p.model, "system_fingerprint": "fp_fake", "choices": choices}
	if sells(p) {
		c["service_tier"], c["obfuscation"] = "default", "x7"
	}
	if !p.noUsage && (sells(p) || strings.HasPrefix(p.model, "deepseek")) {
		c["usage"] = nil
	}
	return c
}

func (f chat) frames(p plan) []frame {
	var out []frame
	add := func(c object, fr frame) {
		fr.bytes = fmt.Appendf(nil, "data: %s\n\n", chatOrder.encode(c))
		out = append(out, fr)
	}
	choice := func(delta object, finish any) []any {
		return []any{object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
	}
	deepseek := strings.HasPrefix(p.model, "deepseek")
	first := object{"role": "assistant", "content": ""}
	reasons := deepseek && len(p.thinking) > 0
	switch {
	case reasons:
		first["content"], first["reasoning_content"] = nil, ""
	case sells(p):
		first["refusal"] = nil
	}
	add(f.chunk(p, choice(first, nil)), frame{})
	for _, t := range p.thinking {
		if deepseek {
			add(f.chunk(p, choice(object{"content": nil, "reasoning_content": t}, nil)), frame{})
		}
	}
	said := "content"
	if p.refusal {
		said = "refusal"
	}
	for _, t := range p.pieces {
		piece := object{said: t}
		if reasons {
			piece["reasoning_content"] = nil
		}
		add(f.chunk(p, choice(piece, nil)), frame{delta: true})
	}
	for _, pieces := range chatCalls(p) {
		add(f.chunk(p, choice(object{"tool_calls": pieces}, nil)), frame{delta: true})
	}
	end := object{}
	if reasons {
		end["content"], end["reasoning_content"] = "", nil
	}
	last := f.chunk(p, choice(end, f.finish(p)))
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

// chatCalls returns the pieces of the calls, chunk by chunk, in the ordered form.
func chatCalls(p plan) (chunks [][]any) {
	add := func(pieces ...any) { chunks = append(chunks, pieces) }
	var alternate [3][]any
	for i, c := range p.calls {
		half := len(c.arguments) / 2
		piece := func(function object) object {
			o := object{"index": i, "function": function}
			switch p.chunks {
			case ChunksNoIndex:
				delete(o, "index")
			case ChunksIndexZero:
				o["index"] = 0
			}
			return o
		}
		first := piece(object{"name": c.name, "arguments": ""})
		first["id"], first["type"] = c.id, "function"
		switch p.chunks {
		case ChunksNoIDs:
			delete(first, "id")
		case ChunksOddIDs:
			first["id"] = fmt.Sprintf("functions.%s:%d", c.name, i)
		}
		second, third := piece(object{"arguments": c.arguments[:half]}), piece(object{"arguments": c.arguments[half:]})
		switch p.chunks {
		case ChunksObjects:
			first["function"] = object{"name": c.name, "arguments": raw(c.arguments)}
			add(first)
		case ChunksLateName:
			first["function"] = object{"name": c.name}
			add(second)
			add(third)
			add(first)
		case ChunksTogether:
			for k, o := range []object{first, second, third} {
				alternate[k] = append(alternate[k], o)
			}
		default:
			add(first)
			add(second)
			add(third)
		}
	}
	if p.chunks == ChunksTogether {
		chunks = alternate[:]
	}
	return chunks
}

func (f chat) whole(p plan) []byte {
	message := object{"role": "assistant", "content": strings.Join(p.pieces, "")}
	if sells(p) {
		message["refusal"], message["annotations"] = nil, []any{}
	}
	if p.refusal {
		message["content"], message["refusal"] = nil, strings.Join(p.pieces, "")
	}
	if len(p.thinking) > 0 && strings.HasPrefix(p.model, "deepseek") {
		message["reasoning_content"] = strings.Join(p.thinking, "")
	}
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
	if sells(p) {
		reply["service_tier"] = "default"
	}
	if sells(p) || strings.HasPrefix(p.model, "deepseek") {
		reply["system_fingerprint"] = "fp_fake"
	}
	if !p.noUsage {
		reply["usage"] = f.usage(p)
	}
	return chatOrder.encode(reply)
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
