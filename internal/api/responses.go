package api

import (
	"net/http"
	"time"

	"stoa/internal/responses"
	"stoa/internal/stoa"
)

// errClientGone ends a request whose client disconnected.
var errClientGone = responses.ErrClientGone

// writeTimeout is how long a caller may take to accept what is sent.
const writeTimeout = 60 * time.Second

// createResponse serves POST /api/v1/responses: the limits and the
// Idempotency-Key of a model call. Package responses makes the call.
func (s *Server) createResponse(w http.ResponseWriter, in Request[none, none]) error {
	r, c, log := in.HTTP, in.Caller, in.Log
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	req, err := responses.Parse(body)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	log.Model = req.Model
	leave, err := s.enterCall(c)
	if err != nil {
		return err
	}
	defer leave()

	call := &responses.Call{ID: stoa.NewID("resp"), Caller: c, Request: req, Stopping: s.stopping(), Log: callLog{log}}
	if key != "" {
		claim, stored, err := s.claimCall(in, key, body)
		if err != nil {
			return err
		}
		if stored != nil {
			log.replay = true
			return s.responses.Replay(w, req, stored.text, stored.amount)
		}
		defer claim.free(r.Context(), log.RequestID)
		call.Claim = claim
	}
	return s.responses.Serve(r.Context(), w, call)
}

// A callLog notes what becomes known of a call for the request's log line.
type callLog struct{ fields *Fields }

// FirstText records when the first text was sent.
func (l callLog) FirstText() { l.fields.FirstText = time.Now() }

// Charged records the charge.
func (l callLog) Charged(c stoa.Charge) { l.fields.Charged(c) }

// Failed records why the call failed.
func (l callLog) Failed(err error) { l.fields.Failed(err) }
