package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"stoa/internal/base/db"
)

// A Finding is a possible problem for an operator.
type Finding struct {
	AccountID, ID string
	Detail        string
	Since         time.Time // zero if unknown
}

func scanFinding(rows *sql.Rows) (f Finding, err error) {
	var since int64
	err = rows.Scan(&f.AccountID, &f.ID, &f.Detail, &since)
	if since != 0 {
		f.Since = db.Time(since)
	}
	return f, err
}

// FailingConnections returns enabled connections of all accounts whose newest exchange
// failed, with the code of the failure, and those that were never checked.
func (tx Operations) FailingConnections(ctx context.Context, limit int) ([]Finding, error) {
	return list(ctx, tx.Tx, scanFinding, `SELECT account_id, id, name || ': ' || CASE WHEN error_code = '' THEN 'never checked; refresh it' ELSE error_code END, checked_at
		FROM connections WHERE (error_code <> '' OR checked_at = 0 AND oauth = '') AND enabled = 1 ORDER BY account_id, id LIMIT $1`, limit)
}

// UnauthorizedConnections returns enabled connections of all accounts that need an
// authorization by a person and have none. It reads at most limit of those that use OAuth.
func (tx Operations) UnauthorizedConnections(ctx context.Context, limit int) (found []Finding, err error) {
	type row struct {
		f     Finding
		oauth string
		has   string
	}
	rows, err := list(ctx, tx.Tx, func(rows *sql.Rows) (r row, err error) {
		err = rows.Scan(&r.f.AccountID, &r.f.ID, &r.f.Detail, &r.oauth, &r.has)
		return r, err
	}, `SELECT c.account_id, c.id, c.name, c.oauth, COALESCE((SELECT t.id FROM connection_tokens t WHERE t.id = c.id), '') FROM connections c
		WHERE c.oauth <> '' AND c.error_code = '' AND c.enabled = 1 ORDER BY c.account_id, c.id LIMIT $1`, limit)
	for _, r := range rows {
		var o OAuth
		if r.has == "" && json.Unmarshal([]byte(r.oauth), &o) == nil && o.Grant == GrantCode {
			r.f.Detail += ": not authorized"
			found = append(found, r.f)
		}
	}
	return found, err
}

// KeptOwners returns the last owners of all accounts whom their groups no longer make owners.
func (tx Operations) KeptOwners(ctx context.Context, limit int) ([]Finding, error) {
	return list(ctx, tx.Tx, scanFinding, `SELECT account_id, person_id, 'the last owner of the account, no longer by the groups', kept_since FROM members
		WHERE kept_since > 0 ORDER BY account_id, person_id LIMIT $1`, limit)
}

// HasOAuthConnections reports whether any connection is authorized by OAuth.
func (tx Operations) HasOAuthConnections(ctx context.Context) (bool, error) {
	ids, err := tx.texts(ctx, `SELECT id FROM connections WHERE oauth <> '' ORDER BY account_id, id LIMIT 1`)
	return len(ids) > 0, err
}

// FailedDeliveries returns the newest failed deliveries of all accounts, and their number,
// up to most.
func (tx Operations) FailedDeliveries(ctx context.Context, limit, most int) (found []Finding, n int, err error) {
	if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT id FROM deliveries WHERE status = 'failed' LIMIT $1) f`, []any{most}, &n); err != nil {
		return nil, 0, err
	}
	found, err = list(ctx, tx.Tx, scanFinding, `SELECT account_id, id, type || ' to ' || webhook_id, finished_at FROM deliveries WHERE status = 'failed' ORDER BY finished_at DESC, id DESC LIMIT $1`, limit)
	return found, n, err
}

// FailingWebhooks returns webhooks whose attempts have failed since before a time, including those
// that were disabled for it, of an account or, if it is empty, of all accounts.
func (tx Operations) FailingWebhooks(ctx context.Context, accountID string, before time.Time, limit int) ([]Finding, error) {
	args, account := []any{db.Micros(before), limit}, ""
	if accountID != "" {
		args, account = append(args, accountID), "account_id = $3 AND "
	}
	return list(ctx, tx.Tx, scanFinding, `SELECT account_id, id, CASE WHEN disabled <> '' THEN 'disabled: ' || disabled WHEN last_success_at = 0 THEN 'it never worked' ELSE 'its deliveries fail' END, failing_since FROM webhooks
		WHERE `+account+`failing_since > 0 AND failing_since <= $1 AND disabled NOT IN ('user', 'key_revoked') ORDER BY account_id, id LIMIT $2`, args...)
}

// A WaitingKind contains the number of inputs of a kind that sessions wait for, and the time of
// the oldest one.
type WaitingKind struct {
	Kind   string
	Count  int64
	Oldest time.Time
}

// Waiting returns the open inputs of the sessions of all accounts by kind, counting only
// the oldest most inputs.
func (tx Operations) Waiting(ctx context.Context, most int) ([]WaitingKind, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (w WaitingKind, err error) {
		var oldest int64
		err = rows.Scan(&w.Kind, &w.Count, &oldest)
		w.Oldest = db.Time(oldest)
		return w, err
	}, `SELECT kind, COUNT(*), MIN(created_at) FROM (SELECT kind, created_at FROM inputs WHERE status = 'pending' ORDER BY created_at LIMIT $1) p GROUP BY kind ORDER BY kind LIMIT 20`, most)
}

// LongestWaiting returns the sessions of all accounts that have waited longest for an
// input.
func (tx Operations) LongestWaiting(ctx context.Context, limit int) ([]Finding, error) {
	return list(ctx, tx.Tx, scanFinding, `SELECT s.account_id, i.session_id, i.kind, i.created_at FROM inputs i JOIN sessions s ON s.id = i.session_id
		WHERE i.status = 'pending' ORDER BY i.created_at LIMIT $1`, limit)
}

// ClockOffset returns the offset of the database's clock from that of this process, and its
// uncertainty; false means that they are the same clock.
func (s *Store) ClockOffset(ctx context.Context) (offset, within time.Duration, known bool, err error) {
	if !s.db.Postgres() {
		return 0, 0, false, nil
	}
	err = s.Read(ctx, func(tx *Tx) error {
		var micros int64
		before := time.Now()
		_, err := tx.Get(ctx, `SELECT `+databaseClock, nil, &micros)
		took := time.Since(before)
		offset, within = db.Time(micros).Sub(before.Add(took/2)), took/2
		return err
	})
	return offset, within, true, err
}
