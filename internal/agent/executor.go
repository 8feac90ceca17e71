package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"stoa/internal/schema"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/tool"
)

// An executor carries out the calls of one type of tool, as far as that can be done
// here and now.
type executor interface {
	// execute carries out the call at a place of the last step. What the model got wrong
	// becomes a result; an error is ours, and the call is executed again.
	execute(ctx context.Context, t *turn, place int) (session.ToolEffect, error)
}

// executor returns what carries out the call at a place of the last step: calls of
// tools that are offered and not the service's own were planned with the step.
func (w *Worker) executor(t *turn, place int) executor {
	if t.planned(place) != nil {
		return clientTools{}
	}
	return ownTools{w}
}

// ownTools are the tools of the service itself: the drive, and asking the user.
type ownTools struct{ w *Worker }

func (o ownTools) execute(ctx context.Context, t *turn, place int) (session.ToolEffect, error) {
	step := t.last()
	if call := step.Calls[place]; call.Name == toolResultRead && t.prompt.cut {
		return o.w.readResult(ctx, t, call)
	} else if ofDrive(call) && t.prompt.access != t.shown {
		if err := o.w.store.Read(ctx, func(tx *store.Tx) error { return t.limitDrive(ctx, tx) }); err != nil {
			return session.ToolEffect{}, err
		}
	}
	id := stoa.StepID(step.SessionID, step.Turn, step.Number)
	// The reference of a write: the same if the process dies before its result
	// is recorded, so that it is written once.
	return o.w.useTraced(ctx, t, id, stoa.StepID(id, int64(place+1), 0), step.Calls[place])
}

// clientTools are carried out by programs of the account, which are handed the calls
// whose arguments fit.
type clientTools struct{}

func (clientTools) execute(_ context.Context, t *turn, place int) (session.ToolEffect, error) {
	call := t.last().Calls[place]
	out := session.ToolEffect{Call: t.planned(place)}
	wrong := t.prompt.misfit(out.Call)
	if wrong == nil {
		switch {
		case !out.Call.IsConfirmed():
			out.Confirm = true
		case !out.Call.Approved():
			out.Ask = true
		default:
			out.HandOut = true
		}
		return out, nil
	}
	out.Result = stoa.ToolResult{CallID: call.ID, Name: call.Name, IsError: true, Content: wrong.Error() + "; nothing was done."}
	return out, nil
}

// misfit returns why a call of a tool that is carried out elsewhere must not be made,
// for the model.
func (p *prompt) misfit(c *stoa.ExternalCall) error {
	at := slices.IndexFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == c.Tool })
	if at < 0 {
		return errors.New("there is no tool of that name any more")
	}
	parameters, err := schema.ReadParameters(cmp.Or(p.external[at].Sent, p.external[at].Parameters))
	if err != nil {
		return fmt.Errorf("the tool's definition cannot be read: %w", err)
	}
	if err := parameters.Check(argumentsOf(c.Arguments)); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's parameters: %w", err)
	}
	return nil
}

// plan returns the calls of a step that are carried out outside of the service: those
// of offered tools, the first of them if there are too many.
func (p *prompt) plan(st stoa.Step) (planned []stoa.ExternalCall) {
	if len(p.external) == 0 {
		return nil
	}
	for place, c := range st.Calls {
		at := slices.IndexFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == c.Name })
		if at < 0 || len(planned) == session.CallsPerStep {
			continue
		}
		t := p.external[at]
		planned = append(planned, stoa.ExternalCall{
			Place: place, Type: t.Type, Tool: t.Name, DefinitionSHA256: t.SHA256, Effects: t.Effects, Approval: t.Approval, ConnectionID: t.ConnectionID, Title: t.Title,
			OnUnknown: t.OnUnknown, IdempotencyArgument: t.IdempotencyArgument, OnTimeout: t.OnTimeout, TimeoutSeconds: t.TimeoutSeconds, Confirmation: tool.Confirmation(t.Ask, argumentsOf(c.Arguments)),
		})
	}
	return planned
}

