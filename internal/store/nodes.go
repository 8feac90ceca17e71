package store

import (
	"context"

	"stoa/internal/db"
)

// beginNode starts the life of this process. There is one node at a time (the
// lock sees to that), so all others are dead: what they had leased goes back,
// and what they were answering under an idempotency key is free to be tried
// again.
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

// NodeAlive reports whether a node may still charge its leases, and keeps that
// from changing until the commit.
func (tx *Tx) NodeAlive(ctx context.Context, id string) (bool, error) {
	var alive bool
	found, err := tx.Get(ctx, `SELECT alive FROM nodes WHERE id = $1`+tx.ForShare(), []any{id}, &alive)
	return found && alive, err
}
