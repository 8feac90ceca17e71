// Package wire translates between the neutral [stoa.Call] and [stoa.Event] and the vendors'
// formats. It is pure: bytes in, bytes out.
//
// It never opens a socket, reads a clock, logs, or reads the configuration. Every format is
// one file with one [Codec]; start with [Codec], then read one of them together with its
// fixtures in testdata.
package wire

import (
	"io"
	"iter"
	"net/http"
	"time"

	"stoa/internal/base/stoa"
)

// A Codec implements one vendor's format.
type Codec interface {
	// Encode builds the request for a call, streamed unless the call is Whole. It fails with
	// a [stoa.Error] only if the call cannot be expressed in this format.
	Encode(call stoa.Call, route stoa.Route, apiKey string) (Request, error)
	// Decode reads a successful reply, streamed or whole, and yields its events. The last
	// event is Finished, or an error (a [*Failure]): a reply that ends before its format's
	// end is an error, never complete. State has the route's wire, model and fingerprint.
	Decode(body io.Reader, route stoa.Route, want Want) iter.Seq2[*stoa.Event, error]
	// DecodeError reads a reply whose status is not 2xx. body may be truncated.
	DecodeError(status int, header http.Header, body []byte) *Failure
}

// Want describes what a reply may contain.
type Want struct {
	Tools   bool   // the call offered tools
	JSON    bool   // the call requested a format: a refusal is distinguished from text
	Summary bool   // [stoa.Call.Summary]
	Limit   int64  // [stoa.Call.MaxOutputTokens]
	Long    bool   // the request has a long mark: cache writes without a lifetime count as long
	After   string // of the wire messages: mark of the last segment of reasoning in the call
	// Note, if not nil, is called with the vendor's changes to the input of the call, such as
	// dropped reasoning, bounded, for the log.
	Note func(detail string) `json:"-"`
	// Unknown, if not nil, is called with the provider's word for the end of the reply, bounded, if
	// the service does not know it.
	Unknown func(word string) `json:"-"`
}

// WantOf returns what the reply to a call may contain.
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
	// Reasoning is the number of reasoning segments in the body; the call may have more, of
	// other models or before a gap.
	Reasoning int
	// MarkedBy says who marked the body for the vendor's cache; empty if the wire has no marks.
	// MarksChanged means that the body lacks a mark of the caller, or has it in another place.
	MarkedBy     stoa.MarkedBy
	MarksChanged bool
	Long         bool // the body has a long mark
	Described    bool // a part of a tool's schema is in a description, because the vendor does not accept it
}

// A Failure describes the failure of an upstream call: the error for the caller, and the
// reaction of Stoa.
type Failure struct {
	Err        *stoa.Error   // for the caller, without keys and addresses
	Retry      bool          // the same route may work in a moment
	Caller     bool          // no other route will help, because the caller's input is at fault
	Neutral    bool          // nothing follows for the health of the route, because only this request was rejected
	Ours       bool          // Stoa's credentials, account or configuration are at fault: logged as an alarm
	Reasoning  bool          // the vendor refuses reasoning of earlier replies; without it the request may work
	CallIDs    bool          // the vendor requires ids of nine letters and digits; see [stoa.Traits]
	Cut        bool          // a limit of this service ended the reply, not a fault of the vendor: the output so far is kept and charged
	RetryAfter time.Duration // as the vendor requested; 0 if it did not
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

// codecs contains the codecs by their names in configurations.
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
