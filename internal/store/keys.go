package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

const keyColumns = `id, account_id, name, hint, scopes, rpm, max_per_day, expires_at, revoked_at, last_used_at, created_at, root_id, made_by, keeps_made`

// keyScan holds the scanned columns of a key; done returns the key.
type keyScan struct {
	k                                stoa.Key
	scopes                           string
	expires, revoked, lastUsed, made int64
	keeps                            int64
}

func (s *keyScan) dest() []any {
	return []any{
		&s.k.ID, &s.k.AccountID, &s.k.Name, &s.k.Hint, &s.scopes, &s.k.RequestsPerMinute, &s.k.MaxCreditsPerDay,
		&s.expires, &s.revoked, &s.lastUsed, &s.made, &s.k.RootID, &s.k.MadeBy, &s.keeps,
	}
}

func (s *keyScan) done() stoa.Key {
	s.k.Scopes = strings.Fields(s.scopes)
	s.k.ExpiresAt, s.k.RevokedAt = db.Time(s.expires), db.Time(s.revoked)
	s.k.KeepsMade = s.keeps != 0
	s.k.LastUsedAt, s.k.CreatedAt = db.Time(s.lastUsed), db.Time(s.made)
	return s.k
}

// InsertKey adds a key whose secret has that hash (hex SHA-256). An empty ID is
// filled in; CreatedAt is the transaction's time. A hash that is there already
// is CodeConflict; an account at its limit of keys is CodeLimitReached.
func (tx *Tx) InsertKey(ctx context.Context, k stoa.Key, hash string) (stoa.Key, error) {
	if k.ID == "" {
		k.ID = stoa.NewID("key")
	}
	if err := tx.keyQuota(ctx, k.AccountID); err != nil {
		return k, err
	}
	k.CreatedAt = tx.Now
	n, err := tx.Exec(ctx, `INSERT INTO keys (id, account_id, hash, name, hint, scopes, rpm, max_per_day, expires_at, revoked_at, last_used_at, created_at, root_id, made_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13) ON CONFLICT (hash) DO NOTHING`,
		k.ID, k.AccountID, hash, k.Name, k.Hint, strings.Join(k.Scopes, " "), k.RequestsPerMinute, int64(k.MaxCreditsPerDay),
		db.Micros(k.ExpiresAt), db.Micros(k.RevokedAt), db.Micros(k.CreatedAt), k.RootID, k.MadeBy)
	if err == nil && n == 0 {
		err = stoa.Errorf(stoa.CodeConflict, "This key is in use already.")
	}
	return k, err
}

// KeyByHash returns the key whose secret has that hash, and its account.
func (tx *Tx) KeyByHash(ctx context.Context, hash string) (stoa.Key, stoa.Account, bool, error) {
	var s keyScan
	var a stoa.Account
	var created int64
	found, err := tx.Get(ctx, `SELECT k.id, k.account_id, k.name, k.hint, k.scopes, k.rpm, k.max_per_day, k.expires_at, k.revoked_at, k.last_used_at, k.created_at, k.root_id, k.made_by, k.keeps_made,
			a.id, a.name, a.email, a.plan, a.suspended, a.default_space_id, a.created_at
		FROM keys k JOIN accounts a ON a.id = k.account_id WHERE k.hash = $1`, []any{hash},
		append(s.dest(), &a.ID, &a.Name, &a.Email, &a.Plan, &a.Suspended, &a.DefaultSpaceID, &created)...)
	a.CreatedAt = db.Time(created)
	return s.done(), a, found, err
}

// Key returns an account's key with that id; CodeNotFound where there is none.
func (tx *Tx) Key(ctx context.Context, accountID, id string) (stoa.Key, error) {
	var s keyScan
	found, err := tx.Get(ctx, `SELECT `+keyColumns+` FROM keys WHERE account_id = $1 AND id = $2`, []any{accountID, id}, s.dest()...)
	if err == nil && !found {
		err = noKey(id)
	}
	return s.done(), err
}

// AccountOfKey returns the id of the account that has a key, for operators, who do not
// know it; CodeNotFound where there is no such key.
func (tx *Tx) AccountOfKey(ctx context.Context, id string) (accountID string, err error) {
	found, err := tx.Get(ctx, `SELECT account_id FROM keys WHERE id = $1`, []any{id}, &accountID)
	if err == nil && !found {
		err = noKey(id)
	}
	return accountID, err
}

func noKey(id string) error { return stoa.Errorf(stoa.CodeNotFound, "There is no key %q.", id) }

// Keys lists an account's keys, revoked and expired ones too.
func (tx *Tx) Keys(ctx context.Context, accountID string, p Page) ([]stoa.Key, bool, error) {
	return page(ctx, tx, p, func(rows *sql.Rows) (stoa.Key, error) {
		var s keyScan
		err := rows.Scan(s.dest()...)
		return s.done(), err
	}, `SELECT `+keyColumns+` FROM keys WHERE account_id = $1`, accountID)
}

// UpdateKey writes a key's name, scopes, limits, expiry and revocation;
// CodeNotFound where there is none.
func (tx *Tx) UpdateKey(ctx context.Context, k stoa.Key) error {
	n, err := tx.Exec(ctx, `UPDATE keys SET name = $3, scopes = $4, rpm = $5, max_per_day = $6, expires_at = $7, revoked_at = $8 WHERE account_id = $1 AND id = $2`,
		k.AccountID, k.ID, k.Name, strings.Join(k.Scopes, " "), k.RequestsPerMinute, int64(k.MaxCreditsPerDay), db.Micros(k.ExpiresAt), db.Micros(k.RevokedAt))
	if err == nil && n == 0 {
		err = noKey(k.ID)
	}
	return err
}

// SetKeySuccessor records that a key was replaced by another one of its account.
func (tx *Tx) SetKeySuccessor(ctx context.Context, accountID, id, successorID string) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET successor_id = $3 WHERE account_id = $1 AND id = $2`, accountID, id, successorID)
	return err
}

// KeySuccessor returns the id of the key that replaced a key; empty where none did.
func (tx *Tx) KeySuccessor(ctx context.Context, accountID, id string) (successorID string, err error) {
	_, err = tx.Get(ctx, `SELECT successor_id FROM keys WHERE account_id = $1 AND id = $2`, []any{accountID, id}, &successorID)
	return successorID, err
}

// KeepMade records whether what a revoked key created goes on.
func (tx *Tx) KeepMade(ctx context.Context, accountID, id string, keep bool) error {
	n := 0
	if keep {
		n = 1
	}
	_, err := tx.Exec(ctx, `UPDATE keys SET keeps_made = $3 WHERE account_id = $1 AND id = $2`, accountID, id, n)
	return err
}

// TouchKey records that a key was used at that time, unless a later use is known.
func (tx *Tx) TouchKey(ctx context.Context, id string, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET last_used_at = $2 WHERE id = $1 AND last_used_at < $2`, id, db.Micros(at))
	return err
}
