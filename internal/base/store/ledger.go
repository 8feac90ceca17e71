package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// EntryKind is the kind of an [Entry].
type EntryKind string

// The kinds of entries.
const (
	EntryGrant  EntryKind = "grant"
	EntryCharge EntryKind = "charge"
)

// An Entry is one line of an account's ledger.
type Entry struct {
	ID        string // id of the grant or charge
	Kind      EntryKind
	Effect    stoa.Credits // on the balance: above zero for grants, below or zero for charges
	Ref       string       // a grant's external reference, a charge's id
	Reason    string       // a grant's reason, the model that a charge is for
	CreatedAt time.Time
}

func scanEntry(rows *sql.Rows) (e Entry, err error) {
	var created int64
	err = rows.Scan(&e.ID, &e.Kind, &e.Effect, &e.Ref, &e.Reason, &created)
	e.CreatedAt = db.Time(created)
	return e, err
}

// Entries lists an account's ledger. It lists purged charges as one entry per lease, dated like the
// newest of them, so that the entries still add up.
func (tx Books) Entries(ctx context.Context, accountID string, p Page) ([]Entry, bool, error) {
	where, order, args := p.clause(2)
	part := func(name, columns, table string) string {
		return `SELECT * FROM (SELECT ` + columns + ` FROM ` + table + ` WHERE account_id = $1` + where + order + `) AS ` + name
	}
	return listPage(ctx, tx.Tx, p, scanEntry, `SELECT id, kind, effect, ref, reason, created_at FROM (`+
		part(`granted`, `id, 'grant' AS kind, amount AS effect, COALESCE(external_ref, '') AS ref, reason, created_at`, `grants`)+` UNION ALL `+
		part(`charged`, `id, 'charge' AS kind, -amount AS effect, id AS ref, served AS reason, created_at`, `charges`)+` UNION ALL `+
		part(`purged`, `id, 'charge' AS kind, -amount AS effect, '' AS ref, 'receipts past their retention: ' || charges AS reason, created_at`,
			`(SELECT lease_id AS id, account_id, charges, amount, last_at AS created_at FROM purged_charges) AS sums`)+
		`) AS entries WHERE 1 = 1`+order, append([]any{accountID}, args...)...)
}

// dimensions maps the groupings of usage to their SQL; [dayOfZone] returns that of days.
var dimensions = map[string]string{
	ByAccount:  "account_id",
	"day":      "",
	"model":    "served",
	"key":      "key_id",
	"member":   "member_id",
	"agent":    "agent_id",
	"space":    "space_id",
	"session":  "session_id",
	"endUser":  "end_user",
	"provider": "provider",
}

// ofHours are the dimensions of the sums of hours.
var ofHours = []string{"day", "model", "key", ByProvider, ByAccount}

// ofFailures are the dimensions by which failed requests can be grouped too.
var ofFailures = []string{"day", "model", ByProvider, ByAccount}

// A UsageRow is the usage of one group of calls.
type UsageRow struct {
	Group      []string // a value for each requested dimension; a day as 2006-01-02
	Name       string   // name of the account, if usage of all accounts is grouped by account
	Calls      int64    // charged calls
	Failed     int64    // requests that failed free of charge, in usage by provider
	Estimated  int64    // calls and requests with an estimated usage
	Usage      stoa.Usage
	Amount     stoa.Credits
	WrittenOff stoa.Credits
	Saved      stoa.Credits // sum of [stoa.Price.Saved], which the caches of vendors caused
}

// dayOfZone returns the SQL of the number of days since 1970 of created_at, which is at or after
// from and before to, in a time zone. It lists the changes of the offset in the interval, because
// SQLite does not have time zones. The offsets are in microseconds already, because PostgreSQL
// computes 1000000 * 3600 as a 32-bit number.
func dayOfZone(zone *time.Location, from, to time.Time) string {
	offset, changes := "", 0
	for at := from.In(zone); at.Before(to); {
		_, seconds := at.Zone()
		_, end := at.ZoneBounds()
		if end.IsZero() || !end.Before(to) {
			offset += strconv.Itoa(seconds * 1_000_000)
			break
		}
		offset += fmt.Sprintf("CASE WHEN created_at < %d THEN %d ELSE ", db.Micros(end), seconds*1_000_000)
		at, changes = end, changes+1
	}
	return "CAST((created_at + (" + cmp.Or(offset, "0") + strings.Repeat(" END", changes) + ")) / 86400000000 AS BIGINT)"
}

// ByAccount is the dimension that only [Books.UsageOfAll] supports.
const ByAccount = "account"

// ByProvider is the dimension that adds failed requests to the usage. It can only be combined
// with day, model and account.
const ByProvider = "provider"

