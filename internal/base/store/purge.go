package store

import (
	"context"
	"database/sql"
	"math"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// OldestPurge is the shortest time for which a charge is kept. It is far longer than any call is retried
// under the same id, because a retry after the purge would be charged again.
const OldestPurge = 30 * 24 * time.Hour

// PurgeReceipts deletes up to limit of an account's charges made before that time and adds
// their sums per lease to purged_charges, so that the ledger still balances exactly. It
// returns the number of deleted charges; a number below limit means that none are left.
//
// This is the only statement that removes charges. It is for operators who must not keep
// receipts forever, and corrects nothing. A time less than [OldestPurge] ago is
// CodeInvalidValue.
//
// The policy test recognizes this statement by its text and rejects any other that deletes
// charges. A purge that reset the account's ledger instead would leave nothing to verify.
// The choice would be wrong if stoa ledger verify failed after a purge, or if a call were
// charged twice because its first charge was purged.
func (tx *Tx) PurgeReceipts(ctx context.Context, accountID string, before time.Time, limit int) (int64, error) {
	if before.After(tx.Now.Add(-OldestPurge)) {
		return 0, stoa.Errorf(stoa.CodeInvalidValue, "Receipts are kept for at least %d days.", int(OldestPurge.Hours()/24))
	}
	type sum struct {
		charges    int64
		amount     stoa.Credits
		writtenOff stoa.Credits
		last       int64
	}
	sums := map[string]*sum{} // by lease
	var order []string
	var taken int64
	oldest, newest := int64(math.MaxInt64), int64(0)
	if _, err := tx.Exec(ctx, `DELETE FROM charge_adjustments WHERE charge_id IN (SELECT id FROM charges WHERE account_id = $1 AND created_at < $2 ORDER BY created_at, id LIMIT $3)`,
		accountID, db.Micros(before), limit); err != nil {
		return 0, err
	}
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var lease string
		var amount, off stoa.Credits
		var created int64
		if err := rows.Scan(&lease, &amount, &off, &created); err != nil {
			return err
		}
		s := sums[lease]
		if s == nil {
			s = &sum{}
			sums[lease] = s
			order = append(order, lease)
		}
		s.charges, s.amount, s.writtenOff, s.last = s.charges+1, s.amount+amount, s.writtenOff+off, max(s.last, created)
		oldest, newest = min(oldest, created), max(newest, created)
		taken++
		return nil
	}, `DELETE FROM charges WHERE id IN (SELECT id FROM charges WHERE account_id = $1 AND created_at < $2 ORDER BY created_at, id LIMIT $3)
		RETURNING lease_id, amount, written_off, created_at`, accountID, db.Micros(before), limit)
	if err != nil {
		return 0, err
	}
	if taken > 0 {
		if err := tx.Books().sumHoursAgain(ctx, accountID, oldest/hourMicros, newest/hourMicros+1); err != nil {
			return 0, err
		}
	}
	for _, lease := range order {
		s := sums[lease]
		if _, err := tx.Exec(ctx, `INSERT INTO purged_charges (account_id, lease_id, charges, amount, written_off, last_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (account_id, lease_id) DO UPDATE SET charges = purged_charges.charges + excluded.charges, amount = purged_charges.amount + excluded.amount,
				written_off = purged_charges.written_off + excluded.written_off, last_at = excluded.last_at`,
			accountID, lease, s.charges, int64(s.amount), int64(s.writtenOff), s.last); err != nil {
			return 0, err
		}
	}
	return taken, nil
}
