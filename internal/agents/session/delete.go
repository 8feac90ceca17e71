package session

import (
	"context"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Delete removes a session with its messages and its log; its receipts stay. A turn that has
// not ended is cancelled first: after [cancelWait] Delete no longer waits for its worker. A
// call that a server may be carrying out gets the outcome unknown, which logs and webhooks
// report. A missing session, or one of another agent, is [stoa.CodeSessionNotFound].
func (s *Sessions) Delete(ctx context.Context, c stoa.Caller, agentID, id string) error {
	row, err := s.Cancel(ctx, c, agentID, id)
	if err != nil {
		return err
	}
	return s.remove(ctx, row.AccountID, id, func(*store.SessionRow) bool { return true })
}

// remove removes a session as long as may is true of its row. A missing session is not an error,
// because another request may have removed it.
func (s *Sessions) remove(ctx context.Context, accountID, id string, may func(*store.SessionRow) bool) (err error) {
	for done := false; !done && err == nil; { // ends, because each pass deletes removeEvents
		err = s.store.Write(ctx, func(tx *store.Tx) error {
			row, err := tx.Work().LockSession(ctx, accountID, "", id)
			if err != nil {
				return err
			}
			if done = !may(&row); done {
				return nil
			}
			if err := s.endNow(ctx, tx, &row, ""); err != nil {
				return err
			}
			tx.AfterCommit(func() {
				s.stop(id, ErrLost)
				s.hub.invalidate(id)
				s.store.Hint(cluster.HintSession, id, "")
			})
			done, err = removeSession(ctx, tx, accountID, id)
			return err
		})
	}
	if stoa.CodeOf(err) == stoa.CodeSessionNotFound { // because another request deleted it meanwhile
		return nil
	}
	return err
}

// RemoveEnded removes the sessions of all accounts that have ended and not changed since a
// time, and returns their number.
func (s *Sessions) RemoveEnded(ctx context.Context, before time.Time) (n int64, err error) {
	ended := func(row *store.SessionRow) bool {
		return row.Status.Ended() && row.UpdatedAt.Before(before)
	}
	for after, more := "", true; more; {
		refs, err := store.Read(ctx, s.store, func(tx *store.Tx) ([]store.Ref, error) { return tx.EndedSessions(ctx, before, after, endedPage) })
		if err != nil {
			return n, err
		}
		more = len(refs) == endedPage
		for _, ref := range refs {
			if err := s.remove(ctx, ref.AccountID, ref.ID, ended); err != nil {
				return n, err
			}
			n++
			after = ref.ID
		}
	}
	return n, nil
}

// endedPage is the number of sessions that RemoveEnded reads in one query.
const endedPage = 100

func (s *Sessions) endNow(ctx context.Context, tx *store.Tx, row *store.SessionRow, reason string) error {
	if row.Status.Ended() {
		return nil
	}
	t := s.transition(ctx, tx, row)
	t.finish(stoa.SessionCancelled, reason)
	return t.Save()
}

// maxWaitingEnded limits the sessions waiting for input that one transaction cancels, because
// their number per agent is unlimited.
const maxWaitingEnded = 50

// DeleteAgent removes an agent: once tx has committed, the agent cannot be found, its tasks
// have stopped and its turns are cancelled. [Sessions.RemoveHidden] removes its rows, and
// cancels its sessions that wait for input beyond the first [maxWaitingEnded]. A missing
// agent is [stoa.CodeAgentNotFound].
func (s *Sessions) DeleteAgent(ctx context.Context, tx *store.Tx, accountID, agentID string) error {
	if err := tx.Setup().HideAgent(ctx, accountID, agentID); err != nil {
		return err
	}
	if err := tx.Work().HideTasksOf(ctx, accountID, agentID); err != nil {
		return err
	}
	if err := tx.Work().DeleteHooksOf(ctx, accountID, agentID); err != nil {
		return err
	}
	tx.AfterCommit(s.runChanged)
	ids, err := tx.Work().ActiveSessions(ctx, accountID, agentID)
	if err != nil {
		return err
	}
	waiting, err := tx.Work().WaitingSessions(ctx, accountID, agentID, maxWaitingEnded)
	if err != nil {
		return err
	}
	for _, id := range append(ids, waiting...) {
		row, err := tx.Work().LockSession(ctx, accountID, agentID, id)
		if err != nil {
			return err
		}
		t := s.transition(ctx, tx, &row)
		if t.cancel(reasonDeleted) {
			if err := t.Save(); err != nil {
				return err
			}
		}
	}
	tx.AfterCommit(s.alarm.Wake)
	return nil
}

// maxSpaceAgents limits the agents that one transaction deletes with their space.
const maxSpaceAgents = 100

// DeleteSpace removes a space and, with force, its agents; without force, a space that has
// agents is [stoa.CodeSpaceNotEmpty]. A missing space is [stoa.CodeSpaceNotFound]. The
// account's default space is created again on its next use.
func (s *Sessions) DeleteSpace(ctx context.Context, tx *store.Tx, accountID, spaceID string, force bool) error {
	agents, err := tx.Setup().AgentsOf(ctx, accountID, spaceID, maxSpaceAgents+1)
	if err != nil {
		return err
	}
	connected, err := tx.Setup().HasConnections(ctx, accountID, spaceID)
	if err != nil {
		return err
	}
	if connected && !force {
		return stoa.Errorf(stoa.CodeSpaceNotEmpty, "The space has connections. Delete them first, or delete the space with force=true.")
	}
	if len(agents) > 0 && !force {
		return stoa.Errorf(stoa.CodeSpaceNotEmpty, "The space has agents. Delete them first, or delete the space with force=true.")
	}
	if len(agents) > maxSpaceAgents {
		return stoa.Errorf(stoa.CodeSpaceNotEmpty, "The space has more than %d agents, which is the maximum that can be deleted with it. Delete some of them first.", maxSpaceAgents)
	}
	for _, id := range agents {
		err := s.DeleteAgent(ctx, tx, accountID, id)
		if err != nil && stoa.CodeOf(err) != stoa.CodeAgentNotFound { // because another request deleted it meanwhile
			return err
		}
	}
	return tx.Setup().DeleteSpace(ctx, accountID, spaceID)
}

// removeEvents is the maximum number of events that one transaction deletes, so that a long
// log does not block other writers.
const removeEvents = 5000

// removeRows is the maximum number of rows of test sets, or of memories, that one transaction deletes.
const removeRows = 500

// removeSession removes a session that does not run, or a part of its log. It reports whether
// the whole session is gone.
func removeSession(ctx context.Context, tx *store.Tx, accountID, id string) (whole bool, err error) {
	n, err := tx.PurgeEvents(ctx, id, tx.Now.Add(time.Hour), removeEvents)
	if err != nil || n == removeEvents {
		return false, err
	}
	return true, tx.Work().RemoveSession(ctx, accountID, id)
}

// RemoveHidden removes rows of deleted agents and reports whether more remain. Each call removes
// a bounded number, so that it does not block other writers.
func (s *Sessions) RemoveHidden(ctx context.Context) (more bool, err error) {
	const batch = 20
	err = s.store.Write(ctx, func(tx *store.Tx) error {
		more = false
		agents, err := tx.Setup().HiddenAgents(ctx, batch)
		if err != nil {
			return err
		}
		budget := batch
		for _, a := range agents {
			ids, err := tx.Work().SessionIDs(ctx, a.AccountID, a.ID, budget)
			if err != nil {
				return err
			}
			for _, id := range ids {
				row, err := tx.Work().LockSession(ctx, a.AccountID, a.ID, id)
				if err != nil {
					return err
				}
				if row.Status == stoa.SessionRunning { // because its worker is about to write its end
					continue
				}
				if err := s.endNow(ctx, tx, &row, reasonDeleted); err != nil {
					return err
				}
				if whole, err := removeSession(ctx, tx, a.AccountID, id); err != nil {
					return err
				} else if !whole {
					more = true
					return nil
				}
				tx.AfterCommit(func() {
					s.hub.invalidate(id)
					s.store.Hint(cluster.HintSession, id, "")
				})
				budget--
				more = true
			}
			if budget <= 0 {
				return nil
			}
			if n, err := tx.Work().RemoveTests(ctx, a.AccountID, a.ID, removeRows); err != nil {
				return err
			} else if n > 0 {
				more = true
				return nil
			}
			if n, err := tx.Work().RemoveMemories(ctx, a.AccountID, a.ID, removeRows); err != nil {
				return err
			} else if n > 0 {
				more = true
				return nil
			}
			removed, err := tx.Setup().RemoveAgent(ctx, a.AccountID, a.ID)
			if err != nil {
				return err
			}
			more = more || removed
		}
		return nil
	})
	return more, err
}
