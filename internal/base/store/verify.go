package store

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"stoa/internal/base/stoa"
)

// A Difference is a row of the ledger that disagrees with the sum of the other rows.
type Difference struct {
	What      string // the broken rule: see [Books.Differences]
	ID        string // id of the account, lease or charge
	AccountID string
	Have      stoa.Credits // the value of the row
	Want      stoa.Credits // the sum of the others
}

// String describes the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s of account %s says %d, the other rows add up to %d", d.What, d.ID, d.AccountID, d.Have, d.Want)
}

// differences lists the rules about rows other than charges, each as a query for the rows that break it: id, account,
// the stored value, the expected value. [of column] becomes a condition on the account in that column, see [someAccounts].
var differences = []struct{ what, query string }{
	{
		"granted is the sum of the grants",
		`SELECT a.id, a.id, a.granted, CAST(COALESCE(g.total, 0) AS BIGINT)
		FROM accounts a LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM grants WHERE [of account_id] GROUP BY account_id) g ON g.account_id = a.id
		WHERE [of a.id] AND a.granted <> COALESCE(g.total, 0)`,
	},
	{
		"an account owes what withdrawals could not take and grants have not paid",
		`SELECT a.id, a.id, a.owed, CAST(COALESCE(w.total, 0) + COALESCE(g.total, 0) AS BIGINT)
		FROM accounts a
		LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM withdrawals WHERE [of account_id] GROUP BY account_id) w ON w.account_id = a.id
		LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM grants WHERE amount < 0 AND [of account_id] GROUP BY account_id) g ON g.account_id = a.id
		WHERE [of a.id] AND a.owed <> COALESCE(w.total, 0) + COALESCE(g.total, 0)`,
	},
	{
		"a balance is not below zero",
		`SELECT id, id, balance, 0 FROM accounts WHERE balance < 0 AND [of id]`,
	},
	{
		"a lease has not spent more than it has",
		`SELECT id, account_id, spent, amount FROM leases WHERE spent > amount AND [of account_id]`,
	},
	{
		"an open lease belongs to a living node",
		`SELECT l.id, l.account_id, 1, 0 FROM leases l LEFT JOIN nodes n ON n.id = l.node_id WHERE l.is_open = 1 AND COALESCE(n.alive, 0) = 0 AND [of l.account_id]`,
	},
}

// chargeRules lists the rules about single charges: the condition of a charge that breaks one, the value of its row and the
// expected value. Rows of other tables are counted, since for EXISTS PostgreSQL may read all of a table.
var chargeRules = []struct{ what, broken, have, want string }{
	{
		"a charge that costs something names a lease of its account",
		`amount > 0 AND (SELECT COUNT(*) FROM leases l WHERE l.id = charges.lease_id AND l.account_id = charges.account_id) = 0`, `amount`, `0`,
	},
	{"a charge belongs to an account", `(SELECT COUNT(*) FROM accounts a WHERE a.id = charges.account_id) = 0`, `amount`, `0`},
	{"a charge is its usage at its price", `capped = 0 AND amount + written_off <> ` + priced, `amount + written_off`, priced},
	{"a capped charge is at most its usage at its price", `capped = 1 AND amount + written_off > ` + priced, `amount + written_off`, priced},
	{"only a clamped charge writes off", `clamped = 0 AND written_off <> 0`, `written_off`, `0`},
}

// someAccounts selects accounts in a query: cond becomes the condition of ofAccount, with args.
type someAccounts struct {
	cond string
	args []any
}

var allAccounts = someAccounts{cond: "1 = 1"}

// ofAccount matches the place where a query is limited to some accounts.
var ofAccount = regexp.MustCompile(`\[of (([a-z]+\.)?[a-z_]+)\]`)

func (of someAccounts) in(query string) string { return ofAccount.ReplaceAllString(query, of.cond) }

