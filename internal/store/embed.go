package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/db"
	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

const embedColumns = `id, account_id, agent_id, key_id, kind, chat_id, origins, external_user_id, greeting, theme,
	messages_per_minute, max_messages, max_message_chars, max_credits, spent_before, token_life, chat_life,
	expires_at, chat_expires_at, exchanged_at, revoked_at, used_at, created_at, messages, recent, refused, tag_id`

// scanEmbed reads a row of embedColumns.
func scanEmbed(rows *sql.Rows) (stoa.Embed, error) {
	var e stoa.Embed
	var origins, recent string
	var tokenLife, chatLife, expires, chatExpires, exchanged, revoked, used, created int64
	if err := rows.Scan(&e.ID, &e.AccountID, &e.AgentID, &e.KeyID, &e.Kind, &e.ChatID, &origins, &e.ExternalUserID, &e.Greeting, &e.Theme,
		&e.MessagesPerMinute, &e.MaxMessages, &e.MaxMessageChars, &e.MaxCredits, &e.SpentBefore, &tokenLife, &chatLife,
		&expires, &chatExpires, &exchanged, &revoked, &used, &created, &e.Messages, &recent, &e.Refused, &e.TagID); err != nil {
		return e, err
	}
	e.TokenLife, e.ChatLife = time.Duration(tokenLife)*time.Microsecond, time.Duration(chatLife)*time.Microsecond
	e.ExpiresAt, e.ChatExpiresAt, e.ExchangedAt = db.Time(expires), db.Time(chatExpires), db.Time(exchanged)
	e.RevokedAt, e.UsedAt, e.CreatedAt = db.Time(revoked), db.Time(used), db.Time(created)
	if err := jsonx.Unmarshal([]byte(origins), &e.Origins); err != nil {
		return e, err
	}
	var times []int64
	if err := jsonx.Unmarshal([]byte(recent), &times); err != nil {
		return e, err
	}
	for _, t := range times {
		e.Recent = append(e.Recent, db.Time(t))
	}
	return e, nil
}

// InsertEmbed adds an embed. ticket is the hash of an embed URL's ticket, visitor that
// of what opens the chat of a tag again. ID and ChatID must be set; CreatedAt is the transaction's time.
func (tx *Tx) InsertEmbed(ctx context.Context, e stoa.Embed, ticket, visitor string) (stoa.Embed, error) {
	if err := tx.embedQuota(ctx, e); err != nil {
		return e, err
	}
	e.CreatedAt = tx.Now
	origins, err := jsonText(e.Origins)
	if err != nil {
		return e, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO embeds (id, account_id, agent_id, key_id, kind, chat_id, origins, external_user_id, greeting, theme,
			messages_per_minute, max_messages, max_message_chars, max_credits, spent_before, ticket, token_life, chat_life,
			expires_at, chat_expires_at, exchanged_at, revoked_at, used_at, messages, recent, refused, created_at, tag_id, visitor)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, 0, 0, 0, 0, '[]', 0, $21, $22, $23)`,
		e.ID, e.AccountID, e.AgentID, e.KeyID, e.Kind, e.ChatID, origins, e.ExternalUserID, e.Greeting, e.Theme,
		e.MessagesPerMinute, e.MaxMessages, e.MaxMessageChars, int64(e.MaxCredits), int64(e.SpentBefore), ticket,
		e.TokenLife.Microseconds(), e.ChatLife.Microseconds(), db.Micros(e.ExpiresAt), db.Micros(e.ChatExpiresAt), db.Micros(e.CreatedAt), e.TagID, visitor)
	if err != nil || e.Kind != stoa.EmbedSession {
		return e, err
	}
	for _, origin := range e.Origins {
		if _, err := tx.Exec(ctx, `INSERT INTO embed_origins (embed_id, origin) VALUES ($1, $2)`, e.ID, origin); err != nil {
			return e, err
		}
	}
	return e, nil
}

// Embed returns an embed of one kind of an account's agent; CodeNotFound where
// there is none.
func (tx *Tx) Embed(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, id string) (stoa.Embed, error) {
	e, found, err := tx.embed(ctx, `account_id = $1 AND agent_id = $2 AND kind = $3 AND id = $4`, accountID, agentID, kind, id)
	if err == nil && !found {
		err = stoa.Errorf(stoa.CodeNotFound, "This agent has no such embed.").At("embedId")
	}
	return e, err
}

// EmbedByID returns an embed of any account, for callers that have presented its
// secret and for its page, which needs none.
func (tx *Tx) EmbedByID(ctx context.Context, id string) (stoa.Embed, bool, error) {
	return tx.embed(ctx, `id = $1`, id)
}

// LockEmbed is [Tx.EmbedByID], and keeps the row from being changed until the
// commit.
func (tx *Tx) LockEmbed(ctx context.Context, id string) (stoa.Embed, bool, error) {
	return tx.embed(ctx, `id = $1`+tx.ForUpdate(), id)
}

func (tx *Tx) embed(ctx context.Context, cond string, args ...any) (stoa.Embed, bool, error) {
	return first(ctx, tx, scanEmbed, `SELECT `+embedColumns+` FROM embeds WHERE `+cond, args...)
}

// Embeds lists the embeds of one kind of an agent, ended ones too.
func (tx *Tx) Embeds(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, p Page) ([]stoa.Embed, bool, error) {
	return page(ctx, tx, p, scanEmbed, `SELECT `+embedColumns+` FROM embeds WHERE account_id = $1 AND agent_id = $2 AND kind = $3`, accountID, agentID, kind)
}

// TicketOf returns the hash of an embed's ticket.
func (tx *Tx) TicketOf(ctx context.Context, id string) (hash string, err error) {
	_, err = tx.Get(ctx, `SELECT ticket FROM embeds WHERE id = $1`, []any{id}, &hash)
	return hash, err
}

// ExchangeEmbed marks an embed's ticket as used, and reports whether it was
// unused before.
func (tx *Tx) ExchangeEmbed(ctx context.Context, id string, chatExpiresAt time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE embeds SET exchanged_at = $2, chat_expires_at = $3 WHERE id = $1 AND exchanged_at = 0`, id, db.Micros(tx.Now), db.Micros(chatExpiresAt))
	return n == 1, err
}

