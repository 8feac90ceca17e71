package schema

import (
	"fmt"
	"strings"
	"testing"
)

// fitted is the rewritten schema, and its misfit ("" if it fits).
type fitted struct {
	vendor Vendor
	strict bool
	in     string
	out    string
	misfit string // pointer and keyword, separated by a space
}

func TestSchemasAreRewrittenForVendors(t *testing.T) {
	t.Parallel()
	const weather = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`
	for name, c := range map[string]fitted{
		"a plain schema stays":            {OpenAI, true, weather, weather, ""},
		"also for Anthropic":              {Anthropic, true, weather, weather, ""},
		"also for Gemini":                 {GeminiTools, true, weather, weather, ""},
		"also for DeepSeek":               {DeepSeek, true, weather, weather, ""},
		"also for compatible servers":     {Compatible, true, weather, weather, ""},
		"names of the schema are dropped": {Gemini, false, `{"$schema":"x","$id":"y","$comment":"z","type":"object"}`, `{"type":"object"}`, ""},
		"a schema without a type":         {OpenAI, false, `{"properties":{}}`, `{"type":"object","properties":{}}`, ""},
		"nothing at all":                  {OpenAI, true, `{}`, `{"type":"object","additionalProperties":false,"properties":{},"required":[]}`, ""},
		"the order of properties": {
			Anthropic, true,
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"null"},"m":{"type":"boolean"}},"additionalProperties":false}`,
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"null"},"m":{"type":"boolean"}},"additionalProperties":false}`, "",
		},
		"an allOf with one member": {
			OpenAI, true,
			`{"type":"object","properties":{"a":{"allOf":[{"type":"string","title":"T"}],"title":"A"}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"string","title":"A"}},"required":["a"],"additionalProperties":false}`, "",
		},
		"oneOf becomes anyOf": {
			Anthropic, true,
			`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}`, "",
		},
		"nullable becomes a type": {
			Gemini, false,
			`{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"type":"string","nullable":false}}}`,
			`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"string"}}}`, "",
		},
		"nullable beside a union, a reference and values": {
			OpenAI, false,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}],"nullable":true},"b":{"$ref":"#/$defs/N","nullable":true},"c":{"type":"string","enum":["x"],"nullable":true},"d":{"type":["string","null"],"nullable":true}},"$defs":{"N":{"type":"number"}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}]},"c":{"type":["string","null"],"enum":["x",null]},"d":{"type":["string","null"]}},"$defs":{"N":{"type":"number"}}}`, "",
		},
		"a list of types with a number": {
			OpenAI, false,
			`{"type":"object","properties":{"a":{"type":["array","integer","number"],"minimum":1,"items":{"type":"null"}}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{"type":"null"}},{"type":"integer","minimum":1},{"type":"number","minimum":1}]}}}`, "",
		},
		"values with too many characters": {
			OpenAI, true,
			`{"type":"object","properties":{"a":{"type":"string","enum":[` + manyValues(251, 60) + `]}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string","enum":[` + manyValues(251, 60) + `]}},"required":["a"],"additionalProperties":false}`, "/properties/a enum",
		},
		"as many values with fewer": {
			OpenAI, true,
			`{"type":"object","properties":{"a":{"type":"string","enum":[` + manyValues(251, 59) + `]}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string","enum":[` + manyValues(251, 59) + `]}},"required":["a"],"additionalProperties":false}`, "",
		},
		"two names of definitions": {
			Gemini, false,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/N"},"b":{"$ref":"#/definitions/N"},"c":{"$ref":"#/definitions/N/properties/x"}},"$defs":{"N":{"type":"number"}},"definitions":{"N":{"type":"object","properties":{"x":{"type":"string"}}}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/N"},"b":{"$ref":"#/$defs/N_2"},"c":{"$ref":"#/$defs/at_definitions_N_properties_x"}},"$defs":{"N":{"type":"number"},"N_2":{"type":"object","properties":{"x":{"type":"string"}}},"at_definitions_N_properties_x":{"type":"string"}}}`, "",
		},
		"a list of types with an object": {
			OpenAI, true,
			`{"type":"object","properties":{"a":{"type":["object","null"],"description":"d","properties":{"b":{"type":"string"}},"required":["b"]}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{"b":{"type":"string"}},"required":["b"],"additionalProperties":false},{"type":"null"}],"description":"d"}},"required":["a"],"additionalProperties":false}`, "",
		},
		"const becomes an enum": {
			Gemini, true, `{"type":"object","properties":{"a":{"const":"x"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","enum":["x"]}}}`, "",
		},
		"null leaves an enum": {
			Gemini, true, `{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x",null]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]}}}`, "",
		},
		"an array gets items": {
			OpenAI, false, `{"type":"object","properties":{"a":{"type":"array"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}}}}`, "",
		},
		"but not if it is strict": {
			OpenAI, true, `{"type":"object","properties":{"a":{"type":"array"}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}}},"required":["a"],"additionalProperties":false}`, "/properties/a items",
		},
		"a reference beside other keywords": {
			OpenAI, true,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/N","description":"d"},"b":{"$ref":"#/$defs/N"}},"required":["a","b"],"$defs":{"N":{"type":"number"}}}`,
			`{"type":"object","properties":{"a":{"type":"number","description":"d"},"b":{"$ref":"#/$defs/N"}},"required":["a","b"],"$defs":{"N":{"type":"number"}},"additionalProperties":false}`, "",
		},
		"definitions have their new name": {
			Gemini, false,
			`{"type":"object","properties":{"a":{"$ref":"#/definitions/A%20b~1c"}},"definitions":{"A b/c":{"type":"number"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A b~1c"}},"$defs":{"A b/c":{"type":"number"}}}`, "",
		},
		"a reference to a property": {
			Gemini, false,
			`{"type":"object","properties":{"a":{"type":"number"},"b":{"$ref":"#/properties/a"}}}`,
			`{"type":"object","properties":{"a":{"type":"number"},"b":{"$ref":"#/$defs/at_properties_a"}},"$defs":{"at_properties_a":{"type":"number"}}}`, "",
		},
		"the root is a reference": {
			OpenAI, true,
			`{"$ref":"#/$defs/L","$defs":{"L":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/L"},{"type":"null"}]}},"required":["next"]}}}`,
			`{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/L"},{"type":"null"}]}},"required":["next"],"$defs":{"L":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/L"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}},"additionalProperties":false}`, "",
		},
		"what a vendor refuses is described": {
			Anthropic, true,
			`{"type":"object","properties":{"a":{"type":"integer","description":"Age.","minimum":0,"maximum":150}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"integer","description":"Age.\nIt also has to fit this schema: {\"minimum\":0,\"maximum\":150}"}},"required":["a"],"additionalProperties":false}`, "/properties/a minimum",
		},
		"and is no misfit unless strict": {
			GeminiTools, false, `{"type":"object","properties":{"a":{"type":"string","pattern":"^a"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"It also has to fit this schema: {\"pattern\":\"^a\"}"}}}`, "",
		},
		"a remark is no misfit": {
			OpenAI, true, `{"type":"object","properties":{"a":{"type":"string","format":"uri","default":"x"}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"It also has to fit this schema: {\"format\":\"uri\",\"default\":\"x\"}"}},"required":["a"],"additionalProperties":false}`, "",
		},
		"a member that may be missing": {
			OpenAI, true, `{"type":"object","properties":{"a":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false,"required":["a"]}`, "/properties/a required",
		},
		"a map": {
			Anthropic, true, `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}}`,
			`{"type":"object","properties":{"a":{"type":"object","description":"It also has to fit this schema: {\"additionalProperties\":{\"type\":\"string\"}}","additionalProperties":false}},"additionalProperties":false}`, "/properties/a additionalProperties",
		},
		"a schema in itself": {
			Anthropic, true,
			`{"type":"object","properties":{"l":{"$ref":"#/$defs/L"}},"additionalProperties":false,"$defs":{"L":{"type":"object","properties":{"next":{"$ref":"#/$defs/L"}},"additionalProperties":false}}}`,
			`{"type":"object","properties":{"l":{"$ref":"#/$defs/L"}},"additionalProperties":false,"$defs":{"L":{"type":"object","properties":{"next":{"description":"A value as in the schema around it."}},"additionalProperties":false}}}`, "/$defs/L/properties/next $ref",
		},
		"only where it may be missing": {
			Gemini, true,
			`{"type":"object","properties":{"l":{"$ref":"#/$defs/L"}},"$defs":{"L":{"type":"object","properties":{"a":{"$ref":"#/$defs/L"},"b":{"$ref":"#/$defs/L"}},"required":["b"]}}}`,
			`{"type":"object","properties":{"l":{"$ref":"#/$defs/L"}},"$defs":{"L":{"type":"object","properties":{"a":{"$ref":"#/$defs/L"},"b":{"description":"A value as in the schema around it."}},"required":["b"]}}}`, "/$defs/L/properties/b $ref",
		},
		"a branch that is a reference": {
			DeepSeek, true,
			`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}]}},"required":["a"],"additionalProperties":false,"$defs":{"N":{"type":"number"}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"number"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}`, "",
		},
		"a reference elsewhere": {
			Anthropic, false, `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`,
			`{"type":"object","properties":{"a":{"description":"It also has to fit this schema: {\"$ref\":\"https://example.com/a.json\"}"}}}`, "",
		},
		"a union at the root": {
			Anthropic, false, `{"type":"object","anyOf":[{"required":["a"]}]}`,
			`{"type":"object","description":"It also has to fit this schema: {\"anyOf\":[{\"required\":[\"a\"]}]}"}`, "",
		},
		"a value of the wrong shape": {
			OpenAI, false, `{"type":"object","properties":{"a":{"type":"any"}}}`,
			`{"type":"object","properties":{"a":{"description":"It also has to fit this schema: {\"type\":\"any\"}"}}}`, "",
		},
		"older drafts": {
			OpenAI, false, `{"type":"object","properties":{"a":{"minimum":1,"exclusiveMinimum":true},"b":{"items":[{"type":"null"}],"additionalItems":false}}}`,
			`{"type":"object","properties":{"a":{"exclusiveMinimum":1},"b":{"prefixItems":[{"type":"null"}],"items":false}}}`, "",
		},
		"a pattern with a lookahead": {
			Anthropic, true, `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=a)"},"b":{"type":"string","pattern":"^a$"}},"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"It also has to fit this schema: {\"pattern\":\"^(?=a)\"}"},"b":{"type":"string","pattern":"^a$"}},"additionalProperties":false}`, "/properties/a pattern",
		},
		"names of members are no keywords": {
			Anthropic, true, `{"type":"object","properties":{"minimum":{"type":"string"},"$ref":{"type":"string"},"not":{"enum":["$id"]}},"additionalProperties":false}`,
			`{"type":"object","properties":{"minimum":{"type":"string"},"$ref":{"type":"string"},"not":{"type":"string","enum":["$id"]}},"additionalProperties":false}`, "",
		},
		"no schema":   {OpenAI, false, `[]`, `{"type":"object"}`, " "},
		"no JSON":     {OpenAI, false, `{"type":`, `{"type":"object"}`, " "},
		"names twice": {OpenAI, false, `{"type":"object","type":"object"}`, `{"type":"object"}`, " "},
		"too deep":    {OpenAI, false, strings.Repeat(`{"items":`, 100) + "{}" + strings.Repeat("}", 100), `{"type":"object"}`, " "},
		"too long":    {OpenAI, false, `{"description":"` + strings.Repeat("x", 2*MaxBytes+maxGrown) + `"}`, `{"type":"object"}`, " "},
	} {
		t.Run(name, func(t *testing.T) {
			out, misfit := Fit(c.in, c.vendor, c.strict)
			if out != c.out {
				t.Errorf("got  %s\nwant %s", out, c.out)
			}
			if got := describe(misfit); got != c.misfit {
				t.Errorf("misfit %q, want %q", got, c.misfit)
			}
			if again, _ := Fit(out, c.vendor, c.strict); again != out {
				t.Errorf("again: %s\nwas    %s", again, out)
			}
		})
	}
}

// manyValues returns n different texts of the given number of characters.
func manyValues(n, characters int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"%0*d"`, characters, i))
	}
	return strings.Join(all, ",")
}

func describe(m *Misfit) string {
	if m == nil {
		return ""
	}
	return m.Pointer + " " + m.Keyword
}
