package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var erasures = newTable[stoa.Erasure]("erasures")

// erasureClaim is the time for which a node claims an erasure, and longer than one of its steps. After a crash another node
// continues then.
const erasureClaim = 5 * time.Minute

// InsertErasure adds an erasure, which is due immediately. One of the same account or end user that is not completed is returned
// instead, unless the user has sessions that are new for it; so is one of a deleted account.
func (tx Operations) InsertErasure(ctx context.Context, e stoa.Erasure) (stoa.Erasure, error) {
	if err := tx.lockText(ctx, "erasures "+e.Target); err != nil {
		return e, err
	}
	earlier, found, err := erasures.first(ctx, tx.Tx, `target = $1 AND kind = $2 AND subject = $3 AND (completed_at = 0 OR kind = 'account')
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.account_id = target AND s.external_user_id = subject AND s.external_user_id <> '' AND s.created_at > erasures.created_at) LIMIT 1`, e.Target, string(e.Kind), e.Subject)
	if err != nil || found {
		return earlier, err
	}
	e.ID, e.CreatedAt, e.AgainAt = stoa.NewID("era"), tx.Now, tx.Now
	_, err = erasures.insert(ctx, tx.Tx, &e, "")
	return e, err
}

// Erasure returns an erasure that an account began, or CodeNotFound.
func (tx Operations) Erasure(ctx context.Context, accountID, id string) (stoa.Erasure, error) {
	return erasures.one(ctx, tx.Tx, stoa.Errorf(stoa.CodeNotFound, "There is no erasure %q.", id), `account_id = $1 AND id = $2`, accountID, id)
}

// Erasures lists the erasures that an account began.
func (tx Operations) Erasures(ctx context.Context, accountID string, p Page) ([]stoa.Erasure, bool, error) {
	return erasures.page(ctx, tx.Tx, p, `account_id = $1`, accountID)
}

// ClaimErasure claims the next erasure that is due; false means that there is none.
func (tx Operations) ClaimErasure(ctx context.Context) (stoa.Erasure, bool, error) {
	e, found, err := erasures.first(ctx, tx.Tx, `again_at > 0 AND again_at <= $1 AND claimed_until <= $1 ORDER BY again_at, id LIMIT 1`+tx.ForUpdate(), db.Micros(tx.Now))
	if err != nil || !found {
		return e, false, err
	}
	return e, true, tx.SaveErasure(ctx, &e)
}

// SaveErasure writes the progress of a claimed erasure, and extends the claim while another pass is due.
func (tx Operations) SaveErasure(ctx context.Context, e *stoa.Erasure) error {
	if e.ClaimedUntil = time.Time(tx.Now.Add(erasureClaim)); e.AgainAt.IsZero() || e.AgainAt.After(tx.Now) {
		e.ClaimedUntil = time.Time{}
	}
	_, err := tx.Exec(ctx, `UPDATE erasures SET subject = $3, sessions = $4, drives = $5, removed = $6, receipts = $7, audit_entries = $8, completed_at = $9, again_at = $10, claimed_until = $11
		WHERE account_id = $1 AND id = $2`, e.AccountID, e.ID, e.Subject, e.Sessions, e.Drives, e.Removed, e.Receipts, e.AuditEntries, db.Micros(e.CompletedAt), db.Micros(e.AgainAt), db.Micros(e.ClaimedUntil))
	return err
}

// FreeErasure ends the claim of an erasure that failed. The others that are due come before it.
func (tx Operations) FreeErasure(ctx context.Context, accountID, id string) error {
	_, err := tx.Exec(ctx, `UPDATE erasures SET claimed_until = 0, again_at = $3 WHERE account_id = $1 AND id = $2`, accountID, id, db.Micros(tx.Now))
	return err
}

// DeleteAccount marks an account as deleted and suspends it, so that its keys end. Its data stays until it is erased. A missing
// account is CodeNotFound.
func (tx Books) DeleteAccount(ctx context.Context, id string) error {
	n, err := tx.Exec(ctx, `UPDATE accounts SET suspended = 1, deleted_at = CASE deleted_at WHEN 0 THEN CAST($2 AS BIGINT) ELSE deleted_at END, updated_at = $2 WHERE id = $1`, id, db.Micros(tx.Now))
	if err == nil && n == 0 {
		err = noAccount(id)
	}
	return err
}

// LiveAccount is [Books.Account] for an account that is not deleted.
func (tx Books) LiveAccount(ctx context.Context, id string) (stoa.Account, error) {
	return accounts.one(ctx, tx.Tx, noAccount(id), `id = $1 AND deleted_at = 0`, id)
}
