package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/contract"
)

const typesHeader = `// Code generated from internal/base/contract/openapi.yaml by go generate. DO NOT EDIT.
// The types of the API's bodies, for the pages.
`

// types returns the schemas of the contract as TypeScript, sorted by name.
func types() ([]byte, error) {
	doc, err := contract.Load()
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	out.WriteString(typesHeader)
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name].Value
		if plainObject(s) {
			fmt.Fprintf(&out, "\nexport interface %s %s\n", name, members(s, ""))
		} else {
			fmt.Fprintf(&out, "\nexport type %s = %s;\n", name, typeOf(s, ""))
		}
	}
	return []byte(out.String()), nil
}

// plainObject reports whether a schema is an object with members and nothing else.
func plainObject(s *openapi3.Schema) bool {
	return s.Type.Is("object") && len(s.Properties) > 0 && len(s.AllOf)+len(s.OneOf)+len(s.AnyOf) == 0 && !s.Nullable
}

func refType(r *openapi3.SchemaRef, indent string) string {
	if name, ok := strings.CutPrefix(r.Ref, "#/components/schemas/"); ok {
		return name
	}
	return typeOf(r.Value, indent)
}

// typeOf returns the type of a schema. It supports only the keywords of the contract; a schema without any of them has
// the type unknown.
func typeOf(s *openapi3.Schema, indent string) string {
	var t string
	switch {
	case len(s.Enum) > 0:
		var words []string
		for _, v := range s.Enum {
			if text, ok := v.(string); ok {
				words = append(words, strconv.Quote(text))
			} else if v != nil {
				words = append(words, fmt.Sprint(v))
			}
		}
		if s.Nullable {
			words = append(words, "null")
		}
		return strings.Join(words, " | ")
	case len(s.OneOf)+len(s.AnyOf) > 0:
		t = join(slices.Concat(s.OneOf, s.AnyOf), " | ", indent)
	case len(s.AllOf) > 0:
		t = join(s.AllOf, " & ", indent)
		if len(s.Properties) > 0 {
			t += " & " + members(s, indent)
		}
	case s.Type.Is("string"):
		t = "string"
	case s.Type.Is("integer"), s.Type.Is("number"):
		t = "number"
	case s.Type.Is("boolean"):
		t = "boolean"
	case s.Type.Is("array"):
		t = refType(s.Items, indent)
		if strings.ContainsAny(t, "|&") {
			t = "(" + t + ")"
		}
		t += "[]"
	case len(s.Properties) > 0:
		t = members(s, indent)
	case s.AdditionalProperties.Schema != nil:
		t = "Record<string, " + refType(s.AdditionalProperties.Schema, indent) + ">"
	case s.Type.Is("object"):
		t = "Record<string, unknown>"
	default:
		return "unknown"
	}
	if s.Nullable {
		t += " | null"
	}
	return t
}

func join(parts openapi3.SchemaRefs, operator, indent string) string {
	var out []string
	for _, p := range parts {
		t := refType(p, indent)
		if operator == " & " && strings.Contains(t, " | ") {
			t = "(" + t + ")"
		}
		out = append(out, t)
	}
	return strings.Join(out, operator)
}

// members returns the members of an object schema, sorted by name. One that may be absent is optional.
func members(s *openapi3.Schema, indent string) string {
	var out strings.Builder
	out.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		optional := "?"
		if slices.Contains(s.Required, name) {
			optional = ""
		}
		key := name
		if strings.ContainsFunc(name, func(r rune) bool {
			return !(r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
		}) {
			key = strconv.Quote(name)
		}
		fmt.Fprintf(&out, "%s  %s%s: %s;\n", indent, key, optional, refType(s.Properties[name], indent+"  "))
	}
	out.WriteString(indent + "}")
	return out.String()
}
