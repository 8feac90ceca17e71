package wire

import (
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
)

// gemini is Google's generateContent format.
//
// Its state is the list of the reply's parts, because a thought signature has to be sent back on
// the part that it arrived with.
type gemini struct{}

// Encode implements [Codec] for generateContent of Gemini.
func (gemini) Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error) {
	w := newBuilder(call)
	if err := encodeGemini(w, call, route); err != nil {
		return Request{}, err
	}
	h := header(call, [2]string{"X-Goog-Api-Key", apiKey})
	method := "streamGenerateContent?alt=sse"
	if call.Whole {
		method = "generateContent"
	}
	return Request{Path: geminiPath(route, method), Header: h, Body: w.b, Reasoning: w.reasoning, Described: w.described}, nil
}

func geminiPath(route stoa.Route, method string) string {
	return "/v1beta/models/" + url.PathEscape(geminiModel(route)) + ":" + method
}

// geminiModel returns the name of the route's model without the prefix models/ of the
// vendor's own lists.
func geminiModel(route stoa.Route) string { return strings.TrimPrefix(route.Model, "models/") }

func encodeGeminiText(w *builder, s string) {
	w.open('{')
	w.member("text", s)
	w.close('}')
}

func (gemini) vendor(stoa.Route) schema.Vendor { return schema.GeminiTools }

// eitherFormatOrTools reports whether the model does not accept a format together with tools,
// as Google's models before the third generation.
func (gemini) eitherFormatOrTools(route stoa.Route) bool { return isOldGemini(route) }

func (gemini) count(req *Request, route stoa.Route) {
	req.Path = geminiPath(route, "countTokens")
	body := append([]byte(`{"generateContentRequest":{"model":`), jsonx.AppendString(nil, "models/"+geminiModel(route))...)
	req.Body = append(append(append(body, ','), req.Body[1:]...), '}')
}

func (gemini) counted() string { return "totalTokens" }

// DecodeError implements [Codec].
func (gemini) DecodeError(status int, h http.Header, body []byte) *Failure {
	return decodeError(status, h, body)
}

// Decode implements [Codec].
func (gemini) Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[*stoa.Event, error] {
	return read(body, want, true, func(r *reply) format { return &geminiReply{reply: r, route: route} })
}

type geminiReply struct {
	*reply
	route   stoa.Route
	stop    string
	blocked bool
	open    *geminiCall // a call that arrives in pieces
	said    bool        // text arrived since the last other item
}

func (f *geminiReply) event(ev sse.Event) error {
	if !isObject(ev.Data) {
		return nil
	}
	return f.chunk(ev.Data)
}

func (f *geminiReply) chunk(data []byte) error {
	before := f.usage
	c := jsonx.NewReplyCursor(data)
	failed := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "candidates":
			if ok := c.Array(); ok && c.Element() {
				if err := f.candidate(&c); err != nil {
					return err
				}
				for c.Element() { // only one was requested
				}
			}
		case "usageMetadata":
			f.readUsage(&c)
		case "promptFeedback":
			for ok := c.Object(); ok && c.Member(); {
				if string(c.Key) == "blockReason" {
					f.blocked = len(c.Name()) > 0
				}
			}
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

func (f *geminiReply) candidate(c *jsonx.Cursor) error {
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "content":
			for ok := c.Object(); ok && c.Member(); {
				if string(c.Key) != "parts" {
					continue
				}
				for ok := c.Array(); ok && c.Element(); {
					if err := f.part(c); err != nil {
						return err
					}
				}
			}
		case "finishReason":
			if s, ok := c.Text(); ok && s != "" {
				f.stop = s
			}
		}
	}
	return nil
}

func (f *geminiReply) part(c *jsonx.Cursor) error {
	var text, call jsonx.Cursor
	var signature []byte
	thought := false
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "text":
			text = *c
		case "thought":
			thought, _ = c.Bool()
		case "thoughtSignature":
			if c.Kind() == '"' {
				signature = c.Raw()
			}
		case "functionCall":
			if c.Kind() == '{' {
				call = *c
			}
		case "inlineData", "fileData", "executableCode", "codeExecutionResult":
			f.other = string(c.Key)
		}
	}
	switch {
	case call.Key != nil:
		return f.call(&call, signature)
	case text.Key == nil:
	case thought:
		piece := text
		f.thought(len(piece.Name()))
		if f.want.Summary {
			f.said = false
			return f.summary(&text)
		}
	case signature != nil:
		// The signature is dropped inside a text, because the vendor does not require it, and it would split the text into
		// two items. An empty text cannot keep one.
		piece := f.join.Next(&text)
		if piece != "" && !f.said {
			if err := f.signed("text", signature); err != nil {
				return err
			}
		}
		return f.addText(piece)
	default:
		return f.addText(f.join.Next(&text))
	}
	return nil
}

func (f *geminiReply) addText(text string) error {
	f.said = f.said || text != ""
	return f.emitText(text)
}

// A geminiCall is a call, or a piece of one.
type geminiCall struct {
	id, name  string
	arguments []byte // whole
	pieces    []byte // the list of partialArgs
	more      bool   // further pieces follow

	tree      *argument
	size      int
	signature []byte
}

