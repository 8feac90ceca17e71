package fakeup

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// responses is OpenAI's Responses format.
type responses struct{}

var _ format = responses{}

func (responses) name() string { return "responses" }

func (responses) match(path string) bool { return path == "/v1/responses" }

// reasons reports whether OpenAI's model of that name is one that reasons.
func reasons(model string) bool {
	return strings.HasPrefix(model, "gpt-5") || strings.HasPrefix(model, "gpt-6") || strings.HasPrefix(model, "o")
}

func bearer(r *http.Request, key string) *refusal {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok || got == "":
		return &refusal{status: 401, kind: "invalid_request_error", text: "You didn't provide an API key."}
	case got != key:
		return &refusal{status: 401, kind: "invalid_api_key", text: "Incorrect API key provided: " + got + "."}
	}
	return nil
}

func (responses) read(r *http.Request, body object, key string) (a ask, no *refusal) {
	if no := bearer(r, key); no != nil {
		return a, no
	}
	known := []string{"model", "input", "instructions", "stream", "store", "max_output_tokens", "temperature", "top_p", "reasoning", "text", "tools", "tool_choice", "parallel_tool_calls", "include", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_options", "stream_options", "truncation", "service_tier"}
	for k := range body {
		if !slices.Contains(known, k) {
			return a, bad("Unknown parameter: '%s'.", k)
		}
	}
	if a.model, _ = body["model"].(string); a.model == "" {
		return a, bad("you must provide a model parameter")
	}
	if no := a.responsesBlocks(body); no != nil {
		return a, no
	}
	a.stream, _ = body["stream"].(bool)
	if v, ok := body["max_output_tokens"]; ok {
		n, isNumber := v.(float64)
		if !isNumber || n < 16 {
			return a, bad("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got %v instead.", v)
		}
		a.maxTokens = int64(n)
	}
	effort := ""
	if reasoning, ok := body["reasoning"].(object); ok {
		effort, _ = reasoning["effort"].(string)
		if effort != "" && !slices.Contains([]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}, effort) {
			return a, bad("Invalid value: '%s'. Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.", effort)
		}
		if effort != "" && !reasons(a.model) {
			return a, bad("Unsupported parameter: 'reasoning.effort' is not supported with this model.")
		}
	}
	for _, k := range []string{"temperature", "top_p"} {
		if body[k] != nil && reasons(a.model) && effort != "none" {
			no := bad("Unsupported parameter: '%s' is not supported with this model.", k)
			no.param = k
			return a, no
		}
	}
	if tools, has := body["tools"]; has {
		if list, _ := tools.([]any); len(list) > 0 {
			if no := a.declare("tools", tools, ""); no != nil {
				return a, no
			}
		}
	}
	if text, ok := body["text"].(object); ok {
		if f, ok := text["format"].(object); ok {
			what := openAIStrict.misfit(f["schema"], "schema")
			switch {
			case f["type"] == "json_schema" && (f["name"] == nil || f["schema"] == nil):
				return a, bad("Missing required parameter: 'text.format.name'.")
			case f["type"] == "json_schema" && f["strict"] == true && what != "":
				return a, bad("Invalid schema for response_format '%v': %s.", f["name"], what)
			case f["type"] == "json_object" && !strings.Contains(strings.ToLower(string(encode(body["input"]))), "json"):
				return a, bad("Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.")
			}
		}
	}
	switch in := body["input"].(type) {
	case string:
		if in == "" {
			return a, bad("Missing required parameter: 'input'.")
		}
		a.prompt = in
	case []any:
		if len(in) == 0 {
			return a, bad("Invalid 'input': empty array.")
		}
		calls := map[any]bool{}
		for i, item := range in {
			if no := a.readItem(i, item, calls); no != nil {
				return a, no
			}
		}
		for id, open := range calls {
			if open {
				return a, bad("No tool output found for function call %v.", id)
			}
		}
	default:
		return a, bad("Missing required parameter: 'input'.")
	}
	return a, a.responsesChoice(body)
}

