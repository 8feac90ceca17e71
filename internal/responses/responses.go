// Package responses speaks the Responses format to callers: it parses the body
// of a model call and writes the reply, whole or as server-sent events. It is
// the mirror image of package wire, which speaks the formats of providers. Replies it
// also writes as chat completions and as Messages; package compat translates requests
// of these formats.
//
// It never authenticates a caller, reads a body from the network, counts limits
// or claims an Idempotency-Key: package api does that and passes in what a call
// needs of it, see [Call]. Start at [Parse] and [Service.Serve]; call.go is the
// course of a call, stream.go the order of events.
package responses

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"stoa/internal/gateway"
	"stoa/internal/media"
	"stoa/internal/seal"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A Service answers model calls. Its exported fields are set before its first
// use; all but Options and Policy are required. It is safe for use by several goroutines.
type Service struct {
	Gateway *gateway.Gateway
	States  *seal.Box // seals what callers of tools keep
	Options Options   // the extensions that are on; Open is set for each call
	Policy  Policy
	Fetcher *media.Fetcher // needed where addresses are fetched here

	// HeaderWait is how long a stream waits for its first event before it
	// begins by itself, KeepAlive how long it may be silent after that.
	HeaderWait, KeepAlive time.Duration
	// WriteTimeout is how long a caller may take to accept what is sent.
	WriteTimeout time.Duration

	buffers sync.Pool // of *[]byte, for streams
}

// A Call is one parsed request together with what the HTTP frame knows of it.
type Call struct {
	ID        string // resp_…; its charge has the same id
	RequestID string // req_…
	Caller    stoa.Caller
	Request   *Request
	// Stopping ends when the service stops. The call then fails and is free.
	Stopping context.Context
	Claim    Claim // of the Idempotency-Key; nil: there is none
	Log      Log
}

// A Claim is the Idempotency-Key of a call while the call runs.
type Claim interface {
	// Finish returns what stores the finished reply, a JSON object, in the
	// transaction of its charge.
	Finish(id string, reply []byte) func(context.Context, *store.Tx) error
	// Finished is called once that transaction has committed.
	Finished()
	// Detach is called at most once, when the client disconnects. It reports
	// whether the call goes on without it; release is then called at its end.
	Detach() (release func(), ok bool)
}

// A Log receives what the request's log line says of a call. Its methods are
// called from the goroutine of [Service.Serve].
type Log interface {
	FirstText()          // the first text of the reply is about to be sent
	Charged(stoa.Charge) // the call was charged, perhaps in part
	Failed(error)        // the call failed after its stream began
	Disconnected()       // the client was gone before the reply was complete
	// Tried is where the call was tried last, and how often providers were asked in
	// all.
	Tried(model, provider string, attempts int)
	// States is how many sealed states of the input could not be used.
	States(unread int)
}

// Errors that stop a call before its end. ErrClientGone and errStopping are
// causes of its context.
var (
	// ErrClientGone is returned when the client has disconnected, so that no reply can
	// be sent.
	ErrClientGone = errors.New("the client disconnected")

	errBrokeOff = stoa.Errorf(stoa.CodeUpstream, "The model's reply broke off before its end. Nothing was charged; try again.")
	errStopping = stoa.Errorf(stoa.CodeOverloaded, "The service is stopping and this reply could not be finished. Nothing was charged; try again.").After(time.Second)
)

// For returns what a request of the account may have.
func (s *Service) For(account string) Options {
	o := s.Options
	if o.Tools {
		o.Open = func(sealed string) (stoa.State, bool) { return s.States.Open(account, sealed) }
	}
	return o
}

// Serve makes the call and writes its reply. The call ends when ctx does, which
// is when its client disconnects, unless its [Claim] lets it go on. An error it
// returns has not been sent to the client; it is ErrClientGone where there is
// none any more.
func (s *Service) Serve(ctx context.Context, w http.ResponseWriter, c *Call) error {
	run := &run{Call: c, s: s, w: w}
	run.policy.claim = c.Claim
	return c.Request.from.Error(run.answer(ctx))
}

// CountInput returns how many input tokens a call has; see [gateway.Gateway.CountInput].
func (s *Service) CountInput(ctx context.Context, c stoa.Caller, req *Request) (int64, error) {
	r := &run{Call: &Call{Caller: c, Request: req}, s: s}
	ask := gateway.Request{Model: req.Model, Call: req.call, StrictModel: req.Strict}
	if err := r.fetch(ctx); err != nil {
		return 0, req.from.Error(err)
	}
	if req.wanted.itemized {
		ask.Fit = r.fit
	}
	tokens, err := s.Gateway.CountInput(ctx, c, ask)
	return tokens, req.from.Error(err)
}
