package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/gateway"
	"stoa/internal/models/wire"
)

// step makes one model call and records it together with its charge. It reports whether the
// turn has ended, which is then recorded.
func (w *Worker) step(ctx context.Context, t *turn) (done bool, err error) {
	ctx, span := w.cfg.Tracer.Step(ctx, int64(len(t.prompt.steps)+1))
	recorded := false
	defer func() {
		w.cfg.Metrics.Step(recorded)
		span.End(turnCode(err))
	}()
	draft, stream, forget, err := w.beginCall(ctx, t)
	defer forget()
	if err != nil {
		return false, err
	}
	defer stream.Close()

	deltas := &deltaWriter{sessions: w.sessions, run: t.run, draft: draft, hold: t.prompt.reply != nil}
	st, other, broken := receive(ctx, stream, deltas, forget)
	for i := range st.Calls {
		st.Calls[i].Through = t.prompt.goesThrough(st.Calls[i])
	}
	st.Prefix = t.prompt.prefix + " " + stream.Place()
	st.SessionID, st.Turn, st.Number = t.row.ID, draft.Turn, draft.Step
	draft, err = deltas.close()
	switch {
	case err != nil: // because the lease or the store is gone
		return false, err
	case broken != nil && st.Text == "" && (t.prompt.dropImages(broken) || t.prompt.dropFormat(broken)):
		return false, nil
	case broken != nil:
		return w.abandon(ctx, t, &draft, stream, st, broken)
	}
	if st.Text != "" && t.prompt.final != "" || len(st.Calls) == 0 && other == "" { // before the transaction, because it may take a second
		st.Problem = t.prompt.reply.problem(st.Text)
	}
	st.Results = make([]*stoa.ToolResult, len(st.Calls))
	_, err = stream.Settle(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		done, err = w.recordStep(ctx, tx, t, &draft, st, other)
		return err
	})
	if err != nil {
		return false, err
	}
	recorded = true
	if v := t.prompt.view; v != nil {
		v.Recorded = true
	}
	t.prompt.steps = append(t.prompt.steps, st)
	return done, nil
}

// beginCall begins the model call of a step. It is a separate function so that its stack is
// free while the reply arrives, which is most of a step. The caller calls forget, once or
// more often, as soon as the input of the call can be freed.
func (w *Worker) beginCall(ctx context.Context, t *turn) (draft session.Draft, stream *gateway.Stream, forget func(), err error) {
	forget = func() {}
	if draft, err = w.beginStep(ctx, t); err != nil {
		return draft, nil, forget, err
	}
	req, err := w.request(t)
	if err != nil {
		return draft, nil, forget, err
	}
	if t.prompt.shown = anyImage(&req.Call); t.prompt.shown {
		release, err := w.images.Acquire(ctx, t.row.AccountID, imageSteps, imageSteps/2)
		if err != nil {
			return draft, nil, forget, context.Cause(ctx)
		}
		forget = sync.OnceFunc(release)
		if err := w.fillImages(ctx, t, &req.Call); err != nil {
			return draft, nil, forget, err
		}
		req.Fit = fitImages
	}
	if t.prompt.sent, err = t.sentAs(&req.Call); err != nil {
		return draft, nil, forget, err
	}
	stream, err = w.cfg.Gateway.Respond(ctx, *t.caller, req)
	return draft, stream, forget, err
}

// recordStep writes a step with its external calls in the transaction of its charge, and
// reports whether that ended the turn. It drops the calls of the last possible step, since no
// step could receive their results: the turn ends with the text before them, or fails. other is
// a kind of output, if the reply has only output that cannot be used, which fails the turn.
func (w *Worker) recordStep(ctx context.Context, tx *store.Tx, t *turn, draft *session.Draft, st stoa.Step, other string) (done bool, err error) {
	unanswered := t.prompt.final != "" && len(st.Calls) > 0
	if unanswered {
		st.Calls, st.Reasoning, st.Results = nil, nil, nil
	}
	ch, err := w.sessions.LockOwned(ctx, tx, t.run.lease)
	if err != nil {
		return false, err
	}
	if draft.Rejected = st.Problem != ""; t.prompt.reply != nil && len(st.Calls) == 0 && !draft.Rejected {
		draft.Text = string(jsonx.ObjectIn(st.Text))
	}
	if err := t.prompt.recordSent(ch, &st); err != nil {
		return false, err
	}
	ch.RecordStep(draft, st)
	switch {
	case !ch.Row.CancelAt.IsZero():
		ch.Cancel()
		done = true
	case other != "":
		ch.Fail(classify(gateway.NotText(other)).Failure)
		done = true
	case len(st.Calls) == 0:
		done = t.answer(ch, draft, st, unanswered)
	default:
		t.calls, done = ch.Plan(st, t.prompt.plan(st))
	}
	return done, ch.Save()
}

