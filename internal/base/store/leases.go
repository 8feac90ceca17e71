package store

import (
	"context"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A Lease is credits of an account that a node may spend. It is open.
type Lease struct {
	ID        string
	AccountID string
	NodeID    string
	Amount    stoa.Credits
	Spent     stoa.Credits
}

// Left returns the unspent amount.
func (l Lease) Left() stoa.Credits { return l.Amount - l.Spent }

// Lease moves all of an account's balance into the node's lease and returns it. It closes leases of
// other nodes first, because there is only one node. For a dead node it does nothing and ok is false.
func (tx Books) Lease(ctx context.Context, accountID, nodeID string) (l Lease, ok bool, err error) {
	alive, err := tx.Operations().NodeAlive(ctx, nodeID)
	if err != nil || !alive {
		return Lease{}, false, err
	}
	l, err = tx.lease(ctx, accountID, nodeID)
	return l, err == nil, err
}

// lease uses several statements, because each reads the data committed before it began; a single
// statement could read a stale balance.
func (tx Books) lease(ctx context.Context, accountID, nodeID string) (Lease, error) {
	l := Lease{AccountID: accountID, NodeID: nodeID}
	found, err := tx.Get(ctx, `SELECT id, amount, spent FROM leases WHERE account_id = $1 AND node_id = $2 AND is_open = 1`+tx.ForUpdate(),
		[]any{accountID, nodeID}, &l.ID, &l.Amount, &l.Spent)
	if err != nil {
		return l, err
	}
	if err := tx.closeOthers(ctx, accountID, nodeID); err != nil {
		return l, err
	}
	var balance stoa.Credits
	exists, err := tx.Get(ctx, `SELECT balance FROM accounts WHERE id = $1`+tx.ForUpdate(), []any{accountID}, &balance)
	if err != nil {
		return l, err
	}
	if !exists {
		return l, noAccount(accountID)
	}
	if balance > 0 {
		if _, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance - $2 WHERE id = $1`, accountID, int64(balance)); err != nil {
			return l, err
		}
	}
	if found {
		if balance > 0 {
			_, err = tx.Exec(ctx, `UPDATE leases SET amount = amount + $2 WHERE id = $1`, l.ID, int64(balance))
		}
		l.Amount += balance
		return l, err
	}
	l.ID, l.Amount = stoa.NewID("lse"), balance
	_, err = tx.Exec(ctx, `INSERT INTO leases (id, account_id, node_id, amount, is_open, created_at, closed_at) VALUES ($1, $2, $3, $4, 1, $5, 0)`,
		l.ID, accountID, nodeID, int64(l.Amount), db.Micros(tx.Now))
	return l, err
}

func (tx Books) closeOthers(ctx context.Context, accountID, nodeID string) error {
	var left stoa.Credits
	found, err := tx.Get(ctx, `SELECT CAST(COALESCE(SUM(amount - spent), 0) AS BIGINT) FROM leases WHERE account_id = $1 AND is_open = 1 AND node_id <> $2 HAVING COUNT(*) > 0`,
		[]any{accountID, nodeID}, &left)
	if err != nil || !found {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE leases SET is_open = 0, closed_at = $3 WHERE account_id = $1 AND is_open = 1 AND node_id <> $2`, accountID, nodeID, db.Micros(tx.Now)); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE accounts SET balance = balance + $2 WHERE id = $1`, accountID, int64(left))
	return err
}

// SpendLease adds to the spent amount of an open lease. If the lease is closed or has less left, it
// changes nothing and returns false. The condition is in the statement, so that a lease cannot be
// overspent whatever memory contains.
func (tx Books) SpendLease(ctx context.Context, id string, amount stoa.Credits) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE leases SET spent = spent + $2 WHERE id = $1 AND is_open = 1 AND spent + $2 <= amount`, id, int64(amount))
	return n == 1, err
}

// OpenLease returns the node's open lease of an account.
func (tx Books) OpenLease(ctx context.Context, accountID, nodeID string) (Lease, bool, error) {
	l := Lease{AccountID: accountID, NodeID: nodeID}
	found, err := tx.Get(ctx, `SELECT id, amount, spent FROM leases WHERE account_id = $1 AND node_id = $2 AND is_open = 1`,
		[]any{accountID, nodeID}, &l.ID, &l.Amount, &l.Spent)
	return l, found, err
}

// CloseLeases closes a node's leases and returns unspent credits to the balances.
func (tx Books) CloseLeases(ctx context.Context, nodeID string) error {
	// The leases first, since locks are taken in the order node, lease, account.
	if _, err := tx.Exec(ctx, `UPDATE leases SET closed_at = $2 WHERE node_id = $1 AND is_open = 1`, nodeID, db.Micros(tx.Now)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance + (SELECT SUM(amount - spent) FROM leases WHERE account_id = accounts.id AND node_id = $1 AND is_open = 1)
		WHERE id IN (SELECT account_id FROM leases WHERE node_id = $1 AND is_open = 1)`, nodeID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE leases SET is_open = 0 WHERE node_id = $1 AND is_open = 1`, nodeID)
	return err
}

// Funds are an account's credits as stored.
type Funds struct {
	Granted stoa.Credits // sum of the grants and withdrawals
	Balance stoa.Credits // credits that are not leased
	Leased  stoa.Credits // credits that are leased and not spent
	Owed    stoa.Credits // rest of withdrawals that exceeded the balance
}

func (f Funds) spent() stoa.Credits { return f.Granted - f.Balance - f.Leased }

// Funds returns an account's credits, or CodeNotFound.
func (tx Books) Funds(ctx context.Context, accountID string) (Funds, error) {
	var f Funds
	found, err := tx.Get(ctx, `SELECT granted, balance, owed, `+unspent("accounts")+` FROM accounts WHERE id = $1`, []any{accountID}, &f.Granted, &f.Balance, &f.Owed, &f.Leased)
	if err == nil && !found {
		err = noAccount(accountID)
	}
	return f, err
}
