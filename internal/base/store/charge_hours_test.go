package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestUsageBySumsIsThatOfTheCharges reads random times of random charges in several zones, from the
// sums of hours and, as while they are filled, from the charges.
func TestUsageBySumsIsThatOfTheCharges(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		random := rand.New(rand.NewPCG(1, 2))
		end := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
		ago := func() time.Time { return end.Add(-time.Duration(random.Int64N(int64(72 * time.Hour)))) }
		var accounts []stoa.Account
		for range 3 {
			accounts = append(accounts, storetest.Account(t, st, 1_000_000))
		}
		n, latest := 0, time.Time{}
		for range 60 {
			var some []store.Receipt
			account := accounts[random.IntN(len(accounts))].ID
			for range 1 + random.IntN(5) {
				n++
				r := receipt(account, fmt.Sprintf("resp_%03d", n), stoa.Credits(random.Int64N(50)))
				r.Served, r.Provider, r.KeyID = []string{"alpha", "beta"}[random.IntN(2)], []string{"p", "q"}[random.IntN(2)], []string{"k", "l"}[random.IntN(2)]
				r.Estimated = random.IntN(2) == 0
				some = append(some, r)
			}
			at := ago()
			if latest.Before(at) {
				latest = at
			}
			chargeAt(t, st, at, some...)
		}
		wantInOrder(t, st)
		zones := []*time.Location{time.UTC, time.FixedZone("quarter", 5*3600+45*60), time.FixedZone("half", -(9*3600 + 30*60)), time.FixedZone("whole", 3*3600)}
		type reading struct {
			Usage, All [][]store.UsageRow
			Sums       []store.UsageRow
			Month      stoa.Statement
		}
		read := func(now, from, to time.Time, zone *time.Location) (r reading) {
			t.Helper()
			read(t, st, func(tx *store.Tx) error {
				tx.Now = now
				for _, by := range [][]string{nil, {"day"}, {"model"}, {"key", "day"}, {"provider"}, {"provider", "day", "model"}, {"day", "model", "key"}} {
					rows, err := tx.Books().Usage(ctx, accounts[0].ID, from, to, zone, by)
					if err != nil {
						return err
					}
					r.Usage = append(r.Usage, rows)
				}
				for _, by := range [][]string{{"day"}, {"account"}, {"model", "account", "day"}, {"provider"}, {"key"}, {"account", "provider"}, {"account", "session"}} {
					rows, err := tx.Books().UsageOfAll(ctx, from, to, zone, by)
					if err != nil {
						return err
					}
					slices.SortFunc(rows, func(a, b store.UsageRow) int { return slices.Compare(a.Group, b.Group) })
					r.All = append(r.All, rows)
				}
				for _, f := range []store.ReceiptFilter{{}, {From: from}, {To: to}, {From: from, To: to, KeyID: "k"}, {From: from, To: to, Served: "beta"}} {
					sums, err := tx.Books().SumReceipts(ctx, accounts[0].ID, f)
					if err != nil {
						return err
					}
					r.Sums = append(r.Sums, sums)
				}
				var err error
				r.Month, err = tx.Books().Statement(ctx, accounts[0].ID, stoa.MonthOf(end))
				return err
			})
			return r
		}
		filled := func(at int64) {
			t.Helper()
			write(t, st, func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, `INSERT INTO charge_hours_fill (id, begun_at, filled_at, account_id, hour) VALUES (1, 1, $1, '', 0) ON CONFLICT (id) DO UPDATE SET filled_at = excluded.filled_at`, at)
				return err
			})
		}
		calls := int64(0)
		for i := range 40 {
			from, to, now := ago(), ago(), latest.Add(time.Microsecond)
			if st.Postgres() { // charges of other nodes may be after this one's clock
				now = ago()
			}
			if to.Before(from) {
				from, to = to, from
			}
			switch i % 4 {
			case 0:
				from, to = from.Truncate(time.Hour), to.Truncate(time.Hour)
			case 1:
				to = now
				if to.Before(from) {
					from, to, now = to, from, from
				}
			case 2:
				to = from.Truncate(time.Hour).Add(time.Hour - 1)
			}
			zone := zones[i/4%len(zones)]
			got := read(now, from, to, zone)
			filled(0)
			want := read(now, from, to, zone)
			filled(1)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("from %s to %s at %s in %s (-charges +sums):\n%s", from, to, now, zone, d)
			}
			calls += got.Usage[0][0].Calls
		}
		if calls == 0 {
			t.Error("no time had a charge")
		}
	})
}

