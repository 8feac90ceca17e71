// Package fakeup is a fake vendor for tests: an HTTP server that implements the four formats,
// rejects the requests that the vendors reject, fails in all their ways when a prompt orders
// it (see [Orders]), and records the served requests.
//
// Only tests import it. Start with [Start].
package fakeup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Key is the API key that a fake accepts, in the form of its vendor's header.
const Key = "fake-vendor-key-4f1d2c"

// A format reads one vendor's requests and writes its replies.
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
	text(s string) []byte // a delta with s, unescaped, between the quotes
	comment() []byte      // the format's keep-alive
}

type object = map[string]any

// A refusal is the error with which a vendor answers a request.
type refusal struct {
	status     int
	kind, text string
	retryAfter string
	param      string // of OpenAI's errors; may be empty
}

func bad(format string, args ...any) *refusal {
	return &refusal{status: 400, kind: "invalid_request_error", text: fmt.Sprintf(format, args...)}
}

// A frame is one encoded event of a streamed reply.
type frame struct {
	bytes []byte
	delta bool // it contains text
	end   bool // it is part of the format's end
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

// raw returns text as a JSON value if it is one, otherwise as a string.
func raw(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
