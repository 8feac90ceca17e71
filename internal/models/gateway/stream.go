package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
	"stoa/internal/models/billing"
	"stoa/internal/models/catalog"
	"stoa/internal/models/wire"
)

// A Stream is one call in progress. Only [Stream.Pin] may be called from a goroutine other
// than the one that ranges over the events.
type Stream struct {
	g             *Gateway
	caller        stoa.Caller
	req           Request
	res           catalog.Resolution
	started       time.Time
	inputEstimate int64
	counted       bool          // by the vendor
	shift         time.Duration // of the clock of prices from that of the process

	mu        sync.Mutex // guards model and pinned
	model     stoa.Model
	call      *stoa.Call // as the model receives it: the request's, or a copy
	pinned    bool
	candidate int

	trail   stoa.Trail
	holding *billing.Hold
	dearest stoa.Price // the highest price that the call can reach, for which credits are held
	limit   int64      // output tokens that the upstream may produce
	closed  bool
	failure error // why the reply did not complete

	lowered      bool  // the credits allow only a lower limit than the call
	usual        int64 // the default, if limit was raised above it; else 0
	limitDefault bool  // limit is Stoa's default
	media, files bool  // whether the input has images or files, and files

	// The output received in the current attempt.
	accepted  bool
	provider  string
	bytes     int   // of text and thinking
	made      int64 // minimum number of output tokens that this represents
	cut       bool  // the upstream far exceeded the limit and was stopped
	usage     stoa.Usage
	usageAt   int  // value of bytes when usage was reported
	recorded  bool // this attempt failed and is recorded
	hasUsage  bool
	stop      stoa.Stop
	firstText time.Duration
	finished  bool
}

// Pin fixes the serving model and returns its name: from now on the call does not move to
// another model. It may be called while the stream is ranged over. Callers pin when they send
// headers: at the first text, so that a failure until then is a plain HTTP error and retries and
// failover stay invisible, or after `headerWait`, since proxies cut silent requests.
func (s *Stream) Pin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = true
	return s.model.ID
}

// Reason returns why the serving model is not the requested one: alias, auto, plan; or "".
func (s *Stream) Reason() string { return s.res.Reason }

// Lowered reports whether the balance or a budget has lowered the limit of the output.
func (s *Stream) Lowered() bool { return s.lowered }

// Tried returns the model and the provider that were tried last, and the total number of
// requests sent to providers.
func (s *Stream) Tried() (model, provider string, attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.ID, s.trail.Provider, s.trail.Attempts
}

// Events yields the reply: Started, then any of the other events, then Finished or an error.
// Another Started means that the reply begins again, on another route or model; unless the
// request is Buffered, that happens only before the first Delta or Called. A reply that far
// exceeds the limit, because its vendor ignores it, ends with StopLength, and so does one
// that a limit of this service, such as the total timeout, cuts after its first text, or that
// breaks because its reader was late if the request KeepsParts. A call that ends with an error
// is free.
func (s *Stream) Events(ctx context.Context) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		for {
			err := s.tryModel(ctx, yield)
			if err == nil {
				return
			}
			if s.firstText == 0 && s.usual > 0 && refusedLimit(err) != nil { // because a route may accept less than its model
				s.limit, s.usual = s.usual, 0
				continue
			}
			if ctx.Err() == nil && (s.firstText == 0 || s.req.Buffered) && retryable(err) && s.next(ctx) {
				continue
			}
			if f := refusedLimit(err); f != nil && s.req.Call.MaxOutputTokens <= 0 { // explained, because the caller did not set the limit
				same := *f
				same.Err = stoa.Errorf(stoa.CodeContextLength, "The input leaves too few tokens of this model's context for a reply. Shorten it, set a lower max_output_tokens, or use a model with a larger context.").At("input")
				err = &same
			}
			s.failure = err
			yield(nil, err)
			return
		}
	}
}

