// Package gateway makes one model call: it resolves the model, holds credits, streams the
// reply and settles the charge, for the public endpoint and for an agent's steps.
//
// It never uses HTTP, SQL or a vendor's format directly. A call is a [Stream]: range over its
// events, settle it when it has finished, and always close it.
//
// A call is retried on two levels: package upstream repeats it on the routes of one model,
// and [Stream.Events] then tries the next model of an automatic choice.
//
// Start at [Gateway.Respond].
package gateway

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/telemetry"
	"stoa/internal/models/billing"
	"stoa/internal/models/catalog"
	"stoa/internal/models/wire"
)

// A Pool serves calls from vendors; see upstream.Pool.
type Pool interface {
	Healthy(account string, m stoa.Model) bool
	// Timeout returns the maximum time from the start of a call to the end of its reply.
	Timeout(m stoa.Model) time.Duration
	Stream(ctx context.Context, m stoa.Model, call stoa.Call) iter.Seq2[*stoa.Event, error]
}

// A Gateway makes model calls. All fields except Counter, Logger and Metrics are required.
type Gateway struct {
	Catalog *atomic.Pointer[catalog.Catalog] // replaced when the configuration is reloaded
	Ledger  *billing.Ledger
	Pool    Pool
	// Discover tries to add unknown models to the catalog; nil does nothing.
	Discover func(context.Context)
	Counter  Counter // of input tokens; nil means that they are estimated
	Logger   *slog.Logger
	Metrics  *telemetry.Metrics // nil disables metrics
	Now      func() time.Time   // of the hours of prices; nil means time.Now

	active   atomic.Int64 // number of open streams
	prefixes prefixes
	cuts     recent // limits of replies that the credits cut, by key, end user and agent
}

// A Request is one call to make.
type Request struct {
	ID    string // of the charge: resp_…, or ses_….turn.step
	Model string // as the caller wrote it
	Call  stoa.Call
	// For the receipt, and for budgets; EmbedID as in [stoa.Charge].
	EndUser, SpaceID, AgentID, SessionID, EmbedID string
	// Buffered is for a reader that discards a reply before Finished, so that a reply that breaks
	// after its first text can be repeated: another Started voids everything before it.
	Buffered bool
	// KeepsParts is for a reader that keeps the part of a reply that ended because it read nothing:
	// it ends with StopLength and is charged. It has no effect on a Buffered call.
	KeepsParts bool
	// StrictModel refuses a model that the plan does not include instead of serving another.
	StrictModel bool
	// Fit checks the call against a model before credits are held for it. It may change both,
	// which are private copies, and remove routes that cannot serve the call; a model for
	// which it returns an error is skipped. Nil means that every model fits.
	Fit func(m *stoa.Model, call *stoa.Call) error
	// Adjusted returns the changes that the caller's side made to the call and its reply,
	// which the charge records. It may be nil.
	Adjusted func() stoa.Adjustments
	// Ignored returns the list of the request's ignored members on the route that served; see
	// [stoa.Charge]. It may be nil.
	Ignored func(stoa.Route) string
	// CacheKey is the caller's key of calls that share a prefix; see [stoa.Call.CacheKey]. The
	// calls of an agent have its id as their key.
	CacheKey string
	// Broke is the part of a session's call that differs from the call before. Continues means
	// that there was one.
	Broke     stoa.Broke
	Continues bool
	// Before is the [Stream.Place] of that call; empty if it is unknown.
	Before string
	// ClientSession is the client's id of the conversation; it may be empty.
	ClientSession string
	// MaxCredits limits the charge of this call; 0 means that only the balance limits it.
	MaxCredits stoa.Credits
}

// leastOutput is the minimum number of output tokens that a balance must cover besides the input.
const leastOutput = 256

// Respond resolves the model and holds credits. It fails if the model is unknown or not in
// the plan, has no provider, or the credits do not suffice; a failed call is free. The caller
// must Close the stream.
//
// The output limit is lowered to the part of the context that the estimated input leaves, but
// not below an eighth of the context, because the estimate (three bytes per token) is usually
// too high. A reply of more than twice the limit plus 1,024 tokens is cut off, ends
// `incomplete`, and is charged the limit.
//
// A [Request.Buffered] call begins again when its reply breaks after the first text, because no
// caller has seen it. Only the reply that finishes is charged.
func (g *Gateway) Respond(ctx context.Context, c stoa.Caller, req Request) (*Stream, error) {
	if c.Key.RequireEndUser && req.EndUser == "" {
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "This key requires the end user of each call. Send safety_identifier or user; for a session, externalUserId.").At("safety_identifier")
	}
	s, err := g.resolve(ctx, c, req)
	if err != nil {
		return nil, err
	}
	// The first candidate that accepts the input and that the balance covers; otherwise the
	// first candidate's error.
	var refused error
	for s.candidate = range s.res.Models {
		if err := s.hold(ctx, s.res.Models[s.candidate], true); err == nil {
			g.active.Add(1)
			return s, nil
		} else if refused == nil {
			refused = err
		}
		if !another(refused) {
			break
		}
	}
	return nil, refused
}

