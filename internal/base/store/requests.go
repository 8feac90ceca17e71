package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A RequestRow is a row of the request log.
type RequestRow struct {
	stoa.Request
	CreatedAt time.Time // time of writing, which differs for all rows, so that a cursor is exact
}

const requestColumns = `id, created_at, account_id, key_id, asked, served, provider, attempts, status, code, param,
	input_tokens, cached_tokens, output_tokens, amount, response_id, marks, first_token, duration, started_at, address`

const requestWidth = 21

// The marks of a row.
const (
	markCharged = 1 << iota
	markStream
	markEstimated
	markClamped
	markDisconnected
	markReplayed
	markRefused // see [stoa.Request.Refused]
	markAsked   // the model that was asked for is the one that served; asked is empty
	markOwn     // the id of the response is [stoa.ResponseTo] of the request; response_id is empty
)

// refusedShare is the divisor of the maximum of rows for that of refused ones, so that a client that
// repeats refused requests does not displace the others.
const refusedShare = 10

func marked(r *stoa.Request) [6]struct {
	flag *bool
	mark int64
} {
	return [6]struct {
		flag *bool
		mark int64
	}{
		{&r.Charged, markCharged},
		{&r.Stream, markStream},
		{&r.Estimated, markEstimated},
		{&r.Clamped, markClamped},
		{&r.Disconnected, markDisconnected},
		{&r.Replayed, markReplayed},
	}
}

// appendRequest appends the arguments of a row. It uses a text of the previous row again, because
// most texts of a batch are equal and each conversion allocates.
func appendRequest(args []any, r *stoa.Request, at int64) []any {
	text := func(s string) {
		if i := len(args) - requestWidth; i >= 0 && args[i] == s {
			args = append(args, args[i])
			return
		}
		args = append(args, s)
	}
	var marks int64
	for _, m := range marked(r) {
		if *m.flag {
			marks |= m.mark
		}
	}
	if r.Refused() {
		marks |= markRefused
	}
	asked, response := r.Asked, r.ResponseID
	if asked != "" && asked == r.Served {
		asked, marks = "", marks|markAsked
	}
	if response == stoa.ResponseTo(r.ID) {
		response, marks = "", marks|markOwn
	}
	text(r.ID)
	args = append(args, at)
	text(r.AccountID)
	text(r.KeyID)
	text(asked)
	text(r.Served)
	text(r.Provider)
	args = append(args, int64(r.Attempts), int64(r.Status))
	text(string(r.Code))
	text(r.Param)
	args = append(args, r.Usage.InputTokens, r.Usage.CachedTokens, r.Usage.OutputTokens, int64(r.Amount))
	text(response)
	args = append(args, marks, r.FirstToken.Microseconds(), r.Duration.Microseconds(), db.Micros(r.StartedAt))
	text(r.Address)
	return args
}

func scanRequest(rows *sql.Rows) (RequestRow, error) {
	var r RequestRow
	var created, marks, first, duration, started int64
	err := rows.Scan(&r.ID, &created, &r.AccountID, &r.KeyID, &r.Asked, &r.Served, &r.Provider, &r.Attempts, &r.Status, &r.Code, &r.Param,
		&r.Usage.InputTokens, &r.Usage.CachedTokens, &r.Usage.OutputTokens, &r.Amount, &r.ResponseID, &marks, &first, &duration, &started, &r.Address)
	for _, m := range marked(&r.Request) {
		*m.flag = marks&m.mark != 0
	}
	if marks&markAsked != 0 {
		r.Asked = r.Served
	}
	if marks&markOwn != 0 {
		r.ResponseID = stoa.ResponseTo(r.ID)
	}
	r.FirstToken, r.Duration = time.Duration(first)*time.Microsecond, time.Duration(duration)*time.Microsecond
	r.StartedAt, r.CreatedAt = db.Time(started), db.Time(created)
	return r, err
}

var insertRequest = insertEach(`INSERT INTO requests (`+requestColumns+`)`, requestWidth, "")

