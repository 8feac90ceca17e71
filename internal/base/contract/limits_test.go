package contract_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/contract"
)

// TestRequestsAreLimited fails for a parameter or a member of a request body
// that has no maximum: maxLength of a string, maxItems of an array, maximum (and
// minimum) of a number, maxProperties of a free-form object. What a caller may
// send without end is stored, logged and repeated without end.
func TestRequestsAreLimited(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range doc.Paths.InMatchingOrder() {
		item := doc.Paths.Value(path)
		for method, op := range item.Operations() {
			name := method + " " + path
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				limits{t: t}.check(name+" "+p.Value.In+" "+p.Value.Name, p.Value.Schema)
			}
			if op.RequestBody == nil {
				continue
			}
			for media, body := range op.RequestBody.Value.Content {
				if body.Schema.Value.Format != "binary" { // limited by the body's own limit
					limits{t: t}.check(name+" "+media, body.Schema)
				}
			}
		}
	}
}

// TestRepliesAreLimited fails for a header or a member of a reply's body that has
// no maximum, as [TestRequestsAreLimited] does for requests. Files and exports are
// as long as what was stored.
func TestRepliesAreLimited(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range doc.Paths.InMatchingOrder() {
		for method, op := range doc.Paths.Value(path).Operations() {
			for status, ref := range op.Responses.Map() {
				name, l := method+" "+path+" "+status, limits{t: t, reply: true}
				for header, h := range ref.Value.Headers {
					l.check(name+" header "+header, h.Value.Schema)
				}
				for media, body := range ref.Value.Content {
					if body.Schema.Value.Format != "binary" && media != "application/jsonl" && media != "text/markdown" {
						l.check(name+" "+media, body.Schema)
					}
				}
			}
		}
	}
}

// limits fails its test for every part of a schema without a maximum.
type limits struct {
	t     *testing.T
	reply bool               // members may come that are not described
	above []*openapi3.Schema // of the part that is checked
}

func (l limits) check(at string, ref *openapi3.SchemaRef) {
	s, t := ref.Value, l.t
	t.Helper()
	if slices.Contains(l.above, s) {
		t.Errorf("%s contains itself: its depth has no maximum", at)
		return
	}
	l.above = append(slices.Clip(l.above), s)
	for _, list := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range list {
			l.check(at, part)
		}
	}
	if len(s.Enum) > 0 {
		return
	}
	switch {
	case s.Type.Includes("string"):
		if s.MaxLength == nil && !fixedFormat[s.Format] {
			t.Errorf("%s: a string without maxLength", at)
		}
	case s.Type.Includes("array"):
		if s.MaxItems == nil {
			t.Errorf("%s: an array without maxItems", at)
		}
		if s.MaxItems == nil || *s.MaxItems > 0 {
			l.check(at+"[]", s.Items)
		}
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		if s.Max == nil || s.Min == nil {
			t.Errorf("%s: a number without minimum and maximum", at)
		}
	case s.Type.Includes("object"):
		free := s.AdditionalProperties
		if free.Schema != nil {
			l.check(at+".*", free.Schema)
		}
		open := free.Has == nil && !l.reply || free.Has != nil && *free.Has
		if (free.Schema != nil || open) && s.MaxProps == nil && len(s.AllOf) == 0 {
			t.Errorf("%s: an object with members of any name without maxProperties", at)
		}
	case s.Extensions["x-ignored"] == true: // not even its type is read
	case s.Extensions["x-max-bytes"] != nil: // any JSON of the given size
	case s.Type.Is("boolean"), len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0:
	default:
		t.Errorf("%s: a schema without a type", at)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		l.check(fmt.Sprintf("%s.%s", at, name), s.Properties[name])
	}
}

// fixedFormat are the formats of strings that the checker of requests parses and
// that have a greatest length by themselves.
var fixedFormat = map[string]bool{"date-time": true, "date": true, "binary": true}
