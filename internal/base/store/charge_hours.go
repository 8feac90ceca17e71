package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// The sums of charges by hour serve usage and statements, whose cost therefore depends on hours and
// not on calls. They are written with the charges, and rows without an account sum those of all
// accounts.

const (
	hourMicros = 3_600_000_000
	eachSum    = "calls, estimated, amount, written_off, saved, input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens"
	ofHour     = "account_id, hour, served, provider, key_id, node_id"
)

// whose says whose sums [Books.hours] returns. It is not part of the id of an account, because an id may come from
// outside.
type whose int

const (
	ofOne  whose = iota // those of an account
	ofEach              // those of every account
	ofAll               // one sum of all accounts, without keys
)

// ofCharge and lessCharge are the columns eachSum of one charge, to add and to subtract.
var ofCharge, lessCharge = chargeSums(""), chargeSums("-")

func chargeSums(sign string) string {
	return strings.NewReplacer("calls AS", "1 AS", "saved AS", saved+" AS").Replace(sumOfEach(sign + "%s AS %s"))
}

// sumsOfHours are the sums of usage in the order of [UsageRow.dest]; failed requests are not charges.
var sumsOfHours = strings.Replace(sumOfEach("CAST(COALESCE(SUM(%s), 0) AS BIGINT)"), ", CAST", ", 0, CAST", 1)

func sumOfEach(format string) string {
	columns := strings.Split(eachSum, ", ")
	for i, c := range columns {
		columns[i] = strings.ReplaceAll(format, "%s", c)
	}
	return strings.Join(columns, ", ")
}

// addMade adds the charges of the WITH made, which are rows of eachSum, to the sums of their accounts and
// to those of all.
var addMade = `INSERT INTO charge_hours (` + ofHour + `, ` + eachSum + `)
	SELECT CASE own WHEN 1 THEN account_id ELSE '' END, hour, served, provider, CASE own WHEN 1 THEN key_id ELSE '' END, node_id, ` + sumOfEach("CAST(SUM(%s) AS BIGINT)") + `
	FROM made CROSS JOIN (SELECT 1 AS own UNION ALL SELECT 0) both_sums GROUP BY 1, 2, 3, 4, 5, 6` + addHours

// totalsOf returns the statement that adds sums of accounts to those of all.
func totalsOf(sum, where string) string {
	return `INSERT INTO charge_hours (` + ofHour + `, ` + eachSum + `)
		SELECT '', hour, served, provider, '', node_id, ` + sumOfEach("CAST("+sum+"(%s) AS BIGINT)") + ` FROM charge_hours WHERE ` + where + ` GROUP BY 2, 3, 4, 6` + addHours
}

// addHours ends an INSERT of sums so that they are added to existing ones.
var addHours = ` ON CONFLICT (` + ofHour + `) DO UPDATE SET ` + sumOfEach("%s = charge_hours.%s + excluded.%s")

// The statements that replace the sums of an account in the hours from $2 until before $3.
var (
	takeFromTotals = totalsOf("-SUM", `account_id = $1 AND hour >= $2 AND hour < $3`)
	addToTotals    = totalsOf("SUM", `account_id = $1 AND hour >= $2 AND hour < $3`)
	addOwn         = `INSERT INTO charge_hours (` + ofHour + `, ` + eachSum + `) SELECT ` + ofHour + `, ` + sumOfEach("CAST(SUM(%s) AS BIGINT)") + `
		FROM (SELECT account_id, created_at / 3600000000 AS hour, served, provider, key_id, node_id, ` + ofCharge + `
		FROM charges WHERE account_id = $1 AND created_at >= $2 AND created_at < $3) c GROUP BY ` + ofHour
)

