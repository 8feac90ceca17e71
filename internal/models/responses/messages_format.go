package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
)

type messagesMaker struct{}

func (messagesMaker) newFormat() format { return &messagesFormat{} }

// messagesFormat writes replies as Anthropic's Messages: content blocks, which follow one
// another in a stream.
type messagesFormat struct {
	blocks int  // blocks that were begun
	begun  bool // the last block is still open
}

func appendMessage(b []byte, r *reply) []byte {
	b = append(b, `{"id":"msg_`...) // its receipt keeps the id of the reply
	b = append(b, strings.TrimPrefix(r.id, "resp_")...)
	b = append(b, `","type":"message","role":"assistant","model":`...)
	b = appendText(b, r.model)
	return append(b, `,"content":[`...)
}

func (f *messagesFormat) object(b []byte, r *reply, o *outcome) []byte {
	b = appendMessage(b, r)
	n := 0
	for _, it := range o.items {
		text := it.text.String() + it.refusal.String()
		switch {
		case it.kind == itemMessage && text == "":
			continue // because the format does not allow empty texts
		case n > 0:
			b = append(b, ',')
		}
		n++
		switch it.kind {
		case itemMessage:
			b = append(b, `{"type":"text","text":`...)
			b = appendText(b, text)
		case itemReasoning:
			b = append(b, `{"type":"thinking","thinking":`...)
			b = appendText(b, text)
			b = append(b, `,"signature":`...)
			b = appendText(b, it.sealed)
		case itemCall:
			b = appendToolUse(b, it)
			b = appendInput(b, text)
		}
		b = append(b, '}')
	}
	b = appendStop(append(b, `],`...), o)
	b = append(b, `,"usage":`...)
	b = appendMessageUsage(b, o.usage)
	return append(b, '}')
}

func appendToolUse(b []byte, it *item) []byte {
	b = append(b, `{"type":"tool_use","id":`...)
	b = appendText(b, it.callID)
	b = append(b, `,"name":`...)
	b = appendText(b, it.name)
	return append(b, `,"input":`...)
}

// appendInput appends the arguments of a call, which are an object in this format.
func appendInput(b []byte, arguments string) []byte {
	if arguments == "" {
		return append(b, `{}`...)
	}
	if v := jsonx.Value(arguments); jsonx.Valid(v) && v.Kind() == '{' {
		return append(b, arguments...)
	}
	b = append(b, `{"unreadable":`...)
	return append(appendText(b, arguments), '}')
}

// argumentsOf returns the arguments that appendInput wrote, so that a call that a limit cut does not
// become a whole one when its stream is replayed.
func argumentsOf(input jsonx.Value) string {
	var was struct {
		Unreadable *string `json:"unreadable"`
	}
	if strings.HasPrefix(string(input), `{"unreadable":`) && jsonx.Unmarshal(input, &was) == nil && was.Unreadable != nil && !json.Valid([]byte(*was.Unreadable)) {
		return *was.Unreadable
	}
	return string(input)
}

func stopReason(o *outcome) string {
	switch {
	case o.reason == "max_output_tokens":
		return "max_tokens"
	case o.reason == "content_filter":
		return "refusal"
	case o.reason != "":
		return o.reason
	case o.called():
		return "tool_use"
	case o.stopped != "":
		return "stop_sequence"
	}
	for _, it := range o.items {
		if it.kind == itemMessage && !it.refusal.empty() {
			return "refusal"
		}
	}
	return "end_turn"
}

func appendStop(b []byte, o *outcome) []byte {
	reason := stopReason(o)
	b = append(b, `"stop_reason":"`...)
	b = append(b, reason...)
	b = append(b, `","stop_sequence":`...)
	if reason == "stop_sequence" {
		return appendText(b, o.stopped)
	}
	return append(b, `null`...)
}

