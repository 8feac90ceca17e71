package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A Checkpoint contains sums of books that were checked, from which [Books.DifferencesSince]
// continues. Charges count that were created before At.
type Checkpoint struct {
	At      time.Time               `json:"at"`
	Charged map[string]stoa.Credits `json:"charged"` // by account, with purged charges
	Leases  map[string]stoa.Credits `json:"leases"`  // of those that can still be charged
	Windows map[string]stoa.Credits `json:"windows"` // of budgets
	Hours   map[string][2]int64     `json:"hours"`   // by account: amount and restOfSums of the charges in the hour of At
}

// checkpointAge is longer than a transaction of charges, and than the difference of two clocks: no
// charge is added that is older.
const checkpointAge = time.Minute

// newCharges are the sums of the charges since a time.
type newCharges struct {
	leases, windows map[string]stoa.Credits
	accounts        map[string][2]int64 // amount and restOfSums
	begun           map[string][2]int64 // those of the hour of that time
	sums            map[string][2]int64 // as stored, of that whole hour and all later ones
	conditions      []sinceCondition
}

// A sinceCondition selects the new charges of some accounts, instead of an account, in a rule of [Books.Differences].
type sinceCondition struct {
	cond string
	args []any
}

// accountsTogether is the number of accounts of a sinceCondition.
const accountsTogether = 500

// newCharges reads the charges since a time. Only accounts with sums in the hour of that time or later have any; PostgreSQL
// would read all charges if a subquery named them.
func (tx Books) newCharges(ctx context.Context, at time.Time) (n newCharges, err error) {
	n = newCharges{leases: map[string]stoa.Credits{}, windows: map[string]stoa.Credits{}, accounts: map[string][2]int64{}, begun: map[string][2]int64{}}
	hour := db.Micros(at) / hourMicros
	if n.sums, err = tx.hoursSince(ctx, hour, endOfHours); err != nil {
		return n, err
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(n.sums)), accountsTogether) {
		in, args := inList([]any{db.Micros(at)}, some)
		n.conditions = append(n.conditions, sinceCondition{`${1} IN (` + strings.ReplaceAll(in, "$", "$$") + `) AND ${2}created_at >= $$1`, args})
	}
	for _, c := range n.conditions {
		if err := tx.Query(ctx, func(rows *sql.Rows) error {
			var account, lease, windows string
			var created, amount, rest int64
			err := rows.Scan(&account, &lease, &windows, &created, &amount, &rest)
			n.leases[lease] += stoa.Credits(amount)
			for id := range strings.FieldsSeq(windows) {
				n.windows[id] += stoa.Credits(amount)
			}
			add := func(to map[string][2]int64) { to[account] = [2]int64{to[account][0] + amount, to[account][1] + rest} }
			if add(n.accounts); created/hourMicros == hour {
				add(n.begun)
			}
			return err
		}, ofAccount.ReplaceAllString(`SELECT account_id, lease_id, windows, created_at, amount, `+restOfCharge+` FROM charges WHERE [of account_id]`, c.cond), c.args...); err != nil {
			return n, err
		}
	}
	return n, nil
}

// hoursSince returns the sums of hours from one on, until before another, by account: amount and restOfSums.
func (tx Books) hoursSince(ctx context.Context, from, to int64) (map[string][2]int64, error) {
	sums := map[string][2]int64{}
	return sums, tx.Query(ctx, func(rows *sql.Rows) error {
		var account string
		var amount, rest int64
		err := rows.Scan(&account, &amount, &rest)
		sums[account] = [2]int64{amount, rest}
		return err
	}, `SELECT account_id, CAST(SUM(amount) AS BIGINT), CAST(SUM(`+restOfSums+`) AS BIGINT) FROM charge_hours WHERE hour >= $1 AND hour < $2 AND account_id <> '' GROUP BY account_id`, from, to)
}

func (tx Books) creditsByID(ctx context.Context, query string) (map[string]stoa.Credits, error) {
	all := map[string]stoa.Credits{}
	return all, tx.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var amount stoa.Credits
		err := rows.Scan(&id, &amount)
		all[id] = amount
		return err
	}, query)
}

// chargedOfAccounts are the charges of each account by its other rows.
const chargedOfAccounts = `SELECT a.id, CAST(a.granted - a.balance - COALESCE(l.total, 0) AS BIGINT) FROM accounts a
	LEFT JOIN (SELECT account_id, SUM(amount - spent) AS total FROM leases WHERE is_open = 1 GROUP BY account_id) l ON l.account_id = a.id`

