package session

import (
	"context"
	"slices"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Rate sets the rating of an answer by one side, in place of an earlier one; r has what the side says. It fails with [stoa.CodeNotFound]
// unless the message is an answer of the agent in a turn that has ended. A session of a deleted agent is not found.
func (s *Sessions) Rate(ctx context.Context, tx *store.Tx, accountID, agentID, id, messageID string, r stoa.Feedback) (stoa.Feedback, error) {
	row, old, err := rated(ctx, tx, accountID, agentID, id, messageID, r.By)
	if err != nil {
		return r, err
	}
	r.AccountID, r.AgentID, r.SessionID, r.MessageID, r.UpdatedAt = accountID, row.AgentID, id, messageID, tx.Now
	if old.ID != "" {
		if old.Rating == r.Rating && old.Comment == r.Comment {
			return old, nil
		}
		r.ID, r.Turn, r.CreatedAt = old.ID, old.Turn, old.CreatedAt
	} else {
		r.ID, r.Turn, r.CreatedAt = stoa.NewID("fbk"), old.Turn, tx.Now
	}
	if err := tx.Work().SetFeedback(ctx, r); err != nil {
		return r, err
	}
	return r, webhook.MessageRated(ctx, tx, row.Session, r, r.Rating)
}

// Unrate removes the rating of an answer by one side. It does nothing if there is none, and fails like [Sessions.Rate].
func (s *Sessions) Unrate(ctx context.Context, tx *store.Tx, accountID, agentID, id, messageID, by string) error {
	row, old, err := rated(ctx, tx, accountID, agentID, id, messageID, by)
	if err != nil || old.ID == "" {
		return err
	}
	if err := tx.Work().RemoveFeedback(ctx, id, messageID, by); err != nil {
		return err
	}
	return webhook.MessageRated(ctx, tx, row.Session, old, "")
}

// rated returns the session of an answer that can be rated, locked, and its rating by one side, which has only the turn if there is none.
func rated(ctx context.Context, tx *store.Tx, accountID, agentID, id, messageID, by string) (row store.SessionRow, old stoa.Feedback, err error) {
	if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
		return row, old, err
	}
	if row, err = tx.Work().LockSession(ctx, accountID, agentID, id); err != nil {
		return row, old, err
	}
	m, found, err := tx.Work().Message(ctx, id, messageID)
	if err != nil {
		return row, old, err
	}
	ended := false
	if found && m.Kind == stoa.KindReply && m.Turn > 0 {
		turns, _, err := tx.Work().Turns(ctx, id, m.Turn-1, 1, false)
		if err != nil {
			return row, old, err
		}
		ended = len(turns) == 1 && slices.Contains(stoa.EndedStatuses, turns[0].Status)
	}
	if !ended {
		return row, old, stoa.Errorf(stoa.CodeNotFound, "The session has no such answer in a turn that has ended. Only answers of the agent can be rated.")
	}
	was, err := tx.Work().FeedbackOf(ctx, id, messageID, by)
	if old.Turn = m.Turn; was != nil {
		old = *was
	}
	return row, old, err
}

// Feedback returns the ratings of the messages of turns of a session.
func (s *Sessions) Feedback(ctx context.Context, accountID, agentID, id string, first, last int64) (list []stoa.Feedback, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) (err error) {
		list, err = tx.Work().SessionFeedback(ctx, id, first, last)
		return err
	})
	return list, err
}

// ListFeedback lists the ratings of an account; see [store.Work.Feedback].
func (s *Sessions) ListFeedback(ctx context.Context, accountID string, f store.FeedbackFilter, p store.Page) (list []store.RatedReply, next store.Cursor, err error) {
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		if f.AgentID != "" {
			if _, err := tx.Setup().Agent(ctx, accountID, f.AgentID); err != nil {
				return err
			}
		}
		list, next, err = tx.Work().Feedback(ctx, accountID, f, p)
		return err
	})
	return list, next, err
}
