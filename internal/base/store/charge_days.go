package store

import (
	"context"
	"database/sql"
	"fmt"
)

// spentDays is the number of days of UTC, including today, that [AccountRow.Spent] sums. A few more
// are kept, because clocks differ.
const (
	spentDays = 30
	keptDays  = spentDays + 10
)

// addDays ends an INSERT of sums so that they are added to existing ones. charge_days has the sums of accounts, and those of
// agents with the id of the agent as account_id.
const addDays = ` ON CONFLICT (account_id, day, node_id) DO UPDATE SET amount = charge_days.amount + excluded.amount`

var insertDays = insertEach(`INSERT INTO charge_days (account_id, day, node_id, amount)`, 4, addDays)

// SpentByDay returns the charges of each account on each of the last 30 days of UTC, the oldest day
// first.
func (tx Books) SpentByDay(ctx context.Context, accounts []AccountRow) (map[string][]int64, error) {
	spent := map[string][]int64{}
	if len(accounts) == 0 {
		return spent, nil
	}
	ids := make([]string, len(accounts))
	for i, a := range accounts {
		ids[i], spent[a.ID] = a.ID, make([]int64, spentDays)
	}
	since := tx.spentSince()
	in, args := inList([]any{since}, ids)
	return spent, tx.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var day, amount int64
		err := rows.Scan(&id, &day, &amount)
		if err == nil {
			// The clock of another node may be ahead; its charges count as today's, as in [AccountRow].
			spent[id][min(day-since, spentDays-1)] += amount
		}
		return err
	}, fmt.Sprintf(`SELECT account_id, day, CAST(SUM(amount) AS BIGINT) FROM charge_days WHERE day >= $1 AND account_id IN (%s)
		GROUP BY account_id, day LIMIT %d`, in, len(ids)*keptDays), args...)
}

// PurgeChargeDays removes the sums of days that no list reads any more.
func (tx Books) PurgeChargeDays(ctx context.Context) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM charge_days WHERE day < $1`, dayOf(tx.Now)-keptDays)
}
