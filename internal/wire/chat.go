package wire

import (
	"bytes"
	"io"
	"iter"
	"net/http"
	"strconv"

	"stoa/internal/jsonx"
	"stoa/internal/sse"
	"stoa/internal/stoa"
)

// chat is the chat completions format: of the family delta (dialect deepseek),
// of OpenAI (openai), and of the many servers that imitate it (compatible,
// which is also what an empty dialect means).
//
// Its state is the reasoning text, which only DeepSeek requires back, and only
// within a tool loop.
type chat struct{}

// Encode implements [Codec] for chat completions of OpenAI, DeepSeek and
// compatible servers.
func (chat) Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error) {
	openai, deepseek := route.Dialect == "openai", route.Dialect == "deepseek"
	w := newBuilder(call)
	w.open('{')
	w.member("model", route.Model)
	w.key("messages").open('[')
	if s := call.System(); s != "" {
		w.open('{')
		if openai {
			w.member("role", "developer")
		} else {
			w.member("role", "system")
		}
		w.member("content", s)
		w.close('}')
	}
	for _, t := range turns(call, route, shape{alternate: !openai}) {
		encodeChatTurn(w, t, deepseek)
	}
	w.close(']')
	// A compatible server's own default fits its context; ours may exceed it.
	if call.MaxOutputTokens > 0 && !(call.LimitDefault && !openai && !deepseek) {
		name := "max_tokens"
		if openai {
			name = "max_completion_tokens"
		}
		w.key(name).int(call.MaxOutputTokens)
	}
	if !call.Whole {
		w.key("stream").raw("true")
		w.key("stream_options").raw(`{"include_usage":true}`)
	}
	temperature, topP := sampling(call, route.Traits)
	w.number("temperature", temperature)
	if least := 1e-6; topP != nil && *topP == 0 && !openai { // others demand more than 0
		topP = &least
	}
	w.number("top_p", topP)
	off, effort := thinking(call, route.Traits)
	if off {
		w.key("thinking").open('{')
		w.member("type", route.Traits.ThinkingOff)
		w.close('}')
	}
	if effort != "" {
		w.member("reasoning_effort", effort)
	}
	if call.Verbosity != "" && route.Traits.Verbosity {
		w.member("verbosity", call.Verbosity)
	}
	if len(call.Tools) > 0 {
		w.key("tools").open('[')
		for _, t := range call.Tools {
			w.open('{')
			w.member("type", "function")
			w.key("function").open('{')
			w.member("name", t.Name)
			w.member("description", t.Description)
			w.key("parameters")
			if err := w.schema(t); err != nil {
				return Request{}, err
			}
			w.close('}')
			w.close('}')
		}
		w.close(']')
	}
	w.close('}')
	return Request{Path: "/chat/completions", Header: bearer(call, apiKey), Body: w.b}, nil
}

func encodeChatTurn(w *builder, t turn, reasoning bool) {
	for _, r := range t.results {
		w.open('{')
		w.member("role", "tool")
		w.member("tool_call_id", r.CallID)
		if r.IsError {
			w.member("content", "Error: "+r.Content)
		} else {
			w.member("content", r.Content)
		}
		w.close('}')
	}
	if t.role == stoa.RoleUser && t.text == "" || t.role == stoa.RoleAssistant && t.text == "" && len(t.calls) == 0 {
		return
	}
	w.open('{')
	w.member("role", string(t.role))
	if t.text == "" {
		w.key("content").raw("null")
	} else {
		w.member("content", t.text)
	}
	if reasoning && t.loop && t.data != "" {
		w.member("reasoning_content", t.data)
	}
	if len(t.calls) > 0 {
		w.key("tool_calls").open('[')
		for _, c := range t.calls {
			w.open('{')
			w.member("id", c.ID)
			w.member("type", "function")
			w.key("function").open('{')
			w.member("name", c.Name)
			w.member("arguments", c.Arguments)
			w.close('}')
			w.close('}')
		}
		w.close(']')
	}
	w.close('}')
}

// DecodeError implements [Codec].
func (chat) DecodeError(status int, h http.Header, body []byte) *Failure {
	return decodeError(status, h, body)
}

// Decode implements [Codec].
func (chat) Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[stoa.Event, error] {
	return read(body, want, false, func(r *reply) format { return &chatReply{reply: r, route: route} })
}

