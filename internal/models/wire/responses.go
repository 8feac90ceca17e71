package wire

import (
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
)

// responses is OpenAI's Responses format.
//
// Its state is the list of output items as they arrived, including reasoning with its
// encrypted content, to be inserted into the input in the same order.
type responses struct{}

// Encode implements [Codec] for Responses of OpenAI.
func (responses) Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error) {
	w := newBuilder(call)
	w.open('{')
	w.member("model", route.Model)
	if call.Instructions != "" && !takesBreakpoints(&call, route) {
		w.member("instructions", call.Instructions)
	}
	if err := encodeResponsesTurns(w, call, route); err != nil {
		return Request{}, err
	}
	if call.MaxOutputTokens > 0 {
		w.key("max_output_tokens").int(call.MaxOutputTokens)
	}
	if !call.Whole {
		w.key("stream").raw("true")
	}
	w.key("store").raw("false")
	w.optional("prompt_cache_key", call.CacheKey)
	explicit := withoutOwnCache(&call, route)
	if explicit {
		w.key("prompt_cache_options").raw(`{"mode":"explicit"}`)
	}
	temperature, topP := sampling(call, route.Traits)
	w.number("temperature", temperature)
	w.number("top_p", topP)
	if err := encodeResponsesOptions(w, call, route); err != nil {
		return Request{}, err
	}
	if err := encodeResponsesTools(w, call, route); err != nil {
		return Request{}, err
	}
	w.close('}')
	req := Request{Path: "/responses", Header: bearer(call, apiKey), Body: w.b, Reasoning: w.reasoning, Described: w.described}
	if takesBreakpoints(&call, route) {
		if req = w.marked(req, &call); req.MarkedBy == stoa.MarkedByNone && !explicit {
			req.MarkedBy = stoa.MarkedByVendor
		}
	}
	return req, nil
}

func (responses) vendor(stoa.Route) schema.Vendor { return schema.OpenAI }

func (responses) count(req *Request, _ stoa.Route) {
	req.Path += "/input_tokens"
	req.Body = only(req.Body, "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation")
}

func (responses) counted() string { return "input_tokens" }

// DecodeError implements [Codec].
func (responses) DecodeError(status int, h http.Header, body []byte) *Failure {
	return decodeError(status, h, body)
}

// Decode implements [Codec].
func (responses) Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[*stoa.Event, error] {
	return read(body, want, false, func(r *reply) format { return &responsesReply{reply: r, route: route} })
}

type responsesReply struct {
	*reply
	route    stoa.Route
	complete int           // output items received
	pieces   []*itemPieces // of the latest items
	call     string        // the id of the item of the open call
	unsure   bool          // the item of the open call is complete, but its arguments are not an object, perhaps because a limit cut them
	waiting  []outputItem  // items that were complete before the call
	held     int           // bytes of waiting
	phase    string        // of the following texts
}

const maxPieces = 128 // items whose pieces are tracked

// itemPieces records which parts of an output item arrived before the complete item, because servers
// may complete an item after later ones have begun (llama.cpp completes all at the end).
type itemPieces struct {
	id      string // may be empty
	index   int64  // its index in the output; -1 if unknown
	text    bool   // text arrived
	summary bool   // a summary arrived
	thought bool   // the summary is the text of the reasoning
	thinks  bool   // the reasoning or its summary arrived
	part    bool   // a part of the summary is complete
}

// An outputItem is a complete output item with its index in the output; -1 if unknown.
type outputItem struct {
	raw   []byte
	index int64
}

// known returns the record of the item with the given id or, since some proxies use a new id
// in each event, with the given index. An event with neither belongs to the latest item. It
// returns nil if there is no record.
func (f *responsesReply) known(id []byte, index int64) *itemPieces {
	for _, p := range slices.Backward(f.pieces) {
		if len(id) > 0 && p.id == string(id) {
			return p
		}
	}
	for _, p := range slices.Backward(f.pieces) {
		if index >= 0 && p.index == index || index < 0 && len(id) == 0 {
			return p
		}
	}
	return nil
}

