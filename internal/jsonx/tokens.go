package jsonx

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// A Decoder reads a caller's JSON token by token, strictly: duplicate names and
// bad UTF-8 are errors. It is for the one request that is worth it.
type Decoder = jsontext.Decoder

// Kind is the first byte that tells what a JSON value is: n, t, f, ", 0, {, [.
type Kind = jsontext.Kind

// A SyntacticError says where JSON ends to be JSON.
type SyntacticError = jsontext.SyntacticError

// KindInvalid is the kind of what is no JSON; ErrDuplicateName is an object
// that names a member twice.
const KindInvalid = jsontext.KindInvalid

// ErrDuplicateName: see [KindInvalid].
var ErrDuplicateName = jsontext.ErrDuplicateName

// NewDecoder reads from data, which it may alias but does not change.
func NewDecoder(data []byte) *Decoder { return jsontext.NewDecoder(bytes.NewBuffer(data)) }
