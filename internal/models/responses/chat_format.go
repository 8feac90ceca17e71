package responses

import (
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
)

// A chatMaker makes the format of a chat completion.
type chatMaker struct{ usage bool } // a stream ends with a chunk that contains the usage

func (m *chatMaker) newFormat() format { return &chatFormat{usage: m.usage} }

// chatFormat writes replies as OpenAI's chat completions: one choice, and in a stream
// a chunk for each piece.
type chatFormat struct {
	usage   bool     // see [chatMaker]
	calls   int      // calls that were opened
	sealed  []string // reasoning that waits for its call
	details int      // reasoning details that were sent
}

func (f *chatFormat) object(b []byte, r *reply, o *outcome) []byte {
	b = f.head(b, r, "chat.completion")
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	var refusal joined
	calls, texts := 0, 0
	for _, it := range o.items {
		switch it.kind {
		case itemCall:
			calls++
		case itemMessage:
			texts++
			if !it.refusal.empty() {
				refusal.add(it.refusal.String())
			}
		}
	}
	if text := o.text(); text != "" || texts > 0 && refusal.empty() {
		b = appendText(b, text)
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"refusal":`...)
	if refusal.empty() {
		b = append(b, `null`...)
	} else {
		b = appendText(b, refusal.String())
	}
	b = f.appendCalls(b, o, calls)
	b = append(b, `},"logprobs":null,"finish_reason":"`...)
	b = append(b, finishReason(o)...)
	b = append(b, `"}],"usage":`...)
	b = appendChatUsage(b, o.usage)
	return append(b, `,"service_tier":"default"}`...)
}

func (f *chatFormat) appendCalls(b []byte, o *outcome, calls int) []byte {
	var details []byte
	count := 0
	var sealed []string
	flush := func(call string) {
		for _, s := range sealed {
			if count > 0 {
				details = append(details, ',')
			}
			details = appendDetail(details, s, call, count)
			count++
		}
	}
	if calls > 0 {
		b = append(b, `,"tool_calls":[`...)
	}
	n := 0
	for _, it := range o.items {
		switch {
		case it.kind == itemReasoning && it.sealed != "":
			sealed = append(sealed, it.sealed)
		case it.kind == itemCall:
			if n++; n > 1 {
				b = append(b, ',')
			}
			b = append(b, `{"id":`...)
			b = appendText(b, it.callID)
			b = appendCalled(b, it, it.text.String())
			b = appendExtra(b, sealed)
			b = append(b, '}')
			flush(it.callID)
			sealed = nil
		}
	}
	if calls > 0 {
		b = append(b, ']')
	}
	flush("")
	if count > 0 {
		b = append(b, `,"reasoning_details":[`...)
		b = append(b, details...)
		b = append(b, ']')
	}
	return b
}

func appendCalled(b []byte, it *item, text string) []byte {
	if it.custom {
		b = append(b, `,"type":"custom","custom":{"name":`...)
		b = append(appendText(b, it.name), `,"input":`...)
	} else {
		b = append(b, `,"type":"function","function":{"name":`...)
		b = append(appendText(b, it.name), `,"arguments":`...)
	}
	return append(appendText(b, text), '}')
}

// appendDetail appends sealed reasoning; call is the id of the call that follows it, or
// empty.
func appendDetail(b []byte, sealed, call string, index int) []byte {
	b = append(b, `{"type":"reasoning.encrypted","format":"stoa","data":`...)
	b = appendText(b, sealed)
	if call != "" {
		b = append(b, `,"id":`...)
		b = appendText(b, call)
	}
	b = append(b, `,"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	return append(b, '}')
}

// appendExtra appends the member of a call that repeats the reasoning before it, because some
// clients keep no other member.
func appendExtra(b []byte, sealed []string) []byte {
	if len(sealed) == 0 {
		return b
	}
	b = append(b, `,"extra_content":{"google":{"thought_signature":`...)
	b = appendText(b, strings.Join(sealed, " "))
	return append(b, `}}`...)
}

// finishReason returns the reason for the end of the reply. It must be tool_calls after calls, because
// clients run tools only then.
func finishReason(o *outcome) string {
	switch {
	case o.reason == "max_output_tokens":
		return "length"
	case o.reason != "": // the provider withheld a part; not in its words, because libraries fail at one that they do not know
		return "content_filter"
	case o.called():
		return "tool_calls"
	}
	return "stop"
}

func appendChatUsage(b []byte, u *stoa.Usage) []byte {
	if u == nil {
		u = &stoa.Usage{}
	}
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, u.InputTokens, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, u.OutputTokens, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, u.Total(), 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, u.CachedTokens, 10)
	if u.CacheWriteTokens > 0 {
		b = append(b, `,"cache_write_tokens":`...)
		b = strconv.AppendInt(b, u.CacheWriteTokens, 10)
	}
	b = append(b, `},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, u.ReasoningTokens, 10)
	return append(b, `}}`...)
}

