package fakeup

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// messages is the Anthropic Messages format.
type messages struct{}

var _ format = messages{}

func (messages) name() string { return "messages" }

func (messages) match(path string) bool { return path == "/v1/messages" }

func (messages) read(r *http.Request, body object, key string) (a ask, no *refusal) {
	if got := r.Header.Get("X-Api-Key"); got != key {
		return a, &refusal{status: 401, kind: "authentication_error", text: "invalid x-api-key"}
	}
	if r.Header.Get("Anthropic-Version") != "2023-06-01" {
		return a, bad("anthropic-version: header is required")
	}
	known := []string{"model", "max_tokens", "system", "messages", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "thinking", "output_config", "tools", "tool_choice", "service_tier", "cache_control"}
	if strings.Contains(r.Header.Get("Anthropic-Beta"), "context-management-2025-06-27") {
		known = append(known, "context_management")
	}
	for k := range body {
		if !slices.Contains(known, k) {
			return a, bad("%s: Extra inputs are not permitted", k)
		}
	}
	a.model, _ = body["model"].(string)
	if a.model == "" {
		return a, bad("model: Field required")
	}
	newer := !strings.Contains(a.model, "haiku-4")
	if no := a.messagesLimits(body, newer); no != nil {
		return a, no
	}
	if no := a.messagesThinking(body, newer); no != nil {
		return a, no
	}
	switch s := body["system"].(type) {
	case nil, string:
	case []any:
		for i, b := range s {
			if o, _ := b.(object); o["type"] != "text" || o["text"] == "" {
				return a, bad("system.%d: text content blocks must be non-empty", i)
			}
		}
	default:
		return a, bad("system: Input should be a valid string or list")
	}
	if no := a.messagesBlocks(body); no != nil {
		return a, no
	}
	names, no := a.messagesTools(r, body)
	if no != nil {
		return a, no
	}
	if no := a.messagesChoice(body, names); no != nil {
		return a, no
	}
	before, no := newPrefix(r, body)
	if no != nil {
		return a, no
	}
	no = a.messagesTurns(body, before, newer)
	return a, no
}

