package store

import (
	"context"

	"stoa/internal/base/db"
)

// KeyObjects selects objects of a key: those that it created, those of others that it changed
// according to the audit log, or both, and the keys that it created.
type KeyObjects struct{ Made, Changed, Keys bool }

func (o KeyObjects) bits() int64 {
	return db.Bit(o.Made) | db.Bit(o.Changed)<<1 | db.Bit(o.Keys)<<2
}

// SetEnding records the objects of a revoked key that are to be ended; see [People.Ended].
func (tx People) SetEnding(ctx context.Context, accountID, keyID string, o KeyObjects) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET ending = ending | $3 WHERE account_id = $1 AND id = $2`, accountID, keyID, o.bits())
	return err
}

// Ending returns the objects of a revoked key that remain to be ended.
func (tx People) Ending(ctx context.Context, accountID, keyID string) (KeyObjects, error) {
	var bits int64
	_, err := tx.Get(ctx, `SELECT ending FROM keys WHERE account_id = $1 AND id = $2`, []any{accountID, keyID}, &bits)
	return KeyObjects{Made: bits&1 > 0, Changed: bits&2 > 0, Keys: bits&4 > 0}, err
}

// Ended records that the objects of a revoked key that o selects have ended.
func (tx People) Ended(ctx context.Context, accountID, keyID string, o KeyObjects) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET ending = ending & ~CAST($3 AS BIGINT) WHERE account_id = $1 AND id = $2`, accountID, keyID, o.bits())
	return err
}

// KeysEnding lists revoked keys of whose objects some remain to be ended, after the given one.
func (tx People) KeysEnding(ctx context.Context, after string, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM keys WHERE ending <> 0 AND id > $1 ORDER BY id LIMIT $2`, after, limit)
}

// of returns the condition for objects in table. The first arguments of the query are the account
// and the key.
func (o KeyObjects) of(table string) string {
	changed := `EXISTS (SELECT 1 FROM audit a WHERE a.account_id = $1 AND a.object = ` + table + `.id AND a.actor = $2)`
	switch {
	case o.Made && o.Changed:
		return `(key_id = $2 OR ` + changed + `)`
	case o.Changed:
		return `key_id <> $2 AND ` + changed
	}
	return `key_id = $2`
}

// RevokeEmbedsMadeBy ends at most limit embeds that a key created, with their tokens, and
// returns their number. See
// docs/decisions/0032-revoking-a-key-ends-its-embeds-and-tasks.md.
func (tx People) RevokeEmbedsMadeBy(ctx context.Context, accountID, keyID string, limit int) (int, error) {
	ids, err := tx.texts(ctx, `SELECT id FROM embeds WHERE account_id = $1 AND key_id = $2 AND revoked_at = 0 LIMIT $3`, accountID, keyID, limit)
	for _, id := range ids {
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE embeds SET revoked_at = $2 WHERE id = $1`, id, db.Micros(tx.Now))
		}
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM embed_tokens WHERE embed_id = $1`, id)
		}
		tx.AuditAutomatic(accountID, "embed.revoked", id, keyRevoked)
	}
	return len(ids), err
}

// DisableTagsOf disables at most limit script tags of a key, and returns their number.
func (tx People) DisableTagsOf(ctx context.Context, accountID, keyID string, which KeyObjects, limit int) (int, error) {
	return tx.disableOf(ctx, "embed_tags", "embed_tag.disabled", accountID, keyID, which, limit)
}

// disableOf disables at most limit rows of a table that belong to a key, and returns their number. action names it in the
// audit log.
func (tx *Tx) disableOf(ctx context.Context, table, action, accountID, keyID string, which KeyObjects, limit int) (int, error) {
	ids, err := tx.texts(ctx, `UPDATE `+table+` SET disabled = $3, revision = revision + 1, updated_at = $4
		WHERE account_id = $1 AND id IN (SELECT id FROM `+table+` WHERE account_id = $1 AND `+which.of(table)+` AND disabled = '' LIMIT $5) RETURNING id`,
		accountID, keyID, keyRevoked, db.Micros(tx.Now), limit)
	for _, id := range ids {
		tx.AuditAutomatic(accountID, action, id, keyRevoked)
	}
	return len(ids), err
}

// keyRevoked is the reason, in the audit log and in the rows, of the end of what a revoked key created.
const keyRevoked = "key_revoked"

// DisableConnectionsChangedBy switches off at most limit connections that a key created or changed
// according to the audit log, and returns their number.
func (tx People) DisableConnectionsChangedBy(ctx context.Context, accountID, keyID string, limit int) (int, error) {
	ids, err := tx.texts(ctx, `UPDATE connections SET enabled = 0, revision = revision + 1, updated_at = $3
		WHERE account_id = $1 AND id IN (SELECT id FROM connections WHERE account_id = $1 AND enabled = 1
			AND EXISTS (SELECT 1 FROM audit a WHERE a.account_id = $1 AND a.object = connections.id AND a.actor = $2) LIMIT $4) RETURNING id`,
		accountID, keyID, db.Micros(tx.Now), limit)
	for _, id := range ids {
		tx.AuditAutomatic(accountID, "connection.disabled", id, keyRevoked)
	}
	return len(ids), err
}

// TasksOf returns at most limit scheduled tasks of a key that are not paused; postponed ones only
// if all is set.
func (tx People) TasksOf(ctx context.Context, accountID, keyID string, which KeyObjects, all bool, limit int) ([]Ref, error) {
	until := db.Micros(tx.Now)
	if all {
		until = 1 << 62
	}
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM tasks WHERE account_id = $1 AND `+which.of("tasks")+` AND enabled = 1 AND deleted_at = 0 AND (retry_at <= $3 OR retry_at > $5) LIMIT $4`,
		accountID, keyID, until, limit, tx.Work().lastRetry())
}

// KeysMadeBy returns the keys that a key created and that are not revoked, at most
// limit.
func (tx People) KeysMadeBy(ctx context.Context, accountID, keyID string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM keys WHERE account_id = $1 AND made_by = $2 AND (revoked_at = 0 OR revoked_at > $3) ORDER BY id LIMIT $4`,
		accountID, keyID, db.Micros(tx.Now), limit)
}