// answer ends the turn with the text of a step, unless that has a problem for which the model may be asked again.
func (t *turn) answer(ch *session.Transition, draft *session.Draft, st stoa.Step, unanswered bool) (done bool) {
	why := t.prompt.final
	switch {
	case unanswered && st.Text == "":
		ch.Fail(limitFailure(why).Failure)
	case st.Problem == "" && unanswered:
		ch.Reply(draft, st, string(why))
	case st.Problem == "" || st.Text == "" && st.Stop == stoa.StopContentFilter:
		ch.Reply(draft, st, "")
	case st.Stop == stoa.StopLength:
		ch.Mismatch("it was cut off at the limit of output tokens")
	case why != "" || st.Stop == stoa.StopContentFilter || slices.ContainsFunc(t.prompt.steps, rejected):
		ch.Mismatch(st.Problem)
	default:
		ch.Reject(st)
		return false
	}
	return true
}

func rejected(s stoa.Step) bool { return s.Problem != "" }

// errUnreadableCall fails a step that may be retried.
var errUnreadableCall = stoa.Errorf(stoa.CodeUpstream, "The model made a tool call that its provider could not read. Try again.")

// receive reads a model's reply to its end. other is as in [Worker.recordStep]. broken is the error if the reply did not
// complete. It calls forget when the reply has begun, because the call is not repeated from then on.
func receive(ctx context.Context, stream *gateway.Stream, deltas *deltaWriter, forget func()) (st stoa.Step, other string, broken error) {
	var text strings.Builder
	for ev, err := range stream.Events(ctx) {
		if err == nil && ev.Kind == stoa.Called && ev.Call.Name == "" {
			err = errUnreadableCall
		}
		if err != nil {
			broken = err
			break
		}
		switch ev.Kind {
		case stoa.Started: // because an earlier attempt failed
			st.Calls, st.Reasoning = nil, nil
		case stoa.Delta:
			forget()
			piece := strings.ReplaceAll(ev.Text, "\x00", "\uFFFD") // because PostgreSQL does not store it
			text.WriteString(piece)
			deltas.add(piece)
		case stoa.CallStarted:
			forget()
		case stoa.Called:
			c := ev.Call
			c.ID, c.Name, c.Arguments = stoa.Storable(c.ID), stoa.Storable(c.Name), stoa.Storable(c.Arguments)
			st.Calls = append(st.Calls, c)
		case stoa.Finished:
			st.Stop, other = ev.Stop, ev.Other
		case stoa.Reasoned, stoa.Phased:
			st.Reasoning = append(st.Reasoning, stoa.Segment{State: ev.State, Phase: ev.Text, Text: text.Len(), Calls: len(st.Calls)})
		}
	}
	if st.Text = text.String(); len(st.Calls) == 0 {
		st.Reasoning = nil // because later turns only contain the text of this one
	}
	return st, other, broken
}

// abandon ends a step whose reply did not complete. A turn that was cancelled or timed out is
// charged for the tokens produced until then; any other failure is free.
func (w *Worker) abandon(ctx context.Context, t *turn, draft *session.Draft, stream *gateway.Stream, st stoa.Step, broken error) (bool, error) {
	cause := context.Cause(ctx)
	if cause == nil {
		return false, broken
	}
	if !errors.Is(cause, session.ErrCancelled) && !errors.Is(cause, errDeadline) {
		return false, cause
	}
	st.Stop, st.Calls, st.Reasoning = "", nil, nil
	draft.Rejected = t.prompt.reply != nil // because a part of an answer does not fit
	charge, err := stream.Abandon(context.WithoutCancel(ctx), func(ctx context.Context, tx *store.Tx) error {
		ch, err := w.sessions.LockOwned(ctx, tx, t.run.lease)
		if err != nil {
			return err
		}
		if err := t.prompt.recordSent(ch, &st); err != nil {
			return err
		}
		ch.RecordStep(draft, st)
		if errors.Is(cause, session.ErrCancelled) || !ch.Row.CancelAt.IsZero() {
			ch.Cancel()
		} else {
			ch.Timeout()
		}
		return ch.Save()
	})
	if err != nil || charge.ID == "" {
		return false, cause // because nothing was written
	}
	return true, nil
}