// RevokeEmbed ends an embed and its tokens. One that has ended stays as it is;
// CodeNotFound where there is none.
func (tx *Tx) RevokeEmbed(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, id string) error {
	n, err := tx.Exec(ctx, `UPDATE embeds SET revoked_at = $5 WHERE account_id = $1 AND agent_id = $2 AND kind = $3 AND id = $4 AND revoked_at = 0`,
		accountID, agentID, kind, id, db.Micros(tx.Now))
	if err != nil {
		return err
	}
	if n == 0 {
		_, err = tx.Embed(ctx, accountID, agentID, kind, id)
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM embed_tokens WHERE embed_id = $1`, id)
	return err
}

// SendUnderEmbed counts a message of an embed. The row must be locked.
func (tx *Tx) SendUnderEmbed(ctx context.Context, e stoa.Embed, recent []time.Time) error {
	times := make([]int64, 0, len(recent))
	for _, t := range recent {
		times = append(times, db.Micros(t))
	}
	text, err := jsonText(times)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE embeds SET messages = messages + 1, recent = $2, used_at = $3 WHERE id = $1`, e.ID, text, db.Micros(tx.Now))
	return err
}

// InsertEmbedToken adds a token, by its hash, and removes those of the embed
// that have expired.
func (tx *Tx) InsertEmbedToken(ctx context.Context, embedID, hash string, expiresAt time.Time) error {
	if _, err := tx.Exec(ctx, `DELETE FROM embed_tokens WHERE embed_id = $1 AND expires_at <= $2`, embedID, db.Micros(tx.Now)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO embed_tokens (hash, embed_id, expires_at) VALUES ($1, $2, $3)`, hash, embedID, db.Micros(expiresAt))
	return err
}

// EmbedToken returns the embed that a token belongs to.
func (tx *Tx) EmbedToken(ctx context.Context, hash string) (embedID string, expiresAt time.Time, found bool, err error) {
	var expires int64
	found, err = tx.Get(ctx, `SELECT embed_id, expires_at FROM embed_tokens WHERE hash = $1`, []any{hash}, &embedID, &expires)
	return embedID, db.Time(expires), found, err
}

// EmbedChat returns the user of a chat that was created for an embed, and whether
// its session has begun.
func (tx *Tx) EmbedChat(ctx context.Context, accountID, agentID, id string) (userID string, begun, found bool, err error) {
	found, err = tx.Get(ctx, `SELECT user_id, begun FROM embed_chats WHERE account_id = $1 AND agent_id = $2 AND id = $3`, []any{accountID, agentID, id}, &userID, &begun)
	return userID, begun, found, err
}

// IsShown reports whether an embed shows a session to a visitor.
func (tx *Tx) IsShown(ctx context.Context, accountID, sessionID string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM embeds WHERE account_id = $1 AND chat_id = $2 LIMIT 1`, []any{accountID, sessionID}, &one)
}

// InsertEmbedChat adds a chat whose session begins later.
func (tx *Tx) InsertEmbedChat(ctx context.Context, accountID, agentID, id, userID string) error {
	_, err := tx.Exec(ctx, `INSERT INTO embed_chats (id, account_id, agent_id, user_id, begun, created_at) VALUES ($1, $2, $3, $4, 0, $5)`,
		id, accountID, agentID, userID, db.Micros(tx.Now))
	return err
}

// BeginEmbedChat marks a chat's session as begun, and reports whether it had not
// begun before.
func (tx *Tx) BeginEmbedChat(ctx context.Context, accountID, id string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE embed_chats SET begun = 1 WHERE account_id = $1 AND id = $2 AND begun = 0`, accountID, id)
	return n == 1, err
}

// CapSession sets what all turns of a session together may spend; 0 lifts it.
func (tx *Tx) CapSession(ctx context.Context, accountID, id string, most stoa.Credits) error {
	_, err := tx.Exec(ctx, `UPDATE sessions SET max_spend = $3 WHERE account_id = $1 AND id = $2`, accountID, id, int64(most))
	return err
}
