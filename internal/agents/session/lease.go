package session

import (
	"context"
	"errors"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Why a turn in this process is stopped from outside: causes of its context.
var (
	// ErrCancelled means that a caller cancelled the turn.
	ErrCancelled = errors.New("session: the turn was cancelled")

	// ErrLost means that the lease is gone and nothing may be written. It has a code so that
	// the gateway does not mistake it for a transient database failure.
	ErrLost error = stoa.Errorf(stoa.CodeInternal, "The lease of this turn is lost.")
)

// A Lease is a worker's right to write to a running session. It ends when the row names
// another owner or fence, or another status.
type Lease struct {
	AccountID, SessionID string
	Owner                string // worker
	Fence                int64  // counts the claims of the session
}

// IfOwned changes a session in a separate transaction if the lease holds; otherwise it fails
// with [ErrLost]. fn may run more than once.
func (s *Sessions) IfOwned(ctx context.Context, l Lease, fn func(t *Transition)) error {
	return s.store.Write(ctx, func(tx *store.Tx) error {
		t, err := s.LockOwned(ctx, tx, l)
		if err != nil {
			return err
		}
		fn(t)
		return t.Save()
	})
}

// LockOwned locks a session's row and returns a transition of it, or [ErrLost] if the lease
// does not hold. The caller must finish with [Transition.Save].
func (s *Sessions) LockOwned(ctx context.Context, tx *store.Tx, l Lease) (*Transition, error) {
	row, err := tx.Work().LockSession(ctx, l.AccountID, "", l.SessionID)
	if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
		return nil, ErrLost
	}
	if err != nil {
		return nil, err
	}
	if row.Status != stoa.SessionRunning || row.Owner != l.Owner || row.Fence != l.Fence {
		return nil, ErrLost
	}
	return s.transition(ctx, tx, &row), nil
}

// Claim assigns queued sessions to a worker, in the given order, and returns the rows of
// those that are still queued.
func (s *Sessions) Claim(ctx context.Context, tx *store.Tx, refs []store.Ref, owner string) (claimed []store.SessionRow, err error) {
	var rows []*store.SessionRow
	err = s.ForEach(ctx, tx, refs, func(t *Transition) (bool, error) {
		if t.Row.Status != stoa.SessionQueued { // because it was cancelled before this lock
			return false, nil
		}
		t.claim(owner)
		rows = append(rows, t.Row)
		return true, nil
	})
	for _, row := range rows {
		claimed = append(claimed, *row)
	}
	return claimed, err
}

// ForEach locks sessions one after the other and calls fn with each, all in one transaction.
// fn reports whether it changed anything. Missing sessions are skipped.
func (s *Sessions) ForEach(ctx context.Context, tx *store.Tx, refs []store.Ref, fn func(t *Transition) (changed bool, err error)) error {
	for _, ref := range refs {
		row, err := tx.Work().LockSession(ctx, ref.AccountID, "", ref.ID)
		if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
			continue
		}
		if err != nil {
			return err
		}
		t := s.transition(ctx, tx, &row)
		changed, err := fn(t)
		if err == nil && changed {
			err = t.Save()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
