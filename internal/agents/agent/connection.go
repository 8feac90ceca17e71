package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of calls to connections' tools.
const (
	readsAtOnce  = 4
	callAttempts = 3               // maximum attempts of a call that may be repeated
	callLosses   = 2               // maximum number of processes lost during a call
	recordTime   = 2 * time.Second // reserved at the end of a turn, so that a call's result can be recorded
)

// pauses lists the pauses before an attempt, indexed by the number of failures.
var pauses = []time.Duration{0, time.Second, 4 * time.Second}

var (
	// errAsk means that a person must decide about a call that may have been carried out.
	errAsk = errors.New("agent: a call needs a decision")
	// errEnded means that a call has ended the turn, which is recorded.
	errEnded = errors.New("agent: the turn has ended")
)

// isReady reports whether the call at a place of the last step is of a connection's tool and
// no longer needs a confirmation or an approval.
func (t *turn) isReady(place int) bool {
	c := t.planned(place)
	return c != nil && c.Type == stoa.ToolConnection && (c.IsConfirmed() && c.Approved() || c.Status == stoa.CallClaimed)
}

// offer returns the offered tool of a planned call; nil if the turn no longer offers it or
// its definition has changed.
func (p *prompt) offer(c *stoa.ExternalCall) *stoa.OfferedTool {
	at := slices.IndexFunc(p.external, func(o stoa.OfferedTool) bool {
		return o.Type == c.Type && o.Name == c.Tool && o.SHA256 == c.DefinitionSHA256
	})
	if at < 0 {
		return nil
	}
	return &p.external[at]
}

// altered returns the outcome of a call whose tool is withheld or has changed since the call
// was planned; nil if neither is the case.
func (t *turn) altered(c *stoa.ExternalCall) *ended {
	at := slices.IndexFunc(t.withheld, func(w stoa.Withheld) bool { return w.Tool == c.Tool })
	if at >= 0 {
		if refused := tool.RefusalOf(t.withheld[at].Reason); refused != nil {
			return wrong(refused.Code, refused.Text)
		}
	}
	return wrong(stoa.CodeToolChanged, alteredText)
}

const alteredText = "The tool is not offered any more, or its definition has changed; nothing was done."