// responsesChoice checks the choice among tools.
func (a *ask) responsesChoice(body object) *refusal {
	choice := body["tool_choice"]
	a.none = choice == "none"
	switch c := choice.(type) {
	case nil:
	case string:
		if !slices.Contains([]string{"auto", "none", "required"}, c) || c == "required" && !a.tools {
			return bad("Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required'.", c)
		}
	case object:
		listed := []any{c}
		if c["type"] == "allowed_tools" {
			listed, _ = c["tools"].([]any)
		}
		for _, t := range listed {
			if o, _ := t.(object); !slices.ContainsFunc(a.declared, func(d declared) bool { return d.matches(o) }) {
				return bad("Tool choice '%v' not found in 'tools' parameter.", o["name"])
			}
		}
	}
	return nil
}

func (a *ask) readItem(i int, item any, calls map[any]bool) *refusal {
	o, _ := item.(object)
	if kind, _ := o["type"].(string); a.ownItem(kind) {
		id := o["call_id"]
		if id == nil || o["id"] != nil && !strings.HasPrefix(kind, "local_shell_") {
			return bad("Missing required parameter: 'input[%d].call_id'.", i)
		}
		if strings.HasSuffix(kind, "_call") {
			calls[id] = true
			return nil
		}
		if !calls[id] {
			return bad("No tool call found for %s with call_id %v.", kind, id)
		}
		if calls[id], a.results = false, true; !slices.Contains(slices.Collect(maps.Values(calls)), true) {
			a.rounds++
		}
		if kind == "tool_search_output" {
			before := a.declared // among them tools that were deferred, which the search has found
			a.declared = nil
			no := a.declare(fmt.Sprintf("input[%d].tools", i), o["tools"], "")
			a.declared = append(a.declared, before...)
			return no
		}
		return nil
	}
	switch kind := o["type"]; kind {
	case nil, "message":
		role, _ := o["role"].(string)
		if !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
			return bad("Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
		}
		text, isText := o["content"].(string)
		if parts, ok := o["content"].([]any); ok {
			isText = true
			for j, part := range parts {
				p, _ := part.(object)
				if image := p["type"] == "input_image" || p["type"] == "input_file"; image && role == "user" {
					continue
				}
				want := "input_text"
				if role == "assistant" {
					want = "output_text"
				}
				if p["type"] != want {
					return bad("Invalid value: '%v'. Supported values for input[%d].content[%d] are: '%s'.", p["type"], i, j, want)
				}
				s, _ := p["text"].(string)
				text += s
			}
		}
		if !isText {
			return bad("Missing required parameter: 'input[%d].content'.", i)
		}
		if role == "user" && !stoa.StandsAlone(text) {
			a.prompt, a.results, a.rounds = stoa.WithoutNotes(text), false, 0
		}
	case "additional_tools":
		if o["role"] != "developer" {
			return bad("Invalid value: '%v'. Supported values for input[%d].role are: 'developer'.", o["role"], i)
		}
		return a.declare(fmt.Sprintf("input[%d].tools", i), o["tools"], "")
	case "function_call", "custom_tool_call":
		if o["call_id"] == nil || o["name"] == nil || o["arguments"] == nil && kind == "function_call" || o["input"] == nil && kind == "custom_tool_call" {
			return bad("Missing required parameter: 'input[%d].call_id'.", i)
		}
		id, _ := o["call_id"].(string)
		if id == "" || len(id) > 64 {
			return bad("Invalid 'input[%d].call_id': string too long. Expected a string with maximum length 64.", i)
		}
		calls[o["call_id"]] = true
		if kind == "custom_tool_call" {
			calls[customMark+id] = false
		}
	case "function_call_output", "custom_tool_call_output":
		id, _ := o["call_id"].(string)
		if _, custom := calls[customMark+id]; !calls[o["call_id"]] || custom != (kind == "custom_tool_call_output") {
			return bad("No tool call found for function call output with call_id %v.", o["call_id"])
		}
		calls[o["call_id"]] = false
		a.results = true
		if !slices.Contains(slices.Collect(maps.Values(calls)), true) {
			a.rounds++
		}
	case "reasoning":
		if o["encrypted_content"] != encryptedReasoning {
			return bad("The encrypted content for item %v could not be verified.", o["id"])
		}
		id, _ := o["id"].(string)
		if _, twice := calls[reasoningMark+id]; twice {
			return bad("Duplicate item found with id %s. Remove duplicate items from your input and try again.", id)
		}
		calls[reasoningMark+id] = false
	default:
		return bad("Invalid value: '%v'. Supported values for input[%d].type are: 'message', 'function_call', 'function_call_output', 'reasoning'.", kind, i)
	}
	return nil
}

