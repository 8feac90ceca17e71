package wire

import (
	"slices"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// counted are the members of a request that a vendor's counter of tokens takes, by
// wire. A counter refuses the others.
var counted = map[string][]string{
	"messages":  {"model", "system", "messages", "tools", "tool_choice", "thinking", "output_config"},
	"responses": {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation"},
}

// CountRequest builds the request that asks a vendor how many input tokens a call has.
// ok is false on a wire whose vendors do not count. It fails like [Codec.Encode].
func CountRequest(call stoa.Call, route stoa.Route, apiKey string) (req Request, ok bool, err error) {
	codec, ok := codecs[route.Wire]
	if !ok || route.Wire == "chat" {
		return Request{}, false, nil
	}
	call.Whole, call.MaxOutputTokens, call.Temperature, call.TopP = true, 0, nil, nil
	if req, err = codec.Encode(call, route, apiKey); err != nil {
		return Request{}, false, err
	}
	switch route.Wire {
	case "messages":
		req.Path += "/count_tokens"
		req.Body = only(req.Body, counted["messages"])
	case "responses":
		req.Path += "/input_tokens"
		req.Body = only(req.Body, counted["responses"])
	case "gemini":
		req.Path = geminiPath(route, "countTokens")
		body := append([]byte(`{"generateContentRequest":{"model":`), jsonx.AppendString(nil, "models/"+geminiModel(route))...)
		req.Body = append(append(append(body, ','), req.Body[1:]...), '}')
	}
	return req, true, nil
}

// only returns an object with the members of those names.
func only(object []byte, names []string) []byte {
	out := &builder{}
	out.open('{')
	c := jsonx.NewCursor(object)
	for ok := c.Object(); ok && c.Member(); {
		if name := string(c.Key); slices.Contains(names, name) {
			out.key(name).raw(string(c.Raw()))
		}
	}
	out.close('}')
	return out.b
}

// DecodeCount reads the reply of a vendor's counter; ok is false for one that has no
// number of tokens.
func DecodeCount(wire string, body []byte) (tokens int64, ok bool) {
	name := "input_tokens"
	if wire == "gemini" {
		name = "totalTokens"
	}
	c := jsonx.NewReplyCursor(body)
	for more := c.Object(); more && c.Member(); {
		if string(c.Key) == name {
			tokens, ok = c.Int()
		}
	}
	return tokens, ok && c.Done() && tokens > 0 && tokens <= stoa.MaxTokens
}
