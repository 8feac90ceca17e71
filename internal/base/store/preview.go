package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A PreviewRow is the sum of charges of an account at other prices.
type PreviewRow struct {
	AccountID, AccountName, Plan, Model string // empty if the rows are not grouped by it
	Calls                               int64
	Charged, New                        stoa.Credits
}

// PreviewGroups are the members by which the rows of a preview are grouped.
type PreviewGroups struct{ Account, Model, Plan bool }

// PreviewCharges returns the sums of all charges in a month and those of what price returns for them. price
// receives the usage, the models, the amount and whether the credits of the account limited it. A month
// with purged charges is CodeInvalidValue. The transaction must be a snapshot, because there are several
// queries.
func (tx Books) PreviewCharges(ctx context.Context, month stoa.Month, by PreviewGroups, price func(c stoa.Charge) stoa.Credits) ([]PreviewRow, error) {
	var out []PreviewRow
	rows := map[PreviewRow]int{} // indexes of out, by the group
	for after := ""; ; {
		accounts, err := tx.accountsWithUsage(ctx, month.End(), after, usageAccounts)
		if err != nil {
			return nil, err
		}
		for _, id := range accounts {
			after = id
			var purged int64
			if _, err := tx.Get(ctx, `SELECT COALESCE(MAX(last_at), 0) FROM purged_charges WHERE account_id = $1`, []any{id}, &purged); err != nil {
				return nil, err
			}
			if purged >= db.Micros(month.Start()) {
				return nil, stoa.Errorf(stoa.CodeInvalidValue, "Receipts of %s were removed, because they are past \"retention.receipts\". Use a later month.", month).At("month")
			}
			a, err := tx.Account(ctx, id)
			if err != nil {
				return nil, err
			}
			sum := func(c stoa.Charge) error {
				var group PreviewRow
				if by.Account {
					group.AccountID, group.AccountName = id, a.Name
				}
				if by.Plan {
					group.Plan = a.Plan
				}
				if by.Model {
					group.Model = c.Served
				}
				at, seen := rows[group]
				if !seen {
					if at = len(out); at == maxUsageRows {
						return tooManyRows()
					}
					rows[group] = at
					out = append(out, group)
				}
				row := &out[at]
				row.Calls, row.Charged, row.New = row.Calls+1, row.Charged+c.Amount, row.New+price(c)
				return nil
			}
			if err := tx.chargesOf(ctx, id, month, sum); err != nil {
				return nil, err
			}
		}
		if len(accounts) < usageAccounts {
			return out, nil
		}
	}
}

// previewTogether is the number of charges that one query of a preview reads, so that memory stays bounded.
const previewTogether = 10_000

// chargesOf calls fn with the members of the charges of an account in a month that decide the amount.
func (tx Books) chargesOf(ctx context.Context, accountID string, month stoa.Month, fn func(stoa.Charge) error) error {
	from, after := db.Micros(month.Start()), ""
	for {
		n := 0
		err := tx.Query(ctx, func(r *sql.Rows) error {
			n++
			var c stoa.Charge
			var started int64
			u := &c.Usage
			if err := r.Scan(&from, &after, &started, &c.Asked, &c.Served, &u.InputTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.CacheWriteLongTokens, &u.OutputTokens, &c.Amount, &c.Clamped); err != nil {
				return err
			}
			c.StartedAt = db.Time(started)
			return fn(c)
		}, `SELECT created_at, id, started_at, asked, served, input_tokens, cached_tokens, cache_write_tokens, cache_write_long_tokens, output_tokens, amount, clamped
			FROM charges WHERE account_id = $1 AND (created_at, id) > ($2, $3) AND created_at < $4 ORDER BY created_at, id LIMIT $5`, accountID, from, after, db.Micros(month.End()), previewTogether)
		if err != nil || n < previewTogether {
			return err
		}
	}
}