// carryOut carries out calls of connections' tools: the one at a place and, if it is
// read-only, the read-only ones that follow it, several at a time. It returns how many it
// carried out. waits is set if a person must first decide about a call that may have been
// carried out, or if a call has ended the turn. See docs/decisions/0048-repeat-a-servers-tool-call-only-if-that-is-safe.md.
func (w *Worker) carryOut(ctx context.Context, t *turn, place int) (n int, waits bool, err error) {
	step := t.last()
	group := []*stoa.ExternalCall{t.planned(place)}
	for next := place + 1; group[0].MayShare() && len(group) < readsAtOnce && next < len(step.Calls); next++ {
		if step.Results[next] != nil || !t.isReady(next) || !t.planned(next).MayShare() {
			break
		}
		group = append(group, t.planned(next))
	}
	if t.run.calls == nil {
		t.run.calls = w.cfg.Tools.TurnOf(t.row.ID, t.row.Mode == stoa.ModeChat, t.own)
	}
	failed := make([]error, len(group))
	var all sync.WaitGroup
	calling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for i, c := range group {
		all.Go(func() {
			failed[i] = recovered(func() error { return w.carryOutOne(calling, t, c) })
			if errors.Is(failed[i], errEnded) {
				stop(session.ErrLost) // because the other calls belong to a turn that is over
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		if errors.Is(err, errEnded) {
			return 0, true, nil
		}
		for _, one := range failed {
			if errors.Is(one, session.ErrLost) {
				return 0, false, one
			}
		}
		if errors.Is(err, errAsk) {
			held := waiting{stoa.InputToolApproval, []stoa.ExternalCall{*group[0]}}
			if group[0].Confirmation != nil { // because the approval follows it
				held.kind = stoa.InputToolConfirmation
			}
			return 0, true, w.record(context.WithoutCancel(ctx), t, nil, held)
		}
		return 0, false, slices.DeleteFunc(failed, func(e error) bool { return e == nil })[0]
	}
	return len(group), false, nil
}

type ended struct {
	outcome stoa.CallOutcome
	code    stoa.Code // error of Stoa
	text    string
	images  []*stoa.Media
}

func wrong(code stoa.Code, text string) *ended {
	return &ended{outcome: stoa.OutcomeError, code: code, text: text}
}

// carryOutOne carries out one call, and repeats it if that is safe. If it returns without an
// error, the result is recorded.
func (w *Worker) carryOutOne(ctx context.Context, t *turn, c *stoa.ExternalCall) error {
	offer := t.prompt.offer(c)
	if c.Status != stoa.CallClaimed && offer != nil {
		if misfit := t.prompt.misfit(c); misfit != nil {
			return w.finish(ctx, t, c, known(c, wrong(stoa.CodeInvalidValue, misfit.Error()+"; nothing was done.")))
		}
	}
	if c.Status == stoa.CallClaimed { // because the process that claimed it is gone
		c.Lost++
		doubt(c)
		if c.Asks() || c.Effects == stoa.EffectsOnce || c.Lost >= callLosses || c.Attempts >= callAttempts || offer == nil {
			return w.unknown(ctx, t, c)
		}
	}
	if offer == nil {
		return w.finish(ctx, t, c, known(c, t.altered(c)))
	}
	waited := false
	for {
		reply, end, err := w.attempt(ctx, t, c, *offer)
		if err != nil {
			return err
		}
		if end == nil {
			var pause time.Duration
			if end, pause = w.classifyReply(c, reply, &waited); end == nil && time.Until(t.row.Turn.DeadlineAt) < pause+recordTime {
				end = last(c, reply)
			}
			if end == nil {
				if reply.Class == tool.Unknown {
					doubt(c)
				}
				if err := w.rest(ctx, t, c, pause); err != nil {
					return err
				}
				continue
			}
		}
		if end.outcome == stoa.OutcomeUnknown {
			return w.unknown(ctx, t, c)
		}
		return w.finish(ctx, t, c, known(c, end))
	}
}

// doubt records that a call may have been carried out, before it is repeated. It skips a
// read-only call, because a repetition is harmless.
func doubt(c *stoa.ExternalCall) {
	if c.Effects != stoa.EffectsRead {
		c.PreviousOutcome = stoa.OutcomeUnknown
	}
}

// known returns the outcome of a call after its last attempt. It stays unknown if that attempt
// was not made or was refused, because that says nothing about earlier ones.
func known(c *stoa.ExternalCall, end *ended) ended {
	if end.code != "" && c.PreviousOutcome == stoa.OutcomeUnknown {
		return ended{outcome: stoa.OutcomeUnknown}
	}
	return *end
}

// unknown ends a call of which it is unknown whether it was carried out. It asks instead if a
// person approved the call and its turn need not fail, because that person decides whether to
// repeat it.
func (w *Worker) unknown(ctx context.Context, t *turn, c *stoa.ExternalCall) error {
	if c.Asks() && !c.FailsUnknown() {
		c.PreviousOutcome = stoa.OutcomeUnknown
		return errAsk
	}
	return w.finish(ctx, t, c, ended{outcome: stoa.OutcomeUnknown})
}

func (w *Worker) attempt(ctx context.Context, t *turn, c *stoa.ExternalCall, offer stoa.OfferedTool) (reply tool.Reply, end *ended, err error) {
	if w.isStopping() {
		return reply, nil, w.putBack(ctx, t, c, errHandBack)
	}
	if err := ctx.Err(); err != nil {
		return reply, nil, context.Cause(ctx)
	}
	var who tool.Audience
	var to tool.Target
	var refused *tool.Refusal
	err = w.store.Read(ctx, func(tx *store.Tx) (err error) {
		if who, err = session.Audience(ctx, tx, t.row.Session, t.own); err != nil {
			return err
		}
		to, refused, err = w.cfg.Tools.Target(ctx, tx, who, offer, *c)
		return err
	})
	if err != nil {
		return reply, nil, err
	}
	if refused != nil {
		return reply, wrong(refused.Code, refused.Text), nil
	}
	leave, full, err := w.cfg.Tools.Enter(ctx, to)
	if err != nil {
		return reply, nil, err
	}
	if full != "" {
		return reply, wrong(stoa.CodeRateLimit, full), nil
	}
	defer leave()
	timeout := min(to.Timeout(), time.Until(t.row.Turn.DeadlineAt)-recordTime)
	if timeout <= 0 {
		return reply, nil, errDeadline
	}
	started := *c
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		ch, err := w.sessions.LockOwned(ctx, tx, t.run.lease)
		if err != nil {
			return err
		}
		if !ch.Row.CancelAt.IsZero() {
			return session.ErrCancelled
		}
		if to, refused, err = w.cfg.Tools.Target(ctx, tx, who, offer, *c); err != nil || refused != nil {
			return err
		}
		started = *c
		started.SecretID = to.SecretID(who.Own)
		ch.StartCall(&started)
		return ch.Save()
	})
	if err != nil {
		return reply, nil, err
	}
	if refused != nil {
		return reply, wrong(refused.Code, refused.Text), nil
	}
	*c = started
	ctx, span := w.cfg.Tracer.Tool(ctx, c.Tool)
	began := time.Now()
	reply = t.run.calls.Call(ctx, to, c.ID, argumentsOf(c.Arguments), timeout)
	w.cfg.Metrics.ServerCall(time.Since(began))
	code := stoa.Code("")
	if reply.Class != tool.Answered || reply.IsError {
		code = toolError
	}
	span.End(code)
	if reply.Unauthorized {
		if err := w.cfg.Tools.Forbid(context.WithoutCancel(ctx), to); err != nil {
			w.report(ctx, "a refused secret could not be written down", err)
		}
	}
	if cause := context.Cause(ctx); cause != nil && reply.Class != tool.Answered && reply.Class != tool.Refused {
		return reply, nil, w.interrupted(ctx, t, c, reply, cause)
	}
	return reply, nil, nil
}

func (w *Worker) interrupted(ctx context.Context, t *turn, c *stoa.ExternalCall, reply tool.Reply, cause error) error {
	switch {
	case errors.Is(cause, session.ErrLost):
		return cause
	case reply.Class == tool.NotSent:
		return w.putBack(ctx, t, c, cause)
	case c.Effects != stoa.EffectsOnce && errors.Is(cause, errHandBack):
		doubt(c)
		return w.putBack(ctx, t, c, cause)
	case c.Effects == stoa.EffectsOnce:
		if err := w.finish(ctx, t, c, ended{outcome: stoa.OutcomeUnknown}); err != nil {
			return err
		}
	}
	return cause // because the end of the turn ends the other calls
}

// putBack returns a started call to the planned state. It returns cause, or the error if that
// could not be recorded.
func (w *Worker) putBack(ctx context.Context, t *turn, c *stoa.ExternalCall, cause error) error {
	if c.Status != stoa.CallClaimed {
		return cause
	}
	err := w.sessions.IfOwned(context.WithoutCancel(ctx), t.run.lease, func(ch *session.Transition) { ch.ReplanCall(c) })
	if err != nil {
		return err
	}
	return cause
}

func (w *Worker) rest(ctx context.Context, t *turn, c *stoa.ExternalCall, pause time.Duration) error {
	if err := w.putBack(ctx, t, c, nil); err != nil {
		return err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// classifyReply returns the outcome of a call after a reply; nil means retry after a pause.
func (w *Worker) classifyReply(c *stoa.ExternalCall, r tool.Reply, waited *bool) (end *ended, pause time.Duration) {
	again := callAttempts
	if c.Effects == stoa.EffectsOnce {
		again = callAttempts - 1
	}
	switch {
	case r.Class == tool.Answered:
		return last(c, r), 0
	case r.Wait > 0 && !*waited:
		*waited = true
		return nil, r.Wait
	case r.Hopeless, c.Attempts >= again, r.Class == tool.Unknown && c.Effects == stoa.EffectsOnce:
		return last(c, r), 0
	}
	return nil, pauses[min(c.Attempts, len(pauses)-1)]
}

func last(c *stoa.ExternalCall, r tool.Reply) *ended {
	switch {
	case r.Class == tool.Answered && !r.IsError:
		return &ended{outcome: stoa.OutcomeOK, text: r.Text, images: r.Images}
	case r.Class == tool.Answered:
		return &ended{outcome: stoa.OutcomeError, text: r.Text, images: r.Images}
	case r.Class == tool.Unknown && (c.Effects == stoa.EffectsOnce || c.Effects == stoa.EffectsIdempotent && !r.Hopeless):
		return &ended{outcome: stoa.OutcomeUnknown}
	case r.Class == tool.NotSent:
		return wrong(stoa.CodeToolServer, r.Text+" The call was not made.")
	default:
		return wrong(stoa.CodeToolServer, r.Text)
	}
}

// finish records the end of a call and its result for the model, even while the turn is being
// stopped. It returns errEnded if that has ended the turn.
func (w *Worker) finish(ctx context.Context, t *turn, c *stoa.ExternalCall, end ended) error {
	told, cut := "", false
	if end.outcome != stoa.OutcomeUnknown {
		told = end.text
		if end.code == "" {
			told, cut = framed(c, end.text, 1, 0, w.cfg.ToolOutput)
		}
	}
	done, ended := *c, false
	var images []stoa.ResultImage
	err := w.sessions.IfOwned(context.WithoutCancel(ctx), t.run.lease, func(ch *session.Transition) {
		done = *c
		done.ErrorCode = end.code
		if end.outcome == stoa.OutcomeUnknown {
			told, ended = ch.LoseCall(&done)
		} else {
			ended = false
			ch.FinishCall(&done, end.outcome, end.text, told)
			images = ch.KeepImages(done, end.images)
		}
	})
	if err != nil {
		return err
	}
	*c = done
	if ended {
		return errEnded
	}
	t.last().Results[c.Place] = &stoa.ToolResult{CallID: c.CallID, Name: c.Tool, Content: told, Images: images, IsError: end.outcome != stoa.OutcomeOK}
	if cut {
		t.run.cut.Store(true)
	}
	return nil
}
