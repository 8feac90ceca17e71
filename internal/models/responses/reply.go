package responses

import (
	"cmp"
	"slices"
	"strconv"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A responsesFormat is the format of POST /responses: response objects and numbered events.
// Each reply has its own.
type responsesFormat struct {
	echo   *echo
	echoed []byte    // the members that do not change during a call; nil until first used
	seq    int64     // of the next event
	part   pieceKind // announced part of the open message; 0 if none
	text   []byte    // bytes between the number and the text of each text delta of the part
}

func (e *echo) newFormat() format { return &responsesFormat{echo: e} }

const usualEcho = 640 // bytes of the echoed members, usually

// object appends the response object. Every member is always present.
func (f *responsesFormat) object(b []byte, r *reply, o *outcome) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, r.id...)
	b = append(b, `","object":"response","created_at":`...)
	b = strconv.AppendInt(b, r.created, 10)
	b = append(b, `,"completed_at":`...)
	b = appendIntOrNull(b, o.completedAt, o.completedAt != 0)
	b = append(b, `,"status":"`...)
	b = append(b, o.status...)
	b = append(b, `","error":`...)
	if o.failure == nil {
		b = append(b, `null`...)
	} else {
		b = append(b, `{"code":`...)
		b = appendText(b, o.failure.code)
		b = append(b, `,"message":`...)
		b = appendText(b, o.failure.message)
		b = append(b, '}')
	}
	b = append(b, `,"incomplete_details":`...)
	if o.reason == "" {
		b = append(b, `null`...)
	} else {
		b = append(b, `{"reason":"`...)
		b = append(b, o.reason...)
		b = append(b, `"}`...)
	}
	b = append(b, `,"model":`...)
	b = appendText(b, r.model)
	b = append(b, `,"output":[`...)
	for i, it := range o.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, it)
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, o.usage)
	if f.echoed == nil {
		f.echoed = appendEcho(make([]byte, 0, usualEcho), f.echo, &r.enforced)
	}
	b = append(b, f.echoed...)
	if r.session != "" {
		b = appendText(append(b, `,"conversation":{"id":`...), r.session)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendItem(b []byte, it *item) []byte {
	b = appendItemHead(b, it, it.status)
	switch it.kind {
	case itemReasoning:
		if !it.text.empty() {
			b = appendPart(b, pieceSummary, it.text.String())
		}
		b = append(b, ']')
		if it.sealed != "" {
			b = append(b, `,"encrypted_content":`...)
			b = appendText(b, it.sealed)
		}
	case itemCall:
		if it.members == "" {
			b = appendText(b, it.text.String())
		}
	case itemCompaction:
		b = appendText(b, it.sealed)
	default:
		if it.has(pieceText) {
			b = appendPart(b, pieceText, it.text.String())
		}
		if it.has(pieceRefusal) {
			if it.has(pieceText) {
				b = append(b, ',')
			}
			b = appendPart(b, pieceRefusal, it.refusal.String())
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendItemHead appends an item with the given status up to the part that is unknown when it
// is opened: its open content array, its open summary, its arguments or its input. Reasoning has no
// status.
func appendItemHead(b []byte, it *item, status string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, it.id...)
	if it.members != "" { // of a call, all of them
		b = append(append(b, `","type":"`...), it.vendors...)
		b = append(append(b, `","status":"`...), status...)
		b = appendText(append(b, `","call_id":`...), it.callID)
		return append(append(b, ','), it.members[1:len(it.members)-1]...)
	}
	switch it.kind {
	case itemReasoning:
		return append(b, `","type":"reasoning","summary":[`...)
	case itemCompaction:
		return append(b, `","type":"compaction","encrypted_content":`...)
	case itemCall:
		kind, text := "function_call", `,"arguments":`
		if it.custom {
			kind, text = "custom_tool_call", `,"input":`
		}
		b = append(b, `","type":"`...)
		b = append(b, kind...)
		b = append(b, `","status":"`...)
		b = append(b, status...)
		b = append(b, `","call_id":`...)
		b = appendText(b, it.callID)
		if it.namespace != "" {
			b = append(b, `,"namespace":`...)
			b = appendText(b, it.namespace)
		}
		b = append(b, `,"name":`...)
		b = appendText(b, it.name)
		return append(b, text...)
	}
	b = append(b, `","type":"message","status":"`...)
	b = append(b, status...)
	b = append(b, `","role":"assistant",`...)
	if it.phase != "" {
		b = append(b, `"phase":`...)
		b = appendText(b, it.phase)
		b = append(b, ',')
	}
	return append(b, `"content":[`...)
}

func appendPart(b []byte, kind pieceKind, text string) []byte {
	switch kind {
	case pieceRefusal:
		b = append(b, `{"type":"refusal","refusal":`...)
		return append(appendText(b, text), '}')
	case pieceSummary:
		b = append(b, `{"type":"summary_text","text":`...)
		return append(appendText(b, text), '}')
	}
	b = append(b, `{"type":"output_text","text":`...)
	b = appendText(b, text)
	return append(b, `,"annotations":[],"logprobs":[]}`...)
}

func appendUsage(b []byte, u *stoa.Usage) []byte {
	if u == nil {
		return append(b, `null`...)
	}
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, u.InputTokens, 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, u.CachedTokens, 10)
	b = append(b, `,"cache_write_tokens":`...)
	b = strconv.AppendInt(b, u.CacheWriteTokens, 10)
	b = append(b, `},"output_tokens":`...)
	b = strconv.AppendInt(b, u.OutputTokens, 10)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, u.ReasoningTokens, 10)
	b = append(b, `},"total_tokens":`...)
	b = strconv.AppendInt(b, u.Total(), 10)
	return append(b, '}')
}

// echoBegins marks the start of the members that repeat the request. It is unique, because quotes
// in texts of a reply are escaped.
const echoBegins = `,"background":false,"instructions":`

func appendEcho(b []byte, e *echo, in *enforced) []byte {
	if e.background {
		b = append(b, `,"background":true,"instructions":`...)
	} else {
		b = append(b, echoBegins...)
	}
	b = appendTextOrNull(b, e.instructions)
	b = append(b, `,"max_output_tokens":`...)
	b = appendIntOrNull(b, e.maxOutputTokens, e.maxOutputTokens > 0)
	b = append(b, `,"max_tool_calls":`...)
	b = appendIntOrNull(b, e.maxToolCalls, e.maxToolCalls >= 0)
	b = append(b, `,"parallel_tool_calls":`...)
	b = strconv.AppendBool(b, !e.noParallel)
	b = append(b, `,"previous_response_id":null,"prompt_cache_key":`...)
	b = appendTextOrNull(b, e.promptCacheKey)
	b = append(b, `,"safety_identifier":`...)
	b = appendTextOrNull(b, e.safetyIdentifier)
	b = append(b, `,"user":`...)
	b = appendTextOrNull(b, e.user)
	b = append(b, `,"reasoning":{"effort":`...)
	if e.effort == "" {
		b = append(b, `null`...)
	} else {
		b = appendText(b, e.effort)
	}
	b = append(b, `,"summary":`...)
	if e.summary == "" {
		b = append(b, `null`...)
	} else {
		b = appendText(b, e.summary)
	}
	b = append(b, `},"service_tier":"default","store":false,"temperature":`...)
	b = appendNumber(b, e.temperature, 1)
	b = append(b, `,"top_p":`...)
	b = appendNumber(b, e.topP, 1)
	b = append(b, `,"presence_penalty":`...)
	b = appendNumber(b, &e.presence, 0)
	b = append(b, `,"frequency_penalty":`...)
	b = appendNumber(b, &e.frequency, 0)
	b = append(b, `,"text":{"format":`...)
	if e.format == "" {
		b = append(b, `{"type":"text"}`...)
	} else {
		b = append(b, e.format...)
	}
	if e.verbosity != "" {
		b = append(b, `,"verbosity":`...)
		b = appendText(b, e.verbosity)
	}
	b = append(b, `},"tool_choice":`...)
	if e.toolChoice == "" || in.anyChoice {
		b = append(b, `"auto"`...)
	} else {
		b = append(b, e.toolChoice...)
	}
	b = append(b, `,"tools":[`...)
	b = appendTools(b, e.tools, in)
	b = append(b, `],"top_logprobs":0,"truncation":"`...)
	if e.truncation == "auto" {
		b = append(b, `auto`...)
	} else {
		b = append(b, `disabled`...)
	}
	b = append(b, `","metadata":`...)
	if e.metadata == nil {
		return append(b, `{}`...)
	}
	return append(b, e.metadata...)
}

func appendTools(b []byte, tools []echoTool, in *enforced) []byte {
	for i := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTool(b, &tools[i], in)
	}
	return b
}

