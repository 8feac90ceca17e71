package store_test

import (
	"testing"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// A claim that cannot be freed when its request ends is freed once the database writes
// again: the key is not lost for as long as the process lives.
func TestAClaimIsFreedLater(t *testing.T) {
	t.Parallel()
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

// A claim whose COMMIT reaches the server only after its node has given it up is freed
// all the same.
func TestALateClaimIsFreed(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	a := storetest.Account(t, database.Open(), 0)
	direct := database
	link := storetest.NewLink(t, database.Config.PostgresURL)
	database.Config.PostgresURL = link.URL
	st := database.Open()
	key := store.IdempotencyKey{AccountID: a.ID, Method: "POST", Path: "/x", Key: "k"}
	var claim store.Claim
	link.CutNext(storetest.CutLate, func() {})
	err := st.Write(ctx, func(tx *store.Tx) (err error) {
		claim, _, _, err = tx.ClaimKey(ctx, key, "h")
		return err
	})
	if !db.IsDoubtful(err) {
		t.Fatalf("claimed: %v", err)
	}
	st.FreeLater(claim)
	until(func() bool {
		return !st.Freeing() || outside(t, direct, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	link.Deliver()
	until(func() bool {
		return outside(t, direct, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'") == 0 && !st.Freeing()
	})
	if n := outside(t, direct, "SELECT COUNT(*) FROM idempotency"); n != 0 {
		t.Error("the key stays claimed")
	}
}
