package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzNothingRefusedIsLeft builds schemas from bytes and searches the rewritten schemas for
// parts that a vendor refuses.
func FuzzNothingRefusedIsLeft(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	f.Add([]byte("a schema of any bytes, the more of them the more it holds, with references and circles"))
	for i := range 64 {
		b := make([]byte, 200)
		x := uint32(i)*2654435761 + 1
		for j := range b {
			x = x*1664525 + 1013904223
			b[j] = byte(x >> 24)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) > 2_000 {
			t.Skip()
		}
		check(t, (&maker{choices: choices}).schema(0))
	})
}

func FuzzAnyTextIsTaken(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"$ref":"#"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		`{"$defs":{"a":true},"properties":{"x":{"$ref":"#/$defs/a"}}}`, `{"definitions":{"a":{"$ref":"#"}},"$defs":{"a":{}},"$ref":"#/definitions/a"}`,
		`{"allOf":[{"allOf":[{"nullable":true,"type":"string"}]}]}`, `{"items":false,"prefixItems":[true]}`, `{"type":["object","null"],"enum":[null]}`,
		`{"properties":{"a":{"$ref":"#/properties/a","x":1}}}`, `{"type":["array","object"],"minimum":1}`, `{"$ref":"#/$defs/%zz"}`, `{"a":"\ud800"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 20_000 {
			t.Skip()
		}
		check(t, s)
	})
}

func check(t *testing.T, schema string) {
	t.Helper()
	for v := Compatible; v <= DeepSeek; v++ {
		for _, strict := range []bool{false, true} {
			out, misfit := Fit(schema, v, strict)
			var tree map[string]any
			if err := json.Unmarshal([]byte(out), &tree); err != nil {
				t.Fatalf("vendor %d, strict %v: %s of %s: %v", v, strict, out, schema, err)
			}
			again, _ := Fit(out, v, strict)
			if again != out {
				t.Fatalf("vendor %d, strict %v: not the same again\n in %s\nwas %s\nnow %s", v, strict, schema, out, again)
			}
			if misfit != nil && misfit.Hard || v == Compatible {
				continue
			}
			c := checker{v: v, strict: strict, root: tree}
			c.schema(tree, true, "")
			if c.found != "" {
				t.Fatalf("vendor %d, strict %v: %s\n in %s\nout %s", v, strict, c.found, schema, out)
			}
		}
	}
}

// A checker finds parts that a vendor refuses, with its own lists.
type checker struct {
	v      Vendor
	strict bool
	root   map[string]any
	found  string
}

// refusedBy lists keywords that no schema for a vendor may have.
var refusedBy = map[Vendor]string{
	OpenAI: "allOf oneOf not if then else patternProperties propertyNames prefixItems dependentRequired dependentSchemas contains " +
		"unevaluatedProperties unevaluatedItems uniqueItems minProperties maxProperties default $schema nullable definitions",
	Anthropic: "oneOf not if then else patternProperties propertyNames prefixItems dependentRequired dependentSchemas contains uniqueItems maxItems " +
		"unevaluatedProperties minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minProperties $schema nullable definitions",
	Gemini: "allOf not if then else const patternProperties propertyNames contains exclusiveMinimum exclusiveMaximum multipleOf " +
		"minLength maxLength pattern uniqueItems default examples $schema $id nullable definitions",
	DeepSeek: "allOf oneOf not if then else patternProperties prefixItems minLength maxLength minItems maxItems uniqueItems $schema definitions",
}

func (c *checker) fail(at, what string) {
	if c.found == "" {
		c.found = at + ": " + what
	}
}

func (c *checker) schema(n any, root bool, at string) {
	m, ok := n.(map[string]any)
	enforced := c.strict && c.v != Compatible || c.v == Gemini || c.v == GeminiTools
	if !ok {
		if _, isBool := n.(bool); !isBool || enforced && !strings.HasSuffix(at, "additionalProperties") {
			c.fail(at, "no schema")
		}
		return
	}
	v := c.v
	if v == GeminiTools {
		v = Gemini
	}
	if enforced {
		for _, key := range strings.Fields(refusedBy[v]) {
			if _, has := m[key]; has {
				c.fail(at, key)
			}
		}
	}
	if root && c.v != Compatible && c.v != Gemini {
		if m["type"] != "object" {
			c.fail(at, "the root is no object")
		}
		for _, key := range []string{"anyOf", "oneOf", "allOf"} {
			if _, has := m[key]; has {
				c.fail(at, "a union at the root")
			}
		}
	}
	if ref, ok := m["$ref"].(string); ok && c.v != Compatible {
		name, isDef := strings.CutPrefix(ref, "#/$defs/")
		defs, _ := c.root["$defs"].(map[string]any)
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		if _, has := defs[name]; isDef && !has && !strings.Contains(name, "%") || !isDef && ref != "#" {
			c.fail(at, "a reference to nothing: "+ref)
		}
		if enforced && v != Anthropic && len(m) > 1 && !root {
			c.fail(at, "a reference with others")
		}
	}
	properties, _ := m["properties"].(map[string]any)
	if enforced && v != Gemini && (m["type"] == "object" || properties != nil) {
		if m["additionalProperties"] != false {
			c.fail(at, "not closed")
		}
		required, _ := m["required"].([]any)
		if v != Anthropic && len(required) != len(properties) {
			c.fail(at, "not all required")
		}
	}
	for key, value := range m {
		at := at + "/" + key
		switch keywords[key] {
		case isSchema:
			c.schema(value, false, at)
		case isSchemas:
			list, _ := value.([]any)
			for i, kid := range list {
				c.schema(kid, false, at+"/"+strconv.Itoa(i))
			}
		case isMap:
			kids, _ := value.(map[string]any)
			for name, kid := range kids {
				c.schema(kid, false, at+"/"+name)
			}
		}
	}
}

// A maker makes a schema from bytes.
type maker struct {
	choices []byte
	n       int
}

func (m *maker) pick(n int) int {
	if m.n++; m.n > len(m.choices) {
		return 0
	}
	return int(m.choices[m.n-1]) % n
}

func (m *maker) one(of ...string) string { return of[m.pick(len(of))] }

func (m *maker) schema(depth int) string {
	if depth > 6 || m.n >= len(m.choices) {
		return m.one(`{"type":"string"}`, `true`, `false`, `{}`)
	}
	var parts, keys []string
	add := func(key, value string) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
			parts = append(parts, strconv.Quote(key)+":"+value)
		}
	}
	if depth == 0 {
		add(m.one("$defs", "definitions"), `{"a":`+m.schema(1)+`,"b":`+m.schema(1)+`}`)
	}
	for range 1 + m.pick(5) {
		switch m.pick(16) {
		case 0, 1, 2:
			add("type", m.one(`"object"`, `"array"`, `"string"`, `"number"`, `["object","null"]`, `["string","null"]`, `["array","object"]`, `"any"`, `["array"]`))
		case 3, 4, 5:
			add("properties", `{"p":`+m.schema(depth+1)+`,"$ref":`+m.schema(depth+1)+`}`)
			add("required", m.one(`["p"]`, `[]`, `["p","$ref"]`, `["q"]`, `["p","p"]`, `"p"`))
		case 6:
			add("items", m.one(m.schema(depth+1), `[`+m.schema(depth+1)+`]`))
		case 7, 8:
			add(m.one("anyOf", "oneOf", "allOf"), `[`+m.schema(depth+1)+m.one("", ","+m.schema(depth+1))+`]`)
		case 9, 10:
			add("$ref", m.one(`"#"`, `"#/$defs/a"`, `"#/definitions/b"`, `"#/$defs/b"`, `"#/properties/p"`, `"#/$defs/a/properties/p"`, `"#/nowhere"`, `"http://a/b"`, `1`))
		case 11:
			add("additionalProperties", m.one("true", "false", m.schema(depth+1)))
		case 12:
			add(m.one("not", "if", "contains", "propertyNames", "unevaluatedItems"), m.schema(depth+1))
		case 13:
			add("enum", m.one(`["a"]`, `["a",null]`, `[null]`, `[{"a":1}]`, `[]`, `[1,true]`))
		case 14:
			add(m.one("minimum", "maxItems", "minItems", "minLength", "exclusiveMinimum"), m.one("1", "-1", "true", `"1"`, "2.5"))
		default:
			add(m.one("nullable", "const", "default", "format", "description", "pattern", "title", "x-unknown", "prefixItems"), m.one("true", `"uri"`, `"a(?=b)"`, `[{}]`))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestHostileSchemasStayCheap rewrites schemas that could grow without bounds. Each of them
// took minutes, or all memory, without the limits.
func TestHostileSchemasStayCheap(t *testing.T) {
	t.Parallel()
	doubling := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0","title":"x"}},"$defs":{`
	for i := range 40 {
		next := strconv.Itoa(i + 1)
		doubling += `"d` + strconv.Itoa(i) + `":{"type":"object","properties":{"a":{"$ref":"#/$defs/d` + next + `","title":"x"},"b":{"$ref":"#/$defs/d` + next + `","title":"y"}}},`
	}
	doubling += `"d40":{"type":"string"}}}`
	wide := func(entry func(i int) string, n int) string {
		var all []string
		for i := range n {
			all = append(all, entry(i))
		}
		return strings.Join(all, ",")
	}
	copies := `{"type":"object","properties":{"big":{"description":"` + strings.Repeat("x", 100_000) + `"},` +
		wide(func(i int) string {
			return `"p` + strconv.Itoa(i) + `":{"$ref":"#/properties/big","title":"` + strconv.Itoa(i) + `"}`
		}, 5_000) + `}}`
	long := strings.Repeat("k", 50_000)
	for name, schema := range map[string]string{
		"definitions that double": doubling,
		"copies of a long one":    copies,
		"many properties":         `{"type":"object","properties":{` + wide(func(i int) string { return `"p` + strconv.Itoa(i) + `":{}` }, 30_000) + `},"required":[` + wide(func(i int) string { return `"p` + strconv.Itoa(i) + `"` }, 20_000) + `]}`,
		"many references": `{"type":"object","properties":{` + wide(func(i int) string {
			return `"p` + strconv.Itoa(i) + `":{"$ref":"#/properties/p` + strconv.Itoa(i+1) + `"}`
		}, 10_000) + `}}`,
		"many unknown keywords":   `{"type":"object",` + wide(func(i int) string { return `"x` + strconv.Itoa(i) + `":1` }, 40_000) + `,"allOf":[{` + wide(func(i int) string { return `"y` + strconv.Itoa(i) + `":1` }, 10_000) + `}]}`,
		"a long name around much": `{"type":"object","properties":{"` + long + `":{"properties":{` + wide(func(i int) string { return `"p` + strconv.Itoa(i) + `":{"not":{}}` }, 20_000) + `}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			for v := Compatible; v <= DeepSeek; v++ {
				began := time.Now()
				out, _ := Fit(schema, v, true)
				if len(out) > 3*MaxBytes+maxGrown {
					t.Errorf("vendor %d: %d bytes became %d", v, len(schema), len(out))
				}
				t.Log(v, time.Since(began))
			}
		})
	}
}
