package fakeup

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// gemini is Google's generateContent format.
type gemini struct{}

var _ format = gemini{}

func (gemini) name() string { return "gemini" }

func (gemini) match(path string) bool { return strings.HasPrefix(path, "/v1beta/models/") }

func (gemini) read(r *http.Request, body object, key string) (a ask, no *refusal) {
	switch got := r.Header.Get("X-Goog-Api-Key"); {
	case got == "":
		return a, &refusal{status: 403, kind: "PERMISSION_DENIED", text: "Method doesn't allow unregistered callers."}
	case got != key:
		return a, &refusal{status: 400, kind: "API_KEY_INVALID", text: "API key not valid. Please pass a valid API key."}
	}
	model, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	a.model = model
	a.geminiBlocks(body)
	switch {
	case method == "streamGenerateContent" && r.URL.Query().Get("alt") == "sse":
		a.stream = true
	case method != "generateContent":
		return a, &refusal{status: 404, kind: "NOT_FOUND", text: "the stream is only to be had with alt=sse"}
	}
	for k := range body {
		if !slices.Contains([]string{"contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "safetySettings"}, k) {
			return a, invalid("Invalid JSON payload received. Unknown name %q: Cannot find field.", k)
		}
	}
	if s, ok := body["systemInstruction"].(object); ok {
		if parts, _ := s["parts"].([]any); len(parts) == 0 {
			return a, invalid("* GenerateContentRequest.system_instruction.parts: contents is not specified")
		}
	}
	if config, ok := body["generationConfig"].(object); ok {
		if no := geminiConfig(model, config, &a); no != nil {
			return a, no
		}
	}
	if tools, _ := body["tools"].([]any); len(tools) > 0 {
		o, _ := tools[0].(object)
		declared, _ := o["functionDeclarations"].([]any)
		if a.tools = len(declared) > 0; !a.tools {
			return a, invalid("tools[0].tool_type: required one_of 'tool_type' must have one initialized field")
		}
		if no := geminiTools(declared); no != nil {
			return a, no
		}
	}
	if config, ok := body["toolConfig"].(object); ok {
		c, _ := config["functionCallingConfig"].(object)
		a.none = c["mode"] == "NONE"
		switch {
		case !slices.Contains([]any{"AUTO", "ANY", "NONE", "VALIDATED"}, c["mode"]):
			return a, invalid("Invalid value at 'tool_config.function_calling_config.mode' (%v)", c["mode"])
		case c["allowedFunctionNames"] != nil && c["mode"] != "ANY" && c["mode"] != "VALIDATED":
			return a, invalid("Function calling config `allowed_function_names` should only be set when `mode` is ANY or VALIDATED.")
		case !a.tools:
			return a, invalid("Function calling config is set without function_declarations.")
		}
	}
	no = a.geminiContents(body)
	return a, no
}

// geminiContents reads the turns.
func (a *ask) geminiContents(body object) *refusal {
	contents, _ := body["contents"].([]any)
	if len(contents) == 0 {
		return invalid("* GenerateContentRequest.contents: contents is not specified")
	}
	calls := 0
	var names []any // of the calls
	for i, c := range contents {
		o, _ := c.(object)
		role, _ := o["role"].(string)
		if role != "user" && role != "model" {
			return invalid("Please use a valid role: user, model.")
		}
		parts, _ := o["parts"].([]any)
		if len(parts) == 0 {
			return invalid("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
		}
		var text string
		made, answered := 0, 0
		for j, part := range parts {
			p, _ := part.(object)
			s, isText := p["text"].(string)
			_, isCall := p["functionCall"].(object)
			response, isResponse := p["functionResponse"].(object)
			switch {
			case isText && s == "" && p["thoughtSignature"] == nil:
				return invalid("* GenerateContentRequest.contents[%d].parts[%d].data: required oneof field 'data' must have one initialized field", i, j)
			case isText:
				if p["thought"] != true {
					text += s
				}
			case isCall && role == "model":
				if made == 0 && p["thoughtSignature"] != geminiSignature && p["thoughtSignature"] != geminiSentinel {
					return invalid("Function call is missing a thought_signature in functionCall parts.")
				}
				call, _ := p["functionCall"].(object)
				names = append(names, call["name"])
				made++
			case role == "user" && (p["inlineData"] != nil || p["fileData"] != nil):
			case isResponse && role == "user":
				if _, ok := response["response"].(object); !ok {
					return invalid("* GenerateContentRequest.contents[%d].parts[%d].function_response.response: must be an object", i, j)
				}
				if answered < len(names) && names[answered] != response["name"] {
					return invalid("Please ensure that function response turn comes immediately after a function call turn, in its order: %v is not %v.", response["name"], names[answered])
				}
				answered++
			default:
				return invalid("* GenerateContentRequest.contents[%d].parts[%d].data: required oneof field 'data' must have one initialized field", i, j)
			}
		}
		if answered != calls && (answered > 0 || role == "user" && calls > 0) {
			return invalid("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		calls = made
		if role == "user" {
			names = nil
			if a.results = answered > 0; a.results {
				a.rounds++
			}
			text = stoa.WithoutNotes(text)
			if text != "" {
				a.prompt, a.rounds = text, 0
			}
		}
	}
	return nil
}

// geminiConfig reads generationConfig.
func geminiConfig(model string, config object, a *ask) *refusal {
	for k, v := range config {
		n, isNumber := v.(float64)
		switch k {
		case "maxOutputTokens":
			if !isNumber || n < 1 || n > 65_536 {
				return invalid("Unable to submit request because it has a maxOutputTokens value of %v but the supported range is from 1 (inclusive) to 65537 (exclusive).", v)
			}
			a.maxTokens = int64(n)
		case "temperature":
			if !isNumber || n < 0 || n > 2 {
				return invalid("* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0].")
			}
		case "topP":
			if !isNumber || n < 0 || n > 1 {
				return invalid("* GenerateContentRequest.generation_config.top_p: top_p must be in the range [0.0, 1.0].")
			}
		case "thinkingConfig":
			t, _ := v.(object)
			a.thoughts, _ = t["includeThoughts"].(bool)
			level, has := t["thinkingLevel"]
			if has && t["thinkingBudget"] != nil {
				return invalid("You can only set one of thinking budget and thinking level.")
			}
			if has && !slices.Contains([]any{"MINIMAL", "LOW", "MEDIUM", "HIGH"}, level) {
				return invalid("Invalid value at 'generation_config.thinking_config.thinking_level' (%v)", level)
			}
			if level == "MINIMAL" && (strings.Contains(model, "3.1-pro") || strings.Contains(model, "3.7-flash")) {
				return invalid("Thinking level MINIMAL is not supported for this model.")
			}
		case "responseMimeType":
			if v != "application/json" && v != "text/plain" {
				return invalid("* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are `text/plain`, `application/json`.")
			}
		case "responseJsonSchema":
			if what := geminiJSON.misfit(v, "schema"); config["responseMimeType"] != "application/json" || what != "" {
				return invalid("* GenerateContentRequest.generation_config.response_json_schema: %s", what)
			}
		case "mediaResolution", "stopSequences", "topK":
		default:
			return invalid("Invalid JSON payload received. Unknown name %q at 'generation_config': Cannot find field.", k)
		}
	}
	return nil
}

func invalid(format string, args ...any) *refusal {
	return &refusal{status: 400, kind: "INVALID_ARGUMENT", text: fmt.Sprintf(format, args...)}
}

// geminiTools checks declarations of functions.
func geminiTools(declared []any) *refusal {
	for i, d := range declared {
		o, _ := d.(object)
		if o["parameters"] != nil && o["parametersJsonSchema"] != nil {
			return invalid("* GenerateContentRequest.tools[0].function_declarations[%d]: parameters and parameters_json_schema must not both be set.", i)
		}
		if what := geminiSchema.misfit(o["parameters"], "parameters"); what != "" {
			return invalid("Invalid JSON payload received. Unknown name at 'tools[0].function_declarations[%d]': %s", i, what)
		}
		if what := geminiJSON.misfit(o["parametersJsonSchema"], "parameters"); what != "" {
			return invalid("Invalid JSON payload received. Unknown name at 'tools[0].function_declarations[%d]': %s", i, what)
		}
		if name, _ := o["name"].(string); !functionName.MatchString(name) {
			return invalid("* GenerateContentRequest.tools[0].function_declarations[%d].name: Invalid function name.", i)
		}
	}
	return nil
}

var functionName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

// geminiSentinel replaces a lost signature.
const geminiSentinel = "skip_thought_signature_validator"

const geminiSignature = "CiQBjz1rX2Zha2U="

func (gemini) header(h http.Header, p plan) { h.Set("Server-Timing", "gfet4t7; dur=1") }

func (gemini) chunk(p plan, parts []any, finish string, usage *Usage) object {
	candidate := object{"index": 0}
	if parts != nil {
		candidate["content"] = object{"role": "model", "parts": parts}
	}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	c := object{"candidates": []any{candidate}, "modelVersion": p.model, "responseId": p.id}
	if usage != nil && !p.noUsage {
		u := object{"promptTokenCount": usage.Input, "totalTokenCount": usage.Input + usage.Output, "promptTokensDetails": []any{object{"modality": "TEXT", "tokenCount": usage.Input}}}
		if out := usage.Output - usage.Reasoning; out != 0 {
			u["candidatesTokenCount"] = out
		}
		if usage.Reasoning != 0 {
			u["thoughtsTokenCount"] = usage.Reasoning
		}
		if usage.Cached != 0 {
			u["cachedContentTokenCount"] = usage.Cached
		}
		c["usageMetadata"] = u
	}
	return c
}

func (gemini) finish(p plan) string {
	if p.finish != "" && (p.stop == "end" || p.stop == "tool_calls") {
		return p.finish
	}
	return map[string]string{"end": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "tool_calls": "STOP"}[p.stop]
}

func (f gemini) calls(p plan) []any {
	var parts []any
	for i, c := range p.calls {
		if p.cut && i == len(p.calls)-1 {
			break // calls arrive complete
		}
		part := object{"functionCall": object{"id": c.id, "name": c.name, "args": raw(c.arguments)}}
		if p.turn%2 == 1 { // not of all models
			delete(part["functionCall"].(object), "id")
		}
		if i == 0 {
			part["thoughtSignature"] = geminiSignature
		}
		parts = append(parts, part)
	}
	return parts
}

func (f gemini) frames(p plan) []frame {
	var out []frame
	add := func(c object, fr frame) {
		fr.bytes = fmt.Appendf(nil, "data: %s\r\n\r\n", geminiOrder.encode(c))
		out = append(out, fr)
	}
	early := Usage{Input: p.usage.Input, Cached: p.usage.Cached, Output: min(p.usage.Output, p.usage.Reasoning), Reasoning: p.usage.Reasoning}
	if p.thoughts {
		for _, t := range p.thinking {
			add(f.chunk(p, []any{object{"text": t, "thought": true}}, "", &early), frame{})
		}
	}
	for _, t := range p.pieces {
		early.Output = min(early.Output+1, p.usage.Output)
		add(f.chunk(p, []any{object{"text": t}}, "", &early), frame{delta: true})
	}
	last := object{"text": "", "thoughtSignature": geminiSignature}
	if calls := f.calls(p); calls != nil {
		add(f.chunk(p, calls, "", &p.usage), frame{})
		delete(last, "thoughtSignature")
	}
	add(f.chunk(p, []any{last}, f.finish(p), &p.usage), frame{end: true})
	return out
}

func (f gemini) whole(p plan) []byte {
	var parts []any
	if len(p.pieces) > 0 {
		parts = append(parts, object{"text": strings.Join(p.pieces, ""), "thoughtSignature": geminiSignature})
	}
	return geminiOrder.encode(f.chunk(p, append(parts, f.calls(p)...), f.finish(p), &p.usage))
}

func (gemini) failure(status int, no *refusal, id string) []byte {
	kind := no.kind
	var details []any
	if kind == "API_KEY_INVALID" {
		details = []any{object{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": kind, "domain": "googleapis.com"}}
		kind = "INVALID_ARGUMENT"
	}
	if no.retryAfter != "" {
		details = append(details, object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": no.retryAfter + "s"})
	}
	if kind == "" {
		if status == 529 {
			status = 503
		}
		kind = map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}[status]
	}
	if kind == "" {
		kind = "UNKNOWN"
	}
	e := object{"code": status, "message": no.text, "status": kind}
	if details != nil {
		e["details"] = details
	}
	return geminiOrder.encode(object{"error": e})
}

func (f gemini) failureEvent(status int, p plan) []byte {
	return fmt.Appendf(nil, "data: %s\r\n\r\n", f.failure(status, &refusal{text: "The model is overloaded. Please try again later."}, p.id))
}

func (gemini) malformed() []byte {
	return []byte("data: {\"candidates\": [{\"content\": {\"parts\": [{\"te\r\n\r\n")
}

func (gemini) text(s string) []byte {
	return fmt.Appendf(nil, "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"%s\"}]},\"index\":0}]}\r\n\r\n", s)
}

func (gemini) comment() []byte { return []byte(": keep-alive\r\n\r\n") }
