package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxEmbedTags is the maximum number of script tags of an agent.
const MaxEmbedTags = 20

// TagDisabledByUser is the reason why a script tag is disabled, besides keyRevoked.
const TagDisabledByUser = "user"

var embedTags = newTable[stoa.EmbedTag]("embed_tags")

// InsertEmbedTag adds a script tag. ID, times and revision are set.
func (tx Setup) InsertEmbedTag(ctx context.Context, t stoa.EmbedTag) (stoa.EmbedTag, error) {
	err := tx.within(ctx, MaxEmbedTags, "", t.AccountID, t.AgentID, "script tags of this agent", `embed_tags WHERE account_id = $3 AND agent_id = $2`, t.AccountID)
	if err != nil {
		return t, err
	}
	t.ID, t.CreatedAt, t.UpdatedAt, t.Revision = stoa.NewID("pub"), tx.Now, tx.Now, 1
	_, err = embedTags.insert(ctx, tx.Tx, &t, "")
	return t, err
}

// EmbedTag returns a script tag of an account's agent, or CodeNotFound.
func (tx Setup) EmbedTag(ctx context.Context, accountID, agentID, id string) (stoa.EmbedTag, error) {
	return tx.tag(ctx, accountID, agentID, id, "")
}

func (tx Setup) tag(ctx context.Context, accountID, agentID, id, lock string) (stoa.EmbedTag, error) {
	return embedTags.one(ctx, tx.Tx, noTag(), `account_id = $1 AND agent_id = $2 AND id = $3`+lock, accountID, agentID, id)
}

func noTag() error {
	return stoa.Errorf(stoa.CodeNotFound, "This agent has no such script tag.").At("tagId")
}

// EmbedTagByID returns a script tag of any account, because its id is public.
func (tx Setup) EmbedTagByID(ctx context.Context, id string) (stoa.EmbedTag, bool, error) {
	return embedTags.first(ctx, tx.Tx, `id = $1`, id)
}

// EmbedTags lists the script tags of an agent. A text in the origins, the greeting or the id narrows it (see
// [Setup.Agents]).
func (tx Setup) EmbedTags(ctx context.Context, accountID, agentID, text string, p Page) ([]stoa.EmbedTag, Cursor, error) {
	return embedTags.search(ctx, tx.Tx, p, filtered{
		from: `FROM embed_tags WHERE account_id = $1 AND agent_id = $2`, args: []any{accountID, agentID},
		search: textSearch{text, []string{"origins", "greeting", "id"}},
	})
}

// EditEmbedTag lets fn change a script tag and writes the result. It locks the row while fn runs, so that
// fn can compare revisions. If fn fails, it returns the error and writes nothing.
func (tx Setup) EditEmbedTag(ctx context.Context, accountID, agentID, id string, fn func(*stoa.EmbedTag) error) (stoa.EmbedTag, error) {
	t, err := tx.tag(ctx, accountID, agentID, id, tx.ForUpdate())
	if err != nil {
		return t, err
	}
	return embedTags.edit(ctx, tx.Tx, accountID, id, t, fn)
}

// DeleteEmbedTag removes a script tag. Its chats end, because they need it. A missing tag is CodeNotFound.
func (tx Setup) DeleteEmbedTag(ctx context.Context, accountID, agentID, id string) error {
	n, err := tx.Exec(ctx, `DELETE FROM embed_tags WHERE account_id = $1 AND agent_id = $2 AND id = $3`, accountID, agentID, id)
	if err == nil && n == 0 {
		err = noTag()
	}
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, `DELETE FROM embed_refusals WHERE embed_id = $1`, id); err != nil {
		return err
	}
	return tx.SetOwnCredentials(ctx, accountID, id, nil)
}

