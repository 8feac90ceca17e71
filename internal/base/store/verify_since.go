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
	Charges *int64                  `json:"charges"` // their number, with purged ones; nil if an earlier version wrote the checkpoint
}

// checkpointAge is longer than a transaction of charges, and than the difference of two clocks: no
// charge is added that is older.
const checkpointAge = time.Minute

// newCharges are the sums of the charges since a time.
type newCharges struct {
	bookSums
	byLease    map[string]stoa.Credits
	accounts   map[string][2]int64 // amount and restOfSums
	begun      map[string][2]int64 // those of the hour of that time
	sums       map[string][2]int64 // as stored, of that whole hour and all later ones
	conditions []someAccounts      // that select these charges, instead of those of an account
}

// accountsTogether is the number of accounts of a condition of newCharges.
const accountsTogether = 500

// newCharges reads the charges since a time. Only accounts with sums in the hour of that time or later have any; PostgreSQL
// would read all charges if a subquery named them.
func (tx Books) newCharges(ctx context.Context, at time.Time) (n newCharges, err error) {
	n = newCharges{byLease: map[string]stoa.Credits{}, accounts: map[string][2]int64{}, begun: map[string][2]int64{}}
	hour := db.Micros(at) / hourMicros
	if n.sums, err = tx.hoursSince(ctx, hour, endOfHours); err != nil {
		return n, err
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(n.sums)), accountsTogether) {
		in, args := inList([]any{db.Micros(at)}, some)
		of := someAccounts{`${1} IN (` + strings.ReplaceAll(in, "$", "$$") + `) AND created_at >= $$1`, args}
		if err := tx.sumCharges(ctx, of, &n.bookSums); err != nil {
			return n, err
		}
		n.conditions = append(n.conditions, of)
	}
	for k, amount := range n.leases {
		n.byLease[k.lease] += amount
	}
	for k, sums := range n.hours {
		add := func(to map[string][2]int64) {
			to[k.account] = [2]int64{to[k.account][0] + sums[0], to[k.account][1] + sums[1]}
		}
		if add(n.accounts); k.hour == hour {
			add(n.begun)
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
var chargedOfAccounts = allAccounts.in(`SELECT a.id, a.granted - ` + unspentOfAccounts)

// Checkpoint returns the sums of books in which no difference was found. The transaction must be the
// snapshot that was checked, and charges the number of its charges.
func (tx Books) Checkpoint(ctx context.Context, charges int64) (c Checkpoint, err error) {
	c.At = tx.Now.Add(-checkpointAge)
	since, err := tx.newCharges(ctx, c.At)
	if err != nil {
		return c, err
	}
	c.Charges = new(charges - since.totals.Calls)
	if c.Charged, err = tx.creditsByID(ctx, chargedOfAccounts); err != nil {
		return c, err
	}
	// A closed lease that was charged since may be charged before that time too.
	if c.Leases, err = tx.creditsByID(ctx, `SELECT id, spent FROM leases WHERE is_open = 1`); err != nil {
		return c, err
	}
	for id := range since.byLease {
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
	for id, amount := range since.byLease {
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
// Its cost depends on the number of accounts and of new charges. It also returns the number of all charges.
func (tx Books) DifferencesSince(ctx context.Context, c Checkpoint) (all []Difference, charges int64, err error) {
	since, err := tx.newCharges(ctx, c.At)
	if err != nil {
		return nil, 0, err
	}
	for _, rule := range differences {
		found, err := tx.differencesOf(ctx, rule.what, allAccounts, rule.query)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, found...)
	}
	for _, of := range since.conditions {
		found, err := tx.brokenCharges(ctx, of, since.broken)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, found...)
	}
	compare := func(what, id, account string, have, want stoa.Credits) {
		if have != want {
			all = append(all, Difference{What: what, ID: id, AccountID: account, Have: have, Want: want})
		}
	}
	charged, err := tx.creditsByID(ctx, chargedOfAccounts)
	if err != nil {
		return nil, 0, err
	}
	for id, sum := range charged {
		compare("granted is balance, leases and charges together", id, id, sum, c.Charged[id]+stoa.Credits(since.accounts[id][0]))
	}
	leases := map[string]bool{}
	open, err := tx.creditsByID(ctx, `SELECT id, spent FROM leases WHERE is_open = 1`)
	if err != nil {
		return nil, 0, err
	}
	for _, some := range []map[string]stoa.Credits{open, since.byLease, c.Leases} {
		for id := range some {
			leases[id] = true
		}
	}
	for id := range leases {
		spent, isOpen := open[id]
		if want := c.Leases[id] + since.byLease[id]; !isOpen || spent != want {
			var account string
			if _, err := tx.Get(ctx, `SELECT account_id, spent FROM leases WHERE id = $1`, []any{id}, &account, &spent); err != nil {
				return nil, 0, err
			}
			compare("a lease has spent the sum of its charges", id, account, spent, want)
		}
	}
	windows, err := tx.creditsByID(ctx, `SELECT id, spent FROM budget_windows`)
	if err != nil {
		return nil, 0, err
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
	return all, *c.Charges + since.totals.Calls, nil
}