// chatReply reads one reply.
type chatReply struct {
	*reply
	route     stoa.Route
	stop      string
	deltas    bool // a delta came: a message beside it repeats the text
	pieces    []chatCall
	reasoning []byte
	scratch   []byte
}

// A chatCall is a tool call that is being received.
type chatCall struct {
	index     int64
	id, name  string
	arguments []byte
}

func (f *chatReply) event(ev sse.Event) error {
	if bytes.HasPrefix(ev.Data, []byte("[DONE]")) {
		return f.done()
	}
	if !isObject(ev.Data) {
		return nil
	}
	return f.chunk(ev.Data)
}

// chunk reads one chunk, or a whole reply, which differs in one name.
func (f *chatReply) chunk(data []byte) error {
	before := f.usage
	c := jsonx.NewReplyCursor(data)
	failed := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "choices":
			if ok := c.Array(); ok && c.Element() {
				if err := f.choice(&c); err != nil {
					return err
				}
				for c.Element() { // only one was requested
				}
			}
		case "usage":
			f.like.Open(openUsage, &c)
			f.readUsage(&c)
		case "obfuscation":
			f.like.Open(openPadding, &c)
		case "error":
			failed = c.Kind() == '{' || c.Kind() == '"'
		}
	}
	if !c.Done() {
		return broken("a chunk that is no JSON")
	}
	if failed {
		return streamError(data)
	}
	f.learn()
	if f.stop == "" {
		f.count(before)
	}
	return nil
}

// again reads a chunk that is like an earlier one.
func (f *chatReply) again() error {
	before := f.usage
	if err := f.emitText(f.textAgain()); err != nil {
		return err
	}
	if c, ok := f.like.Value(openUsage); ok {
		f.readUsage(&c)
	}
	if f.stop == "" {
		f.count(before)
	}
	return nil
}

func (f *chatReply) choice(c *jsonx.Cursor) error {
	var message jsonx.Cursor
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "delta":
			f.deltas = f.deltas || c.Kind() == '{'
			if err := f.message(c); err != nil {
				return err
			}
		case "message": // of a whole reply; Perplexity's streams have it beside delta
			message = *c
		case "finish_reason":
			if s, ok := c.Text(); ok && s != "" {
				f.stop = s
			}
		case "error":
			if c.Kind() == '{' {
				return streamError(append(append([]byte(`{"error":`), c.Raw()...), '}'))
			}
		}
	}
	if message.Key != nil && !f.deltas {
		return f.message(&message)
	}
	return nil
}