// ChatsBegunBy counts the chats of a script tag that had their first message since a time, up to limit:
// all of them, or those of a network if it is not empty. It locks the tag until the commit, so that
// concurrent chats are counted.
func (tx Setup) ChatsBegunBy(ctx context.Context, tagID, network string, since time.Time, limit int) (n int, err error) {
	if tx.Postgres() {
		if _, err := tx.Exec(ctx, `SELECT 1 FROM embed_tags WHERE id = $1 FOR UPDATE`, tagID); err != nil {
			return 0, err
		}
	}
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM embeds WHERE tag_id = $1 AND begun_at > 0 AND begun_at > $2 AND ($3 = '' OR network = $3) LIMIT $4) found`,
		[]any{tagID, db.Micros(since), network, limit}, &n)
	return n, err
}

// BeginTagChat records the first message in the chat of a script tag's embed, and the hash of
// the visitor's network. It fails with CodeLimitReached above the quota of the agent.
func (tx Setup) BeginTagChat(ctx context.Context, e stoa.Embed, network string) error {
	err := tx.within(ctx, tx.s.quota.Embeds, "limits.embedsPerDay", e.AccountID, e.AgentID, "chats that visitors of script tags began with this agent within 24 hours",
		`embeds WHERE account_id = $3 AND agent_id = $2 AND kind = $4 AND begun_at > $5`, e.AccountID, stoa.EmbedURL, db.Micros(tx.Now.Add(-24*time.Hour)))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE embeds SET begun_at = $2, network = $3 WHERE id = $1`, e.ID, db.Micros(tx.Now), network)
	return err
}

// PurgeSilentChats deletes at most limit embeds that a script tag created before a time, without messages
// and without valid tickets and tokens, because every opening of a chat may create one.
func (tx Setup) PurgeSilentChats(ctx context.Context, tagID string, before time.Time, limit int) error {
	ids, err := tx.texts(ctx, `SELECT id FROM embeds e WHERE tag_id = $1 AND tag_id <> '' AND begun_at = 0 AND created_at < $2
		AND NOT EXISTS (SELECT 1 FROM embed_tokens t WHERE t.embed_id = e.id AND t.expires_at > $3)
		AND NOT EXISTS (SELECT 1 FROM embed_tickets t WHERE t.embed_id = e.id AND t.used_at = 0 AND t.expires_at > $3)
		ORDER BY created_at LIMIT $4`, tagID, db.Micros(before), db.Micros(tx.Now), limit)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := tx.Exec(ctx, `DELETE FROM embed_chats WHERE id = (SELECT chat_id FROM embeds WHERE id = $1)`, id); err != nil {
			return err
		}
		if err := tx.deleteEmbed(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// EmbedOfVisitor returns the embed of a script tag by the hash of a visitor's token, and locks the row
// until the commit.
func (tx Setup) EmbedOfVisitor(ctx context.Context, tagID, visitor string) (stoa.Embed, bool, error) {
	return embeds.first(ctx, tx.Tx, `visitor = $1 AND visitor <> '' AND tag_id = $2`+tx.ForUpdate(), visitor, tagID)
}

// InsertEmbedTicket adds a ticket of an embed, by its hash, and removes expired ones.
func (tx Setup) InsertEmbedTicket(ctx context.Context, embedID, hash string, expiresAt time.Time) error {
	if _, err := tx.Exec(ctx, `DELETE FROM embed_tickets WHERE embed_id = $1 AND expires_at <= $2`, embedID, db.Micros(tx.Now)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO embed_tickets (hash, embed_id, expires_at, used_at) VALUES ($1, $2, $3, 0)`, hash, embedID, db.Micros(expiresAt))
	return err
}

// EmbedTicket returns the end of a ticket of an embed, and whether it was exchanged.
func (tx Setup) EmbedTicket(ctx context.Context, embedID, hash string) (expiresAt time.Time, used, found bool, err error) {
	var expires, at int64
	found, err = tx.Get(ctx, `SELECT expires_at, used_at FROM embed_tickets WHERE hash = $1 AND embed_id = $2`, []any{hash, embedID}, &expires, &at)
	return db.Time(expires), at > 0, found, err
}

// UseEmbedTicket marks a ticket as exchanged, and sets the time until which the chat of its
// embed may continue.
func (tx Setup) UseEmbedTicket(ctx context.Context, embedID, hash string, chatExpiresAt time.Time) error {
	if _, err := tx.Exec(ctx, `UPDATE embed_tickets SET used_at = $2 WHERE hash = $1`, hash, db.Micros(tx.Now)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE embeds SET exchanged_at = $2, chat_expires_at = $3 WHERE id = $1`, embedID, db.Micros(tx.Now), db.Micros(chatExpiresAt))
	return err
}