// refusedLimit returns the failure of a call whose limit of output tokens the provider rejected, or nil.
func refusedLimit(err error) *wire.Failure {
	if f, ok := errors.AsType[*wire.Failure](err); ok && f.Err.Param == "max_output_tokens" {
		return f
	}
	return nil
}

// tryModel streams from one model. It returns nil when the reply finished or the
// reader stopped, and otherwise an error that was not yielded.
func (s *Stream) tryModel(ctx context.Context, yield func(*stoa.Event, error) bool) error {
	for ev, err := range s.attempt(ctx) {
		if err != nil {
			if f, ok := errors.AsType[*wire.Failure](err); !ok || !f.Cut || s.firstText == 0 || s.trail.Void {
				return err
			}
			ev = &stoa.Event{Kind: stoa.Finished, Stop: stoa.StopLength}
		}
		s.record(ev)
		// The vendor must be ignoring the limit: this is more than plausible accepts, so that no honest reply reaches it.
		s.cut = !s.finished && max(s.made, int64(s.bytes)/longToken) > 2*s.limit+outputSlack
		if s.cut {
			ev = &stoa.Event{Kind: stoa.Finished, Stop: stoa.StopLength}
			s.record(ev)
		}
		if !yield(ev, nil) || s.cut || err != nil {
			return nil
		}
	}
	if !s.finished {
		return stoa.Errorf(stoa.CodeUpstream, "The model's reply broke off before its end. Nothing was charged; try again.")
	}
	return nil
}

// attempt returns the reply of the serving model. The copy of the call is not in the frame of [Stream.tryModel], because that
// stays on the stack for the duration of a stream.
func (s *Stream) attempt(ctx context.Context) iter.Seq2[*stoa.Event, error] {
	call := *s.call
	call.MaxOutputTokens = s.limit
	call.Account, call.LimitDefault = s.caller.Account.ID, s.limitDefault
	call.Buffered, call.KeepsParts = s.req.Buffered, s.req.KeepsParts
	s.trail.Unpaid = s.unpaid
	call.Trail = &s.trail
	return s.g.Pool.Stream(ctx, s.model, call)
}

// record updates the counts of the call from an event, before the caller receives it.
func (s *Stream) record(ev *stoa.Event) {
	switch ev.Kind {
	case stoa.Started:
		s.accepted, s.provider, s.recorded = true, ev.Provider, false
		s.bytes, s.made, s.usage, s.usageAt, s.hasUsage, s.firstText = 0, 0, stoa.Usage{}, 0, false, 0
	case stoa.UsageSoFar:
		s.recordUsage(ev)
	case stoa.Thinking:
		s.countOutput(ev.Thinking)
	case stoa.Delta:
		s.countOutput(len(ev.Text))
		s.markFirstText()
		if ev.HasUsage {
			s.recordUsage(ev)
		}
	case stoa.CallStarted:
		s.countOutput(len(ev.Call.Name))
		s.markFirstText()
	case stoa.CallDelta, stoa.Refusal:
		s.countOutput(len(ev.Text))
		s.markFirstText()
	case stoa.Summary, stoa.Called: // not counted, because their pieces were: as thinking, or as deltas
		s.markFirstText()
	case stoa.Finished:
		s.finished, s.stop = true, ev.Stop
		if s.lowered && ev.Stop == stoa.StopLength && s.req.MaxCredits == 0 {
			s.g.cuts.put(s.limit, cutLife, time.Now(), s.spender()...)
		}
		if ev.HasUsage {
			s.usage, s.hasUsage = ev.Usage, true
			if s.usageAt = 0; ev.Usage.OutputTokens > 0 {
				s.usageAt = s.bytes
			}
		}
	}
}

// recordUsage stores the counts that the provider reported before the end.
func (s *Stream) recordUsage(ev *stoa.Event) { s.usage, s.usageAt = ev.Usage, s.bytes }

// longToken is larger than the average token of any language, in bytes.
const longToken = 12

