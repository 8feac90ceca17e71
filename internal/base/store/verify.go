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

// differences lists the rules of the ledger, each as a query for the rows that break it: id, account, the
// stored value, the expected value. [of column] becomes the condition that the column is the requested
// account, or nothing. Rules of kind eachCharge are about single charges, and those of sumsOfAll about sums of
// all charges.
var differences = []struct {
	what, query string
	kind        ruleKind
}{
	{
		"granted is the sum of the grants",
		`SELECT a.id, a.id, a.granted, CAST(COALESCE(g.total, 0) AS BIGINT)
		FROM accounts a LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM grants WHERE [of account_id] GROUP BY account_id) g ON g.account_id = a.id
		WHERE [of a.id] AND a.granted <> COALESCE(g.total, 0)`,
		otherRows,
	},
	{
		"granted is balance, leases and charges together",
		`SELECT a.id, a.id, a.granted, CAST(a.balance + COALESCE(l.total, 0) + COALESCE(c.total, 0) + COALESCE(p.total, 0) AS BIGINT)
		FROM accounts a
		LEFT JOIN (SELECT account_id, SUM(amount - spent) AS total FROM leases WHERE is_open = 1 AND [of account_id] GROUP BY account_id) l ON l.account_id = a.id
		LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM charges WHERE [of account_id] GROUP BY account_id) c ON c.account_id = a.id
		LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM purged_charges WHERE [of account_id] GROUP BY account_id) p ON p.account_id = a.id
		WHERE [of a.id] AND a.granted <> a.balance + COALESCE(l.total, 0) + COALESCE(c.total, 0) + COALESCE(p.total, 0)`,
		sumsOfAll,
	},
	{
		"an account owes what withdrawals could not take and grants have not paid",
		`SELECT a.id, a.id, a.owed, CAST(COALESCE(w.total, 0) + COALESCE(g.total, 0) AS BIGINT)
		FROM accounts a
		LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM withdrawals WHERE [of account_id] GROUP BY account_id) w ON w.account_id = a.id
		LEFT JOIN (SELECT account_id, SUM(amount) AS total FROM grants WHERE amount < 0 AND [of account_id] GROUP BY account_id) g ON g.account_id = a.id
		WHERE [of a.id] AND a.owed <> COALESCE(w.total, 0) + COALESCE(g.total, 0)`,
		otherRows,
	},
	{
		"a balance is not below zero",
		`SELECT id, id, balance, 0 FROM accounts WHERE balance < 0 AND [of id]`,
		otherRows,
	},
	{
		"a lease has spent the sum of its charges",
		`SELECT l.id, l.account_id, l.spent, CAST(COALESCE(c.total, 0) + COALESCE(p.amount, 0) AS BIGINT)
		FROM leases l LEFT JOIN (SELECT lease_id, account_id, SUM(amount) AS total FROM charges WHERE [of account_id] GROUP BY lease_id, account_id) c ON c.lease_id = l.id AND c.account_id = l.account_id
		LEFT JOIN purged_charges p ON p.lease_id = l.id AND p.account_id = l.account_id
		WHERE [of l.account_id] AND l.spent <> COALESCE(c.total, 0) + COALESCE(p.amount, 0)`,
		sumsOfAll,
	},
	{
		"a lease has not spent more than it has",
		`SELECT id, account_id, spent, amount FROM leases WHERE spent > amount AND [of account_id]`,
		otherRows,
	},
	{
		"an open lease belongs to a living node",
		`SELECT l.id, l.account_id, 1, 0 FROM leases l LEFT JOIN nodes n ON n.id = l.node_id WHERE l.is_open = 1 AND COALESCE(n.alive, 0) = 0 AND [of l.account_id]`,
		otherRows,
	},
	{
		"a charge that costs something names a lease of its account",
		`SELECT c.id, c.account_id, c.amount, 0 FROM charges c LEFT JOIN leases l ON l.id = c.lease_id AND l.account_id = c.account_id WHERE l.id IS NULL AND c.amount > 0 AND [of c.account_id]`,
		eachCharge,
	},
	{
		"a charge belongs to an account",
		`SELECT c.id, c.account_id, c.amount, 0 FROM charges c LEFT JOIN accounts a ON a.id = c.account_id WHERE a.id IS NULL AND [of c.account_id]`,
		eachCharge,
	},
	{
		"a charge is its usage at its price",
		`SELECT id, account_id, amount + written_off, ` + priced + ` FROM charges WHERE capped = 0 AND amount + written_off <> ` + priced + ` AND [of account_id]`,
		eachCharge,
	},
	{
		"a capped charge is at most its usage at its price",
		`SELECT id, account_id, amount + written_off, ` + priced + ` FROM charges WHERE capped = 1 AND amount + written_off > ` + priced + ` AND [of account_id]`,
		eachCharge,
	},
	{
		"only a clamped charge writes off",
		`SELECT id, account_id, written_off, 0 FROM charges WHERE clamped = 0 AND written_off <> 0 AND [of account_id]`,
		eachCharge,
	},
}

