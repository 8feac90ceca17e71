package httptool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/models/schema"
)

// Limits of the schemas of one operation.
const (
	maxSchemaValues = 5000
	maxSchemaDepth  = 18
	maxPattern      = 1000 // bytes of a regular expression, because a short one can be expensive to compile
)

// A schemaCopier copies schemas of a document into a single schema: the targets of references
// become definitions in it. It stops if the result becomes too large, so that one operation with
// large or circular schemas does not affect the others.
type schemaCopier struct {
	d        *document
	left     int
	names    map[string]string // names of the definitions, by reference
	defs     map[string]any
	patterns int // total size of the regular expressions so far, in bytes
}

var errSchemaSize = fmt.Errorf("the schema of its arguments has more than %d values, %d levels of nesting, or %d KiB of regular expressions", maxSchemaValues, maxSchemaDepth, schema.MaxParameters>>10)

// Keywords with schemas as values, by the form of the value.
var (
	oneSchema  = []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
	listSchema = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	mapSchema  = []string{"properties", "patternProperties", "dependentSchemas", "$defs"}
	// notKept are keywords that do not constrain arguments.
	notKept = []string{"example", "examples", "xml", "externalDocs", "discriminator", "nullable", "$schema", "$id", "$comment", "$anchor"}
)

func (c *schemaCopier) copy(v any, depth int) (any, error) {
	if c.left--; c.left < 0 || depth > maxSchemaDepth {
		return nil, errSchemaSize
	}
	if v == nil {
		return map[string]any{}, nil
	}
	from, ok := v.(map[string]any)
	if !ok {
		if _, plain := v.(bool); plain {
			return v, nil
		}
		return nil, errors.New("a schema in it is not an object")
	}
	out := map[string]any{}
	if to, ok := from["$ref"].(string); ok {
		name, err := c.definition(to)
		if err != nil {
			return nil, err
		}
		out["$ref"] = "#/$defs/" + name
		if c.d.old {
			return out, nil // because OpenAPI 3.0 ignores keywords next to a reference
		}
	}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		value := from[key]
		if key == "$ref" || slices.Contains(notKept, key) || strings.HasPrefix(key, "x-") {
			continue
		}
		copied, err := c.keyword(key, value, depth)
		if err != nil {
			return nil, err
		}
		if copied != nil {
			out[key] = copied
		}
	}
	if c.d.old {
		modern(from, out)
	}
	return out, nil
}

// keyword copies the value of one keyword; nil means that it is left out.
func (c *schemaCopier) keyword(key string, value any, depth int) (any, error) {
	switch {
	case slices.Contains(oneSchema, key):
		return c.copy(value, depth+1)
	case slices.Contains(listSchema, key):
		list, ok := value.([]any)
		if !ok {
			return nil, errors.New("a schema in it cannot be read")
		}
		out := []any{}
		for _, item := range list {
			copied, err := c.copy(item, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, copied)
		}
		return out, nil
	case slices.Contains(mapSchema, key):
		members, ok := value.(map[string]any)
		if !ok {
			return nil, errors.New("a schema in it cannot be read")
		}
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if key == "patternProperties" {
				if known, err := c.isPattern(name); err != nil {
					return nil, err
				} else if !known {
					continue
				}
			}
			copied, err := c.copy(members[name], depth+2)
			if err != nil {
				return nil, err
			}
			out[name] = copied
		}
		return out, nil
	case key == "pattern":
		if known, err := c.isPattern(value); err != nil || !known {
			return nil, err
		}
	}
	return c.plain(value, depth+1)
}

// isPattern reports whether the check of arguments supports a pattern. Others are left out,
// because JSON Schema uses the regular expressions of ECMAScript, and the check those of RE2.
func (c *schemaCopier) isPattern(v any) (known bool, err error) {
	text, ok := v.(string)
	if !ok || len(text) > maxPattern {
		return false, nil
	}
	if c.patterns += len(text); c.patterns > schema.MaxParameters {
		return false, errSchemaSize
	}
	_, err = schema.PatternStates(text)
	return err == nil, nil
}

func (c *schemaCopier) plain(v any, depth int) (any, error) {
	if c.left--; c.left < 0 || depth > maxSchemaDepth {
		return nil, errSchemaSize
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, min(len(v), c.left))
		for _, item := range v {
			copied, err := c.plain(item, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, copied)
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			copied, err := c.plain(v[name], depth+1)
			if err != nil {
				return nil, err
			}
			out[name] = copied
		}
		return out, nil
	}
	return v, nil
}

// definition returns the name of the definition for a reference, and copies the target of the
// reference the first time.
func (c *schemaCopier) definition(to string) (string, error) {
	if name, ok := c.names[to]; ok {
		return name, nil
	}
	target, err := c.d.at(to)
	if err != nil {
		return "", err
	}
	name := to[strings.LastIndexByte(to, '/')+1:]
	_, taken := c.defs[name]
	if taken || !operationName.MatchString(name) {
		name = "schema" + strconv.Itoa(len(c.names)+1)
	}
	c.names[to] = name
	c.defs[name] = true // reserved until it is copied
	if len(c.names) > 500 {
		return "", errSchemaSize
	}
	copied, err := c.copy(target, 2)
	if err != nil {
		return "", err
	}
	c.defs[name] = copied
	return name, nil
}

// modern converts keywords of OpenAPI 3.0 to JSON Schema.
func modern(from, out map[string]any) {
	if null, _ := from["nullable"].(bool); null {
		if kind, ok := out["type"].(string); ok {
			out["type"] = []any{kind, "null"}
			if values, ok := out["enum"].([]any); ok && !slices.Contains(values, nil) {
				out["enum"] = append(values, nil)
			}
		}
	}
	for exclusive, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		is, ok := out[exclusive].(bool)
		if !ok {
			continue
		}
		delete(out, exclusive)
		if bound, there := out[limit]; is && there {
			out[exclusive] = bound
			delete(out, limit)
		}
	}
}
