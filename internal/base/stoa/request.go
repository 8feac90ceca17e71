package stoa

import "time"

// A Request is the record of one HTTP request: the data that the request log stores of a
// model call, and that metrics count of all requests. It has no text of callers or models.
// Unknown fields are zero.
type Request struct {
	ID         string // req_…, as in the header x-request-id
	Route      string // method and path as in the contract; empty means no route fits
	StartedAt  time.Time
	Duration   time.Duration
	FirstToken time.Duration // from the start to the first text; 0 if none

	AccountID string
	KeyID     string // even of a request that was refused for a missing scope
	Address   string // of the client; empty unless the operator enables it

	Status       int    // as sent; [StatusDisconnected] if the client disconnected first
	Code         Code   // of the error, also of one that ended a stream
	Param        string // the member at fault
	Disconnected bool   // the client was gone before the reply was complete
	Replayed     bool   // answered with the stored reply of an Idempotency-Key

	// Of a model call.
	Asked      string // the model as requested
	Served     string // the identifier that served, or was tried last
	Provider   string // that was tried last
	Attempts   int    // requests to providers
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

// Refused reports whether the request cost its caller nothing and no provider received it: it
// was refused, or answered with a stored reply. Any number of them can be sent for free.
func (r *Request) Refused() bool {
	return r.Replayed || r.Status/100 == 4 && r.Attempts == 0 && !r.Charged
}