type ruleKind int

const (
	otherRows ruleKind = iota
	eachCharge
	sumsOfAll
)

// ofAccount matches the place where a rule is limited to an account.
var ofAccount = regexp.MustCompile(`\[of (([a-z]+\.)?[a-z_]+)\]`)

// priced is [stoa.Price.Cost] in SQL, so that a check need not read all charges into memory.
const priced = `((input_tokens - cached_tokens - cache_write_tokens) * price_input + cached_tokens * price_cached_input +
	(cache_write_tokens - cache_write_long_tokens) * COALESCE(price_cache_write, price_input) + cache_write_long_tokens * COALESCE(price_cache_write_long, price_input) +
	output_tokens * price_output + 999999) / 1000000`

// saved is [stoa.Price.Saved] in SQL.
const saved = `(cached_tokens * (price_input - price_cached_input)
	- (cache_write_tokens - cache_write_long_tokens) * CASE WHEN price_cache_write > price_input THEN price_cache_write - price_input ELSE 0 END
	- cache_write_long_tokens * CASE WHEN price_cache_write_long > price_input THEN price_cache_write_long - price_input ELSE 0 END) / 1000000`

// Differences computes the books again from their rows and returns the rows that
// differ, for one account or, with an empty id, for all.
func (tx Books) Differences(ctx context.Context, accountID string) ([]Difference, error) {
	var all []Difference
	var args []any
	cond := "1 = 1"
	if accountID != "" { // another text than for all, so that the indexes of an account are used
		args, cond = []any{accountID}, "${1} = $$1"
	}
	for _, rule := range differences {
		found, err := tx.differencesOf(ctx, rule.what, ofAccount.ReplaceAllString(rule.query, cond), args...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	found, err := tx.windowDifferences(ctx, accountID)
	if err != nil {
		return nil, fmt.Errorf("verify the windows of budgets: %w", err)
	}
	all = append(all, found...)
	if found, err = tx.statementDifferences(ctx, accountID); err != nil {
		return nil, fmt.Errorf("verify the statements: %w", err)
	}
	all = append(all, found...)
	if found, err = tx.hourDifferences(ctx, accountID); err != nil {
		return nil, fmt.Errorf("verify the sums of hours: %w", err)
	}
	return append(all, found...), nil
}

func (tx Books) differencesOf(ctx context.Context, what, query string, args ...any) ([]Difference, error) {
	found, err := list(ctx, tx.Tx, func(rows *sql.Rows) (Difference, error) {
		d := Difference{What: what}
		err := rows.Scan(&d.ID, &d.AccountID, &d.Have, &d.Want)
		return d, err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("verify %q: %w", what, err)
	}
	return found, nil
}

// BooksSize contains the numbers of rows in the books.
type BooksSize struct{ Accounts, Grants, Charges, Leases int64 }

// BooksSize returns the numbers of rows in the books.
func (tx Books) BooksSize(ctx context.Context) (BooksSize, error) {
	var n BooksSize
	_, err := tx.Get(ctx, `SELECT (SELECT COUNT(*) FROM accounts), (SELECT COUNT(*) FROM grants), (SELECT COUNT(*) FROM charges), (SELECT COUNT(*) FROM leases)`,
		nil, &n.Accounts, &n.Grants, &n.Charges, &n.Leases)
	return n, err
}
