package wire

import (
	"bytes"
	"io"
	"iter"
	"net/http"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
)

// messages is Anthropic's Messages format.
//
// Its state is the content of the assistant's message, block by block, in the form in which
// it has to be sent back: thinking with its signature, in its place.
type messages struct{}

// Encode implements [Codec] for Messages of Anthropic.
func (messages) Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error) {
	w := newBuilder(call)
	w.open('{')
	w.member("model", route.Model)
	reasoning := encodeMessagesTurns(w, call, route)
	limit := call.MaxOutputTokens
	if limit <= 0 {
		limit = stoa.DefaultOutput
	}
	w.key("max_tokens").int(limit)
	if !call.Whole {
		w.key("stream").raw("true")
	}
	temperature, topP := sampling(call, route.Traits)
	w.number("temperature", atMost(temperature, 1))
	w.number("top_p", topP)
	w.topK("top_k", call, route.Traits)
	var visible []string // because the vendor refuses sequences of only white space
	for _, s := range call.Stops {
		if strings.TrimSpace(s) != "" {
			visible = append(visible, s)
		}
	}
	w.stops("stop_sequences", visible)
	off, _ := thinking(call, route.Traits)
	bound := reasoning && route.Traits.Binding && !off
	if call.Vendor != nil {
		call.Vendor = &stoa.VendorSettings{ContextManagement: contextEdits(call.Vendor.ContextManagement, !off && len(route.Traits.Efforts) > 0)}
	}
	if err := encodeMessagesOptions(w, call, route, bound); err != nil {
		return Request{}, err
	}
	if err := encodeMessagesTools(w, call, route); err != nil {
		return Request{}, err
	}
	if edits := call.VendorSettings().ContextManagement; edits != "" {
		w.key("context_management").raw(edits)
	}
	w.close('}')
	h := header(call, [2]string{"Anthropic-Version", "2023-06-01"}, [2]string{"X-Api-Key", apiKey}, [2]string{"Anthropic-Beta", messagesBetas(&call, bound)})
	return w.marked(Request{Path: "/v1/messages", Header: h, Body: w.b, Reasoning: w.reasoning, Described: w.described}, &call), nil
}

func (messages) vendor(stoa.Route) schema.Vendor { return schema.Anthropic }

func (messages) count(req *Request, _ stoa.Route) {
	req.Path += "/count_tokens"
	req.Body = only(req.Body, "model", "system", "messages", "tools", "tool_choice", "thinking", "output_config", "context_management")
}

func (messages) counted() string { return "input_tokens" }

// DecodeError implements [Codec].
func (messages) DecodeError(status int, h http.Header, body []byte) *Failure {
	return decodeError(status, h, body)
}

// Decode implements [Codec].
func (messages) Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[*stoa.Event, error] {
	return read(body, want, false, func(r *reply) format { return &messagesReply{reply: r, route: route} })
}

type messagesReply struct {
	*reply
	route stoa.Route
	stop  string
	begun bool // a content block arrived
	block messagesBlock
	input string // of the open call, if it arrived complete; delayed, because a limit may have cut it
	later []byte // events of blocks that began before an open call ended, each with a line feed

	after  string // mark of the last reasoning segment
	isJSON bool   // the text begins like JSON
	unsure []byte // text for which that is not yet known
}

// A messagesBlock is the content block that is being received.
type messagesBlock struct {
	kind      string // text, thinking, tool_use; empty for others
	index     int64  // -1: unknown
	id, name  string
	body      []byte // thinking
	signature []byte
	input     string // of a block that arrived complete
	raw       []byte // the original block, if it is sent back unchanged
}

