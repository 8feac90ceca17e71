// Package responses implements the Responses format for callers: it parses the body of a
// model call and writes the reply, whole or as server-sent events. It is the counterpart of
// package wire, which implements the formats of providers. It also reads requests and writes
// replies of chat completions, of Messages and of Gemini's API.
//
// It never authenticates a caller, reads a body from the network, counts limits or claims an
// Idempotency-Key: package api does that and passes the results in a [Call]. Start at [Parse]
// and [Service.Serve]; call.go is the course of a call, stream.go the order of events, object.go how
// requests of other formats are read. See docs/decisions/0044-read-other-formats-into-the-same-request.md.
package responses

import (
	"context"
	"net/http"
	"sync"
	"time"

	"stoa/internal/base/extract"
	"stoa/internal/base/media"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/gateway"
)

// A Service answers model calls. Its exported fields must be set before its first use; all
// except Options and Policy are required. It is safe for use by several goroutines.
type Service struct {
	Gateway *gateway.Gateway
	States  *seal.Box // seals the state that callers of tools keep
	Options Options   // enabled extensions; Open is set for each call
	Policy  Policy
	Fetcher *media.Fetcher // required if addresses are fetched here
	Extract extract.Reader // required with Options.Documents

	// HeaderWait is the longest time before a stream sends its headers without an event,
	// KeepAlive its longest silence after that.
	HeaderWait, KeepAlive time.Duration
	// WriteTimeout is the maximum time for a caller to accept data.
	WriteTimeout time.Duration

	buffers sync.Pool // of *[]byte, for streams
}

// A Call is one parsed request with its data from the HTTP frame.
type Call struct {
	ID        string // resp_…; its charge has the same id
	RequestID string // req_…
	Caller    stoa.Caller
	Request   *Request
	// ClientSession is the client's id of the conversation; it may be empty.
	ClientSession string
	// Stopping ends when the service shuts down. The call then fails and is free.
	Stopping context.Context
	Claim    Claim // of the Idempotency-Key; nil if none exists
	// Agent begins the turn of an agent, sets ID and returns the id of its session. It is nil for a call of a model.
	Agent func(context.Context) (turn Source, session string, err error)
	Log   Log
}

// A Claim is the Idempotency-Key of a call while the call runs.
type Claim interface {
	// Finish returns a function that stores the finished reply in the transaction of its
	// charge: a JSON object, or nothing for a reply without use, whose error is sent again.
	Finish(id string, reply []byte) func(context.Context, *store.Tx) error
	// Finished is called after that transaction has committed.
	Finished()
	// Detach is called at most once, when the client disconnects. It reports whether the call
	// continues; release is then called at its end.
	Detach() (release func(), ok bool)
}

// A Log receives the data of a call for the request's log line. [Service.Serve] calls its methods
// in its own goroutine.
type Log interface {
	FirstText()          // the first text of the reply is about to be sent
	Charged(stoa.Charge) // the call was charged, possibly in part
	Failed(error)        // the call failed after its stream began
	Disconnected()       // the client disconnected before the reply was complete
	// Tried reports the last route that was tried and the total number of attempts.
	Tried(model, provider string, attempts int)
	// States reports the number of unusable sealed states in the input.
	States(unread int)
}

// Errors that stop a call before its end. [stoa.ErrClientGone] and errStopping are
// causes of its context.
var (
	errBrokeOff = stoa.Errorf(stoa.CodeUpstream, "The model's reply broke off before its end. Nothing was charged; try again.")
	errStopping = stoa.Errorf(stoa.CodeOverloaded, "The service is stopping and this reply could not be finished. Nothing was charged; try again.").After(time.Second)
)

// For returns the options for requests of the account.
func (s *Service) For(account string) Options {
	o := s.Options
	if o.Tools || o.Compact {
		o.Open = func(sealed string) (stoa.State, bool) { return s.States.Open(account, sealed) }
	}
	return o
}

// Serve makes the call and writes its reply. The call ends with ctx, that is, when its client
// disconnects, unless its [Claim] lets it continue. A returned error has not been sent to the
// client; it is stoa.ErrClientGone if the client has disconnected.
func (s *Service) Serve(ctx context.Context, w http.ResponseWriter, c *Call) error {
	run := &run{Call: c, s: s, w: w}
	run.policy.claim = c.Claim
	return c.Request.own(run.answer(ctx))
}

// CountInput returns the number of input tokens of a call; see [gateway.Gateway.CountInput].
func (s *Service) CountInput(ctx context.Context, c stoa.Caller, req *Request) (int64, error) {
	r := &run{Call: &Call{Caller: c, Request: req}, s: s}
	ask := gateway.Request{Model: req.Model, Call: req.call, StrictModel: req.Strict}
	if err := r.fetch(ctx); err != nil {
		return 0, req.own(err)
	}
	if req.wanted.itemized {
		ask.Fit = func(m *stoa.Model, call *stoa.Call) error { return r.fit(ctx, m, call) }
	}
	tokens, err := s.Gateway.CountInput(ctx, c, ask)
	r.setAside() // because a count is free
	return tokens, req.own(err)
}
