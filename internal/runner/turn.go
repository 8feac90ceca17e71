package runner

import (
	"context"

	"stoa/internal/drive"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// turn runs a claimed session's turn from where it stands. It returns nil when
// the turn has stopped or waits, which is written by then, and otherwise why it
// goes on no further here, which is not.
func (r *Runner) turn(ctx context.Context, one *run, row store.SessionRow) error {
	caller, err := r.caller(ctx, row.AccountID, row.KeyID)
	if err != nil {
		return err
	}
	p := &prompt{model: row.ModelAsked, mode: row.Mode}
	err = r.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		v, err := tx.AgentVersion(ctx, row.AccountID, row.AgentID, row.AgentVersion)
		if err != nil {
			return err
		}
		p.instructions, p.model, p.access = v.Instructions, v.Model, v.DriveAccess
		m, _, err := tx.Message(ctx, row.ID, row.Turn.MessageID)
		if err != nil {
			return err
		}
		p.message = m.Text
		if p.steps, err = tx.Steps(ctx, row.ID, row.Turn.Number); err != nil {
			return err
		}
		p.history, p.dropped, err = recall(ctx, tx, row, r.window(p.model, caller.Plan))
		return err
	})
	if err != nil {
		return err
	}
	who := drive.Owner{AccountID: row.AccountID, AgentID: row.AgentID}
	if err := r.learn(ctx, p, who.AccountID, who.AgentID); err != nil {
		return err
	}
	for {
		if n := len(p.steps); n > 0 && len(p.steps[n-1].Results) < len(p.steps[n-1].Calls) {
			waits, err := r.tools(ctx, one, p, who)
			if err != nil || waits {
				return err
			}
		}
		if r.isStopping() {
			return errHandBack
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if len(p.steps) >= row.Limits.MaxSteps {
			return &failure{Failure: stoa.Failure{Code: codeStepLimit, Message: "The turn has used all the steps it may take without coming to an answer. Retry it, ask for less at once, or raise the limit of its steps.", Retryable: true}}
		}
		done, err := r.step(ctx, one, p, int64(len(p.steps)+1))
		if err != nil || done {
			return err
		}
	}
}

// tools answers the open calls of the last step, in order, up to one that asks
// the user. It reports whether the turn waits now.
func (r *Runner) tools(ctx context.Context, one *run, p *prompt, who drive.Owner) (waits bool, err error) {
	step := &p.steps[len(p.steps)-1]
	id := stoa.StepID(step.SessionID, step.Turn, step.Number)
	from := len(step.Results)
	var outs []effect
	for i := from; i < len(step.Calls); i++ {
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		// The reference of a write: the same if the process dies before its result
		// is recorded, so that it is written once.
		out, err := r.use(ctx, p, who, id, stoa.StepID(id, int64(i+1), 0), step.Calls[i])
		if err != nil {
			return false, err
		}
		outs = append(outs, out)
		if out.input != nil {
			break
		}
	}
	err = r.mine(ctx, one, func(ch *change) {
		for i, out := range outs {
			ch.tool(id, step, from+i, out)
		}
	})
	if err != nil {
		return false, err
	}
	for _, out := range outs {
		if out.input != nil {
			return true, nil
		}
		step.Results = append(step.Results, out.result)
	}
	return false, nil
}

// tool records what a tool did.
func (c *change) tool(stepID string, step *stoa.Step, place int, out effect) {
	call := step.Calls[place]
	c.event(EventToolCalled, ToolData{StepID: stepID, CallID: call.ID, Name: call.Name, Arguments: call.Arguments})
	if out.input != nil {
		if !c.row.CancelAt.IsZero() {
			c.finish(stoa.SessionCancelled, "")
			return
		}
		in := *out.input
		in.Step = step.Number
		c.ask(in)
		return
	}
	c.do(func() error {
		return c.tx.InsertStepResult(c.ctx, c.row.ID, step.Turn, step.Number, place, out.result)
	})
	c.sources(stepID, out.sources)
	if out.written != nil {
		c.event(EventDriveWritten, *out.written)
	}
	size := len(out.result.Content)
	c.event(EventToolDone, ToolData{StepID: stepID, CallID: call.ID, Name: call.Name, IsError: &out.result.IsError, Bytes: &size})
}

// sources records what of the drive the model was shown.
func (c *change) sources(stepID string, list []stoa.Source) {
	for i := range list {
		s := &list[i]
		s.Turn = c.row.Turn.Number
		c.event(EventDriveRead, DriveData{StepID: stepID, Path: s.Path, SHA256: s.SHA256, FromLine: s.FromLine, ToLine: s.ToLine, Via: s.Via})
	}
	c.do(func() error { return c.tx.InsertSources(c.ctx, c.row.ID, list) })
}
