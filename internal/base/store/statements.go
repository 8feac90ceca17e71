package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var statements = newTable[stoa.Statement]("statements")

// Statement returns the statement of an account: the stored one if it is final, otherwise one that
// is computed from the ledger. Statements of months before the first one that could be kept
// completely are CodeNotFound. The transaction must be a snapshot.
func (tx Books) Statement(ctx context.Context, accountID string, month stoa.Month) (stoa.Statement, error) {
	stored, found, err := statements.first(ctx, tx.Tx, `account_id = $1 AND month = $2`, accountID, string(month))
	if err != nil {
		return stored, err
	}
	if found {
		stored.Final = true
		return stored, nil
	}
	first, final, err := tx.statementMonths(ctx)
	if err != nil {
		return stoa.Statement{}, err
	}
	if month < first {
		return stoa.Statement{}, stoa.Errorf(stoa.CodeNotFound, "There is no statement of %s: the first one is of %s, because receipts of earlier months were removed.", month, first)
	}
	return tx.computeStatement(ctx, accountID, month, final)
}

// computeStatement computes a statement from the ledger. For the months before final it uses their
// statements, because their receipts may have been removed.
func (tx Books) computeStatement(ctx context.Context, accountID string, month stoa.Month, final time.Time) (stoa.Statement, error) {
	s := stoa.Statement{AccountID: accountID, Month: month, Grants: []stoa.StatementGrants{}, Charges: []stoa.StatementCharge{}}
	funds, err := tx.Funds(ctx, accountID)
	if err != nil {
		return s, err
	}
	start, end := db.Micros(month.Start()), db.Micros(month.End())
	// The charges before the month are all charges without those since, because their receipts may
	// have been removed.
	var inFinal, later, granted stoa.Credits
	if _, err := tx.Get(ctx, `SELECT CAST(COALESCE(SUM(charged), 0) AS BIGINT) FROM statements WHERE account_id = $1 AND month >= $2 AND month < $3`,
		[]any{accountID, string(month), string(stoa.MonthOf(final))}, &inFinal); err != nil {
		return s, err
	}
	since := month.Start()
	if final.After(since) {
		since = final
	}
	charged, args, err := tx.hours(ctx, ofOne, accountID, since, time.Time{}, nil)
	if err != nil {
		return s, err
	}
	if _, err := tx.Get(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM `+charged, args, &later); err != nil {
		return s, err
	}
	if _, err := tx.Get(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM grants WHERE account_id = $1 AND created_at < $2`, []any{accountID, start}, &granted); err != nil {
		return s, err
	}
	s.Opening = granted - (funds.spent() - inFinal - later)
	s.Closing = s.Opening
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var g stoa.StatementGrants
		err := rows.Scan(&g.Kind, &g.Count, &g.Amount)
		s.Grants = append(s.Grants, g)
		s.Closing += g.Amount
		return err
	}, `SELECT kind, COUNT(*), CAST(SUM(amount) AS BIGINT) FROM grants WHERE account_id = $1 AND created_at >= $2 AND created_at < $3
		GROUP BY kind ORDER BY kind LIMIT $4`, accountID, start, end, maxUsageRows); err != nil {
		return s, err
	}
	if s.Final = !month.End().After(final); s.Final { // a final month without a statement had no charges
		return s, nil
	}
	if charged, args, err = tx.hours(ctx, ofOne, accountID, month.Start(), month.End(), nil); err != nil {
		return s, err
	}
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		var c stoa.StatementCharge
		var day int64
		err := rows.Scan(&day, &c.Model, &c.Calls, &c.InputTokens, &c.OutputTokens, &c.Amount)
		c.Day = time.Unix(day*86_400, 0).UTC().Format(time.DateOnly)
		s.Charges = append(s.Charges, c)
		s.Charged += c.Amount
		if len(s.Charges) > maxUsageRows {
			return tooManyRows()
		}
		return err
	}, `SELECT CAST(created_at / 86400000000 AS BIGINT), served, CAST(SUM(calls) AS BIGINT), CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT), CAST(SUM(amount) AS BIGINT)
		FROM `+charged+fmt.Sprintf(` GROUP BY 1, 2 ORDER BY 1, 2 LIMIT %d`, maxUsageRows+1), args...)
	s.Closing -= s.Charged
	return s, err
}

