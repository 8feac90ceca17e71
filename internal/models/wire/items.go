package wire

import (
	"crypto/rand"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// items is the item state of a [reply]; see [stoa.EventKind] for the order of their events. A
// codec calls the methods below in the order of the items. Between beginCall and endCall only
// callPiece and callText may be called: a format whose calls overlap has to order them first.
type items struct {
	ids  []string // of the calls so far
	open bool     // a call has begun and not ended
	cut  bool     // a call has no end
	call stoa.ToolCall
	// arguments are the emitted arguments of the open call.
	arguments []byte
	held      string // the beginning of an escape, possibly of U+0000
	pieces    jsonx.Joiner
	summaries jsonx.Joiner
	refusals  jsonx.Joiner
	reasoned  int // bytes of data of reasoning segments
}

func (r *reply) inCall() bool { return r.items.open }

func (r *reply) isCut() bool { return r.items.cut }

// namelessCall is the name of a call without one, which servers read out of a text that a caller can
// ask for. The call is omitted, and charged, like each of an unknown tool, because no tool has the name.
const namelessCall = "call_without_a_name"

// beginCall emits the beginning of a tool call. id is the vendor's; it is replaced if it
// repeats or clients would reject it.
func (r *reply) beginCall(id, name string) error {
	if err := r.between(); err != nil {
		return err
	}
	if name = strings.TrimSpace(name); name == "" {
		name = namelessCall
	}
	if r.calls++; r.calls > maxCalls {
		return tooMuch("tool calls")
	}
	s := &r.items
	if !stoa.IsName(id) || slices.Contains(s.ids, id) {
		id = "call_" + rand.Text()[:24]
	}
	s.ids = append(s.ids, id)
	s.open, s.call, s.arguments, s.held = true, stoa.ToolCall{ID: id, Name: name}, s.arguments[:0], ""
	r.emit(stoa.Event{Kind: stoa.CallStarted, Call: s.call})
	return nil
}

// callPiece emits the string at the cursor as a piece of the open call's arguments.
func (r *reply) callPiece(c *jsonx.Cursor) error {
	return r.callText(r.items.pieces.Next(c))
}

// callText emits a piece of the open call's arguments. White space before them is
// dropped, and U+0000 in them replaced, as in [withoutNUL].
func (r *reply) callText(text string) error {
	s := &r.items
	if len(s.arguments) == 0 && s.held == "" {
		text = strings.TrimLeft(text, " \t\r\n")
	}
	if s.held+text == "" {
		return nil
	}
	text = s.held + text
	s.held = ""
	const nul = `\u0000`
	if at := strings.IndexByte(text, '\\'); at >= 0 {
		out := []byte(text)
		for i := at; i < len(out); i++ {
			if out[i] != '\\' {
				continue
			}
			if rest := text[i:]; strings.HasPrefix(rest, nul) {
				copy(out[i:], `\ufffd`)
			} else if len(rest) < len(nul) && strings.HasPrefix(nul, rest) {
				s.held, out = rest, out[:i]
				break
			}
			i++ // because a backslash escapes the next byte
		}
		text = string(out)
	}
	return r.callDelta(text)
}

func (r *reply) callDelta(text string) error {
	s := &r.items
	if text == "" {
		return nil
	}
	if s.arguments = append(s.arguments, text...); len(s.arguments) > maxArguments {
		return tooMuch("tool arguments")
	}
	r.emit(stoa.Event{Kind: stoa.CallDelta, Text: text})
	return nil
}

// restOfCall emits the delayed rest of the open call's arguments.
func (r *reply) restOfCall() error {
	s := &r.items
	if err := r.callText(s.pieces.Rest()); err != nil {
		return err
	}
	held := s.held
	s.held = ""
	return r.callDelta(held)
}

// endCall emits the end of the open call, if there is one.
func (r *reply) endCall() error {
	if !r.inCall() {
		return nil
	}
	s := &r.items
	if err := r.restOfCall(); err != nil {
		return err
	}
	if len(s.arguments) == 0 {
		if err := r.callDelta("{}"); err != nil {
			return err
		}
	}
	s.open = false
	s.call.Arguments = string(s.arguments)
	r.emit(stoa.Event{Kind: stoa.Called, Call: s.call})
	return nil
}

// cutCall leaves the open call without an end. No other item may follow.
func (r *reply) cutCall() error {
	err := r.restOfCall()
	r.items.open, r.items.cut = false, true
	return err
}

// stopCall ends the open call, or cuts it if the reply stopped inside it.
func (r *reply) stopCall(stop stoa.Stop) error {
	if r.inCall() && stop.Cuts() && !isWholeObject(r.items.arguments) {
		return r.cutCall()
	}
	return r.endCall()
}

// opened returns the arguments of a cut call as open JSON, because in whole replies some vendors
// close what had arrived, and clients run a call whose arguments are valid JSON.
func opened(arguments string) string {
	return strings.TrimSuffix(strings.TrimRight(arguments, " \t\r\n"), "}")
}

func isWholeObject(text []byte) bool {
	c := jsonx.NewReplyCursor(text)
	return c.Kind() == '{' && c.Done()
}

// between checks that an item may begin, and emits the rest of the previous text.
func (r *reply) between() error {
	if r.inCall() || r.isCut() {
		return broken("an item inside a tool call")
	}
	return r.emitText(r.join.Rest())
}

// summary emits the string at the cursor as a piece of a summary of the reasoning.
func (r *reply) summary(c *jsonx.Cursor) error {
	return r.summaryText(r.items.summaries.Next(c))
}

func (r *reply) summaryText(text string) error {
	if text == "" {
		return nil
	}
	if err := r.between(); err != nil {
		return err
	}
	if r.items.reasoned += len(text); r.items.reasoned > maxState {
		return tooMuch("reasoning")
	}
	r.emit(stoa.Event{Kind: stoa.Summary, Text: text})
	return nil
}

// reasoned emits a segment of reasoning whose data has to be sent back before the next item.
// tokens is the vendor's count or an estimate; 0 means unknown.
func (r *reply) reasoned(route stoa.Route, data string, tokens int64) error {
	if err := r.summaryText(r.items.summaries.Rest()); err != nil {
		return err
	}
	if err := r.between(); err != nil {
		return err
	}
	if r.items.reasoned += len(data); r.items.reasoned > maxState {
		return tooMuch("state")
	}
	r.emit(stoa.Event{Kind: stoa.Reasoned, State: stoa.State{
		Wire: route.Wire, Model: route.Model, Provider: route.Fingerprint, Data: data, Tokens: tokens,
	}})
	return nil
}

// refusal emits the text at the cursor as a piece of a refusal, if the caller distinguishes
// refusals from text.
func (r *reply) refusal(c *jsonx.Cursor) error {
	if !r.want.JSON {
		return r.delta(c)
	}
	text := r.items.refusals.Next(c)
	if text == "" {
		return nil
	}
	if r.inCall() {
		return broken("an item inside a tool call")
	}
	if r.text += len(text); r.text > maxText {
		return tooMuch("text")
	}
	r.emit(stoa.Event{Kind: stoa.Refusal, Text: text})
	return nil
}
