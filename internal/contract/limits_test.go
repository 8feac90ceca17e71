package contract_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/contract"
)

// TestRequestsAreLimited fails for a parameter or a member of a request body
// that has no maximum: maxLength of a string, maxItems of an array, maximum (and
// minimum) of a number, maxProperties of a free-form object. What a caller may
// send without end is stored, logged and repeated without end.
func TestRequestsAreLimited(t *testing.T) {
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range doc.Paths.InMatchingOrder() {
		item := doc.Paths.Value(path)
		for method, op := range item.Operations() {
			name := method + " " + path
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				limited(t, name+" "+p.Value.In+" "+p.Value.Name, p.Value.Schema, map[*openapi3.Schema]bool{})
			}
			if op.RequestBody == nil {
				continue
			}
			for media, body := range op.RequestBody.Value.Content {
				if body.Schema.Value.Format != "binary" { // limited by the body's own limit
					limited(t, name+" "+media, body.Schema, map[*openapi3.Schema]bool{})
				}
			}
		}
	}
}

// limited fails the test for every part of a schema without a maximum.
func limited(t *testing.T, at string, ref *openapi3.SchemaRef, above map[*openapi3.Schema]bool) {
	t.Helper()
	s := ref.Value
	if above[s] {
		t.Errorf("%s contains itself: its depth has no maximum", at)
		return
	}
	above[s] = true
	defer delete(above, s)
	for _, list := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range list {
			limited(t, at, part, above)
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
			limited(t, at+"[]", s.Items, above)
		}
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		if s.Max == nil || s.Min == nil {
			t.Errorf("%s: a number without minimum and maximum", at)
		}
	case s.Type.Includes("object"):
		free := s.AdditionalProperties
		if free.Schema != nil {
			limited(t, at+".*", free.Schema, above)
		}
		if (free.Schema != nil || free.Has == nil || *free.Has) && s.MaxProps == nil && len(s.AllOf) == 0 {
			t.Errorf("%s: an object with members of any name without maxProperties", at)
		}
	case s.Extensions["x-ignored"] == true: // not even its type is read
	case s.Type.Is("boolean"), len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0:
	default:
		t.Errorf("%s: a schema without a type", at)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		limited(t, fmt.Sprintf("%s.%s", at, name), s.Properties[name], above)
	}
}

// fixedFormat are the formats of strings that the checker of requests parses and
// that have a greatest length by themselves.
var fixedFormat = map[string]bool{"date-time": true, "date": true, "binary": true}