// monthTogether is the number of statements of a month that are read together, so that memory stays bounded.
const monthTogether = 500

// ChargesOfMonth returns the charges of all accounts in a month by model: those of the statements if
// they are final, since receipts of the month may have been removed, otherwise those of the ledger.
// The transaction must be a snapshot.
func (tx Books) ChargesOfMonth(ctx context.Context, month stoa.Month) ([]stoa.StatementCharge, error) {
	var all stoa.Statement
	_, final, err := tx.statementMonths(ctx)
	if err != nil {
		return nil, err
	}
	if month.End().After(final) {
		usage, err := tx.UsageOfAll(ctx, month.Start(), month.End(), time.UTC, []string{"model"})
		for _, u := range usage {
			all.Charges = append(all.Charges, stoa.StatementCharge{Model: u.Group[0], Calls: u.Calls, InputTokens: u.Usage.InputTokens, OutputTokens: u.Usage.OutputTokens, Amount: u.Amount})
		}
		return all.ByModel(), err
	}
	for after := ""; ; {
		some, err := list(ctx, tx.Tx, statements.scan, `SELECT `+statements.columns+` FROM statements WHERE account_id > $1 AND month = $2 ORDER BY account_id LIMIT $3`, after, string(month), monthTogether)
		if err != nil {
			return nil, err
		}
		for _, s := range some {
			after = s.AccountID
			all.Charges = append(all.Charges, s.Charges...)
		}
		all.Charges = all.ByModel()
		if len(some) < monthTogether {
			return all.Charges, nil
		}
	}
}

// statementMonths returns the first month that has statements, and the end of the last final one,
// the zero time if none is final.
func (tx Books) statementMonths(ctx context.Context) (first stoa.Month, final time.Time, err error) {
	var last stoa.Month
	if _, err := tx.Get(ctx, `SELECT COALESCE(MIN(month), ''), COALESCE(MAX(month), '') FROM statement_months`, nil, &first, &last); err != nil {
		return "", time.Time{}, err
	}
	if last != "" {
		return first, last.End(), nil
	}
	var begun, purged int64
	if _, err := tx.Get(ctx, `SELECT COALESCE((SELECT MIN(created_at) FROM accounts), 0), COALESCE((SELECT MAX(last_at) FROM purged_charges), 0)`, nil, &begun, &purged); err != nil {
		return "", time.Time{}, err
	}
	first = stoa.MonthOf(db.Time(begun))
	if begun == 0 {
		first = stoa.MonthOf(tx.Now)
	}
	if purged > 0 {
		first = max(first, stoa.MonthOf(db.Time(purged)).Next())
	}
	return first, time.Time{}, nil
}

// FinalStatements returns the month after the last final one, which is the next to become final,
// and the end of the final ones, the zero time if there are none.
func (tx Books) FinalStatements(ctx context.Context) (next stoa.Month, until time.Time, err error) {
	next, until, err = tx.statementMonths(ctx)
	if !until.IsZero() {
		next = stoa.MonthOf(until)
	}
	return next, until, err
}