// record returns the record of the item with the given id or index, and creates a missing
// one.
func (f *responsesReply) record(id []byte, index int64) *itemPieces {
	p := f.known(id, index)
	if p == nil {
		p = &itemPieces{id: string(id), index: index}
		f.remember(p)
	}
	return p
}

func (f *responsesReply) remember(p *itemPieces) {
	if len(f.pieces) == maxPieces {
		f.pieces = slices.Delete(f.pieces, 0, 1)
	}
	f.pieces = append(f.pieces, p)
}

// completed returns the record of a complete item. If its id differs from the id of its
// pieces and its index is unknown, the latest pieces of its kind belong to it.
func (f *responsesReply) completed(o output, index int64) *itemPieces {
	if p := f.known(o.id, index); p != nil {
		return p
	}
	for _, p := range slices.Backward(f.pieces) {
		if o.kind == "message" && p.text || o.kind == "reasoning" && p.thinks {
			return p
		}
	}
	return &itemPieces{}
}

func (f *responsesReply) event(ev sse.Event) error {
	if !isObject(ev.Data) {
		return nil
	}
	c := jsonx.NewReplyCursor(ev.Data)
	var kind, item, response, id []byte
	var delta, arguments jsonx.Cursor
	index, before := int64(-1), f.text
	said, failed := false, false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			kind = c.Name()
		case "error":
			failed = c.Kind() == '{'
		case "delta":
			if delta = c; string(kind) == textDelta || string(kind) == refusalDelta {
				said = true
				if err := f.say(kind, &c); err != nil {
					return err
				}
			}
		case "item":
			item = c.Raw()
		case "item_id":
			id = c.Name()
		case "output_index":
			if n, ok := c.Int(); ok {
				index = n
			}
		case "arguments":
			arguments = c
		case "response":
			response = c.Raw()
		}
	}
	if !c.Done() {
		return broken("an event that is not JSON")
	}
	if failed && kind == nil {
		kind = []byte("error") // because some proxies omit the type
	}
	switch string(kind) {
	case "response.output_item.done":
		return f.item(outputItem{item, index})
	case "response.completed", "response.incomplete", "response.failed":
		return f.terminal(response, ev.Data)
	case "error":
		return streamError(ev.Data)
	case "response.output_item.added":
		return f.added(item, index)
	case textDelta, refusalDelta:
		if !said && delta.Key != nil { // the type follows it
			if err := f.say(kind, &delta); err != nil {
				return err
			}
		}
		p := f.record(id, index)
		p.text = p.text || f.text > before
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta", "response.reasoning.delta":
		if delta.Key == nil {
			return nil
		}
		piece := delta
		f.thought(len(piece.Name()))
		p := f.record(id, index)
		p.thinks = true
		if f.want.Summary {
			return f.summarize(p, &delta, string(kind) != "response.reasoning_summary_text.delta")
		}
	case argumentsDelta:
		if delta.Key != nil {
			return f.piece(string(id), &delta)
		}
	case inputDelta:
		if delta.Key != nil && f.isOpen(string(id)) {
			return f.callText(escaped(f.items.pieces.Next(&delta)))
		}
	case "response.function_call_arguments.done":
		if arguments.Key != nil && f.isOpen(string(id)) {
			text, _ := arguments.Text()
			return f.restOfArguments(text)
		}
	case "response.reasoning_summary_part.done":
		if p := f.known(id, index); p != nil {
			p.part = p.summary
		}
	}
	return nil
}

const (
	textDelta      = "response.output_text.delta"
	refusalDelta   = "response.refusal.delta"
	argumentsDelta = "response.function_call_arguments.delta"
	inputDelta     = "response.custom_tool_call_input.delta"
)

// say emits the piece of a text or of a refusal at the cursor.
func (f *responsesReply) say(kind []byte, c *jsonx.Cursor) error {
	if err := f.endUnsure(); err != nil {
		return err
	}
	if string(kind) == refusalDelta {
		return f.refusal(c)
	}
	return f.delta(c)
}

