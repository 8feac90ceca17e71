package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// An Auditor records the changes of an operation in the audit log. Its methods are called at the
// beginning of each write transaction of the operation and before its commit, so also again if a
// transaction is repeated. An error rolls the transaction back, so that no change is unrecorded.
type Auditor interface {
	Before(ctx context.Context, tx *Tx) error
	After(ctx context.Context, tx *Tx) error
}

type auditorKey struct{}

// WithAuditor returns a context whose write transactions the auditor records.
func WithAuditor(ctx context.Context, a Auditor) context.Context {
	return context.WithValue(ctx, auditorKey{}, a)
}

// audited runs fn and appends the audit rows of its transaction. They come last, so that no
// transaction waits for another lock while it holds that of a chain.
func (tx People) audited(ctx context.Context, fn func(tx *Tx) error) error {
	a, _ := ctx.Value(auditorKey{}).(Auditor)
	if a != nil {
		if err := a.Before(ctx, tx.Tx); err != nil {
			return err
		}
	}
	if err := fn(tx.Tx); err != nil {
		return err
	}
	if a != nil {
		if err := a.After(ctx, tx.Tx); err != nil {
			return err
		}
	}
	slices.SortStableFunc(tx.audit, func(a, b audit.Entry) int { return strings.Compare(a.AccountID, b.AccountID) })
	for _, e := range tx.audit {
		if err := tx.appendAudit(ctx, e); err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
	}
	return nil
}

// LockAudited makes other transactions that lock the same object wait until this one ends, so that
// each of them reads the state that the previous one has left. SQLite needs no lock, since it has
// one writer.
func (tx People) LockAudited(ctx context.Context, id string) error {
	return tx.lockText(ctx, "audit "+id)
}

func (tx People) appendAudit(ctx context.Context, e audit.Entry) error {
	var at int64
	now := db.Micros(tx.Now.Truncate(time.Millisecond)) // since an export has milliseconds and must have the same hash
	_, err := tx.Get(ctx, `INSERT INTO audit_heads (account_id, seq, hash, at, anchored_at) VALUES ($1, 1, '', $2, $2)
		ON CONFLICT (account_id) DO UPDATE SET seq = audit_heads.seq + 1, at = CASE WHEN audit_heads.at > excluded.at THEN audit_heads.at ELSE excluded.at END
		RETURNING seq, hash, at`, []any{e.AccountID, now}, &e.Seq, &e.Prev, &at)
	if err != nil {
		return err
	}
	e.At = db.Time(at)
	e.Hash = e.Sum()
	if err := tx.Later(ctx, `INSERT INTO audit (`+auditColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		e.AccountID, e.Seq, at, e.Actor, e.Action, e.Object, e.RequestID, e.Address, e.Before, e.After, e.Prev, e.Hash); err != nil {
		return err
	}
	if err := tx.Later(ctx, `UPDATE audit_heads SET hash = $2 WHERE account_id = $1`, e.AccountID, e.Hash); err != nil {
		return err
	}
	return tx.announceAudit(ctx, e)
}

// AuditRecorded is the type of the event of a new audit row.
const AuditRecorded = "audit.recorded"

// AuditReceiver returns the account that receives the events of a chain: its own, or that of the
// operator for the chain of the service.
func (tx People) AuditReceiver(ctx context.Context, auditID string) (accountID string, err error) {
	if auditID == audit.Service {
		return tx.OwnerAccount(ctx)
	}
	return auditID, nil
}

func (tx People) announceAudit(ctx context.Context, e audit.Entry) error {
	to, err := tx.AuditReceiver(ctx, e.AccountID)
	if err != nil {
		return err
	}
	return tx.Operations().InsertEvent(ctx, NewEvent{ID: stoa.NewID("evt"), AccountID: to, Type: AuditRecorded, Data: struct {
		AccountID string `json:"accountId"`
		AuditID   string `json:"auditId"`
		Seq       int64  `json:"seq"`
		Actor     string `json:"actor"`
		Action    string `json:"action"`
		Object    string `json:"object"`
		Hash      string `json:"hash"`
	}{to, e.AccountID, e.Seq, e.Actor, e.Action, e.Object, e.Hash}})
}