// countOutput counts a piece of output as at least one token, unless it is shorter than three
// bytes, because some servers send single characters.
func (s *Stream) countOutput(bytes int) {
	s.bytes += bytes
	if bytes >= 3 {
		s.made += int64(max(1, bytes/longToken))
	}
}

// markFirstText records the time of the first text or call, after which no other model serves.
func (s *Stream) markFirstText() {
	if s.firstText == 0 {
		s.firstText = max(time.Since(s.started), 1)
		if !s.req.Buffered {
			s.req.Call.Forget() // no other model will serve
			s.call.Forget()
		}
	}
}

// next moves an automatic choice to its next model and reports whether there is one that the
// balance covers. It does not move away from a pinned model.
func (s *Stream) next(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned {
		return false
	}
	for s.candidate+1 < len(s.res.Models) {
		s.candidate++
		s.holding.Release()
		if s.hold(ctx, s.res.Models[s.candidate], false) == nil {
			s.accepted = false
			return true
		}
	}
	return false
}

// NotText returns the error of a charged call whose reply is of another kind, such as an image.
func NotText(kind string) error {
	return stoa.Errorf(stoa.CodeUpstream, "The model answered with something other than text. The call was charged, and so would another be: ask for text, or use another model.").
		Because(errors.New("the only output is " + kind)).AfterCharge()
}

// Settle charges a finished reply. When it returns without an error the charge is durable,
// together with the writes of also in the same transaction, and contains the usage to report
// to the caller. After an error nothing was charged. It does not end with ctx; see
// [billing.Hold.Settle].
func (s *Stream) Settle(ctx context.Context, also ...func(context.Context, *store.Tx) error) (stoa.Charge, error) {
	return s.charge(ctx, also...)
}

// Abandon is for a caller that disconnected: it charges the input and the output received
// until then. It charges nothing if no request was sent in full, or if the last one was
// answered with an error.
func (s *Stream) Abandon(ctx context.Context, also ...func(context.Context, *store.Tx) error) (stoa.Charge, error) {
	if !s.accepted || s.trail.Void || s.closed {
		s.Close()
		return stoa.Charge{}, nil
	}
	return s.charge(ctx, also...)
}

// unpaid counts and stores the cost of a request that its provider may bill and its caller does
// not pay. It reports whether the credits allow another one.
func (s *Stream) unpaid() bool {
	u := s.estimate()
	failed, estimated := u, s.usage.InputTokens == 0 || !s.plausible() || s.bytes > s.usageAt
	if s.recorded { // not those counts again, because they are of an earlier request
		failed, estimated = stoa.Usage{InputTokens: s.inputEstimate}, true
	}
	s.recorded = true
	s.g.Ledger.RecordFailure(stoa.VendorFailure{
		AccountID: s.caller.Account.ID, Provider: s.trail.Provider, Model: s.model.ID, Estimated: estimated,
		InputTokens: failed.InputTokens, CachedTokens: failed.CachedTokens, CacheWriteTokens: failed.CacheWriteTokens,
		OutputTokens: failed.OutputTokens, ReasoningTokens: failed.ReasoningTokens,
	})
	return s.holding.Unpaid(s.price(s.model, u.InputTokens).Cost(u), s.dearest.Most(s.inputEstimate, min(leastOutput, s.limit)))
}

// Close releases the hold if the call was not charged. It may be called at any time and
// repeatedly.
func (s *Stream) Close() {
	if s.end() {
		if s.accepted && !s.trail.Void { // counted, because the provider may bill it: such as for a session that is gone
			s.unpaid()
		}
		s.holding.Release()
		s.count(s.failure, nil)
	}
}

func (s *Stream) end() bool {
	if s.closed {
		return false
	}
	s.closed = true
	s.g.active.Add(-1)
	return true
}

