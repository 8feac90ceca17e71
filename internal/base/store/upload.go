package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var uploads = newTable[stoa.Upload]("uploads")

// A VisitorQuota limits the uploads of visitors.
type VisitorQuota struct {
	Files  int   // maximum of the chat
	Bytes  int64 // maximum of all chats of the account
	Silent bool  // the chat has no message, and strangers can begin others like it
}

// Shares of what the visitors of an account may upload together. They exist because strangers open chats
// of script tags without limit, and one of them could otherwise use up everything.
const (
	uploadTagShare     = 2  // divisor for a script tag
	uploadNetworkShare = 10 // divisor for a network; for bytes within [uploadNetworkTime]
	uploadNetworkTime  = 24 * time.Hour
)

// InsertUpload adds an upload whose content is stored afterwards; see [Work.FinishUpload]. It fails
// with CodeRateLimit if the account, the script tag or the network has too many without a message. An
// upload of a visitor also fails with CodeTooManyAttachments or CodeStorageFull above the quota.
func (tx Work) InsertUpload(ctx context.Context, u stoa.Upload, q VisitorQuota) (stoa.Upload, error) {
	if err := tx.lockText(ctx, "uploads "+u.AccountID); err != nil {
		return u, err
	}
	now := db.Micros(tx.Now)
	type share struct {
		of, cond   string
		part, from int64
		key        string
	}
	shares := []share{{of: "of this account", part: 1, cond: `$3 = ''`}}
	if u.ChatID != "" {
		shares = []share{{of: "of this account", part: 2, cond: `chat_id <> '' AND $3 = ''`}}
	}
	if u.TagID != "" {
		shares = append(shares, share{of: "of this page", part: 2 * uploadTagShare, cond: `tag_id = $3`, key: u.TagID})
	}
	if u.Network != "" {
		shares = append(shares, share{of: "from your network", part: 2 * uploadNetworkShare, cond: `network = $3`, key: u.Network, from: db.Micros(tx.Now.Add(-uploadNetworkTime))})
	}
	var files, waiting int64 // of the chat
	if u.ChatID != "" {
		if _, err := tx.Get(ctx, `SELECT COUNT(*), COUNT(CASE WHEN session_id = '' THEN 1 END) FROM uploads WHERE chat_id = $1 AND (session_id <> '' OR expires_at > $2)`, []any{u.ChatID, now}, &files, &waiting); err != nil {
			return u, err
		}
		if q.Silent && waiting > 0 {
			return u, stoa.Errorf(stoa.CodeTooManyAttachments, "Before its first message a chat accepts one file. Send the message, then add more files.")
		}
	}
	for _, s := range shares {
		var open int64
		if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM uploads WHERE account_id = $1 AND session_id = '' AND expires_at > $2 AND `+s.cond, []any{u.AccountID, now, s.key}, &open); err != nil {
			return u, err
		}
		if open >= stoa.MaxUploads/s.part {
			return u, stoa.Errorf(stoa.CodeRateLimit, "%d uploads %s wait for a message. Send messages with them, or wait until they expire.", open, s.of)
		}
	}
	if u.ChatID != "" {
		if files >= int64(q.Files) {
			return u, stoa.Errorf(stoa.CodeTooManyAttachments, "This chat accepts at most %d files.", q.Files)
		}
		for _, s := range shares {
			var bytes int64
			if _, err := tx.Get(ctx, `SELECT COALESCE(SUM(size), 0) FROM uploads WHERE account_id = $1 AND created_at >= $2 AND chat_id <> '' AND `+s.cond, []any{u.AccountID, s.from, s.key}, &bytes); err != nil {
				return u, err
			}
			// A share accepts its first file in any size, since a tenth can be less than one file.
			if bytes+u.Size > q.Bytes*2/s.part && (s.key == "" || bytes > 0) {
				if s.from > 0 {
					return u, stoa.Errorf(stoa.CodeStorageFull, "There is no space for more files from your network today.")
				}
				return u, stoa.Errorf(stoa.CodeStorageFull, "There is no space for more files. The owner of the agent has to delete some chats.")
			}
		}
	}
	u.CreatedAt, u.ExpiresAt = tx.Now, tx.Now.Add(stoa.UploadLife)
	_, err := uploads.insert(ctx, tx.Tx, &u, "")
	return u, err
}

// FinishUpload records the content of an upload.
func (tx Work) FinishUpload(ctx context.Context, u stoa.Upload) error {
	_, err := uploads.change(ctx, tx.Tx, &u, `name mime size sha256`, `account_id = $1 AND id = $2`, u.AccountID, u.ID)
	return err
}

// DropUpload removes an upload whose content was not stored.
func (tx Work) DropUpload(ctx context.Context, accountID, id string) error {
	_, err := tx.Exec(ctx, `DELETE FROM uploads WHERE account_id = $1 AND id = $2 AND sha256 = ''`, accountID, id)
	return err
}

// AttachUpload gives an upload to a session, for one of its messages. It fails with
// CodeUploadExpired unless the upload is one of the agent and the chat (empty for the account's)
// that has not expired and belongs to no message.
func (tx Work) AttachUpload(ctx context.Context, accountID, agentID, chatID, id, sessionID string) (stoa.Upload, error) {
	u, found, err := uploads.first(ctx, tx.Tx, `id = $1 AND account_id = $2`+tx.ForUpdate(), id, accountID)
	if err != nil {
		return u, err
	}
	if !found || u.SHA256 == "" || u.AgentID != agentID || u.ChatID != chatID || u.SessionID != "" || !tx.Now.Before(u.ExpiresAt) {
		return u, stoa.Errorf(stoa.CodeUploadExpired, "The upload does not exist, has expired, or belongs to a message already. Upload the file again.")
	}
	_, err = tx.Exec(ctx, `UPDATE uploads SET session_id = $2 WHERE id = $1`, id, sessionID)
	return u, err
}

// HasUpload reports whether an upload exists, which has not expired or belongs to a message.
func (tx Work) HasUpload(ctx context.Context, accountID, id string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM uploads WHERE id = $1 AND account_id = $2 AND (session_id <> '' OR expires_at > $3)`, []any{id, accountID, db.Micros(tx.Now)}, &one)
}

