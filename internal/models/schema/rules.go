package schema

import (
	"slices"
	"strings"
)

type shape uint8

const (
	isAny     shape = iota + 1
	isSchema        // a schema: an object or a boolean
	isSchemas       // a list of at least one schema
	isMap           // an object of schemas
	isType          // the name of a type, or a list of them
	isNames         // a list of strings
	isList
	isNumber
	isCount // a non-negative number without a fraction
	isBool
	isText
)

// keywords are the keywords of JSON Schema (draft 2020-12) that constrain a value, and those
// that describe it.
var keywords = map[string]shape{
	"type": isType, "enum": isList, "const": isAny, "$ref": isText, "$defs": isMap,
	"title": isText, "description": isText, "default": isAny, "examples": isList, "format": isText,
	"properties": isMap, "required": isNames, "additionalProperties": isSchema,
	"patternProperties": isMap, "propertyNames": isSchema, "unevaluatedProperties": isSchema,
	"minProperties": isCount, "maxProperties": isCount,
	"dependentRequired": isAny, "dependentSchemas": isMap, "dependencies": isAny,
	"items": isSchema, "prefixItems": isSchemas, "contains": isSchema, "minContains": isCount, "maxContains": isCount,
	"unevaluatedItems": isSchema, "minItems": isCount, "maxItems": isCount, "uniqueItems": isBool,
	"anyOf": isSchemas, "oneOf": isSchemas, "allOf": isSchemas, "not": isSchema, "if": isSchema, "then": isSchema, "else": isSchema,
	"minimum": isNumber, "maximum": isNumber, "exclusiveMinimum": isNumber, "exclusiveMaximum": isNumber, "multipleOf": isNumber,
	"minLength": isCount, "maxLength": isCount, "pattern": isText,
	"$dynamicRef": isText, "$recursiveRef": isText,
}

// remarks are keywords that move to the description if a vendor does not accept them. Strict mode
// loses nothing, because they do not refuse values.
var remarks = []string{"title", "default", "examples", "format"}

var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

func (s shape) fits(n *node) bool {
	switch s {
	case isSchema:
		return isSubschema(n)
	case isSchemas:
		return n.kind == '[' && len(n.kids) > 0 && !slices.ContainsFunc(n.kids, func(k *node) bool { return !isSubschema(k) })
	case isMap:
		return n.kind == '{' && !slices.ContainsFunc(n.kids, func(k *node) bool { return !isSubschema(k) })
	case isType:
		if n.kind == '"' {
			return slices.Contains(types, n.text)
		}
		for i, k := range n.kids {
			if i == len(types) || k.kind != '"' || !slices.Contains(types, k.text) || slices.ContainsFunc(n.kids[:i], k.equal) {
				return false
			}
		}
		return n.kind == '[' && len(n.kids) > 0
	case isNames:
		return n.kind == '[' && !slices.ContainsFunc(n.kids, func(k *node) bool { return k.kind != '"' })
	case isList:
		return n.kind == '['
	case isNumber:
		return n.kind == '0'
	case isCount:
		return n.kind == '0' && !strings.ContainsAny(n.text, "-.eE")
	case isBool:
		return n.kind == 't' || n.kind == 'f'
	case isText:
		return n.kind == '"'
	}
	return true
}

func isSubschema(n *node) bool { return n.kind == '{' || n.kind == 't' || n.kind == 'f' }

// rules are the restrictions of a vendor. The zero value accepts everything.
type rules struct {
	keywords []string // nil means all, including unknown ones; closed, required and typed need some
	formats  []string // of the keyword format; nil means all

	valid      bool // a keyword with a value of the wrong shape is refused
	plainRoot  bool // the root must be an object without anyOf, oneOf, allOf, not, enum, const
	closed     bool // additionalProperties must be false
	required   bool // required must name all properties
	typed      bool // a schema must have a type, a union, values or a reference
	anyOf      bool // instead of oneOf
	noConst    bool // enum instead of const
	scalars    bool // no objects and arrays in enum and const
	plainEnum  bool // enum must have only strings and numbers
	oneItem    bool // minItems must be 0 or 1
	simple     bool // pattern must not have groups with a question mark, references and word boundaries
	refAlone   bool // a reference must not have other keywords next to it
	refInUnion bool // a branch of a union must not be a reference
	refInAllOf bool // allOf may contain a reference
	noRootRef  bool // references to the root are refused
	recursion  recursion

	// Limits over the whole schema; 0 means no limit.
	optional, unions, levels, properties, values, names int
}

type recursion uint8

const (
	anyRecursion recursion = iota
	optionalRecursion
	noRecursion
)

// rulesFor returns the rules of a vendor. The sources are the vendors' pages about structured
// output and tools; if a page and the servers' behaviour differ, the stricter.
func rulesFor(v Vendor, strict bool) rules {
	switch {
	case v == Compatible:
		return rules{refInAllOf: true}
	case v == OpenAI && !strict, v == DeepSeek && !strict, v == Anthropic && !strict:
		return rules{valid: true, plainRoot: true, refInAllOf: true}
	case v == OpenAI:
		return rules{
			keywords: []string{
				"type", "enum", "const", "$ref", "$defs", "title", "description", "properties", "required", "additionalProperties",
				"items", "anyOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
				"minLength", "maxLength", "pattern", "minItems", "maxItems", "format",
			},
			formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
			valid:   true, plainRoot: true, closed: true, required: true, typed: true, anyOf: true, refAlone: true,
			levels: 10, properties: 5_000, values: 1_000, names: 120_000,
		}
	case v == Anthropic:
		return rules{
			keywords: []string{
				"type", "enum", "const", "$ref", "$defs", "title", "description", "default", "properties", "required", "additionalProperties",
				"items", "anyOf", "allOf", "pattern", "minItems", "format",
			},
			formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
			valid:   true, plainRoot: true, closed: true, anyOf: true, scalars: true, oneItem: true, simple: true, noRootRef: true, recursion: noRecursion,
			optional: 24, unions: 16,
		}
	case v == DeepSeek:
		return rules{
			keywords: []string{
				"type", "enum", "const", "$ref", "$defs", "title", "description", "default", "properties", "required", "additionalProperties",
				"items", "anyOf", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
			},
			formats: []string{"email", "hostname", "ipv4", "ipv6", "uuid"},
			valid:   true, plainRoot: true, closed: true, required: true, typed: true, anyOf: true, refAlone: true, refInUnion: true,
		}
	}
	return rules{ // Gemini uses its subset whether or not it enforces a schema
		keywords: []string{
			"type", "enum", "$ref", "$defs", "title", "description", "properties", "required", "additionalProperties",
			"items", "prefixItems", "anyOf", "oneOf", "minimum", "maximum", "minItems", "maxItems", "format",
		},
		formats: []string{"date-time", "date", "time"},
		valid:   true, noConst: true, plainEnum: true, refAlone: true, noRootRef: true, recursion: optionalRecursion,
		plainRoot: v == GeminiTools,
	}
}
