package store

import (
	"context"
	"database/sql"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

const grantColumns = `id, account_id, amount, reason, COALESCE(external_ref, ''), created_at`

func scanGrant(rows *sql.Rows) (stoa.Grant, error) {
	var g stoa.Grant
	var created int64
	err := rows.Scan(&g.ID, &g.AccountID, &g.Amount, &g.Reason, &g.ExternalRef, &created)
	g.CreatedAt = db.Time(created)
	return g, err
}

// InsertGrant adds credits to an account's balance. A grant whose ExternalRef
// is there already changes nothing: the first one is returned and created is
// false, whatever its account and amount.
func (tx *Tx) InsertGrant(ctx context.Context, g stoa.Grant) (_ stoa.Grant, created bool, err error) {
	if g.ID == "" {
		g.ID = stoa.NewID("led")
	}
	g.CreatedAt = tx.Now
	var ref any
	if g.ExternalRef != "" {
		ref = g.ExternalRef
	}
	// The account first: locks are taken in the order node, lease, account, and
	// a grant for a missing account must not be written.
	n, err := tx.Exec(ctx, `UPDATE accounts SET granted = granted + $2, balance = balance + $2
		WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM grants WHERE external_ref = $3)`, g.AccountID, int64(g.Amount), ref)
	if err != nil {
		return g, false, err
	}
	if n == 0 {
		return tx.earlierGrant(ctx, g)
	}
	n, err = tx.Exec(ctx, `INSERT INTO grants (id, account_id, amount, reason, external_ref, created_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (external_ref) DO NOTHING`,
		g.ID, g.AccountID, int64(g.Amount), g.Reason, ref, db.Micros(g.CreatedAt))
	if err != nil {
		return g, false, err
	}
	if n == 0 { // another transaction inserted it after the UPDATE above looked
		if _, err := tx.Exec(ctx, `UPDATE accounts SET granted = granted - $2, balance = balance - $2 WHERE id = $1`, g.AccountID, int64(g.Amount)); err != nil {
			return g, false, err
		}
		return tx.earlierGrant(ctx, g)
	}
	tx.AfterCommit(func() { tx.s.grants.Add(1) })
	return g, true, nil
}

// earlierGrant returns the grant that already has the external reference, or the
// error that the account does not exist.
func (tx *Tx) earlierGrant(ctx context.Context, g stoa.Grant) (stoa.Grant, bool, error) {
	if g.ExternalRef != "" {
		earlier, found, err := first(ctx, tx, scanGrant, `SELECT `+grantColumns+` FROM grants WHERE external_ref = $1`, g.ExternalRef)
		if err != nil || found {
			return earlier, false, err
		}
	}
	return g, false, noAccount(g.AccountID)
}

// Grants lists an account's grants.
func (tx *Tx) Grants(ctx context.Context, accountID string, p Page) ([]stoa.Grant, bool, error) {
	return page(ctx, tx, p, scanGrant, `SELECT `+grantColumns+` FROM grants WHERE account_id = $1`, accountID)
}
