package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/stoa"
)

// countedSessions is the maximum number of sessions that [Tx.CountActive] reads, since it runs for each
// scrape of the metrics.
const countedSessions = 100_000

// CountActive counts the unfinished sessions of all accounts by status, up to 100,000. It uses the index
// of due times, because that contains every such session.
func (tx *Tx) CountActive(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, status := range stoa.ActiveStatuses {
		counts[string(status)] = 0
	}
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var status string
		var n int64
		if err := rows.Scan(&status, &n); err != nil {
			return err
		}
		if _, active := counts[status]; active {
			counts[status] = n
		}
		return nil
	}, `SELECT status, COUNT(*) FROM (SELECT status FROM sessions WHERE due_at > 0 LIMIT $1) active GROUP BY status`, countedSessions)
	return counts, err
}
