package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
)

// A LinkMail is a mail with the link of an invitation or a sign-in.
type LinkMail struct {
	ID        string    `db:"id"`
	AccountID string    `db:"account_id"` // account of the key that created the link
	Recipient string    `db:"recipient"`
	Sealed    string    `db:"sealed"`   // the token of the link, encrypted; empty when the mail was sent or given up
	Attempts  int       `db:"attempts"` // number of claims, so that an outdated result is not written
	DueAt     time.Time `db:"due_at"`
	CreatedAt time.Time `db:"created_at"`
}

var linkMails = newTable[LinkMail]("link_mails")

// Limits of the mails that an account sends, because their receivers may not know it.
const (
	MaxLinkMails   = 100 // in a day
	MaxLinkMailsTo = 5   // in a day to one address
	linkMailDay    = 24 * time.Hour
	linkMailsKept  = 7 * linkMailDay // every link has expired by then
)

// InsertLinkMail adds a mail that is due now. It reports whether the limits of its account allow it; otherwise
// nothing is written.
func (tx People) InsertLinkMail(ctx context.Context, m LinkMail) (bool, error) {
	if err := tx.lockText(ctx, "link mails "+m.AccountID); err != nil {
		return false, err
	}
	var all, to int
	_, err := tx.Get(ctx, `SELECT COUNT(*), COUNT(CASE WHEN lower(recipient) = lower($3) THEN 1 END) FROM link_mails WHERE account_id = $1 AND created_at > $2`,
		[]any{m.AccountID, db.Micros(tx.Now.Add(-linkMailDay)), m.Recipient}, &all, &to)
	if err != nil || all >= MaxLinkMails || to >= MaxLinkMailsTo {
		return false, err
	}
	m.DueAt, m.CreatedAt = tx.Now, tx.Now
	_, err = linkMails.insert(ctx, tx.Tx, &m, "")
	return err == nil, err
}

// ClaimLinkMail returns the mail that has been due the longest, and whether there is one. No other
// process claims it before a time, so that it is sent once unless a process dies.
func (tx People) ClaimLinkMail(ctx context.Context, until time.Time) (LinkMail, bool, error) {
	m, found, err := first(ctx, tx.Tx, linkMails.scan, `SELECT `+linkMails.columns+` FROM link_mails WHERE sealed <> '' AND due_at <= $1 ORDER BY due_at LIMIT 1`+tx.ForUpdateUnlocked(), db.Micros(tx.Now))
	if err != nil || !found {
		return m, false, err
	}
	m.Attempts, m.DueAt = m.Attempts+1, until
	_, err = linkMails.change(ctx, tx.Tx, &m, `attempts due_at`, `account_id = $1 AND id = $2`, m.AccountID, m.ID)
	return m, true, err
}

// SaveLinkMail writes the result of an attempt, unless another process has claimed the mail in the meantime.
func (tx People) SaveLinkMail(ctx context.Context, m LinkMail) error {
	_, err := linkMails.change(ctx, tx.Tx, &m, `sealed due_at`, `account_id = $1 AND id = $2 AND attempts = $3`, m.AccountID, m.ID, m.Attempts)
	return err
}

// PurgeLinkMails removes up to limit mails whose links have expired, and returns their number.
func (tx People) PurgeLinkMails(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM link_mails WHERE id IN (SELECT id FROM link_mails WHERE created_at < $1 LIMIT $2)`, db.Micros(tx.Now.Add(-linkMailsKept)), limit)
}
