package wire

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

func TestToolSchemasFitTheirVendor(t *testing.T) {
	t.Parallel()
	const short = `{"type":"object","properties":{"a":{"type":"string","minLength":2}},"required":["a"],"additionalProperties":false}`
	described := strings.Replace(short, `"minLength":2`, `"description":"It also has to fit this schema: {\"minLength\":2}"`, 1)
	yes, no := true, false
	enforces := stoa.Traits{StrictTools: true}
	for name, c := range map[string]struct {
		route  stoa.Route
		strict *bool
		want   string
		held   bool // to the schema
	}{
		"it fits":               {stoa.Route{Wire: "responses", Traits: enforces}, &yes, short, true},
		"not asked for":         {stoa.Route{Wire: "responses", Traits: enforces}, &no, short, false},
		"not said":              {stoa.Route{Wire: "responses", Traits: enforces}, nil, short, false},
		"the model cannot":      {stoa.Route{Wire: "responses"}, &yes, short, false},
		"it does not fit":       {stoa.Route{Wire: "messages", Traits: enforces}, &yes, short, false},
		"refused in any case":   {stoa.Route{Wire: "gemini", Traits: enforces}, &yes, described, false},
		"chat of OpenAI":        {stoa.Route{Wire: "chat", Dialect: "openai", Traits: enforces}, &yes, short, true},
		"chat of DeepSeek":      {stoa.Route{Wire: "chat", Dialect: "deepseek", Traits: enforces}, &yes, short, false},
		"chat of another":       {stoa.Route{Wire: "chat", Dialect: "compatible", Traits: enforces}, &yes, short, true},
		"chat without dialects": {stoa.Route{Wire: "chat"}, &yes, short, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, held, err := FitTool(stoa.Tool{Name: "f", Parameters: short, Strict: c.strict}, c.route)
			if got != c.want || held != c.held || err != nil {
				t.Errorf("got %s, enforced %v, %v; want %s, %v", got, held, err, c.want, c.held)
			}
		})
	}
	if got, _, err := FitTool(stoa.Tool{}, stoa.Route{Wire: "messages"}); got != noParameters || err != nil {
		t.Errorf("a tool without parameters has %s, %v", got, err)
	}
}

func TestToolsAreNotSentWithoutTheirSchema(t *testing.T) {
	t.Parallel()
	deep := `{"type":"object","properties":{"a":` + strings.Repeat(`{"items":`, 100) + `{}` + strings.Repeat(`}`, 100) + `}}`
	for _, wire := range []string{"messages", "gemini", "responses", "chat"} {
		_, err := codecs[wire].Encode(stoa.Call{Stateful: true, Tools: []stoa.Tool{{Name: "f", Parameters: deep}}}, stoa.Route{Wire: wire}, "")
		if e := stoa.AsError(err); err == nil || e.Code != stoa.CodeUnsupportedValue || e.Param != "tools" || !strings.Contains(e.Message, `"f"`) {
			t.Errorf("%s: %v, want unsupported_value of tools", wire, err)
		}
	}
}

func TestRequestsSayIfToolsAreStrict(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	route := stoa.Route{Wire: "responses", Model: "m", Traits: stoa.Traits{StrictTools: true}}
	for name, c := range map[string]struct {
		strict *bool
		want   string
	}{
		"strict":     {&yes, `"additionalProperties":false,"properties":{},"required":[]},"strict":true}`},
		"not strict": {&no, `"parameters":{"type":"object"},"strict":false}`},
		"not said":   {nil, `"parameters":{"type":"object"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := responses{}.Encode(stoa.Call{
				Stateful: true, Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "Hi")},
				Tools: []stoa.Tool{{Name: "f", Parameters: `{"$schema":"x"}`, Strict: c.strict}},
			}, route, "")
			if err != nil || !strings.Contains(string(req.Body), c.want) {
				t.Errorf("%s, %v; want %s in it", req.Body, err, c.want)
			}
		})
	}
}

func TestFormatsFitTheirVendor(t *testing.T) {
	t.Parallel()
	const (
		open   = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`
		closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
		listed = `{"type":"object","properties":{"a":{"type":"string","uniqueItems":true}},"required":["a"]}`
	)
	optional := `{"type":"object","properties":{`
	for i := range 25 {
		optional += `"` + string(rune('a'+i)) + `":{"type":"null"},`
	}
	optional = strings.TrimSuffix(optional, ",") + `}}`
	yes := true
	for name, c := range map[string]struct {
		wire   string
		strict *bool
		schema string
		want   string
		err    string // in the error
	}{
		"enforced by nature":    {"messages", nil, open, closed, ""},
		"enforced if asked for": {"responses", &yes, open, closed, ""},
		"and left open if not":  {"responses", nil, open, open, ""},
		"without additions":     {"gemini", &yes, open, open, ""},
		"what cannot be":        {"responses", &yes, listed, "", `"uniqueItems" at "#/properties/a"`},
		"is described":          {"messages", nil, listed, strings.Replace(closed, `"string"`, `"string","description":"It also has to fit this schema: {\"uniqueItems\":true}"`, 1), ""},
		"more than they take":   {"messages", nil, optional, "", `exceeds the provider's limit, counted by its "required"`},
		"what is no schema":     {"chat", nil, `[]`, "", "is not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FitFormat(stoa.Format{Kind: stoa.FormatSchema, Schema: c.schema, Strict: c.strict}, stoa.Route{Wire: c.wire})
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || stoa.CodeOf(err) != stoa.CodeUnsupportedValue) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// TestParametersHaveProperties checks what Ollama requires of a tool without parameters.
func TestParametersHaveProperties(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		``:                  `{"type":"object","properties":{}}`,
		`{}`:                `{"type":"object","properties":{}}`,
		`{"type":"object"}`: `{"type":"object","properties":{}}`,
		`{"type":"object", "additionalProperties": {"properties":{}} }`: `{"type":"object","additionalProperties":{"properties":{}},"properties":{}}`,
		`{"type":"object","properties":{"a":{}}}`:                       `{"type":"object","properties":{"a":{}}}`,
	} {
		got, _, err := FitTool(stoa.Tool{Name: "f", Parameters: given}, stoa.Route{Wire: "chat", Dialect: "compatible"})
		if err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", given, got, err, want)
		}
	}
}