// ownItem reports whether an item is a call of one of OpenAI's own tools, or its output.
func (a *ask) ownItem(kind string) bool {
	for _, own := range ownTools {
		if kind == own[1] || kind == own[1]+"_output" || kind == "tool_search_output" {
			return true
		}
	}
	return false
}

// customMark precedes the ids of calls of custom tools in a set, reasoningMark those of reasoning.
const (
	customMark    = "custom "
	reasoningMark = "reasoning "
)

const encryptedReasoning = "gAAAAABfake-reasoning"

func (responses) header(h http.Header, p plan) {
	h.Set("X-Request-Id", "req_"+p.id)
	h.Set("Openai-Version", "2020-10-01")
}

func (responses) reply(p plan, status string, output []any) object {
	r := object{
		"id": "resp_" + p.id, "object": "response", "created_at": 1_790_000_000, "status": status, "model": p.model, "output": output,
		"error": nil, "incomplete_details": nil, "usage": nil, "store": false, "parallel_tool_calls": true, "metadata": object{},
	}
	if p.short() {
		for _, name := range []string{"error", "incomplete_details", "store", "parallel_tool_calls", "metadata"} {
			delete(r, name)
		}
		r["service_tier"] = "auto"
	} else {
		for _, name := range []string{"instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user"} {
			r[name] = nil
		}
		maps.Copy(r, object{
			"background": false, "reasoning": object{"effort": "medium", "summary": nil}, "service_tier": "auto", "temperature": 1, "text": object{"format": object{"type": "text"}, "verbosity": "medium"},
			"tool_choice": "auto", "tools": []any{}, "top_logprobs": 0, "top_p": 1, "truncation": "disabled",
		})
	}
	if status == "completed" || status == "incomplete" {
		if !p.noUsage {
			r["usage"] = object{
				"input_tokens": p.usage.Input, "input_tokens_details": p.usage.inputDetails(),
				"output_tokens": p.usage.Output, "output_tokens_details": object{"reasoning_tokens": p.usage.Reasoning},
				"total_tokens": p.usage.Input + p.usage.Output,
			}
		}
		switch p.stop {
		case "length":
			r["incomplete_details"] = object{"reason": "max_output_tokens"}
		case "content_filter":
			r["incomplete_details"] = object{"reason": "content_filter"}
		}
	}
	return r
}

// short reports whether a reply is as short as those for OpenAI's own agent, which lack what was not set.
// Replies are so in turn.
func (p plan) short() bool { return p.turn%2 == 1 }

func (p plan) order() order {
	if p.short() {
		return shortOrder
	}
	return responsesOrder
}

func (responses) status(p plan) string {
	if p.stop == "length" || p.stop == "content_filter" {
		return "incomplete"
	}
	return "completed"
}

