package schema

import (
	"fmt"
	"strings"
	"testing"
)

func TestParametersThatAreRefused(t *testing.T) {
	deep := `{"type":"object"}`
	for range maxLevels {
		deep = `{"type":"object","properties":{"a":` + deep + `}}`
	}
	for text, want := range map[string]string{
		`[]`:                `not one JSON object`,
		`{"type":"object"`:  `not one JSON object`,
		`{"type":"string"}`: `has to be "object"`,
		`{}`:                `has to be "object"`,
		`{"type":"object","description":"` + strings.Repeat("x", MaxParameters) + `"}`:     `at most 32768`,
		`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`:       `names nothing in the schema`,
		`{"type":"object","properties":{"a":{"$ref":"other.json#/a"}}}`:                    `names nothing in the schema`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`:                     `names nothing in the schema`,
		`{"type":"object","$schema":"https://example.com/own"}`:                            `not followed`,
		`{"type":"object","$id":"https://example.com/s","properties":{}}`:                  `"$id"`,
		`{"type":"object","properties":{"a":{"$dynamicRef":"#x"}}}`:                        `"$dynamicRef"`,
		`{"type":"object","$ref":"#"}`:                                                     `leads back`,
		`{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}}`:      `leads back`,
		`{"type":"object","properties":{"a":{"type":"nothing"}}}`:                          `/properties/a/type`,
		`{"type":"object","properties":{"a":{"pattern":"("}}}`:                             `pattern`,
		`{"type":"object","properties":{"a":{"multipleOf":1e999999999}}}`:                  `too large`,
		`{"type":"object","properties":{"a":{"minimum":` + strings.Repeat("9", 40) + `}}}`: `too long`,
		deep: `more than 10 schemas`,
	} {
		if _, err := ReadParameters(text); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > maxTold+10 {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
	}
}

func TestArgumentsAreCheckedByTheWholeSchema(t *testing.T) {
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

// A short schema can apply itself more often than a check may take: by references
// that double, or by a value whose levels do.
func TestACheckThatWouldNotEndIsRefused(t *testing.T) {
	var defs []string
	for i := range 60 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	doubled := `{"type":"object","$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `,"d60":true}}`
	nested := `{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"type":"null"}]}},"not":{"properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}}`
	for schema, arguments := range map[string]string{
		doubled: `{}`,
		nested:  strings.Repeat(`{"a":`, 60) + `null` + strings.Repeat(`}`, 60),
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
