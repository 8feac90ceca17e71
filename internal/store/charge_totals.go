package store

import (
	"context"

	"stoa/internal/stoa"
)

// ChargeTotals are what an account's charges come to: their number, their
// amounts, and the amounts computed again from tokens and rates, where they are
// neither clamped nor capped.
func (tx *Tx) ChargeTotals(ctx context.Context, accountID string) (calls int64, charged, receipts stoa.Credits, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(amount), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE WHEN capped = 1 OR clamped = 1 THEN amount ELSE `+priced+` END), 0) AS BIGINT)
		FROM charges WHERE account_id = $1`, []any{accountID}, &calls, &charged, &receipts)
	return calls, charged, receipts, err
}
