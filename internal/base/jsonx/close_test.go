package jsonx

import (
	"encoding/json"
	"testing"
)

// Every beginning of a text becomes valid.
func TestABeginningIsClosed(t *testing.T) {
	t.Parallel()
	const text = ` {"a\\" : "b\"\u00e9\\", "c":[1, -2.5e+3 ,true,null,{"d":{}},[],"x"] ,"e":{"f":"g"},"größe":false} `
	for n := range len(text) + 1 {
		if got := Close([]byte(text[:n])); !json.Valid(got) {
			t.Errorf("%s becomes %s", text[:n], got)
		}
	}
	for in, want := range map[string]string{
		`{"result":{"content":[{"type":"text","text":"abc\u00`: `{"result":{"content":[{"type":"text","text":"abc"}]}}`,
		`{"a":1,"b`:     `{"a":1,"b":null}`,
		`{"a":[12, 3`:   `{"a":[12, null]}`,
		`[{"a":"b\\\\"`: `[{"a":"b\\\\"}]`,
		``:              `null`,
	} {
		if got := string(Close([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}
