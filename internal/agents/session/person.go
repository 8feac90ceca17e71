package session

import (
	"context"
	"time"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/store"
)

// personPause is the time within which a visitor's further requests for a person are not announced.
const personPause = 10 * time.Minute

// RequestPerson records that the visitor of a session wants a person, announces it to webhooks, and returns the time of
// the latest announcement. Within [personPause] after one it does nothing.
func (s *Sessions) RequestPerson(ctx context.Context, tx *store.Tx, accountID, agentID, id string) (at time.Time, err error) {
	row, err := tx.Work().LockSession(ctx, accountID, agentID, id)
	if err != nil {
		return at, err
	}
	if at, err = tx.Work().PersonRequestedAt(ctx, accountID, id); err != nil || tx.Now.Sub(at) < personPause {
		return at, err
	}
	if err := tx.Work().SetPersonRequested(ctx, accountID, id); err != nil {
		return at, err
	}
	t := s.transition(ctx, tx, &row)
	t.event(EventPersonRequested, PersonData{Turn: row.Turn.Number})
	if err := t.Save(); err != nil {
		return at, err
	}
	return tx.Now, webhook.PersonWanted(ctx, tx, row.Session)
}
