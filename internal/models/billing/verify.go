package billing

import (
	"context"

	"stoa/internal/base/store"
)

// Verify recomputes every sum of the books from the rows, in one snapshot, and returns the
// rows that differ; none if the books are correct. It may run while calls run, and on a store
// opened read-only.
func (l *Ledger) Verify(ctx context.Context) ([]store.Difference, error) {
	var diffs []store.Difference
	err := l.st.Report(ctx, func(tx *store.Tx) (err error) {
		diffs, err = tx.Books().Differences(ctx, "")
		return err
	})
	return diffs, err
}
