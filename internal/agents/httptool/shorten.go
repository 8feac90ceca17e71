package httptool

import (
	"slices"
	"strings"

	"stoa/internal/agents/remote"
)

// A shortening makes the schema of a tool's arguments smaller. It never refuses arguments that
// the schema allows, because the server would have accepted them.
type shortening struct {
	text   int // characters of a description; 0 keeps only those of the arguments, at most 100
	levels int // depth from which schemas allow everything
}

// allLevels is more than a schema can have.
const allLevels = maxSchemaDepth + 2

// exact contains the keywords whose effect depends on what their schemas refuse.
var exact = []string{"not", "if", "then", "else", "contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties"}

func (s shortening) parameters(from map[string]any) map[string]any {
	out, _ := s.schema(from, 0).(map[string]any)
	if defs, ok := from["$defs"].(map[string]any); ok {
		used := map[string]bool{}
		all := map[string]any{}
		for name, v := range defs {
			all[name] = s.schema(v, 1)
		}
		delete(out, "$defs")
		s.mark(out, all, used)
		for name := range all {
			if !used[name] {
				delete(all, name)
			}
		}
		if len(all) > 0 {
			out["$defs"] = all
		}
	}
	return out
}

// mark records the definitions that a value references, directly or not.
func (s shortening) mark(v any, defs map[string]any, used map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if to, ok := v["$ref"].(string); ok {
			if name := strings.TrimPrefix(to, "#/$defs/"); !used[name] {
				used[name] = true
				s.mark(defs[name], defs, used)
			}
		}
		for _, member := range v {
			s.mark(member, defs, used)
		}
	case []any:
		for _, member := range v {
			s.mark(member, defs, used)
		}
	}
}

func (s shortening) schema(v any, depth int) any {
	from, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if depth > s.levels {
		return map[string]any{}
	}
	out := map[string]any{}
	for key, value := range from {
		switch text, isText := value.(string); {
		case key == "description" && isText:
			switch {
			case s.text > 0:
				out[key] = remote.Cut(text, s.text)
			case depth <= 1:
				out[key] = remote.Cut(text, 100)
			}
		case key == "title" && isText && s.text == 0:
		case s.levels < allLevels && slices.Contains(exact, key): // left out, because "not" a schema that allows more refuses more
		case s.levels < allLevels && key == "oneOf":
			if from["anyOf"] == nil { // instead of oneOf, because more than one may match now
				out["anyOf"] = s.keyword(key, value, depth)
			}
		default:
			out[key] = s.keyword(key, value, depth)
		}
	}
	return out
}

func (s shortening) keyword(key string, value any, depth int) any {
	switch {
	case slices.Contains(oneSchema, key):
		return s.schema(value, depth+1)
	case slices.Contains(listSchema, key):
		list, _ := value.([]any)
		out := make([]any, len(list))
		for i, item := range list {
			out[i] = s.schema(item, depth+1)
		}
		return out
	case slices.Contains(mapSchema, key):
		members, _ := value.(map[string]any)
		out := map[string]any{}
		for name, member := range members {
			out[name] = s.schema(member, depth+1)
		}
		return out
	}
	return value
}
