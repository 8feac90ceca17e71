package wire

import (
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/jsonx"
	"stoa/internal/sse"
	"stoa/internal/stoa"
)

// responses is the Responses format of the family gamma.
//
// Its state is the list of output items as they came, including reasoning with its
// encrypted content, to be put back into the input in their order.
type responses struct{}

// leastLimit is the least max_output_tokens that the vendor accepts.
const leastLimit = 16

// Encode implements [Codec] for Responses of OpenAI.
func (responses) Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error) {
	if n := call.MaxOutputTokens; n > 0 && n < leastLimit {
		return Request{}, stoa.Errorf(stoa.CodeInvalidValue, "This model's replies cannot be limited to fewer than %d tokens. Raise max_output_tokens to %d or more.", leastLimit, leastLimit).At("max_output_tokens")
	}
	w := newBuilder(call)
	w.open('{')
	w.member("model", route.Model)
	if call.Instructions != "" {
		w.member("instructions", call.Instructions)
	}
	ordered := inParts(&call)
	if ordered {
		encodeResponsesParts(w, call, route)
	} else {
		encodeResponsesTurns(w, call, route)
	}
	if call.MaxOutputTokens > 0 {
		w.key("max_output_tokens").int(call.MaxOutputTokens)
	}
	if !call.Whole {
		w.key("stream").raw("true")
	}
	w.key("store").raw("false")
	temperature, topP := sampling(call, route.Traits)
	w.number("temperature", temperature)
	w.number("top_p", topP)
	if err := encodeResponsesOptions(w, call, route); err != nil {
		return Request{}, err
	}
	if ordered {
		if err := encodeResponsesTools(w, call, route); err != nil {
			return Request{}, err
		}
	}
	w.close('}')
	return Request{Path: "/responses", Header: bearer(call, apiKey), Body: w.b, Reasoning: w.reasoning}, nil
}

// encodeResponsesTurns writes the member input of a call in the short form.
func encodeResponsesTurns(w *builder, call stoa.Call, route stoa.Route) {
	w.key("input").open('[')
	for _, t := range turns(call, route, shape{system: true}) {
		w.open('{')
		if t.role == stoa.RoleSystem {
			w.member("role", "developer")
		} else {
			w.member("role", string(t.role))
		}
		w.member("content", t.text)
		w.close('}')
	}
	w.close(']')
}

// DecodeError implements [Codec].
func (responses) DecodeError(status int, h http.Header, body []byte) *Failure {
	return decodeError(status, h, body)
}

// Decode implements [Codec].
func (responses) Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[*stoa.Event, error] {
	return read(body, want, false, func(r *reply) format { return &responsesReply{reply: r, route: route} })
}

// responsesReply reads one reply.
type responsesReply struct {
	*reply
	route    stoa.Route
	complete int // output items received
	deltas   int // bytes of text received as deltas since the last complete item

	// What follows is about replies that are wanted item by item.

	call    string   // the id of the item of the open call
	waiting [][]byte // items that were complete before it
	held    int      // bytes of waiting
	summary int      // bytes of summary received since the last complete item
	part    bool     // a part of a summary was complete
	phase   string   // of the texts that come
}

