package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/schema"
)

// execute carries out the call at a place of the last step, or returns for whom it waits if
// that cannot be done in this process. An error of the model becomes a result; a returned
// error is internal, and the call is executed again.
func (w *Worker) execute(ctx context.Context, t *turn, place int) (session.ToolEffect, error) {
	c := t.planned(place)
	if c == nil {
		return w.useOwn(ctx, t, place)
	}
	if c.Type == stoa.ToolDrive && c.Approved() {
		out, err := w.useOwn(ctx, t, place)
		out.Call, out.Done = c, true
		return out, err
	}
	if c.Type == stoa.ToolDrive && c.Tool == toolWrite {
		if err := w.limitDrive(ctx, t); err != nil {
			return session.ToolEffect{}, err
		}
	}
	out := session.ToolEffect{Call: c}
	switch wrong := t.prompt.misfit(c); {
	case wrong != nil:
		call := t.last().Calls[place]
		out.Result = stoa.ToolResult{CallID: call.ID, Name: call.Name, IsError: true, Content: wrong.Error() + "; nothing was done."}
	case !c.IsConfirmed():
		out.Waits = stoa.InputToolConfirmation
	case !c.Approved():
		out.Waits = stoa.InputToolApproval
	default:
		out.Waits = stoa.InputToolCall
	}
	return out, nil
}

func (w *Worker) useOwn(ctx context.Context, t *turn, place int) (session.ToolEffect, error) {
	step := t.last()
	if call := step.Calls[place]; call.Name == toolResultRead && t.prompt.readsResults() {
		return w.readResult(ctx, t, call)
	} else if ofDrive(call) || call.Name == toolTableList || call.Name == toolTableQuery {
		if err := w.limitDrive(ctx, t); err != nil {
			return session.ToolEffect{}, err
		}
	}
	id := stoa.StepID(step.SessionID, step.Turn, step.Number)
	// The reference of a write stays the same if the process dies before the result is
	// recorded, so that the write happens only once.
	return w.useTraced(ctx, t, id, stoa.StepID(id, int64(place+1), 0), place)
}

// limitDrive is [turn.limitDrive] in a separate transaction.
func (w *Worker) limitDrive(ctx context.Context, t *turn) error {
	if t.prompt.access == t.shown {
		return nil
	}
	return w.store.Read(ctx, func(tx *store.Tx) error { return t.limitDrive(ctx, tx) })
}

// misfit returns why a call of an external tool must not be made. The text is for the model.
func (p *prompt) misfit(c *stoa.ExternalCall) error {
	at := slices.IndexFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == c.Tool })
	if at < 0 {
		return errors.New("the tool no longer exists")
	}
	parameters, err := schema.ReadParameters(cmp.Or(p.external[at].Sent, p.external[at].Parameters))
	if err != nil {
		return fmt.Errorf("the tool's definition cannot be read: %w", err)
	}
	if err := parameters.Check(argumentsOf(c.Arguments)); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's parameters: %w", err)
	}
	switch {
	case c.Type != stoa.ToolDrive:
	case c.Tool == toolMemoryWrite:
		err = memoryMisfit(c.Arguments)
	default:
		var in struct {
			Path string `json:"path"`
		}
		if err := jsonx.Unmarshal([]byte(c.Arguments), &in); err != nil {
			return err
		}
		if _, err = writablePath(in.Path); err == nil {
			err = p.visible(in.Path)
		}
	}
	return err
}

// plan returns the external calls of a step: those of offered tools, cut to the first ones if
// there are too many.
func (p *prompt) plan(st stoa.Step) (planned []stoa.ExternalCall) {
	if len(p.external) == 0 {
		return nil
	}
	for place, c := range st.Calls {
		c = c.Meant()
		at := slices.IndexFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == c.Name })
		if at < 0 || len(planned) == session.CallsPerStep {
			continue
		}
		t := p.external[at]
		planned = append(planned, stoa.ExternalCall{
			Place: place, Arguments: c.Arguments, Type: t.Type, Tool: t.Name, DefinitionSHA256: t.SHA256, Effects: t.Effects, Approval: t.Approval, ConnectionID: t.ConnectionID, Title: t.Title,
			OnUnknown: t.OnUnknown, IdempotencyArgument: t.IdempotencyArgument, OnTimeout: t.OnTimeout, TimeoutSeconds: t.TimeoutSeconds, Confirmation: tool.Confirmation(t.Ask, argumentsOf(c.Arguments)),
		})
	}
	return planned
}

