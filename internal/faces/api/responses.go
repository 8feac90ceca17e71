package api

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/models/responses"
)

// writeTimeout limits a write, because a caller may not read.
const writeTimeout = 60 * time.Second

type callParser func(body []byte, o responses.Options) (*responses.Request, error)

// modelCall returns the handler of an operation that calls a model. It applies the limits and the
// Idempotency-Key; package responses makes the call. parse reads the body in the format of the
// operation.
//
// The frame of the handler stays on the stack until the reply has ended. Work that needs space is
// done in functions that have returned by then, so that the stack of a waiting stream stays at 16 KB
// instead of 32; TestAnOpenStreamTakesLittleMemory measures it.
func (s *Calls) modelCall(parse callParser) func(http.ResponseWriter, *rest.Request[rest.None, rest.None]) error {
	return func(w http.ResponseWriter, in *rest.Request[rest.None, rest.None]) error {
		req, key, hash, err := s.readCall(w, in, parse)
		if err != nil {
			return err
		}
		leave, err := s.enterCall(&in.Caller)
		if err != nil {
			return err
		}
		defer leave()

		call := s.newCall(in, req)
		var turn *turnCall
		if name, ok := req.Agent(); ok {
			if turn, err = s.agentCall(w, in, call, name); err != nil {
				return err
			}
		}
		if key != "" {
			claim, stored, err := s.claimCall(in, key, hash)
			if err != nil {
				return err
			}
			if stored != nil {
				in.Log.Replayed, in.Log.ResponseID = true, stored.id
				if id, _, ok := parseResponseID(stored.id); ok {
					w.Header().Set(rest.SessionHeader, id)
				}
				return s.responses.Replay(w, req, stored.text, stored.amount)
			}
			defer claim.free(in.HTTP.Context(), in.Log.ID)
			call.Claim = claim
			if turn != nil {
				turn.claim = claim
			}
		}
		if turn != nil && turn.turn.Background {
			return turn.background()
		}
		return s.responses.Serve(in.HTTP.Context(), w, call)
	}
}

// countTokens returns the handler of an operation that counts the tokens of a call;
// object is the member object of its reply, if the format has it.
func (s *Calls) countTokens(object string, parse callParser) func(http.ResponseWriter, *rest.Request[rest.None, rest.None]) error {
	return func(w http.ResponseWriter, in *rest.Request[rest.None, rest.None]) error {
		tokens, err := s.countInput(w, in, parse)
		if err != nil {
			return err
		}
		return rest.Answer(w, rest.Reply[inputTokens]{Body: inputTokens{Object: object, InputTokens: tokens}}, nil)
	}
}

func (s *Calls) countInput(w http.ResponseWriter, in *rest.Request[rest.None, rest.None], parse callParser) (int64, error) {
	req, _, err := s.parseCall(w, in, parse)
	if err != nil {
		return 0, err
	}
	leave, err := s.enterCall(&in.Caller)
	if err != nil {
		return 0, err
	}
	defer leave()
	return s.responses.CountInput(in.HTTP.Context(), in.Caller, req)
}

type inputTokens struct {
	Object      string `json:"object,omitempty"`
	InputTokens int64  `json:"input_tokens"`
}

func (s *Calls) parseCall(w http.ResponseWriter, in *rest.Request[rest.None, rest.None], parse callParser) (req *responses.Request, body []byte, err error) {
	if body, err = s.ReadBody(w, in.HTTP); err != nil {
		return nil, nil, err
	}
	o := s.responses.For(in.Caller.Account.ID)
	req, err = rest.InTurn(s.Base, w, body, func(body []byte) (*responses.Request, error) { return parse(body, o) })
	return req, body, err
}

// readCall is like [Calls.parseCall], with the Idempotency-Key of the call. hash is
// the hash of the body, or empty without a key.
func (s *Calls) readCall(w http.ResponseWriter, in *rest.Request[rest.None, rest.None], parse callParser) (req *responses.Request, key, hash string, err error) {
	req, body, err := s.parseCall(w, in, parse)
	if err != nil {
		return nil, "", "", err
	}
	if key, err = rest.IdempotencyKey(in.HTTP); err != nil {
		return nil, "", "", err
	}
	if key != "" {
		if id := in.HTTP.Header.Get(rest.SessionHeader); id != "" {
			body = append(slices.Clip(body), id...)
		}
		hash = rest.BodyHash(body)
	}
	in.Log.Asked, in.Log.Stream = req.Model, req.Stream
	return req, key, hash, nil
}

func (s *Calls) newCall(in *rest.Request[rest.None, rest.None], req *responses.Request) *responses.Call {
	in.Log.ResponseID = stoa.ResponseTo(in.Log.ID)
	return &responses.Call{
		ID: in.Log.ResponseID, RequestID: in.Log.ID, Caller: in.Caller, Request: req, ClientSession: clientSession(in.HTTP.Header), Stopping: s.Stopping(),
		Log: callLog{in.Log},
	}
}

const maxClientSession = 512

// clientSession returns the id of the conversation that Claude Code or Codex sends, or an empty text.
func clientSession(h http.Header) string {
	id := cmp.Or(h.Get("X-Claude-Code-Session-Id"), h.Get("Session-Id"))
	if len(id) > maxClientSession {
		return ""
	}
	return id
}

// A callLog records data about a call for the request's log line.
type callLog struct{ fields *rest.Fields }

// FirstText records the time of the first text.
func (l callLog) FirstText() { l.fields.FirstToken = max(time.Since(l.fields.StartedAt), 1) }

// Tried records the provider of the last attempt and the number of attempts.
func (l callLog) Tried(model, provider string, attempts int) {
	l.fields.Served, l.fields.Provider, l.fields.Attempts = model, provider, attempts
}

// States records the number of sealed states that could not be used.
func (l callLog) States(unread int) { l.fields.Unread = unread }

// Disconnected records that the client disconnected before the reply was complete.
func (l callLog) Disconnected() { l.fields.Disconnected = true }

// Charged records the charge.
func (l callLog) Charged(c stoa.Charge) { l.fields.Charged(c) }

// Failed records the reason for the failure of the call.
func (l callLog) Failed(err error) { l.fields.Failed(err) }
