package stoa

import "time"

// A Request is what became of one HTTP request: what the request log keeps of a model
// call, and what is counted of all requests. It has no text of callers or models.
// What is not known of a request is zero.
type Request struct {
	ID         string // req_…, as in the header x-request-id
	Route      string // method and path as in the contract; empty: no route fits
	StartedAt  time.Time
	Duration   time.Duration
	FirstToken time.Duration // from the start to the first text; 0: there was none

	AccountID string
	KeyID     string // also of a request that was refused for what the key may not do
	Address   string // of the client; empty unless the operator wants it kept

	Status       int    // as sent; [StatusDisconnected] where there was nobody to send one to
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
	ResponseID string // resp_…; empty where no reply began
	Charged    bool   // there is a receipt under ResponseID
	Usage      Usage
	Amount     Credits
	Estimated  bool // as in [Charge]
	Clamped    bool
}

// StatusDisconnected stands for the status of a request whose client disconnected
// before the reply began. It is never sent.
const StatusDisconnected = 499
