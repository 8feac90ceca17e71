package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var accounts = newTable[stoa.Account]("accounts")

// InsertAccount adds an account without credits. It fills in an empty ID and CreatedAt.
func (tx Books) InsertAccount(ctx context.Context, a stoa.Account) (stoa.Account, error) {
	if a.ID == "" {
		a.ID = stoa.NewID("acc")
	}
	a.CreatedAt = tx.Now
	_, err := accounts.insert(ctx, tx.Tx, &a, "", "updated_at", db.Micros(tx.Now))
	return a, err
}

// Account returns the account with that id, also a deleted one, or CodeNotFound.
func (tx Books) Account(ctx context.Context, id string) (stoa.Account, error) {
	return accounts.one(ctx, tx.Tx, noAccount(id), `id = $1`, id)
}

func noAccount(id string) error { return stoa.Errorf(stoa.CodeNotFound, "There is no account %q.", id) }

// An AccountRow is an account with the data shown to operators.
type AccountRow struct {
	stoa.Account
	Funds
	Spent    stoa.Credits // charged in the last 30 days of UTC, today included
	LastUsed time.Time    // last use of its keys, to within a minute; zero means never
}

// An AccountFilter narrows a list of accounts. Empty members match all.
type AccountFilter struct {
	Text  string       // a part of the name, the email or the id, ignoring case
	Below stoa.Credits // upper bound of the unspent credits
	// Month is the month of [SortCharged]; with it the list has deleted accounts, too. Charged narrows the list in that order:
	// above 0 to accounts with charges in the month, below 0 to those without, that are not deleted.
	Month   stoa.Month
	Charged int
}

// unspent is the SQL of the credits of an account, in a table of that name, that are
// leased and not spent.
func unspent(accounts string) string {
	return `(SELECT CAST(COALESCE(SUM(amount - spent), 0) AS BIGINT) FROM leases WHERE account_id = ` + accounts + `.id AND is_open = 1)`
}

// accountRow returns a SELECT of the columns of [AccountRow], with sums from the day of the
// first placeholder on, over the following source named a.
func accountRow() string {
	return `SELECT ` + accounts.columns + `, granted, balance, owed, ` + unspent("a") + `,
		(SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM charge_days WHERE account_id = a.id AND day >= $1),
		(SELECT COALESCE(MAX(last_used_at), 0) FROM keys WHERE account_id = a.id) FROM `
}

func scanAccountRow(rows *sql.Rows) (a AccountRow, err error) {
	var used int64
	err = rows.Scan(append(accounts.dest(&a.Account), &a.Granted, &a.Balance, &a.Owed, &a.Leased, &a.Spent, &used)...)
	a.LastUsed = db.Time(used)
	return a, err
}

func (tx Books) spentSince() int64 { return dayOf(tx.Now) - spentDays + 1 }

// AccountRow returns the account with that id, or CodeNotFound if it is missing or deleted.
func (tx Books) AccountRow(ctx context.Context, id string) (AccountRow, error) {
	a, found, err := first(ctx, tx.Tx, scanAccountRow, accountRow()+`accounts a WHERE id = $2 AND deleted_at = 0`, tx.spentSince(), id)
	if err == nil && !found {
		err = noAccount(id)
	}
	return a, err
}

// Accounts lists accounts that are not deleted (but see [AccountFilter.Month]), also by name, or by unspent credits (SortBalance), the charges of [AccountRow.Spent]
// (SortSpent), the last use of a key (SortUsed) or the charges of a month (SortCharged), and returns the cursor of the next
// page, or the zero cursor. These four orders read all accounts, and their sums by day or by hour, for each page.
// With a filter a page may be short or empty although there is a next one, because it reads at
// most 2,000 accounts.
func (tx Books) Accounts(ctx context.Context, f AccountFilter, p Page) ([]AccountRow, Cursor, error) {
	live := ` AND deleted_at = 0`
	if f.Month != "" {
		live = ""
	}
	q := filtered{from: `FROM accounts WHERE $1 > 0` + live, args: []any{tx.spentSince()}, search: textSearch{f.Text, []string{"name", "email", "id"}}}
	if f.Below > 0 {
		q.tests = append(q.tests, test{`balance + ` + unspent("looked") + ` < $%d`, int64(f.Below)})
	}
	sums, args, err := tx.accountSums(ctx, p.By, f.Month)
	if err != nil {
		return nil, Cursor{}, err
	}
	if p.By != "" {
		q = q.sorted(withSums(p.By, sums, f), args...)
	}
	return filteredPage(ctx, tx.Tx, p, q, scanAccountRow, func(a AccountRow) Cursor { return p.cursor(a.CreatedAt, a.Name, a.ID) },
		accountRow()+`(`, `) a`)
}

