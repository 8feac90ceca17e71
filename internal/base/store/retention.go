package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
)

// AccountsWithReceipts lists accounts with charges made before that time, by id and after
// the given one.
func (tx *Tx) AccountsWithReceipts(ctx context.Context, before time.Time, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM accounts a WHERE id > $1 AND EXISTS (SELECT 1 FROM charges c WHERE c.account_id = a.id AND c.created_at < $2)
		ORDER BY id LIMIT $3`, after, db.Micros(before), limit)
}

// SessionsWithEvents lists sessions that have stopped, have not changed since that
// time and still have events, by id and after the given one.
func (tx *Tx) SessionsWithEvents(ctx context.Context, before time.Time, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM sessions s WHERE id > $1 AND updated_at < $2 AND status NOT IN `+busyStatuses+`
		AND EXISTS (SELECT 1 FROM session_events e WHERE e.session_id = s.id) ORDER BY id LIMIT $3`, after, db.Micros(before), limit)
}

// EndedSessions lists sessions that have ended and not changed since that time, by id and
// after the given one.
func (tx *Tx) EndedSessions(ctx context.Context, before time.Time, after string, limit int) ([]Ref, error) {
	return list(ctx, tx, scanRef, `SELECT account_id, id FROM sessions WHERE id > $1 AND updated_at < $2 AND status IN `+endedStatuses+` ORDER BY id LIMIT $3`,
		after, db.Micros(before), limit)
}

// PurgeEvents deletes up to limit events of a session and returns their number. It deletes the oldest
// first, so that the rest is without gaps, and nothing if the session runs or has changed since that
// time.
func (tx *Tx) PurgeEvents(ctx context.Context, sessionID string, before time.Time, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM session_events WHERE session_id = $1 AND seq IN (SELECT seq FROM session_events WHERE session_id = $1 ORDER BY seq LIMIT $3)
		AND EXISTS (SELECT 1 FROM sessions WHERE id = $1 AND updated_at < $2 AND status NOT IN `+busyStatuses+`)`,
		sessionID, db.Micros(before), limit)
}
