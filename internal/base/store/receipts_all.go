package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"stoa/internal/base/db"
)

// The maximum numbers of hours with charges, and of their accounts after the first hour, that a page of [Books.ReceiptsOfAll]
// reads, so that it ends with a filter that matches little.
const (
	hoursLooked    = 24
	accountsLooked = 1000
)

// ReceiptsOfAll is [Books.Receipts] of all accounts, for operators, with a filter by time, key and model only. No index has the
// charges of all accounts by time, because each charge would write to it: the sums by hour say which accounts have charges in an
// hour, and each of them contributes its newest ones.
func (tx Books) ReceiptsOfAll(ctx context.Context, f ReceiptFilter, p Page) (list []Receipt, next Cursor, err error) {
	from, to := int64(0), int64(endOfHours)
	if !f.From.IsZero() {
		from = db.Micros(f.From) / hourMicros
	}
	if !f.To.IsZero() {
		to = db.Micros(f.To)/hourMicros + 1
	}
	order := "hour DESC"
	if p.Asc {
		order = "hour"
	}
	if p.After != (Cursor{}) {
		if at := db.Micros(p.After.At) / hourMicros; p.Asc {
			from = max(from, at)
		} else {
			to = min(to, at+1)
		}
	}
	var hours []int64
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var hour int64
		err := rows.Scan(&hour)
		hours = append(hours, hour)
		return err
	}, fmt.Sprintf(`SELECT DISTINCT hour FROM charge_hours WHERE account_id = '' AND hour >= $1 AND hour < $2 ORDER BY %s LIMIT %d`, order, hoursLooked+1), from, to); err != nil {
		return nil, next, err
	}
	looked := 0
	for i, hour := range hours {
		if len(list) > p.limit() {
			break
		}
		if i == hoursLooked || looked > accountsLooked { // the next page begins with this hour
			next = Cursor{At: db.Time((hour + 1) * hourMicros)}
			if p.Asc {
				next.At = db.Time(hour * hourMicros)
			}
			return list, next, nil
		}
		some, accounts, err := tx.receiptsOfHour(ctx, hour, f, p)
		if err != nil {
			return nil, next, err
		}
		list = append(list, some...)
		looked += accounts
	}
	if len(list) > p.limit() {
		list = list[:p.limit()]
		last := list[len(list)-1]
		next = Cursor{At: last.CreatedAt, ID: last.ID}
	}
	return list, next, nil
}

// receiptsOfHour returns the first charges of all accounts in an hour, one more than a page has, and the number of accounts.
func (tx Books) receiptsOfHour(ctx context.Context, hour int64, f ReceiptFilter, p Page) (all []Receipt, accounts int, err error) {
	if at := db.Time(hour * hourMicros); f.From.Before(at) {
		f.From = at
	}
	if at := db.Time((hour + 1) * hourMicros); f.To.IsZero() || f.To.After(at) {
		f.To = at
	}
	one := p
	one.Limit = p.limit() + 1
	for after := ""; ; {
		ids, err := tx.texts(ctx, `SELECT DISTINCT account_id FROM charge_hours WHERE hour = $1 AND account_id > $2 ORDER BY account_id LIMIT $3`, hour, after, usageAccounts)
		if err != nil {
			return nil, 0, err
		}
		for _, id := range ids {
			after = id
			q := receiptsOf(id, f)
			cond, args := q.conditions(q.args)
			some, _, err := page(ctx, tx.Tx, one, receiptScan(), `SELECT `+receiptColumns+` `+q.from+cond, args...)
			if err != nil {
				return nil, 0, err
			}
			all = append(all, some...)
		}
		all = p.firstOf(all)
		if accounts += len(ids); len(ids) < usageAccounts {
			return all, accounts, nil
		}
	}
}

// firstOf returns the first receipts of a page, one more than it has.
func (p Page) firstOf(all []Receipt) []Receipt {
	slices.SortFunc(all, func(a, b Receipt) int {
		order := cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
		if p.Asc {
			return order
		}
		return -order
	})
	return slices.Clip(all[:min(len(all), p.limit()+1)])
}
