package fakeup

import (
	"fmt"
	"maps"
	"slices"
)

// A dialect is a vendor's dialect of JSON Schema: the keywords that it accepts or refuses.
type dialect struct {
	only    []string // the supported keywords; empty means all except the refused ones
	refused []string
	closed  bool // objects must set additionalProperties to false
	all     bool // all properties must be required
}

var (
	beyond = []string{"not", "if", "then", "else", "patternProperties", "propertyNames", "prefixItems", "contains", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"}

	openAIStrict    = dialect{refused: append([]string{"oneOf", "uniqueItems"}, beyond...), closed: true, all: true}
	anthropicStrict = dialect{refused: append([]string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems", "uniqueItems"}, beyond...), closed: true}
	geminiJSON      = dialect{refused: []string{"$schema"}}
	geminiSchema    = dialect{only: []string{"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties", "required", "propertyOrdering", "anyOf", "minimum", "maximum", "minLength", "maxLength", "minProperties", "maxProperties", "pattern", "example", "default"}}
)

// misfit returns a vendor's error about a schema; empty if it is valid.
func (d dialect) misfit(schema any, path string) string {
	s, ok := schema.(object)
	if !ok {
		return ""
	}
	for _, word := range slices.Sorted(maps.Keys(s)) {
		if len(d.only) > 0 && !slices.Contains(d.only, word) || slices.Contains(d.refused, word) {
			return fmt.Sprintf("%q is not permitted at '%s'", word, path)
		}
	}
	properties, _ := s["properties"].(object)
	if d.closed && (s["type"] == "object" || properties != nil) && s["additionalProperties"] != false {
		return fmt.Sprintf("'additionalProperties' is required to be supplied and to be false at '%s'", path)
	}
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if d.all && !slices.Contains(required, any(name)) {
			return fmt.Sprintf("'required' is required to be supplied and to be an array including every key in properties at '%s'. Missing '%s'", path, name)
		}
		if what := d.misfit(properties[name], path+"."+name); what != "" {
			return what
		}
	}
	for _, word := range []string{"$defs", "definitions"} {
		defs, _ := s[word].(object)
		for _, name := range slices.Sorted(maps.Keys(defs)) {
			if what := d.misfit(defs[name], path+"."+name); what != "" {
				return what
			}
		}
	}
	parts := []any{s["items"]}
	for _, word := range []string{"anyOf", "allOf", "oneOf"} {
		list, _ := s[word].([]any)
		parts = append(parts, list...)
	}
	for _, part := range parts {
		if what := d.misfit(part, path+".items"); what != "" {
			return what
		}
	}
	return ""
}
