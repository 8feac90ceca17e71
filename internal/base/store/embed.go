package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var embeds = newTable[stoa.Embed]("embeds")

// InsertEmbed adds an embed. ticket is the hash of an embed URL's ticket, visitor that of
// the secret that reopens the chat of a tag. ID and ChatID must be set; CreatedAt is the
// transaction's time.
func (tx Setup) InsertEmbed(ctx context.Context, e stoa.Embed, ticket, visitor string) (stoa.Embed, error) {
	if err := tx.embedQuota(ctx, e); err != nil {
		return e, err
	}
	e.CreatedAt = tx.Now
	_, err := embeds.insert(ctx, tx.Tx, &e, "", "ticket", ticket, "visitor", visitor)
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

// Embed returns an embed of one kind of an account's agent, or CodeNotFound.
func (tx Setup) Embed(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, id string) (stoa.Embed, error) {
	missing := stoa.Errorf(stoa.CodeNotFound, "This agent has no such embed.").At("embedId")
	return embeds.one(ctx, tx.Tx, missing, `account_id = $1 AND agent_id = $2 AND kind = $3 AND id = $4`, accountID, agentID, kind, id)
}

// EmbedByID returns an embed of any account. It names no account, because a visitor presents only its
// secret, and its page needs none.
func (tx Setup) EmbedByID(ctx context.Context, id string) (stoa.Embed, bool, error) {
	return embeds.first(ctx, tx.Tx, `id = $1`, id)
}

// LockEmbed is [Setup.EmbedByID], and locks the row until the commit, so that messages are counted one
// after the other.
func (tx Setup) LockEmbed(ctx context.Context, id string) (stoa.Embed, bool, error) {
	return embeds.first(ctx, tx.Tx, `id = $1`+tx.ForUpdate(), id)
}

// Embeds lists the embeds of one kind of an agent, ended ones too. A text in the origins, the id of the visitor,
// of the chat or of the embed narrows it (see [Setup.Agents]).
func (tx Setup) Embeds(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, text string, p Page) ([]stoa.Embed, Cursor, error) {
	return embeds.search(ctx, tx.Tx, p, filtered{
		from: `FROM embeds WHERE account_id = $1 AND agent_id = $2 AND kind = $3`, args: []any{accountID, agentID, kind},
		search: textSearch{text, []string{"origins", "external_user_id", "chat_id", "id"}},
	})
}

// TicketOf returns the hash of an embed's ticket.
func (tx Setup) TicketOf(ctx context.Context, id string) (hash string, err error) {
	_, err = tx.Get(ctx, `SELECT ticket FROM embeds WHERE id = $1`, []any{id}, &hash)
	return hash, err
}

// ExchangeEmbed marks an embed's ticket as used, and reports whether it was
// unused before.
func (tx Setup) ExchangeEmbed(ctx context.Context, id string, chatExpiresAt time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE embeds SET exchanged_at = $2, chat_expires_at = $3 WHERE id = $1 AND exchanged_at = 0`, id, db.Micros(tx.Now), db.Micros(chatExpiresAt))
	return n == 1, err
}

// RevokeEmbed ends an embed and its tokens. One that has already ended stays unchanged. A missing embed
// is CodeNotFound.
func (tx Setup) RevokeEmbed(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, id string) error {
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
func (tx Setup) SendUnderEmbed(ctx context.Context, e stoa.Embed, recent []time.Time) error {
	e.Messages++
	e.Recent, e.UsedAt = recent, tx.Now
	_, err := embeds.change(ctx, tx.Tx, &e, `messages recent used_at`, `id = $1`, e.ID)
	return err
}

// InsertEmbedToken adds a token, by its hash, and removes expired ones, so that refreshes leave no rows.
func (tx Setup) InsertEmbedToken(ctx context.Context, embedID, hash string, expiresAt time.Time) error {
	if _, err := tx.Exec(ctx, `DELETE FROM embed_tokens WHERE embed_id = $1 AND expires_at <= $2`, embedID, db.Micros(tx.Now)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO embed_tokens (hash, embed_id, expires_at) VALUES ($1, $2, $3)`, hash, embedID, db.Micros(expiresAt))
	return err
}

// EmbedToken returns the embed that a token belongs to.
func (tx Setup) EmbedToken(ctx context.Context, hash string) (embedID string, expiresAt time.Time, found bool, err error) {
	var expires int64
	found, err = tx.Get(ctx, `SELECT embed_id, expires_at FROM embed_tokens WHERE hash = $1`, []any{hash}, &embedID, &expires)
	return embedID, db.Time(expires), found, err
}

// EmbedChat returns the user of a chat that was created for an embed, and whether
// its session has begun.
func (tx Setup) EmbedChat(ctx context.Context, accountID, agentID, id string) (userID string, begun, found bool, err error) {
	found, err = tx.Get(ctx, `SELECT user_id, begun FROM embed_chats WHERE account_id = $1 AND agent_id = $2 AND id = $3`, []any{accountID, agentID, id}, &userID, &begun)
	return userID, begun, found, err
}

// IsShown reports whether an embed shows a session to a visitor.
func (tx Setup) IsShown(ctx context.Context, accountID, sessionID string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM embeds WHERE account_id = $1 AND chat_id = $2 LIMIT 1`, []any{accountID, sessionID}, &one)
}

// InsertEmbedChat adds a chat whose session begins later.
func (tx Setup) InsertEmbedChat(ctx context.Context, accountID, agentID, id, userID string) error {
	_, err := tx.Exec(ctx, `INSERT INTO embed_chats (id, account_id, agent_id, user_id, begun, created_at) VALUES ($1, $2, $3, $4, 0, $5)`,
		id, accountID, agentID, userID, db.Micros(tx.Now))
	return err
}

// NameEmbedChat sets the user of a chat that has none and whose session has not begun.
func (tx Setup) NameEmbedChat(ctx context.Context, accountID, agentID, id, userID string) error {
	_, err := tx.Exec(ctx, `UPDATE embed_chats SET user_id = $4 WHERE account_id = $1 AND agent_id = $2 AND id = $3 AND user_id = '' AND begun = 0`, accountID, agentID, id, userID)
	return err
}

// BeginEmbedChat marks a chat's session as begun, and reports whether it had not
// begun before.
func (tx Setup) BeginEmbedChat(ctx context.Context, accountID, id string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE embed_chats SET begun = 1 WHERE account_id = $1 AND id = $2 AND begun = 0`, accountID, id)
	return n == 1, err
}

// ServeVisitor sets the line in which a session waits, and the maximum spending of all its
// turns together; 0 removes the limit.
func (tx Setup) ServeVisitor(ctx context.Context, accountID, id, line string, most stoa.Credits) error {
	_, err := tx.Exec(ctx, `UPDATE sessions SET line = $3, max_spend = $4 WHERE account_id = $1 AND id = $2`, accountID, id, line, int64(most))
	return err
}
