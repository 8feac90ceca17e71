package billing

import (
	"context"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Verify computes every sum of the books again from their rows, in one snapshot,
// and returns the rows that differ: none when the books are in order. It may run
// while calls run, and on a store opened read-only.
func (l *Ledger) Verify(ctx context.Context) ([]store.Difference, error) {
	var diffs []store.Difference
	err := l.st.Report(ctx, func(tx *store.Tx) (err error) {
		diffs, err = tx.Differences(ctx, "")
		return err
	})
	return diffs, err
}

// Reconcile is [Ledger.Verify] for one account, with its balance: the result of
// GET /usage/reconcile.
func (l *Ledger) Reconcile(ctx context.Context, accountID string) (stoa.Balance, []store.Difference, error) {
	var diffs []store.Difference
	err := l.st.Report(ctx, func(tx *store.Tx) (err error) {
		diffs, err = tx.Differences(ctx, accountID)
		return err
	})
	if err != nil {
		return stoa.Balance{}, nil, err
	}
	b, err := l.Balance(ctx, accountID)
	return b, diffs, err
}
