package jsonx

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// A Decoder reads the JSON of a caller token by token and strictly: duplicate names and invalid UTF-8 are
// errors. It is for POST /api/v1/responses, because the body may be megabytes long.
type Decoder = jsontext.Decoder

// Kind is the kind of a JSON value as its first byte: n, t, f, ", 0, {, [.
type Kind = jsontext.Kind

// A SyntacticError contains the offset at which a text stops being JSON.
type SyntacticError = jsontext.SyntacticError

// KindInvalid is the kind of text that is not JSON; ErrDuplicateName is the error for an object that names a
// member twice.
const KindInvalid = jsontext.KindInvalid

// ErrDuplicateName: see [KindInvalid].
var ErrDuplicateName = jsontext.ErrDuplicateName

// NewDecoder reads from data, which it may alias but does not change.
func NewDecoder(data []byte) *Decoder { return jsontext.NewDecoder(bytes.NewBuffer(data)) }
