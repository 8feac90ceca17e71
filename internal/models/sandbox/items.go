package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/stoa"
)

// Wire is the wire of the sandbox and of its states.
const Wire = "sandbox"

const thoughtBegin = "sandbox.1."

// thoughtOf returns the data of a segment of reasoning about a message. It includes a check sum, because
// the data must be sent back unchanged.
func thoughtOf(message string, bytes int) string {
	thought := strings.Repeat("hm", min(bytes, 64)/2)
	return thoughtBegin + thought + "." + checkOf(message+thought)
}

func isThought(data, message string) bool {
	rest, ok := strings.CutPrefix(data, thoughtBegin)
	thought, check, _ := strings.Cut(rest, ".")
	return ok && check == checkOf(message+thought)
}

func checkOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

func allows(c stoa.Choice, name string) bool {
	return c.Mode != stoa.ChoiceNone && (len(c.Only) == 0 || slices.Contains(c.Only, name))
}

// obey adapts a plan to the settings of the call: if the choice requires a call, it adds one
// of the first allowed tool, and it makes at most one call if the caller does not accept
// more.
func (t turn) obey(p plan) plan {
	c := t.call.ToolChoice()
	if c.Mode == stoa.ChoiceRequired && len(p.calls) == 0 && !t.orders.HasSay && !t.orders.Empty {
		at := slices.IndexFunc(t.call.Tools, func(tool stoa.Tool) bool { return allows(c, tool.Name) })
		if at >= 0 {
			tool := t.call.Tools[at]
			p = plan{calls: []stoa.ToolCall{t.toolCall(0, tool.Name, arguments(tool.Parameters))}}
		}
	}
	if t.call.NoParallel && len(p.calls) > 1 {
		p.calls = p.calls[:1]
	}
	return p
}

func (t turn) inFormat(text string) string {
	switch f := t.call.TextFormat(); {
	case f.Kind == stoa.FormatSchema && strings.TrimSpace(f.Schema) != "":
		return fitting(f.Schema)
	case f.Kind != stoa.FormatText:
		return `{"reply":` + quote(text) + `}`
	}
	return text
}

func (r *reply) reason() bool {
	o := r.turn.orders
	if o.Think == 0 || r.full() {
		return true
	}
	if r.turn.call.Summary {
		for piece := range pieces("The sandbox thought of nothing.") {
			if !r.send(stoa.Event{Kind: stoa.Summary, Text: piece, More: o.Slow == 0}) {
				return false
			}
		}
	}
	state := stoa.State{
		Wire: Wire, Model: r.route.Model, Provider: r.route.Fingerprint,
		Data: thoughtOf(r.turn.message, o.Think), Tokens: r.usage.ReasoningTokens,
	}
	return r.send(stoa.Event{Kind: stoa.Reasoned, State: state, More: o.Slow == 0})
}

// longestPiece is the maximum length of a piece of a call's arguments, in bytes. Each piece is one
// token, and so is the name.
const longestPiece = 12

// stream yields a call piece by piece. cut means that the limit ended the reply inside it.
func (r *reply) stream(c stoa.ToolCall) (cut, more bool) {
	if r.full() {
		return true, true
	}
	o := r.turn.orders
	r.usage.OutputTokens++
	if !r.send(stoa.Event{Kind: stoa.CallStarted, Call: stoa.ToolCall{ID: c.ID, Name: c.Name}, More: o.Slow == 0}) {
		return false, false
	}
	for rest := c.Arguments; rest != ""; {
		if r.full() {
			return true, true
		}
		if r.deltas > 0 && !r.pause(o.Slow) {
			return false, false
		}
		n := min(len(rest), longestPiece)
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n--
		}
		r.deltas++
		r.usage.OutputTokens++
		if !r.send(stoa.Event{Kind: stoa.CallDelta, Text: rest[:n], More: o.Slow == 0 && r.deltas%64 != 0}) || !r.fault() {
			return false, false
		}
		rest = rest[n:]
	}
	return false, r.send(stoa.Event{Kind: stoa.Called, Call: c, More: o.Slow == 0})
}

// refuse yields a refusal: separate from text, if the caller requested JSON.
func (r *reply) refuse(text string) bool {
	kind := stoa.Delta
	if r.turn.call.TextFormat().Kind != stoa.FormatText {
		kind = stoa.Refusal
	}
	for piece := range pieces(text) {
		if r.full() {
			break
		}
		r.deltas++
		r.usage.OutputTokens++
		if !r.send(stoa.Event{Kind: kind, Text: piece, More: true}) {
			return false
		}
	}
	return true
}
