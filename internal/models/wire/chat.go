package wire

import (
	"bytes"
	"io"
	"iter"
	"net/http"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
)

// chat is the chat completions format of DeepSeek (dialect deepseek), of OpenAI (openai), and
// of the many servers that imitate it (compatible, which an empty dialect means too).
//
// Its state is the reasoning text, which a server receives again in the member in which it sent
// it, because Moonshot and DeepSeek refuse a call without its reasoning, and the templates of
// self-hosted models use it. See [reasoningOf].
type chat struct{}

// Encode implements [Codec] for chat completions of OpenAI, DeepSeek and
// compatible servers.
func (chat) Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error) {
	openai, deepseek := route.Dialect == "openai", route.Dialect == "deepseek"
	w := newBuilder(call)
	w.open('{')
	w.member("model", route.Model)
	if err := encodeChatMessages(w, call, route); err != nil {
		return Request{}, err
	}
	// A compatible server does not receive Stoa's default, because that may exceed its context; the server's own fits it.
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
	if least := 1e-6; topP != nil && *topP == 0 && !openai { // because others require more than 0
		topP = &least
	}
	w.number("top_p", topP)
	if !openai || route.Traits.Sampling != "none" { // because OpenAI's models without sampling refuse it
		w.stops("stop", call.Stops)
	}
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
	switch {
	case openai:
		w.optional("prompt_cache_key", call.CacheKey)
	case deepseek:
		w.optional("user_id", call.CacheKey)
	}
	if err := encodeChatOptions(w, call, route); err != nil {
		return Request{}, err
	}
	w.close('}')
	return Request{Path: "/chat/completions", Header: bearer(call, apiKey), Body: w.b, Reasoning: w.reasoning, Described: w.described}, nil
}

func (chat) vendor(route stoa.Route) schema.Vendor {
	switch route.Dialect {
	case "openai":
		return schema.OpenAI
	case "deepseek":
		return schema.DeepSeek
	}
	return schema.Compatible
}

// DecodeError implements [Codec].
func (chat) DecodeError(status int, h http.Header, body []byte) *Failure {
	return decodeError(status, h, body)
}

// Decode implements [Codec].
func (chat) Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[*stoa.Event, error] {
	return read(body, want, false, func(r *reply) format { return &chatReply{reply: r, route: route} })
}

type chatReply struct {
	*reply
	route     stoa.Route
	chosen    bool  // a choice arrived
	requested int64 // its index
	stop      string
	deltas    bool // a delta arrived, so that a message next to it is ignored: it repeats the text
	pieces    []chatCall
	at        int    // index of the open or the next call
	late      []byte // text that arrived inside it
	reasoning []byte
	member    string // of the reasoning
	thinks    bool   // reasoning arrived, even if only an empty text
	owed      bool   // reasoning arrived that was not emitted as a state
	sent      int    // bytes of reasoning emitted
	scratch   []byte
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

// chunk reads one chunk, or a whole reply, which differs in one member name.
func (f *chatReply) chunk(data []byte) error {
	before := f.usage
	c := jsonx.NewReplyCursor(data)
	failed := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "choices":
			read := false
			for ok := c.Array(); ok && c.Element(); {
				if read || !f.isRequested(c) {
					continue
				}
				read = true
				if err := f.choice(&c); err != nil {
					return err
				}
			}
		case "usage":
			f.readUsage(&c)
		case "error":
			failed = c.Kind() == '{' || c.Kind() == '"'
		}
	}
	if !c.Done() {
		return broken("a chunk that is not JSON")
	}
	if failed {
		return streamError(data)
	}
	if f.stop == "" {
		f.count(before)
	}
	return nil
}

// isRequested reports whether the choice at the cursor has the index of the first one, which is 0
// at nearly all servers, since only one was requested.
func (f *chatReply) isRequested(c jsonx.Cursor) bool {
	index := f.requested
	for ok := c.Object(); ok && c.Member(); {
		if string(c.Key) == "index" {
			if n, ok := c.Int(); ok {
				index = n
			}
			break
		}
	}
	if !f.chosen {
		f.chosen, f.requested = true, index
	}
	return index == f.requested
}

