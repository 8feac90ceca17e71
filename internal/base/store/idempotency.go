package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// RepliesKept is the time for which the reply of an idempotent request is kept.
const RepliesKept = 24 * time.Hour

// An IdempotencyKey identifies a request that must be carried out once.
type IdempotencyKey struct {
	AccountID string
	Method    string
	Path      string
	Key       string // the words of the caller
}

// A Claim is the right to carry out the request of an idempotency key. Exactly
// one of [Tx.FinishClaim] and [Tx.FreeClaim] ends it; a claim of a process that
// died is freed when the store is opened again; one that cannot be freed, by
// [Store.FreeLater].
type Claim struct {
	IdempotencyKey
	ID string // distinguishes this claim from a later one of the same key
}

// A Reply is the stored reply of an idempotent request.
type Reply struct {
	Ref     string // the id of the response or resource that was created
	Status  int
	Headers string // headers that a repetition receives too, encoded by the caller of FinishClaim
	Body    string // UTF-8
}

// ClaimKey claims an idempotency key for a request whose body has that hash. If the request
// has finished, claimed is false and its stored reply is returned. A request that still
// runs is CodeIdempotencyRunning; a different body under the same key is
// CodeIdempotencyReused, whether running or finished.
//
// A transaction that also creates the resource and finishes the claim leaves no claim
// behind. A claim that is committed separately belongs to this process and is void when the
// process ends, unless it has a reference: the next request with the key and the body then
// receives that reference in r.Ref, because its work goes on without the process.
func (tx *Tx) ClaimKey(ctx context.Context, k IdempotencyKey, bodyHash string) (c Claim, r Reply, claimed bool, err error) {
	now := db.Micros(tx.Now)
	c = Claim{IdempotencyKey: k, ID: stoa.NewID("clm")}
	if _, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE account_id = $1 AND method = $2 AND path = $3 AND key = $4 AND state = 'done' AND expires_at <= $5`,
		k.AccountID, k.Method, k.Path, k.Key, now); err != nil {
		return c, r, false, err
	}
	// It takes a row of a dead node over in place, so that only one of several concurrent transactions
	// succeeds.
	claimed, err = tx.Get(ctx, `INSERT INTO idempotency (account_id, method, path, key, body_hash, state, owner, claim, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, 'running', $6, $7, $8, $9)
		ON CONFLICT (account_id, method, path, key) DO UPDATE
		SET body_hash = excluded.body_hash, owner = excluded.owner, claim = excluded.claim, created_at = excluded.created_at, expires_at = excluded.expires_at
		WHERE idempotency.state = 'running' AND (idempotency.ref = '' OR idempotency.body_hash = excluded.body_hash) AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = idempotency.owner AND nodes.alive = 1)
		RETURNING ref`,
		[]any{k.AccountID, k.Method, k.Path, k.Key, bodyHash, tx.s.node, c.ID, now, db.Micros(tx.Now.Add(RepliesKept))}, &r.Ref)
	if err != nil || claimed {
		return c, r, claimed, err
	}
	var hash, state string
	found, err := tx.Get(ctx, `SELECT body_hash, state, ref, status, headers, body FROM idempotency WHERE account_id = $1 AND method = $2 AND path = $3 AND key = $4`,
		[]any{k.AccountID, k.Method, k.Path, k.Key}, &hash, &state, &r.Ref, &r.Status, &r.Headers, &r.Body)
	switch {
	case err != nil:
		return c, Reply{}, false, err
	case !found: // freed between the two statements
		return c, Reply{}, false, db.ErrAgain
	case hash != bodyHash:
		return c, Reply{}, false, stoa.Errorf(stoa.CodeIdempotencyReused, "This Idempotency-Key was used with another body. Use a new key for a new request.")
	case state == "running":
		return c, Reply{}, false, stoa.Errorf(stoa.CodeIdempotencyRunning, "The first request with this Idempotency-Key still runs. Try again for its reply.").After(time.Second)
	}
	return c, r, false, nil
}

// FinishClaim stores the reply of a claimed key, for [RepliesKept] from now. It belongs in
// the transaction that records the cost or the creation. A claim that another request has
// taken over is CodeConflict, so that the transaction is rolled back.
func (tx *Tx) FinishClaim(ctx context.Context, c Claim, r Reply) error {
	n, err := tx.Exec(ctx, `UPDATE idempotency SET state = 'done', ref = $6, status = $7, headers = $8, body = $9, expires_at = $10
		WHERE account_id = $1 AND method = $2 AND path = $3 AND key = $4 AND claim = $5 AND state = 'running'`,
		c.AccountID, c.Method, c.Path, c.Key, c.ID, r.Ref, r.Status, r.Headers, r.Body, db.Micros(tx.Now.Add(RepliesKept)))
	if err == nil && n == 0 {
		err = stoa.Errorf(stoa.CodeConflict, "The claim on this Idempotency-Key has passed to another request.")
	}
	return err
}

// SetClaimRef records what a claimed request has begun, in the transaction that begins it. An empty text means that the
// work has failed, so that the request may be repeated.
func (tx *Tx) SetClaimRef(ctx context.Context, c Claim, ref string) error {
	_, err := tx.Exec(ctx, `UPDATE idempotency SET ref = $6 WHERE account_id = $1 AND method = $2 AND path = $3 AND key = $4 AND claim = $5 AND state = 'running'`,
		c.AccountID, c.Method, c.Path, c.Key, c.ID, ref)
	return err
}

// FreeClaim releases a claimed key, because a request that failed and cost nothing may be repeated under
// it. A claim with a reference keeps it for the next request with the key. FreeClaim does nothing to a claim that is
// finished or taken over.
func (tx *Tx) FreeClaim(ctx context.Context, c Claim) error {
	n, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE account_id = $1 AND method = $2 AND path = $3 AND key = $4 AND claim = $5 AND state = 'running' AND ref = ''`,
		c.AccountID, c.Method, c.Path, c.Key, c.ID)
	if err == nil && n == 0 {
		_, err = tx.Exec(ctx, `UPDATE idempotency SET owner = '' WHERE account_id = $1 AND method = $2 AND path = $3 AND key = $4 AND claim = $5 AND state = 'running'`,
			c.AccountID, c.Method, c.Path, c.Key, c.ID)
	}
	return err
}

// PurgeReplies deletes up to limit expired replies and returns their number.
func (tx *Tx) PurgeReplies(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM idempotency WHERE (account_id, method, path, key) IN
		(SELECT account_id, method, path, key FROM idempotency WHERE (state = 'done' OR ref <> '') AND expires_at <= $1 ORDER BY expires_at LIMIT $2)`,
		db.Micros(tx.Now), limit)
}
