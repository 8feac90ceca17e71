package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var ownRoute = stoa.Route{Wire: Wire, Model: "alpha-haiku-4-5", Fingerprint: "fp"}

// items is the combined result of the events of a reply.
type items struct {
	text, refusal, summary string
	order                  []string // of the items
	calls                  []stoa.ToolCall
	cut                    string // arguments of a call without an end
	states                 []stoa.State
	end                    stoa.Event
	err                    error
}

func playItems(t *testing.T, call stoa.Call) (p items) {
	t.Helper()
	var open stoa.ToolCall
	for ev, err := range Reply(t.Context(), call, Options{Route: ownRoute}) {
		if err != nil {
			p.err = err
			return p
		}
		add := func(kind string) {
			if len(p.order) == 0 || p.order[len(p.order)-1] != kind || kind == "call" {
				p.order = append(p.order, kind)
			}
		}
		switch ev.Kind {
		case stoa.Delta:
			add("text")
			p.text += ev.Text
		case stoa.Refusal:
			add("refusal")
			p.refusal += ev.Text
		case stoa.Summary:
			p.summary += ev.Text
		case stoa.Reasoned:
			add("reasoning")
			p.states = append(p.states, ev.State)
		case stoa.CallStarted:
			add("call")
			open = ev.Call
		case stoa.CallDelta:
			if ev.Text == "" || open.ID == "" {
				t.Errorf("a piece %q of %+v", ev.Text, open)
			}
			open.Arguments += ev.Text
		case stoa.Called:
			if ev.Call != open {
				t.Errorf("called %+v, begun %+v", ev.Call, open)
			}
			p.calls = append(p.calls, ev.Call)
			open = stoa.ToolCall{}
		case stoa.Finished:
			p.end = *ev
			p.cut = open.Arguments
		}
	}
	return p
}

func user(parts ...stoa.Part) stoa.Message {
	return stoa.Message{Role: stoa.RoleUser, Parts: parts}
}

func textPart(s string) stoa.Part { return stoa.Part{Kind: stoa.PartText, Text: s} }

func withTools(text string) stoa.Call {
	return stoa.Call{Messages: []stoa.Message{user(textPart(text))}, Tools: []stoa.Tool{
		{Name: "look", Parameters: `{"type":"object","properties":{"city":{"type":"string","minLength":6},"days":{"type":"integer","minimum":3}},"required":["city"]}`},
		{Name: "find", Parameters: ""},
	}}
}

func TestItemsComeInTheirOrder(t *testing.T) {
	t.Parallel()
	call := withTools("think: 40\ntokens: 2\ncall: look {\"city\":\"Ósló and more\"}\ncall: find {}")
	call.Summary = true
	p := playItems(t, call)
	if want := []string{"reasoning", "text", "call", "call"}; !slices.Equal(p.order, want) || p.text != "stoa is" || p.summary == "" || p.end.Stop != stoa.StopToolCalls {
		t.Fatalf("got %+v", p)
	}
	if len(p.calls) != 2 || p.calls[0].Arguments != `{"city":"Ósló and more"}` || p.calls[1].Name != "find" || p.calls[0].ID == p.calls[1].ID {
		t.Errorf("calls: %+v", p.calls)
	}
	if !p.states[0].Fits(ownRoute) || p.states[0].Data == "" || p.end.State != (stoa.State{}) {
		t.Errorf("states: %+v, %+v", p.states, p.end.State)
	}
	if again := playItems(t, call); again.states[0] != p.states[0] || again.end != p.end {
		t.Errorf("the same call gave another reply: %+v", again)
	}
	call.NoParallel = true
	if p := playItems(t, call); len(p.calls) != 1 || p.calls[0].Name != "look" {
		t.Errorf("one at a time: %+v", p.calls)
	}
}

// answer returns the call with the items of a reply and results of its calls.
func answered(call stoa.Call, p items, data string) stoa.Call {
	m := stoa.Message{Role: stoa.RoleAssistant}
	for _, s := range p.states {
		s.Data = strings.Replace(s.Data, "hm", data, 1)
		m.Parts = append(m.Parts, stoa.Part{Kind: stoa.PartReasoning, State: s})
	}
	var results []stoa.Part
	for _, c := range p.calls {
		m.Parts = append(m.Parts, stoa.Part{Kind: stoa.PartCall, Call: &c})
		results = append(results, stoa.Part{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: c.ID, Name: c.Name, Content: "4 °C"}})
	}
	call.Messages = append(slices.Clip(call.Messages), m, user(results...))
	return call
}