// requestClock advances the clock of the request log by n microseconds and returns its
// time: the present, or later if earlier rows are from then. The clock is locked until the
// commit, so that rows are committed in the order of their times.
func (tx Operations) requestClock(ctx context.Context, n int) (at int64, err error) {
	now := db.Micros(tx.Now)
	_, err = tx.Get(ctx, `INSERT INTO request_clock (id, at) VALUES (1, $1)
		ON CONFLICT (id) DO UPDATE SET at = CASE WHEN request_clock.at < $2 THEN excluded.at ELSE request_clock.at + $3 END RETURNING at`,
		[]any{now + int64(n), now, n}, &at)
	return at, err
}

// InsertRequests writes rows of the request log and then removes the oldest of each of their accounts
// beyond most; 0 means no limit. At most a tenth of most are of refused requests. scratch is memory
// for the arguments, which the caller passes again to avoid allocations.
func (tx Operations) InsertRequests(ctx context.Context, rows []stoa.Request, most int, scratch *[]any) error {
	if len(rows) == 0 {
		return nil
	}
	at, err := tx.requestClock(ctx, len(rows))
	if err != nil {
		return err
	}
	at -= int64(len(rows))
	added, refused := map[string]int64{}, map[string]int64{}
	for i, size := range insertSizes {
		for ; len(rows) >= size; rows = rows[size:] {
			args := (*scratch)[:0]
			for j := range rows[:size] {
				at++
				args = appendRequest(args, &rows[j], at)
				added[rows[j].AccountID]++
				if rows[j].Refused() {
					refused[rows[j].AccountID]++
				}
			}
			*scratch = args
			if _, err := tx.Exec(ctx, insertRequest[i], args...); err != nil {
				return err
			}
		}
	}
	for _, account := range slices.Sorted(maps.Keys(added)) {
		if err := tx.boundRequests(ctx, account, added[account], refused[account], most); err != nil {
			return err
		}
	}
	return nil
}

// boundRequests counts rows that were added to an account's and removes the oldest refused ones, then
// the oldest beyond most. It removes at most twice as many as were added and 200 more, so that its
// transaction stays short after the limit was lowered.
func (tx Operations) boundRequests(ctx context.Context, accountID string, added, refused int64, most int) error {
	var kept int64
	if _, err := tx.Get(ctx, `INSERT INTO request_counts (account_id, kept) VALUES ($1, $2)
		ON CONFLICT (account_id) DO UPDATE SET kept = request_counts.kept + excluded.kept RETURNING kept`, []any{accountID, added}, &kept); err != nil {
		return err
	}
	if most > 0 && refused > 0 && kept > int64(most/refusedShare) {
		gone, err := tx.removeRequests(ctx, accountID, `account_id = $1 AND (marks & 64) <> 0 ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`, accountID, 2*refused+200, most/refusedShare)
		if err != nil {
			return err
		}
		kept -= gone
	}
	beyond := min(kept-int64(most), 2*added+200)
	if most <= 0 || beyond <= 0 {
		return nil
	}
	_, err := tx.trimRequests(ctx, accountID, beyond)
	return err
}

func (tx Operations) trimRequests(ctx context.Context, accountID string, n int64) (int64, error) {
	return tx.removeRequests(ctx, accountID, `account_id = $1 ORDER BY created_at LIMIT $2`, accountID, n)
}

func (tx Operations) removeRequests(ctx context.Context, accountID, where string, args ...any) (int64, error) {
	gone, err := tx.Exec(ctx, `DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE `+where+`)`, args...)
	if err != nil || gone == 0 {
		return 0, err
	}
	_, err = tx.Exec(ctx, `UPDATE request_counts SET kept = kept - $2 WHERE account_id = $1`, accountID, gone)
	return gone, err
}