// priced is [stoa.Price.Cost] in SQL, so that a check need not read all charges into memory.
const priced = `((input_tokens - cached_tokens - cache_write_tokens) * price_input + cached_tokens * price_cached_input +
	(cache_write_tokens - cache_write_long_tokens) * COALESCE(price_cache_write, price_input) + cache_write_long_tokens * COALESCE(price_cache_write_long, price_input) +
	output_tokens * price_output + 999999) / 1000000`

// saved is [stoa.Price.Saved] in SQL.
const saved = `(cached_tokens * (price_input - price_cached_input)
	- (cache_write_tokens - cache_write_long_tokens) * CASE WHEN price_cache_write > price_input THEN price_cache_write - price_input ELSE 0 END
	- cache_write_long_tokens * CASE WHEN price_cache_write_long > price_input THEN price_cache_write_long - price_input ELSE 0 END) / 1000000`

// rangeCharges is the number of charges after which the whole check compares their sums, so that memory does not grow with
// the books.
const rangeCharges = 20_000

// Differences computes the books again from their rows and returns the rows that
// differ, for one account or, with an empty id, for all. It also returns the sums of the charges.
func (tx Books) Differences(ctx context.Context, accountID string) (all []Difference, totals ChargeTotals, err error) {
	return tx.differencesBy(ctx, accountID, rangeCharges)
}

func (tx Books) differencesBy(ctx context.Context, accountID string, together int) (all []Difference, totals ChargeTotals, err error) {
	filled, err := tx.HoursFilled(ctx)
	if err != nil {
		return nil, totals, err
	}
	of := allAccounts
	if accountID != "" { // another text than for all, so that the indexes of an account are used
		of = someAccounts{"${1} = $$1", []any{accountID}}
	}
	for _, rule := range differences {
		found, err := tx.differencesOf(ctx, rule.what, of, rule.query)
		if err != nil {
			return nil, totals, err
		}
		all = append(all, found...)
	}
	hours := map[hourKey][2]int64{} // of all accounts
	if accountID != "" {
		all, err = tx.sumDifferences(ctx, of, filled, &totals, hours, all)
		return all, totals, err
	}
	for after, more := "", true; more; {
		until := ""
		if more, err = tx.Get(ctx, `SELECT account_id FROM charges WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2`, []any{after, together}, &until); err != nil {
			return nil, totals, err
		}
		if of = (someAccounts{"${1} >= $$1", []any{after}}); more {
			of = someAccounts{"${1} >= $$1 AND ${1} < $$2", []any{after, until}}
		}
		if all, err = tx.sumDifferences(ctx, of, filled, &totals, hours, all); err != nil {
			return nil, totals, err
		}
		after = until
	}
	if filled {
		found, err := tx.hourDifferences(ctx, "the sums of all accounts in an hour are those of each", someAccounts{cond: "${1} = ''"}, hours, nil)
		return append(all, found...), totals, err
	}
	return all, totals, nil
}

