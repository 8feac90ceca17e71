// Package wire translates between the neutral [stoa.Call] and [stoa.Event] and
// the formats that vendors speak: bytes in, bytes out.
//
// It never opens a socket, reads a clock, logs, or sees a configuration. Every
// vendor format is one file with one [Codec]; start with [Codec], then read any
// of them beside its fixtures in testdata.
package wire

import (
	"io"
	"iter"
	"net/http"
	"time"

	"stoa/internal/stoa"
)

// A Codec is all that a vendor's format has to supply.
type Codec interface {
	// Encode writes the streaming request for a call. It fails with a
	// [stoa.Error] only when the call cannot be said in this format.
	Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error)
	// Decode reads a successful reply, streamed or whole, and yields its events.
	// The last is Finished, or an error (a [*Failure]): a reply that ends without
	// its format's own end is an error, never quietly complete. State carries the
	// route's wire and model.
	Decode(body io.Reader, route stoa.Route) iter.Seq2[stoa.Event, error]
	// DecodeError reads a reply whose status is not 2xx.
	DecodeError(status int, header http.Header, body []byte) *Failure
}

// A Request is what has to be sent: Path is added to the provider's base URL
// (it may carry a query), the method is always POST.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// A Failure is how an upstream call failed: what the caller may be told, and
// what the house should do about it.
type Failure struct {
	Err        *stoa.Error   // for the caller: never a vendor's own text, key or model name
	Retry      bool          // the same route may work in a moment
	Caller     bool          // the caller's input is at fault: no other route will help
	Ours       bool          // our credentials or our bill: somebody must be told
	RetryAfter time.Duration // what the vendor asked for; 0: nothing
	Status     int           // the HTTP status; 0 inside a stream
	Detail     string        // the vendor's words, bounded, for the log
	RequestID  string        // the vendor's id of the call, for the log
}

func (f *Failure) Error() string {
	if f.Detail != "" {
		return f.Err.Error() + ": " + f.Detail
	}
	return f.Err.Error()
}

// Unwrap gives what the caller may be told.
func (f *Failure) Unwrap() error { return f.Err }

// codecs are the formats by the name that configurations use.
var codecs = map[string]Codec{
	"messages":  messages{},
	"gemini":    gemini{},
	"responses": responses{},
	"chat":      chat{},
}

// For gives the codec of a wire.
func For(wire string) (Codec, bool) {
	c, ok := codecs[wire]
	return c, ok
}