// summarize emits a piece of the summary of an item, with a blank line between parts. An item
// without a summary, as self-hosted servers send it, has the text of its reasoning: a thought.
func (f *responsesReply) summarize(p *itemPieces, c *jsonx.Cursor, thought bool) error {
	if p.summary && p.thought != thought || thought && f.isOpen("") {
		return nil
	}
	p.thought = thought
	if err := f.endUnsure(); err != nil {
		return err
	}
	piece := *c
	n := len(piece.Name())
	if p.part && n > 0 {
		p.part = false
		if err := f.summaryText("\n\n"); err != nil {
			return err
		}
	}
	p.summary = p.summary || n > 0
	return f.summary(c)
}

// added reads the beginning of an output item: a tool call begins with its name, a message
// has its phase. An item that begins inside another one is emitted with its end.
func (f *responsesReply) added(raw []byte, index int64) error {
	if err := f.endUnsure(); err != nil {
		return err
	}
	o := readOutput(raw)
	if (o.kind == "message" || o.kind == "reasoning") && len(o.id) > 0 {
		f.remember(&itemPieces{id: string(o.id), index: index})
	}
	if o.kind == "message" && !f.inCall() {
		return f.phased(o.phase)
	}
	if !isCall(o.kind) || f.inCall() || len(o.id) == 0 || strings.TrimSpace(o.call.Name) == "" || o.call.Form != nil {
		return nil
	}
	if err := f.beginCall(o.call.ID, o.call.Name); err != nil {
		return err
	}
	f.call = string(o.id)
	if o.kind == customCall {
		return f.callText(customBegin)
	}
	if o.call.Arguments != "" {
		return f.callText(o.call.Arguments)
	}
	return nil
}

// phased emits the phase of the following texts, if it has changed.
func (f *responsesReply) phased(phase string) error {
	if !stoa.IsName(phase) {
		phase = ""
	}
	if phase == f.phase {
		return nil
	}
	if err := f.between(); err != nil {
		return err
	}
	f.phase = phase
	f.emit(stoa.Event{Kind: stoa.Phased, Text: phase, State: stoa.State{Wire: f.route.Wire, Model: f.route.Model, Provider: f.route.Fingerprint}})
	return nil
}

// isOpen reports whether the open call is the item with that id; events without an id belong
// to it.
func (f *responsesReply) isOpen(id string) bool {
	return f.inCall() && !f.unsure && (id == "" || id == f.call)
}

// piece reads a piece of the arguments of a call. Pieces of a call that is not open are
// ignored, because the complete item repeats them.
func (f *responsesReply) piece(id string, c *jsonx.Cursor) error {
	if !f.isOpen(id) {
		return nil
	}
	return f.callPiece(c)
}

// restOfArguments emits the part of the complete arguments that did not arrive in pieces: all
// of them, if the vendor sent none.
func (f *responsesReply) restOfArguments(whole string) error {
	whole = withoutNUL(strings.TrimLeft(whole, " \t\r\n"))
	if whole == "" {
		return nil
	}
	rest, ok := strings.CutPrefix(whole, string(f.items.arguments))
	if !ok {
		return broken("arguments of a tool call that differ from their pieces")
	}
	f.items.pieces.Rest() // rest contains it
	f.items.held = ""
	return f.callText(rest)
}

// An output is an output item.
type output struct {
	kind      string
	id        []byte // of the item
	status    []byte
	call      stoa.ToolCall
	content   []byte
	summary   []byte
	phase     string // of a message
	encrypted bool   // there is encrypted content
}