func (f *chatReply) choice(c *jsonx.Cursor) error {
	var message jsonx.Cursor
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "delta":
			if f.reply.whole { // counts only if there is no message
				if message.Key == nil {
					message = *c
				}
				break
			}
			f.deltas = f.deltas || c.Kind() == '{'
			if err := f.message(c); err != nil {
				return err
			}
		case "message": // of a whole reply; Perplexity has it next to delta in both
			if c.Kind() == '{' {
				message = *c
			}
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
	var calls, content jsonx.Cursor
	before := len(f.reasoning)
	for ok := c.Object(); ok && c.Member(); {
		var err error
		switch string(c.Key) {
		case "content":
			if f.reply.whole { // reasoning precedes it, regardless of its position
				content = *c
				break
			}
			err = f.content(c)
		case "refusal":
			err = f.refusal(c)
		case "reasoning_content", "reasoning":
			if value := *c; f.member != "reasoning_content" && len(value.Name()) > 0 {
				f.member = string(c.Key)
			}
			if len(f.reasoning) == before { // because some servers send both, with the same text
				err = f.think(c)
			}
		case "images", "audio":
			if k := c.Kind(); k == '[' || k == '{' {
				f.other = string(c.Key)
			}
		case "tool_calls":
			calls = *c // text precedes them, regardless of their position
		}
		if err != nil {
			return err
		}
	}
	if content.Key != nil {
		if err := f.content(&content); err != nil {
			return err
		}
	}
	if calls.Key != nil {
		for ok := calls.Array(); ok && calls.Element(); {
			if err := f.piece(&calls); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *chatReply) think(c *jsonx.Cursor) error {
	first := !f.thinks && c.Kind() == '"'
	f.thinks = f.thinks || first
	n, piece := len(f.reasoning), *c
	f.reasoning, _ = c.AppendPiece(f.reasoning)
	if len(f.reasoning) > maxState {
		return tooMuch("reasoning")
	}
	if first && f.route.Dialect == "deepseek" || len(f.reasoning) > n { // because DeepSeek requires even an empty text back
		f.owed = true
	}
	f.thought(len(f.reasoning) - n)
	if f.want.Summary && f.route.Dialect != "deepseek" && !f.inCall() {
		return f.summary(&piece)
	}
	return nil
}

// content reads a piece of text, which may be a list of parts.
func (f *chatReply) content(c *jsonx.Cursor) error {
	if c.Kind() == '[' {
		return f.parts(c)
	}
	return f.text(c)
}

func (f *chatReply) text(c *jsonx.Cursor) error {
	if text := *c; f.owed && !f.inCall() && len(text.Name()) > 0 {
		if err := f.emitReasoning(); err != nil {
			return err
		}
	}
	return f.say(f.join.Next(c))
}

// parts reads a content that is a list of typed parts, as a few compatible servers send it.
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
			if err := f.text(&text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *chatReply) readUsage(c *jsonx.Cursor) {
	if c.Kind() != '{' {
		return
	}
	u, earlier := &f.usage, f.usage.Usage
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
			u.readDetails(c)
		}
	}
	if hits {
		u.CachedTokens = hit
	}
	u.keep(earlier)
	// Added here, because xAI counts reasoning besides completion_tokens, all others as part of them.
	if r := u.ReasoningTokens; out && r > 0 && (r > u.OutputTokens || total == u.InputTokens+u.OutputTokens+r) {
		u.OutputTokens += r
	}
	if in {
		u.addDetails(total)
	}
	u.known = in && out
}

func (f *chatReply) done() error {
	if f.stop == "" {
		return truncated()
	}
	stop, err := f.stopOf(f.stop)
	if err != nil {
		return err
	}
	return f.endCalls(stop)
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

// end handles the end of a stream without [DONE]. At OpenAI and DeepSeek the stream was cut, because
// they always send it; many compatible servers never do.
func (f *chatReply) end() error {
	if f.route.Dialect == "openai" || f.route.Dialect == "deepseek" {
		return truncated()
	}
	return f.done()
}
