// Package wire translates between the neutral [stoa.Call] and [stoa.Event] and
// the vendors' formats. It is pure: bytes in, bytes out.
//
// It never opens a socket, reads a clock, logs, or sees the configuration. Every
// format is one file with one [Codec]; start with [Codec], then read one of them
// together with its fixtures in testdata.
package wire

import (
	"io"
	"iter"
	"net/http"
	"time"

	"stoa/internal/stoa"
)

// A Codec implements one vendor's format.
type Codec interface {
	// Encode builds the request for a call, for a stream unless the call says Whole. It
	// fails with a [stoa.Error] only when the call cannot be expressed in this format.
	Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error)
	// Decode reads a successful reply, streamed or whole, and yields its events.
	// The last is Finished, or an error (a [*Failure]): a reply that ends without
	// its format's end is an error, never complete. State has the route's wire, model
	// and fingerprint.
	Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[*stoa.Event, error]
	// DecodeError reads a reply whose status is not 2xx. body may be cut.
	DecodeError(status int, header http.Header, body []byte) *Failure
}

// Want is what a reply may have.
type Want struct {
	Tools   bool   // the call offered tools
	JSON    bool   // the call asked for a format: a refusal is told apart from text
	Summary bool   // [stoa.Call.Summary]
	Limit   int64  // [stoa.Call.MaxOutputTokens]
	After   string // of the wire messages: the mark of the last segment of reasoning in the call
	// Note is told what the vendor did to the input of the call, such as reasoning that it
	// dropped, bounded, for the log; nil: nobody is.
	Note func(detail string) `json:"-"`
}

// WantOf returns what the reply to a call may have.
func WantOf(call *stoa.Call) Want {
	return Want{
		Tools: len(call.Tools) > 0, JSON: call.TextFormat().Kind != stoa.FormatText, Summary: call.Summary, Limit: call.MaxOutputTokens,
		After: lastMark(call),
	}
}

// A Request is a request to send with POST. Path is appended to the provider's base
// URL and may contain a query.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
	// Reasoning is the number of segments of reasoning in the body; the call may have
	// more, of other models or behind a gap.
	Reasoning int
}

// A Failure is how an upstream call failed: what the caller may see, and what
// Stoa should do about it.
type Failure struct {
	Err        *stoa.Error   // for the caller, without keys and addresses
	Retry      bool          // the same route may work in a moment
	Caller     bool          // the caller's input is at fault: no other route will help
	Neutral    bool          // it says nothing about the health of the route: only this request was rejected
	Ours       bool          // our credentials, our account or our configuration: logged as an alarm
	Reasoning  bool          // the vendor refuses reasoning of earlier replies; without it the request may work
	Cut        bool          // a limit of this service ended the reply, not a fault of the vendor: what came before is kept and paid for
	RetryAfter time.Duration // what the vendor asked for; 0: nothing
	Status     int           // the HTTP status; 0 inside a stream
	Detail     string        // the vendor's message, bounded, for the log
	RequestID  string        // the vendor's id of the call, for the log
}

func (f *Failure) Error() string {
	if f.Detail != "" {
		return f.Err.Error() + ": " + f.Detail
	}
	return f.Err.Error()
}

// Unwrap returns the error for the caller.
func (f *Failure) Unwrap() error { return f.Err }

// codecs are the formats by their names in configurations.
var codecs = map[string]Codec{
	"messages":  messages{},
	"gemini":    gemini{},
	"responses": responses{},
	"chat":      chat{},
}

// For returns the codec of a wire.
func For(wire string) (Codec, bool) {
	c, ok := codecs[wire]
	return c, ok
}
