package jsonx

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// WithMember returns a JSON object with a string member added as the last one. It removes all existing
// members of that name, and copies other values unchanged. An empty text means an empty object. It returns a text that is
// not an object unchanged.
func WithMember(object, name, value string) string {
	given := object
	if strings.TrimSpace(given) == "" {
		given = "{}"
	}
	d := json.NewDecoder(strings.NewReader(given))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return object
	}
	var out bytes.Buffer
	add := func(name string, value any) {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		for i, part := range []any{name, value} {
			if i > 0 {
				out.WriteByte(':')
			}
			_ = e.Encode(part)          // never fails, because a text or a value that was read can be encoded
			out.Truncate(out.Len() - 1) // without the line break that Encode adds
		}
	}
	for d.More() {
		key, err := d.Token()
		var member json.RawMessage
		if err == nil {
			err = d.Decode(&member)
		}
		if err != nil {
			return object
		}
		if text, _ := key.(string); text != name {
			add(text, member)
		}
	}
	if _, err := d.Token(); err != nil {
		return object
	}
	if _, err := d.Token(); err != io.EOF { // more data follows
		return object
	}
	add(name, value)
	return "{" + out.String() + "}"
}
