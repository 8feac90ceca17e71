package agent

import (
	"cmp"
	"context"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/gateway"
)

// CheckCredits reports whether the credits cover the first step of such a session: it creates
// the hold that the step will need, and releases it. It fails with [stoa.CodeAgentNotFound],
// [stoa.CodeQuota], [stoa.CodeKeyBudget] or [stoa.CodeBudget], or with [stoa.CodeMissingParameter]
// if the key requires an end user. The session's turn reports all other faults.
func (w *Worker) CheckCredits(ctx context.Context, c stoa.Caller, req session.StartRequest) error {
	req.Mode = cmp.Or(req.Mode, stoa.ModeChat)
	var agent stoa.Agent
	var external []stoa.OfferedTool
	var notOffered []stoa.Withheld
	var access stoa.DriveAccess
	err := w.store.Read(ctx, func(tx *store.Tx) (err error) {
		agent, err = tx.Setup().Agent(ctx, c.Account.ID, req.AgentID)
		if err == nil && req.Draft != nil {
			err = req.Draft(&agent)
		}
		access = agent.DriveAccess
		if err != nil || len(agent.Tools) == 0 {
			return err
		}
		withheld := session.WithheldTools(agent, req)
		access = accessWithout(withheld, access)
		external, notOffered = offered(agent.Tools, withheld, false)
		more, _, err := tool.Offer(ctx, tx, session.AudienceOf(agent, req), agent.Tools, nil)
		external = append(external, more...)
		if access == stoa.DriveReadWrite {
			external = append(external, guarded(agent.Tools, writeTool)...)
		}
		return err
	})
	if err != nil {
		return err
	}
	p := prompt{
		instructions: agent.Instructions, model: agent.Model, mode: req.Mode, access: access,
		message: stoa.TextMessage(stoa.RoleUser, req.Message), external: external, withheld: notOffered, settings: agent.CallSettings(),
	}
	if of, ok := req.MemoryOwner(agent); ok {
		if p.owner = &of; p.canKeep() {
			p.external = append(p.external, guarded(agent.Tools, memoryWriteTool)...)
		}
	}
	p.search = p.searches()
	if err := w.readDrive(ctx, &p, drive.Owner{AccountID: c.Account.ID, AgentID: agent.ID}, w.window(agent.Model, c.Plan)); err != nil {
		return err
	}
	if err := w.remember(ctx, &turn{prompt: &p}); err != nil {
		return err
	}
	stream, err := w.cfg.Gateway.Respond(ctx, c, gateway.Request{
		ID: "ses", AgentID: agent.ID, EndUser: req.ExternalUserID, Model: agent.Model, Call: w.call(&p, c.Plan),
		MaxCredits: w.sessions.TurnLimits(req.Limits, agent.Limits).MaxCredits,
	})
	if err != nil {
		if code := stoa.CodeOf(err); code == stoa.CodeQuota || code == stoa.CodeKeyBudget || code == stoa.CodeBudget || code == stoa.CodeMissingParameter {
			return err
		}
		return nil
	}
	stream.Close()
	return nil
}