func (f *responsesReply) event(ev sse.Event) error {
	if !isObject(ev.Data) {
		return nil
	}
	c := jsonx.NewReplyCursor(ev.Data)
	var kind, item, response, id []byte
	var delta, arguments jsonx.Cursor
	done, failed := false, false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			kind = c.Name()
		case "error":
			failed = c.Kind() == '{'
		case "delta":
			if kind == nil || f.want.Items && string(kind) == argumentsDelta {
				delta = c
				break
			}
			done = true
			if err := f.delta(string(kind), &c); err != nil {
				return err
			}
		case "item":
			item = c.Raw()
		case "item_id":
			id = c.Name()
		case "arguments":
			arguments = c
		case "response":
			response = c.Raw()
		case "sequence_number":
			f.like.Open(openNumber, &c)
		case "obfuscation":
			f.like.Open(openPadding, &c)
		}
	}
	if !c.Done() {
		return broken("an event that is no JSON")
	}
	if failed && kind == nil {
		kind = []byte("error") // some proxies omit the type
	}
	switch string(kind) {
	case "response.output_item.done":
		return f.item(item)
	case "response.completed", "response.incomplete", "response.failed":
		return f.terminal(response, ev.Data)
	case "error":
		return streamError(ev.Data)
	case "response.output_item.added":
		if f.want.Items {
			return f.added(item)
		}
	case argumentsDelta:
		if f.want.Items && delta.Key != nil {
			return f.piece(string(id), &delta)
		}
	case "response.function_call_arguments.done":
		if f.want.Items && arguments.Key != nil && f.isOpen(string(id)) {
			text, _ := arguments.Text()
			return f.restOfArguments(text)
		}
	case "response.reasoning_summary_part.done":
		f.part = f.summary > 0
	case "response.created", "response.in_progress":
	default:
		if !done && delta.Key != nil {
			return f.delta(string(kind), &delta)
		}
		f.learn()
	}
	return nil
}

const argumentsDelta = "response.function_call_arguments.delta"

// again reads an event that is like an earlier one.
func (f *responsesReply) again() error {
	text := f.textAgain()
	f.deltas += len(text)
	return f.emitText(text)
}

func (f *responsesReply) delta(kind string, c *jsonx.Cursor) error {
	switch kind {
	case "response.refusal.delta":
		if f.want.JSON {
			before := f.text
			err := f.refusal(c)
			f.deltas += f.text - before
			return err
		}
		fallthrough
	case "response.output_text.delta":
		f.like.Open(openText, c)
		text := f.join.Next(c)
		f.deltas += len(text)
		return f.emitText(text)
	case "response.reasoning_summary_text.delta":
		if f.want.Items {
			piece := *c
			f.thought(len(piece.Name()))
			return f.summarize(c)
		}
		fallthrough
	case "response.reasoning_text.delta", "response.reasoning.delta":
		f.thought(len(c.Name()))
	}
	return nil
}

// summarize emits a piece of a summary, with a blank line before each part but the
// first.
func (f *responsesReply) summarize(c *jsonx.Cursor) error {
	piece := *c
	n := len(piece.Name())
	if f.part && n > 0 {
		f.part = false
		if err := f.reply.summaryText("\n\n"); err != nil {
			return err
		}
	}
	f.summary += n
	return f.reply.summary(c)
}

// added reads the beginning of an output item: a tool call begins with its name, a
// message has its phase. One that begins inside another comes with its end.
func (f *responsesReply) added(raw []byte) error {
	o := readOutput(raw)
	if o.kind == "message" && !f.inCall() {
		return f.phased(o.phase)
	}
	if o.kind != "function_call" || f.inCall() || len(o.id) == 0 || strings.TrimSpace(o.call.Name) == "" {
		return nil
	}
	if err := f.beginCall(o.call.ID, o.call.Name); err != nil {
		return err
	}
	f.call = string(o.id)
	if o.call.Arguments != "" {
		return f.callText(o.call.Arguments)
	}
	return nil
}

// phased emits the phase of the texts that follow, if it is another.
func (f *responsesReply) phased(phase string) error {
	if !stoa.IsName(phase) {
		phase = ""
	}
	if phase == f.phase || !f.want.Items {
		return nil
	}
	if err := f.between(); err != nil {
		return err
	}
	f.phase = phase
	f.like.Spoil()
	f.emit(stoa.Event{Kind: stoa.Phased, Text: phase, State: stoa.State{Wire: f.route.Wire, Model: f.route.Model, Provider: f.route.Fingerprint}})
	return nil
}

// isOpen reports whether the open call is the item with that id; events without an id
// are about it.
func (f *responsesReply) isOpen(id string) bool {
	return f.inCall() && (id == "" || id == f.call)
}

// piece reads a piece of the arguments of a call. That of another call than the open
// one comes again with the whole item.
func (f *responsesReply) piece(id string, c *jsonx.Cursor) error {
	if !f.isOpen(id) {
		return nil
	}
	return f.callPiece(c)
}

