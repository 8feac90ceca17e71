package store

import (
	"context"

	"stoa/internal/base/stoa"
)

// ChargeTotals returns the number of an account's charges, the sum of their
// amounts, and the same sum computed again from tokens and rates (the amount
// itself for charges that are clamped or capped). Purged charges count by the
// sums that were kept of them.
func (tx Books) ChargeTotals(ctx context.Context, accountID string) (calls int64, charged, receipts stoa.Credits, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(amount), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE WHEN capped = 1 OR clamped = 1 THEN amount ELSE `+priced+` END), 0) AS BIGINT)
		FROM charges WHERE account_id = $1`, []any{accountID}, &calls, &charged, &receipts)
	if err != nil {
		return 0, 0, 0, err
	}
	var purged int64
	var sum stoa.Credits
	_, err = tx.Get(ctx, `SELECT CAST(COALESCE(SUM(charges), 0) AS BIGINT), CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM purged_charges WHERE account_id = $1`,
		[]any{accountID}, &purged, &sum)
	return calls + purged, charged + sum, receipts + sum, err
}