func (f *messagesReply) event(ev sse.Event) error {
	if !isObject(ev.Data) {
		return nil
	}
	c := jsonx.NewReplyCursor(ev.Data)
	var kind, message, block, delta, usage []byte
	index := int64(-1)
	done, failed := false, false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			kind = c.Name()
		case "delta":
			if f.waits(kind, index) {
				return f.putOff(ev.Data)
			}
			if string(kind) == "content_block_delta" && (index >= 0 || !f.inCall()) {
				if err := f.delta(&c); err != nil {
					return err
				}
				done = true
			} else {
				delta = c.Raw()
			}
		case "message":
			message = c.Raw()
		case "content_block":
			block = c.Raw()
		case "usage":
			usage = c.Raw()
		case "index":
			index, _ = c.Int()
		case "error":
			failed = c.Kind() == '{'
		}
	}
	if !c.Done() {
		return broken("an event that is not JSON")
	}
	if failed && kind == nil {
		kind = []byte("error") // because some proxies omit the type
	}
	if f.waits(kind, index) {
		return f.putOff(ev.Data)
	}
	switch string(kind) {
	case "content_block_delta":
		if !done {
			d := jsonx.NewReplyCursor(delta)
			return f.delta(&d)
		}
	case "content_block_start":
		if err := f.closeBlock(); err != nil {
			return err
		}
		f.begun = true
		b := jsonx.NewReplyCursor(block)
		if err := f.openBlock(&b, block); err != nil {
			return err
		}
		f.block.index = index
		return nil
	case "content_block_stop":
		if err := f.closeBlock(); err != nil {
			return err
		}
		return f.catchUp()
	case "message_start":
		if f.begun { // because a proxy repeated the call in the middle of its reply
			return broken("a second message in one reply")
		}
		m := jsonx.NewReplyCursor(message)
		for ok := m.Object(); ok && m.Member(); {
			switch string(m.Key) {
			case "usage":
				f.readUsage(m.Raw(), false)
			case "input_transformations":
				f.note(m.Raw())
			}
		}
	case "message_delta":
		d := jsonx.NewReplyCursor(delta)
		for ok := d.Object(); ok && d.Member(); {
			switch string(d.Key) {
			case "stop_reason":
				if s, ok := d.Text(); ok {
					f.stop = s
				}
			case "stop_sequence":
				f.sequence, _ = d.Text()
			}
		}
		f.readUsage(usage, true)
	case "message_stop":
		for f.block.kind != "" || len(f.later) > 0 {
			if err := f.closeBlock(); err != nil {
				return err
			}
			if err := f.catchUp(); err != nil {
				return err
			}
		}
		return f.done()
	case "error":
		return streamError(ev.Data)
	}
	return nil
}

// waits reports whether an event belongs to another block than the open call, since blocks may
// overlap, and items are emitted one after the other. A block that begins after a call with complete
// arguments ends that call, since some servers omit its end.
func (f *messagesReply) waits(kind []byte, index int64) bool {
	if f.block.kind != "tool_use" || f.block.index < 0 || index < 0 || index == f.block.index {
		return false
	}
	switch string(kind) {
	case "content_block_start":
		return len(f.later) > 0 || !isWholeObject(f.reply.items.arguments)
	case "content_block_delta", "content_block_stop":
		return true
	}
	return false
}

func (f *messagesReply) putOff(event []byte) error {
	f.later = append(append(f.later, bytes.ReplaceAll(event, []byte("\n"), []byte(" "))...), '\n')
	if len(f.later) > maxState {
		return tooMuch("content of blocks that overlap")
	}
	return nil
}

// catchUp reads the events that waited for the end of a call.
func (f *messagesReply) catchUp() error {
	events := f.later
	f.later = nil
	for line := range bytes.Lines(events) {
		if err := f.event(sse.Event{Data: bytes.TrimSuffix(line, []byte("\n"))}); err != nil {
			return err
		}
	}
	return nil
}

// delta reads the change of a block. The type, which usually comes first, selects the member
// with the content; if it comes later, the member is read a second time.
func (f *messagesReply) delta(c *jsonx.Cursor) error {
	if f.block.kind == "" {
		f.block.raw = nil // because the block has changed
	}
	var kind []byte
	var later jsonx.Cursor
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			kind = c.Name()
		case "text", "thinking", "partial_json", "signature":
			if kind == nil {
				later = *c
			} else if err := f.change(string(kind), c); err != nil {
				return err
			}
		}
	}
	if later.Key != nil {
		return f.change(string(kind), &later)
	}
	return nil
}

func (f *messagesReply) change(kind string, c *jsonx.Cursor) error {
	b := &f.block
	before := len(b.body)
	switch kind {
	case "text_delta":
		if string(c.Key) != "text" {
			return nil
		}
		return f.itemText(f.join.Next(c))
	case "thinking_delta":
		if string(c.Key) == "thinking" {
			piece := *c
			b.body, _ = c.AppendPiece(b.body)
			f.thought(len(b.body) - before)
			if f.want.Summary {
				if err := f.summary(&piece); err != nil {
					return err
				}
			}
		}
	case "signature_delta":
		if string(c.Key) == "signature" {
			b.signature, _ = c.AppendPiece(b.signature)
		}
	case "input_json_delta":
		if string(c.Key) == "partial_json" && f.block.kind == "tool_use" {
			return f.callPiece(c)
		}
		return nil
	}
	if len(b.body) > maxState || len(b.signature) > maxState {
		return tooMuch("content of one block")
	}
	return nil
}