// sumDifferences appends the differences between charges and the sums of them in other rows. It adds the sums to totals and, if
// the sums of hours are filled, those to hours.
func (tx Books) sumDifferences(ctx context.Context, of someAccounts, filled bool, totals *ChargeTotals, hours map[hourKey][2]int64, all []Difference) ([]Difference, error) {
	var s bookSums
	err := tx.sumCharges(ctx, of, &s)
	if err != nil {
		return nil, err
	}
	add := func(found []Difference, err error) error {
		all = append(all, found...)
		return err
	}
	if err := add(tx.brokenCharges(ctx, of, s.broken)); err != nil {
		return nil, err
	}
	charged := map[string]stoa.Credits{} // by account, with purged charges
	for k, sums := range s.hours {
		charged[k.account] += stoa.Credits(sums[0])
	}
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var k leaseKey
		var calls int64
		var amount stoa.Credits
		err := rows.Scan(&k.account, &k.lease, &calls, &amount)
		charged[k.account] += amount
		s.leases[k] += amount
		s.totals.add(ChargeTotals{calls, amount, amount})
		return err
	}, of.in(`SELECT account_id, lease_id, charges, amount FROM purged_charges WHERE [of account_id]`), of.args...); err != nil {
		return nil, fmt.Errorf("verify the purged charges: %w", err)
	}
	totals.add(s.totals)
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var granted, unspent stoa.Credits
		err := rows.Scan(&id, &granted, &unspent)
		if want := unspent + charged[id]; granted != want {
			all = append(all, Difference{"granted is balance, leases and charges together", id, id, granted, want})
		}
		return err
	}, of.in(`SELECT a.id, a.granted, `+unspentOfAccounts), of.args...); err != nil {
		return nil, fmt.Errorf("verify the accounts: %w", err)
	}
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var k leaseKey
		var spent stoa.Credits
		err := rows.Scan(&k.lease, &k.account, &spent)
		if want := s.leases[k]; spent != want {
			all = append(all, Difference{"a lease has spent the sum of its charges", k.lease, k.account, spent, want})
		}
		return err
	}, of.in(`SELECT id, account_id, spent FROM leases WHERE [of account_id]`), of.args...); err != nil {
		return nil, fmt.Errorf("verify the leases: %w", err)
	}
	if err := add(tx.windowDifferences(ctx, of, s.windows)); err != nil {
		return nil, fmt.Errorf("verify the windows of budgets: %w", err)
	}
	if err := add(tx.statementDifferences(ctx, of, s.hours)); err != nil {
		return nil, fmt.Errorf("verify the statements: %w", err)
	}
	if filled {
		err = add(tx.hourDifferences(ctx, "the sums of an hour are those of its charges", someAccounts{of.cond + ` AND ${1} <> ''`, of.args}, s.hours, hours))
	}
	return all, err
}

// brokenCharges lists the charges that break the rules of some bits.
func (tx Books) brokenCharges(ctx context.Context, of someAccounts, rules int64) (all []Difference, err error) {
	for i, rule := range chargeRules {
		if rules>>i&1 == 0 {
			continue
		}
		found, err := tx.differencesOf(ctx, rule.what, of, `SELECT id, account_id, `+rule.have+`, `+rule.want+` FROM charges WHERE `+rule.broken+` AND [of account_id]`)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// unspentOfAccounts ends a query for the unspent credits of someAccounts.
const unspentOfAccounts = `CAST(a.balance + COALESCE(l.total, 0) AS BIGINT) FROM accounts a
	LEFT JOIN (SELECT account_id, SUM(amount - spent) AS total FROM leases WHERE is_open = 1 AND [of account_id] GROUP BY account_id) l ON l.account_id = a.id WHERE [of a.id]`

func (tx Books) differencesOf(ctx context.Context, what string, of someAccounts, query string) ([]Difference, error) {
	found, err := list(ctx, tx.Tx, func(rows *sql.Rows) (Difference, error) {
		d := Difference{What: what}
		err := rows.Scan(&d.ID, &d.AccountID, &d.Have, &d.Want)
		return d, err
	}, of.in(query), of.args...)
	if err != nil {
		return nil, fmt.Errorf("verify %q: %w", what, err)
	}
	return found, nil
}

// BooksSize contains the numbers of rows in the books, and that of all charges, with purged ones.
type BooksSize struct{ Accounts, Grants, Charges, Leases int64 }

// BooksSize returns the numbers of rows in the books. charges is that of the charges, which the check has counted.
func (tx Books) BooksSize(ctx context.Context, charges int64) (BooksSize, error) {
	n := BooksSize{Charges: charges}
	_, err := tx.Get(ctx, `SELECT (SELECT COUNT(*) FROM accounts), (SELECT COUNT(*) FROM grants), (SELECT COUNT(*) FROM leases)`, nil, &n.Accounts, &n.Grants, &n.Leases)
	return n, err
}