func (f responses) output(p plan) []any {
	out := []any{}
	think := func(i int) {
		summary := []any{}
		if len(p.thinking) > 0 {
			summary = append(summary, object{"type": "summary_text", "text": strings.Join(p.thinking, "")})
		}
		out = append(out, object{"id": fmt.Sprint("rs_", p.id, i), "type": "reasoning", "summary": summary, "encrypted_content": encryptedReasoning})
	}
	if len(p.thinking) > 0 || len(p.calls) > 0 {
		think(0)
	}
	if len(p.pieces) > 0 {
		out = append(out, object{"id": "msg_" + p.id, "type": "message", "status": f.status(p), "role": "assistant", "content": []any{
			object{"type": "output_text", "text": strings.Join(p.pieces, ""), "annotations": []any{}, "logprobs": []any{}},
		}})
		if p.phase != "" {
			out[len(out)-1].(object)["phase"] = p.phase
		}
		if p.refusal {
			out[len(out)-1].(object)["content"] = []any{object{"type": "refusal", "refusal": strings.Join(p.pieces, "")}}
		}
	}
	for i, c := range p.calls {
		if p.interleave && i > 0 {
			think(i)
		}
		status := "completed"
		if p.cut && i == len(p.calls)-1 {
			status = "incomplete"
		}
		out = append(out, c.item(p.declared, status))
	}
	return out
}

func (f responses) frames(p plan) []frame {
	var out []frame
	event := func(kind string, members object) {
		members["type"], members["sequence_number"] = kind, len(out)
		if _, isText := members["delta"].(string); isText && !p.short() {
			members["obfuscation"] = "x7"
		}
		out = append(out, frame{bytes: fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, p.order().encode(members))})
	}
	event("response.created", object{"response": f.reply(p, "in_progress", []any{})})
	event("response.in_progress", object{"response": f.reply(p, "in_progress", []any{})})
	output := f.output(p)
	for i, item := range output {
		o := item.(object)
		begun := object{"id": o["id"], "type": o["type"], "status": "in_progress"}
		switch o["type"] {
		case "reasoning":
			event("response.output_item.added", object{"output_index": i, "item": object{"id": o["id"], "type": "reasoning", "summary": []any{}, "encrypted_content": encryptedReasoning}})
			at := func(members object) object {
				members["item_id"], members["output_index"], members["summary_index"] = o["id"], i, 0
				return members
			}
			if summary := o["summary"].([]any); len(summary) > 0 {
				event("response.reasoning_summary_part.added", at(object{"part": object{"type": "summary_text", "text": ""}}))
				for _, t := range p.thinking {
					event("response.reasoning_summary_text.delta", at(object{"delta": t}))
				}
				event("response.reasoning_summary_text.done", at(object{"text": strings.Join(p.thinking, "")}))
				event("response.reasoning_summary_part.done", at(object{"part": summary[0]}))
			}
		case "message":
			begun["role"], begun["content"] = "assistant", []any{}
			if p.phase != "" {
				begun["phase"] = p.phase
			}
			event("response.output_item.added", object{"output_index": i, "item": begun})
			event("response.content_part.added", object{"item_id": o["id"], "output_index": i, "content_index": 0, "part": object{"type": "output_text", "text": "", "annotations": []any{}, "logprobs": []any{}}})
			part := o["content"].([]any)[0].(object)
			at := func(members object) object {
				members["item_id"], members["output_index"], members["content_index"] = o["id"], i, 0
				return members
			}
			for _, t := range p.pieces {
				switch {
				case p.refusal:
					event("response.refusal.delta", at(object{"delta": t}))
				case p.short():
					event("response.output_text.delta", at(object{"delta": t}))
				default:
					event("response.output_text.delta", at(object{"delta": t, "logprobs": []any{}}))
				}
				out[len(out)-1].delta = true
			}
			if p.refusal {
				event("response.refusal.done", at(object{"refusal": part["refusal"]}))
			} else {
				event("response.output_text.done", at(object{"text": part["text"], "logprobs": []any{}}))
			}
			event("response.content_part.done", at(object{"part": part}))
		case "custom_tool_call":
			begun["call_id"], begun["name"], begun["input"] = o["call_id"], o["name"], ""
			if o["namespace"] != nil {
				begun["namespace"] = o["namespace"]
			}
			event("response.output_item.added", object{"output_index": i, "item": begun})
			for _, piece := range words(o["input"].(string)) {
				event("response.custom_tool_call_input.delta", object{"item_id": o["id"], "output_index": i, "delta": piece})
				out[len(out)-1].delta = true
			}
			event("response.custom_tool_call_input.done", object{"item_id": o["id"], "output_index": i, "input": o["input"]})
		case "shell_call", "apply_patch_call", "local_shell_call", "computer_call", "tool_search_call":
			begun["call_id"] = o["call_id"] // the vendor adds the rest as it comes
			event("response.output_item.added", object{"output_index": i, "item": begun})
			if o["type"] == "shell_call" {
				event("response.shell_call_command.added", object{"output_index": i, "command_index": 0, "command": ""})
				event("response.shell_call_command.delta", object{"output_index": i, "command_index": 0, "delta": "ls"})
				event("response.shell_call_command.done", object{"output_index": i, "command_index": 0, "command": "ls"})
			}
		case "function_call":
			begun["call_id"], begun["name"], begun["arguments"] = o["call_id"], o["name"], ""
			if o["namespace"] != nil {
				begun["namespace"] = o["namespace"]
			}
			event("response.output_item.added", object{"output_index": i, "item": begun})
			if text := o["arguments"].(string); p.chunks != ChunksOnlyDone {
				for _, piece := range []string{text[:len(text)/2], text[len(text)/2:]} {
					event("response.function_call_arguments.delta", object{"item_id": o["id"], "output_index": i, "delta": piece})
					out[len(out)-1].delta = true
				}
			}
			done := object{"item_id": o["id"], "output_index": i, "arguments": o["arguments"]}
			if p.short() { // documented, but not always sent
				done["name"] = o["name"]
			}
			event("response.function_call_arguments.done", done)
		}
		event("response.output_item.done", object{"output_index": i, "item": item})
	}
	event("response."+f.status(p), object{"response": f.reply(p, f.status(p), output)})
	out[len(out)-1].end = true
	return out
}

