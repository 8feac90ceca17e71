package billing

import (
	"context"

	"stoa/internal/base/store"
)

// Verify recomputes every sum of the books from the rows, in one snapshot, and returns the
// rows that differ; none if the books are correct. It may run while calls run, and on a store
// opened read-only.
func (l *Ledger) Verify(ctx context.Context) ([]store.Difference, error) {
	diffs, _, _, err := l.VerifySince(ctx, nil)
	return diffs, err
}

// VerifySince is [Ledger.Verify] for what changed since a checkpoint, if there is one, and also returns the size of the
// books. If they are correct, it returns their checkpoint, or none while charges of an earlier version are being summed.
func (l *Ledger) VerifySince(ctx context.Context, since *store.Checkpoint) (diffs []store.Difference, next *store.Checkpoint, size store.BooksSize, err error) {
	err = l.st.Report(ctx, func(tx *store.Tx) error {
		filled, err := tx.Books().HoursFilled(ctx)
		if err != nil {
			return err
		}
		var charges store.ChargeTotals
		if since != nil && filled {
			diffs, charges.Calls, err = tx.Books().DifferencesSince(ctx, *since)
		} else {
			diffs, charges, err = tx.Books().Differences(ctx, "")
		}
		if err != nil {
			return err
		}
		if size, err = tx.Books().BooksSize(ctx, charges.Calls); err != nil || len(diffs) > 0 || !filled {
			return err
		}
		c, err := tx.Books().Checkpoint(ctx, charges.Calls)
		next = &c
		return err
	})
	return diffs, next, size, err
}
