package responses

import (
	"encoding/json"
	"slices"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// A format is one of the forms in which callers read replies. It separates the common parts
// of a reply from the specific ones: [Service.Serve] makes the call, a [builder] turns its
// events into items, an [eventStream] sends bytes, and a format produces those bytes. A
// Request determines its format; see [formatMaker].
//
// For a whole reply, object is called once. For a stream, start is called first, then for
// each item open, piece for each piece and close, then end or fail. Items do not overlap: the
// next is opened when the previous one is closed. A failed stream may have an open item and
// never closes it. Each method appends to b and returns it; the appended bytes end with the
// empty line of the last event. The methods must not block, and they are not called
// concurrently.
//
// The fields of the reply and its items say when a method may read them. start must not read
// items.
type format interface {
	object(b []byte, r *reply, o *outcome) []byte
	start(b []byte, r *reply) []byte
	open(b []byte, r *reply, it *item) []byte
	piece(b []byte, r *reply, it *item, kind pieceKind, text string) []byte
	close(b []byte, r *reply, it *item) []byte
	end(b []byte, r *reply, o *outcome) []byte
	// fail ends a stream that has begun; o.failure is the reason.
	fail(b []byte, r *reply, o *outcome) []byte
	// restore reads a finished reply that object wrote under an Idempotency-Key.
	restore(stored []byte) (*reply, *outcome, error)
}

// A formatMaker creates the format of a parsed request's reply.
type formatMaker interface{ newFormat() format }

type reply struct {
	id      string // resp_…, also the id of the charge
	created int64  // Unix seconds
	model   string // identifier of the serving model; set before the first byte
	// request is the id of the request.
	request string
	session string // id of the session of an agent; empty for a model
	// enforced says which parts of the request the serving model enforces; set with model.
	enforced enforced
}

// enforced says which parts of a request are enforced, as opposed to requested.
type enforced struct {
	anyChoice bool     // a choice that forces a call was treated as auto
	strict    []string // names of the tools whose schema is enforced
	adjusted  stoa.Adjustments
	leftOut   map[stoa.PartKind]bool // the media in the outputs of tools that notes replace
	texts     map[*stoa.Media]string // replace files
}

// An outcome contains the fields that differ between the snapshots of one reply.
type outcome struct {
	status      string // in_progress, completed, incomplete, failed
	completedAt int64  // Unix seconds; 0 means null
	reason      string // of incomplete: max_output_tokens, content_filter
	failure     *streamError
	items       []*item
	last        *item // of items: not closed until the stream ends; may be nil
	usage       *stoa.Usage
	other       string // a kind of output, if it is the only one and not text
	stopped     string // the stop sequence that ended the text; empty if there is none or if it is unknown
}

func (o *outcome) called() bool {
	return slices.ContainsFunc(o.items, func(it *item) bool { return it.kind == itemCall && it.status == statusCompleted })
}

// text returns the text of the reply, without refusals.
func (o *outcome) text() string {
	var all joined
	for _, it := range o.items {
		if it.kind == itemMessage && !it.text.empty() {
			all.add(it.text.String())
		}
	}
	return all.String()
}

const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

type itemKind uint8

const (
	itemMessage    itemKind = iota + 1 // text, a refusal, or a text and a refusal
	itemReasoning                      // a segment of reasoning: a summary, data to send back, or both
	itemCall                           // a tool call
	itemCompaction                     // a sealed summary; see compact.go
)

type pieceKind uint8

// The kinds of pieces. A message's text comes before its refusal.
const (
	pieceText pieceKind = iota + 1
	pieceRefusal
	pieceSummary
	pieceArguments
)

// An item is one element of a reply. Its index, id, phase, name and call id are known when it
// is opened, all other fields when it is closed.
type item struct {
	kind      itemKind
	index     int
	id        string // msg_…, rs_…, fc_…, ctc_…
	phase     string // of a message: its purpose according to its vendor; may be empty
	status    string // of a message and a call
	text      joined // of a message; of reasoning, its summary; of a call, its arguments or input
	refusal   joined // of a message
	callID    string
	name      string // of the tool
	namespace string // of the tool; may be empty
	custom    bool   // the call is of a custom tool, whose input is text
	vendors   string // of a call of a tool that a vendor has defined: the type of its item; empty for others
	members   string // of such an item: those that others do not have, a JSON object. Known when it is opened
	sealed    string // of reasoning: the state that the caller sends back; may be empty. Known when the item is closed
	announced bool   // it was opened
}

func (it *item) has(kind pieceKind) bool {
	if kind == pieceRefusal {
		return !it.refusal.empty()
	}
	return !it.text.empty() || it.refusal.empty()
}

func (it *item) add(kind pieceKind, text string) {
	if kind == pieceRefusal {
		it.refusal.add(text)
	} else {
		it.text.add(text)
	}
}

// leastText is the initial capacity of a text of several pieces, in bytes.
const leastText = 1 << 10

// joined is a text that arrives in pieces. A single piece is not copied.
type joined struct {
	only string
	more strings.Builder // the whole text, from the second piece on
}

func (j *joined) empty() bool { return j.only == "" }

func (j *joined) add(s string) {
	if j.only == "" {
		j.only = s
		return
	}
	if j.more.Len() == 0 {
		j.more.Grow(max(leastText, 2*len(j.only)))
		j.more.WriteString(j.only)
	}
	j.more.WriteString(s)
}

// String returns the pieces so far.
func (j *joined) String() string {
	if j.more.Len() > 0 {
		return j.more.String()
	}
	return j.only
}

// wanted says what a caller requests of a reply beyond its text.
type wanted struct {
	itemized   bool     // [stoa.Call.Stateful]
	reasoning  bool     // reasoning items, and the phases of messages
	summary    bool     // of the reasoning; otherwise no summary is shown, even if the vendor sends one
	noParallel bool     // at most one call
	noTools    bool     // no tool may be called: calls in the reply are dropped
	only       []string // names of the tools that may be called; nil means all
	// forms are the forms of tools that are custom or in a namespace, by name.
	forms map[string]*stoa.ToolForm
	json  bool     // the text must be JSON
	stops []string // the text ends before the first of them
}

// A builder makes the items of a reply from the events of a call and sends them to a stream,
// if there is one. It drops calls that the request does not allow, and everything except text
// after the single call of a request without parallel calls.
type builder struct {
	wanted
	stream *eventStream // nil for a whole reply
	seal   func(stoa.State) string

	items    []*item
	first    [1]*item // memory for items while there is only one
	open     *item
	held     []*item // reasoning without a summary that waits for its item
	calls    int
	dropped  int  // number of dropped calls
	badCalls int  // calls whose arguments are not an object
	badText  bool // the text is not JSON although it must be
	skipping bool // the arriving call is dropped
	// lowered, if not nil, reports whether this service has lowered the limit of the reply.
	lowered func() bool
	waiting bool   // the arriving call is not part of the reply before it is whole
	phase   string // of the following texts
	other   string // of the outcome
	cut     cutter // of the text, at the stop sequences
}

func (b *builder) reset() {
	b.items, b.open, b.held = b.first[:0], nil, nil
	b.calls, b.dropped, b.badCalls, b.skipping, b.waiting, b.phase = 0, 0, 0, false, false, ""
	b.cut = cutter{sequences: b.stops}
}

// apply processes an event and reports whether it has content. It returns the error of the
// stream's connection.
func (b *builder) apply(ev *stoa.Event) (content bool, err error) {
	if len(b.stops) > 0 && ev.Kind != stoa.Started {
		if done, err := b.limit(ev); done || err != nil {
			return ev.Kind == stoa.Delta, err
		}
	}
	switch ev.Kind {
	case stoa.Started: // possibly again: earlier output is void
		b.reset()
	case stoa.Delta:
		return true, b.piece(pieceText, ev.Text, ev.More)
	case stoa.Refusal:
		return true, b.piece(pieceRefusal, ev.Text, ev.More)
	case stoa.Summary:
		if b.reasoning && b.summary && !b.trimming() {
			if b.open == nil || b.open.kind != itemReasoning {
				b.begin(&item{kind: itemReasoning, id: stoa.NewID("rs")})
			}
			return true, b.send(pieceSummary, ev.Text, ev.More)
		}
	case stoa.Reasoned:
		b.reasoned(ev.State)
	case stoa.Phased:
		if b.reasoning {
			b.phase = ev.Text
		}
	case stoa.CallStarted:
		// A call waits for its end in a whole reply, or if its caller cannot foresee the limit, because some clients run a
		// call that a limit cut: they assume that its arguments are whole, or complete them by a guess.
		if b.waiting = b.stream == nil || b.lowered != nil && b.lowered() || b.vendorTool(ev.Call.Name) != nil; b.waiting {
			return true, b.catchUp(ev)
		}
		return b.call(ev.Call), nil
	case stoa.CallDelta:
		if !b.skipping && b.open != nil && b.open.kind == itemCall {
			if b.open.custom { // later, because its input is known when the call is complete
				return true, b.catchUp(ev)
			}
			return true, b.send(pieceArguments, ev.Text, ev.More)
		}
	case stoa.Called:
		return b.called(ev)
	}
	return false, b.catchUp(ev)
}

func (b *builder) catchUp(ev *stoa.Event) error {
	if b.stream == nil || ev.More {
		return nil
	}
	return b.stream.catchUp()
}

func (b *builder) trimming() bool { return b.noParallel && b.calls > 0 }

// piece adds to the reply's message. It begins a message if none is open, also after
// reasoning, because that belongs to the next item, and after a change of phase.
func (b *builder) piece(kind pieceKind, text string, more bool) error {
	if b.open == nil || b.open.kind != itemMessage || len(b.held) > 0 || b.open.phase != b.phase || kind == pieceText && !b.open.refusal.empty() {
		b.begin(&item{kind: itemMessage, id: stoa.NewID("msg"), status: statusInProgress, phase: b.phase})
	}
	return b.send(kind, text, more)
}

// reasoned completes a segment. A segment without a summary waits for its item, since the reply
// may begin again elsewhere until then.
func (b *builder) reasoned(state stoa.State) {
	if !b.reasoning || b.trimming() {
		return
	}
	sealed := b.seal(state)
	if b.open != nil && b.open.kind == itemReasoning {
		b.open.sealed = sealed
		b.finishOpen(statusCompleted)
	} else if sealed != "" {
		b.held = append(b.held, &item{kind: itemReasoning, id: stoa.NewID("rs"), sealed: sealed})
	}
}

func (b *builder) call(c stoa.ToolCall) bool {
	b.skipping = c.Name == "" || b.noTools || b.trimming() || b.only != nil && !slices.Contains(b.only, c.Name)
	if b.skipping {
		b.dropped++
		b.held = nil // because it belongs to this call
		return false
	}
	b.calls++
	it := &item{kind: itemCall, status: statusInProgress, callID: c.ID, name: c.Name}
	prefix := "fc"
	if form := b.forms[c.Name]; form != nil {
		it.name, it.namespace, it.custom = form.Name, form.Namespace, form.Custom
		if it.custom {
			prefix = "ctc"
		}
	}
	if t := b.vendorTool(c.Name); t != nil {
		it.vendors, prefix = t.Call, strings.ReplaceAll(t.Call, "_", "")
		var ok bool
		if it.members, ok = t.Members(c.Arguments); !ok {
			b.badCalls++
		}
		if c.Form != nil { // its vendor has made the call
			it.members = c.Form.Native
		}
	}
	it.id = stoa.NewID(prefix)
	b.begin(it)
	return true
}

// vendorTool returns the tool of OpenAI's format with that name; nil for other tools. Its calls wait
// for their end, because clients require the members of its items from the beginning.
func (b *builder) vendorTool(name string) *wire.VendorTool {
	if form := b.forms[name]; form != nil {
		return wire.OpenAITool(form.Kind)
	}
	return nil
}

func (b *builder) called(ev *stoa.Event) (content bool, err error) {
	b.waiting = false
	if !b.skipping && (b.open == nil || b.open.kind != itemCall || b.open.callID != ev.Call.ID) {
		b.call(ev.Call)
	}
	if b.skipping {
		b.skipping = false
		return false, nil
	}
	switch {
	case b.open.vendors != "":
	case b.open.custom:
		err = b.input(ev.Call)
	case b.open.text.empty():
		text := ev.Call.Arguments
		if text == "" {
			text = "{}"
		}
		err = b.send(pieceArguments, text, true)
	}
	if !b.open.custom && b.open.vendors == "" && !isObject(ev.Call.Arguments) {
		b.badCalls++
	}
	b.finishOpen(statusCompleted)
	if b.stream != nil && !ev.More {
		err = b.stream.catchUp()
	}
	return true, err
}

func (b *builder) input(c stoa.ToolCall) error {
	text, ok := wire.CustomInput(c.Arguments)
	if !ok {
		text = c.Arguments
	}
	if !ok || !fitsFormat(b.forms[c.Name].Format, text) {
		b.badCalls++
	}
	if text == "" {
		return nil
	}
	return b.send(pieceArguments, text, true)
}

func (b *builder) begin(it *item) {
	b.finishOpen(statusCompleted)
	for _, r := range b.held {
		b.add(r)
		b.finishOpen(statusCompleted)
	}
	b.held = nil
	b.add(it)
}

func (b *builder) add(it *item) {
	it.index = len(b.items)
	b.items = append(b.items, it)
	b.open = it
	if b.stream != nil {
		b.stream.opened(it)
	}
}

func (b *builder) send(kind pieceKind, text string, more bool) error {
	if b.stream != nil {
		return b.stream.piece(b.open, kind, text, more)
	}
	b.open.add(kind, text)
	return nil
}

func (b *builder) finishOpen(status string) {
	it := b.open
	if it == nil {
		return
	}
	b.open = nil
	if it.status != "" {
		it.status = status
	}
	if b.stream != nil {
		b.stream.closed(it)
	}
}

// finish returns the outcome of a reply that ended with stop. Its last item stays open until
// the reply is charged. It must not fail, because the provider bills the reply, and a caller can make
// a model write only calls that tool_choice forbids.
func (b *builder) finish(stop stoa.Stop) *outcome {
	if b.waiting { // because a limit cut it
		b.dropped++
		if stop != stoa.StopContentFilter && stop != stoa.StopCallsDropped {
			stop = stoa.StopLength
		}
	}
	if len(b.items) == 0 && (!b.itemized || b.dropped > 0) {
		b.items = append(b.items, &item{kind: itemMessage, id: stoa.NewID("msg"), status: statusInProgress})
		b.open = b.items[0]
	}
	if b.open != nil && b.open.kind == itemCall && stop != stoa.StopContentFilter && stop != stoa.StopCallsDropped {
		stop = stoa.StopLength // because only a limit can cut a call off
	}
	if b.cut.reached != "" && stop != stoa.StopContentFilter {
		stop = stoa.StopEnd // the provider ended later, or for this reason
	}
	o := outcomeOf(stop)
	o.stopped, o.other = b.cut.reached, b.other
	o.items, o.last = b.items, b.open
	if o.last != nil && o.last.status != "" {
		o.last.status = o.status
	}
	if b.json && o.status == statusCompleted {
		text := o.text()
		b.badText = text != "" && !json.Valid([]byte(text))
	}
	return o
}

func (b *builder) adjusted() (a stoa.Adjustments) {
	if b.dropped > 0 {
		a |= stoa.CallsDropped
	}
	if b.badCalls > 0 {
		a |= stoa.InvalidArguments
	}
	if b.badText {
		a |= stoa.InvalidJSON
	}
	if b.cut.here {
		a |= stoa.StopCutHere
	}
	return a
}

// isObject reports whether the arguments of a call are a JSON object; empty arguments count
// as one.
func isObject(arguments string) bool {
	c := jsonx.NewReplyCursor([]byte(arguments))
	return arguments == "" || c.Kind() == '{' && c.Done()
}

func (b *builder) failed(err error) *outcome {
	if b.open != nil && b.open.status != "" {
		b.open.status = statusIncomplete
	}
	// An error that the caller can correct keeps its code. All others get the same one, because clients of the format recognize no other.
	e := stoa.AsError(err)
	info := contract.Code(e.Code)
	out := &streamError{code: string(e.Code), kind: info.Type, message: e.Message, param: e.Param, charged: e.Charged}
	if info.Status >= 500 {
		out.code = string(stoa.CodeInternal)
	}
	return &outcome{status: statusFailed, failure: out, items: b.items}
}