// count records the outcome of the call in the metrics. charge is nil if nothing was charged.
func (s *Stream) count(err error, charge *stoa.Charge) {
	if s.g.Metrics == nil {
		return
	}
	c := telemetry.Call{
		Model: s.model.ID, Provider: s.provider, Account: s.caller.Account.ID,
		Duration: time.Since(s.started), FirstText: s.firstText,
	}
	switch {
	case errors.Is(err, context.Canceled), err == nil && !s.finished:
		c.Code = telemetry.Disconnected
	case err != nil:
		c.Code = stoa.CodeOf(err)
	}
	if charge != nil {
		c.State, c.Usage, c.Amount = charge.State, charge.Usage, charge.Amount
	}
	s.g.Metrics.Call(&c)
}

// Due returns the current charge of the call: the amount that [Stream.Settle] will write,
// unless the account cannot cover it, and the usage to report to the caller.
func (s *Stream) Due() stoa.Charge {
	c := stoa.Charge{
		ID: s.req.ID, AccountID: s.caller.Account.ID, KeyID: s.caller.Key.ID,
		Asked: s.req.Model, Served: s.model.ID, Reason: s.res.Reason, Provider: s.provider, Route: s.trail.Reason, RouteKey: s.trail.Key,
		Usage: s.usage, State: s.state(),
		EndUser: s.req.EndUser, SpaceID: s.req.SpaceID, AgentID: s.req.AgentID, SessionID: s.req.SessionID, EmbedID: s.req.EmbedID,
		StartedAt: s.started, FirstToken: s.firstText, Duration: time.Since(s.started), Ignored: s.ignored(),
	}
	// Some servers report 0 for what they do not count.
	if !s.hasUsage || !s.plausible() || s.usage.InputTokens == 0 || s.usage.OutputTokens == 0 && s.bytes > 0 {
		c.Usage, c.Estimated = s.estimate(), true
	}
	c.Price = s.price(s.model, c.Usage.InputTokens)
	c.Adjustments = s.adjustments(&c)
	c.MarkedBy = cmp.Or(s.trail.MarkedBy, stoa.MarkedByNone)
	c.Broke = s.broke(&c)
	if r := s.res.Requested; r.ID != "" && r.ID != s.model.ID {
		c.Amount, c.Capped = c.Price.Charge(c.Usage, s.price(r, c.Usage.InputTokens))
	} else {
		c.Amount = c.Price.Cost(c.Usage)
	}
	return c
}

// ignored returns the members of the request that had no effect on the route that serves.
func (s *Stream) ignored() string {
	if s.req.Ignored == nil {
		return ""
	}
	i := slices.IndexFunc(s.model.Routes, func(r stoa.Route) bool { return r.Provider == s.provider })
	if i < 0 {
		return s.req.Ignored(stoa.Route{})
	}
	return s.req.Ignored(s.model.Routes[i])
}

// minCached is the number of tokens from which every vendor with a cache uses it.
const minCached = 4_096

// broke returns why the call of a session was not read from the vendor's cache.
func (s *Stream) broke(c *stoa.Charge) stoa.Broke {
	model, route, known := strings.Cut(s.req.Before, " ")
	var nowModel, nowRoute string
	if known {
		nowModel, nowRoute, _ = strings.Cut(s.Place(), " ")
	}
	switch {
	case known && model != nowModel:
		return stoa.BrokeModel
	case s.req.Broke != "" || !s.req.Continues || c.Estimated || c.Usage.CachedTokens > 0 || c.Usage.InputTokens < minCached || c.MarkedBy == stoa.MarkedByNone:
		return s.req.Broke
	case known && route != nowRoute:
		return stoa.BrokeRoute
	}
	return stoa.BrokeExpired
}

// Place identifies the model that serves the call, and the provider with its key, in two words. A
// later call of the session compares them to report why the vendor's cache did not contain its input.
func (s *Stream) Place() string {
	short := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:4])
	}
	return short(s.model.ID) + " " + short(s.provider+"#"+s.trail.Key)
}