// TestChargesBeforeTheUpgradeFillTheSums opens a store of an earlier version that contains charges, fills the sums beside
// new charges, and again after a node of that version has served.
func TestChargesBeforeTheUpgradeFillTheSums(t *testing.T) {
	t.Parallel()
	storetest.EachEmpty(t, func(t *testing.T, database storetest.Database) {
		calls := 0
		insert := func(exec func(query string, args ...any) error, n int) error {
			now := db.Micros(time.Now())
			for range n {
				at := now - int64(calls%7)*time.Hour.Microseconds()
				if err := exec(`INSERT INTO charges (id, account_id, key_id, lease_id, node_id, asked, served, reason, provider,
					input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, price_input, price_cached_input, price_output, price_version,
					amount, estimated, clamped, capped, written_off, state, end_user, space_id, agent_id, session_id, started_at, first_token, duration, created_at)
					VALUES ($1, $2, 'k', 'l', 'n', '', 'm', '', 'p', 5, 1, 0, 3, 0, 0, 0, 0, '', 0, 0, 0, 0, 0, 'completed', '', '', '', '', $3, 0, 0, $3)`,
					fmt.Sprint("resp_", calls), fmt.Sprint("acc_", calls%3), at); err != nil {
					return err
				}
				calls++
			}
			return nil
		}
		earlier(t, database, "01180", func(tx *db.Tx) error {
			now := db.Micros(time.Now())
			for i := range 3 {
				if _, err := tx.Exec(ctx, `INSERT INTO accounts (id, name, plan, created_at, updated_at) VALUES ($1, 'a', 'free', $2, $2)`, fmt.Sprint("acc_", i), now); err != nil {
					return err
				}
			}
			return insert(func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err }, 30)
		})
		st := database.Open()
		exec := func(query string, args ...any) {
			t.Helper()
			write(t, st, func(tx *store.Tx) error { _, err := tx.Exec(ctx, query, args...); return err })
		}
		free := func(id string) { // a new charge, which adds to the sums
			t.Helper()
			write(t, st, func(tx *store.Tx) error {
				_, err := tx.Books().InsertCharges(ctx, []store.Receipt{{Charge: stoa.Charge{ID: id, AccountID: "acc_1", KeyID: "k", Served: "m", Provider: "p", State: "completed", StartedAt: tx.Now}, NodeID: st.Node()}})
				calls++
				return err
			})
		}
		fill := func() {
			t.Helper()
			for more := true; more; {
				write(t, st, func(tx *store.Tx) (err error) {
					more, err = tx.Books().FillHours(ctx)
					return err
				})
			}
		}
		// usage returns the calls that usage reports, and those of the sums.
		usage := func() (reported, summed int) {
			t.Helper()
			read(t, st, func(tx *store.Tx) error {
				rows, err := tx.Books().UsageOfAll(ctx, time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour), time.UTC, nil)
				if err != nil {
					return err
				}
				reported = int(rows[0].Calls)
				_, err = tx.Get(ctx, `SELECT COALESCE(SUM(calls), 0) FROM charge_hours WHERE account_id = ''`, nil, &summed)
				return err
			})
			return reported, summed
		}
		free("new_1")
		if reported, summed := usage(); reported != calls || summed != 1 {
			t.Errorf("before the sums are filled: %d calls reported, %d summed; want %d and 1", reported, summed, calls)
		}
		fill()
		free("new_2")
		if reported, summed := usage(); reported != calls || summed != calls {
			t.Errorf("filled: %d calls reported, %d summed; want %d", reported, summed, calls)
		}
		read(t, st, func(tx *store.Tx) error {
			found, _, err := tx.Books().Differences(ctx, "acc_1")
			for _, d := range found {
				if d.What == "the sums of an hour are those of its charges" {
					t.Error(d)
				}
			}
			return err
		})

		exec(`INSERT INTO nodes (id, alive, started_at, seen_at) VALUES ('old', 1, $1, $1)`, db.Micros(time.Now()))
		write(t, st, func(tx *store.Tx) error {
			return insert(func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err }, 10)
		})
		before := calls - 10
		for _, alive := range []bool{true, false} {
			if !alive {
				exec(`UPDATE nodes SET alive = 0 WHERE id = 'old'`)
			}
			if reported, summed := usage(); reported != calls || summed != before {
				t.Errorf("an earlier version (alive: %t): %d calls reported, %d summed; want %d and %d", alive, reported, summed, calls, before)
			}
			if alive {
				fill() // it waits for the node
			}
		}
		fill()
		if reported, summed := usage(); reported != calls || summed != calls {
			t.Errorf("after it: %d calls reported, %d summed; want %d", reported, summed, calls)
		}
	})
}

// TestTheSumsOfAllHaveNoId asks for the usage of accounts with ids that could mean all.
func TestTheSumsOfAllHaveNoId(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		charge(t, st, receipt(storetest.Account(t, st, 100).ID, "resp_1", 30))
		read(t, st, func(tx *store.Tx) error {
			for _, id := range []string{"", "*"} {
				rows, err := tx.Books().Usage(ctx, id, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.UTC, []string{"model"})
				if err != nil {
					return err
				}
				sums, err := tx.Books().SumReceipts(ctx, id, store.ReceiptFilter{})
				if err != nil {
					return err
				}
				if len(rows) > 0 || sums.Calls > 0 {
					t.Errorf("account %q: %+v, %d receipts", id, rows, sums.Calls)
				}
			}
			return nil
		})
	})
}

