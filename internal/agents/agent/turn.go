package agent

import (
	"cmp"
	"context"
	"slices"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A turn is the worker's state of a turn that it runs.
type turn struct {
	run    *run
	prompt *prompt
	window int64 // maximum input, in tokens
	// compactAt is the part of the window, in percent, above which the session is summarized;
	// 0 means never. compacted reports that this was tried.
	compactAt int
	compacted bool
	drive     drive.Owner
	shown     stoa.DriveAccess // access to the drive if an embed shows the session
	row       store.SessionRow
	caller    *stoa.Caller // nil means to be read again
	calls     []stoa.ExternalCall
	cost      stoa.Credits // cost of the newest step; 0 if another process made it
	own       tool.Credentials
	embed     string // see [stoa.Charge]

	withheld     []stoa.Withheld // tools that the turn does not offer
	tellWithheld bool            // withheld is not recorded yet
}

// turn runs a claimed session's turn from its current state. It returns nil if the turn has
// stopped or waits, which is then recorded. Otherwise it returns why the turn does not
// continue here, which is not recorded yet.
func (w *Worker) turn(ctx context.Context, r *run, row store.SessionRow) error {
	t, err := w.load(ctx, r, row)
	if err != nil {
		return err
	}
	for {
		if t.prompt.openCalls() {
			waits, err := w.tools(ctx, t)
			if err != nil || waits {
				return err
			}
			t.caller = nil
		}
		if w.isStopping() {
			return errHandBack
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if len(t.prompt.steps) >= row.Limits.MaxSteps {
			return limitFailure(session.CodeStepLimit)
		}
		if err := w.compact(ctx, t); err != nil {
			return err
		}
		done, err := w.step(ctx, t)
		if err != nil || done {
			return err
		}
		t.caller = nil
	}
}

// load reads the data of a turn: the agent as it was frozen, the message, the recorded steps,
// the history that fits, and the drive.
func (w *Worker) load(ctx context.Context, r *run, row store.SessionRow) (*turn, error) {
	t, message, attached, err := w.loadRows(ctx, row)
	if err != nil {
		return t, err
	}
	t.run = r
	p := t.prompt
	p.from, p.skip = row.ContextFrom, row.ContextSteps
	err = w.attach(ctx, t, message, attached)
	if err == nil {
		err = w.readDrive(ctx, p, t.drive, t.window)
	}
	if err == nil {
		t.withholdSkills()
		err = w.remember(ctx, t)
	}
	if err == nil {
		err = w.store.Read(ctx, func(tx *store.Tx) error {
			p.past, p.from, p.skip = nil, row.ContextFrom, row.ContextSteps
			return p.recall(ctx, tx, row, t.window)
		})
	}
	return t, err
}

// loadRows reads what load reads from the rows of the session, except its history. It also returns the message of the turn, and the form
// in which the model receives its files.
func (w *Worker) loadRows(ctx context.Context, row store.SessionRow) (t *turn, message store.MessageRow, attached string, err error) {
	p := &prompt{model: row.ModelAsked, mode: row.Mode, turn: row.Turn.Number, version: row.AgentVersion, maxOutput: row.Turn.MaxOutput}
	t = &turn{prompt: p, drive: drive.Owner{AccountID: row.AccountID, AgentID: row.AgentID}, row: row}
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		caller, err := w.caller(ctx, tx, &row)
		if err != nil {
			return err
		}
		t.caller = &caller
		if row.Trigger.Type == "embed" {
			e, _, err := tx.Setup().EmbedByID(ctx, row.Trigger.ID)
			if err != nil {
				return err
			}
			t.embed = cmp.Or(e.TagID, row.Trigger.ID)
		}
		if row.Trigger.Type == stoa.TriggerHook {
			t.embed = row.Trigger.ID
		}
		c, err := tx.Work().SessionConfig(ctx, row)
		if err != nil {
			return err
		}
		p.instructions, p.model, p.access = c.Instructions, c.Model, accessWithout(row.Withheld, c.DriveAccess)
		p.tables = c.Tables && w.cfg.Tables != nil
		p.settings = c.CallSettings()
		if of, ok := row.MemoryOwner(); ok && p.settings.Memory == stoa.MemoryUser {
			p.owner = &of
		}
		if p.reply, err = newReply(p.settings.ReplySchema); err != nil {
			return err
		}
		t.shown = c.VisitorDrive.Access(p.access)
		t.window, t.compactAt = w.window(p.model, caller.Plan), w.cfg.CompactAt
		if c.CompactAt != 0 {
			t.compactAt = max(c.CompactAt, 0)
		}
		if row.Steps > 0 {
			views, err := tx.Work().SessionViews(ctx, row.AccountID, row.ID)
			if err == nil {
				p.view, err = readView(views.Drive)
			}
			if err == nil && p.view != nil {
				p.memory = p.view.Memory
			}
			if err == nil {
				p.told, err = readToolView(views)
			}
			if err != nil {
				return err
			}
		}
		if row.Compacted > 0 {
			if p.newest, p.summary, err = tx.Work().Compactions(ctx, row.ID); err != nil {
				return err
			}
		}
		if err := t.limitDrive(ctx, tx); err != nil {
			return err
		}
		if err := w.offer(ctx, tx, t, c.Tools); err != nil {
			return err
		}
		if message, _, err = tx.Work().Message(ctx, row.ID, row.Turn.MessageID); err != nil {
			return err
		}
		if p.attachments, err = tx.Work().Attachments(ctx, row.ID); err != nil {
			return err
		}
		if len(message.Attachments) > 0 {
			if attached, err = tx.Work().Attached(ctx, row.ID, message.ID); err != nil {
				return err
			}
		}
		p.sees = w.sees(p.model, caller.Plan)
		if row.Steps > 0 {
			if p.steps, err = tx.Work().Steps(ctx, row.ID, row.Turn.Number); err != nil {
				return err
			}
		}
		if row.ToolCalls > 0 && p.openCalls() {
			if t.calls, err = tx.Work().StepCalls(ctx, row.ID, row.Turn.Number, t.last().Number); err != nil {
				return err
			}
			rules, err := tx.Work().SessionRules(ctx, row.AccountID, row.ID)
			if err != nil {
				return err
			}
			session.Remember(t.calls, rules)
		}
		if row.ToolCalls > 0 {
			if p.cut, err = tx.Setup().HasLongResult(ctx, row.ID, w.cfg.ToolOutput); err != nil {
				return err
			}
		}
		if row.ToolCalls > 0 && row.Turn.Number > 1 {
			if p.actions, err = tx.Work().Actions(ctx, row.ID, row.Turn.Number, maxRead); err != nil {
				return err
			}
			slices.Reverse(p.actions)
		}
		return nil
	})
	return t, message, attached, err
}

