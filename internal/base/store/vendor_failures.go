package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var vendorFailures = newTable[stoa.VendorFailure]("vendor_failures")

// InsertVendorFailure stores a failed request.
func (tx Books) InsertVendorFailure(ctx context.Context, f stoa.VendorFailure) error {
	f.ID, f.CreatedAt = stoa.NewID("vfl"), tx.Now
	_, err := vendorFailures.insert(ctx, tx.Tx, &f, "")
	return err
}

// PurgeVendorFailures deletes up to limit failed requests before a time, the oldest first, and
// returns their number.
func (tx Books) PurgeVendorFailures(ctx context.Context, before time.Time, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM vendor_failures WHERE id IN (SELECT id FROM vendor_failures WHERE created_at < $1 ORDER BY created_at, id LIMIT $2)`, db.Micros(before), limit)
}
