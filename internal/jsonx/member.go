package jsonx

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// WithMember returns a JSON object with a member that is a text, as the last of them. What
// it has of that name is left out, also where it is there several times; other values
// stay as they are written. An empty text is an empty object. What is no object is
// returned as it is.
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
			_ = e.Encode(part)          // a text, or a value that was read, has a form in JSON
			out.Truncate(out.Len() - 1) // the end of the line
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
	if _, err := d.Token(); err != io.EOF { // there is more behind it
		return object
	}
	add(name, value)
	return "{" + out.String() + "}"
}