// limitDrive restricts the turn's access to the drive, because the session may have become a
// visitor's.
func (t *turn) limitDrive(ctx context.Context, tx *store.Tx) error {
	p := t.prompt
	if p.access == t.shown {
		return nil
	}
	visitor, err := session.IsVisitors(ctx, tx, t.row.Session)
	if err != nil || !visitor {
		return err
	}
	if p.access = t.shown; p.access == stoa.DriveNone {
		p.knowledge = drive.Knowledge{}
	}
	if p.access != stoa.DriveReadWrite {
		p.external = slices.DeleteFunc(p.external, func(o stoa.OfferedTool) bool { return o.Type == stoa.ToolDrive && o.Name == toolWrite })
	}
	return nil
}

func accessWithout(withheld []stoa.Withheld, access stoa.DriveAccess) stoa.DriveAccess {
	if access == stoa.DriveReadWrite && withholds(withheld, toolWrite) {
		return stoa.DriveReadOnly
	}
	return access
}

func withholds(list []stoa.Withheld, tool string) bool {
	return slices.ContainsFunc(list, func(w stoa.Withheld) bool { return w.Tool == tool })
}

// offer determines which external tools the turn currently offers and which it withholds.
func (w *Worker) offer(ctx context.Context, tx *store.Tx, t *turn, tools []stoa.AgentTool) error {
	if len(tools) == 0 && len(t.row.Withheld) == 0 {
		return nil
	}
	own, err := session.Credentials(ctx, tx, t.row.Session, tools)
	if err != nil {
		return err
	}
	t.own = own
	who, err := session.Audience(ctx, tx, t.row.Session, own)
	if err != nil {
		return err
	}
	who.Search = t.prompt.settings.ToolSearch
	offers, withheld := offered(tools, t.row.Withheld, who.Visitor)
	if t.prompt.access == stoa.DriveReadWrite {
		offers = append(offers, guarded(tools, writeTool)...)
	}
	if t.prompt.owner != nil && !withholds(t.row.Withheld, toolMemoryWrite) {
		offers = append(offers, guarded(tools, memoryWriteTool)...)
	}
	more, not, err := tool.Offer(ctx, tx, who, tools, w.cfg.Tools.Vault)
	t.prompt.external, t.withheld = append(offers, more...), append(withheld, not...)
	t.prompt.withheld = t.withheld
	t.prompt.search = t.prompt.searches()
	t.tellWithheld = len(t.withheld) > 0 || len(t.row.Withheld) > 0
	return err
}

func (p *prompt) openCalls() bool {
	n := len(p.steps)
	if n == 0 {
		return false
	}
	_, open := p.steps[n-1].Open()
	return open
}

func (w *Worker) useTraced(ctx context.Context, t *turn, step, ref string, place int) (session.ToolEffect, error) {
	c := t.last().Calls[place]
	ctx, span := w.cfg.Tracer.Tool(ctx, c.Name)
	out, err := w.use(ctx, t.prompt, t.drive, step, ref, c, t.planned(place) != nil)
	ended := func(failed bool) {
		w.cfg.Metrics.Tool(c.Name, failed)
		code := stoa.Code("")
		if failed {
			code = toolError
		}
		span.End(code)
	}
	if err == nil && out.Memory != nil {
		out.Ended = ended
		return out, nil
	}
	ended(err != nil || out.Result.IsError)
	return out, err
}

// toolError is the code of a failed span of a tool call. Only the model receives the details.
const toolError stoa.Code = "tool_error"