func readFunctionCall(c *jsonx.Cursor) (fc geminiCall) {
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "id":
			fc.id, _ = c.Text()
		case "name":
			fc.name, _ = c.Text()
		case "args":
			if c.Kind() == '{' {
				fc.arguments = c.Raw()
			}
		case "partialArgs":
			fc.pieces = c.Raw()
		case "willContinue":
			fc.more, _ = c.Bool()
		}
	}
	return fc
}

// call reads a functionCall. A piece with a name begins a call, a piece without one continues
// the open call; the first without willContinue ends it.
func (f *geminiReply) call(c *jsonx.Cursor, signature []byte) error {
	fc := readFunctionCall(c)
	if fc.name != "" || f.open == nil {
		if err := f.closeCall(); err != nil {
			return err
		}
		next := fc
		next.arguments = slices.Clone(fc.arguments)
		f.open = &next
	}
	open := f.open
	if open.signature == nil {
		open.signature = slices.Clone(signature)
	}
	if open.id == "" {
		open.id = fc.id
	}
	if fc.arguments != nil {
		open.arguments = slices.Clone(fc.arguments)
	}
	if err := open.add(fc.pieces); err != nil {
		return err
	}
	if fc.more {
		return nil
	}
	return f.closeCall()
}

func (f *geminiReply) closeCall() error {
	open := f.open
	if open == nil {
		return nil
	}
	f.open = nil
	if open.tree != nil {
		open.arguments = open.tree.append(nil)
	}
	if open.arguments == nil {
		open.arguments = []byte("{}")
	}
	if err := f.wholeCall(open); err != nil {
		return err
	}
	return f.endCall()
}

// geminiCounts are the counts of a chunk as the vendor sends them.
type geminiCounts struct {
	prompt, tools, cached, thoughts, candidates int64
	known                                       bool // one of them is known, besides candidates
	made                                        bool // candidates is known
	bad                                         bool // a value is not a count
}

func (n *geminiCounts) read(c *jsonx.Cursor, into *int64) (counted bool) {
	var u counts
	counted = u.read(c, into)
	n.bad = n.bad || u.bad
	return counted
}

// readUsage replaces the usage by that of a chunk, if it has any counts; see [counts.keep].
func (f *geminiReply) readUsage(c *jsonx.Cursor) {
	var n geminiCounts
	for ok := c.Object(); ok && c.Member(); {
		counted := false
		switch string(c.Key) {
		case "promptTokenCount":
			counted = n.read(c, &n.prompt)
		case "toolUsePromptTokenCount":
			counted = n.read(c, &n.tools)
		case "cachedContentTokenCount":
			counted = n.read(c, &n.cached)
		case "thoughtsTokenCount":
			counted = n.read(c, &n.thoughts)
		case "candidatesTokenCount":
			n.made = n.read(c, &n.candidates)
		}
		n.known = n.known || counted
	}
	u := counts{known: n.known || n.made, bad: n.bad || f.usage.bad}
	u.InputTokens, u.CachedTokens = n.prompt+n.tools, n.cached
	u.OutputTokens, u.ReasoningTokens = n.candidates+n.thoughts, n.thoughts
	if u.known || u.bad {
		u.keep(f.usage.Usage)
		f.usage = u
	}
}

func (f *geminiReply) whole(data []byte) error {
	c := jsonx.NewReplyCursor(data)
	if !c.Done() {
		return truncated()
	}
	c = jsonx.NewReplyCursor(data)
	if c.Kind() != '[' {
		return f.chunk(data)
	}
	for ok := c.Array(); ok && c.Element(); {
		if err := f.chunk(c.Raw()); err != nil {
			return err
		}
	}
	return nil
}

// end ends the reply. A finishReason completes it, because the format has no terminator. Unknown
// reasons fail like OTHER, because all of this vendor's reasons except the first ones mean that
// something went wrong.
func (f *geminiReply) end() error {
	var stop stoa.Stop
	switch f.stop {
	case "STOP":
		stop = stoa.StopEnd
	case "MAX_TOKENS", "CONTINUATION":
		stop = stoa.StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE":
		stop = stoa.StopContentFilter
	case "":
		if !f.blocked {
			return truncated()
		}
		stop = stoa.StopContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		if f.stop == "MALFORMED_FUNCTION_CALL" && f.want.Tools && f.reply.text == 0 && f.calls == 0 {
			return broken("finishReason " + bounded(f.stop)) // retried, because another attempt may write a valid call
		}
		if err := f.emitText(f.join.Rest()); err != nil {
			return err
		}
		f.emit(stoa.Event{Kind: stoa.Called})
		if f.open, stop = nil, stoa.StopEnd; f.want.Tools {
			stop = stoa.StopCallsDropped
		}
	default:
		return broken("finishReason " + bounded(f.stop))
	}
	if f.open != nil {
		if stop == stoa.StopEnd {
			return broken("a function call that does not end")
		}
		call := f.open
		call.arguments = nil
		if call.tree != nil {
			call.arguments = call.tree.append(nil)
		}
		if err := f.wholeCall(call); err != nil {
			return err
		}
		if err := f.cutCall(); err != nil {
			return err
		}
		f.open = nil // cut off with the reply
	}
	return f.finish(stop)
}
