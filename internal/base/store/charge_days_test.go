package store_test

import (
	"testing"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestAnAccountSpendsByTheDay charges accounts on several days, some charges twice.
func TestAnAccountSpendsByTheDay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		var a, b stoa.Account
		write(t, st, func(tx *store.Tx) (err error) {
			if a, err = tx.Books().InsertAccount(ctx, stoa.Account{Name: "a", Plan: "free"}); err != nil {
				return err
			}
			b, err = tx.Books().InsertAccount(ctx, stoa.Account{Name: "b", Plan: "free"})
			return err
		})
		day := 24 * time.Hour
		charge := func(ago time.Duration, ids ...string) {
			t.Helper()
			write(t, st, func(tx *store.Tx) error {
				tx.Now = tx.Now.Add(-ago)
				var list []store.Receipt
				for _, id := range ids {
					of := a.ID
					if id[0] == 'b' {
						of = b.ID
					}
					list = append(list, store.Receipt{Charge: stoa.Charge{ID: id, AccountID: of, KeyID: "k", Amount: 10, StartedAt: tx.Now}, NodeID: st.Node()})
				}
				_, err := tx.Books().InsertCharges(ctx, list)
				return err
			})
		}
		charge(0, "a1", "a2", "b1")
		charge(0, "a2", "a3") // a2 is there already
		charge(29*day, "a4")
		charge(30*day, "a5")
		charge(45*day, "a6")
		spent := func(ago time.Duration) (sum stoa.Credits) {
			t.Helper()
			read(t, st, func(tx *store.Tx) error {
				tx.Now = tx.Now.Add(-ago)
				row, err := tx.Books().AccountRow(ctx, a.ID)
				sum = row.Spent
				return err
			})
			return sum
		}
		if got := spent(0); got != 40 {
			t.Errorf("a spent %d in 30 days, want 40", got)
		}
		if got := spent(20 * day); got != 60 {
			t.Errorf("a spent %d since the day 49 days ago, want 60", got)
		}
		write(t, st, func(tx *store.Tx) error {
			n, err := tx.Books().PurgeChargeDays(ctx)
			if n != 1 {
				t.Errorf("%d days were removed, want one", n)
			}
			return err
		})
		if got := spent(0); got != 40 {
			t.Errorf("without its old days a spent %d in 30 days, want 40", got)
		}
	})
}

// TestChargesBeforeTheUpgradeCountByTheDay opens a store of an earlier version that
// has charges.
func TestChargesBeforeTheUpgradeCountByTheDay(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, database storetest.Database) {
		earlier(t, database, "00700", func(tx *db.Tx) error {
			now := db.Micros(time.Now())
			if _, err := tx.Exec(ctx, `INSERT INTO accounts (id, name, plan, created_at, updated_at) VALUES ('acc_1', 'a', 'free', $1, $1)`, now); err != nil {
				return err
			}
			for id, amount := range map[string]int{"resp_1": 7, "resp_2": 5, "resp_3": 0} {
				if _, err := tx.Exec(ctx, `INSERT INTO charges (id, account_id, key_id, lease_id, node_id, asked, served, reason, provider,
					input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, price_input, price_cached_input, price_output, price_version,
					amount, estimated, clamped, capped, written_off, state, end_user, space_id, agent_id, session_id, started_at, first_token, duration, created_at)
					VALUES ($1, 'acc_1', 'k', 'l', 'n', '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, '', $2, 0, 0, 0, 0, 'completed', '', '', '', '', $3, 0, 0, $3)`, id, amount, now); err != nil {
					return err
				}
			}
			return nil
		})
		read(t, database.Open(), func(tx *store.Tx) error {
			a, err := tx.Books().AccountRow(ctx, "acc_1")
			if a.Spent != 12 {
				t.Errorf("it spent %d, want 12", a.Spent)
			}
			return err
		})
	})
}