// AccountsOfMonth lists accounts that had grants or charges in a month and have no statement of it, by id and
// after the given one.
func (tx Books) AccountsOfMonth(ctx context.Context, month stoa.Month, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM accounts a WHERE id > $1
		AND (EXISTS (SELECT 1 FROM charges c WHERE c.account_id = a.id AND c.created_at >= $2 AND c.created_at < $3)
			OR EXISTS (SELECT 1 FROM grants g WHERE g.account_id = a.id AND g.created_at >= $2 AND g.created_at < $3))
		AND NOT EXISTS (SELECT 1 FROM statements s WHERE s.account_id = a.id AND s.month = $4) ORDER BY id LIMIT $5`,
		after, db.Micros(month.Start()), db.Micros(month.End()), string(month), limit)
}

// InsertStatements stores statements of a month that is over. Those that are already stored remain.
func (tx Books) InsertStatements(ctx context.Context, list []stoa.Statement) error {
	for i := range list {
		list[i].FinalAt = tx.Now
		if _, err := statements.insert(ctx, tx.Tx, &list[i], ` ON CONFLICT (account_id, month) DO NOTHING`); err != nil {
			return err
		}
	}
	return nil
}

// EndStatements marks the statements of a month as final.
func (tx Books) EndStatements(ctx context.Context, month stoa.Month) error {
	_, err := tx.Exec(ctx, `INSERT INTO statement_months (month, final_at) VALUES ($1, $2) ON CONFLICT (month) DO NOTHING`, string(month), db.Micros(tx.Now))
	return err
}

// statementDifferences checks the stored statements of accounts against the ledger, and the sums of their charges by hour.
func (tx Books) statementDifferences(ctx context.Context, of someAccounts, hours map[hourKey][2]int64) (all []Difference, err error) {
	ids, err := tx.texts(ctx, of.in(`SELECT DISTINCT account_id FROM statements WHERE [of account_id]`), of.args...)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	charges := map[string]map[stoa.Month]stoa.Credits{}
	for k, sums := range hours {
		if charges[k.account] == nil {
			charges[k.account] = map[stoa.Month]stoa.Credits{}
		}
		charges[k.account][stoa.MonthOf(time.Unix(k.hour*3600, 0))] += stoa.Credits(sums[0])
	}
	for _, id := range ids {
		if charges[id] == nil {
			charges[id] = map[stoa.Month]stoa.Credits{}
		}
		found, err := tx.checkStatements(ctx, id, charges[id])
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// checkStatements computes the closing balances of an account's statements backwards from its unspent
// credits, because the oldest receipts may be missing. The charges of months without receipts are
// those of their statements.
func (tx Books) checkStatements(ctx context.Context, accountID string, charges map[stoa.Month]stoa.Credits) (all []Difference, err error) {
	stored, err := list(ctx, tx.Tx, statements.scan, `SELECT `+statements.columns+` FROM statements WHERE account_id = $1 ORDER BY month DESC`, accountID)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	grants, err := tx.grantsByMonth(ctx, accountID)
	if err != nil {
		return nil, err
	}
	var purged int64
	if _, err := tx.Get(ctx, `SELECT COALESCE(MAX(last_at), 0) FROM purged_charges WHERE account_id = $1`, []any{accountID}, &purged); err != nil {
		return nil, err
	}
	funds, err := tx.Funds(ctx, accountID)
	if err != nil {
		return nil, err
	}
	balance := funds.Balance + funds.Leased
	note := func(s stoa.Statement, what string, have, want stoa.Credits) {
		if have != want {
			all = append(all, Difference{What: what, ID: string(s.Month), AccountID: accountID, Have: have, Want: want})
		}
	}
	month := stoa.MonthOf(tx.Now) // balance is that at its end
	for _, s := range stored {
		for ; month > s.Month; month = stoa.MonthOf(month.Start().Add(-1)) {
			balance += charges[month] - grants[month]
		}
		note(s, "a statement closes with the balance at the end of its month", s.Closing, balance)
		if s.Month.Start().After(db.Time(purged)) {
			note(s, "a statement has the charges of its month", s.Charged, charges[month])
		}
		charges[month] = s.Charged
		var lines, granted stoa.Credits
		for _, c := range s.Charges {
			lines += c.Amount
		}
		for _, g := range s.Grants {
			granted += g.Amount
		}
		note(s, "the lines of a statement add up to its charges", lines, s.Charged)
		note(s, "a statement has the grants of its month", granted, grants[month])
		note(s, "a statement closes with its opening, its grants and its charges", s.Closing, s.Opening+granted-s.Charged)
	}
	return all, nil
}

func (tx Books) grantsByMonth(ctx context.Context, accountID string) (map[stoa.Month]stoa.Credits, error) {
	sums := map[stoa.Month]stoa.Credits{}
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var day int64
		var amount stoa.Credits
		err := rows.Scan(&day, &amount)
		sums[stoa.MonthOf(time.Unix(day*86_400, 0))] += amount
		return err
	}, `SELECT CAST(created_at / 86400000000 AS BIGINT), CAST(SUM(amount) AS BIGINT) FROM grants WHERE account_id = $1 GROUP BY 1`, accountID)
	return sums, err
}