func (f *chatReply) message(c *jsonx.Cursor) error {
	for ok := c.Object(); ok && c.Member(); {
		var err error
		switch string(c.Key) {
		case "content":
			if c.Kind() == '[' {
				err = f.parts(c)
			} else {
				err = f.delta(c)
			}
		case "refusal":
			err = f.delta(c)
		case "reasoning_content", "reasoning":
			n := len(f.reasoning)
			f.reasoning, _ = c.AppendPiece(f.reasoning)
			if len(f.reasoning) > maxState {
				return tooMuch("reasoning")
			}
			f.thought(len(f.reasoning) - n)
		case "images", "audio":
			if k := c.Kind(); k == '[' || k == '{' {
				f.other = string(c.Key)
			}
		case "tool_calls":
			for ok := c.Array(); ok && c.Element(); {
				if err := f.piece(c); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parts reads a content that is a list of typed parts; a few compatible servers send
// it so.
func (f *chatReply) parts(c *jsonx.Cursor) error {
	for ok := c.Array(); ok && c.Element(); {
		kind := "text"
		var text jsonx.Cursor
		for ok := c.Object(); ok && c.Member(); {
			switch string(c.Key) {
			case "type":
				kind, _ = c.Text()
			case "text":
				text = *c
			}
		}
		if text.Key != nil && (kind == "text" || kind == "output_text") {
			if err := f.delta(&text); err != nil {
				return err
			}
		}
	}
	return nil
}

// piece reads a piece of a tool call and adds it to the call with its index or, for
// servers that send none, to the last call unless the piece has another id.
func (f *chatReply) piece(c *jsonx.Cursor) error {
	f.like.Spoil()
	index := int64(-1)
	var id, name string
	f.scratch = f.scratch[:0]
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "index":
			if n, ok := c.Int(); ok {
				index = n
			}
		case "id":
			id, _ = c.Text()
		case "function":
			for ok := c.Object(); ok && c.Member(); {
				switch string(c.Key) {
				case "name":
					name, _ = c.Text()
				case "arguments":
					if c.Kind() == '{' {
						f.scratch = append(f.scratch, c.Raw()...)
					} else {
						f.scratch, _ = c.AppendPiece(f.scratch)
					}
				}
			}
		}
	}
	at := -1
	for i := range f.pieces {
		if f.reply.whole {
			break // each is a call of its own, index or not
		}
		if p := &f.pieces[i]; index >= 0 && p.index == index || index < 0 && i == len(f.pieces)-1 && (id == "" || id == p.id) {
			at = i
		}
	}
	if at < 0 {
		if len(f.pieces) == maxCalls {
			return tooMuch("tool calls")
		}
		at = len(f.pieces)
		f.pieces = append(f.pieces, chatCall{index: index})
	}
	p := &f.pieces[at]
	if p.id == "" {
		p.id = id
	}
	if p.name == "" {
		p.name = name
	}
	if p.arguments = append(p.arguments, f.scratch...); len(p.arguments) > maxArguments {
		return tooMuch("tool arguments")
	}
	return nil
}

func (f *chatReply) readUsage(c *jsonx.Cursor) {
	if c.Kind() != '{' {
		return
	}
	u := &f.usage
	in, out := false, false
	var hit, total int64
	hits := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "prompt_tokens":
			in = u.read(c, &u.InputTokens)
		case "completion_tokens":
			out = u.read(c, &u.OutputTokens)
		case "prompt_cache_hit_tokens":
			hits = u.read(c, &hit)
		case "total_tokens":
			if n, ok := c.Int(); ok {
				total = n
			}
		case "prompt_tokens_details", "completion_tokens_details":
			for ok := c.Object(); ok && c.Member(); {
				switch string(c.Key) {
				case "cached_tokens":
					u.read(c, &u.CachedTokens)
				case "cache_write_tokens":
					u.read(c, &u.CacheWriteTokens)
				case "reasoning_tokens":
					u.read(c, &u.ReasoningTokens)
				}
			}
		}
	}
	if hits {
		u.CachedTokens = hit
	}
	// xAI counts reasoning beside completion_tokens, all others inside them.
	if r := u.ReasoningTokens; out && r > 0 && (r > u.OutputTokens || total == u.InputTokens+u.OutputTokens+r) {
		u.OutputTokens += r
	}
	u.known = in && out
}

// done ends the reply. A reply that the vendor ended with an unknown reason is
// complete.
func (f *chatReply) done() error {
	var stop stoa.Stop
	switch f.stop {
	case "":
		return truncated()
	case "length", "max_tokens", "model_length":
		stop = stoa.StopLength
	case "content_filter":
		stop = stoa.StopContentFilter
	case "tool_calls", "function_call":
		stop = stoa.StopToolCalls
	case "insufficient_system_resource":
		return streamError([]byte(`{"error":{"type":"overloaded_error","message":"insufficient_system_resource"}}`))
	case "error":
		return streamError([]byte(`{"error":{"type":"error","message":"finish_reason error"}}`))
	default: // stop
		stop = stoa.StopEnd
	}
	for i, p := range f.pieces {
		call := stoa.ToolCall{ID: p.id, Name: p.name, Arguments: string(jsonx.Mend(p.arguments))}
		if call.ID == "" {
			call.ID = "call_" + strconv.Itoa(i) // some compatible servers send none
		}
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
		if err := f.called(call); err != nil {
			return err
		}
	}
	state := ""
	if f.route.Dialect == "deepseek" && len(f.reasoning) > 0 && f.keep {
		state = string(jsonx.Mend(f.reasoning))
	}
	return f.finish(stop, f.route, state)
}

func (f *chatReply) whole(data []byte) error {
	c := jsonx.NewReplyCursor(data)
	if !c.Done() {
		return truncated()
	}
	if err := f.chunk(data); err != nil {
		return err
	}
	return f.done()
}

// end is reached by a stream without [DONE]. OpenAI and DeepSeek always send it, so
// a stream without it was cut; many compatible servers never send it.
func (f *chatReply) end() error {
	if f.route.Dialect == "openai" || f.route.Dialect == "deepseek" {
		return truncated()
	}
	return f.done()
}
