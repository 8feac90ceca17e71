package wire

import (
	"slices"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A counter is a codec whose vendor can count input tokens.
type counter interface {
	// count turns the request for a call into a request for the counter without the members that
	// the counter does not define, because it refuses them.
	count(req *Request, route stoa.Route)
	// counted returns the name of the reply's member with the number.
	counted() string
}

// CountRequest builds the request to a vendor's token counter for a call. ok is false for a
// wire whose vendors do not count. It fails like [Codec.Encode].
func CountRequest(call stoa.Call, route stoa.Route, apiKey string) (req Request, ok bool, err error) {
	c, ok := codecs[route.Wire].(counter)
	if !ok {
		return Request{}, false, nil
	}
	call.Whole, call.MaxOutputTokens, call.Temperature, call.TopP = true, 0, nil, nil
	call, _ = Relax(call, route)
	if req, err = codecs[route.Wire].Encode(call, route, apiKey); err != nil {
		return Request{}, false, err
	}
	c.count(&req, route)
	return req, true, nil
}

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

// DecodeCount reads the reply of a vendor's counter; ok is false if it does not contain a
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