const auditColumns = `account_id, seq, at, actor, action, object, request_id, address, before, after, prev, hash`

func scanAudit(rows *sql.Rows) (e audit.Entry, err error) {
	var at int64
	err = rows.Scan(&e.AccountID, &e.Seq, &at, &e.Actor, &e.Action, &e.Object, &e.RequestID, &e.Address, &e.Before, &e.After, &e.Prev, &e.Hash)
	e.At = db.Time(at)
	return e, err
}

// An AuditFilter narrows a list of audit rows. Empty members match all.
type AuditFilter struct {
	Actor, Action, Object string
	From, To              time.Time // time range, From included
}

// AuditEntries lists the audit rows of an account, after the one with that number unless it is 0. It
// returns the number after which the next page begins, or 0 if there is none. With more than one of
// actor, action and object a page may be short or empty although there is a next one, because no
// index serves two of them and it reads at most 2,000 rows.
func (tx People) AuditEntries(ctx context.Context, accountID string, f AuditFilter, p Page, after int64) ([]audit.Entry, int64, error) {
	from := `FROM audit WHERE account_id = $1`
	args := []any{accountID}
	add := func(cond string, value any) string {
		args = append(args, value)
		return fmt.Sprintf(" AND "+cond, len(args))
	}
	if !f.From.IsZero() {
		from += add(`seq >= (SELECT COALESCE(MIN(seq), 9223372036854775807) FROM (SELECT seq FROM audit WHERE account_id = $1 AND at >= $%d ORDER BY at, seq LIMIT 1) f)`, db.Micros(f.From))
	}
	if !f.To.IsZero() {
		from += add(`seq <= (SELECT COALESCE(MAX(seq), 0) FROM (SELECT seq FROM audit WHERE account_id = $1 AND at < $%d ORDER BY at DESC, seq DESC LIMIT 1) t)`, db.Micros(f.To))
	}
	order, op := " ORDER BY seq DESC", "seq < $%d"
	if p.Asc {
		order, op = " ORDER BY seq", "seq > $%d"
	}
	if after > 0 {
		from += add(op, after)
	}
	rest, indexed := "", false
	for _, c := range []struct{ column, value string }{{"object", f.Object}, {"actor", f.Actor}, {"action", f.Action}} {
		switch {
		case c.value == "":
		case !indexed:
			from += add(c.column+" = $%d", c.value)
			indexed = true
		default:
			rest += add(c.column+" = $%d", c.value)
		}
	}
	query := `SELECT ` + auditColumns + ` ` + from + order
	if rest != "" {
		query = fmt.Sprintf(`SELECT %s FROM (%s LIMIT %d) looked WHERE 1 = 1%s%s`, auditColumns, query, maxLooked, rest, order)
	}
	limited := append(slices.Clip(args), p.limit()+1)
	rows, more, err := listPage(ctx, tx.Tx, p, scanAudit, fmt.Sprintf("%s LIMIT $%d", query, len(limited)), limited...)
	switch {
	case err != nil:
		return nil, 0, err
	case more:
		return rows, rows[len(rows)-1].Seq, nil
	case rest == "":
		return rows, 0, nil
	}
	var next int64
	args = args[:len(args)-strings.Count(rest, "$")] // those of rest are the last ones
	_, err = tx.Get(ctx, fmt.Sprintf(`SELECT seq %s%s LIMIT 1 OFFSET %d`, from, order, maxLooked-1), args, &next)
	return rows, next, err
}

