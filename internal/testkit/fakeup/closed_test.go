package fakeup

import "testing"

func TestACutInputIsAnObject(t *testing.T) {
	t.Parallel()
	for begun, want := range map[string]string{
		"":                                 `{}`,
		`{"te`:                             `{}`,
		`{"text":`:                         `{}`,
		`{"text":"Deliver on Mon`:          `{"text":"Deliver on Mon"}`,
		`{"a":"\`:                          `{"a":""}`,
		`{"a":1,"b`:                        `{"a":1}`,
		`{"a":{"b":[1,{"c":"}`:             `{"a":{"b":[1,{"c":"}"}]}}`,
		`{"whole":true}`:                   `{"whole":true}`,
		`{"a":[true,fal`:                   `{"a":[true]}`,
		`{"a":"quoted \"text`:              `{"a":"quoted \"text"}`,
		`{"a":"x","b":{"c":"y","d":"half`:  `{"a":"x","b":{"c":"y","d":"half"}}`,
		`{"a":"x","b":{"c":"y","d":"z"},"`: `{"a":"x","b":{"c":"y","d":"z"}}`,
	} {
		if got := string(encode(closed(begun))); got != want {
			t.Errorf("%s: %s, want %s", begun, got, want)
		}
	}
}