func (f responses) whole(p plan) []byte {
	order := responsesOrder
	if p.short() {
		order = shortWholeOrder
	}
	return order.encode(f.reply(p, f.status(p), f.output(p)))
}

func (responses) failure(status int, no *refusal, id string) []byte {
	return openAIError(status, no)
}

// openAIError is the error body that OpenAI's two formats share.
func openAIError(status int, no *refusal) []byte {
	kind, code := "invalid_request_error", any(nil)
	if no.kind != "" && no.kind != kind {
		code = no.kind
	}
	switch {
	case status == 429 && code == nil:
		kind, code = "requests", "rate_limit_exceeded"
	case status >= 500:
		kind = "server_error"
		if status == 503 || status == 529 {
			code = "server_is_overloaded"
		}
	}
	param := any(nil)
	if no.param != "" {
		param = no.param
	}
	return chatOrder.encode(object{"error": object{"message": no.text, "type": kind, "param": param, "code": code}})
}

func (f responses) failureEvent(status int, p plan) []byte {
	failure := object{"type": "server_error", "code": "server_error", "message": "The server had an error.", "param": nil}
	if status == 429 || status == 503 || status == 529 {
		failure["code"] = "server_is_overloaded"
	}
	failed := f.reply(p, "failed", []any{})
	failed["error"] = object{"code": failure["code"], "message": failure["message"]}
	var out []byte
	if p.fresh {
		for _, fr := range f.frames(p)[:2] {
			out = append(out, fr.bytes...)
		}
	}
	return fmt.Appendf(out, "event: error\ndata: %s\n\nevent: response.failed\ndata: %s\n\n",
		p.order().encode(object{"type": "error", "sequence_number": 2, "error": failure}),
		p.order().encode(object{"type": "response.failed", "sequence_number": 3, "response": failed}))
}

func (responses) malformed() []byte {
	return []byte("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"del\n\n")
}

func (responses) text(s string) []byte {
	return fmt.Appendf(nil, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"%s\"}\n\n", s)
}

func (responses) comment() []byte { return []byte(": keep-alive\n\n") }