// AuditOfAll lists the audit rows of all accounts and of the service, for operators, and returns the cursor of the next
// page, or the zero cursor. With an actor, an action or an object a page may be short or empty although there is a next one,
// because it reads at most 2,000 rows.
func (tx People) AuditOfAll(ctx context.Context, f AuditFilter, p Page) ([]audit.Entry, Cursor, error) {
	from, args := `FROM audit WHERE at >= $1`, []any{db.Micros(f.From)}
	add := func(cond string, values ...any) {
		places := make([]any, len(values))
		for i, v := range values {
			args = append(args, v)
			places[i] = len(args)
		}
		from += fmt.Sprintf(" AND "+cond, places...)
	}
	if !f.To.IsZero() {
		add("at < $%d", db.Micros(f.To))
	}
	op, dir := "<", " DESC"
	if p.Asc {
		op, dir = ">", ""
	}
	order := fmt.Sprintf(" ORDER BY at%[1]s, account_id%[1]s, seq%[1]s", dir)
	if account, seq, ok := strings.Cut(p.After.ID, "\x00"); ok {
		n, _ := strconv.ParseInt(seq, 10, 64) // ignored, because the cursor has a checksum
		add("(at, account_id, seq) "+op+" ($%d, $%d, $%d)", db.Micros(p.After.At), account, n)
	}
	after := func(at int64, account string, seq int64) Cursor {
		return Cursor{At: db.Time(at), ID: account + "\x00" + strconv.FormatInt(seq, 10)}
	}
	rest, all := narrow(slices.Clone(args), "object", f.Object, "actor", f.Actor, "action", f.Action)
	limited := append(rest, p.limit()+1)
	rows, more, err := listPage(ctx, tx.Tx, p, scanAudit, fmt.Sprintf(`SELECT %s FROM (SELECT %[1]s %s%s LIMIT %d) looked WHERE 1 = 1%s%[3]s LIMIT $%[6]d`,
		auditColumns, from, order, maxLooked, all, len(limited)), limited...)
	if err != nil {
		return nil, Cursor{}, err
	}
	if more {
		last := rows[len(rows)-1]
		return rows, after(db.Micros(last.At), last.AccountID, last.Seq), nil
	}
	var at, seq int64
	var account string
	found, err := tx.Get(ctx, fmt.Sprintf(`SELECT at, account_id, seq %s%s LIMIT 1 OFFSET %d`, from, order, maxLooked-1), args, &at, &account, &seq)
	if err != nil || !found {
		return rows, Cursor{}, err
	}
	return rows, after(at, account, seq), nil
}

// MaxAuditActions is the maximum number of actions that [People.AuditActions] returns. It exceeds the
// number of actions of the service, so that none is missing.
const MaxAuditActions = 500

// AuditActions lists the actions of an account's audit rows, sorted. The query skips from one action
// to the next in the index, because DISTINCT would read all rows.
func (tx People) AuditActions(ctx context.Context, accountID string) ([]string, error) {
	actions, err := tx.texts(ctx, `WITH RECURSIVE found (action, n) AS (
			SELECT MIN(action), 1 FROM audit WHERE account_id = $1
			UNION ALL
			SELECT (SELECT MIN(a.action) FROM audit a WHERE a.account_id = $1 AND a.action > found.action), n + 1 FROM found WHERE action IS NOT NULL AND n < $2
		) SELECT action FROM found WHERE action IS NOT NULL LIMIT $2`, accountID, MaxAuditActions)
	slices.Sort(actions)
	return actions, err
}