// messagesLimits reads max_tokens and stream, and checks the sampling settings.
func (a *ask) messagesLimits(body object, newer bool) *refusal {
	n, ok := body["max_tokens"].(float64)
	if !ok {
		return bad("max_tokens: Field required")
	}
	if n < 1 || n != float64(int64(n)) {
		return bad("max_tokens: must be greater than or equal to 1")
	}
	ceiling := 128_000.0
	if !newer {
		ceiling = 64_000
	}
	if n > ceiling && strings.HasPrefix(a.model, "claude-") {
		return bad("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", int64(n), int64(ceiling), a.model)
	}
	a.maxTokens = int64(n)
	a.stream, _ = body["stream"].(bool)
	temperature, hasT := body["temperature"].(float64)
	_, hasP := body["top_p"].(float64)
	switch {
	case newer && (hasT || hasP || body["top_k"] != nil):
		return bad("`temperature`, `top_p` and `top_k` are not supported for this model.")
	case hasT && hasP:
		return bad("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	case hasT && (temperature < 0 || temperature > 1):
		return bad("temperature: range: 0..1")
	}
	return nil
}

// messagesThinking checks the settings of reasoning and reply.
func (a *ask) messagesThinking(body object, newer bool) *refusal {
	temperature, hasT := body["temperature"].(float64)
	if th, ok := body["thinking"].(object); ok {
		kind := th["type"]
		if newer && (kind == "enabled" || kind == "disabled") {
			return bad("thinking.type: '%v' is not supported for this model", kind)
		}
		if kind == "enabled" {
			if budget, _ := th["budget_tokens"].(float64); budget < 1024 || budget >= float64(a.maxTokens) {
				return bad("thinking.enabled.budget_tokens: must be ≥ 1024 and less than max_tokens")
			}
			if hasT && temperature != 1 {
				return bad("`temperature` may only be set to 1 when thinking is enabled.")
			}
		}
	}
	context, _ := body["context_management"].(object)
	edits, _ := context["edits"].([]any)
	thinks, _ := body["thinking"].(object)
	for _, e := range edits {
		if kind, _ := e.(object)["type"].(string); strings.HasPrefix(kind, "clear_thinking_") && thinks["type"] != "enabled" && thinks["type"] != "adaptive" {
			return bad("`%s` strategy requires `thinking` to be enabled or adaptive", kind)
		}
	}
	if oc, ok := body["output_config"].(object); ok {
		if e, ok := oc["effort"]; ok && !slices.Contains([]any{"low", "medium", "high", "xhigh", "max"}, e) {
			return bad("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
		}
		if !newer && oc["effort"] != nil {
			return bad("This model does not support the effort parameter.")
		}
		if f, ok := oc["format"].(object); ok {
			if what := anthropicStrict.misfit(f["schema"], "schema"); f["type"] != "json_schema" || f["schema"] == nil || what != "" {
				return bad("output_config.format.schema: %s", what)
			}
		}
	}
	return nil
}

// ownDated are the types of Anthropic's own tools that callers run.
var ownDated = regexp.MustCompile(`^(bash|text_editor|memory|computer)_[0-9]{8}$`)

// messagesTools checks the tools and returns their names.
func (a *ask) messagesTools(r *http.Request, body object) (names []any, no *refusal) {
	tools, _ := body["tools"].([]any)
	a.tools = len(tools) > 0
	for i, t := range tools {
		o, _ := t.(object)
		if kind, _ := o["type"].(string); ownDated.MatchString(kind) {
			if beta := map[string]string{"computer_20251124": "computer-use-2025-11-24", "computer_20250124": "computer-use-2025-01-24"}[kind]; o["name"] == nil || !strings.Contains(r.Header.Get("Anthropic-Beta"), beta) {
				return nil, bad("tools.%d: Input tag '%s' found using 'type' does not match any of the expected tags", i, kind)
			}
			names = append(names, o["name"])
			continue
		}
		schema, ok := o["input_schema"].(object)
		if !ok || schema["type"] != "object" || o["name"] == "" {
			return nil, bad("tools.%d.custom.input_schema.type: Field required", i)
		}
		if schema["anyOf"] != nil || schema["oneOf"] != nil || schema["allOf"] != nil {
			return nil, bad("tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		}
		if what := anthropicStrict.misfit(schema, "input_schema"); o["strict"] == true && what != "" {
			return nil, bad("tools.%d.custom: For strict tools, %s", i, what)
		}
		names = append(names, o["name"])
	}
	return names, nil
}

// messagesTurns reads the messages. before is the prefix of the first of them.
func (a *ask) messagesTurns(body object, before prefix, newer bool) *refusal {
	turns, _ := body["messages"].([]any)
	if len(turns) == 0 {
		return bad("messages: at least one message is required")
	}
	var last string
	var open []string // tool calls of the previous turn
	seen := map[string]bool{}
	for i, t := range turns {
		m, _ := t.(object)
		role, _ := m["role"].(string)
		switch {
		case role == "system" && binds(a.model):
			if last != "user" || i+1 < len(turns) && turns[i+1].(object)["role"] != "assistant" {
				return bad("messages.%d: a system message must follow a user message and precede an assistant message", i)
			}
			if _, no := before.read(a.model, i, role, m["content"]); no != nil {
				return no
			}
			continue
		case role != "user" && role != "assistant":
			return bad("messages.%d.role: Input should be 'user' or 'assistant'", i)
		case i == 0 && role != "user":
			return bad("messages: first message must use the \"user\" role")
		case role == last:
			return bad("messages: roles must alternate between \"user\" and \"assistant\", but found multiple %q roles in a row", role)
		}
		last = role
		text, calls, results, no := messagesContent(i, role, m["content"])
		if no != nil {
			return no
		}
		dropped, no := before.read(a.model, i, role, m["content"])
		if no != nil {
			return no
		}
		a.dropped += dropped
		for _, id := range calls {
			if seen[id] {
				return bad("messages.%d: `tool_use` ids must be unique", i)
			}
			seen[id] = true
		}
		for _, id := range open {
			if !slices.Contains(results, id) {
				return bad("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1, id)
			}
		}
		for _, id := range results {
			if !slices.Contains(open, id) {
				return bad("messages.%d.content.0: unexpected `tool_use_id` found in `tool_result` blocks: %s", i, id)
			}
		}
		if len(calls)+len(results) > 0 && !a.tools {
			return bad("Requests which include `tool_use` or `tool_result` blocks must define tools")
		}
		open = calls
		if role == "user" {
			if a.results = len(results) > 0; a.results {
				a.rounds++
			}
			text = stoa.WithoutNotes(text)
			if text != "" || !a.results {
				a.prompt, a.rounds = text, 0
			}
		}
	}
	a.before = before
	if last == "assistant" && newer {
		return bad("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

var toolID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// messagesChoice checks the choice among tools. The newer models cannot be forced.
func (a *ask) messagesChoice(body object, names []any) *refusal {
	c, ok := body["tool_choice"].(object)
	if !ok {
		return nil
	}
	a.none = c["type"] == "none"
	forced := c["type"] == "any" || c["type"] == "tool"
	switch {
	case !a.tools:
		return bad("tool_choice: may only be specified while providing tools")
	case forced && binds(a.model):
		return bad("tool_choice: '%v' is not supported for this model", c["type"])
	case c["type"] == "tool" && !slices.Contains(names, c["name"]):
		return bad("tool_choice.name: Tool '%v' not found in provided tools", c["name"])
	case a.none && c["disable_parallel_tool_use"] != nil:
		return bad("tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted")
	case !forced && !a.none && c["type"] != "auto":
		return bad("tool_choice: Input tag '%v' found using 'type' does not match any of the expected tags", c["type"])
	}
	return nil
}

func messagesContent(i int, role string, content any) (text string, calls, results []string, no *refusal) {
	switch c := content.(type) {
	case string:
		if c == "" {
			return "", nil, nil, bad("messages.%d: all messages must have non-empty content", i)
		}
		return c, nil, nil, nil
	case []any:
		if len(c) == 0 {
			return "", nil, nil, bad("messages.%d: all messages must have non-empty content", i)
		}
		for j, b := range c {
			o, _ := b.(object)
			id, _ := o["id"].(string)
			switch kind := o["type"]; {
			case kind == "text":
				s, _ := o["text"].(string)
				if s == "" {
					return "", nil, nil, bad("messages.%d.content.%d.text: text content blocks must be non-empty", i, j)
				}
				text += s
			case kind == "tool_use" && role == "assistant":
				if _, ok := o["input"].(object); !ok || id == "" {
					return "", nil, nil, bad("messages.%d.content.%d.tool_use.input: Input should be a valid dictionary", i, j)
				}
				if !toolID.MatchString(id) {
					return "", nil, nil, bad("messages.%d.content.%d.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", i, j)
				}
				calls = append(calls, id)
			case kind == "tool_result" && role == "user":
				if text != "" {
					return "", nil, nil, bad("messages.%d: `tool_result` blocks must come first", i)
				}
				id, _ := o["tool_use_id"].(string)
				results = append(results, id)
				if list, ok := o["content"].([]any); ok && len(list) == 0 {
					return "", nil, nil, bad("messages.%d.content.%d.tool_result.content: List should have at least 1 item", i, j)
				} else if slices.ContainsFunc(list, isDamaged) {
					return "", nil, nil, bad("messages.%d.content.%d.tool_result.content: Could not process image", i, j)
				}
			case kind == "image" && role == "user", kind == "document" && role == "user":
				if s, _ := o["source"].(object); s["type"] != "base64" && s["type"] != "url" {
					return "", nil, nil, bad("messages.%d.content.%d.source: Input should be a valid dictionary", i, j)
				}
			case kind == "thinking" && role == "assistant":
			case kind == "redacted_thinking" && role == "assistant":
			default:
				return "", nil, nil, bad("messages.%d.content.%d: Input tag '%v' found using 'type' does not match any of the expected tags", i, j, kind)
			}
		}
		return text, calls, results, nil
	}
	return "", nil, nil, bad("messages.%d.content: Input should be a valid string or list", i)
}

// isDamaged reports whether a block is a PNG without its end.
func isDamaged(block any) bool {
	o, _ := block.(object)
	s, _ := o["source"].(object)
	data, _ := s["data"].(string)
	image, _ := base64.StdEncoding.DecodeString(data)
	return s["media_type"] == "image/png" && !bytes.Contains(image, []byte("IEND"))
}

const thinkingSignature = "EqQBCgIYAhIkZmFrZSBzaWduYXR1cmU="

func (messages) header(h http.Header, p plan) { h.Set("Request-Id", "req_"+p.id) }

func (f messages) stopReason(p plan) string {
	if p.refusal {
		return "refusal"
	}
	if p.stopped != nil && p.stop == "end" {
		return "stop_sequence"
	}
	return map[string]string{"end": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}[p.stop]
}

// usage returns the usage of a reply. The events at its begin and its end have a part of the members each.
func (messages) usage(p plan, output int64, begin, end bool) object {
	u := object{
		"input_tokens": p.usage.Input - p.usage.Cached - p.usage.Written, "cache_creation_input_tokens": p.usage.Written, "cache_read_input_tokens": p.usage.Cached,
		"output_tokens": output,
	}
	if begin {
		u["cache_creation"] = object{"ephemeral_5m_input_tokens": p.usage.Written - p.usage.Long, "ephemeral_1h_input_tokens": p.usage.Long}
		u["service_tier"] = "standard"
		if p.turn%2 == 0 {
			u["inference_geo"] = "not_available"
		}
	}
	if end && p.usage.Reasoning > 0 && !claude4.MatchString(p.model) {
		u["output_tokens_details"] = object{"thinking_tokens": p.usage.Reasoning}
	}
	return u
}

// claude4 are the models that do not count thinking.
var claude4 = regexp.MustCompile(`-4(-|$)`)

// stopDetails returns the details of a refusal; nil for another reason to stop.
func (f messages) stopDetails(p plan) any {
	if f.stopReason(p) != "refusal" {
		return nil
	}
	return object{"type": "refusal", "category": "cyber", "explanation": "This request was blocked.", "recommended_model": p.model}
}

// arguments returns the arguments of the call with an id.
func arguments(p plan, id any) string {
	at := slices.IndexFunc(p.calls, func(c toolCall) bool { return c.id == id })
	return p.calls[at].arguments
}

// blocks returns the content of a reply. Thinking is signed for its position.
func (f messages) blocks(p plan) (content []any) {
	content = []any{}
	before := p.before
	before.values = append(slices.Clip(before.values), "assistant")
	add := func(b object) {
		content = append(content, b)
		before.values = append(before.values, b)
	}
	think := func() {
		if len(p.thinking) > 0 {
			before.number++
			text := strings.Join(p.thinking, "")
			content = append(content, object{"type": "thinking", "thinking": text, "signature": signature(p.model, text, before.number, before.values)})
		}
	}
	think()
	if len(p.pieces) > 0 {
		add(object{"type": "text", "text": strings.Join(p.pieces, "")})
	}
	for i, c := range p.calls {
		if p.interleave && (i > 0 || len(p.pieces) > 0) {
			think()
		}
		input := raw(c.arguments)
		if p.cut && i == len(p.calls)-1 {
			input = closed(c.arguments)
		}
		add(object{"type": "tool_use", "id": c.id, "name": c.name, "input": input})
	}
	return content
}

// closed returns the beginning of a JSON object as the object that Anthropic makes of it in a
// whole reply: with the members that have arrived, of which the last may be shortened.
func closed(begun string) any {
	for n := len(begun); n > 0; n-- {
		var open []byte
		inString, escaped := false, false
		for _, b := range []byte(begun[:n]) {
			switch {
			case escaped:
				escaped = false
			case inString:
				escaped, inString = b == '\\', b != '"'
			case b == '"':
				inString = true
			case b == '{' || b == '[':
				open = append(open, b+2)
			case (b == '}' || b == ']') && len(open) > 0:
				open = open[:len(open)-1]
			}
		}
		text := begun[:n]
		if inString {
			text += `"`
		}
		slices.Reverse(open)
		if text += string(open); json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	return object{}
}

func (f messages) frames(p plan) []frame {
	var out []frame
	event := func(kind string, members object) {
		members["type"] = kind
		out = append(out, frame{bytes: fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, messagesOrder.encode(members))})
	}
	start := object{"id": "msg_" + p.id, "type": "message", "role": "assistant", "model": p.model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil}
	if !p.noUsage {
		start["usage"] = f.usage(p, min(p.usage.Output, 1), true, false)
	}
	event("message_start", object{"message": start})
	index := 0
	pinged := false
	ping := func(turn int) { // once, at a place that differs from reply to reply
		if !pinged && p.turn%3 == turn {
			pinged = true
			event("ping", object{})
		}
	}
	block := func(kind object, deltas func()) {
		event("content_block_start", object{"index": index, "content_block": kind})
		ping(0)
		deltas()
		ping(2)
		event("content_block_stop", object{"index": index})
		index++
	}
	delta := func(d object) {
		event("content_block_delta", object{"index": index, "delta": d})
		ping(1)
	}
	content := f.blocks(p)
	if len(content) == 0 {
		ping(p.turn % 3)
	}
	for _, b := range content {
		switch o := b.(object); o["type"] {
		case "thinking":
			block(object{"type": "thinking", "thinking": "", "signature": ""}, func() {
				for _, t := range p.thinking {
					delta(object{"type": "thinking_delta", "thinking": t})
				}
				delta(object{"type": "signature_delta", "signature": o["signature"]})
			})
		case "text":
			block(object{"type": "text", "text": ""}, func() {
				for _, t := range p.pieces {
					at := len(out)
					delta(object{"type": "text_delta", "text": t})
					out[at].delta = true
				}
			})
		case "tool_use":
			arguments := arguments(p, o["id"])
			block(object{"type": "tool_use", "id": o["id"], "name": o["name"], "input": object{}}, func() {
				half := len(arguments) / 2
				for _, piece := range []string{"", arguments[:half], arguments[half:]} {
					at := len(out)
					delta(object{"type": "input_json_delta", "partial_json": piece})
					out[at].delta = true
				}
			})
		}
	}
	stop := object{"stop_reason": f.stopReason(p), "stop_sequence": p.stopped}
	if details := f.stopDetails(p); details != nil {
		stop["stop_details"] = details
	}
	end := object{"delta": stop}
	if !p.noUsage {
		end["usage"] = f.usage(p, p.usage.Output, false, true)
	}
	event("message_delta", end)
	out[len(out)-1].end = true
	event("message_stop", object{})
	out[len(out)-1].end = true
	return out
}

func (f messages) whole(p plan) []byte {
	content := f.blocks(p)
	reply := object{"id": "msg_" + p.id, "type": "message", "role": "assistant", "model": p.model, "content": content, "stop_reason": f.stopReason(p), "stop_sequence": p.stopped}
	if details := f.stopDetails(p); details != nil || !claude4.MatchString(p.model) {
		reply["stop_details"] = details
	}
	if !p.noUsage {
		reply["usage"] = f.usage(p, p.usage.Output, true, true)
	}
	return messagesOrder.encode(reply)
}

func (messages) failure(status int, no *refusal, id string) []byte {
	kind, text := no.kind, no.text
	if kind == "" {
		kind = map[int]string{400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}[status]
	}
	if kind == "" {
		kind = "api_error"
	}
	return messagesOrder.encode(object{"type": "error", "error": object{"type": kind, "message": text}, "request_id": "req_" + id})
}

func (f messages) failureEvent(status int, p plan) []byte {
	return fmt.Appendf(nil, "event: error\ndata: %s\n\n", f.failure(status, &refusal{text: "Overloaded"}, p.id))
}

func (messages) malformed() []byte {
	return []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_del\n\n")
}

func (messages) text(s string) []byte {
	return fmt.Appendf(nil, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n", s)
}

func (messages) comment() []byte { return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n") }
