package billing

import (
	"context"

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
