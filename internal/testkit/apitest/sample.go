package apitest

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// A Request is a request that conforms to the contract.
type Request struct {
	Method, Path string
	Body         any               // may be nil
	Header       map[string]string // in addition to the usual ones
}

// Sample returns a request of the operation with everything that it requires: the contract's
// example for the body, or else the smallest valid one. Every parameter of the path without an example is id.
func (op Operation) Sample(id string) Request {
	r := Request{Method: op.Method, Path: op.Path, Header: map[string]string{}}
	query := url.Values{}
	for _, p := range op.parameters() {
		switch {
		case p.In == openapi3.ParameterInPath && p.Example != nil: // it names no object of an account
			r.Path = strings.ReplaceAll(r.Path, "{"+p.Name+"}", plain(p.Example))
		case p.In == openapi3.ParameterInPath:
			r.Path = strings.ReplaceAll(r.Path, "{"+p.Name+"}", id)
		case !p.Required:
		case p.In == openapi3.ParameterInQuery:
			query.Set(p.Name, plain(sampleOf(p.Schema.Value, p.Example, 0)))
		case p.In == openapi3.ParameterInHeader:
			r.Header[p.Name] = plain(sampleOf(p.Schema.Value, p.Example, 0))
		}
	}
	if len(query) > 0 {
		r.Path += "?" + query.Encode()
	}
	if op.RequestBody == nil {
		return r
	}
	media := op.RequestBody.Value.Content["application/json"]
	if media == nil {
		r.Body = "some text"
		r.Header["Content-Type"] = "text/plain"
		return r
	}
	r.Body = copyOf(media.Example)
	for _, e := range media.Examples {
		if r.Body == nil {
			r.Body = copyOf(e.Value.Value)
		}
	}
	if r.Body == nil {
		r.Body = sampleOf(media.Schema.Value, nil, 0)
	}
	return r
}

// VisitorOnly reports whether the operation requires the token of an embed instead of a key.
func (op Operation) VisitorOnly() bool {
	return op.Security != nil && len(*op.Security) > 0 && (*op.Security)[0]["embedToken"] != nil
}

// TakesJSON reports whether the operation has a JSON body.
func (op Operation) TakesJSON() bool {
	return op.RequestBody != nil && op.RequestBody.Value.Content["application/json"] != nil
}

func (op Operation) parameters() []*openapi3.Parameter {
	var list []*openapi3.Parameter
	for _, p := range Document().Paths.Value(op.Path).Parameters {
		list = append(list, p.Value)
	}
	for _, p := range op.Parameters {
		list = append(list, p.Value)
	}
	return list
}

// plain formats a sample for a query or a header.
func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// copyOf copies a JSON value. Examples belong to the document, which all tests of a process
// share, and callers may change a sample.
func copyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = copyOf(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = copyOf(e)
		}
		return out
	}
	return v
}

// sampleOf returns the smallest value that fits a schema.
func sampleOf(s *openapi3.Schema, example any, depth int) any {
	switch {
	case example != nil:
		return copyOf(example)
	case s.Example != nil:
		return copyOf(s.Example)
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return sampleOf(s.OneOf[0].Value, nil, depth+1)
	case len(s.AnyOf) > 0:
		return sampleOf(s.AnyOf[0].Value, nil, depth+1)
	case len(s.AllOf) > 0:
		return sampleOf(s.AllOf[0].Value, nil, depth+1)
	case s.Type.Is(openapi3.TypeBoolean):
		return true
	case s.Type.Is(openapi3.TypeInteger), s.Type.Is(openapi3.TypeNumber):
		if s.Min != nil {
			return *s.Min
		}
		return 1
	case s.Type.Is(openapi3.TypeArray):
		list := []any{}
		for range s.MinItems {
			list = append(list, sampleOf(s.Items.Value, nil, depth+1))
		}
		return list
	case s.Type.Is(openapi3.TypeObject):
		members := map[string]any{}
		for _, name := range s.Required {
			if depth < 8 {
				members[name] = sampleOf(s.Properties[name].Value, nil, depth+1)
			}
		}
		return members
	}
	switch {
	case s.Format == "date-time":
		return "2030-01-02T03:04:05Z"
	case strings.Contains(s.Pattern, "@"):
		return "someone@example.com"
	}
	return "text"[:min(4, maxLength(s))] + strings.Repeat("x", max(0, int(s.MinLength)-4))
}

func maxLength(s *openapi3.Schema) int {
	if s.MaxLength == nil {
		return 4
	}
	return int(*s.MaxLength)
}

// Send sends a sampled request.
func (c *Client) Send(r Request) *Reply {
	c.t.Helper()
	for name, value := range r.Header {
		c = c.With(name, value)
	}
	return c.Do(r.Method, r.Path, r.Body)
}

// SendForError is [Client.Send] for a reply that must be the given error.
func (c *Client) SendForError(code string, r Request) *Reply {
	c.t.Helper()
	reply := c.Send(r)
	if got := reply.Error().Code; got != code {
		c.t.Fatalf("%s %s answered %d %s, want %s: %.300s", r.Method, r.Path, reply.Status, got, code, reply.Body)
	}
	return reply
}