// AuditRows returns up to limit audit rows of an account after the one with that number, the
// oldest first, and the place where they begin: after a row that is kept, or the newest purged
// one. The place of the start of the chain is zero.
func (tx People) AuditRows(ctx context.Context, accountID string, after int64, limit int) (audit.Checkpoint, []audit.Entry, error) {
	c := audit.Checkpoint{AccountID: accountID}
	if _, err := tx.Get(ctx, `SELECT purged_seq, purged_hash FROM audit_heads WHERE account_id = $1`, []any{accountID}, &c.Seq, &c.Hash); err != nil {
		return c, nil, err
	}
	if after > c.Seq {
		found, err := tx.Get(ctx, `SELECT seq, hash FROM audit WHERE account_id = $1 AND seq = $2`, []any{accountID, after}, &c.Seq, &c.Hash)
		if err != nil {
			return c, nil, err
		}
		if !found {
			return c, nil, stoa.Errorf(stoa.CodeInvalidValue, "The audit log has no entry %d yet. Use the number of an entry.", after).At("after")
		}
	}
	rows, err := list(ctx, tx.Tx, scanAudit, `SELECT `+auditColumns+` FROM audit WHERE account_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, accountID, c.Seq, limit)
	return c, rows, err
}

// OldestAudit is the shortest time for which audit rows are kept.
const OldestAudit = 90 * 24 * time.Hour

// AccountsWithAudit lists the chains with rows from before that time, by account and after the
// given one.
func (tx People) AccountsWithAudit(ctx context.Context, before time.Time, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT account_id FROM audit_heads h WHERE account_id > $1 AND EXISTS (SELECT 1 FROM audit a WHERE a.account_id = h.account_id AND a.at < $2)
		ORDER BY account_id LIMIT $3`, after, db.Micros(before), limit)
}

// PurgeAudit deletes up to limit audit rows of an account that are older than that time. It keeps
// the hash of the newest of them, because a check of the chain begins there. It returns the number
// of deleted rows. A time less than [OldestAudit] ago is CodeInvalidValue.
func (tx People) PurgeAudit(ctx context.Context, accountID string, before time.Time, limit int) (int64, error) {
	if before.After(tx.Now.Add(-OldestAudit)) {
		return 0, stoa.Errorf(stoa.CodeInvalidValue, "The audit log is kept for at least %d days.", int(OldestAudit.Hours()/24))
	}
	var purged, seq int64
	var hash string
	if _, err := tx.Get(ctx, `SELECT purged_seq FROM audit_heads WHERE account_id = $1`, []any{accountID}, &purged); err != nil {
		return 0, err
	}
	found, err := tx.Get(ctx, `SELECT seq FROM audit WHERE account_id = $1 AND at < $2 ORDER BY at DESC, seq DESC LIMIT 1`, []any{accountID, db.Micros(before)}, &seq)
	if err != nil || !found {
		return 0, err
	}
	seq = min(seq, purged+int64(limit))
	if _, err := tx.Get(ctx, `SELECT hash FROM audit WHERE account_id = $1 AND seq = $2`, []any{accountID, seq}, &hash); err != nil {
		return 0, err
	}
	n, err := tx.Exec(ctx, `DELETE FROM audit WHERE account_id = $1 AND seq <= $2`, accountID, seq)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `UPDATE audit_heads SET purged_seq = $2, purged_hash = $3 WHERE account_id = $1 AND purged_seq < $2`, accountID, seq, hash)
	return n, err
}

// AnchorEvery is the time between two anchors of a chain.
const AnchorEvery = 24 * time.Hour

// AuditsToAnchor lists the chains that have changed since their anchor, or their start, which
// was [AnchorEvery] ago or more, by account and after the given one.
func (tx People) AuditsToAnchor(ctx context.Context, now time.Time, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT account_id FROM audit_heads WHERE account_id > $1 AND seq > anchored_seq AND anchored_at <= $2 ORDER BY account_id LIMIT $3`,
		after, db.Micros(now.Add(-AnchorEvery)), limit)
}

// AnchorAudit sets the anchor of a chain to its newest row and returns the row. It does nothing if
// another node was first, so that each anchor is announced once.
func (tx People) AnchorAudit(ctx context.Context, accountID string, now time.Time) (c audit.Checkpoint, anchored bool, err error) {
	c.AccountID = accountID
	anchored, err = tx.Get(ctx, `UPDATE audit_heads SET anchored_seq = seq, anchored_at = $3 WHERE account_id = $1 AND seq > anchored_seq AND anchored_at <= $2 RETURNING seq, hash`,
		[]any{accountID, db.Micros(now.Add(-AnchorEvery)), db.Micros(now)}, &c.Seq, &c.Hash)
	return c, anchored, err
}
