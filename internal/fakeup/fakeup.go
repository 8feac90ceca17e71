// Package fakeup is a fake vendor for tests: a real HTTP server that speaks the
// four formats, refuses what the vendors refuse, goes wrong in every way that they
// do when a prompt orders it (see [Orders]), and keeps books of what it served.
//
// It never ships: only tests import it. Start with [Start].
package fakeup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Key is the API key that a fake accepts, in the form of its vendor's header.
const Key = "fake-vendor-key-4f1d2c"

// A format is how one vendor reads and writes.
type format interface {
	name() string
	match(path string) bool
	read(r *http.Request, body object, key string) (ask, *refusal)
	header(h http.Header, p plan)
	frames(p plan) []frame
	whole(p plan) []byte
	failure(status int, no *refusal, id string) []byte
	failureEvent(status int, p plan) []byte
	malformed() []byte
	text(s string) []byte // a delta with s as it is between the quotes
	comment() []byte      // what the format sends to keep a connection alive
}

type object = map[string]any

// A refusal is why a vendor does not serve a request.
type refusal struct {
	status     int
	kind, text string
	retryAfter string
}

func bad(format string, args ...any) *refusal {
	return &refusal{status: 400, kind: "invalid_request_error", text: fmt.Sprintf(format, args...)}
}

// A frame is one event of a streamed reply as bytes.
type frame struct {
	bytes []byte
	delta bool // it carries text
	end   bool // it belongs to the format's end
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the fake's own values always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// raw puts a text into a document as JSON if it is JSON, else as a string.
func raw(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