// accountSums returns a table of account_id and amount for an order of [Books.Accounts], and its arguments.
func (tx Books) accountSums(ctx context.Context, by string, month stoa.Month) (table string, args []any, err error) {
	switch by {
	case SortBalance:
		return `(SELECT account_id, CAST(SUM(amount - spent) AS BIGINT) AS amount FROM leases WHERE is_open = 1 GROUP BY account_id)`, nil, nil
	case SortUsed:
		return `(SELECT account_id, MAX(last_used_at) AS amount FROM keys GROUP BY account_id)`, nil, nil
	case SortSpent:
		return daySums(tx.spentSince(), dayOf(tx.Now)+keptDays)
	case SortCharged:
		_, final, err := tx.statementMonths(ctx)
		if err != nil {
			return "", nil, err
		}
		if !month.End().After(final) {
			return `(SELECT account_id, charged AS amount FROM statements WHERE month = $1)`, []any{string(month)}, nil
		}
		if first := dayOf(month.Start()); first > dayOf(tx.Now)-keptDays { // fewer rows than those of hours
			return daySums(first, dayOf(month.End()))
		}
		table, args, err = tx.hours(ctx, ofEach, "", month.Start(), month.End(), nil)
		return `(SELECT account_id, CAST(SUM(amount) AS BIGINT) AS amount FROM ` + table + ` GROUP BY account_id)`, args, err
	}
	return "", nil, nil
}

// daySums returns the sums of accounts from a day on and before another. "+ 0" keeps databases from the index by day, because
// nearly all rows are wanted, in the order of their accounts.
func daySums(from, to int64) (table string, args []any, err error) {
	return `(SELECT account_id, CAST(SUM(amount) AS BIGINT) AS amount FROM charge_days WHERE day + 0 >= $1 AND day + 0 < $2 GROUP BY account_id)`, []any{from, to}, nil
}

// withSums returns the accounts with a column sort_key from a table of [Books.accountSums].
func withSums(by, table string, f AccountFilter) string {
	where, own := ` WHERE deleted_at = 0`, ``
	if by == SortBalance {
		own = `a.balance + `
	}
	switch {
	case f.Charged > 0:
		where = ` WHERE sort_key > 0`
	case f.Charged < 0:
		where = fmt.Sprintf(` WHERE sort_key = 0 AND deleted_at = 0 AND created_at < %d`, db.Micros(f.Month.End()))
	case f.Month != "":
		where = ` WHERE 1 = 1`
	}
	return `FROM (SELECT a.*, ` + own + `COALESCE(s.amount, 0) AS sort_key FROM accounts a LEFT JOIN ` + table + ` s ON s.account_id = a.id) accounts` + where
}

// CountUncharged returns the number of accounts without charges in a month.
func (tx Books) CountUncharged(ctx context.Context, month stoa.Month) (n int64, err error) {
	table, args, err := tx.accountSums(ctx, SortCharged, month)
	if err != nil {
		return 0, err
	}
	_, err = tx.Get(ctx, `SELECT COUNT(*) `+withSums(SortCharged, table, AccountFilter{Month: month, Charged: -1}), args, &n)
	return n, err
}

// HasAccounts reports whether there is any account; a store without one is new.
func (tx Books) HasAccounts(ctx context.Context) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM accounts LIMIT 1`, nil, &one)
}

// LockAccounts makes other nodes wait until the commit before they create or change accounts. On
// SQLite it does nothing, since there is one writer.
func (tx Books) LockAccounts(ctx context.Context) error {
	if !tx.Postgres() {
		return nil
	}
	_, err := tx.Exec(ctx, `LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE`)
	return err
}

// UpdateAccount writes an account's name, email, plan, suspension and default space. It
// fails with CodeNotFound if the account does not exist.
func (tx Books) UpdateAccount(ctx context.Context, a stoa.Account) error {
	n, err := tx.Exec(ctx, `UPDATE accounts SET name = $2, email = $3, plan = $4, suspended = $5, default_space_id = $6, updated_at = $7 WHERE id = $1`,
		a.ID, a.Name, a.Email, a.Plan, db.Bit(a.Suspended), a.DefaultSpaceID, db.Micros(tx.Now))
	if err == nil && n == 0 {
		err = noAccount(a.ID)
	}
	return err
}