// offered splits the tools of programs into those that a session offers and those that it
// withholds.
func offered(tools []stoa.AgentTool, withheld []stoa.Withheld, visitor bool) (list []stoa.OfferedTool, not []stoa.Withheld) {
	for _, t := range tools {
		if t.Type != stoa.ToolClient {
			continue
		}
		if at := slices.IndexFunc(withheld, func(w stoa.Withheld) bool { return w.Tool == t.Name }); at >= 0 {
			not = append(not, withheld[at])
			continue
		}
		if visitor && !t.Visitors { // because an embed now shows the session
			not = append(not, stoa.Withheld{Tool: t.Name, Reason: stoa.WithheldVisitor})
			continue
		}
		list = append(list, stoa.OfferedTool{AgentTool: t, SHA256: t.Hash()})
	}
	for _, name := range []string{toolWrite, toolMemoryWrite} {
		if withholds(withheld, name) {
			not = append(not, stoa.Withheld{Tool: name, Reason: stoa.WithheldOnce})
		}
	}
	return list, not
}

// guarded returns a tool of the service that writes if the agent's tools require an approval of its
// calls.
func guarded(tools []stoa.AgentTool, tool stoa.Tool) []stoa.OfferedTool {
	if !slices.ContainsFunc(tools, func(t stoa.AgentTool) bool { return t.Guards(tool.Name) }) {
		return nil
	}
	write := stoa.AgentTool{
		Type: stoa.ToolDrive, Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters,
		Effects: stoa.EffectsIdempotent, Approval: stoa.ApprovalAlways, OnTimeout: stoa.TimeoutTells,
	}
	return []stoa.OfferedTool{{AgentTool: write, SHA256: write.Hash()}}
}

// planned returns the row of the call at a place of the last step; nil if its tool is built
// in.
func (t *turn) planned(place int) *stoa.ExternalCall {
	for i := range t.calls {
		if t.calls[i].Place == place {
			return &t.calls[i]
		}
	}
	return nil
}

func (t *turn) last() *stoa.Step { return &t.prompt.steps[len(t.prompt.steps)-1] }

type waiting struct {
	kind  string
	calls []stoa.ExternalCall
}

func (w waiting) any() bool { return len(w.calls) > 0 }

// add adds a call that waits. It reports false, and does not add it, if the call waits for
// another party than those before it or if a visitor must confirm it, because a visitor confirms
// one at a time.
func (w *waiting) add(out session.ToolEffect) bool {
	if w.any() && (out.Waits != w.kind || w.kind == stoa.InputToolConfirmation) {
		return false
	}
	w.kind, w.calls = out.Waits, append(w.calls, *out.Call)
	return true
}

// tools answers the open calls of the last step in order. It stops at a call that needs the
// user's answer or confirmation, or after neighboring calls that are handed out or need
// approval. It reports whether the turn now waits or has ended.
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
		if c := t.planned(place); waits || held.any() && (c == nil || c.Type == stoa.ToolDrive && c.Approved()) {
			break
		}
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		if step.Calls[place].Name == toolMemoryRead { // because it reads what the calls before it have written
			if err := w.record(ctx, t, outs, held); err != nil {
				return false, err
			}
		}
		out, err := w.execute(ctx, t, place)
		if err != nil {
			return false, err
		}
		if out.Waits != "" {
			if !held.add(out) {
				break
			}
			continue
		}
		out.Result.Content = stoa.Storable(out.Result.Content) // because it may quote the arguments
		outs[place] = out
		waits = out.Input != nil
	}
	if err := w.record(ctx, t, outs, held); err != nil || waits || held.any() {
		return true, err
	}
	t.prompt.cut = t.prompt.cut || t.run.cut.Load()
	return false, nil
}

// record writes the effects of calls of the last step and starts the waits of held calls. It
// removes from outs what it has written.
func (w *Worker) record(ctx context.Context, t *turn, outs map[int]session.ToolEffect, held waiting) error {
	if len(outs) == 0 && !held.any() {
		return nil
	}
	step := t.last()
	err := w.sessions.IfOwned(ctx, t.run.lease, func(ch *session.Transition) {
		for place := range step.Calls {
			if out, ok := outs[place]; ok {
				if out.Memory != nil {
					out = w.writeMemory(ch, out)
					outs[place] = out
				}
				ch.RecordTool(*step, place, out)
			}
		}
		if held.any() {
			ch.WaitForCalls(*step, held.kind, held.calls)
		}
	})
	if err != nil {
		return err
	}
	for place := range step.Calls { // in order, because of the revisions of a memory
		out, ok := outs[place]
		if !ok {
			continue
		}
		if out.Memory != nil {
			t.prompt.wrote(out.Remembered)
			out.Ended(out.Result.IsError)
		}
		if out.Input == nil {
			step.Results[place] = &out.Result
		}
	}
	clear(outs)
	return nil
}