func another(refused error) bool {
	code := stoa.CodeOf(refused)
	return code == stoa.CodeQuota || code == stoa.CodeContextLength || code == stoa.CodeUnsupportedValue
}

// fit returns the model and the call adapted to each other, with the estimated input. If the
// call has files, whose size in tokens only the vendor can determine, and ask is set, the
// vendor counts it; see [Counter]. It fails for a call that the model cannot make.
func (s *Stream) fit(ctx context.Context, m stoa.Model, ask bool) (stoa.Model, *stoa.Call, error) {
	if s.req.Fit == nil {
		return m, &s.req.Call, s.fits(m)
	}
	// A call is copied only here, so that one without extensions needs no copies.
	fitted, call := m, s.req.Call
	if err := s.req.Fit(&fitted, &call); err != nil {
		return fitted, &call, err
	}
	s.media, s.files = call.Media()        // since texts may have replaced files
	s.inputEstimate = call.EstimateInput() // since the tokens of images depend on the model
	if ask && s.files {
		var err error
		if s.inputEstimate, err = s.tokens(ctx, fitted, call); err != nil {
			return fitted, &call, err
		}
	}
	return fitted, &call, s.fits(fitted)
}

// resolve returns the stream of a call with its models, without a hold.
func (g *Gateway) resolve(ctx context.Context, c stoa.Caller, req Request) (*Stream, error) {
	healthy := func(m stoa.Model) bool { return g.Pool.Healthy(c.Account.ID, m) }
	res, err := g.Catalog.Load().Resolve(req.Model, c.Plan, healthy)
	if err != nil && g.Discover != nil {
		g.Discover(ctx)
		res, err = g.Catalog.Load().Resolve(req.Model, c.Plan, healthy)
	}
	if err != nil {
		return nil, err
	}
	if err := allowed(c.Key, &res); err != nil {
		return nil, err
	}
	if req.StrictModel && res.Reason == catalog.ReasonPlan {
		return nil, stoa.Errorf(stoa.CodeModelNotInPlan, "The plan %s does not include %s, and strict_model keeps %s from answering in its place. Choose another model, or leave strict_model out.",
			cmp.Or(c.Plan.Name, c.Plan.ID), res.Requested.ID, res.Models[0].ID).At("model")
	}
	if len(res.Models) > 1 {
		res.Models = g.preferPrevious(c.Account.ID, res.Models, req.Call.Prefer)
	}
	s := &Stream{g: g, caller: c, req: req, res: res, started: time.Now(), inputEstimate: req.Call.EstimateInput()}
	if g.Now != nil {
		s.shift = g.Now().Sub(s.started)
	}
	s.media, s.files = req.Call.Media()
	g.cache(c.Account.ID, &s.req)
	if isSpread(res.Models) {
		s.req.Call.Thread = thread(c.Account.ID, &s.req)
	}
	return s, nil
}

// allowed removes the models that a key may not use from a choice, or refuses the requested one.
func allowed(k stoa.Key, res *catalog.Resolution) error {
	if len(k.Models) == 0 {
		return nil
	}
	if r := res.Requested; r.ID == "" || k.AllowsModel(r.ID) {
		res.Models = slices.DeleteFunc(res.Models, func(m stoa.Model) bool { return !k.AllowsModel(m.ID) })
		if len(res.Models) > 0 {
			return nil
		}
	}
	return ErrNotAllowed(k)
}

// ErrNotAllowed returns the error for a model that is not on a key's list.
func ErrNotAllowed(k stoa.Key) error {
	return stoa.Errorf(stoa.CodeModelNotAllowed, "This key can only use the models %s. Choose one of them, or use another key.", strings.Join(k.Models, ", ")).At("model")
}

// preferPrevious moves the model that made a state to the front of the candidates of an automatic
// choice, if it is healthy, because the caller is in the middle of a tool loop with it.
func (g *Gateway) preferPrevious(account string, models []stoa.Model, made *stoa.State) []stoa.Model {
	if made == nil {
		return models
	}
	i := slices.IndexFunc(models, func(m stoa.Model) bool {
		return slices.ContainsFunc(m.Routes, func(r stoa.Route) bool { return r.Wire == made.Wire && r.Model == made.Model })
	})
	if i <= 0 || !g.Pool.Healthy(account, models[i]) {
		return models
	}
	return slices.Concat(models[i:i+1], models[:i], models[i+1:])
}

// Active returns the number of open streams.
func (g *Gateway) Active() int64 { return g.active.Load() }

