package schema

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestParametersThatAreRefused(t *testing.T) {
	t.Parallel()
	deep := `{"type":"object"}`
	for range maxLevels {
		deep = `{"type":"object","properties":{"a":` + deep + `}}`
	}
	for text, want := range map[string]string{
		`[]`:                `not one JSON object`,
		`{"type":"object"`:  `not one JSON object`,
		`{"type":"string"}`: `must be "object"`,
		`{}`:                `must be "object"`,
		`{"type":"object","description":"` + strings.Repeat("x", MaxParameters) + `"}`:                                                                             `the maximum is 32768`,
		`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`:                                                                               `has no target in the schema`,
		`{"type":"object","properties":{"a":{"$ref":"other.json#/a"}}}`:                                                                                            `has no target in the schema`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`:                                                                                             `has no target in the schema`,
		`{"type":"object","$schema":"https://example.com/own"}`:                                                                                                    `not followed`,
		`{"type":"object","$id":"https://example.com/s","properties":{}}`:                                                                                          `"$id"`,
		`{"type":"object","properties":{"a":{"$dynamicRef":"#x"}}}`:                                                                                                `"$dynamicRef"`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"a":{"id":"https://example.com/a"}}}`:                                  `"id"`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"items":[{}],"additionalItems":{"$ref":"https://example.com"}}}}`: `has no target in the schema`,
		`{"type":"object","$ref":"#"}`: `leads back`,
		`{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}}`:                               `leads back`,
		`{"type":"object","properties":{"a":{"type":"nothing"}}}`:                                                   `/properties/a/type`,
		`{"type":"object","properties":{"a":{"pattern":"("}}}`:                                                      `pattern`,
		`{"type":"object","properties":{"a":{"multipleOf":1e999999999}}}`:                                           `too large`,
		`{"type":"object","properties":{"a":{"minimum":` + strings.Repeat("9", 40) + `}}}`:                          `too long`,
		`{"type":"object","properties":{"a":{"pattern":"(?:a?){1000}` + strings.Repeat("(?:a?){1000}", 20) + `"}}}`: `too large`,
		`{"type":"object","patternProperties":{"(?:` + strings.Repeat("a?", 450) + `){1000}":true}}`:                `50000 states`,
		`{"type":"object","propertyNames":{"pattern":"(?:(?:` + strings.Repeat("a", 60) + `){31}){32}"}}`:           `too large`,
		deep: `more than 10 nested schemas`,
	} {
		if _, err := ReadParameters(text); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > maxTold+10 {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
	}
}

func TestArgumentsAreCheckedByTheWholeSchema(t *testing.T) {
	t.Parallel()
	p, err := ReadParameters(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"orderId":{"type":"string","pattern":"^[A-Z]-[0-9]+$"},
		"count":{"type":"integer","minimum":1},"tree":{"$ref":"#/$defs/tree"}},"required":["orderId"],"additionalProperties":false,
		"$defs":{"tree":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"additionalProperties":false}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"orderId":"A-1","count":9007199254740993}`:      ``,
		`{"orderId":"A-1","tree":{"kids":[{"kids":[]}]}}`: ``,
		`{"orderId":"a-1"}`:                               `at '/orderId'`,
		`{"orderId":7}`:                                   `want string`,
		`{}`:                                              `orderId`,
		`{"orderId":"A-1","count":0}`:                     `minimum`,
		`{"orderId":"A-1","other":1}`:                     `other`,
		`{"orderId":"A-1","tree":{"kids":[{"kid":[]}]}}`:  `/tree/kids/0`,
		`{"orderId":"A-1"`:                                `not valid JSON`,
		`{"orderId":"A-1","orderId":"A-2"}`:               `not valid JSON`,
		`[1]`:                                             `want object`,
		`{"orderId":"A-1","count":1e999999999}`:           `too large`,
		`[` + strings.Repeat("1,", maxArguments) + `1]`:   `more than 10000 values`,
	} {
		err := p.Check(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
	}
}

// A short schema can apply itself more often than a check allows: by references that double
// the work, or by nested values that do.
func TestACheckThatWouldNotEndIsRefused(t *testing.T) {
	t.Parallel()
	var defs []string
	for i := range 60 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	doubled := `{"type":"object","$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `,"d60":true}}`
	nested := `{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"type":"null"}]}},"not":{"properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}}`
	for schema, arguments := range map[string]string{
		doubled: `{}`,
		`{"type":"object","properties":{"a":{"pattern":"^(?:(?:a?a?){50}){20}b$"}}}`: `{"a":"` + strings.Repeat("a", 100_000) + `"}`,
		`{"type":"object","patternProperties":{"^(?:(?:a?a?){50}){20}b$":{}}}`:       `{"` + strings.Repeat("a", 100_000) + `":1}`,
		`{"type":"object","propertyNames":{"pattern":"^(?:(?:a?a?){50}){20}b$"}}`:    `{"` + strings.Repeat("a", 100_000) + `":1}`,
		nested: strings.Repeat(`{"a":`, 60) + `null` + strings.Repeat(`}`, 60),
	} {
		p, err := ReadParameters(schema)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(arguments); err == nil || !strings.Contains(err.Error(), "too much") {
			t.Errorf("%.80s: %v", schema, err)
		}
	}
}

// Regular expressions of usual sizes are accepted, and texts of usual lengths checked.
func TestUsualPatternsAreTaken(t *testing.T) {
	t.Parallel()
	var properties []string
	for i := range 60 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"type":"string","pattern":"^[A-Za-z0-9._%%+-]{1,64}@[a-z0-9.-]{1,%d}$"}`, i, 64+i))
	}
	p, err := ReadParameters(`{"type":"object","properties":{"long":{"pattern":"^.{0,1000}$"},"text":{"pattern":"^\\S[\\s\\S]*$"},` + strings.Join(properties, ",") + `}}`)
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"p3":"a.b@example.com","long":"` + strings.Repeat("x", 1000) + `","text":"` + strings.Repeat("x", 20_000) + `"}`: "",
		`{"p3":"nothing"}`: "pattern",
		`{"long":"` + strings.Repeat("x", 1001) + `"}`: "at '/long'",
	} {
		if err := p.Check(arguments); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", arguments, err)
		}
	}
}

// The count of states is at least the number of states compiled.
func TestStatesAreCountedBeforeTheyAreMade(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"", "a", "abc", "[a-z]+", "a|b|c", "(a)(b)?", "(?i)straße", "a{3,5}", "a{3,}", "(?:ab?){10}", "(?:a*b+c?){2,7}x{4}", "^$", `\pL{20}`, "(?:a{10}){10}", "a{0}", "(a|b){0,9}", "(?:(?:a?a?){50}){20}b",
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		made, err := syntax.Compile(parsed.Simplify())
		if n, failed := PatternStates(pattern); err != nil || failed != nil || n+2 < len(made.Inst) || n > 4*len(made.Inst)+10 {
			t.Errorf("%s: %d states are counted, and %d made: %v, %v", pattern, n, len(made.Inst), err, failed)
		}
	}
}
