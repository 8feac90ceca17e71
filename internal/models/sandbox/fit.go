package sandbox

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
)

// Limits of a JSON text that is made to fit a schema.
const (
	maxValues = 10_000 // maximum number of generated values
	maxLevels = 32     // nested schemas
	deep      = 6      // nesting level below which optional parts are left out
)

// fitting returns a JSON text that fits a JSON Schema, always the same one. Strings are the
// names of their properties unless the schema requires otherwise. It ignores some keywords:
// pattern, not, if and those about the names of properties.
func fitting(schema string) string {
	var root any
	if jsonx.Lenient([]byte(schema), &root) != nil {
		return "{}"
	}
	f := fitter{root: root, left: maxValues}
	out, err := jsonx.Marshal(f.value(root, "value", 0))
	if err != nil {
		return "{}"
	}
	return string(out)
}

func arguments(parameters string) string {
	if out := fitting(parameters); strings.HasPrefix(out, "{") {
		return out
	}
	return "{}"
}

type fitter struct {
	root any
	left int // number of values that may still be generated
}

// value returns a value for a schema. name is the name of the property, or of the enclosing
// one.
func (f *fitter) value(schema any, name string, level int) any {
	f.left--
	s, ok := schema.(map[string]any)
	if !ok || level > maxLevels || f.left < 0 {
		if schema == true {
			return name
		}
		return nil
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return list[0]
	}
	if ref, ok := s["$ref"].(string); ok {
		return f.value(merged(f.at(ref), without(s, "$ref")), name, level+1)
	}
	if list, ok := s["allOf"].([]any); ok {
		all := any(without(s, "allOf"))
		for _, part := range list {
			all = merged(all, part)
		}
		return f.value(all, name, level+1)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if list, ok := s[word].([]any); ok && len(list) > 0 {
			branch := list[0]
			if level > deep { // the shortest way out of a recursive schema
				branch = slices.MinFunc(list, func(a, b any) int { return weight(a) - weight(b) })
			}
			return f.value(merged(branch, without(s, word)), name, level+1)
		}
	}
	switch kindOf(s, level) {
	case "object":
		return f.object(s, level)
	case "array":
		return f.array(s, name, level)
	case "integer":
		return number(s, 1)
	case "number":
		return number(s, 0)
	case "boolean":
		return true
	case "null":
		return nil
	}
	return text(s, name)
}

func (f *fitter) at(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return true
	}
	v := f.root
	for _, key := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if key == "" {
			continue
		}
		m, _ := v.(map[string]any)
		v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
	}
	if v == nil {
		return true
	}
	return v
}

func without(s map[string]any, word string) map[string]any {
	out := maps.Clone(s)
	delete(out, word)
	return out
}

func merged(a, b any) any {
	x, ok := a.(map[string]any)
	if !ok {
		return b
	}
	y, ok := b.(map[string]any)
	if !ok {
		return a
	}
	out := maps.Clone(x)
	for word, v := range y {
		switch old := out[word].(type) {
		case map[string]any:
			if more, ok := v.(map[string]any); ok && word == "properties" {
				v = merged(old, more)
			}
		case []any:
			if more, ok := v.([]any); ok && word == "required" {
				v = append(slices.Clip(old), more...)
			}
		}
		out[word] = v
	}
	return out
}

func weight(schema any) int {
	s, _ := schema.(map[string]any)
	switch {
	case s["type"] == "null":
		return 0
	case s["const"] != nil || s["enum"] != nil:
		return 1
	case s["$ref"] != nil || s["properties"] != nil || s["items"] != nil || s["allOf"] != nil || s["anyOf"] != nil:
		return 3
	}
	return 2
}

func kindOf(s map[string]any, level int) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if level > deep && slices.Contains(t, "null") {
			return "null"
		}
		for _, v := range t {
			if kind, ok := v.(string); ok && kind != "null" {
				return kind
			}
		}
		return "null"
	}
	for _, word := range []struct{ has, kind string }{
		{"properties", "object"},
		{"required", "object"},
		{"items", "array"},
		{"prefixItems", "array"},
		{"minimum", "number"},
		{"maximum", "number"},
		{"multipleOf", "number"},
	} {
		if _, ok := s[word.has]; ok {
			return word.kind
		}
	}
	return "string"
}

