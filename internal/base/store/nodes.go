package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/db"
)

// A Node is one life of one process. Once it is dead it never lives again.
type Node struct {
	ID         string
	Version    string // version of the program
	ConfigHash string // see [cluster.NodeInfo]
	Address    string // listening address
	StartedAt  time.Time
	SeenAt     time.Time // time of the newest renewal, by the clock of the database
	Calls      int64     // model calls in progress at that time
	Sessions   int64     // running sessions
	// ConfigVersion is the version of the managed settings that it uses. ConfigProblem is the
	// reason why it does not use the newest one; empty if it does.
	ConfigVersion int64
	ConfigProblem string
}

// maxNodes is the maximum length of a list of nodes. There are far fewer, because each uses a pool of
// connections to the same PostgreSQL.
const maxNodes = 1000

// Nodes returns the living nodes, the oldest first, at most 1,000.
func (tx Operations) Nodes(ctx context.Context) ([]Node, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (n Node, err error) {
		var started, seen int64
		err = rows.Scan(&n.ID, &n.Version, &n.ConfigHash, &n.Address, &started, &seen, &n.Calls, &n.ConfigVersion, &n.ConfigProblem, &n.Sessions)
		n.StartedAt, n.SeenAt = db.Time(started), db.Time(seen)
		return n, err
	}, `SELECT id, version, config_hash, address, started_at, seen_at, calls, config_version, config_problem,
			(SELECT COUNT(*) FROM sessions s JOIN runners r ON r.id = s.owner WHERE s.status = 'running' AND r.node_id = nodes.id)
		FROM nodes WHERE alive = 1 ORDER BY started_at, id LIMIT $1`, maxNodes)
}

// beginAlone registers this process as the node of a SQLite file. It ends all others, because the
// lock of the directory ensures that there is one at a time.
func (tx Operations) beginAlone(ctx context.Context, id string, info cluster.NodeInfo) error {
	if err := tx.EndNodes(ctx); err != nil {
		return err
	}
	if err := tx.forgetNodes(ctx); err != nil {
		return err
	}
	now := db.Micros(tx.Now)
	_, err := tx.Exec(ctx, `INSERT INTO nodes (id, alive, started_at, seen_at, version, config_hash, address, sums_hours) VALUES ($1, 1, $2, $2, $3, $4, $5, 1)`,
		id, now, info.Version, info.ConfigHash, info.Address)
	return err
}

// EndNodes ends all nodes of a store without a process. It opens no alert, because none was lost.
func (tx Operations) EndNodes(ctx context.Context) error {
	ids, err := tx.texts(ctx, `SELECT id FROM nodes WHERE alive = 1 ORDER BY id LIMIT $1`, maxNodes)
	for _, id := range ids {
		if err == nil {
			err = tx.endNode(ctx, id)
		}
	}
	return err
}

// endNode ends a node and releases its resources: the rest of its leases, the idempotency keys of its
// unfinished requests, its claims, and its sessions, which any worker may then claim. It acquires
// locks in the order node, lease, account, to avoid deadlocks.
func (tx Operations) endNode(ctx context.Context, id string) error {
	if _, err := tx.Exec(ctx, `UPDATE nodes SET alive = 0 WHERE id = $1`, id); err != nil {
		return err
	}
	return tx.giveBack(ctx, id)
}

// endExpired is like [Operations.endNode] for a PostgreSQL node without a renewal for the given time.
// It reports whether it ended the node, and opens its alert. It waits for running transactions of
// that node, so that nothing that a dead node wrote commits afterwards.
func (tx Operations) endExpired(ctx context.Context, id string, after time.Duration) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE nodes SET alive = 0 WHERE id = $1 AND alive = 1 AND seen_at < `+databaseClock+` - $2`, id, after.Microseconds())
	if err != nil || n == 0 {
		return false, err
	}
	if err := tx.raiseNodeLost(ctx, id); err != nil {
		return false, err
	}
	return true, tx.giveBack(ctx, id)
}

func (tx Operations) giveBack(ctx context.Context, id string) error {
	if err := tx.Books().CloseLeases(ctx, id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM budget_holds WHERE node_id = $1`, id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE state = 'running' AND owner = $1 AND ref = ''`, id); err != nil {
		return err
	}
	for _, table := range []string{"payments", "plan_periods"} {
		if _, err := tx.Exec(ctx, `UPDATE `+table+` SET claimed_until = 0, claimed_by = '' WHERE claimed_by = $1 AND claimed_by <> ''`, id); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM runners WHERE node_id = $1`, id)
	return err
}

// forgetNodes removes the dead nodes that no lease names.
func (tx Operations) forgetNodes(ctx context.Context) error {
	_, err := tx.Exec(ctx, `DELETE FROM nodes WHERE alive = 0 AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.node_id = nodes.id)`)
	return err
}

// NodeAlive reports whether a node may still charge its leases. For this process's own node
// that stays true until the commit: see [Store.Fence].
func (tx Operations) NodeAlive(ctx context.Context, id string) (bool, error) {
	var alive bool
	found, err := tx.Get(ctx, `SELECT alive FROM nodes WHERE id = $1`, []any{id}, &alive)
	return found && alive, err
}

// databaseClock is the present in microseconds by the clock of PostgreSQL, because the clocks of
// nodes differ.
const databaseClock = `(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint`

// nodeRows implements [cluster.Rows].
type nodeRows struct{ s *Store }

// EndNode does not wait until the node is alive, as [Store.Write] does.
func (r nodeRows) EndNode(ctx context.Context, id string) error {
	return r.s.db.Write(ctx, func(tx *db.Tx) error { return (&Tx{Tx: tx, s: r.s}).Operations().endNode(ctx, id) })
}

func (r nodeRows) EndExpired(ctx context.Context, id string, after time.Duration) (ended bool, err error) {
	err = r.s.Write(ctx, func(tx *Tx) (err error) {
		ended, err = tx.Operations().endExpired(ctx, id, after)
		return err
	})
	return ended, err
}

func (r nodeRows) ForgetNodes(ctx context.Context) error {
	return r.s.Write(ctx, func(tx *Tx) error { return tx.Operations().forgetNodes(ctx) })
}