func TestReasoningHasToComeBackUnchanged(t *testing.T) {
	t.Parallel()
	call := withTools("think: 40\ncall: look {}")
	first := playItems(t, call)
	next := playItems(t, answered(call, first, "hm"))
	if next.err != nil || !strings.Contains(next.text, "The tool look answered: 4 °C") || !strings.Contains(next.text, "reasoning came back unchanged: 1.") {
		t.Errorf("got %q, %v", next.text, next.err)
	}
	spoilt := answered(call, first, "HM")
	moved := answered(call, first, "hm")
	moved.Messages[0] = user(textPart("Another question"))
	for name, call := range map[string]stoa.Call{"altered": spoilt, "elsewhere": moved} {
		f, ok := errors.AsType[*Failure](playItems(t, call).err)
		if !ok || f.Status != 400 || !f.Caller {
			t.Errorf("%s: %v", name, f)
		}
	}
	foreign := answered(call, first, "HM")
	foreign.Messages[1].Parts[0].State.Provider = "another"
	if p := playItems(t, foreign); p.err != nil || strings.Contains(p.text, "came back") {
		t.Errorf("of another provider: %+v", p)
	}
}

func TestChoicesOfToolsAreObeyed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, prompt string
		choice       stoa.Choice
		called       string // names
	}{
		{"auto", "Hello", stoa.Choice{}, ""},
		{"required", "Hello", stoa.Choice{Mode: stoa.ChoiceRequired}, "look"},
		{"named", "Hello", stoa.Choice{Mode: stoa.ChoiceRequired, Only: []string{"find"}, Named: true}, "find"},
		{"required and ordered", "call: find {}", stoa.Choice{Mode: stoa.ChoiceRequired}, "find"},
		{"ordered but not allowed", "call: find {}\ncall: look {}", stoa.Choice{Only: []string{"look"}}, "look"},
		{"none", "call: find {}", stoa.Choice{Mode: stoa.ChoiceNone}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := withTools(tt.prompt)
			call.Choice = &tt.choice
			p := playItems(t, call)
			var names []string
			for _, c := range p.calls {
				names = append(names, c.Name)
			}
			if strings.Join(names, " ") != tt.called || (tt.called == "") == (p.text == "") {
				t.Fatalf("got %+v", p)
			}
			if tt.name == "required" && p.calls[0].Arguments != `{"city":"cityxx","days":3}` {
				t.Errorf("arguments: %s", p.calls[0].Arguments)
			}
		})
	}
}

func TestLimitCutsACall(t *testing.T) {
	t.Parallel()
	call := withTools("call: find {}\ncall: look {\"city\":\"a city with a long name\"}")
	call.MaxOutputTokens = 5 // two for the first call, one for the name, two pieces
	p := playItems(t, call)
	if len(p.calls) != 1 || p.end.Stop != stoa.StopLength || p.cut != call.Messages[0].Parts[0].Text[len("call: find {}\ncall: look "):][:24] || p.end.Usage.OutputTokens != 5 {
		t.Errorf("got %+v", p)
	}
	call.MaxOutputTokens = 2
	if p := playItems(t, call); len(p.calls) != 1 || p.end.Stop != stoa.StopLength || len(p.order) != 1 {
		t.Errorf("between two calls: %+v", p)
	}
	call = withTools("cut: 2\ncall: look {\"city\":\"a city with a long name\"}")
	if p := playItems(t, call); p.err == nil || len(p.calls) > 0 || !slices.Equal(p.order, []string{"call"}) {
		t.Errorf("broken off: %+v", p)
	}
}

func TestFormatsAndRefusals(t *testing.T) {
	t.Parallel()
	call := stoa.Call{Messages: []stoa.Message{user(textPart("Hello"))}, Format: &stoa.Format{Kind: stoa.FormatObject}}
	var v struct{ Reply string }
	if p := playItems(t, call); json.Unmarshal([]byte(p.text), &v) != nil || !strings.Contains(v.Reply, "Hello") {
		t.Errorf("an object: %s", p.text)
	}
	call.Format = &stoa.Format{Kind: stoa.FormatSchema, Schema: `{"type":"object","properties":{"b":{"enum":["x"]},"a":{"const":4}}}`}
	if p := playItems(t, call); p.text != `{"a":4,"b":"x"}` {
		t.Errorf("a schema: %s", p.text)
	}
	call.Messages[0] = user(textPart("say: {broken"))
	if p := playItems(t, call); p.text != "{broken" {
		t.Errorf("an order: %s", p.text)
	}
	call.Messages[0] = user(textPart("refuse: I may not."))
	if p := playItems(t, call); p.refusal != "I may not." || p.text != "" || p.end.Stop != stoa.StopEnd {
		t.Errorf("a refusal: %+v", p)
	}
	call.Format = nil
	if p := playItems(t, call); p.text != "I may not." || p.refusal != "" {
		t.Errorf("a refusal in plain text: %+v", p)
	}
}