func (f *chatFormat) head(b []byte, r *reply, object string) []byte {
	b = append(b, `{"id":"chatcmpl_`...) // its receipt keeps the id of the reply
	b = append(b, strings.TrimPrefix(r.id, "resp_")...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, r.created, 10)
	b = append(b, `,"model":`...)
	return appendText(b, r.model)
}

// chunk appends a chunk up to its delta, which is left open.
func (f *chatFormat) chunk(b []byte, r *reply) []byte {
	b = f.head(sse.AppendHead(b, ""), r, "chat.completion.chunk")
	return append(b, `,"choices":[{"index":0,"delta":{`...)
}

// last ends the chunk that chunk began. reason is set only in the last chunk.
func (f *chatFormat) last(b []byte, reason string) []byte {
	b = append(b, `},"logprobs":null,"finish_reason":`...)
	if reason == "" {
		b = append(b, `null`...)
	} else {
		b = appendText(b, reason)
	}
	return sse.AppendEnd(append(b, `}]}`...))
}

func (f *chatFormat) start(b []byte, r *reply) []byte {
	b = f.chunk(b, r)
	b = append(b, `"role":"assistant","content":""`...)
	return f.last(b, "")
}

func (f *chatFormat) open(b []byte, r *reply, it *item) []byte {
	if it.kind != itemCall {
		return b
	}
	sealed := f.sealed
	b = f.reasoned(b, r, it.callID)
	b = f.chunk(b, r)
	b = append(b, `"tool_calls":[{"index":`...)
	b = strconv.AppendInt(b, int64(f.calls), 10)
	f.calls++
	b = append(b, `,"id":`...)
	b = appendText(b, it.callID)
	b = appendCalled(b, it, "")
	b = appendExtra(b, sealed)
	b = append(b, `}]`...)
	return f.last(b, "")
}

func (f *chatFormat) reasoned(b []byte, r *reply, call string) []byte {
	if len(f.sealed) == 0 {
		return b
	}
	b = f.chunk(b, r)
	b = append(b, `"reasoning_details":[`...)
	for i, s := range f.sealed {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDetail(b, s, call, f.details)
		f.details++
	}
	b = append(b, ']')
	f.sealed = nil
	return f.last(b, "")
}

func (f *chatFormat) piece(b []byte, r *reply, it *item, kind pieceKind, text string) []byte {
	switch kind {
	case pieceText:
		b = f.chunk(b, r)
		b = append(b, `"content":`...)
		b = appendText(b, text)
	case pieceRefusal:
		b = f.chunk(b, r)
		b = append(b, `"refusal":`...)
		b = appendText(b, text)
	case pieceArguments:
		b = f.chunk(b, r)
		b = append(b, `"tool_calls":[{"index":`...)
		b = strconv.AppendInt(b, int64(f.calls-1), 10)
		if it.custom {
			b = append(b, `,"custom":{"input":`...)
		} else {
			b = append(b, `,"function":{"arguments":`...)
		}
		b = appendText(b, text)
		b = append(b, `}}]`...)
	default: // the format has no summaries
		return b
	}
	return f.last(b, "")
}

func (f *chatFormat) close(b []byte, _ *reply, it *item) []byte {
	if it.kind == itemReasoning && it.sealed != "" {
		f.sealed = append(f.sealed, it.sealed)
	}
	return b
}

