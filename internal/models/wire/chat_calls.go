package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A chatCall is a tool call that is being received.
type chatCall struct {
	index     int64
	id, name  string
	arguments []byte // not emitted yet
	signature string // of Google's models, to be sent back
	begun     bool   // its beginning was emitted
	end       objectEnd
}

func (f *chatReply) piece(c *jsonx.Cursor) error {
	index := int64(-1)
	var id, name, signature string
	f.scratch = f.scratch[:0]
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "index":
			if c.Kind() == '"' { // as some servers have it
				text, _ := c.Text()
				if n, err := strconv.ParseInt(text, 10, 32); err == nil {
					index = n
				}
			} else if n, ok := c.Int(); ok {
				index = n
			}
		case "id":
			id, _ = c.Text()
		case "function":
			for ok := c.Object(); ok && c.Member(); {
				switch string(c.Key) {
				case "name":
					name, _ = c.Text()
					name = strings.TrimSpace(name)
				case "arguments":
					if c.Kind() == '{' {
						v := jsonx.Value(slices.Clone(c.Raw()))
						if v.Compact() != nil {
							v = c.Raw()
						}
						f.scratch = append(f.scratch, v...)
					} else {
						f.scratch, _ = c.AppendPiece(f.scratch)
					}
				}
			}
		case "extra_content":
			signature = googleSignature(c)
		}
	}
	at := f.callOf(index, id, name)
	if at == len(f.pieces) {
		if at == maxCalls {
			return tooMuch("tool calls")
		}
		f.pieces = append(f.pieces, chatCall{index: index})
	}
	p := &f.pieces[at]
	if p.id == "" {
		p.id = id
	}
	if p.name == "" {
		p.name = name
	}
	if p.signature == "" {
		p.signature = signature
	}
	if p.arguments = append(p.arguments, f.scratch...); len(p.arguments) > maxArguments {
		return tooMuch("tool arguments")
	}
	p.end.add(f.scratch)
	if at < f.at {
		if len(bytes.TrimSpace(f.scratch)) > 0 {
			return broken("a piece of a tool call after its end")
		}
		return nil
	}
	return f.advance()
}

// callOf returns the index of the call that a piece belongs to, or a new index if the piece
// begins a call. The index does not suffice, because some servers repeat 0 for all calls, or send
// none. A piece without a name belongs to the call with its id, unless the two have different
// indexes. A piece with a new id and a name always begins a call; without an index, a piece with
// either does.
func (f *chatReply) callOf(index int64, id, name string) int {
	n := len(f.pieces)
	if f.reply.whole || n == 0 {
		return n
	}
	if id != "" && name == "" {
		for at, p := range slices.Backward(f.pieces) {
			if p.id == id && (index < 0 || p.index == index) {
				return at
			}
		}
	}
	at := n - 1
	if index >= 0 {
		for at >= 0 && f.pieces[at].index != index {
			at--
		}
		if at < 0 {
			return n
		}
	}
	p := f.pieces[at]
	other := id != "" && p.id != "" && id != p.id
	switch {
	case index >= 0 && other && name != "":
		return n
	case index < 0 && (other || name != "" && p.name != "" && (id == "" || p.id == "")):
		return n
	}
	return at
}

func googleSignature(c *jsonx.Cursor) (signature string) {
	for ok := c.Object(); ok && c.Member(); {
		if string(c.Key) == "google" {
			for ok := c.Object(); ok && c.Member(); {
				if string(c.Key) == "thought_signature" {
					signature, _ = c.Text()
				}
			}
		}
	}
	return signature
}

// advance emits the received part of the first call that has not ended. It is complete when another
// begins, unless its arguments are incomplete, because servers may send two calls interleaved.
func (f *chatReply) advance() error {
	for f.at < len(f.pieces) {
		p, last := &f.pieces[f.at], f.at == len(f.pieces)-1
		if !p.begun {
			if p.name == "" || last && p.id == "" && len(p.arguments) == 0 {
				return nil // the name and the id may arrive later
			}
			if err := f.begin(p); err != nil {
				return err
			}
		}
		if last && f.reply.whole { // open, because the end of the reply says whether a limit cut it
			return nil
		}
		if err := f.flushArguments(p); err != nil {
			return err
		}
		if last || !p.end.reached {
			return nil
		}
		if err := f.endCall(); err != nil {
			return err
		}
		f.at++
	}
	return nil
}

