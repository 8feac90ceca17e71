package store

import (
	"cmp"
	"context"

	"stoa/internal/base/stoa"
)

var grants = newTable[stoa.Grant]("grants")

// InsertGrant adds credits to an account's balance. If a grant has the same ExternalRef it changes
// nothing and returns that one with created false, whatever its account and amount, so that a repeated
// payment is booked once. It takes what the account owes from the grant.
func (tx Books) InsertGrant(ctx context.Context, g stoa.Grant) (_ stoa.Grant, created bool, err error) {
	if g.ID == "" {
		g.ID = stoa.NewID("led")
	}
	g.Kind = cmp.Or(g.Kind, stoa.GrantByOperator)
	g.CreatedAt = tx.Now
	// The account first, because locks are taken in the order node, lease, account, and a grant for a
	// missing account must not be written.
	n, err := tx.Exec(ctx, `UPDATE accounts SET granted = granted + $2, balance = balance + $2
		WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM grants WHERE external_ref = $3)`, g.AccountID, int64(g.Amount), orNull(g.ExternalRef))
	if err != nil {
		return g, false, err
	}
	if n == 0 {
		return tx.earlierGrant(ctx, g)
	}
	n, err = grants.insert(ctx, tx.Tx, &g, ` ON CONFLICT (external_ref) DO NOTHING`)
	if err != nil {
		return g, false, err
	}
	if n == 0 { // another transaction inserted it after the UPDATE above
		if _, err := tx.Exec(ctx, `UPDATE accounts SET granted = granted - $2, balance = balance - $2 WHERE id = $1`, g.AccountID, int64(g.Amount)); err != nil {
			return g, false, err
		}
		return tx.earlierGrant(ctx, g)
	}
	tx.AfterCommit(func() { tx.s.grants.Add(1) })
	g.Repaid, err = tx.repay(ctx, g)
	return g, true, err
}

// earlierGrant returns the grant that already has the external reference, or the
// error that the account does not exist.
func (tx Books) earlierGrant(ctx context.Context, g stoa.Grant) (stoa.Grant, bool, error) {
	if g.ExternalRef != "" {
		earlier, found, err := grants.first(ctx, tx.Tx, `external_ref = $1`, g.ExternalRef)
		if err != nil || found {
			return earlier, false, err
		}
	}
	return g, false, noAccount(g.AccountID)
}

// Grants lists an account's grants.
func (tx Books) Grants(ctx context.Context, accountID string, p Page) ([]stoa.Grant, bool, error) {
	return grants.page(ctx, tx.Tx, p, `account_id = $1`, accountID)
}