// HasRequest reports whether the request log contains a row of any account with that id. It is only
// for the log, because that must check whether a batch was committed.
func (tx Operations) HasRequest(ctx context.Context, id string) (found bool, err error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM requests WHERE id = $1`, []any{id}, &one)
}

// Request returns an account's row with that id, or CodeNotFound. accountID is empty for an operator,
// since that reads the rows of all accounts.
func (tx Operations) Request(ctx context.Context, accountID, id string) (RequestRow, error) {
	r, found, err := first(ctx, tx.Tx, scanRequest, `SELECT `+requestColumns+` FROM requests WHERE id = $1 AND (account_id = $2 OR $2 = '')`, id, accountID)
	if err == nil && !found {
		err = stoa.Errorf(stoa.CodeNotFound, "There is no request %q in the log. A request is in it a second after its end, and until it is too old.", id)
	}
	return r, err
}

// A RequestFilter narrows a list of requests. Empty members match all.
type RequestFilter struct {
	KeyID, Model, Provider string // Model: requested or served
	MinStatus, MaxStatus   int    // 0 means any
	Code                   stoa.Code
	MinDuration            time.Duration
	From, To               time.Time // written at or after From, before To
}

// Requests lists an account's rows of the request log, or for an operator without an account those of
// all, and returns the cursor of the next page, or the zero cursor. With a filter other than by time
// a page may be short or empty although there is a next one, because it reads at most 2,000 rows.
// By duration (SortDuration) or charge (SortSpent), which no index has, because each call would write to it, it sorts the newest
// 200,000 matching rows.
func (tx Operations) Requests(ctx context.Context, accountID string, f RequestFilter, p Page) ([]RequestRow, Cursor, error) {
	p.apart = true
	q := requestsOf(accountID, f)
	if column := map[string]string{SortSpent: "amount", SortDuration: "duration"}[p.By]; column != "" {
		cond, args := q.conditions(q.args)
		q = filtered{from: `FROM requests WHERE 1 = 1`}.sorted(fmt.Sprintf(`FROM (SELECT id, %s AS sort_key %s%s ORDER BY created_at DESC LIMIT %d) newest WHERE 1 = 1`, column, q.from, cond, maxSummed), args...)
	}
	return filteredPage(ctx, tx.Tx, p, q, scanRequest, func(r RequestRow) Cursor { return Cursor{At: r.CreatedAt, ID: r.ID} },
		`SELECT `+requestColumns+` FROM (`, `) r`)
}

func requestsOf(accountID string, f RequestFilter) filtered {
	q := filtered{from: `FROM requests WHERE created_at >= $1`, args: []any{db.Micros(f.From)}}
	add := func(cond string, value any) {
		q.args = append(q.args, value)
		q.from += fmt.Sprintf(" AND "+cond, len(q.args))
	}
	if accountID != "" {
		add("account_id = $%d", accountID)
	}
	if !f.To.IsZero() {
		add("created_at < $%d", db.Micros(f.To))
	}
	q.rest = []string{"key_id", f.KeyID, "provider", f.Provider, "code", string(f.Code)}
	if f.Model != "" {
		q.tests = append(q.tests, test{"$%d IN (asked, served)", f.Model})
	}
	if f.MinStatus > 0 {
		q.tests = append(q.tests, test{"status >= $%d", f.MinStatus})
	}
	if f.MaxStatus > 0 {
		q.tests = append(q.tests, test{"status <= $%d", f.MaxStatus})
	}
	if f.MinDuration > 0 {
		q.tests = append(q.tests, test{"duration >= $%d", f.MinDuration.Microseconds()})
	}
	return q
}

// NewestRequest returns the position after the newest row of an account, or without an
// account of all. Rows that are written later come after it.
func (tx Operations) NewestRequest(ctx context.Context, accountID string) (Cursor, error) {
	where, args := "1 = 1", []any(nil)
	if accountID != "" {
		where, args = "account_id = $1", []any{accountID}
	}
	var at int64
	found, err := tx.Get(ctx, `SELECT created_at FROM requests WHERE `+where+` ORDER BY created_at DESC LIMIT 1`, args, &at)
	if !found {
		at = 0
	}
	return Cursor{At: time.UnixMicro(at + 1).UTC()}, err
}

// Dropped is the number of requests of an account that are missing in the log, and their
// time range.
type Dropped struct {
	Count       int64
	First, Last time.Time
}

// Add adds more missing requests.
func (d *Dropped) Add(more Dropped) {
	if more.Count == 0 {
		return
	}
	if d.Count == 0 || more.First.Before(d.First) {
		d.First = more.First
	}
	if more.Last.After(d.Last) {
		d.Last = more.Last
	}
	d.Count += more.Count
}

// AddDropped records requests of an account that are missing in the log, so that readers of the log
// are informed.
func (tx Operations) AddDropped(ctx context.Context, accountID string, d Dropped) error {
	_, err := tx.Exec(ctx, `INSERT INTO request_drops (account_id, dropped, first_at, last_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (account_id) DO UPDATE SET dropped = request_drops.dropped + excluded.dropped, last_at = excluded.last_at`,
		accountID, d.Count, db.Micros(d.First), db.Micros(d.Last))
	return err
}

// Dropped returns the missing requests of an account, or without an account of all.
func (tx Operations) Dropped(ctx context.Context, accountID string) (Dropped, error) {
	query, args := `SELECT dropped, first_at, last_at FROM request_drops WHERE account_id = $1`, []any{accountID}
	if accountID == "" {
		query, args = `SELECT CAST(COALESCE(SUM(dropped), 0) AS BIGINT), COALESCE(MIN(first_at), 0), COALESCE(MAX(last_at), 0) FROM request_drops`, nil
	}
	var d Dropped
	var from, to int64
	_, err := tx.Get(ctx, query, args, &d.Count, &from, &to)
	d.First, d.Last = db.Time(from), db.Time(to)
	return d, err
}

// PurgeRequests removes up to limit rows of the request log that were written before that
// time, the oldest first, and the counts of requests that were dropped before it. It
// returns the number of removed rows.
func (tx Operations) PurgeRequests(ctx context.Context, before time.Time, limit int) (int64, error) {
	if _, err := tx.requestClock(ctx, 0); err != nil { // otherwise it could deadlock with a writer of rows
		return 0, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM request_drops WHERE last_at < $1`, db.Micros(before)); err != nil {
		return 0, err
	}
	gone := map[string]int64{}
	var total int64
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var account string
		err := rows.Scan(&account)
		gone[account]++
		total++
		return err
	}, `DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE created_at < $1 ORDER BY created_at LIMIT $2) RETURNING account_id`, db.Micros(before), limit)
	if err != nil {
		return 0, err
	}
	for _, account := range slices.Sorted(maps.Keys(gone)) {
		if _, err := tx.Exec(ctx, `UPDATE request_counts SET kept = kept - $2 WHERE account_id = $1`, account, gone[account]); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// AccountsWithRequests lists accounts that have more rows in the request log than
// most, by id and after the given one.
func (tx Operations) AccountsWithRequests(ctx context.Context, most int, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT account_id FROM request_counts WHERE account_id > $1 AND kept > $2 ORDER BY account_id LIMIT $3`, after, most, limit)
}

// PurgeRequestsBeyond removes up to limit of an account's rows in the request log, the
// oldest first, while there are more than most. It returns their number.
func (tx Operations) PurgeRequestsBeyond(ctx context.Context, accountID string, most, limit int) (int64, error) {
	if _, err := tx.requestClock(ctx, 0); err != nil {
		return 0, err
	}
	var kept int64
	if _, err := tx.Get(ctx, `SELECT kept FROM request_counts WHERE account_id = $1`, []any{accountID}, &kept); err != nil {
		return 0, err
	}
	beyond := min(kept-int64(most), int64(limit))
	if beyond <= 0 {
		return 0, nil
	}
	return tx.trimRequests(ctx, accountID, beyond)
}