func (f *chatFormat) end(b []byte, r *reply, o *outcome) []byte {
	b = f.reasoned(b, r, "")
	b = f.last(f.chunk(b, r), finishReason(o))
	if f.usage {
		b = f.head(sse.AppendHead(b, ""), r, "chat.completion.chunk")
		b = append(b, `,"choices":[],"usage":`...)
		b = sse.AppendEnd(append(appendChatUsage(b, o.usage), '}'))
	}
	return sse.AppendEvent(b, "", "[DONE]")
}

// fail appends the error, which clients of the format raise. [DONE] does not follow, because
// some clients would treat the reply as complete.
func (f *chatFormat) fail(b []byte, _ *reply, o *outcome) []byte {
	e := o.failure
	b = append(sse.AppendHead(b, ""), `{"error":{"message":`...)
	b = appendText(b, e.message)
	b = append(b, `,"type":`...)
	b = appendText(b, e.kind)
	b = append(b, `,"param":`...)
	if e.param == "" {
		b = append(b, `null`...)
	} else {
		b = appendText(b, e.param)
	}
	b = append(b, `,"code":`...)
	b = appendText(b, e.code)
	return sse.AppendEnd(append(b, `}}`...))
}

func (f *chatFormat) restore(stored []byte) (*reply, *outcome, error) {
	var was struct {
		ID      string `json:"id"`
		Created int64  `json:"created"`
		Model   string `json:"model"`
		Choices [1]struct {
			Message struct {
				Content *string `json:"content"`
				Refusal *string `json:"refusal"`
				Calls   []struct {
					ID       string `json:"id"`
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
					Type   string `json:"type"`
					Custom struct {
						Name  string `json:"name"`
						Input string `json:"input"`
					} `json:"custom"`
				} `json:"tool_calls"`
				Details []struct {
					Data string `json:"data"`
					ID   string `json:"id"`
				} `json:"reasoning_details"`
			} `json:"message"`
			Reason string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Input   int64 `json:"prompt_tokens"`
			Output  int64 `json:"completion_tokens"`
			Details struct {
				Cached  int64 `json:"cached_tokens"`
				Written int64 `json:"cache_write_tokens"`
			} `json:"prompt_tokens_details"`
			OutputDetails struct {
				Reasoning int64 `json:"reasoning_tokens"`
			} `json:"completion_tokens_details"`
		} `json:"usage"`
	}
	if err := jsonx.Unmarshal(stored, &was); err != nil {
		return nil, nil, err
	}
	o := &outcome{status: statusCompleted, usage: &stoa.Usage{
		InputTokens: was.Usage.Input, CachedTokens: was.Usage.Details.Cached, CacheWriteTokens: was.Usage.Details.Written,
		OutputTokens: was.Usage.Output, ReasoningTokens: was.Usage.OutputDetails.Reasoning,
	}}
	switch was.Choices[0].Reason {
	case "length":
		o.status, o.reason = statusIncomplete, "max_output_tokens"
	case "content_filter":
		o.status, o.reason = statusIncomplete, "content_filter"
	}
	m := was.Choices[0].Message
	reasoned := func(call string) {
		for _, d := range m.Details {
			if d.ID == call {
				o.items = append(o.items, &item{kind: itemReasoning, sealed: d.Data})
			}
		}
	}
	if m.Content != nil || m.Refusal != nil {
		it := &item{kind: itemMessage, status: o.status}
		if m.Content != nil {
			it.add(pieceText, *m.Content)
		}
		if m.Refusal != nil {
			it.add(pieceRefusal, *m.Refusal)
		}
		o.items = append(o.items, it)
	}
	for i, c := range m.Calls {
		reasoned(c.ID)
		it := &item{kind: itemCall, callID: c.ID, name: c.Function.Name, status: statusCompleted}
		it.add(pieceArguments, c.Function.Arguments)
		if c.Type == "custom" {
			it = &item{kind: itemCall, callID: c.ID, name: c.Custom.Name, custom: true, status: statusCompleted}
			it.add(pieceArguments, c.Custom.Input)
		}
		if i == len(m.Calls)-1 && o.status == statusIncomplete {
			it.status = statusIncomplete
		}
		o.items = append(o.items, it)
	}
	reasoned("")
	return &reply{id: "resp_" + strings.TrimPrefix(was.ID, "chatcmpl_"), created: was.Created, model: was.Model}, o, nil
}
