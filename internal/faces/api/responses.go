package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
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
		if key != "" {
			claim, stored, err := s.claimCall(in, key, hash)
			if err != nil {
				return err
			}
			if stored != nil {
				in.Log.Replayed, in.Log.ResponseID = true, stored.id
				return s.responses.Replay(w, req, stored.text, stored.amount)
			}
			defer claim.free(in.HTTP.Context(), in.Log.ID)
			call.Claim = claim
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
		hash = rest.BodyHash(body)
	}
	in.Log.Asked, in.Log.Stream = req.Model, req.Stream
	return req, key, hash, nil
}

func (s *Calls) newCall(in *rest.Request[rest.None, rest.None], req *responses.Request) *responses.Call {
	in.Log.ResponseID = stoa.NewID("resp")
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

// maxDetached limits the calls of an account that continue after their clients have disconnected.
const maxDetached = 16

type callClaim struct {
	s        *Calls
	account  string
	claim    store.Claim
	finished bool
}

type storedReply struct {
	id     string // resp_…
	text   string
	amount stoa.Credits
}

// claimCall claims the Idempotency-Key for the call. If a call with the key has already finished, it
// returns the reply of that call instead. hash is the hash of the body, computed outside of the
// transaction to keep it short.
func (s *Calls) claimCall(in *rest.Request[rest.None, rest.None], key, hash string) (*callClaim, *storedReply, error) {
	ctx, account := in.HTTP.Context(), in.Caller.Account.ID
	k := store.IdempotencyKey{AccountID: account, Method: in.HTTP.Method, Path: in.HTTP.URL.Path, Key: key}
	var claim store.Claim
	var earlier *storedReply
	made := false
	err := s.Store.Write(store.Promptly(ctx), func(tx *store.Tx) error {
		earlier, made = nil, false
		var stored store.Reply
		var claimed bool
		var err error
		claim, stored, claimed, err = tx.ClaimKey(ctx, k, hash)
		if err != nil || claimed {
			made = claimed
			return err
		}
		charge, _, err := tx.Books().ChargeByID(ctx, stored.Ref)
		earlier = &storedReply{id: stored.Ref, text: stored.Body, amount: charge.Amount}
		return err
	})
	if err != nil && made { // because the result of the commit may be lost
		s.Store.FreeLater(claim)
	}
	if err != nil || earlier != nil {
		return nil, earlier, err
	}
	return &callClaim{s: s, account: account, claim: claim}, nil, nil
}

// Finish returns the function that stores the reply in the transaction of its charge.
func (c *callClaim) Finish(id string, reply []byte) func(context.Context, *store.Tx) error {
	return func(ctx context.Context, tx *store.Tx) error {
		return tx.FinishClaim(ctx, c.claim, store.Reply{Ref: id, Status: http.StatusOK, Body: string(reply)})
	}
}

// Finished records that the reply is stored, so that the key is not freed.
func (c *callClaim) Finished() { c.finished = true }

// Detach reports whether the call may continue without its client. An account can have
// maxDetached such calls at the same time.
func (c *callClaim) Detach() (release func(), ok bool) {
	slots := &c.s.limits.detached
	if !slots.Enter(c.account, maxDetached) {
		return nil, false
	}
	return func() { slots.Leave(c.account) }, true
}

// free releases the key if no reply is stored under it, so that a failed or interrupted call can be
// repeated. It retries until the store commits again.
func (c *callClaim) free(ctx context.Context, requestID string) {
	if c.finished {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := c.s.Store.Write(ctx, func(tx *store.Tx) error { return tx.FreeClaim(ctx, c.claim) })
	if err != nil {
		c.s.Logger.Warn("an Idempotency-Key could not be freed; retrying", "request", requestID, "error", err)
		c.s.Store.FreeLater(c.claim)
	}
}

type geminiParams struct {
	Model string `path:"model"`
}

type geminiStreamParams struct {
	geminiParams
	Alt string `form:"alt"` // sse for events
}

func (p geminiParams) parser(stream bool) callParser {
	return responses.ParseGemini(p.Model, stream, false)
}

func (p geminiStreamParams) parser(stream bool) callParser {
	return responses.ParseGemini(p.Model, stream, p.Alt != "sse")
}

func geminiCall[P interface{ parser(stream bool) callParser }](s *Calls, stream bool) func(http.ResponseWriter, *rest.Request[P, rest.None]) error {
	return func(w http.ResponseWriter, in *rest.Request[P, rest.None]) error {
		return s.modelCall(in.Params.parser(stream))(w, withoutParams(in))
	}
}

func withoutParams[P any](in *rest.Request[P, rest.None]) *rest.Request[rest.None, rest.None] {
	return &rest.Request[rest.None, rest.None]{Caller: in.Caller, Input: rest.Input[rest.None, rest.None]{HTTP: in.HTTP, Log: in.Log}}
}

func (s *Calls) countContent(w http.ResponseWriter, in *rest.Request[geminiParams, rest.None]) error {
	tokens, err := s.countInput(w, withoutParams(in), responses.ParseGeminiCount(in.Params.Model))
	if err != nil {
		return err
	}
	return rest.Answer(w, rest.Reply[totalTokens]{Body: totalTokens{tokens}}, nil)
}

type totalTokens struct {
	TotalTokens int64 `json:"totalTokens"`
}

func (s *Calls) wantsGemini(r *http.Request) bool {
	return s.Extensions.Gemini && (r.Header.Get("X-Goog-Api-Key") != "" || !rest.Under(r.URL.Path, rest.Prefix))
}

func geminiModel(cat *catalog.Catalog, id string) contract.GeminiModelInfo {
	info := contract.GeminiModelInfo{
		Name: "models/" + id, DisplayName: id, Version: cat.Created().Format("2006-01-02"),
		SupportedGenerationMethods: []string{"generateContent", "countTokens"},
	}
	if m, ok := cat.Model(id); ok { // because auto is not a model
		info.InputTokenLimit, info.OutputTokenLimit = m.ContextTokens, m.MaxOutput
	}
	return info
}

func noModels() error {
	return stoa.Errorf(stoa.CodeNotFound, "There is no list of models in this format. GET /api/v1/meta names the models; the operator can enable the extension \"models\".")
}