// Checkpoint returns the sums of books in which no difference was found. The transaction must be the
// snapshot that was checked.
func (tx Books) Checkpoint(ctx context.Context) (c Checkpoint, err error) {
	c.At = tx.Now.Add(-checkpointAge)
	since, err := tx.newCharges(ctx, c.At)
	if err != nil {
		return c, err
	}
	if c.Charged, err = tx.creditsByID(ctx, chargedOfAccounts); err != nil {
		return c, err
	}
	// A closed lease that was charged since may be charged before that time too.
	if c.Leases, err = tx.creditsByID(ctx, `SELECT id, spent FROM leases WHERE is_open = 1`); err != nil {
		return c, err
	}
	for id := range since.leases {
		var spent stoa.Credits
		if _, err := tx.Get(ctx, `SELECT spent FROM leases WHERE id = $1`, []any{id}, &spent); err != nil {
			return c, err
		}
		c.Leases[id] = spent
	}
	if c.Windows, err = tx.creditsByID(ctx, `SELECT id, spent FROM budget_windows`); err != nil {
		return c, err
	}
	for id, sums := range since.accounts {
		c.Charged[id] -= stoa.Credits(sums[0])
	}
	for id, amount := range since.leases {
		c.Leases[id] -= amount
	}
	for id, amount := range since.windows {
		c.Windows[id] -= amount
	}
	hour := db.Micros(c.At) / hourMicros
	if c.Hours, err = tx.hoursSince(ctx, hour, hour+1); err != nil {
		return c, err
	}
	for id, less := range since.begun {
		c.Hours[id] = [2]int64{c.Hours[id][0] - less[0], c.Hours[id][1] - less[1]}
	}
	return c, nil
}

// DifferencesSince is [Books.Differences] for what changed since a checkpoint: grants, balances and open
// leases of all accounts, and the charges since then. It does not read older charges, or statements.
// Its cost depends on the number of accounts and of new charges.
func (tx Books) DifferencesSince(ctx context.Context, c Checkpoint) (all []Difference, err error) {
	since, err := tx.newCharges(ctx, c.At)
	if err != nil {
		return nil, err
	}
	for _, rule := range differences {
		conditions := []sinceCondition{{cond: "1 = 1"}}
		switch rule.kind {
		case eachCharge:
			conditions = since.conditions
		case sumsOfAll:
			continue // below, from the checkpoint
		}
		for _, of := range conditions {
			found, err := tx.differencesOf(ctx, rule.what, ofAccount.ReplaceAllString(rule.query, of.cond), of.args...)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	compare := func(what, id, account string, have, want stoa.Credits) {
		if have != want {
			all = append(all, Difference{What: what, ID: id, AccountID: account, Have: have, Want: want})
		}
	}
	charged, err := tx.creditsByID(ctx, chargedOfAccounts)
	if err != nil {
		return nil, err
	}
	for id, sum := range charged {
		compare("granted is balance, leases and charges together", id, id, sum, c.Charged[id]+stoa.Credits(since.accounts[id][0]))
	}
	leases := map[string]bool{}
	open, err := tx.creditsByID(ctx, `SELECT id, spent FROM leases WHERE is_open = 1`)
	if err != nil {
		return nil, err
	}
	for _, some := range []map[string]stoa.Credits{open, since.leases, c.Leases} {
		for id := range some {
			leases[id] = true
		}
	}
	for id := range leases {
		spent, isOpen := open[id]
		if want := c.Leases[id] + since.leases[id]; !isOpen || spent != want {
			var account string
			if _, err := tx.Get(ctx, `SELECT account_id, spent FROM leases WHERE id = $1`, []any{id}, &account, &spent); err != nil {
				return nil, err
			}
			compare("a lease has spent the sum of its charges", id, account, spent, want)
		}
	}
	windows, err := tx.creditsByID(ctx, `SELECT id, spent FROM budget_windows`)
	if err != nil {
		return nil, err
	}
	for id, spent := range windows {
		compare("a window of a budget has spent the sum of its charges", id, "", spent, c.Windows[id]+since.windows[id])
	}
	for id, sum := range since.sums {
		before, later := c.Hours[id], since.accounts[id]
		for i := range sum {
			compare("the sums of an hour are those of its charges", "since "+c.At.Format(time.RFC3339), id, stoa.Credits(sum[i]), stoa.Credits(before[i]+later[i]))
		}
	}
	return all, nil
}