// offered returns the tools of programs that a session does not withhold, and which it
// does.
func offered(tools []stoa.AgentTool, withheld []stoa.Withheld, visitor bool) (list []stoa.OfferedTool, not []stoa.Withheld) {
	for _, t := range tools {
		if t.Type != stoa.ToolClient {
			continue
		}
		if at := slices.IndexFunc(withheld, func(w stoa.Withheld) bool { return w.Tool == t.Name }); at >= 0 {
			not = append(not, withheld[at])
			continue
		}
		if visitor && !t.Visitors { // an embed shows the session since
			not = append(not, stoa.Withheld{Tool: t.Name, Reason: stoa.WithheldVisitor})
			continue
		}
		list = append(list, stoa.OfferedTool{AgentTool: t, SHA256: t.Hash()})
	}
	return list, not
}

// planned returns the row of the call at a place of the last step; nil: it is one of
// the service's own.
func (t *turn) planned(place int) *stoa.ExternalCall {
	for i := range t.calls {
		if t.calls[i].Place == place {
			return &t.calls[i]
		}
	}
	return nil
}

// last returns the newest step.
func (t *turn) last() *stoa.Step { return &t.prompt.steps[len(t.prompt.steps)-1] }

// waiting is the calls of a step that wait for somebody; only one of the lists has any.
type waiting struct {
	confirmed []stoa.ExternalCall // by the visitor, who is asked about one at a time
	asked     []stoa.ExternalCall // about by people of the account
	handed    []stoa.ExternalCall // out to programs
}

func (w waiting) any() bool { return len(w.confirmed)+len(w.asked)+len(w.handed) > 0 }

// add adds a call that waits as its effect says. It reports whether the call waits for the
// same as those before it; one that does not is not added.
func (w *waiting) add(out session.ToolEffect) bool {
	list := &w.handed
	switch {
	case out.Confirm && w.any():
		return false
	case out.Confirm:
		list = &w.confirmed
	case out.Ask:
		list = &w.asked
	}
	if w.any() && len(*list) == 0 {
		return false
	}
	*list = append(*list, *out.Call)
	return true
}

// tools answers the open calls of the last step, in order, up to one that asks the
// user or has to be confirmed, or neighbours that are handed out or have to be approved. It
// reports whether the turn waits now, or has ended.
func (w *Worker) tools(ctx context.Context, t *turn) (waits bool, err error) {
	step := t.last()
	outs := map[int]session.ToolEffect{}
	var held waiting
	for place := 0; place < len(step.Calls); place++ {
		if step.Results[place] != nil {
			continue
		}
		if !waits && t.isReady(place) {
			if held.any() {
				break
			}
			if err := w.record(ctx, t, outs, held); err != nil {
				return false, err
			}
			if err := ctx.Err(); err != nil {
				return false, context.Cause(ctx)
			}
			n, waits, err := w.carryOut(ctx, t, place)
			if err != nil || waits {
				return waits, err
			}
			place += n - 1
			continue
		}
		if waits || held.any() && t.planned(place) == nil {
			break
		}
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		out, err := w.executor(t, place).execute(ctx, t, place)
		if err != nil {
			return false, err
		}
		if out.Confirm || out.Ask || out.HandOut {
			if !held.add(out) {
				break
			}
			continue
		}
		outs[place] = out
		waits = out.Input != nil
	}
	if err := w.record(ctx, t, outs, held); err != nil || waits || held.any() {
		return true, err
	}
	t.prompt.cut = t.prompt.cut || t.run.cut.Load()
	return false, nil
}

// record writes what calls of the last step did, and has others wait for whom they wait.
// What is written is taken out of outs.
func (w *Worker) record(ctx context.Context, t *turn, outs map[int]session.ToolEffect, held waiting) error {
	if len(outs) == 0 && !held.any() {
		return nil
	}
	step := t.last()
	err := w.sessions.IfOwned(ctx, t.run.lease, func(ch *session.Transition) {
		for place := range step.Calls {
			if out, ok := outs[place]; ok {
				ch.RecordTool(*step, place, out)
			}
		}
		switch {
		case len(held.confirmed) > 0:
			ch.AskVisitor(*step, held.confirmed[0])
		case len(held.asked) > 0:
			ch.AskApproval(*step, held.asked)
		case len(held.handed) > 0:
			ch.HandOut(*step, held.handed)
		}
	})
	if err != nil {
		return err
	}
	for place, out := range outs {
		if out.Input == nil {
			step.Results[place] = &out.Result
		}
	}
	clear(outs)
	return nil
}
