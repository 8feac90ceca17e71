package runner

import (
	"context"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// DeleteSession removes a session with its messages and its log; its receipts
// stay. A turn that runs is cancelled first. One that does not exist, or is
// another agent's, is no error.
func (r *Runner) DeleteSession(ctx context.Context, c stoa.Caller, agentID, id string) error {
	s, err := r.Cancel(ctx, c, agentID, id)
	if code := stoa.CodeOf(err); code == stoa.CodeSessionNotFound || code == stoa.CodeAgentNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	err = r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.LockSession(ctx, s.AccountID, s.AgentID, id); err != nil {
			return err
		}
		tx.AfterCommit(func() { r.forget(id) })
		return tx.RemoveSession(ctx, s.AccountID, id)
	})
	if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
		return nil
	}
	return err
}

// forget stops what this process does for a session that is gone.
func (r *Runner) forget(id string) {
	r.stop(id, errLost)
	r.hub.poke(id)
}

// DeleteAgent removes an agent: from this moment nobody finds it, its running
// turns are cancelled, and what hangs on it elsewhere ends (Config.AgentDeleted).
// The sweep removes what it had. One that does not exist is no error.
func (r *Runner) DeleteAgent(ctx context.Context, accountID, agentID string) error {
	return r.cfg.Store.Write(ctx, func(tx *store.Tx) error { return r.DeleteAgentIn(ctx, tx, accountID, agentID) })
}

// DeleteAgentIn is [Runner.DeleteAgent] as part of a transaction.
func (r *Runner) DeleteAgentIn(ctx context.Context, tx *store.Tx, accountID, agentID string) error {
	found, err := tx.HideAgent(ctx, accountID, agentID)
	if err != nil || !found {
		return err
	}
	if err := tx.HideTasksOf(ctx, accountID, agentID); err != nil {
		return err
	}
	tx.AfterCommit(r.tell)
	for _, fn := range r.cfg.AgentDeleted {
		if err := fn(ctx, tx, accountID, agentID); err != nil {
			return err
		}
	}
	ids, err := tx.ActiveSessions(ctx, accountID, agentID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		row, err := tx.LockSession(ctx, accountID, agentID, id)
		if err != nil {
			return err
		}
		ch := r.change(ctx, tx, &row)
		if ch.cancel(reasonDeleted) {
			if err := ch.save(); err != nil {
				return err
			}
		}
	}
	tx.AfterCommit(r.nudge)
	return nil
}

// DeleteSpace removes a space, and with force the agents in it too; without, a
// space that has agents is [stoa.CodeConflict]. One that does not exist is no
// error. The account's default space is made anew when it is next asked for.
func (r *Runner) DeleteSpace(ctx context.Context, accountID, spaceID string, force bool) error {
	return r.cfg.Store.Write(ctx, func(tx *store.Tx) error { return r.DeleteSpaceIn(ctx, tx, accountID, spaceID, force) })
}

// DeleteSpaceIn is [Runner.DeleteSpace] as part of a transaction.
func (r *Runner) DeleteSpaceIn(ctx context.Context, tx *store.Tx, accountID, spaceID string, force bool) error {
	agents, err := tx.AgentsOf(ctx, accountID, spaceID)
	if err != nil {
		return err
	}
	if len(agents) > 0 && !force {
		return stoa.Errorf(stoa.CodeSpaceNotEmpty, "The space has %d agents. Delete them first, or delete the space with force=true.", len(agents))
	}
	for _, id := range agents {
		if err := r.DeleteAgentIn(ctx, tx, accountID, id); err != nil {
			return err
		}
	}
	return tx.DeleteSpace(ctx, accountID, spaceID)
}

// sweepHidden removes rows of deleted agents, a bounded number at a time, and
// reports whether there may be more to do at once.
func (r *Runner) sweepHidden(ctx context.Context) (more bool, err error) {
	const batch = 20
	err = r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		more = false
		agents, err := tx.HiddenAgents(ctx, batch)
		if err != nil {
			return err
		}
		budget := batch
		for _, a := range agents {
			ids, err := tx.SessionIDs(ctx, a.AccountID, a.ID, budget)
			if err != nil {
				return err
			}
			for _, id := range ids {
				row, err := tx.LockSession(ctx, a.AccountID, a.ID, id)
				if err != nil {
					return err
				}
				if row.Status == stoa.SessionRunning { // its worker is about to write its end
					continue
				}
				if err := tx.RemoveSession(ctx, a.AccountID, id); err != nil {
					return err
				}
				tx.AfterCommit(func() { r.hub.poke(id) })
				budget--
				more = true
			}
			if budget <= 0 {
				return nil
			}
			removed, err := tx.RemoveAgent(ctx, a.AccountID, a.ID)
			if err != nil {
				return err
			}
			more = more || removed
		}
		return nil
	})
	return more, err
}