func (f *chatReply) begin(p *chatCall) error {
	p.begun = true
	if err := f.emitReasoning(); err != nil {
		return err
	}
	if p.signature != "" {
		if err := f.reasoned(f.route, p.signature, 0); err != nil {
			return err
		}
	}
	return f.beginCall(p.id, p.name)
}

func (f *chatReply) flushArguments(p *chatCall) error {
	err := f.callText(f.items.pieces.Piece(p.arguments))
	p.arguments = p.arguments[:0]
	return err
}

// emitReasoning emits the reasoning that must be sent back before the next item.
func (f *chatReply) emitReasoning() error {
	if !f.owed {
		return nil
	}
	f.owed = false
	data := string(jsonx.Mend(f.reasoning[f.sent:]))
	if f.route.Dialect != "deepseek" {
		data = f.member + "=" + data
	}
	f.sent = len(f.reasoning)
	return f.reasoned(f.route, data, 0)
}

// say emits a text. A text inside a call is emitted after the call.
func (f *chatReply) say(text string) error {
	if !f.inCall() || text == "" {
		return f.emitText(text)
	}
	if p := &f.pieces[f.at]; p.end.reached && f.at == len(f.pieces)-1 && strings.TrimSpace(text) != "" {
		if err := f.endCall(); err != nil {
			return err
		}
		f.at++
		return f.sayLate(text)
	}
	if f.late = append(f.late, text...); len(f.late) > maxText {
		return tooMuch("text")
	}
	return nil
}

// sayLate emits the text that waited for the end of the calls, and more. White space between
// calls, which some servers write, is dropped.
func (f *chatReply) sayLate(more string) error {
	text := string(f.late) + more
	f.late = f.late[:0]
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return f.emitText(text)
}

// endCalls emits the rest of the calls and the end. Calls count regardless of the reported stop
// reason, because servers report a stop with calls, and other reasons for calls that the limit cut.
func (f *chatReply) endCalls(stop stoa.Stop) error {
	if stop == stoa.StopToolCalls && len(f.pieces) == 0 {
		stop = stoa.StopEnd
	}
	for ; f.at < len(f.pieces); f.at++ {
		p, last := &f.pieces[f.at], f.at == len(f.pieces)-1
		if last && !p.end.reached && f.want.Limit > 0 && f.usage.known && f.usage.OutputTokens >= f.want.Limit-1 && (p.begun || len(p.arguments) > 0) {
			stop = stoa.StopLength
		}
		if !p.begun {
			if p.name == "" && last && stop == stoa.StopLength {
				continue
			}
			if err := f.begin(p); err != nil {
				return err
			}
		}
		if last && f.reply.whole && f.route.Dialect != "openai" && f.route.Dialect != "deepseek" && stop.Cuts() {
			p.arguments = []byte(opened(string(p.arguments)))
		}
		if err := f.flushArguments(p); err != nil {
			return err
		}
		end := f.endCall
		if last {
			end = func() error { return f.stopCall(stop) }
		}
		if err := end(); err != nil {
			return err
		}
	}
	if !f.isCut() {
		if err := f.sayLate(""); err != nil {
			return err
		}
	}
	return f.finish(stop)
}

// An objectEnd finds the end of a JSON object that arrives in pieces.
type objectEnd struct {
	depth             int
	inString, escaped bool
	reached           bool
}

func (e *objectEnd) add(piece []byte) {
	for _, b := range piece {
		switch {
		case e.escaped:
			e.escaped = false
		case e.inString:
			e.escaped, e.inString = b == '\\', b != '"'
		case b == '"':
			e.inString = true
		case b == '{':
			e.depth++
			e.reached = false
		case b == '}':
			e.depth--
			e.reached = e.depth == 0
		}
	}
}