// TestTheCheckFindsWrongSums changes the sums of an hour.
func TestTheCheckFindsWrongSums(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		for query, want := range map[string]string{
			`UPDATE charge_hours SET output_tokens = output_tokens + 1 WHERE account_id <> ''`: "the sums of an hour are those of its charges",
			`DELETE FROM charge_hours WHERE account_id <> ''`:                                  "the sums of an hour are those of its charges",
			`UPDATE charge_hours SET amount = amount + 1 WHERE account_id = ''`:                "the sums of all accounts in an hour are those of each",
		} {
			st := database.Open()
			a := storetest.Account(t, st, 100)
			charge(t, st, receipt(a.ID, stoa.NewID("resp"), 30))
			wantInOrder(t, st)
			write(t, st, func(tx *store.Tx) error { _, err := tx.Exec(ctx, query); return err })
			read(t, st, func(tx *store.Tx) error {
				found, _, err := tx.Books().Differences(ctx, "")
				if !slices.ContainsFunc(found, func(d store.Difference) bool { return d.What == want && d.Have != d.Want }) {
					t.Errorf("%s: found %v", query, found)
				}
				return err
			})
			write(t, st, func(tx *store.Tx) error { // and the sums are right again
				_, err := tx.Exec(ctx, `INSERT INTO charge_hours_fill (id, begun_at, filled_at, account_id, hour) VALUES (1, 0, 0, '', 0) ON CONFLICT (id) DO UPDATE SET begun_at = 0, filled_at = 0`)
				return err
			})
			for more := true; more; {
				write(t, st, func(tx *store.Tx) (err error) { more, err = tx.Books().FillHours(ctx); return err })
			}
			wantInOrder(t, st)
			st.Close()
		}
	})
}

// TestACheckContinuesFromACheckpoint checks books, charges more, and changes rows since: each change is found,
// as the whole check finds it.
func TestACheckContinuesFromACheckpoint(t *testing.T) {
	t.Parallel()
	for _, forgery := range []string{
		"",
		`UPDATE accounts SET granted = granted + 1, balance = balance + 1`,
		`UPDATE accounts SET granted = granted + 1`,
		`UPDATE grants SET amount = amount + 1`,
		`UPDATE leases SET spent = spent - 1`,
		`UPDATE charges SET amount = amount - 1 WHERE id LIKE 'resp_new%'`,
		`UPDATE charges SET output_tokens = output_tokens + 1 WHERE id LIKE 'resp_new%'`,
		`UPDATE charges SET lease_id = 'none' WHERE id LIKE 'resp_new%'`,
		`DELETE FROM charges WHERE id LIKE 'resp_new%'`,
		`UPDATE charge_hours SET cached_tokens = cached_tokens + 1 WHERE account_id <> ''`,
	} {
		st := storetest.New(t).Open()
		a, b := storetest.Account(t, st, 10_000), storetest.Account(t, st, 10_000)
		id := 0
		add := func(name string, at time.Time, account string) {
			id++
			chargeAt(t, st, at, receipt(account, fmt.Sprintf("resp_%s_%s_%d", name, a.ID, id), 30))
		}
		now := time.Now().UTC()
		var c store.Checkpoint
		check := func(at time.Time) (found []store.Difference) {
			t.Helper()
			read(t, st, func(tx *store.Tx) (err error) {
				tx.Now = at
				var charges store.ChargeTotals
				if c.At.IsZero() {
					found, charges, err = tx.Books().Differences(ctx, "")
				} else {
					found, charges.Calls, err = tx.Books().DifferencesSince(ctx, c)
				}
				if forgery == "" && charges.Calls != int64(id) {
					t.Errorf("%d charges; want %d", charges.Calls, id)
				}
				if err == nil && len(found) == 0 {
					c, err = tx.Books().Checkpoint(ctx, charges.Calls)
				}
				return err
			})
			return found
		}
		hour := now.Truncate(time.Hour)
		add("old", hour.Add(-2*time.Hour), a.ID)
		add("old", hour.Add(-30*time.Minute), a.ID)
		add("old", hour.Add(-10*time.Minute), b.ID)
		for i, at := range []time.Duration{-5 * time.Minute, time.Minute, 10 * time.Minute} { // before, in and after an hour
			if found := check(hour.Add(at)); len(found) > 0 {
				t.Errorf("check %d: %v", i, found)
			}
			add("new", hour.Add(at+time.Second), a.ID)
			add("new", hour.Add(at+time.Second), b.ID)
		}
		if forgery != "" {
			write(t, st, func(tx *store.Tx) error { _, err := tx.Exec(ctx, forgery); return err })
		}
		if found := check(hour.Add(20 * time.Minute)); len(found) > 0 != (forgery != "") {
			t.Errorf("%q: found %v", forgery, found)
		}
	}
}