func readOutput(raw []byte) (o output) {
	var namespace, input string
	custom := false
	c := jsonx.NewReplyCursor(raw)
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			o.kind, _ = c.Text()
		case "id":
			o.id = c.Name()
		case "status":
			o.status = c.Name()
		case "call_id":
			o.call.ID, _ = c.Text()
		case "name":
			o.call.Name, _ = c.Text()
		case "namespace":
			namespace, _ = c.Text()
		case "arguments":
			o.call.Arguments, _ = c.Text()
		case "input":
			input, custom = c.Text()
		case "content":
			o.content = c.Raw()
		case "summary":
			o.summary = c.Raw()
		case "phase":
			o.phase, _ = c.Text()
		case "encrypted_content":
			o.encrypted = len(c.Name()) > 0
		}
	}
	o.call.Name = stoa.FlatName(namespace, o.call.Name)
	if custom && o.kind == customCall {
		o.call.Arguments = CustomArguments(input)
	}
	if kind, t, output := ToolOfItem(o.kind); t != nil && !output { // it is complete at its end only
		native := Without(string(raw), "type", "id", "call_id", "status")
		o.call.Name, o.call.Arguments, o.call.Form = t.Name, t.Arguments(native), &stoa.ToolForm{Kind: kind, Native: native}
	}
	return o
}

// item reads a complete output item. Its text is emitted now unless it arrived as deltas.
func (f *responsesReply) item(it outputItem) error {
	raw := it.raw
	if len(raw) == 0 {
		return nil
	}
	f.complete++
	if err := f.endUnsure(); err != nil {
		return err
	}
	o := readOutput(raw)
	if f.inCall() && !(isCall(o.kind) && f.isOpen(string(o.id))) {
		if f.held += len(raw); f.held > maxState {
			return tooMuch("state")
		}
		f.waiting = append(f.waiting, outputItem{slices.Clone(raw), it.index})
		return nil
	}
	p := f.completed(o, it.index)
	switch o.kind {
	case "message":
		if p.text {
			p.text = false
			return nil
		}
		if err := f.phased(o.phase); err != nil {
			return err
		}
		c := jsonx.NewReplyCursor(o.content)
		for ok := c.Array(); ok && c.Element(); {
			for ok := c.Object(); ok && c.Member(); {
				var err error
				switch string(c.Key) {
				case "text":
					err = f.reply.delta(&c)
				case "refusal":
					err = f.refusal(&c)
				}
				if err != nil {
					return err
				}
			}
		}
	case "reasoning":
		if err := f.readReasoning(p, o); err != nil {
			return err
		}
		p.thinks, p.summary, p.part = false, false, false
		if o.encrypted { // otherwise the vendor could not find it again, because it stores nothing
			return f.reasoned(f.route, string(raw), 0)
		}
	default:
		if isCall(o.kind) {
			return f.wholeCall(o)
		}
		f.other = o.kind
	}
	return nil
}

