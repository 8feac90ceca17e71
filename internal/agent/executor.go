package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stoa/internal/schema"
	"stoa/internal/session"
	"stoa/internal/stoa"
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
	wrong := t.prompt.misfit(call)
	if wrong == nil {
		out.HandOut, out.Ask = out.Call.Approved(), !out.Call.Approved()
		return out, nil
	}
	out.Result = stoa.ToolResult{CallID: call.ID, Name: call.Name, IsError: true, Content: wrong.Error() + "; nothing was done."}
	return out, nil
}

// misfit returns why a call of a tool that is carried out elsewhere must not be made,
// for the model.
func (p *prompt) misfit(call stoa.ToolCall) error {
	at := slices.IndexFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == call.Name })
	if at < 0 {
		return errors.New("there is no tool of that name any more")
	}
	parameters, err := schema.ReadParameters(p.external[at].Parameters)
	if err != nil {
		return fmt.Errorf("the tool's definition cannot be read: %w", err)
	}
	if err := parameters.Check(argumentsOf(call)); err != nil {
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
		tool := p.external[at]
		planned = append(planned, stoa.ExternalCall{
			Place: place, Type: tool.Type, Tool: tool.Name, DefinitionSHA256: tool.SHA256, Effects: tool.Effects, Approval: tool.Approval, ConnectionID: tool.ConnectionID, Title: tool.Title,
			OnTimeout: tool.OnTimeout, TimeoutSeconds: tool.TimeoutSeconds,
		})
	}
	return planned
}

// offered returns the tools of programs that a session does not withhold, and which it
// does.
func offered(tools []stoa.AgentTool, withheld []stoa.Withheld) (list []stoa.OfferedTool, not []stoa.Withheld) {
	for _, t := range tools {
		if t.Type != stoa.ToolClient {
			continue
		}
		if at := slices.IndexFunc(withheld, func(w stoa.Withheld) bool { return w.Tool == t.Name }); at >= 0 {
			not = append(not, withheld[at])
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

// tools answers the open calls of the last step, in order, up to one that asks the
// user, or neighbours that are handed out or have to be approved. It reports whether the turn waits now, or
// has ended.
func (w *Worker) tools(ctx context.Context, t *turn) (waits bool, err error) {
	step := t.last()
	outs := map[int]session.ToolEffect{}
	var asked, handed []stoa.ExternalCall // only one of them has any
	for place := 0; place < len(step.Calls); place++ {
		if step.Results[place] != nil {
			continue
		}
		if !waits && t.isReady(place) {
			if len(asked)+len(handed) > 0 {
				break
			}
			if err := w.record(ctx, t, outs, nil, nil); err != nil {
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
		if waits || len(asked)+len(handed) > 0 && t.planned(place) == nil {
			break
		}
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		out, err := w.executor(t, place).execute(ctx, t, place)
		if err != nil {
			return false, err
		}
		if out.Ask && len(handed) > 0 || out.HandOut && len(asked) > 0 {
			break
		}
		if out.Ask {
			asked = append(asked, *out.Call)
			continue
		}
		if out.HandOut {
			handed = append(handed, *out.Call)
			continue
		}
		outs[place] = out
		waits = out.Input != nil
	}
	if err := w.record(ctx, t, outs, asked, handed); err != nil || waits || len(asked)+len(handed) > 0 {
		return true, err
	}
	t.prompt.cut = t.prompt.cut || t.run.cut.Load()
	return false, nil
}

// record writes what calls of the last step did, and hands out others, or has people
// decide about them. What is written is taken out of outs.
func (w *Worker) record(ctx context.Context, t *turn, outs map[int]session.ToolEffect, asked, handed []stoa.ExternalCall) error {
	if len(outs)+len(asked)+len(handed) == 0 {
		return nil
	}
	step := t.last()
	err := w.sessions.IfOwned(ctx, t.run.lease, func(ch *session.Transition) {
		for place := range step.Calls {
			if out, ok := outs[place]; ok {
				ch.RecordTool(*step, place, out)
			}
		}
		if len(asked) > 0 {
			ch.AskApproval(*step, asked)
		}
		if len(handed) > 0 {
			ch.HandOut(*step, handed)
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
