package store_test

import (
	"fmt"
	"slices"
	"testing"

	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

func TestVerifyFindsEveryKindOfDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"granted is the sum of the grants":                           `UPDATE accounts SET granted = granted + 1`,
		"granted is balance, leases and charges together":            `UPDATE accounts SET balance = balance + 1`,
		"a lease has spent the sum of its charges":                   `UPDATE leases SET spent = spent + 1`,
		"an open lease belongs to a living node":                     `UPDATE nodes SET alive = 0`,
		"a charge that costs something names a lease of its account": `UPDATE charges SET lease_id = 'x'`,
		"a charge belongs to an account":                             `UPDATE charges SET account_id = 'x'`,
		"a charge is its usage at its price":                         `UPDATE charges SET output_tokens = output_tokens + 1`,
		"a capped charge is at most its usage at its price":          `UPDATE charges SET capped = 1, output_tokens = 1`,
		"only a clamped charge writes off":                           `UPDATE charges SET written_off = 1`,
	} {
		st := storetest.New(t).Open()
		a := storetest.Account(t, st, 100)
		charge(t, st, receipt(a.ID, "resp_1", 30))
		wantInOrder(t, st)
		write(t, st, func(tx *store.Tx) error { _, err := tx.Exec(ctx, damage); return err })
		damaged := a.ID
		if name == "a charge belongs to an account" {
			damaged = "x"
		}
		read(t, st, func(tx *store.Tx) error {
			for _, id := range []string{"", damaged} {
				diffs, _, err := tx.Books().Differences(ctx, id)
				if err != nil {
					return err
				}
				if !slices.ContainsFunc(diffs, func(d store.Difference) bool { return d.What == name }) {
					t.Errorf("%q was not found, account %q", name, id)
				}
			}
			return nil
		})
		st.Close()
	}
}

// TestTheCheckReadsAllRanges damages the books of each of some accounts, and lets the check sum few charges together.
func TestTheCheckReadsAllRanges(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	for i := range 4 {
		a := storetest.Account(t, st, 100)
		for n := range i { // the first has none
			charge(t, st, receipt(a.ID, fmt.Sprint("resp_", i, "_", n), 10))
		}
	}
	check := func(together int) (found []string) {
		read(t, st, func(tx *store.Tx) error {
			diffs, totals, err := tx.Books().DifferencesBy(ctx, "", together)
			if totals != (store.ChargeTotals{Calls: 6, Charged: 60, Receipts: 60}) {
				t.Errorf("%d together: %+v", together, totals)
			}
			for _, d := range diffs {
				found = append(found, d.String())
			}
			return err
		})
		slices.Sort(found)
		return found
	}
	for _, damage := range []string{
		"", `UPDATE accounts SET granted = granted + 1`, `UPDATE leases SET spent = spent + 1`, `UPDATE charge_hours SET output_tokens = output_tokens + 1 WHERE account_id <> ''`,
		`UPDATE charges SET written_off = 1`,
	} {
		if damage != "" {
			write(t, st, func(tx *store.Tx) error { _, err := tx.Exec(ctx, damage); return err })
		}
		want := check(1000)
		if damage == "" && len(want) > 0 || damage != "" && len(want) < 3 {
			t.Errorf("%q: found %q", damage, want)
		}
		for together := range 7 {
			if found := check(together); !slices.Equal(found, want) {
				t.Errorf("%q, %d together: found %q; want %q", damage, together, found, want)
			}
		}
	}
}