// windowSlack is the factor by which an estimate of the input may exceed a model's context window,
// because an estimate counts three bytes per token, and no human text has more than twelve.
const windowSlack = 4

// fits returns an error for an input far above the model's limit. Inputs closer to the limit
// are left to the provider, because it counts exactly.
func (s *Stream) fits(m stoa.Model) error {
	if m.ContextTokens == 0 || s.inputEstimate <= windowSlack*m.ContextTokens {
		return nil
	}
	return stoa.Errorf(stoa.CodeContextLength, "The input is far too long for this model: some %d tokens, and its limit is %d. Shorten it, or use a model with a larger context.", s.inputEstimate, m.ContextTokens).At("input")
}

// hold holds credits for the model and sets the output limit that they allow; ask as in fit.
func (s *Stream) hold(ctx context.Context, m stoa.Model, ask bool) error {
	m, call, err := s.fit(ctx, m, ask)
	if err != nil {
		return err
	}
	possible := int64(stoa.MaxTokens)
	if m.MaxOutput > 0 {
		possible = min(possible, m.MaxOutput)
	}
	if m.ContextTokens > 0 { // an eighth is always left for the reply, because the estimate may be too high
		possible = min(possible, max(m.ContextTokens-s.inputEstimate, m.ContextTokens/8, 1))
	}
	limit := min(cmp.Or(s.req.Call.MaxOutputTokens, m.DefaultOutput, stoa.DefaultOutput), possible)
	price := m.Price.Highest(s.inputEstimate, s.counted, s.clock(time.Now()), s.clock(time.Now().Add(s.g.Pool.Timeout(m))))
	if _, long := call.Marks(); long {
		price.CacheWrite = max(price.CacheWrite, price.CacheWriteLong)
	}
	least, most := price.Most(s.inputEstimate, min(leastOutput, limit)), price.Most(s.inputEstimate, limit)
	if s.req.MaxCredits > 0 {
		if s.req.MaxCredits < least {
			return stoa.Errorf(stoa.CodeQuota, "The next call can cost %s credits, but the limit of this run leaves only %s.", least, s.req.MaxCredits).At("limits.maxCreditsMicro")
		}
		most = min(most, s.req.MaxCredits)
	}
	// More is wished, because agents write more than the default in one reply, and lose it at a limit that nobody set.
	unset := s.req.Call.MaxOutputTokens == 0 && !m.LimitSet && m.MaxOutput > 0 && s.req.MaxCredits == 0 && possible > limit
	wish := stoa.Credits(0)
	if unset {
		wish = price.Most(s.inputEstimate, possible)
	}
	of := billing.Source{AgentID: s.req.AgentID, EmbedID: s.req.EmbedID, EndUser: s.req.EndUser, StartedAt: s.started}
	hold, err := s.g.Ledger.HoldFor(ctx, s.caller, of, least, most, wish)
	if err != nil {
		return err
	}
	s.holding = hold
	s.model, s.call, s.dearest = m, call, price
	s.limit = min(limit, price.Affords(hold.Amount(), s.inputEstimate))
	s.lowered = s.limit < limit
	if s.lowered && s.req.MaxCredits == 0 && s.limit < s.g.cuts.get(time.Now(), s.spender()...) {
		s.holding.Release()
		return stoa.Errorf(stoa.CodeQuota, "The last reply was cut, because the credits or a budget covered no more of it, and now they cover only %d output tokens. Top up the account, raise the budget, or request no more than these.", s.limit)
	}
	s.usual, s.limitDefault = 0, s.req.Call.MaxOutputTokens == 0 && m.DefaultOutput == 0 && s.limit == limit
	if unset && hold.Amount() >= wish {
		s.limit, s.usual, s.limitDefault = possible, s.limit, false
	}
	return nil
}

// cutLife is the time for which a client that was cut by the credits is not cut again.
const cutLife = 10 * time.Minute

func (s *Stream) spender() []string {
	return []string{s.caller.Key.ID, s.req.EndUser, s.req.AgentID}
}

// clock returns an instant of this process's time on the clock of prices.
func (s *Stream) clock(at time.Time) time.Time { return at.Add(s.shift) }

// price returns the price of the serving model for a call with that input. The start of the
// request to the vendor decides about its hours, as in the vendor's invoice.
func (s *Stream) price(m stoa.Model, inputTokens int64) stoa.Price {
	return m.Price.At(inputTokens, s.clock(cmp.Or(s.trail.Sent, s.started)))
}

// retryable reports whether another model of an automatic choice may serve a call after err.
func retryable(err error) bool {
	if f, ok := errors.AsType[*wire.Failure](err); ok && f.Caller {
		return false
	}
	switch stoa.CodeOf(err) {
	case stoa.CodeUpstream, stoa.CodeOverloaded, stoa.CodeModelUnavailable, stoa.CodeUpstreamTimeout:
		return true
	}
	return false
}