// openBlock reads the start of a block; in a whole reply, all of it.
func (f *messagesReply) openBlock(c *jsonx.Cursor, raw []byte) error {
	b := &f.block
	*b = messagesBlock{body: b.body[:0], signature: b.signature[:0]}
	var kind string
	var text, thought jsonx.Cursor
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			kind, _ = c.Text()
		case "id":
			b.id, _ = c.Text()
		case "name":
			b.name, _ = c.Text()
		case "text":
			text = *c
		case "thinking":
			thought = *c
		case "signature":
			b.signature, _ = c.AppendPiece(b.signature)
		case "input":
			b.input = string(c.Raw())
		}
	}
	if err := f.wholeInput(false); err != nil {
		return err
	}
	if err := f.endCall(); err != nil { // its arguments are not JSON, which a limit would have explained
		return err
	}
	if kind != "text" {
		if err := f.freeText(); err != nil {
			return err
		}
	}
	switch kind {
	case "text":
		b.kind = kind
		if text.Key != nil {
			return f.change("text_delta", &text)
		}
	case "thinking":
		b.kind = kind
		if f.reply.whole {
			b.raw = raw
		}
		if thought.Key != nil {
			return f.change("thinking_delta", &thought)
		}
	case "tool_use":
		b.kind = kind
		return f.beginCall(b.id, b.name)
	default:
		b.raw = append([]byte(nil), raw...)
		if kind != "redacted_thinking" {
			f.other = kind
		}
	}
	return nil
}

// readUsage reads a usage; last marks the usage that counts the finished output.
func (f *messagesReply) readUsage(usage []byte, last bool) {
	before := f.usage
	c := jsonx.NewReplyCursor(usage)
	u := &f.usage
	// The input is reported in three parts; a part that is not reported again keeps its
	// value.
	fresh := u.InputTokens - u.CachedTokens - u.CacheWriteTokens
	short, written := int64(0), u.CacheWriteTokens
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "input_tokens":
			u.read(&c, &fresh)
		case "cache_read_input_tokens":
			u.read(&c, &u.CachedTokens)
		case "cache_creation_input_tokens":
			u.read(&c, &u.CacheWriteTokens)
		case "cache_creation":
			for ok := c.Object(); ok && c.Member(); {
				switch string(c.Key) {
				case "ephemeral_5m_input_tokens":
					u.read(&c, &short)
				case "ephemeral_1h_input_tokens":
					u.read(&c, &u.CacheWriteLongTokens)
				}
			}
		case "output_tokens":
			if u.read(&c, &u.OutputTokens) && last {
				u.known = true
			}
		case "output_tokens_details":
			for ok := c.Object(); ok && c.Member(); {
				if string(c.Key) == "thinking_tokens" {
					u.read(&c, &u.ReasoningTokens)
				}
			}
		}
	}
	if f.want.Long && u.CacheWriteTokens != written { // writes that the split lacks are long
		u.CacheWriteLongTokens = max(u.CacheWriteLongTokens, u.CacheWriteTokens-short)
	}
	u.InputTokens = fresh + u.CachedTokens + u.CacheWriteTokens
	u.keep(before.Usage)
	if !last {
		f.count(before)
	}
}

func (f *messagesReply) done() error {
	if f.stop == "" {
		return broken("no stop_reason")
	}
	stop, err := f.stopOf(f.stop)
	if err != nil {
		return err
	}
	if stop == stoa.StopContentFilter && f.refused() {
		stop = stoa.StopEnd
	}
	if err := f.wholeInput(stop.Cuts()); err != nil {
		return err
	}
	if err := f.freeText(); err != nil {
		return err
	}
	return f.finish(stop)
}

func (f *messagesReply) whole(data []byte) error {
	c := jsonx.NewReplyCursor(data)
	var content, usage []byte
	failed := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			failed = c.Is("error") || failed
		case "error":
			failed = failed || c.Kind() == '{'
		case "content":
			content = c.Raw()
		case "stop_reason":
			f.stop, _ = c.Text()
		case "stop_sequence":
			f.sequence, _ = c.Text()
		case "usage":
			usage = c.Raw()
		case "input_transformations":
			f.note(c.Raw())
		}
	}
	switch {
	case !c.Done():
		return truncated()
	case failed:
		return streamError(data)
	}
	f.readUsage(usage, true)
	c = jsonx.NewReplyCursor(content)
	for ok := c.Array(); ok && c.Element(); {
		raw := c.Raw()
		b := jsonx.NewReplyCursor(raw)
		if err := f.openBlock(&b, raw); err != nil {
			return err
		}
		if err := f.closeBlock(); err != nil {
			return err
		}
	}
	return f.done()
}

// end handles the end of a stream without message_stop.
func (f *messagesReply) end() error { return truncated() }

// isObject reports whether data begins like a JSON object; other events are ignored.
func isObject(data []byte) bool {
	c := jsonx.NewReplyCursor(data)
	return c.Kind() == '{'
}