// beginStep records that the next step begins. It is also the last check of the lease before
// credits are spent. For each step after the first it reads the caller again, because a plan may
// have changed, or an account been suspended.
func (w *Worker) beginStep(ctx context.Context, t *turn) (draft session.Draft, err error) {
	p := t.prompt
	version := t.row.AgentVersion
	if t.row.Draft {
		version = 0
	}
	if err := p.freezeTools(version); err != nil {
		return draft, err
	}
	var sources []stoa.Source
	if !p.named { // once for each read of the drive
		for _, s := range drive.Sources(p.knowledge.Files) {
			sources = append(sources, stoa.Source{Path: s.Path, SHA256: s.SHA256, FromLine: s.FirstLine, ToLine: s.LastLine, Via: "context"})
		}
	}
	caller := t.caller
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		ch, err := w.sessions.LockOwned(ctx, tx, t.run.lease)
		if err != nil {
			return err
		}
		if t.tellWithheld {
			ch.Withhold(t.withheld)
		}
		if p.from != ch.Row.ContextFrom {
			ch.LeaveOut(p.from, p.skip)
		}
		if err := p.storeView(ch); err != nil {
			return err
		}
		if err := p.told.store(ch); err != nil {
			return err
		}
		if draft, err = ch.BeginStep(int64(len(p.steps)+1), p.model, sources); err != nil {
			return err
		}
		if t.caller == nil {
			c, err := w.caller(ctx, tx, &t.row)
			if err != nil {
				return err
			}
			caller = &c
		}
		if err := ch.Save(); err != nil {
			return err
		}
		t.cost = ch.Row.Turn.Spent - t.row.Turn.Spent
		t.row = *ch.Row
		return nil
	})
	if err != nil {
		return draft, err
	}
	t.caller, p.named, t.tellWithheld = caller, true, false
	if p.view != nil {
		p.view.dirty = false
	}
	if p.told != nil {
		p.told.dirty, p.told.fresh = false, false
	}
	return draft, nil
}

// final returns the limit that makes the next step the turn's last one: that of its steps, or
// its credits if they will not suffice for two more steps as expensive as the newest one.
func (t *turn) final() stoa.Code {
	row := &t.row
	if len(t.prompt.steps)+1 >= row.Limits.MaxSteps {
		return session.CodeStepLimit
	}
	left := stoa.Credits(math.MaxInt64)
	if row.Limits.MaxCredits > 0 {
		left = row.Limits.MaxCredits - row.Turn.Spent
	}
	if row.MaxSpend > 0 {
		left = min(left, row.MaxSpend-row.Spent)
	}
	if t.cost > 0 && left/2 < t.cost {
		return session.CodeCreditLimit
	}
	return ""
}

func limitFailure(limit stoa.Code) *failure {
	f := stoa.Failure{Code: limit, Retryable: true, Message: "The turn has reached its maximum number of steps without an answer. Retry it, split the task into smaller ones, or raise the limit of its steps."}
	if limit == session.CodeCreditLimit {
		f.Message = "The turn has reached its maximum cost without an answer. Give the agent a higher limits.maxCreditsMicro and start a new session, or split the task into smaller ones."
		f.Retryable = false
	}
	return &failure{Failure: f}
}

// request returns the model call of the next step. It fails like [Worker.begin], or if the call
// is too large.
func (w *Worker) request(t *turn) (gateway.Request, error) {
	t.prompt.sees = w.sees(t.prompt.model, t.caller.Plan)
	t.prompt.final = t.final()
	req, err := w.begin(t, int64(len(t.prompt.steps)+1))
	if err != nil {
		return req, err
	}
	req.Call = w.call(t.prompt, t.caller.Plan)
	if s := t.prompt.settings; s.Effort != "" || s.Temperature != nil {
		req.Ignored = func(route stoa.Route) string {
			return strings.Join(wire.Dropped(stoa.Call{Effort: s.Effort, Temperature: s.Temperature}, route), "\n")
		}
	}
	last := t.prompt.pastPrefix
	if n := len(t.prompt.steps); n > 0 {
		last = t.prompt.steps[n-1].Prefix
	}
	t.prompt.prefix = t.prompt.fingerprint(&req.Call)
	req.Broke, req.Continues = broke(last, t.prompt.prefix), last != ""
	req.Before = place(last)
	if f := t.prompt.tooLarge(&req.Call, t.window); f != nil {
		return req, f
	}
	return req, nil
}

// begin returns a model call of the turn under a number, without its content. It fails if the
// account is suspended, or if the turn or the embed has spent its limit.
func (w *Worker) begin(t *turn, number int64) (gateway.Request, error) {
	row := &t.row
	req := gateway.Request{
		ID: stoa.StepID(row.ID, row.Turn.Number, number), Model: t.prompt.model,
		EndUser: row.ExternalUserID, SpaceID: row.SpaceID, AgentID: row.AgentID, SessionID: row.ID, EmbedID: t.embed,
	}
	if t.caller.Account.Suspended {
		return req, &failure{Failure: stoa.Failure{Code: stoa.CodeSuspended, Message: "The account is suspended."}}
	}
	if limit := row.Limits.MaxCredits; limit > 0 {
		if req.MaxCredits = limit - row.Turn.Spent; req.MaxCredits <= 0 {
			return req, &failure{Failure: stoa.Failure{Code: session.CodeCreditLimit, Message: fmt.Sprintf("The turn has used up its cap of %s credits. Give the agent a higher limits.maxCreditsMicro and start a new session, or split the task into smaller ones.", limit)}}
		}
	}
	if row.MaxSpend > 0 {
		left := row.MaxSpend - row.Spent
		if left <= 0 {
			return req, &failure{Failure: stoa.Failure{Code: session.CodeCreditLimit, Message: "The chat has used up the credits that its embed allows. Create another embed for it."}}
		}
		if req.MaxCredits == 0 || left < req.MaxCredits {
			req.MaxCredits = left
		}
	}
	return req, nil
}
