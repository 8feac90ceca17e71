package wire

import (
	"io"
	"iter"
	"net/http"

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
	w.key("input").open('[')
	for _, t := range turns(call, route, shape{system: true, listState: true}) {
		for _, r := range t.results {
			w.open('{')
			w.member("type", "function_call_output")
			w.member("call_id", r.CallID)
			if r.IsError {
				w.member("output", "Error: "+r.Content)
			} else {
				w.member("output", r.Content)
			}
			w.close('}')
		}
		if items := inner(t.data); items != "" {
			w.raw(items)
			continue
		}
		if t.text != "" {
			w.open('{')
			if t.role == stoa.RoleSystem {
				w.member("role", "developer")
			} else {
				w.member("role", string(t.role))
			}
			w.member("content", t.text)
			w.close('}')
		}
		for _, c := range t.calls {
			w.open('{')
			w.member("type", "function_call")
			w.member("call_id", c.ID)
			w.member("name", c.Name)
			w.member("arguments", c.Arguments)
			w.close('}')
		}
	}
	w.close(']')
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
	off, effort := thinking(call, route.Traits)
	if off {
		effort = "none"
	}
	if effort != "" {
		w.key("reasoning").open('{')
		w.member("effort", effort)
		w.close('}')
	}
	if call.Verbosity != "" && route.Traits.Verbosity {
		w.key("text").open('{')
		w.member("verbosity", call.Verbosity)
		w.close('}')
	}
	if len(call.Tools) > 0 {
		w.key("tools").open('[')
		for _, t := range call.Tools {
			w.open('{')
			w.member("type", "function")
			w.member("name", t.Name)
			w.member("description", t.Description)
			w.key("parameters")
			if err := w.schema(t); err != nil {
				return Request{}, err
			}
			w.key("strict").raw("false")
			w.close('}')
		}
		w.close(']')
		w.key("include").raw(`["reasoning.encrypted_content"]`)
	}
	w.close('}')
	return Request{Path: "/responses", Header: bearer(call, apiKey), Body: w.b}, nil
}

// inner returns the content of a JSON array without its brackets.
func inner(array string) string {
	if len(array) < 2 {
		return ""
	}
	return array[1 : len(array)-1]
}

// DecodeError implements [Codec].
func (responses) DecodeError(status int, h http.Header, body []byte) *Failure {
	return decodeError(status, h, body)
}

// Decode implements [Codec].
func (responses) Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[stoa.Event, error] {
	return read(body, want, false, func(r *reply) format { return &responsesReply{reply: r, route: route} })
}

// responsesReply reads one reply.
type responsesReply struct {
	*reply
	route  stoa.Route
	items  int // complete output items received
	deltas int // bytes of text received as deltas since the last complete item
}

func (f *responsesReply) event(ev sse.Event) error {
	if !isObject(ev.Data) {
		return nil
	}
	c := jsonx.NewReplyCursor(ev.Data)
	var kind, item, response []byte
	var delta jsonx.Cursor
	done, failed := false, false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			kind = c.Name()
		case "error":
			failed = c.Kind() == '{'
		case "delta":
			if kind == nil {
				delta = c
				break
			}
			done = true
			if err := f.delta(string(kind), &c); err != nil {
				return err
			}
		case "item":
			item = c.Raw()
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
	case "response.created", "response.in_progress", "response.output_item.added":
	default:
		if !done && delta.Key != nil {
			return f.delta(string(kind), &delta)
		}
		f.learn()
	}
	return nil
}

// again reads an event that is like an earlier one.
func (f *responsesReply) again() error {
	text := f.textAgain()
	f.deltas += len(text)
	return f.emitText(text)
}

func (f *responsesReply) delta(kind string, c *jsonx.Cursor) error {
	switch kind {
	case "response.output_text.delta", "response.refusal.delta":
		f.like.Open(openText, c)
		text := f.join.Next(c)
		f.deltas += len(text)
		return f.emitText(text)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta", "response.reasoning.delta":
		f.thought(len(c.Name()))
	}
	return nil
}

// item reads a complete output item. Its text is emitted now if it did not come as
// deltas before.
func (f *responsesReply) item(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	f.items++
	deltas := f.deltas
	f.deltas = 0
	c := jsonx.NewReplyCursor(raw)
	var kind string
	var call stoa.ToolCall
	var content []byte
	encrypted := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "type":
			kind, _ = c.Text()
		case "call_id":
			call.ID, _ = c.Text()
		case "name":
			call.Name, _ = c.Text()
		case "arguments":
			call.Arguments, _ = c.Text()
		case "content":
			content = c.Raw()
		case "encrypted_content":
			encrypted = len(c.Name()) > 0
		}
	}
	switch kind {
	case "message":
		f.keepItem(raw)
		if deltas > 0 {
			return nil
		}
		c := jsonx.NewReplyCursor(content)
		for ok := c.Array(); ok && c.Element(); {
			for ok := c.Object(); ok && c.Member(); {
				if k := string(c.Key); k == "text" || k == "refusal" {
					if err := f.reply.delta(&c); err != nil {
						return err
					}
				}
			}
		}
	case "reasoning":
		if encrypted { // without encrypted content the vendor could not find it again: nothing is stored there
			f.keep = true
			f.keepItem(raw)
		}
	case "function_call":
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
		f.keepItem(raw)
		return f.called(call)
	default:
		f.other = kind
	}
	return nil
}

func (f *responsesReply) keepItem(raw []byte) {
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
	if f.items == 0 {
		c := jsonx.NewReplyCursor(output)
		for ok := c.Array(); ok && c.Element(); {
			if err := f.item(c.Raw()); err != nil {
				return err
			}
		}
	}
	state := ""
	if f.keep && len(f.state) > 0 {
		f.state[0] = '['
		state = string(append(f.state, ']'))
	}
	return f.finish(stop, f.route, state)
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
			for ok := c.Object(); ok && c.Member(); {
				switch string(c.Key) {
				case "cached_tokens":
					u.read(&c, &u.CachedTokens)
				case "cache_write_tokens":
					u.read(&c, &u.CacheWriteTokens)
				case "reasoning_tokens":
					u.read(&c, &u.ReasoningTokens)
				}
			}
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
