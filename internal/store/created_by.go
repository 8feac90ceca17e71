package store

import (
	"context"

	"stoa/internal/db"
)

// RevokeEmbedsMadeBy ends at most limit embeds that a key created, with their tokens, and
// returns their number. See
// docs/decisions/0032-revoking-a-key-ends-its-embeds-and-tasks.md.
func (tx *Tx) RevokeEmbedsMadeBy(ctx context.Context, accountID, keyID string, limit int) (int, error) {
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

// DisableTagsMadeBy disables at most limit script tags that a key created, and returns
// their number.
func (tx *Tx) DisableTagsMadeBy(ctx context.Context, accountID, keyID string, limit int) (int, error) {
	ids, err := tx.texts(ctx, `UPDATE embed_tags SET disabled = $3, revision = revision + 1, updated_at = $4
		WHERE id IN (SELECT id FROM embed_tags WHERE account_id = $1 AND key_id = $2 AND disabled = '' LIMIT $5) RETURNING id`,
		accountID, keyID, TagDisabledByKey, db.Micros(tx.Now), limit)
	for _, id := range ids {
		tx.AuditAutomatic(accountID, "embed_tag.disabled", id, keyRevoked)
	}
	return len(ids), err
}

// keyRevoked is the reason, in the audit log, of the end of what a revoked key created.
const keyRevoked = "key_revoked"

// TasksMadeBy returns at most limit scheduled tasks that a key created and that are not
// paused; postponed ones only if all is set.
func (tx *Tx) TasksMadeBy(ctx context.Context, accountID, keyID string, all bool, limit int) ([]Ref, error) {
	until := db.Micros(tx.Now)
	if all {
		until = 1 << 62
	}
	return list(ctx, tx, scanRef, `SELECT account_id, id FROM tasks WHERE account_id = $1 AND key_id = $2 AND enabled = 1 AND deleted_at = 0 AND (retry_at <= $3 OR retry_at > $5) LIMIT $4`,
		accountID, keyID, until, limit, tx.lastRetry())
}

// KeysMadeBy returns the keys that a key created and that are not revoked, at most
// limit.
func (tx *Tx) KeysMadeBy(ctx context.Context, accountID, keyID string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM keys WHERE account_id = $1 AND made_by = $2 AND (revoked_at = 0 OR revoked_at > $3) ORDER BY id LIMIT $4`,
		accountID, keyID, db.Micros(tx.Now), limit)
}