// PurgeUploads deletes up to limit uploads that have expired, and returns their number. The sweep of the
// drives deletes their files, because no transaction spans both databases.
func (tx Work) PurgeUploads(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM uploads WHERE id IN (SELECT id FROM uploads WHERE session_id = '' AND expires_at <= $1 LIMIT $2)`, db.Micros(tx.Now), limit)
}

// A MessageAttachments is the files of one message.
type MessageAttachments struct {
	Message stoa.SessionMessage // the message without its text
	Files   []stoa.Attachment
}

// Attachments lists the files of a session's messages, in order.
func (tx Work) Attachments(ctx context.Context, sessionID string) ([]MessageAttachments, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (m MessageAttachments, err error) {
		var text string
		var created int64
		if err := rows.Scan(&m.Message.ID, &created, &text); err != nil {
			return m, err
		}
		m.Message.CreatedAt = db.Time(created)
		return m, jsonx.Unmarshal([]byte(text), &m.Files)
	}, `SELECT id, created_at, attachments FROM messages WHERE session_id = $1 AND attachments <> '' ORDER BY place LIMIT $2`, sessionID, stoa.MaxSessionAttachments)
}

// Attached returns the form in which a model receives the files of a message; empty if none is stored yet.
func (tx Work) Attached(ctx context.Context, sessionID, messageID string) (text string, err error) {
	_, err = tx.Get(ctx, `SELECT attached FROM messages WHERE session_id = $1 AND id = $2`, []any{sessionID, messageID}, &text)
	return text, err
}

// SetAttached writes the form in which a model receives the files of a message, and returns it. A stored
// form stays, so that later requests of the session repeat it.
func (tx Work) SetAttached(ctx context.Context, sessionID, messageID, text string) (string, error) {
	if _, err := tx.Exec(ctx, `UPDATE messages SET attached = $3 WHERE session_id = $1 AND id = $2 AND attached = ''`, sessionID, messageID, text); err != nil {
		return "", err
	}
	return tx.Attached(ctx, sessionID, messageID)
}
