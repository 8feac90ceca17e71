package store

import (
	"context"

	"stoa/internal/db"
)

// beginNode registers this process as a node. There is one node at a time (the
// lock ensures that), so all others are dead: their leases are closed, and the
// idempotency keys of their unfinished requests are freed.
func (tx *Tx) beginNode(ctx context.Context, id string) error {
	now := db.Micros(tx.Now)
	for _, s := range []struct {
		query string
		args  []any
	}{
		{`UPDATE nodes SET alive = 0 WHERE alive = 1`, nil},
		{`UPDATE accounts SET balance = balance + (SELECT SUM(amount - spent) FROM leases WHERE account_id = accounts.id AND is_open = 1)
			WHERE id IN (SELECT account_id FROM leases WHERE is_open = 1)`, nil},
		{`UPDATE leases SET is_open = 0, closed_at = $1 WHERE is_open = 1`, []any{now}},
		{`DELETE FROM idempotency WHERE state = 'running'`, nil},
		{`DELETE FROM nodes WHERE alive = 0 AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.node_id = nodes.id)`, nil},
		{`INSERT INTO nodes (id, alive, started_at) VALUES ($1, 1, $2)`, []any{id, now}},
	} {
		if _, err := tx.Exec(ctx, s.query, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// NodeAlive reports whether a node may still charge its leases, and locks that
// until the commit.
func (tx *Tx) NodeAlive(ctx context.Context, id string) (bool, error) {
	var alive bool
	found, err := tx.Get(ctx, `SELECT alive FROM nodes WHERE id = $1`+tx.ForShare(), []any{id}, &alive)
	return found && alive, err
}
