package store_test

import (
	"testing"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestChargesBeforeWritesHadARateStayTrue opens a store of an earlier version, whose
// charges took cache writes as input.
func TestChargesBeforeWritesHadARateStayTrue(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, database storetest.Database) {
		earlier(t, database, "00960", func(tx *db.Tx) error {
			now := db.Micros(time.Now())
			if _, err := tx.Exec(ctx, `INSERT INTO accounts (id, name, plan, created_at, updated_at) VALUES ('acc_1', 'a', 'free', $1, $1)`, now); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO charges (id, account_id, key_id, lease_id, node_id, asked, served, reason, provider,
				input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, price_input, price_cached_input, price_output, price_version,
				amount, estimated, clamped, capped, written_off, state, end_user, space_id, agent_id, session_id, started_at, first_token, duration, created_at)
				VALUES ('resp_1', 'acc_1', 'k', 'l', 'n', '', '', '', '', 1000, 100, 500, 10, 0, 2000000, 200000, 10000000, '', 1920, 0, 0, 0, 0, 'completed', '', '', '', '', $1, 0, 0, $1)`, now)
			return err
		})
		read(t, database.Open(), func(tx *store.Tx) error {
			r, err := tx.Books().Receipt(ctx, "acc_1", "resp_1")
			if err != nil {
				return err
			}
			if cost := r.Price.Cost(r.Usage); cost != r.Amount || r.Price.CacheWrite != 2_000_000 || r.Price.CacheWriteLong != 2_000_000 || r.Usage.CacheWriteLongTokens != 0 {
				t.Errorf("%+v at %+v costs %d, charged %d", r.Usage, r.Price, cost, r.Amount)
			}
			diffs, _, err := tx.Books().Differences(ctx, "acc_1")
			for _, d := range diffs {
				if d.What == "a charge is its usage at its price" {
					t.Errorf("the books differ: %+v", d)
				}
			}
			return err
		})
	})
}
