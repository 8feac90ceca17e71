// Package jsonx is the JSON of the hot paths and of what is stored: a strict
// reading for callers, a lenient one for vendors, and a fast way to write.
//
// Strict refuses duplicate member names and invalid UTF-8, because two readers
// of one document must never see two different things. Lenient takes both,
// because a vendor's slip must not cost a caller the reply. Neither guesses:
// what is not JSON is an error in both. Member names are case-sensitive.
//
// Start with [Unmarshal] and [AppendString]; [Cursor] is for the hot paths.
package jsonx

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Value is one raw JSON value. As a field of a struct it keeps the bytes.
type Value = jsontext.Value

// Unmarshal reads a caller's JSON: one value and nothing after it, no duplicate
// names, valid UTF-8. Unknown members are ignored.
func Unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }

// UnmarshalKnown is [Unmarshal] that also refuses members that into does not have.
func UnmarshalKnown(data []byte, into any) error {
	return json.Unmarshal(data, into, json.RejectUnknownMembers(true))
}

// Lenient reads a vendor's JSON: invalid UTF-8 becomes U+FFFD, of duplicate
// names the last one counts, unknown members are ignored.
func Lenient(data []byte, into any) error {
	return json.Unmarshal(data, into, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Valid reports whether data is one JSON value in the strict reading.
func Valid(data []byte) bool { return jsontext.Value(data).IsValid() }

// Marshal writes JSON. A nil slice is [] and a nil map is {}; map keys are sorted,
// so that equal values have equal bytes. Invalid UTF-8 becomes U+FFFD.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}
