package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/db"
)

// PublishCounts stores the counts of a node, and removes those of dead nodes.
func (tx Operations) PublishCounts(ctx context.Context, nodeID, counts string) error {
	if err := tx.Later(ctx, `DELETE FROM node_counts WHERE node_id NOT IN (SELECT id FROM nodes WHERE alive = 1)`); err != nil {
		return err
	}
	return tx.Later(ctx, `INSERT INTO node_counts (node_id, counts, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET counts = excluded.counts, updated_at = excluded.updated_at`, nodeID, counts, db.Micros(tx.Now))
}

// PeerCounts returns the published counts of the other live nodes, 1,000 at most, with ""
// for nodes without counts.
func (tx Operations) PeerCounts(ctx context.Context, nodeID string) (map[string]string, error) {
	all := map[string]string{}
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var node, counts string
		err := rows.Scan(&node, &counts)
		all[node] = counts
		return err
	}, `SELECT n.id, COALESCE(c.counts, '') FROM nodes n LEFT JOIN node_counts c ON c.node_id = n.id WHERE n.alive = 1 AND n.id <> $1 ORDER BY n.id LIMIT $2`, nodeID, maxNodes)
	return all, err
}