// restOfArguments emits what the whole arguments of the open call have more than its
// pieces: all of them, where the vendor sent none.
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
		case "arguments":
			o.call.Arguments, _ = c.Text()
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
	return o
}

// item reads a complete output item. Its text is emitted now if it did not come as
// deltas before.
func (f *responsesReply) item(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	f.complete++
	deltas, summary := f.deltas, f.summary
	f.deltas, f.summary, f.part = 0, 0, false
	o := readOutput(raw)
	if f.inCall() && !(o.kind == "function_call" && f.isOpen(string(o.id))) {
		if f.held += len(raw); f.held > maxState {
			return tooMuch("state")
		}
		f.waiting = append(f.waiting, slices.Clone(raw))
		return nil
	}
	switch o.kind {
	case "message":
		f.keepItem(raw)
		if deltas > 0 {
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
		if f.want.Items {
			if summary == 0 {
				if err := f.readSummary(o.summary); err != nil {
					return err
				}
			}
			if o.encrypted {
				return f.reasoned(f.route, string(raw), 0)
			}
			return nil
		}
		if o.encrypted { // without encrypted content the vendor could not find it again: nothing is stored there
			f.keep = true
			f.keepItem(raw)
		}
	case "function_call":
		if f.want.Items {
			return f.wholeCall(o)
		}
		if o.call.Arguments == "" {
			o.call.Arguments = "{}"
		}
		f.keepItem(raw)
		return f.called(o.call)
	default:
		f.other = o.kind
	}
	return nil
}

// readSummary emits the summary of a reasoning item whose pieces did not come.
func (f *responsesReply) readSummary(raw []byte) error {
	c := jsonx.NewReplyCursor(raw)
	for ok := c.Array(); ok && c.Element(); {
		for ok := c.Object(); ok && c.Member(); {
			if string(c.Key) == "text" {
				if err := f.summarize(&c); err != nil {
					return err
				}
				f.part = true
			}
		}
	}
	f.summary, f.part = 0, false
	return nil
}

// wholeCall reads a complete function call, of which the beginning may have come.
func (f *responsesReply) wholeCall(o output) error {
	if !f.inCall() {
		if err := f.beginCall(o.call.ID, o.call.Name); err != nil {
			return err
		}
	}
	if err := f.restOfArguments(o.call.Arguments); err != nil {
		return err
	}
	if string(o.status) == "incomplete" {
		return f.cutCall()
	}
	if err := f.endCall(); err != nil {
		return err
	}
	return f.nextItems()
}

// nextItems reads the items that waited for the end of a call.
func (f *responsesReply) nextItems() error {
	waiting := f.waiting
	f.waiting = nil
	for _, raw := range waiting {
		if err := f.item(raw); err != nil {
			return err
		}
	}
	return nil
}

// keepItem adds an item to the state of the whole reply.
func (f *responsesReply) keepItem(raw []byte) {
	if f.want.Items {
		return
	}
	f.state = append(append(f.state, ','), raw...)
}

// terminal reads the finished response, from the last event or as the whole reply.
// complaint is the JSON that holds its error, if it failed.
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
		// What was not filtered was cut, whatever the limit is called.
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
		for ok := c.Array(); ok && c.Element(); {
			if err := f.item(c.Raw()); err != nil {
				return err
			}
		}
	}
	if err := f.stopCall(stop); err != nil {
		return err
	}
	if err := f.nextItems(); err != nil {
		return err
	}
	return f.finish(stop, f.route, f.listState())
}

func (f *responsesReply) readUsage(usage []byte) {
	c := jsonx.NewReplyCursor(usage)
	u := &f.usage
	in, out := false, false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "input_tokens":
			in = u.read(&c, &u.InputTokens)
		case "output_tokens":
			out = u.read(&c, &u.OutputTokens)
		case "input_tokens_details", "output_tokens_details":
			u.readDetails(&c)
		}
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

// end is reached by a stream without a terminal event.
func (f *responsesReply) end() error { return truncated() }
