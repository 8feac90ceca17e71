package billing

import (
	"context"

	"stoa/internal/base/store"
)

// Verify recomputes every sum of the books from the rows, in one snapshot, and returns the
// rows that differ; none if the books are correct. It may run while calls run, and on a store
// opened read-only.
func (l *Ledger) Verify(ctx context.Context) ([]store.Difference, error) {
	diffs, _, err := l.VerifySince(ctx, nil)
	return diffs, err
}

// VerifySince is [Ledger.Verify] for what changed since a checkpoint, if there is one. If the books are correct, it
// returns their checkpoint, or none while charges of an earlier version are being summed.
func (l *Ledger) VerifySince(ctx context.Context, since *store.Checkpoint) (diffs []store.Difference, next *store.Checkpoint, err error) {
	err = l.st.Report(ctx, func(tx *store.Tx) (err error) {
		filled, err := tx.Books().HoursFilled(ctx)
		if err != nil {
			return err
		}
		if since != nil && filled {
			diffs, err = tx.Books().DifferencesSince(ctx, *since)
		} else {
			diffs, err = tx.Books().Differences(ctx, "")
		}
		if err != nil || len(diffs) > 0 || !filled {
			return err
		}
		c, err := tx.Books().Checkpoint(ctx)
		next = &c
		return err
	})
	return diffs, next, err
}
