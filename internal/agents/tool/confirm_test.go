package tool

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

func TestAVisitorIsShownPlainValues(t *testing.T) {
	t.Parallel()
	ask := &stoa.Ask{Title: "Do it", Public: []stoa.PublicField{
		{Path: []string{"text"}, Name: "Text"},
		{Path: []string{"deep", "number"}, Name: "Number"},
		{Path: []string{"list"}, Name: "List"},
		{Path: []string{"text", "below"}, Name: "Below"},
		{Path: []string{"null"}, Name: "Null"},
		{Path: []string{"yes"}, Name: "Yes"},
	}}
	long := strings.Repeat("é", maxFieldValue)
	for arguments, want := range map[string]string{
		`{"text":"a","deep":{"number":1.50,"other":"secret"},"list":["secret"],"null":null,"yes":false,"more":"secret"}`: "Text=a Number=1.50 Yes=false",
		`{"text":{"below":"b"},"deep":"x","yes":true}`:                                                                   "Below=b Yes=true",
		`{"text":"` + long + `"}`:       "Text=" + long,
		`{"text":"` + long + `secret"}`: "Text=" + long + "… (cut)",
		`{"text":"a\u200bb\u202e"}`:     `Text=a\u{200b}b\u{202e}`,
		`{"text":"a","text":"b"}`:       "", // such a call is not made
		`{"text":`:                      "",
		``:                              "",
		`["secret"]`:                    "",
	} {
		got := Confirmation(ask, arguments)
		var shown []string
		for _, f := range got.Fields {
			text := f.Name + "=" + f.Value
			if f.Cut {
				text += " (cut)"
			}
			shown = append(shown, text)
		}
		if text := strings.Join(shown, " "); got.Title != "Do it" || text != want {
			t.Errorf("%.60s: %q, want %q", arguments, text, want)
		}
	}
	if Confirmation(nil, `{"text":"a"}`) != nil {
		t.Error("a visitor is asked without need")
	}
}

func TestAFieldHasTheNameOfItsSchema(t *testing.T) {
	t.Parallel()
	schema := map[string]any{"properties": map[string]any{
		"order_id": map[string]any{"type": "string", "title": "Your\u200b order"},
		"x":        map[string]any{"type": []any{"integer", "null"}, "title": "\u202e"},
		"\u200b":   map[string]any{"type": "boolean"},
		"mixed":    map[string]any{"type": []any{"string", "object"}},
		"untyped":  map[string]any{},
	}}
	for pointer, want := range map[string]string{"/order_id": "Your order", "/x": "x", "/\u200b": "—", "/mixed": "", "/untyped": "", "/order_id/": "", "": "", "/" + strings.Repeat("x/", maxPointerSteps): ""} {
		fields, _, err := publicFields(schema, []string{pointer})
		if (err == nil) != (want != "") || want != "" && fields[0].Name != want {
			t.Errorf("%q: %+v, %v", pointer, fields, err)
		}
	}
}