func appendMessageUsage(b []byte, u *stoa.Usage) []byte {
	if u == nil {
		u = &stoa.Usage{}
	}
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, max(u.InputTokens-u.CachedTokens-u.CacheWriteTokens, 0), 10)
	b = append(b, `,"cache_read_input_tokens":`...)
	b = strconv.AppendInt(b, u.CachedTokens, 10)
	b = append(b, `,"cache_creation_input_tokens":`...)
	b = strconv.AppendInt(b, u.CacheWriteTokens, 10)
	if u.CacheWriteTokens > 0 {
		b = append(b, `,"cache_creation":{"ephemeral_5m_input_tokens":`...)
		b = strconv.AppendInt(b, u.CacheWriteTokens-u.CacheWriteLongTokens, 10)
		b = append(b, `,"ephemeral_1h_input_tokens":`...)
		b = strconv.AppendInt(b, u.CacheWriteLongTokens, 10)
		b = append(b, '}')
	}
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, u.OutputTokens, 10)
	if u.ReasoningTokens > 0 {
		b = append(b, `,"output_tokens_details":{"thinking_tokens":`...)
		b = strconv.AppendInt(b, u.ReasoningTokens, 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

func event(b []byte, kind string) []byte {
	b = sse.AppendHead(b, kind)
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	return append(b, '"')
}

func (f *messagesFormat) start(b []byte, r *reply) []byte {
	b = event(b, "message_start")
	b = append(b, `,"message":`...)
	b = appendMessage(b, r)
	b = append(b, `],"stop_reason":null,"stop_sequence":null,"usage":`...)
	b = appendMessageUsage(b, nil) // not an estimate, because clients add it to the counts at the end, or keep it where they are 0
	b = sse.AppendEnd(append(b, `}}`...))
	return sse.AppendEnd(append(event(b, "ping"), '}'))
}

// open begins the block of an item. A text block begins with its first piece, since the
// format does not allow empty ones.
func (f *messagesFormat) open(b []byte, _ *reply, it *item) []byte {
	switch it.kind {
	case itemReasoning:
		b = append(f.begin(b), `{"type":"thinking","thinking":"","signature":""`...)
	case itemCall:
		b = append(appendToolUse(f.begin(b), it), `{}`...)
	default:
		return b
	}
	return sse.AppendEnd(append(b, `}}`...))
}

func (f *messagesFormat) begin(b []byte) []byte {
	f.blocks++
	f.begun = true
	b = f.place(event(b, "content_block_start"))
	return append(b, `,"content_block":`...)
}

func (f *messagesFormat) place(b []byte) []byte {
	b = append(b, `,"index":`...)
	return strconv.AppendInt(b, int64(f.blocks-1), 10)
}

func (f *messagesFormat) piece(b []byte, _ *reply, _ *item, kind pieceKind, text string) []byte {
	name, member := "text_delta", "text"
	switch kind {
	case pieceSummary:
		name, member = "thinking_delta", "thinking"
	case pieceArguments:
		name, member = "input_json_delta", "partial_json"
	default:
		if !f.begun {
			b = sse.AppendEnd(append(f.begin(b), `{"type":"text","text":""}}`...))
		}
	}
	return f.delta(b, name, member, text)
}

func (f *messagesFormat) delta(b []byte, name, member, text string) []byte {
	b = f.place(event(b, "content_block_delta"))
	b = append(b, `,"delta":{"type":"`...)
	b = append(b, name...)
	b = append(b, `","`...)
	b = append(b, member...)
	b = append(b, `":`...)
	b = appendText(b, text)
	return sse.AppendEnd(append(b, `}}`...))
}

func (f *messagesFormat) close(b []byte, _ *reply, it *item) []byte {
	if !f.begun {
		return b
	}
	if it.kind == itemReasoning {
		b = f.delta(b, "signature_delta", "signature", it.sealed)
	}
	f.begun = false
	return sse.AppendEnd(append(f.place(event(b, "content_block_stop")), '}'))
}

func (f *messagesFormat) end(b []byte, _ *reply, o *outcome) []byte {
	b = event(b, "message_delta")
	b = appendStop(append(b, `,"delta":{`...), o)
	b = append(b, `},"usage":`...)
	b = sse.AppendEnd(append(appendMessageUsage(b, o.usage), '}'))
	return sse.AppendEnd(append(event(b, "message_stop"), '}'))
}

func (f *messagesFormat) fail(b []byte, r *reply, o *outcome) []byte {
	e := o.failure
	b = sse.AppendHead(b, "error")
	info := contract.Code(stoa.Code(e.code))
	b = contract.AppendMessagesError(b, &contract.FormatError{Code: e.code, Param: e.param, Message: e.message, Retryable: info.Retryable && !e.charged, RequestID: r.request})
	return sse.AppendEnd(b)
}

func (f *messagesFormat) restore(stored []byte) (*reply, *outcome, error) {
	var was struct {
		ID      string `json:"id"`
		Model   string `json:"model"`
		Content []struct {
			Type      string      `json:"type"`
			Text      string      `json:"text"`
			Thinking  string      `json:"thinking"`
			Signature string      `json:"signature"`
			ID        string      `json:"id"`
			Name      string      `json:"name"`
			Input     jsonx.Value `json:"input"`
		} `json:"content"`
		Reason  string `json:"stop_reason"`
		Stopped string `json:"stop_sequence"`
		Usage   struct {
			Input   int64 `json:"input_tokens"`
			Read    int64 `json:"cache_read_input_tokens"`
			Written int64 `json:"cache_creation_input_tokens"`
			Split   struct {
				Long int64 `json:"ephemeral_1h_input_tokens"`
			} `json:"cache_creation"`
			Output  int64 `json:"output_tokens"`
			Details struct {
				Thinking int64 `json:"thinking_tokens"`
			} `json:"output_tokens_details"`
		} `json:"usage"`
	}
	if err := jsonx.Unmarshal(stored, &was); err != nil {
		return nil, nil, err
	}
	u := was.Usage
	o := &outcome{status: statusCompleted, stopped: was.Stopped, usage: &stoa.Usage{
		InputTokens: u.Input + u.Read + u.Written, CachedTokens: u.Read, CacheWriteTokens: u.Written, CacheWriteLongTokens: u.Split.Long, OutputTokens: u.Output, ReasoningTokens: u.Details.Thinking,
	}}
	switch was.Reason {
	case "max_tokens":
		o.status, o.reason = statusIncomplete, "max_output_tokens"
	case "refusal":
		o.status, o.reason = statusIncomplete, "content_filter"
	case "calls_dropped":
		o.status, o.reason = statusIncomplete, "calls_dropped"
	}
	for _, block := range was.Content {
		it := &item{index: len(o.items)}
		switch block.Type {
		case "text":
			it.kind, it.status = itemMessage, statusCompleted
			it.add(pieceText, block.Text)
		case "thinking":
			it.kind, it.sealed = itemReasoning, block.Signature
			if block.Thinking != "" {
				it.add(pieceSummary, block.Thinking)
			}
		case "tool_use":
			it.kind, it.status, it.callID, it.name = itemCall, statusCompleted, block.ID, block.Name
			it.add(pieceArguments, argumentsOf(block.Input))
		}
		o.items = append(o.items, it)
	}
	r := &reply{id: "resp_" + strings.TrimPrefix(was.ID, "msg_"), model: was.Model}
	return r, o, nil
}
