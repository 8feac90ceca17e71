package store

import (
	"context"

	"stoa/internal/base/stoa"
)

var withdrawals = newTable[stoa.Withdrawal]("withdrawals")

// Withdraw takes w.Taken unspent credits of a lease from its account, and adds the rest of w.Amount to what
// the account owes. A withdrawal whose ExternalRef is there already changes nothing: the first one is
// returned and created is false, whatever its account and amount. covered is false if the lease is
// closed or has less unspent; then the transaction must be rolled back.
func (tx Books) Withdraw(ctx context.Context, w stoa.Withdrawal, leaseID string) (_ stoa.Withdrawal, created, covered bool, err error) {
	w.ID, w.CreatedAt = stoa.NewID("led"), tx.Now
	n, err := withdrawals.insert(ctx, tx.Tx, &w, ` ON CONFLICT (external_ref) DO NOTHING`)
	if err != nil {
		return w, false, false, err
	}
	if n == 0 {
		earlier, _, err := withdrawals.first(ctx, tx.Tx, `external_ref = $1`, w.ExternalRef)
		return earlier, false, true, err
	}
	if w.Taken > 0 {
		n, err := tx.Exec(ctx, `UPDATE leases SET amount = amount - $2 WHERE id = $1 AND account_id = $3 AND is_open = 1 AND amount - spent >= $2`, leaseID, int64(w.Taken), w.AccountID)
		if err != nil || n == 0 {
			return w, false, false, err
		}
	}
	if n, err = tx.Exec(ctx, `UPDATE accounts SET granted = granted - $2, owed = owed + $3 WHERE id = $1`, w.AccountID, int64(w.Taken), int64(w.Owed())); err != nil {
		return w, false, false, err
	}
	if n == 0 {
		return w, false, false, noAccount(w.AccountID)
	}
	if w.Taken > 0 {
		row := stoa.Grant{ID: w.ID, AccountID: w.AccountID, Amount: -w.Taken, Reason: w.Reason, Kind: w.Kind, CreatedAt: tx.Now}
		_, err = grants.insert(ctx, tx.Tx, &row, "")
	}
	return w, true, true, err
}

// Withdrawal returns the withdrawal with an external reference, if there is one.
func (tx Books) Withdrawal(ctx context.Context, externalRef string) (stoa.Withdrawal, bool, error) {
	return withdrawals.first(ctx, tx.Tx, `external_ref = $1`, externalRef)
}

// repay takes what the account owes from a grant that was just inserted, and returns the amount.
func (tx Books) repay(ctx context.Context, g stoa.Grant) (stoa.Credits, error) {
	var owed stoa.Credits
	if _, err := tx.Get(ctx, `SELECT owed FROM accounts WHERE id = $1`, []any{g.AccountID}, &owed); err != nil || owed == 0 {
		return 0, err
	}
	paid := min(owed, g.Amount)
	if _, err := tx.Exec(ctx, `UPDATE accounts SET granted = granted - $2, balance = balance - $2, owed = owed - $2 WHERE id = $1`, g.AccountID, int64(paid)); err != nil {
		return 0, err
	}
	row := stoa.Grant{ID: stoa.NewID("led"), AccountID: g.AccountID, Amount: -paid, Reason: "paid what was owed", Kind: stoa.Repayment, CreatedAt: tx.Now}
	_, err := grants.insert(ctx, tx.Tx, &row, "")
	return paid, err
}