// UsageOfAll is [Books.Usage] for all accounts together, which can also be grouped by account.
func (tx Books) UsageOfAll(ctx context.Context, from, to time.Time, zone *time.Location, by []string) ([]UsageRow, error) {
	place := slices.Index(by, ByAccount)
	rows, err := []UsageRow(nil), error(nil)
	if slices.ContainsFunc(by, func(d string) bool { return !slices.Contains(ofHours, d) }) {
		rows, err = tx.usageOfEach(ctx, from, to, zone, by, place)
	} else if place >= 0 || slices.Contains(by, "key") {
		rows, err = tx.usageOf(ctx, ofEach, "", from, to, zone, by)
	} else {
		rows, err = tx.usageOf(ctx, ofAll, "", from, to, zone, by)
	}
	slices.SortFunc(rows, func(a, b UsageRow) int { return slices.Compare(a.Group, b.Group) })
	if err != nil || place < 0 {
		return rows, err
	}
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].Group[place]
	}
	names, err := tx.Work().Names(ctx, "", NamedAccounts, ids)
	for i := range rows {
		rows[i].Name = names[ids[i]]
	}
	return rows, err
}

// usageOfEach sums the usage of one account after the other, for dimensions that the sums of hours do
// not have.
func (tx Books) usageOfEach(ctx context.Context, from, to time.Time, zone *time.Location, by []string, place int) ([]UsageRow, error) {
	within := slices.DeleteFunc(slices.Clone(by), func(d string) bool { return d == ByAccount })
	if len(within) < len(by)-1 {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "Usage is grouped by %q twice.", ByAccount).At("groupBy")
	}
	var list []UsageRow
	rows := map[string]int{} // indexes of list, by group
	for after := ""; ; {
		accounts, err := tx.accountsWithUsage(ctx, to, after, usageAccounts)
		if err != nil {
			return nil, err
		}
		for _, id := range accounts {
			after = id
			some, err := tx.usageOf(ctx, ofOne, id, from, to, zone, within)
			if err != nil {
				return nil, err
			}
			for _, r := range some {
				if place >= 0 {
					r.Group = slices.Insert(r.Group, place, id)
				}
				key := strings.Join(r.Group, "\x00")
				at, seen := rows[key]
				switch {
				case seen:
					list[at].add(r)
				case len(list) == maxUsageRows:
					return nil, tooManyRows()
				default:
					rows[key] = len(list)
					list = append(list, r)
				}
			}
		}
		if len(accounts) < usageAccounts {
			return list, nil
		}
	}
}

// usageAccounts is the number of accounts that UsageOfAll reads together, so that memory stays bounded.
const usageAccounts = 500

func (r *UsageRow) dest() []any {
	u := &r.Usage
	return []any{
		&r.Calls, &r.Failed, &r.Estimated, &r.Amount, &r.WrittenOff, &r.Saved,
		&u.InputTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.OutputTokens, &u.ReasoningTokens,
	}
}

func (r *UsageRow) add(more UsageRow) {
	r.Calls += more.Calls
	r.Failed += more.Failed
	r.Estimated += more.Estimated
	r.Usage = r.Usage.Plus(more.Usage)
	r.Amount += more.Amount
	r.WrittenOff += more.WrittenOff
	r.Saved += more.Saved
}

func tooManyRows() error {
	return stoa.Errorf(stoa.CodeInvalidValue, "This would be more than %d rows. Ask for a shorter time or fewer groups.", maxUsageRows).At("groupBy")
}

// maxUsageRows is the maximum number of groups of a usage query, since an account may have any number
// of end users.
const maxUsageRows = 10_000

// Usage sums an account's charges made at or after from and before to, grouped by day in a time
// zone, model, key, member, agent, space, session, endUser or provider, ordered by the group. By provider it
// has failed requests too. An unknown or repeated dimension is CodeInvalidValue, and so is a query with
// more than 10,000 groups.
func (tx Books) Usage(ctx context.Context, accountID string, from, to time.Time, zone *time.Location, by []string) ([]UsageRow, error) {
	if slices.Contains(by, ByAccount) {
		return nil, unknownDimension(ByAccount)
	}
	return tx.usageOf(ctx, ofOne, accountID, from, to, zone, by)
}

