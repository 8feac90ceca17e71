package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var keys = newTable[stoa.Key]("keys")

// InsertKey adds a key whose secret has that hash (hex SHA-256). An empty ID is
// filled in; CreatedAt is the transaction's time. A hash that is there already
// is CodeConflict; an account at its limit of keys is CodeLimitReached.
func (tx People) InsertKey(ctx context.Context, k stoa.Key, hash string) (stoa.Key, error) {
	if k.ID == "" {
		k.ID = stoa.NewID("key")
	}
	if k.Kind == "" {
		if err := tx.keyQuota(ctx, k.AccountID); err != nil {
			return k, err
		}
	}
	k.CreatedAt = tx.Now
	n, err := keys.insert(ctx, tx.Tx, &k, ` ON CONFLICT (hash) DO NOTHING`, "hash", hash)
	if err == nil && n == 0 {
		err = stoa.Errorf(stoa.CodeConflict, "This key is in use already.")
	}
	return k, err
}

// KeyByHash returns the key whose secret has that hash, and its account.
func (tx People) KeyByHash(ctx context.Context, hash string) (k stoa.Key, a stoa.Account, found bool, err error) {
	found, err = tx.Get(ctx, `SELECT `+keys.columnsOf("k.")+`, `+accounts.columnsOf("a.")+`
		FROM keys k JOIN accounts a ON a.id = k.account_id WHERE k.hash = $1`, []any{hash}, append(keys.dest(&k), accounts.dest(&a)...)...)
	return k, a, found, err
}

// Key returns an account's key with that id, or CodeNotFound.
func (tx People) Key(ctx context.Context, accountID, id string) (stoa.Key, error) {
	return keys.one(ctx, tx.Tx, NoKey(id), `account_id = $1 AND id = $2`, accountID, id)
}

// AccountOfKey returns the account id of a key, for operators, or CodeNotFound.
func (tx People) AccountOfKey(ctx context.Context, id string) (accountID string, err error) {
	found, err := tx.Get(ctx, `SELECT account_id FROM keys WHERE id = $1`, []any{id}, &accountID)
	if err == nil && !found {
		err = NoKey(id)
	}
	return accountID, err
}

// NoKey returns CodeNotFound for a key.
func NoKey(id string) error { return stoa.Errorf(stoa.CodeNotFound, "There is no key %q.", id) }

// A KeyFilter narrows a list of keys. Empty members match all.
type KeyFilter struct {
	MemberID  string
	Text      string // a part of the name or of the id, ignoring case
	Unrevoked bool   // omits revoked keys
}

// Keys lists an account's keys with secrets, expired ones too, also by the charges of 30 days (SortSpent) or their last use
// (SortUsed), and returns the cursor of the next page, or
// the zero cursor. With a text or only unrevoked ones, a page may be short or empty although there is a
// next one, because it reads at most 2,000 keys.
func (tx People) Keys(ctx context.Context, accountID string, f KeyFilter, p Page) ([]stoa.Key, Cursor, error) {
	args, cond := narrow([]any{accountID}, "member_id", f.MemberID)
	q := filtered{from: `FROM keys WHERE account_id = $1 AND kind = ''` + cond, args: args, search: textSearch{f.Text, []string{"name", "id"}}}
	if f.Unrevoked {
		q.tests = append(q.tests, test{`revoked_at <= $%d`, 0})
	}
	switch p.By {
	case SortUsed:
		q = q.sorted(strings.Replace(q.from, `FROM keys`, `FROM (SELECT k.*, last_used_at AS sort_key FROM keys k) keys`, 1), q.args...)
	case SortSpent:
		sums := fmt.Sprintf(`FROM (SELECT k.*, COALESCE(h.amount, 0) AS sort_key FROM keys k LEFT JOIN (SELECT key_id, CAST(SUM(amount) AS BIGINT) AS amount FROM charge_hours
			WHERE account_id = $1 AND account_id <> '' AND hour >= $%d GROUP BY key_id) h ON h.key_id = k.id) keys`, len(args)+1)
		q = q.sorted(strings.Replace(q.from, `FROM keys`, sums, 1), append(slices.Clip(args), tx.Books().spentSince()*24)...)
	}
	return keys.search(ctx, tx.Tx, p, q)
}

// UpdateKey writes a key's name, scopes, limits, lists, expiry and revocation. A key in force without
// the scope operator loses its webhooks with the alerts of the service: they are disabled. It fails
// with CodeNotFound if the key does not exist.
func (tx People) UpdateKey(ctx context.Context, k stoa.Key) error {
	n, err := keys.change(ctx, tx.Tx, &k, `name scopes rpm max_per_day expires_at revoked_at models networks require_end_user`, `account_id = $1 AND id = $2`, k.AccountID, k.ID)
	if err == nil && n == 0 {
		err = NoKey(k.ID)
	}
	if err == nil && k.RevokedAt.IsZero() && !k.Has(stoa.ScopeOperator) {
		err = tx.Operations().disableAlertsOf(ctx, k)
	}
	return err
}

// SetKeySuccessor records that a key was replaced by another one of its account.
func (tx People) SetKeySuccessor(ctx context.Context, accountID, id, successorID string) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET successor_id = $3 WHERE account_id = $1 AND id = $2`, accountID, id, successorID)
	return err
}

// KeySuccessor returns the id of the key that replaced a key; empty where none did.
func (tx People) KeySuccessor(ctx context.Context, accountID, id string) (successorID string, err error) {
	_, err = tx.Get(ctx, `SELECT successor_id FROM keys WHERE account_id = $1 AND id = $2`, []any{accountID, id}, &successorID)
	return successorID, err
}

// KeepMade records whether the objects that a revoked key created continue.
func (tx People) KeepMade(ctx context.Context, accountID, id string, keep bool) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET keeps_made = $3 WHERE account_id = $1 AND id = $2`, accountID, id, db.Bit(keep))
	return err
}

// TouchKey records that a key was used at that time, unless a later use is recorded, since nodes write in
// any order.
func (tx People) TouchKey(ctx context.Context, id string, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET last_used_at = $2 WHERE id = $1 AND last_used_at < $2`, id, db.Micros(at))
	return err
}
