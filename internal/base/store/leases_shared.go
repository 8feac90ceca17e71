package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// LeaseMore moves credits of an account's balance into the node's lease: max(need,
// min(chunk, balance/3)), or the whole balance if it is smaller. It returns the lease and
// the rest of the balance. Other nodes' leases stay unchanged, because their holds are only in the
// memory of those nodes. The transaction begins with a check that the node is alive; see [Store.Fence].
//
// It uses several statements, because each reads the data committed before it began. It acquires
// locks in the order node, lease, account, to avoid deadlocks.
func (tx Books) LeaseMore(ctx context.Context, accountID, nodeID string, need, chunk stoa.Credits) (l Lease, left stoa.Credits, err error) {
	l = Lease{AccountID: accountID, NodeID: nodeID}
	found, err := tx.Get(ctx, `SELECT id, amount, spent FROM leases WHERE account_id = $1 AND node_id = $2 AND is_open = 1`+tx.ForUpdate(),
		[]any{accountID, nodeID}, &l.ID, &l.Amount, &l.Spent)
	if err != nil {
		return l, 0, err
	}
	var balance stoa.Credits
	exists, err := tx.Get(ctx, `SELECT balance FROM accounts WHERE id = $1`+tx.ForUpdate(), []any{accountID}, &balance)
	if err == nil && !exists {
		err = noAccount(accountID)
	}
	if err != nil {
		return l, 0, err
	}
	more := min(balance, max(need, min(chunk, balance/3)))
	if more > 0 {
		if err := tx.Later(ctx, `UPDATE accounts SET balance = balance - $2 WHERE id = $1`, accountID, int64(more)); err != nil {
			return l, 0, err
		}
	}
	l.Amount += more
	switch {
	case !found:
		l.ID = stoa.NewID("lse")
		err = tx.Later(ctx, `INSERT INTO leases (id, account_id, node_id, amount, is_open, created_at, closed_at) VALUES ($1, $2, $3, $4, 1, $5, 0)`,
			l.ID, accountID, nodeID, int64(l.Amount), db.Micros(tx.Now))
	case more > 0:
		err = tx.Later(ctx, `UPDATE leases SET amount = amount + $2 WHERE id = $1`, l.ID, int64(more))
	}
	return l, balance - more, err
}

// A Return is credits of an open lease that go back to the balance.
type Return struct {
	LeaseID, AccountID string
	Amount             stoa.Credits // 0 means nothing can be spared
	Done               bool         // result: the lease is open and the amount was unspent
}

// ReturnCredits returns the possible amounts from a node's open leases to the balances,
// clears the marks of requested leases, and sets Done.
func (tx Books) ReturnCredits(ctx context.Context, list []Return) error {
	// Leases, then accounts, each in one order, to avoid deadlocks.
	slices.SortFunc(list, func(a, b Return) int { return cmp.Compare(a.LeaseID, b.LeaseID) })
	var accounts []*Return
	for i := range list {
		r := &list[i]
		n, err := tx.Exec(ctx, `UPDATE leases SET amount = amount - $2, asked = 0 WHERE id = $1 AND is_open = 1 AND amount - spent >= $2`, r.LeaseID, int64(r.Amount))
		if err != nil {
			return err
		}
		if r.Done = n == 1; r.Done && r.Amount > 0 {
			accounts = append(accounts, r)
		}
	}
	slices.SortFunc(accounts, func(a, b *Return) int { return cmp.Compare(a.AccountID, b.AccountID) })
	for _, r := range accounts {
		if err := tx.Later(ctx, `UPDATE accounts SET balance = balance + $2 WHERE id = $1`, r.AccountID, int64(r.Amount)); err != nil {
			return err
		}
	}
	return nil
}

// AskLeases marks the leases of other nodes with unspent credits of an account, 1,000 at most, and
// returns their number. A mark is a row, because a hint to the node can be lost. These nodes answer
// with [Books.ReturnCredits].
func (tx Books) AskLeases(ctx context.Context, accountID, nodeID string) (asked int, err error) {
	var ids []string
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM leases WHERE account_id = $1 AND is_open = 1 AND node_id <> $2 AND amount > spent ORDER BY id LIMIT $3`+tx.ForUpdate(), accountID, nodeID, maxNodes); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := tx.Later(ctx, `UPDATE leases SET asked = 1 WHERE id = $1`, id); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// Unanswered reports whether another node has not yet answered a request for credits of an account,
// so that it is unknown whether there are any.
func (tx Books) Unanswered(ctx context.Context, accountID, nodeID string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM leases WHERE account_id = $1 AND is_open = 1 AND node_id <> $2 AND asked = 1 AND amount > spent LIMIT 1`,
		[]any{accountID, nodeID}, &one)
}

// maxAsked is the maximum number of marked leases that a node reads at a time, since it polls them
// each second.
const maxAsked = 1000

// Asked returns the accounts with marked leases of a node, at most 1,000.
func (tx Books) Asked(ctx context.Context, nodeID string) ([]string, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (id string, err error) {
		err = rows.Scan(&id)
		return id, err
	}, `SELECT account_id FROM leases WHERE node_id = $1 AND asked = 1 AND is_open = 1 LIMIT $2`, nodeID, maxAsked)
}
