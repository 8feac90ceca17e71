package responses

import (
	"strconv"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// A reply builds the response object of one call, for the whole JSON reply and
// for the snapshots in a stream, so that the two agree.
type reply struct {
	id      string // resp_…
	item    string // msg_…
	model   string // the identifier that serves; set before the first object
	created int64  // Unix seconds
	echoed  []byte // the members that never change during a call
}

// usualEcho is how many bytes the echoed members take unless the caller sent a long
// one.
const usualEcho = 640

func newReply(id string, created int64, e *echo) *reply {
	return &reply{id: id, item: stoa.NewID("msg"), created: created, echoed: appendEcho(make([]byte, 0, usualEcho), e)}
}

// An outcome is what differs between the snapshots of one response.
type outcome struct {
	status      string // in_progress, completed, incomplete, failed
	completedAt int64  // Unix seconds; 0: null
	reason      string // of incomplete
	failure     *streamError
	text        string
	hasOutput   bool // the message item is present
	usage       *stoa.Usage
}

// itemStatus is the status that the message item has in a final response.
func (o *outcome) itemStatus() string {
	if o.status == "completed" {
		return "completed"
	}
	return "incomplete"
}

// appendObject appends the response object. Every member is always present.
func (r *reply) appendObject(b []byte, o *outcome) []byte {
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
	if o.hasOutput {
		b = r.appendItem(b, o.itemStatus(), o.text)
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, o.usage)
	b = append(b, r.echoed...)
	return append(b, '}')
}

// appendItem appends the message item with its one text part.
func (r *reply) appendItem(b []byte, status, text string) []byte {
	b = r.appendItemHead(b, status)
	b = appendPart(b, text)
	return append(b, `]}`...)
}

// appendItemHead appends the item up to its open content array.
func (r *reply) appendItemHead(b []byte, status string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, r.item...)
	b = append(b, `","type":"message","status":"`...)
	b = append(b, status...)
	return append(b, `","role":"assistant","content":[`...)
}

func appendPart(b []byte, text string) []byte {
	b = append(b, `{"type":"output_text","text":`...)
	b = appendText(b, text)
	return append(b, `,"annotations":[],"logprobs":[]}`...)
}

// appendUsage appends the usage object; null where there is none.
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

// appendEcho appends the members that repeat the request or never vary, each
// with a comma before it.
func appendEcho(b []byte, e *echo) []byte {
	b = append(b, `,"background":false,"instructions":`...)
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
	b = append(b, `,"summary":null},"service_tier":"default","store":false,"temperature":`...)
	b = appendNumber(b, e.temperature, 1)
	b = append(b, `,"top_p":`...)
	b = appendNumber(b, e.topP, 1)
	b = append(b, `,"presence_penalty":`...)
	b = appendNumber(b, &e.presence, 0)
	b = append(b, `,"frequency_penalty":`...)
	b = appendNumber(b, &e.frequency, 0)
	b = append(b, `,"text":{"format":{"type":"text"}`...)
	if e.verbosity != "" {
		b = append(b, `,"verbosity":`...)
		b = appendText(b, e.verbosity)
	}
	b = append(b, `},"tool_choice":"`...)
	if e.toolChoice == "none" {
		b = append(b, `none`...)
	} else {
		b = append(b, `auto`...)
	}
	b = append(b, `","tools":[],"top_logprobs":0,"truncation":"`...)
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
