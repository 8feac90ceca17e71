package wire

import (
	"slices"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// A counter is a codec whose vendors count the tokens of an input.
type counter interface {
	// count turns the request for a call into one to the counter, which refuses members
	// that it does not take.
	count(req *Request, route stoa.Route)
	// counted is the member of the reply that has the number.
	counted() string
}

// CountRequest builds the request that asks a vendor how many input tokens a call has.
// ok is false on a wire whose vendors do not count. It fails like [Codec.Encode].
func CountRequest(call stoa.Call, route stoa.Route, apiKey string) (req Request, ok bool, err error) {
	c, ok := codecs[route.Wire].(counter)
	if !ok {
		return Request{}, false, nil
	}
	call.Whole, call.MaxOutputTokens, call.Temperature, call.TopP = true, 0, nil, nil
	if req, err = codecs[route.Wire].Encode(call, route, apiKey); err != nil {
		return Request{}, false, err
	}
	c.count(&req, route)
	return req, true, nil
}

// only returns an object with the members of those names.
func only(object []byte, names ...string) []byte {
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
	counts, ok := codecs[wire].(counter)
	if !ok {
		return 0, false
	}
	name := counts.counted()
	ok = false
	c := jsonx.NewReplyCursor(body)
	for more := c.Object(); more && c.Member(); {
		if string(c.Key) == name {
			tokens, ok = c.Int()
		}
	}
	return tokens, ok && c.Done() && tokens > 0 && tokens <= stoa.MaxTokens
}
