package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"stoa/internal/base/stoa"
)

// ChargeTotals are the number of some charges, the sum of their amounts, and the same sum computed again from tokens and
// rates (the amount itself for charges that are clamped or capped). Purged charges count by the sums that were kept of them.
type ChargeTotals struct {
	Calls             int64
	Charged, Receipts stoa.Credits
}

func (t *ChargeTotals) add(more ChargeTotals) {
	t.Calls, t.Charged, t.Receipts = t.Calls+more.Calls, t.Charged+more.Charged, t.Receipts+more.Receipts
}

// bookSums are the sums of charges that the check of the books compares with other rows. They come from one pass,
// because an account's charges are spread over the table, so that each pass reads nearly a page for each.
type bookSums struct {
	totals  ChargeTotals
	leases  map[leaseKey]stoa.Credits
	windows map[string]stoa.Credits // of budgets
	hours   map[hourKey][2]int64    // amount and restOfSums
	broken  int64                   // the bits of the chargeRules that a charge breaks
}

type leaseKey struct{ account, lease string }

// An hourKey is the key of a row of charge_hours; place contains its model, provider and node.
type hourKey struct {
	account    string
	hour       int64
	place, key string
}

const place = "served || '\n' || provider || '\n' || node_id"

var summedCharge = func() string {
	var broken []string
	for i, rule := range chargeRules {
		broken = append(broken, fmt.Sprintf(`CASE WHEN %s THEN %d ELSE 0 END`, rule.broken, 1<<i))
	}
	return `SELECT account_id, lease_id, windows, created_at / 3600000000, ` + place + `, key_id, amount, ` + restOfCharge + `,
		CASE WHEN capped = 1 OR clamped = 1 THEN amount ELSE ` + priced + ` END, ` + strings.Join(broken, " + ") + ` FROM charges WHERE [of account_id]`
}()

// sumCharges adds the charges of some accounts to s.
func (tx Books) sumCharges(ctx context.Context, of someAccounts, s *bookSums) error {
	if s.hours == nil {
		s.leases, s.windows, s.hours = map[leaseKey]stoa.Credits{}, map[string]stoa.Credits{}, map[hourKey][2]int64{}
	}
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var lease, windows string
		var hour hourKey
		var amount, rest, receipt, broken int64
		err := rows.Scan(&hour.account, &lease, &windows, &hour.hour, &hour.place, &hour.key, &amount, &rest, &receipt, &broken)
		s.totals.add(ChargeTotals{1, stoa.Credits(amount), stoa.Credits(receipt)})
		s.leases[leaseKey{hour.account, lease}] += stoa.Credits(amount)
		for id := range strings.FieldsSeq(windows) {
			s.windows[id] += stoa.Credits(amount)
		}
		sums := s.hours[hour]
		s.hours[hour] = [2]int64{sums[0] + amount, sums[1] + rest}
		s.broken |= broken
		return err
	}, of.in(summedCharge), of.args...)
	if err != nil {
		return fmt.Errorf("sum the charges: %w", err)
	}
	return nil
}
