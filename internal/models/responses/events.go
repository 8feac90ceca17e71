package responses

import (
	"strconv"

	"stoa/internal/base/sse"
)

func (f *responsesFormat) start(b []byte, r *reply) []byte {
	o := &outcome{status: statusInProgress}
	b = f.snapshot(b, "response.created", r, o)
	return f.snapshot(b, "response.in_progress", r, o)
}

// open announces an item. Its status in the event is in_progress, even if it has ended since.
// A message is announced without content; its parts follow with their texts.
func (f *responsesFormat) open(b []byte, _ *reply, it *item) []byte {
	f.part = 0
	b = f.head(b, "response.output_item.added")
	b = appendIndex(b, it)
	b = append(b, `,"item":`...)
	b = appendItemHead(b, it, statusInProgress)
	switch {
	case it.vendors != "":
		b = append(b, `}}`...)
	case it.kind == itemCall:
		b = append(b, `""}}`...)
	default:
		b = append(b, `]}}`...)
	}
	return sse.AppendEnd(b)
}

func (f *responsesFormat) openPart(b []byte, it *item, kind pieceKind) []byte {
	f.part = kind
	event := "response.content_part.added"
	switch kind {
	case pieceText:
		f.text = append(appendPlace(f.text[:0], it, kind), `,"delta":`...)
	case pieceSummary:
		event = "response.reasoning_summary_part.added"
	}
	return f.partEvent(b, event, it, kind, "")
}

func (f *responsesFormat) partEvent(b []byte, event string, it *item, kind pieceKind, text string) []byte {
	b = f.head(b, event)
	b = appendPlace(b, it, kind)
	b = append(b, `,"part":`...)
	b = appendPart(b, kind, text)
	b = append(b, '}')
	return sse.AppendEnd(b)
}

// The constant parts of text deltas, which are prepared because they are the most frequent event:
// the text written by head, and the text after the delta.
const (
	deltaHead = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":"
	deltaTail = `,"logprobs":[]}` + "\n\n"
)

func (f *responsesFormat) piece(b []byte, _ *reply, it *item, kind pieceKind, text string) []byte {
	if kind != pieceArguments && f.part != kind {
		if f.part != 0 {
			b = f.closePart(b, it)
		}
		b = f.openPart(b, it, kind)
	}
	switch kind {
	case pieceText:
		b = append(b, deltaHead...)
		b = f.number(b)
		b = append(b, f.text...)
		b = appendText(b, text)
		return append(b, deltaTail...)
	case pieceRefusal:
		b = f.head(b, "response.refusal.delta")
	case pieceSummary:
		b = f.head(b, "response.reasoning_summary_text.delta")
	default:
		event := "response.function_call_arguments.delta"
		if it.custom {
			event = "response.custom_tool_call_input.delta"
		}
		b = f.head(b, event)
	}
	b = appendPlace(b, it, kind)
	b = append(b, `,"delta":`...)
	b = appendText(b, text)
	b = append(b, '}')
	return sse.AppendEnd(b)
}

func (f *responsesFormat) closePart(b []byte, it *item) []byte {
	kind := f.part
	f.part = 0
	event, text, member, rest := "response.output_text.done", it.text.String(), `,"text":`, ""
	part := "response.content_part.done"
	switch kind {
	case pieceText:
		rest = `,"logprobs":[]`
	case pieceRefusal:
		event, text, member = "response.refusal.done", it.refusal.String(), `,"refusal":`
	case pieceSummary:
		event, part = "response.reasoning_summary_text.done", "response.reasoning_summary_part.done"
	}
	b = f.head(b, event)
	b = appendPlace(b, it, kind)
	b = append(b, member...)
	b = appendText(b, text)
	b = append(b, rest...)
	b = append(b, '}')
	b = sse.AppendEnd(b)
	return f.partEvent(b, part, it, kind, text)
}

// close ends an item. A call that was cut off gets no event with complete arguments.
func (f *responsesFormat) close(b []byte, _ *reply, it *item) []byte {
	if f.part == 0 && it.kind == itemMessage {
		b = f.openPart(b, it, pieceText)
	}
	if f.part != 0 {
		b = f.closePart(b, it)
	}
	if it.kind == itemCall && it.vendors == "" && it.status == statusCompleted {
		event, text := "response.function_call_arguments.done", `,"arguments":`
		if it.custom {
			event, text = "response.custom_tool_call_input.done", `,"input":`
		}
		b = f.head(b, event)
		b = appendPlace(b, it, pieceArguments)
		if !it.custom {
			b = append(b, `,"name":`...)
			b = appendText(b, it.name)
		}
		b = append(b, text...)
		b = appendText(b, it.text.String())
		b = append(b, '}')
		b = sse.AppendEnd(b)
	}
	b = f.head(b, "response.output_item.done")
	b = appendIndex(b, it)
	b = append(b, `,"item":`...)
	b = appendItem(b, it)
	b = append(b, '}')
	return sse.AppendEnd(b)
}

func (f *responsesFormat) end(b []byte, r *reply, o *outcome) []byte {
	b = f.snapshot(b, "response."+o.status, r, o)
	return sse.AppendEvent(b, "", "[DONE]")
}

// fail appends the error event in both of its forms, response.failed and [DONE].
func (f *responsesFormat) fail(b []byte, r *reply, o *outcome) []byte {
	e := o.failure
	members := func(b []byte) []byte {
		b = append(b, `"code":`...)
		b = appendText(b, e.code)
		b = append(b, `,"message":`...)
		b = appendText(b, e.message)
		b = append(b, `,"param":`...)
		if e.param == "" {
			return append(b, `null`...)
		}
		return appendText(b, e.param)
	}
	b = f.head(b, "error")
	b = append(b, ',')
	b = members(b)
	b = append(b, `,"error":{"type":`...)
	b = appendText(b, e.kind)
	b = append(b, ',')
	b = members(b)
	b = append(b, `}}`...)
	b = sse.AppendEnd(b)
	b = f.snapshot(b, "response.failed", r, o)
	return sse.AppendEvent(b, "", "[DONE]")
}

func (f *responsesFormat) snapshot(b []byte, kind string, r *reply, o *outcome) []byte {
	b = f.head(b, kind)
	b = append(b, `,"response":`...)
	b = f.object(b, r, o)
	b = append(b, '}')
	return sse.AppendEnd(b)
}

func (f *responsesFormat) head(b []byte, kind string) []byte {
	b = sse.AppendHead(b, kind)
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","sequence_number":`...)
	return f.number(b)
}

func (f *responsesFormat) number(b []byte) []byte {
	b = strconv.AppendInt(b, f.seq, 10)
	f.seq++
	return b
}

func appendPlace(b []byte, it *item, kind pieceKind) []byte {
	b = append(b, `,"item_id":"`...)
	b = append(b, it.id...)
	b = append(b, '"')
	b = appendIndex(b, it)
	switch {
	case kind == pieceArguments:
	case kind == pieceSummary:
		b = append(b, `,"summary_index":0`...)
	case kind == pieceRefusal && !it.text.empty():
		b = append(b, `,"content_index":1`...)
	default:
		b = append(b, `,"content_index":0`...)
	}
	return b
}

func appendIndex(b []byte, it *item) []byte {
	b = append(b, `,"output_index":`...)
	return strconv.AppendInt(b, int64(it.index), 10)
}