func appendTool(b []byte, t *echoTool, in *enforced) []byte {
	if t.native != "" {
		return append(b, t.native...)
	}
	b = append(b, `{"type":"`...)
	b = append(b, cmp.Or(t.kind, "function")...)
	b = append(b, `","name":`...)
	b = appendText(b, t.name)
	b = append(b, `,"description":`...)
	b = appendTextOrNull(b, t.description)
	switch t.kind {
	case "namespace":
		b = append(b, `,"tools":[`...)
		return append(appendTools(b, t.tools, in), `]}`...)
	case "custom":
		b = append(b, `,"format":`...)
		return append(append(b, t.parameters...), '}')
	}
	b = append(b, `,"parameters":`...)
	if t.parameters == "" {
		b = append(b, `null`...)
	} else {
		b = append(b, t.parameters...)
	}
	b = append(b, `,"strict":`...)
	b = strconv.AppendBool(b, slices.Contains(in.strict, t.flat))
	return append(b, '}')
}

func appendText(b []byte, s string) []byte { return jsonx.AppendString(b, s) }

func appendTextOrNull(b []byte, s *string) []byte {
	if s == nil {
		return append(b, `null`...)
	}
	return appendText(b, *s)
}

func appendIntOrNull(b []byte, n int64, ok bool) []byte {
	if !ok {
		return append(b, `null`...)
	}
	return strconv.AppendInt(b, n, 10)
}

func appendNumber(b []byte, f *float64, otherwise float64) []byte {
	if f == nil {
		f = &otherwise
	}
	return strconv.AppendFloat(b, *f, 'f', -1, 64)
}
