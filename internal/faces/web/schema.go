package web

import (
	"html/template"
	"slices"
	"strings"
)

// A schema is one type of the contract as text, with its members below it.
type schema struct {
	Type     string // "string", "array of InputItem", "integer (int64)", …
	Link     string // page of a named type that is shown elsewhere; may be empty
	Nullable bool
	Rules    []string // "at least 1", "one of a, b", …
	Note     template.HTML
	Members  []schemaMember
	Choices  []schemaChoice // oneOf, anyOf
	Example  string
	Open     bool // additional members are allowed
}

// Nested reports whether there is anything to expand.
func (s *schema) Nested() bool { return s != nil && (len(s.Members) > 0 || len(s.Choices) > 0) }

type schemaMember struct {
	Name     string
	Required bool
	ReadOnly bool
	Schema   *schema
}

type schemaChoice struct {
	Title  string
	Schema *schema
}

// schema converts v. It expands a named type with parts at depth 0 and links it below, so that recursion ends.
func (b *builder) schema(v *value, depth int) *schema {
	if v == nil {
		return &schema{Type: "any"}
	}
	named := ""
	if ref := v.str("$ref"); ref != "" {
		named = ref[strings.LastIndexByte(ref, '/')+1:]
		found, err := b.root.at(ref)
		if err != nil {
			b.fail(err)
			return &schema{Type: "any"}
		}
		if depth > 0 && hasParts(found) {
			return &schema{Type: named, Link: referenceRoot + "/schemas/" + named, Note: b.line(found.str("description")), Nullable: found.yes("nullable")}
		}
		v = found
	}
	// A single item of "all of" is that item with another description.
	if parts := v.list("allOf"); len(parts) == 1 {
		inner := b.schema(parts[0], depth)
		if d := v.str("description"); d != "" {
			inner.Note = b.line(d)
		}
		inner.Nullable = inner.Nullable || v.yes("nullable")
		return inner
	}
	s := &schema{
		Type: typeWords(v, named), Nullable: v.yes("nullable"), Rules: rules(v),
		Note: b.line(v.str("description")),
	}
	if e := v.get("example"); e != nil && e.kind == 's' {
		s.Example = strings.Trim(e.inline(), `"`)
	}
	required := v.strs("required")
	sources := append([]*value{v}, v.list("allOf")...)
	for i, source := range sources {
		if i > 0 {
			source = b.follow(source)
			required = append(required, source.strs("required")...)
		}
		for _, p := range source.all("properties") {
			s.Members = append(s.Members, schemaMember{
				Name: p.name, Required: slices.Contains(required, p.name), ReadOnly: p.value.yes("readOnly"),
				Schema: b.schema(p.value, depth+1),
			})
		}
	}
	if extra := v.get("additionalProperties"); extra != nil {
		if extra.kind == 'o' && len(extra.members) > 0 {
			s.Members = append(s.Members, schemaMember{Name: "(any name)", Schema: b.schema(extra, depth+1)})
		} else if extra.kind == 'o' || extra.scalar == true {
			s.Open = true
		}
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		for _, c := range v.list(word) {
			inner := b.schema(c, depth+1)
			s.Choices = append(s.Choices, schemaChoice{inner.Type, inner})
		}
	}
	if items := v.get("items"); items != nil {
		inner := b.schema(items, depth+1)
		s.Members, s.Choices, s.Link = inner.Members, inner.Choices, inner.Link
		if s.Note == "" {
			s.Note = inner.Note
		}
		if inner.Type != "any" {
			s.Type = "array of " + inner.Type
		}
		for _, r := range inner.Rules {
			s.Rules = append(s.Rules, "each "+r)
		}
	}
	return s
}

// hasParts reports whether a schema contains others, so that it deserves a page.
func hasParts(v *value) bool {
	return slices.ContainsFunc([]string{"properties", "additionalProperties", "oneOf", "anyOf", "allOf", "items"}, func(name string) bool { return v.get(name) != nil })
}

func typeWords(v *value, named string) string {
	kind := v.str("type")
	format := v.str("format")
	switch {
	case kind == "object" && named != "":
		return named
	case kind == "object" || kind == "" && v.get("properties") != nil:
		return "object"
	case kind == "" && (v.get("oneOf") != nil || v.get("anyOf") != nil):
		if named != "" {
			return named
		}
		return "one of"
	case kind == "":
		return "any"
	case format == "date-time":
		return "time"
	case format == "date":
		return "date"
	case format == "binary":
		return "bytes"
	case kind == "integer":
		return "integer" // without the width, because it is irrelevant to a reader
	case format != "":
		return kind + " (" + format + ")"
	}
	return kind
}

// rules returns a schema's further constraints as text.
func rules(v *value) []string {
	var out []string
	has := func(name string) string {
		if at := v.get(name); at != nil && at.kind == 's' {
			return at.inline()
		}
		return ""
	}
	if values := v.list("enum"); len(values) > 0 {
		var words []string
		for _, e := range values {
			words = append(words, e.inline())
		}
		if len(words) == 1 {
			out = append(out, "always "+words[0])
		} else {
			out = append(out, "one of "+strings.Join(words, ", "))
		}
	}
	if values := v.strs("x-extensible-enum"); len(values) > 0 {
		out = append(out, "currently one of "+strings.Join(values, ", "))
	}
	between := func(low, high, unit string) {
		lo, hi := has(low), has(high)
		switch {
		case lo != "" && lo == hi:
			out = append(out, "exactly "+lo+unit)
		case lo != "" && hi != "":
			out = append(out, lo+" to "+hi+unit)
		case lo == "1" && unit != "":
			out = append(out, "not empty")
		case lo != "" && !(lo == "0" && unit != ""):
			out = append(out, "at least "+lo+unit)
		case hi != "":
			out = append(out, "at most "+hi+unit)
		}
	}
	between("minimum", "maximum", "")
	between("minLength", "maxLength", " characters")
	between("minItems", "maxItems", " items")
	between("minProperties", "maxProperties", " members")
	if p := v.str("pattern"); p != "" {
		out = append(out, "matches "+p)
	}
	if d := has("default"); d != "" {
		out = append(out, "default "+d)
	}
	return out
}