// readReasoning emits the part of a reasoning item that did not arrive in pieces.
func (f *responsesReply) readReasoning(p *itemPieces, o output) error {
	if !p.thinks {
		_ = eachText(o.content, func(c *jsonx.Cursor) error {
			f.thought(len(c.Name()))
			return nil
		})
	}
	if !f.want.Summary || p.summary {
		return nil
	}
	fresh := &itemPieces{}
	for _, part := range []struct {
		raw     []byte
		thought bool
	}{{o.summary, false}, {o.content, true}} {
		err := eachText(part.raw, func(c *jsonx.Cursor) error {
			defer func() { fresh.part = fresh.summary }()
			return f.summarize(fresh, c, part.thought)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func eachText(list []byte, do func(*jsonx.Cursor) error) error {
	c := jsonx.NewReplyCursor(list)
	for ok := c.Array(); ok && c.Element(); {
		for ok := c.Object(); ok && c.Member(); {
			if string(c.Key) == "text" {
				if err := do(&c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// wholeCall reads a complete function call, whose beginning may have arrived before.
func (f *responsesReply) wholeCall(o output) error {
	if !f.inCall() {
		if err := f.beginCall(o.call.ID, o.call.Name); err != nil {
			return err
		}
		f.items.call.Form = o.call.Form
	}
	cut := string(o.status) == "incomplete"
	if cut && len(f.items.arguments) == 0 {
		o.call.Arguments = opened(o.call.Arguments)
	}
	if err := f.restOfArguments(o.call.Arguments); err != nil {
		return err
	}
	if cut {
		return f.cutCall()
	}
	if err := f.restOfCall(); err != nil {
		return err
	}
	if a := f.reply.items.arguments; len(a) > 0 && !isWholeObject(a) {
		f.unsure = true
		return nil
	}
	if err := f.endCall(); err != nil {
		return err
	}
	return f.nextItems()
}

// endUnsure ends a complete call whose arguments are not an object: no limit has cut them, because
// the reply continues.
func (f *responsesReply) endUnsure() error {
	if !f.unsure {
		return nil
	}
	f.unsure = false
	if err := f.endCall(); err != nil {
		return err
	}
	return f.nextItems()
}

// isLimited reports whether the limit ended a reply that is called completed, because llama.cpp and
// Ollama call all of theirs so: it has as many tokens as the limit, or its last call has no complete
// arguments and the counts do not contradict. A count far above the limit is wrong and says nothing.
func (f *responsesReply) isLimited() bool {
	limit, n := f.want.Limit, f.usage.OutputTokens
	known := f.usage.known && limit > 0
	return known && n >= limit && n <= 2*limit || f.unsure && (!known || n == limit-1)
}

func (f *responsesReply) nextItems() error {
	waiting := f.waiting
	f.waiting = nil
	for _, it := range waiting {
		if err := f.item(it); err != nil {
			return err
		}
	}
	return nil
}

// terminal reads the finished response, from the last event or as the whole reply. complaint
// is the JSON that contains its error, if it failed.
func (f *responsesReply) terminal(response, complaint []byte) error {
	c := jsonx.NewReplyCursor(response)
	var status, reason string
	var output, usage []byte
	failed := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "status":
			status, _ = c.Text()
		case "error":
			failed = c.Kind() == '{'
		case "incomplete_details":
			for ok := c.Object(); ok && c.Member(); {
				if string(c.Key) == "reason" {
					reason, _ = c.Text()
				}
			}
		case "output":
			output = c.Raw()
		case "usage":
			usage = c.Raw()
		}
	}
	if failed {
		return streamError(response)
	}
	var stop stoa.Stop
	switch status {
	case "completed":
		stop = stoa.StopEnd
	case "incomplete":
		// Everything except filtered output was cut by a limit, whatever its name.
		if stop = stoa.StopLength; reason == "content_filter" {
			stop = stoa.StopContentFilter
		}
	case "failed":
		return streamError(complaint)
	default:
		return broken("a response that ends as " + bounded(status))
	}
	f.readUsage(usage)
	if f.complete == 0 {
		c := jsonx.NewReplyCursor(output)
		isList := c.Array()
		for index := int64(0); isList && c.Element(); index++ {
			if err := f.item(outputItem{c.Raw(), index}); err != nil {
				return err
			}
		}
	}
	if stop == stoa.StopEnd && f.isLimited() {
		stop = stoa.StopLength
	}
	f.unsure = false
	if err := f.stopCall(stop); err != nil {
		return err
	}
	if f.isCut() {
		f.waiting = nil // because they came before the call
	}
	if err := f.nextItems(); err != nil {
		return err
	}
	return f.finish(stop)
}

func (f *responsesReply) readUsage(usage []byte) {
	c := jsonx.NewReplyCursor(usage)
	u := &f.usage
	in, out := false, false
	var total int64
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "total_tokens":
			if n, ok := c.Int(); ok {
				total = n
			}
		case "input_tokens":
			in = u.read(&c, &u.InputTokens)
		case "output_tokens":
			out = u.read(&c, &u.OutputTokens)
		case "input_tokens_details", "output_tokens_details":
			u.readDetails(&c)
		}
	}
	if in {
		u.addDetails(total)
	}
	u.known = in && out
}

func (f *responsesReply) whole(data []byte) error {
	c := jsonx.NewReplyCursor(data)
	if !c.Done() {
		return truncated()
	}
	return f.terminal(data, data)
}

// end handles the end of a stream without a terminal event.
func (f *responsesReply) end() error { return truncated() }
