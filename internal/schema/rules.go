package schema

import (
	"slices"
	"strings"
)

// A shape is what the value of a keyword has to be.
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
	isCount // a number that is not negative and has no fraction
	isBool
	isText
)

// keywords are the keywords of JSON Schema (draft 2020-12) that say what a value may
// be, and those that describe it.
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

// remarks are keywords that refuse no value: where a vendor does not take them, they
// go into the description, and strict is none the worse for it.
var remarks = []string{"title", "default", "examples", "format"}

// types are the names of the types.
var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// fits reports whether a value has the shape.
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

// rules are what a vendor takes. The zero value takes everything.
type rules struct {
	keywords []string // nil: all, unknown ones too; closed, required and typed need some
	formats  []string // of the keyword format; nil: all

	valid      bool // a keyword with a value of the wrong shape is refused
	plainRoot  bool // the root is an object without anyOf, oneOf, allOf, not, enum, const
	closed     bool // additionalProperties must be false
	required   bool // must name all properties
	typed      bool // a schema must say a type, a union, values or a reference
	anyOf      bool // in place of oneOf
	noConst    bool // enum in place of const
	scalars    bool // no objects and arrays in enum and const
	plainEnum  bool // enum has strings and numbers only
	oneItem    bool // minItems is 0 or 1
	simple     bool // pattern has no groups with a question mark, references and word boundaries
	refAlone   bool // a reference has no other keyword beside it
	refInUnion bool // no reference is a branch of a union
	refInAllOf bool // allOf may have a reference
	noRootRef  bool // no reference to the root
	recursion  recursion

	// What follows is counted over the whole schema; 0: any number.
	optional, unions, levels, properties, values, names int
}

// A recursion is how a schema may contain itself.
type recursion uint8

const (
	anyRecursion recursion = iota
	optionalRecursion
	noRecursion
)

// rulesFor returns the rules of a vendor. The sources are the vendors' pages about
// structured output and tools; where a page and what servers do differ, the stricter.
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
	return rules{ // Gemini keeps to its subset whether it enforces a schema or not
		keywords: []string{
			"type", "enum", "$ref", "$defs", "title", "description", "properties", "required", "additionalProperties",
			"items", "prefixItems", "anyOf", "oneOf", "minimum", "maximum", "minItems", "maxItems", "format",
		},
		formats: []string{"date-time", "date", "time"},
		valid:   true, noConst: true, plainEnum: true, refAlone: true, noRootRef: true, recursion: optionalRecursion,
		plainRoot: v == GeminiTools,
	}
}