// object returns an object with all properties, or with only the required ones if it is nested
// deeply, so that a recursive schema ends.
func (f *fitter) object(s map[string]any, level int) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	rest := s["additionalProperties"]
	if rest == nil || rest == false {
		rest = true
	}
	names := map[string]bool{} // true: declared
	for _, v := range required {
		if name, ok := v.(string); ok {
			names[name] = properties[name] != nil
		}
	}
	if level <= deep {
		for name := range properties {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			out[name] = f.value(properties[name], name, level+1)
		} else {
			out[name] = f.value(rest, name, level+1)
		}
	}
	for n := 1; len(out) < countOf(s, "minProperties", 0) && f.left > 0; n++ {
		out[fmt.Sprintf("key%d", n)] = f.value(rest, "value", level+1)
	}
	return out
}

func (f *fitter) array(s map[string]any, name string, level int) any {
	out := []any{}
	first, _ := s["prefixItems"].([]any)
	for _, schema := range first {
		out = append(out, f.value(schema, name, level+1))
	}
	n := countOf(s, "minItems", 0)
	if level <= deep && len(first) == 0 {
		n = max(n, min(1, countOf(s, "maxItems", 1)))
	}
	items := s["items"]
	if items == nil {
		items = true
	}
	unique := s["uniqueItems"] == true
	for i := len(out); i < n && f.left > 0; i++ {
		v := f.value(items, name, level+1)
		if unique && i > 0 {
			v = other(items, v, i)
		}
		out = append(out, v)
	}
	return out
}

func other(schema, v any, i int) any {
	if s, _ := schema.(map[string]any); s != nil {
		if list, ok := s["enum"].([]any); ok && i < len(list) {
			return list[i]
		}
	}
	switch v := v.(type) {
	case string:
		return fmt.Sprint(v, i)
	case float64:
		return v + float64(i)
	case bool:
		return !v
	}
	return v
}

// countOf returns a keyword's integer, or the default none.
func countOf(s map[string]any, word string, none int) int {
	if n, ok := s[word].(float64); ok && n >= 0 {
		return int(min(n, maxValues))
	}
	return none
}

func number(s map[string]any, step float64) float64 {
	if m, ok := s["multipleOf"].(float64); ok && m > 0 && !(step == 1 && m != math.Trunc(m)) {
		step = m
	}
	low, high := math.Inf(-1), math.Inf(1)
	bound := func(word string, to *float64, sign float64) {
		n, ok := s[word].(float64)
		if !ok {
			return
		}
		if strings.HasPrefix(word, "exclusive") {
			by := step
			if by == 0 {
				by = 1e-3
			}
			n += sign * by
		}
		if sign > 0 && n > *to || sign < 0 && n < *to {
			*to = n
		}
	}
	bound("minimum", &low, 1)
	bound("exclusiveMinimum", &low, 1)
	bound("maximum", &high, -1)
	bound("exclusiveMaximum", &high, -1)
	n := min(max(1, low), high)
	if step == 0 {
		return n
	}
	if up := math.Ceil(n/step) * step; up <= high {
		return up
	}
	return math.Floor(n/step) * step
}

var formats = map[string]string{
	"date-time": "2026-01-02T03:04:05Z",
	"date":      "2026-01-02",
	"time":      "03:04:05Z",
	"duration":  "P1D",
	"email":     "sandbox@example.com",
	"hostname":  "example.com",
	"uri":       "https://example.com/",
	"ipv4":      "192.0.2.1",
	"ipv6":      "2001:db8::1",
	"uuid":      "00000000-0000-4000-8000-000000000000",
}

func text(s map[string]any, name string) string {
	format, _ := s["format"].(string)
	if v, ok := formats[format]; ok {
		return v
	}
	out := []rune(name)
	if least := countOf(s, "minLength", 0); len(out) < least {
		out = append(out, []rune(strings.Repeat("x", least-len(out)))...)
	}
	return string(out[:min(len(out), countOf(s, "maxLength", maxValues))])
}
