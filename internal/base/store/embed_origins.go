package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// maxRefusals is the maximum number of refused origins that are stored by name, because a program can
// send any origin.
const maxRefusals = 20

// EmbedListing returns the newest valid embed session that lists one of the
// patterns, for a chat or, with an empty chatID, for any; found reports whether
// there is one.
func (tx Setup) EmbedListing(ctx context.Context, chatID string, patterns []string) (id string, found bool, err error) {
	for _, pattern := range patterns {
		var one string
		var is bool
		if chatID != "" {
			is, err = tx.Get(ctx, `SELECT e.id FROM embeds e WHERE e.chat_id = $1 AND e.revoked_at = 0 AND e.chat_expires_at > $2
				AND EXISTS (SELECT 1 FROM embed_origins o WHERE o.embed_id = e.id AND o.origin = $3) ORDER BY e.created_at DESC, e.id DESC LIMIT 1`,
				[]any{chatID, db.Micros(tx.Now), pattern}, &one)
		} else { // by id, since ids are in the order of their time
			is, err = tx.Get(ctx, `SELECT o.embed_id FROM embed_origins o WHERE o.origin = $1
				AND EXISTS (SELECT 1 FROM embeds e WHERE e.id = o.embed_id AND e.revoked_at = 0 AND e.chat_expires_at > $2) ORDER BY o.embed_id DESC LIMIT 1`,
				[]any{pattern, db.Micros(tx.Now)}, &one)
		}
		if err != nil {
			return "", false, err
		}
		if is && one > id {
			id, found = one, true
		}
	}
	return id, found, nil
}

// EmbedOfChat returns the newest valid embed of a chat.
func (tx Setup) EmbedOfChat(ctx context.Context, chatID string) (id string, found bool, err error) {
	found, err = tx.Get(ctx, `SELECT id FROM embeds WHERE chat_id = $1 AND revoked_at = 0 AND chat_expires_at > $2
		ORDER BY created_at DESC, id DESC LIMIT 1`, []any{chatID, db.Micros(tx.Now)}, &id)
	return id, found, err
}

// A Refusal is an origin that requested an embed which does not list it.
type Refusal struct {
	Origin string
	Times  int64
	LastAt time.Time
}

// RefuseOrigin counts a request from an origin that an embed or a tag does not list. Beyond the first
// 20 origins only the sum grows.
func (tx Setup) RefuseOrigin(ctx context.Context, embedID, origin string) error {
	counted := `UPDATE embeds SET refused = refused + 1 WHERE id = $1`
	if stoa.IsID("pub", embedID) {
		counted = `UPDATE embed_tags SET refused = refused + 1 WHERE id = $1`
	}
	if _, err := tx.Exec(ctx, counted, embedID); err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `UPDATE embed_refusals SET times = times + 1, last_at = $3 WHERE embed_id = $1 AND origin = $2`, embedID, origin, db.Micros(tx.Now))
	if err != nil || n > 0 {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO embed_refusals (embed_id, origin, times, last_at)
		SELECT $1, $2, 1, $3 WHERE (SELECT count(*) FROM embed_refusals WHERE embed_id = $1) < $4 ON CONFLICT (embed_id, origin) DO NOTHING`,
		embedID, origin, db.Micros(tx.Now), maxRefusals)
	return err
}

// Refusals lists the origins that an embed refused, the latest first.
func (tx Setup) Refusals(ctx context.Context, embedID string) ([]Refusal, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (r Refusal, err error) {
		var last int64
		err = rows.Scan(&r.Origin, &r.Times, &last)
		r.LastAt = db.Time(last)
		return r, err
	}, `SELECT origin, times, last_at FROM embed_refusals WHERE embed_id = $1 ORDER BY last_at DESC, origin`, embedID)
}

// PurgeEmbeds removes embeds and unused chats that were created before a time, at
// most limit of each. The caller chooses a time by which all have expired.
func (tx Setup) PurgeEmbeds(ctx context.Context, before time.Time, limit int) error {
	ids, err := tx.texts(ctx, `SELECT id FROM embeds WHERE created_at < $1 ORDER BY created_at LIMIT $2`, db.Micros(before), limit)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := tx.deleteEmbed(ctx, id); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `DELETE FROM embed_chats WHERE id IN (SELECT id FROM embed_chats WHERE created_at < $1 ORDER BY created_at LIMIT $2)`, db.Micros(before), limit)
	return err
}

// deleteEmbed deletes an embed, but not its chat.
func (tx Setup) deleteEmbed(ctx context.Context, id string) error {
	for _, q := range []string{
		`DELETE FROM embed_tokens WHERE embed_id = $1`,
		`DELETE FROM embed_origins WHERE embed_id = $1`,
		`DELETE FROM embed_refusals WHERE embed_id = $1`,
		`DELETE FROM embed_tickets WHERE embed_id = $1`,
		`DELETE FROM own_credentials WHERE owner_id = $1`,
		`DELETE FROM embeds WHERE id = $1`,
	} {
		if _, err := tx.Exec(ctx, q, id); err != nil {
			return err
		}
	}
	return nil
}
