package store_test

import (
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestClaimsEndWithTheirNode claims a payment and a period in one process: while it lives, no other process of the
// database claims them, and the next one does at once.
func TestClaimsEndWithTheirNode(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		st := home.Open()
		a := storetest.Account(t, st, stoa.Credit)
		p := stoa.Payment{ID: stoa.NewID("pay"), AccountID: a.ID, MadeBy: "key_1", Pack: "small", Name: "Small", Amount: 100, Currency: "eur", Credits: 100}
		period := store.PlanPeriod{AccountID: a.ID, Month: stoa.Month("2026-10")}
		write(t, st, func(tx *store.Tx) error {
			if err := tx.Books().InsertPayment(ctx, p); err != nil {
				return err
			}
			p.CheckoutID, p.DueAt = "cs_1", tx.Now.Add(-time.Second)
			if _, err := tx.Books().OpenCheckout(ctx, p); err != nil {
				return err
			}
			return tx.Books().InsertPlanPeriod(ctx, stoa.Grant{AccountID: a.ID, Amount: 10}, period.Month, "pro")
		})
		claim := func(st *store.Store) (payment, plan bool) {
			t.Helper()
			write(t, st, func(tx *store.Tx) (err error) {
				if _, payment, err = tx.Books().ClaimPayment(ctx, a.ID, p.ID); err == nil {
					plan, err = tx.Books().ClaimPlanPeriod(ctx, period)
				}
				return err
			})
			return payment, plan
		}
		if payment, plan := claim(st); !payment || !plan {
			t.Fatalf("the first claims: %v, %v", payment, plan)
		}
		if payment, plan := claim(st); payment || plan {
			t.Errorf("claims of a node that lives: %v, %v", payment, plan)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if payment, plan := claim(home.Open()); !payment || !plan {
			t.Errorf("the next process claims: %v, %v", payment, plan)
		}
	})
}

// TestAStateOfASignInIsUsedOnce also fills the table: the oldest states go.
func TestAStateOfASignInIsUsedOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		st := home.Open()
		use := func(state string, left time.Duration) (first bool) {
			t.Helper()
			write(t, st, func(tx *store.Tx) (err error) {
				first, err = tx.People().UseSignInState(ctx, state, tx.Now.Add(left))
				return err
			})
			return first
		}
		if !use("a", time.Minute) || use("a", time.Minute) || !use("b", time.Hour) {
			t.Error("a state is used twice, or a new one is not")
		}
		for range 2 {
			if !use("old", -time.Minute) {
				t.Error("an expired state is kept")
			}
		}
		write(t, st, func(tx *store.Tx) error {
			_, err := tx.Exec(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9998)
				INSERT INTO sign_in_states (state, expires_at) SELECT 's' || i, CAST($1 AS BIGINT) + i FROM n`, tx.Now.Add(2*time.Hour).UnixMicro())
			return err
		})
		if use("b", time.Hour) {
			t.Error("a full table forgets a state that is not the oldest")
		}
		if !use("a", time.Minute) {
			t.Error("a full table keeps the oldest state")
		}
	})
}
