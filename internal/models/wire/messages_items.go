package wire

import (
	"cmp"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// note reports the vendor's changes to the input: a list, empty if none exists.
func (f *messagesReply) note(list []byte) {
	c := jsonx.NewReplyCursor(list)
	if f.want.Note != nil && c.Array() && c.Element() {
		f.want.Note("input_transformations " + bounded(string(list)))
	}
}

// closeBlock ends the item of the block. A call stays open while its arguments may have been cut,
// because the reason arrives with the end of the reply.
func (f *messagesReply) closeBlock() error {
	b := &f.block
	kind, raw := b.kind, b.raw
	b.kind, b.raw = "", nil
	switch kind {
	case "tool_use":
		if err := f.restOfCall(); err != nil {
			return err
		}
		if len(f.reply.items.arguments) == 0 && (f.reply.whole || b.input != "{}") {
			f.input = b.input
			return nil
		}
		if !isWholeObject(f.reply.items.arguments) {
			return nil
		}
		return f.endCall()
	case "thinking":
		if len(b.signature) == 0 { // because the vendor rejects thinking without its signature
			return f.summaryText(f.reply.items.summaries.Rest())
		}
		if raw == nil {
			w := builder{b: []byte(`{"type":"thinking","thinking":`)}
			w.b = append(jsonx.AppendString(w.b, jsonx.Mend(b.body)), `,"signature":`...)
			raw = append(jsonx.AppendString(w.b, b.signature), '}')
		}
	}
	if len(raw) == 0 || kind == "text" {
		return nil
	}
	data := newMessagesState(cmp.Or(f.after, f.want.After), string(raw))
	f.after = markOf(data)
	return f.reasoned(f.route, data, tokensOfBase64(len(raw)))
}

// wholeInput emits the input of the open call, if it arrived complete. A limit leaves an object
// with the members that had arrived, which is then emitted as open JSON.
func (f *messagesReply) wholeInput(cut bool) error {
	input := f.input
	if input == "" {
		return nil
	}
	if f.input = ""; cut {
		input = opened(input)
	}
	return f.callText(input)
}

// tokensOfBase64 estimates the tokens of a segment of reasoning, which is mostly base64.
func tokensOfBase64(bytes int) int64 { return stoa.EstimateTokens(bytes * 3 / 4) }

// itemText emits a piece of text. If JSON was requested, a text that does not begin like JSON is
// delayed, because the end of the reply says whether it is a refusal.
func (f *messagesReply) itemText(text string) error {
	if !f.want.JSON || f.isJSON {
		return f.emitText(text)
	}
	f.unsure = append(f.unsure, text...)
	if len(f.unsure) > maxText {
		return tooMuch("text")
	}
	start := strings.TrimLeft(string(f.unsure[:min(len(f.unsure), 64)]), " \t\r\n")
	if start == "" || start[0] != '{' && start[0] != '[' {
		return nil
	}
	f.isJSON = true
	return f.freeText()
}

func (f *messagesReply) freeText() error {
	text := string(f.unsure)
	f.unsure = nil
	return f.emitText(text)
}

// refused emits the delayed text as a refusal, and reports whether there was any.
func (f *messagesReply) refused() bool {
	text := string(f.unsure)
	if text == "" {
		return false
	}
	text += f.join.Rest()
	f.text += len(text)
	f.emit(stoa.Event{Kind: stoa.Refusal, Text: text})
	f.unsure = nil
	return true
}