func TestImagesAreDescribed(t *testing.T) {
	t.Parallel()
	image := func(kind stoa.PartKind, m stoa.Media) stoa.Part { return stoa.Part{Kind: kind, Media: &m} }
	of := func(head string) string { return base64.StdEncoding.EncodeToString([]byte(head)) }
	call := stoa.Call{Messages: []stoa.Message{user(
		image(stoa.PartImage, stoa.Media{Type: "image/png", Base64: of("\x89PNG"), Width: 256, Height: 32}),
		image(stoa.PartImage, stoa.Media{Type: "image/gif", Base64: of("GIF89a")}),
		image(stoa.PartImage, stoa.Media{URL: "https://example.com/a.png"}),
		image(stoa.PartFile, stoa.Media{Type: "application/pdf", Base64: of("%PDF-1.4"), Name: "a.pdf"}),
	)}}
	p := playItems(t, call)
	for _, want := range []string{"an image (image/png, 256 × 32 pixels, 4 bytes)", "an image (image/gif, 6 bytes)", "an image at https://example.com/a.png", "a file “a.pdf” (application/pdf, 8 bytes)"} {
		if !strings.Contains(p.text, want) {
			t.Errorf("no %q in %s", want, p.text)
		}
	}
	call = withTools("call: look {}")
	next := answered(call, playItems(t, call), "")
	next.Messages[2].Parts[0].Result.Parts = []stoa.Part{textPart("see"), image(stoa.PartImage, stoa.Media{Type: "image/gif", Base64: of("GIF89a"), Width: 5, Height: 6})}
	if p := playItems(t, next); !strings.Contains(p.text, "see [an image (image/gif, 5 × 6 pixels, 6 bytes)]") {
		t.Errorf("a result: %s", p.text)
	}
}

func TestFittingSchemas(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{}`:       `"value"`,
		`not json`: `{}`,
		`{"type":"object","properties":{"n":{"type":"number","minimum":2.5},"i":{"type":"integer","exclusiveMinimum":4},"u":{"type":["null","string"]},"none":{"type":"null"},"yes":{"type":"boolean"}}}`: `{"i":5,"n":2.5,"none":null,"u":"u","yes":true}`,
		`{"type":"integer","minimum":7,"multipleOf":5}`:                                                  `10`,
		`{"type":"integer","maximum":-3}`:                                                                `-3`,
		`{"type":"array","items":{"type":"string"},"minItems":2,"uniqueItems":true}`:                     `["value","value1"]`,
		`{"type":"array","items":{"type":"string"},"maxItems":0}`:                                        `[]`,
		`{"prefixItems":[{"const":1},{"type":"boolean"}]}`:                                               `[1,true]`,
		`{"type":"string","format":"date"}`:                                                              `"2026-01-02"`,
		`{"type":"string","maxLength":2}`:                                                                `"va"`,
		`{"anyOf":[{"type":"integer"},{"type":"string"}]}`:                                               `1`,
		`{"allOf":[{"properties":{"a":{"const":1}}},{"properties":{"b":{"const":2}},"required":["a"]}]}`: `{"a":1,"b":2}`,
		`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"enum":["x","y"]}}}`:                                     `"x"`,
		`{"type":"object","required":["x"],"additionalProperties":{"type":"integer"}}`:                   `{"x":1}`,
		`{"$ref":"https://example.com/a.json"}`:                                                          `"value"`,
		`{"$ref":"#/$defs/nothing"}`:                                                                     `"value"`,
		`{"type":"object","properties":{"b":{"type":"null"}},"required":["c","b","a"]}`:                  `{"a":"a","b":null,"c":"c"}`,
		`{"type":"object","minProperties":1}`:                                                            `{"key1":"value"}`,
	} {
		if got := fitting(schema); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
	// A deeply nested object has only its required properties.
	inside := `{"type":"object","properties":{"p":{},"q":{"type":"integer"}},"required":["q","r"],"additionalProperties":{"type":"boolean"}}`
	got := fitting(strings.Repeat(`{"type":"object","properties":{"x":`, deep+1) + inside + strings.Repeat(`}}`, deep+1))
	if want := strings.Repeat(`{"x":`, deep+1) + `{"q":1,"r":true}` + strings.Repeat(`}`, deep+1); got != want {
		t.Errorf("deep: %s, want %s", got, want)
	}
	// A recursive schema ends, even if the recursion is required.
	tree := fitting(`{"$defs":{"n":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]},"all":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["next","all"]}},"$ref":"#/$defs/n"}`)
	endless := fitting(`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"required":["a","b"]}`)
	for _, text := range []string{tree, endless, fitting(`{"type":"array","minItems":1e12}`)} {
		if !jsonx.Valid([]byte(text)) || len(text) > 1<<20 {
			t.Errorf("%d bytes: %.100s", len(text), text)
		}
	}
	if got := arguments(`{"type":"string"}`); got != "{}" {
		t.Errorf("arguments that are no object: %s", got)
	}
}