// usageOf is [Books.Usage] of an account or of all.
func (tx Books) usageOf(ctx context.Context, who whose, accountID string, from, to time.Time, zone *time.Location, by []string) ([]UsageRow, error) {
	byProvider := slices.Contains(by, ByProvider)
	for _, d := range by {
		if byProvider && !slices.Contains(ofFailures, d) {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "Usage by provider can also be grouped by day, model and account, but not by %q.", d).At("groupBy")
		}
	}
	sums := sumsOfCharges
	var table string
	var args []any
	if slices.ContainsFunc(by, func(d string) bool { return !slices.Contains(ofHours, d) }) {
		table, args = `charges WHERE account_id = $1 AND created_at >= $2 AND created_at < $3`, []any{accountID, db.Micros(from), db.Micros(to)}
	} else {
		days, err := zone, error(nil)
		if !slices.Contains(by, "day") {
			days = nil
		}
		sums = sumsOfHours
		if table, args, err = tx.hours(ctx, who, accountID, from, to, days); err != nil {
			return nil, err
		}
	}
	rows, err := tx.usage(ctx, sums, table, args, from, to, zone, by)
	if err != nil || !byProvider {
		return rows, err
	}
	table, args = `vendor_failures WHERE created_at >= $1 AND created_at < $2`, []any{db.Micros(from), db.Micros(to)}
	if who == ofOne {
		table, args = table+` AND account_id = $3`, append(args, accountID)
	}
	failed, err := tx.usage(ctx, sumsOfFailures, table, args, from, to, zone, by)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, r := range rows {
		at[strings.Join(r.Group, "\x00")] = i
	}
	for _, f := range failed {
		if i, found := at[strings.Join(f.Group, "\x00")]; found {
			rows[i].add(f)
		} else if len(rows) == maxUsageRows {
			return nil, tooManyRows()
		} else {
			rows = append(rows, f)
		}
	}
	slices.SortFunc(rows, func(a, b UsageRow) int { return slices.Compare(a.Group, b.Group) })
	return rows, nil
}

func unknownDimension(d string) error {
	return stoa.Errorf(stoa.CodeInvalidValue, "Usage cannot be grouped by %q; it can by day, model, key, member, agent, space, session, endUser and provider, and by account with \"accountId=*\".", d).At("groupBy")
}

// The sums of usage, for [UsageRow.dest]: of charges and of the failed requests of vendors.
const (
	sumsOfCharges = `COUNT(*), 0, CAST(COALESCE(SUM(estimated), 0) AS BIGINT), CAST(COALESCE(SUM(amount), 0) AS BIGINT), CAST(COALESCE(SUM(written_off), 0) AS BIGINT),
		CAST(COALESCE(SUM(` + saved + `), 0) AS BIGINT), ` + sumsOfTokens
	sumsOfFailures = `0, COUNT(*), CAST(COALESCE(SUM(estimated), 0) AS BIGINT), 0, 0, 0, ` + sumsOfTokens
	sumsOfTokens   = `CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(cached_tokens), 0) AS BIGINT),
		CAST(COALESCE(SUM(cache_write_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(reasoning_tokens), 0) AS BIGINT)`
)

// accountsWithUsage lists accounts with charges or failed requests before that time, by id and after
// the given one.
func (tx Books) accountsWithUsage(ctx context.Context, before time.Time, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM accounts a WHERE id > $1 AND (EXISTS (SELECT 1 FROM charges c WHERE c.account_id = a.id AND c.created_at < $2)
		OR EXISTS (SELECT 1 FROM vendor_failures f WHERE f.account_id = a.id AND f.created_at < $2)) ORDER BY id LIMIT $3`, after, db.Micros(before), limit)
}

// usage reads sums of a table, which is a FROM with its arguments, by groups and in their order. Groups without
// calls are those whose charges [Books.hours] subtracted.
func (tx Books) usage(ctx context.Context, sums, table string, args []any, from, to time.Time, zone *time.Location, by []string) ([]UsageRow, error) {
	columns, isDay := "", make([]bool, len(by))
	for i, d := range by {
		column, ok := dimensions[d]
		if !ok {
			return nil, unknownDimension(d)
		}
		for _, e := range by[:i] {
			if e == d {
				return nil, stoa.Errorf(stoa.CodeInvalidValue, "Usage is grouped by %q twice.", d).At("groupBy")
			}
		}
		if isDay[i] = d == "day"; isDay[i] {
			column = dayOfZone(zone, from, to)
		}
		columns += column + ", "
	}
	query := `SELECT ` + columns + sums + ` FROM ` + table
	for i := range by {
		if i == 0 {
			query += " GROUP BY "
		} else {
			query += ", "
		}
		query += string(rune('1' + i))
	}
	if sums == sumsOfHours && len(by) > 0 {
		query += " HAVING SUM(calls) <> 0"
	}
	for i := range by {
		if i == 0 {
			query += " ORDER BY "
		} else {
			query += ", "
		}
		query += string(rune('1' + i))
	}
	var list []UsageRow
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		r := UsageRow{Group: make([]string, len(by))}
		var day int64
		dest := make([]any, 0, len(by)+11)
		for i := range by {
			if isDay[i] {
				dest = append(dest, &day)
			} else {
				dest = append(dest, &r.Group[i])
			}
		}
		if err := rows.Scan(append(dest, r.dest()...)...); err != nil {
			return err
		}
		for i := range by {
			if isDay[i] {
				r.Group[i] = time.Unix(day*86_400, 0).UTC().Format(time.DateOnly)
			}
		}
		if len(list) == maxUsageRows {
			return tooManyRows()
		}
		list = append(list, r)
		return nil
	}, query+fmt.Sprintf(` LIMIT %d`, maxUsageRows+1), args...)
	return list, err
}
