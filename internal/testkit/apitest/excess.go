package apitest

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// An Excess is a sample of an operation with one value beyond its limit.
type Excess struct {
	At      string // the parameter or the member's path
	InPath  bool   // the value is an id in the path
	Request Request
}

// Excesses returns a request for every limit of the operation's parameters and body, to
// reveal limits that are not enforced. Limits above 2 million are left out: the maximum size
// of the body is lower.
func (op Operation) Excesses(id string) []Excess {
	var list []Excess
	for _, p := range op.parameters() {
		for _, x := range excess(p.Schema.Value, 0) {
			value := plain(x.value)
			if items, ok := x.value.([]any); ok {
				var texts []string
				for _, v := range items {
					texts = append(texts, plain(v))
				}
				value = strings.Join(texts, ",")
			}
			r := op.Sample(id)
			switch p.In {
			case openapi3.ParameterInPath:
				_, query, _ := strings.Cut(r.Path, "?")
				r.Path = strings.ReplaceAll(op.Path, "{"+p.Name+"}", value)
				for _, other := range op.parameters() {
					r.Path = strings.ReplaceAll(r.Path, "{"+other.Name+"}", id)
				}
				r.Path += "?" + query
			case openapi3.ParameterInQuery:
				path, raw, _ := strings.Cut(r.Path, "?")
				query, _ := url.ParseQuery(raw) // from Sample, so it is valid
				query.Set(p.Name, value)
				r.Path = path + "?" + query.Encode()
			case openapi3.ParameterInHeader:
				r.Header[p.Name] = value
			}
			list = append(list, Excess{At: p.Name, InPath: p.In == openapi3.ParameterInPath, Request: r})
		}
	}
	if !op.TakesJSON() {
		return list
	}
	for _, x := range excess(op.RequestBody.Value.Content["application/json"].Schema.Value, 0) {
		r := op.Sample(id)
		r.Body = x.value
		list = append(list, Excess{At: strings.TrimPrefix(x.at, "."), Request: r})
	}
	return list
}

// most is the maximum size of the lists and texts of an [Excess].
const most = 2_000_000

// An excessValue is a value that fits a schema except in one place.
type excessValue struct {
	at    string // path within the value: .name, [0]
	value any
}

// excess returns a value for every limit in a schema.
func excess(s *openapi3.Schema, depth int) []excessValue {
	var list []excessValue
	if depth > 6 || len(s.Enum) > 0 {
		return nil
	}
	for _, parts := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
		for _, part := range parts {
			list = append(list, excess(part.Value, depth+1)...)
		}
	}
	add := func(at string, value any) { list = append(list, excessValue{at, value}) }
	switch {
	case s.Type.Includes(openapi3.TypeString):
		if s.MaxLength != nil && *s.MaxLength < most {
			add("", strings.Repeat("x", int(*s.MaxLength)+1))
		}
	case s.Type.Includes(openapi3.TypeInteger), s.Type.Includes(openapi3.TypeNumber):
		if s.Max != nil {
			add("", *s.Max+1)
		}
		if s.Min != nil {
			add("", *s.Min-1)
		}
	case s.Type.Includes(openapi3.TypeArray):
		if s.MaxItems != nil && *s.MaxItems < most {
			item := sampleOf(s.Items.Value, nil, depth+1)
			add("", slices.Repeat([]any{item}, int(*s.MaxItems)+1))
		}
		for _, x := range excess(s.Items.Value, depth+1) {
			add("[0]"+x.at, []any{x.value})
		}
	case s.Type.Includes(openapi3.TypeObject):
		base := func() map[string]any { return sampleOf(s, nil, depth).(map[string]any) }
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			for _, x := range excess(s.Properties[name].Value, depth+1) {
				v := base()
				v[name] = x.value
				add("."+name+x.at, v)
			}
		}
		var member any = 0
		if free := s.AdditionalProperties.Schema; free != nil {
			member = sampleOf(free.Value, nil, depth+1)
			for _, x := range excess(free.Value, depth+1) {
				v := base()
				v["x"] = x.value
				add(".x"+x.at, v)
			}
		}
		if s.MaxProps != nil {
			v := base()
			for i := range int(*s.MaxProps) + 1 {
				v["x"+strconv.Itoa(i)] = member
			}
			add("", v)
		}
	}
	return list
}
