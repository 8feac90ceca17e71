// Package jsonx is the JSON of the hot paths and of stored data: a strict decoder for
// callers, a lenient one for providers, and a fast encoder.
//
// The strict decoder refuses duplicate member names and invalid UTF-8, because two readers of
// one document must never interpret it differently. The lenient one accepts both, because a
// mistake of a provider must not cost a caller the reply. Text that is not JSON is an error
// in both. Member names are case-sensitive.
//
// It is not the only JSON package: the schema check of api, the pages and the output of the
// command line use encoding/json.
//
// Start with [Unmarshal] and [AppendString]; [Cursor] is for the hot paths.
package jsonx

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// A Value is one raw JSON value. As a field of a struct it keeps the bytes.
type Value = jsontext.Value

// Unmarshal decodes the JSON of a caller: one value and nothing after it, no duplicate names, valid UTF-8. It
// ignores unknown members.
func Unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }

// UnmarshalKnown is [Unmarshal], but also refuses members that are not in into.
func UnmarshalKnown(data []byte, into any) error {
	return json.Unmarshal(data, into, json.RejectUnknownMembers(true))
}

// Lenient decodes the JSON of a provider: invalid UTF-8 becomes U+FFFD, the last of several duplicate names
// applies, unknown members are ignored.
func Lenient(data []byte, into any) error {
	return json.Unmarshal(data, into, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Valid reports whether data is one JSON value in the strict reading.
func Valid(data []byte) bool { return jsontext.Value(data).IsValid() }

// ObjectIn returns the object that a text of a model consists of, which may stand between the marks of a code block; nil if it
// is anything else.
func ObjectIn(text string) Value {
	text = strings.TrimSpace(text)
	if first, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(first, "```") {
		if inner, ok := strings.CutSuffix(rest, "```"); ok {
			text = strings.TrimSpace(inner)
		}
	}
	if !strings.HasPrefix(text, "{") || !Valid([]byte(text)) {
		return nil
	}
	return Value(text)
}

// Marshal encodes JSON. A nil slice is [] and a nil map is {}; map keys are sorted, so that equal values
// have equal bytes. Invalid UTF-8 becomes U+FFFD.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// MarshalModel is [Marshal] for the generated models of the contract, because their tags are meant for encoding/json:
// omitempty omits an optional member without a value, but not one whose value is null.
func MarshalModel(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsonv1.OmitEmptyWithLegacySemantics(true))
}
