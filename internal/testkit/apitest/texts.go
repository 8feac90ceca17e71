package apitest

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// A Text is a place in a request where the contract accepts any text: a parameter of the
// query, or a member of the body.
type Text struct {
	Name string // of the parameter or member
	At   string // the member's path
	// With returns the request with text in that place.
	With func(text string) Request
}

// Texts returns the places of texts in requests of the operation. r is the request into which
// they are inserted.
func (op Operation) Texts(r Request) []Text {
	var list []Text
	for _, p := range op.parameters() {
		if p.In == openapi3.ParameterInQuery && isFree(p.Schema.Value) {
			list = append(list, Text{p.Name, p.Name, func(text string) Request {
				path, raw, _ := strings.Cut(r.Path, "?")
				query, _ := url.ParseQuery(raw)
				query.Set(p.Name, text)
				changed := r
				changed.Path = path + "?" + query.Encode()
				return changed
			}})
		}
	}
	if !op.TakesJSON() {
		return list
	}
	schema := op.RequestBody.Value.Content["application/json"].Schema.Value
	eachText(schema, r.Body, "", "", 0, func(name, at string, with func(string) any) {
		list = append(list, Text{name, strings.TrimPrefix(at, "."), func(text string) Request {
			changed := r
			changed.Body = with(text)
			return changed
		}})
	})
	return list
}

// isFree reports whether a schema accepts any text, and so any id.
func isFree(s *openapi3.Schema) bool {
	return s.Type.Includes(openapi3.TypeString) && len(s.Enum) == 0 && s.Format == "" && s.Pattern == ""
}

// eachText calls fn for every text inside a schema. with returns a copy of base, the value of
// the schema in the request, that contains the text.
func eachText(s *openapi3.Schema, base any, name, at string, depth int, fn func(name, at string, with func(string) any)) {
	if depth > 5 {
		return
	}
	for _, parts := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
		for _, part := range parts {
			eachText(part.Value, sampleOf(part.Value, nil, depth), name, at, depth+1, fn)
		}
	}
	switch {
	case isFree(s):
		fn(name, at, func(text string) any { return text })
	case s.Type.Includes(openapi3.TypeArray):
		eachText(s.Items.Value, sampleOf(s.Items.Value, nil, depth), name, at+"[0]", depth+1, func(name, at string, with func(string) any) {
			fn(name, at, func(text string) any { return []any{with(text)} })
		})
	case s.Type.Includes(openapi3.TypeObject):
		members, ok := base.(map[string]any)
		if !ok {
			members, _ = sampleOf(s, nil, depth).(map[string]any)
		}
		for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
			eachText(s.Properties[member].Value, members[member], member, at+"."+member, depth+1, func(name, at string, with func(string) any) {
				fn(name, at, func(text string) any {
					changed := maps.Clone(members)
					if changed == nil {
						changed = map[string]any{}
					}
					changed[member] = with(text)
					return changed
				})
			})
		}
	}
}

// Collection returns the segment of the path before a path parameter: the kind of object that
// its id names.
func (op Operation) Collection(parameter string) string {
	before, _, _ := strings.Cut(op.Path, "/{"+parameter+"}")
	return before[strings.LastIndexByte(before, '/')+1:]
}

// PathParameters returns the names of the operation's path parameters in order.
func (op Operation) PathParameters() []string {
	var list []string
	for _, segment := range strings.Split(op.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name, _, _ = strings.Cut(name, "}")
			list = append(list, name)
		}
	}
	return list
}

// SampleWith is [Operation.Sample] with an id for each path parameter.
func (op Operation) SampleWith(id func(parameter string) string) Request {
	r := op.Sample("x")
	_, query, has := strings.Cut(r.Path, "?")
	r.Path = op.Path
	for _, name := range op.PathParameters() {
		r.Path = strings.ReplaceAll(r.Path, "{"+name+"}", id(name))
	}
	if has {
		r.Path += "?" + query
	}
	return r
}