// sumHoursAgain replaces the sums of an account in the hours from first until before end by those of
// its charges.
func (tx Books) sumHoursAgain(ctx context.Context, accountID string, first, end int64) error {
	// Two that subtract the same sums from the totals would leave too little.
	if err := tx.lockText(ctx, "charge_hours"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, takeFromTotals, accountID, first, end); err != nil {
		return err
	}
	if err := tx.sumOwnHours(ctx, accountID, first, end); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, addToTotals, accountID, first, end); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM charge_hours WHERE account_id = '' AND hour >= $1 AND hour < $2 AND calls = 0`, first, end)
	return err
}

func (tx Books) sumOwnHours(ctx context.Context, accountID string, first, end int64) error {
	if _, err := tx.Exec(ctx, `DELETE FROM charge_hours WHERE account_id = $1 AND hour >= $2 AND hour < $3`, accountID, first, end); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, addOwn, accountID, first*hourMicros, end*hourMicros)
	return err
}

var insertHours = insertEach(`INSERT INTO charge_hours (`+ofHour+`, `+eachSum+`)`, 16, addHours)

// addToSums adds the inserted charges to the sums of their days and hours. It is for SQLite: on
// PostgreSQL the INSERT of the charges does that, to avoid a round trip. SQLite would need twice the
// time for the same statement.
func (tx Books) addToSums(ctx context.Context, receipts []Receipt, inserted map[string]bool) error {
	type day struct{ of, node string }
	type hour struct{ account, served, provider, key, node string }
	days, hours := map[day]stoa.Credits{}, map[hour]*UsageRow{}
	for i := range receipts {
		r := &receipts[i]
		if !inserted[r.ID] {
			continue
		}
		if r.Amount > 0 {
			days[day{r.AccountID, r.NodeID}] += r.Amount
			if r.AgentID != "" {
				days[day{r.AgentID, r.NodeID}] += r.Amount
			}
		}
		one := UsageRow{Calls: 1, Usage: r.Usage, Amount: r.Amount, WrittenOff: r.WrittenOff, Saved: r.Price.Saved(r.Usage)}
		if r.Estimated {
			one.Estimated = 1
		}
		for _, of := range [...]hour{{r.AccountID, r.Served, r.Provider, r.KeyID, r.NodeID}, {"", r.Served, r.Provider, "", r.NodeID}} {
			if hours[of] == nil {
				hours[of] = &UsageRow{}
			}
			hours[of].add(one)
		}
	}
	args, now := make([]any, 0, 16*len(hours)), db.Micros(tx.Now)
	for of, amount := range days {
		args = append(args, of.of, now/(24*hourMicros), of.node, int64(amount))
	}
	if err := tx.execEach(ctx, &insertDays, 4, args); err != nil {
		return err
	}
	args = args[:0]
	for of, r := range hours {
		args = append(args, of.account, now/hourMicros, of.served, of.provider, of.key, of.node, r.Calls, r.Estimated, int64(r.Amount), int64(r.WrittenOff), int64(r.Saved),
			r.Usage.InputTokens, r.Usage.CachedTokens, r.Usage.CacheWriteTokens, r.Usage.OutputTokens, r.Usage.ReasoningTokens)
	}
	return tx.execEach(ctx, &insertHours, 16, args)
}

// execEach runs an INSERT of [insertEach] for rows of that width.
func (tx Books) execEach(ctx context.Context, texts *[len(insertSizes)]string, width int, args []any) error {
	for i, size := range insertSizes {
		for ; len(args) >= size*width; args = args[size*width:] {
			if _, err := tx.Exec(ctx, texts[i], args[:size*width]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Nodes of a program that does not write the sums: one that lives, or has lived since the fill began.
const withoutSums = `SELECT 1 FROM nodes n WHERE n.sums_hours = 0 AND (n.alive = 1 OR n.started_at >= COALESCE((SELECT begun_at FROM charge_hours_fill), 0))`

// HoursFilled reports whether the sums of hours are those of all charges.
func (tx Books) HoursFilled(ctx context.Context) (filled bool, err error) {
	_, err = tx.Get(ctx, `SELECT NOT EXISTS (SELECT 1 FROM charge_hours_fill WHERE filled_at = 0) AND NOT EXISTS (`+withoutSums+`)`, nil, &filled)
	return filled, err
}

// fillTogether is the number of charges after which a transaction of [Books.FillHours] ends, so that no
// call waits long for its commit.
const fillTogether = 5000

// endOfHours is after all hours; its microseconds fit into 64 bits.
const endOfHours = math.MaxInt64 / hourMicros

// afterAccounts is after the ids of all accounts.
const afterAccounts = "~"

// FillHours sums some thousand charges that were there before the sums of hours, account by account and
// then those of all, and reports whether there are more. While a node runs that does not write sums it does
// nothing.
func (tx Books) FillHours(ctx context.Context) (more bool, err error) {
	if filled, err := tx.HoursFilled(ctx); filled || err != nil {
		return false, err
	}
	if err := tx.lockText(ctx, "charge_hours"); err != nil { // before the table, as in sumHoursAgain: a purge waits here, and not for the table
		return false, err
	}
	if tx.Postgres() {
		// No charge may be added to the sums while they are replaced. Plans from when the table was empty would read all of it for
		// each account.
		for _, statement := range []string{`LOCK TABLE charge_hours IN SHARE ROW EXCLUSIVE MODE`, `SET LOCAL enable_seqscan = off`} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return false, err
			}
		}
	}
	var old, running bool
	if _, err := tx.Get(ctx, `SELECT EXISTS (`+withoutSums+`), EXISTS (`+withoutSums+` AND n.alive = 1)`, nil, &old, &running); err != nil || running {
		return false, err
	}
	var begun, filled, hour int64
	var account string
	if _, err := tx.Get(ctx, `SELECT begun_at, filled_at, account_id, hour FROM charge_hours_fill`, nil, &begun, &filled, &account, &hour); err != nil || filled > 0 && !old {
		return false, err
	}
	if old || begun == 0 {
		if _, err := tx.Exec(ctx, `DELETE FROM charge_hours`); err != nil {
			return false, err
		}
		begun, filled, account, hour = db.Micros(tx.Now), 0, "", 0
		if tx.Postgres() { // by the clock of the times at which nodes began
			if _, err := tx.Get(ctx, `SELECT `+databaseClock, nil, &begun); err != nil {
				return false, err
			}
		}
	}
	if account == afterAccounts {
		hour, err = tx.fillTotals(ctx, hour)
	} else {
		account, hour, err = tx.fillAccounts(ctx, account, hour)
	}
	if err != nil {
		return false, err
	}
	if account == afterAccounts && hour == endOfHours {
		if filled = db.Micros(tx.Now); tx.Postgres() { // so that reports use the indexes at once
			if _, err := tx.Exec(ctx, `ANALYZE charge_hours`); err != nil {
				return false, err
			}
		}
	}
	_, err = tx.Exec(ctx, `INSERT INTO charge_hours_fill (id, begun_at, filled_at, account_id, hour) VALUES (1, $1, $2, $3, $4) ON CONFLICT (id) DO UPDATE
		SET begun_at = excluded.begun_at, filled_at = excluded.filled_at, account_id = excluded.account_id, hour = excluded.hour`, begun, filled, account, hour)
	return filled == 0, err
}

// fillAccounts sums the charges of accounts from an account and hour on, and returns where it ended.
func (tx Books) fillAccounts(ctx context.Context, account string, hour int64) (string, int64, error) {
	for sum := int64(0); sum < fillTogether; {
		var at, end, calls int64
		found, err := tx.Get(ctx, `SELECT account_id, created_at FROM charges WHERE (account_id, created_at) >= ($1, $2) ORDER BY account_id, created_at LIMIT 1`,
			[]any{account, hour * hourMicros}, &account, &at)
		if err != nil {
			return "", 0, err
		}
		if !found {
			return afterAccounts, 0, nil
		}
		first := at / hourMicros
		hour = endOfHours
		if found, err = tx.Get(ctx, `SELECT created_at FROM charges WHERE account_id = $1 AND created_at >= $2 ORDER BY created_at LIMIT 1 OFFSET $3`,
			[]any{account, at, fillTogether}, &end); err != nil {
			return "", 0, err
		}
		if found {
			hour = end/hourMicros + 1
		}
		if err := tx.sumOwnHours(ctx, account, first, hour); err != nil {
			return "", 0, err
		}
		if _, err := tx.Get(ctx, `SELECT CAST(COALESCE(SUM(calls), 0) AS BIGINT) FROM charge_hours WHERE account_id = $1 AND hour >= $2 AND hour < $3`,
			[]any{account, first, hour}, &calls); err != nil {
			return "", 0, err
		}
		sum += calls
	}
	return account, hour, nil
}

var addAllTotals = totalsOf("SUM", `hour >= $1 AND hour < $2 AND account_id <> ''`)

// fillTotals sums the hours of all accounts from an hour on, and returns the next one.
func (tx Books) fillTotals(ctx context.Context, hour int64) (next int64, err error) {
	found, err := tx.Get(ctx, `SELECT hour FROM charge_hours WHERE hour >= $1 ORDER BY hour LIMIT 1 OFFSET $2`, []any{hour, fillTogether}, &next)
	if err != nil {
		return 0, err
	}
	next++ // at least one hour
	if !found {
		next = endOfHours
	}
	if _, err := tx.Exec(ctx, `DELETE FROM charge_hours WHERE account_id = '' AND hour >= $1 AND hour < $2`, hour, next); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, addAllTotals, hour, next)
	return next, err
}

// hours returns a table of the sums of charges created at or after from and before to, with the columns
// created_at, account_id, served, provider, key_id and eachSum, and its arguments. A zero time is no limit. accountID is
// only for ofOne.
// The parts of hours at the ends are read from the charges; with a zone so are the hours in which a
// day of the zone begins, because its offset is not always a number of hours.
func (tx Books) hours(ctx context.Context, who whose, accountID string, from, to time.Time, zone *time.Location) (table string, values []any, err error) {
	filled, err := tx.HoursFilled(ctx)
	if err != nil {
		return "", nil, err
	}
	begin, end := int64(0), int64(endOfHours*hourMicros)
	if !from.IsZero() {
		begin = max(0, db.Micros(from))
	}
	if !to.IsZero() {
		end = max(begin, db.Micros(to))
	}
	// Without the second condition an empty id would select the sums of all accounts.
	of, ofEdge, args := "account_id = $1 AND account_id <> ''", "account_id = $1", []any{accountID}
	if who != ofOne {
		of, ofEdge, args = "account_id = ''", "account_id IN (SELECT account_id FROM charge_hours WHERE hour = [hour] AND account_id <> '')", nil
		if who == ofEach {
			of = "account_id <> ''"
		}
		if !filled {
			ofEdge = "1 = 1"
		}
	}
	arg := func(value int64) string { // not in the text, because connections keep the statements of few texts
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	var parts []string
	charges := func(sums string, from, to int64) {
		cond := ofEdge
		if before, after, found := strings.Cut(cond, "[hour]"); found {
			cond = before + arg(from/hourMicros) + after
		}
		parts = append(parts, fmt.Sprintf(`SELECT created_at, account_id, served, provider, key_id, %s FROM charges WHERE %s AND created_at >= %s AND created_at < %s`, sums, cond, arg(from), arg(to)))
	}
	first, last := (begin+hourMicros-1)/hourMicros, end/hourMicros
	if !filled || first > last {
		charges(ofCharge, begin, end)
		return "(" + parts[0] + ") c", args, nil
	}
	if begin < first*hourMicros {
		charges(ofCharge, begin, first*hourMicros)
	}
	split := func(hour int64) bool { // whether a day begins in it
		return zone != nil && db.Time(hour*hourMicros).In(zone).Day() != db.Time((hour+1)*hourMicros-1).In(zone).Day()
	}
	if end > last*hourMicros {
		if !to.Before(tx.Now) && !split(last) {
			if tx.Postgres() { // whose nodes may have charges of a later time, as their clocks differ
				charges(lessCharge, end, (last+1)*hourMicros)
			}
			last++
		} else {
			charges(ofCharge, last*hourMicros, end)
		}
	}
	except := ""
	if zone != nil && last < endOfHours {
		for h := first; h < last; h++ {
			if split(h) {
				charges(ofCharge, h*hourMicros, (h+1)*hourMicros)
				except += "," + arg(h)
			}
		}
	}
	if except != "" {
		except = " AND hour NOT IN (" + except[1:] + ")"
	}
	begins, ends := arg(first), arg(last)
	whole := fmt.Sprintf(`SELECT hour * 3600000000 AS created_at, account_id, served, provider, key_id, %s FROM charge_hours WHERE %s AND hour >= %s AND hour < %s%s`, eachSum, of, begins, ends, except)
	if who == ofEach && zone == nil {
		// Accounts first, because SQLite then needs no sort of all rows, and a fifth of the time.
		whole = fmt.Sprintf(`SELECT 0 AS created_at, h.account_id, h.served, h.provider, h.key_id, %s FROM accounts a CROSS JOIN charge_hours h
			WHERE h.account_id = a.id AND h.hour >= %s AND h.hour < %s GROUP BY h.account_id, h.served, h.provider, h.key_id`, sumOfEach("CAST(SUM(h.%s) AS BIGINT) AS %s"), begins, ends)
	}
	return "(" + strings.Join(append([]string{whole}, parts...), " UNION ALL ") + ") c", args, nil
}

// hourDifferences compares the stored sums of hours of some accounts with those of want, which it empties. It adds the
// stored ones to totals, unless that is nil.
func (tx Books) hourDifferences(ctx context.Context, what string, of someAccounts, want, totals map[hourKey][2]int64) (all []Difference, err error) {
	compare := func(k hourKey, have, want [2]int64) {
		if have != want && len(all) < 1000 {
			i := 0
			if have[0] == want[0] {
				i = 1
			}
			all = append(all, Difference{what, time.Unix(k.hour*3600, 0).UTC().Format("2006-01-02T15Z"), k.account, stoa.Credits(have[i]), stoa.Credits(want[i])})
		}
	}
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		var k hourKey
		var have [2]int64
		err := rows.Scan(&k.account, &k.hour, &k.place, &k.key, &have[0], &have[1])
		compare(k, have, want[k])
		delete(want, k)
		if k.account, k.key = "", ""; totals != nil {
			sum := totals[k]
			totals[k] = [2]int64{sum[0] + have[0], sum[1] + have[1]}
		}
		return err
	}, of.in(`SELECT account_id, hour, `+place+`, key_id, amount, `+restOfSums+` FROM charge_hours WHERE [of account_id]`), of.args...)
	for k, sums := range want {
		compare(k, [2]int64{}, sums)
	}
	return all, err
}

// restOfSums weighs all sums but the amount, so that one number shows that one of them is wrong: to
// sort ten columns of each charge would double the time of the check.
const restOfSums = `calls * 1000003 + estimated * 1009 + written_off * 3 + saved * 7 + input_tokens * 11 + cached_tokens * 13 + cache_write_tokens * 17 + output_tokens * 19 + reasoning_tokens * 23`

// restOfCharge is restOfSums of one charge.
var restOfCharge = strings.NewReplacer("calls", "1", "saved", saved).Replace(restOfSums)
