package store

import (
	"context"
	"database/sql"

	"stoa/internal/db"
	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

var uploads = newTable[stoa.Upload]("uploads")

// A VisitorQuota limits the uploads of visitors.
type VisitorQuota struct {
	Files int   // of the chat
	Bytes int64 // of all chats of the account
}

// InsertUpload adds an upload. It fails with CodeRateLimit if the account has too many without a
// message. An upload of a visitor also fails with CodeTooManyAttachments or CodeStorageFull above
// the quota.
func (tx *Tx) InsertUpload(ctx context.Context, u stoa.Upload, q VisitorQuota) (stoa.Upload, error) {
	count := func(query string, args ...any) (n int64, err error) {
		_, err = tx.Get(ctx, query, args, &n)
		return n, err
	}
	limit, of := int64(stoa.MaxUploads), ""
	if u.ChatID != "" {
		limit, of = stoa.MaxUploads/2, ` AND chat_id <> ''`
	}
	open, err := count(`SELECT COUNT(*) FROM uploads WHERE account_id = $1 AND session_id = '' AND expires_at > $2`+of, u.AccountID, db.Micros(tx.Now))
	if err != nil {
		return u, err
	}
	if open >= limit {
		return u, stoa.Errorf(stoa.CodeRateLimit, "%d uploads of this account wait for a message. Send messages with them, or wait until they expire.", open)
	}
	if u.ChatID != "" {
		n, err := count(`SELECT COUNT(*) FROM uploads WHERE chat_id = $1 AND (session_id <> '' OR expires_at > $2)`, u.ChatID, db.Micros(tx.Now))
		if err != nil {
			return u, err
		}
		if n >= int64(q.Files) {
			return u, stoa.Errorf(stoa.CodeTooManyAttachments, "This chat accepts at most %d files.", q.Files)
		}
		bytes, err := count(`SELECT COALESCE(SUM(size), 0) FROM uploads WHERE account_id = $1 AND chat_id <> ''`, u.AccountID)
		if err != nil {
			return u, err
		}
		if bytes+u.Size > q.Bytes {
			return u, stoa.Errorf(stoa.CodeStorageFull, "There is no space for more files. The owner of the agent has to delete some chats.")
		}
	}
	u.CreatedAt, u.ExpiresAt = tx.Now, tx.Now.Add(stoa.UploadLife)
	_, err = uploads.insert(ctx, tx, &u, "")
	return u, err
}

// AttachUpload gives an upload to a session, for one of its messages. It fails with
// CodeUploadExpired unless the upload is one of the agent and the chat (empty for the account's)
// that has not expired and belongs to no message.
func (tx *Tx) AttachUpload(ctx context.Context, accountID, agentID, chatID, id, sessionID string) (stoa.Upload, error) {
	u, found, err := uploads.first(ctx, tx, `id = $1 AND account_id = $2`+tx.ForUpdate(), id, accountID)
	if err != nil {
		return u, err
	}
	if !found || u.AgentID != agentID || u.ChatID != chatID || u.SessionID != "" || !tx.Now.Before(u.ExpiresAt) {
		return u, stoa.Errorf(stoa.CodeUploadExpired, "The upload does not exist, has expired, or belongs to a message already. Upload the file again.")
	}
	_, err = tx.Exec(ctx, `UPDATE uploads SET session_id = $2 WHERE id = $1`, id, sessionID)
	return u, err
}

// HasUpload reports whether an upload exists, which has not expired or belongs to a message.
func (tx *Tx) HasUpload(ctx context.Context, accountID, id string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM uploads WHERE id = $1 AND account_id = $2 AND (session_id <> '' OR expires_at > $3)`, []any{id, accountID, db.Micros(tx.Now)}, &one)
}

// PurgeUploads deletes up to limit uploads that have expired, and returns their number. The
// sweep of the drives deletes their files.
func (tx *Tx) PurgeUploads(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM uploads WHERE id IN (SELECT id FROM uploads WHERE session_id = '' AND expires_at <= $1 LIMIT $2)`, db.Micros(tx.Now), limit)
}

// A MessageAttachments is the files of one message.
type MessageAttachments struct {
	Message stoa.SessionMessage // without its text
	Files   []stoa.Attachment
}

// Attachments lists the files of a session's messages, in order.
func (tx *Tx) Attachments(ctx context.Context, sessionID string) ([]MessageAttachments, error) {
	return list(ctx, tx, func(rows *sql.Rows) (m MessageAttachments, err error) {
		var text string
		var created int64
		if err := rows.Scan(&m.Message.ID, &created, &text); err != nil {
			return m, err
		}
		m.Message.CreatedAt = db.Time(created)
		return m, jsonx.Unmarshal([]byte(text), &m.Files)
	}, `SELECT id, created_at, attachments FROM messages WHERE session_id = $1 AND attachments <> '' ORDER BY place LIMIT $2`, sessionID, stoa.MaxSessionAttachments)
}

// Attached returns the form in which a model receives the files of a message; empty if it is not
// written yet.
func (tx *Tx) Attached(ctx context.Context, sessionID, messageID string) (text string, err error) {
	_, err = tx.Get(ctx, `SELECT attached FROM messages WHERE session_id = $1 AND id = $2`, []any{sessionID, messageID}, &text)
	return text, err
}

// SetAttached writes the form in which a model receives the files of a message, unless it is
// written, and returns it.
func (tx *Tx) SetAttached(ctx context.Context, sessionID, messageID, text string) (string, error) {
	if _, err := tx.Exec(ctx, `UPDATE messages SET attached = $3 WHERE session_id = $1 AND id = $2 AND attached = ''`, sessionID, messageID, text); err != nil {
		return "", err
	}
	return tx.Attached(ctx, sessionID, messageID)
}
