package stoa

import (
	"strings"
	"time"
)

// A Request is the record of one HTTP request. The request log stores those of model calls, and
// metrics count all. It contains no text of callers or models. Unknown fields are zero.
type Request struct {
	ID         string // req_…, as in the header x-request-id
	Route      string // method and path as in the contract; empty means no route fits
	StartedAt  time.Time
	Duration   time.Duration
	FirstToken time.Duration // from the start to the first text; 0 if none

	AccountID string
	KeyID     string // also set if the key was refused for a missing scope
	Address   string // of the client; empty unless the operator enables it

	Status       int  // as sent; [StatusDisconnected] if the client disconnected first
	Code         Code // code of the error, also of one that ended a stream
	Param        string
	Disconnected bool // the client was gone before the reply was complete
	Replayed     bool // answered with the stored reply of an Idempotency-Key

	// The following fields describe a model call.
	Asked      string
	Served     string // identifier that served, or that was tried last
	Provider   string
	Attempts   int
	Stream     bool
	ResponseID string // resp_…; empty if no reply began
	Charged    bool   // there is a receipt under ResponseID
	Usage      Usage
	Amount     Credits
	Estimated  bool // as in [Charge]
	Clamped    bool
}

// StatusDisconnected is the recorded status of a request whose client disconnected before
// the reply began. It is never sent.
const StatusDisconnected = 499

// Refused reports whether the request was refused, or answered with a stored reply, before a
// provider received it. Callers must limit the stored number, because such requests are free.
func (r *Request) Refused() bool {
	return r.Replayed || r.Status/100 == 4 && r.Attempts == 0 && !r.Charged
}

// ResponseTo returns the id of the response to a request of that id: the same letters after resp_, so that
// each is found by the other, and the request log stores one of them.
func ResponseTo(requestID string) string { return "resp" + strings.TrimPrefix(requestID, "req") }
