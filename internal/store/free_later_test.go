package store_test

import (
	"testing"

	"stoa/internal/store"
	"stoa/internal/store/storetest"
)

// A claim that cannot be freed when its request ends is freed once the database writes
// again: the key is not lost for as long as the process lives.
func TestAClaimIsFreedLater(t *testing.T) {
	database := storetest.Postgres(t)
	st := database.Open()
	a := storetest.Account(t, st, 0)
	key := store.IdempotencyKey{AccountID: a.ID, Method: "POST", Path: "/x", Key: "k"}
	var claim store.Claim
	write(t, st, func(tx *store.Tx) (err error) {
		claim, _, _, err = tx.ClaimKey(ctx, key, "h")
		return err
	})
	outside(t, database, "ALTER TABLE idempotency RENAME TO elsewhere")
	st.FreeLater(claim)
	if err := st.Write(ctx, func(tx *store.Tx) error { return tx.FreeClaim(ctx, claim) }); err == nil {
		t.Error("the claim can be freed")
	}
	outside(t, database, "ALTER TABLE elsewhere RENAME TO idempotency")
	until(func() bool {
		return st.Write(ctx, func(tx *store.Tx) error {
			_, _, _, err := tx.ClaimKey(ctx, key, "h")
			return err
		}) == nil
	})
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	st.FreeLater(claim) // does nothing
}