func (s *Stream) adjustments(c *stoa.Charge) (a stoa.Adjustments) {
	if s.req.Adjusted != nil {
		a = s.req.Adjusted()
	}
	if a |= s.trail.Cut; s.trail.LeftOut {
		a |= stoa.ReasoningLeftOut
	}
	if s.trail.EndUnknown {
		a |= stoa.EndUnknown
	}
	if s.trail.Described {
		a |= stoa.SchemaRewritten
	}
	if s.trail.InWords {
		a |= stoa.FormatInWords
	}
	if s.trail.MarksChanged {
		a |= stoa.CacheMarksChanged
	}
	if c.Estimated && s.media {
		a |= stoa.MediaEstimated
	}
	if s.req.Call.MaxOutputTokens == 0 && s.stop == stoa.StopLength && (s.cut || c.Usage.OutputTokens >= s.limit) {
		a |= stoa.LimitSetHere
	}
	return a
}

func (s *Stream) state() string {
	switch {
	case !s.finished:
		return "cancelled"
	case s.stop.Cuts():
		return "incomplete"
	}
	return "completed"
}

// chargePauses are the pauses before a charge is tried again after a database failure. That is
// safe, because the next try finds the charge if the failed transaction was committed.
var chargePauses = [...]time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}

// charge settles the hold. Its pauses do not end with ctx, because a served call is charged even
// if the caller has disconnected, but they end with the ledger.
func (s *Stream) charge(ctx context.Context, also ...func(context.Context, *store.Tx) error) (stoa.Charge, error) {
	s.end()
	defer s.holding.Release() // no effect after a settlement
	due := s.Due()
	charge, err := s.holding.Settle(ctx, due, also...)
	for _, pause := range chargePauses {
		if _, known := errors.AsType[*stoa.Error](err); err == nil || known && !db.IsPassing(err) {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.g.Ledger.Done():
			timer.Stop()
			s.count(err, nil)
			return charge, err
		}
		charge, err = s.holding.Settle(ctx, due, also...)
	}
	if err != nil {
		s.unpaid()
		s.count(err, nil)
	} else {
		s.count(nil, &charge)
	}
	return charge, err
}

// Tolerances of a vendor's counts before they are considered wrong: tokens that a vendor adds
// to the input, and the overshoot of a limit.
const (
	inputSlack  = 4096
	outputSlack = 1024
)

// plausible reports whether the vendor's usage can be true. A token has at least one byte,
// and the estimate counts three bytes per token; the output is bounded by the limit that was
// sent and by the bytes received.
//
// Beyond these bounds the call is counted by [Stream.estimate], like one without usage, and
// its receipt is marked estimated, because compatible servers report missing, negative or
// meaningless counts, and clamping to the balance alone would let one such reply empty an
// account. The reply cannot be refused, since the caller has already read it. If receipts of a
// well-behaved provider are marked estimated, a bound is too low.
func (s *Stream) plausible() bool {
	maxInput := 4*s.inputEstimate + inputSlack
	if s.files { // a file's estimate is not a bound, because the file itself says its pages, which vendors limit
		maxInput += stoa.MaxPages * (stoa.PageTokens + stoa.ImageTokens)
	}
	return s.usage.Sane() && s.usage.InputTokens <= maxInput && s.usage.OutputTokens <= 2*s.limit+int64(s.bytes)+outputSlack
}

// estimate returns the usage counted by Stoa: the counts that the vendor reported early, plus
// a third of the bytes received since. Its output is at most the call's limit or the vendor's
// count, whichever is higher.
func (s *Stream) estimate() stoa.Usage {
	u, since := s.usage, s.bytes-s.usageAt
	if !s.plausible() {
		u, since = stoa.Usage{}, s.bytes
	}
	if u.InputTokens == 0 {
		u.InputTokens = s.inputEstimate
	}
	u.OutputTokens = min(u.OutputTokens+stoa.EstimateTokens(since), max(s.limit, u.OutputTokens))
	if s.cut { // because the call pays for what it requested
		u.OutputTokens = s.limit
		u.ReasoningTokens = min(u.ReasoningTokens, s.limit)
	}
	return u
}
