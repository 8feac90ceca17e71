package store

import (
	"context"
	"time"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

// A Quota bounds how many objects of a kind exist. Objects that were deleted do
// not count, nor keys that are revoked, rotated or expired. Zero is no bound. It is
// enforced where rows are added, so that no caller can leave it out.
type Quota struct {
	Keys          int // of an account, in force
	Spaces        int // of an account
	Agents        int // of an account
	AgentVersions int // of an agent; the oldest are dropped
	Tasks         int // of an account
	Embeds        int // of an agent, created within 24 hours
}

// within returns CodeLimitReached if a query, which counts up to $1 rows for the
// owner $2, finds as many as there may be. Creations of an account follow each
// other, so that several at once do not pass the limit together.
func (tx *Tx) within(ctx context.Context, limit int, accountID, owner, what, query string, args ...any) error {
	if limit <= 0 {
		return nil
	}
	if tx.Postgres() {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "quota "+accountID); err != nil {
			return err
		}
	}
	var n int
	if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM `+query+` LIMIT $1) found`, append([]any{limit, owner}, args...), &n); err != nil {
		return err
	}
	if n < limit {
		return nil
	}
	return stoa.Errorf(stoa.CodeLimitReached, "There are %d %s, which is the limit of this service. Delete one that is no longer needed, or ask the operator to raise the limit.", n, what)
}

func (tx *Tx) keyQuota(ctx context.Context, accountID string) error {
	return tx.within(ctx, tx.s.quota.Keys, accountID, accountID, "keys in force in this account",
		`keys WHERE account_id = $2 AND revoked_at = 0 AND (expires_at = 0 OR expires_at > $3)`, db.Micros(tx.Now))
}

func (tx *Tx) spaceQuota(ctx context.Context, accountID string) error {
	return tx.within(ctx, tx.s.quota.Spaces, accountID, accountID, "spaces in this account", `spaces WHERE account_id = $2`)
}

func (tx *Tx) agentQuota(ctx context.Context, accountID string) error {
	return tx.within(ctx, tx.s.quota.Agents, accountID, accountID, "agents in this account", `agents WHERE account_id = $2 AND deleted_at = 0`)
}

func (tx *Tx) taskQuota(ctx context.Context, accountID string) error {
	return tx.within(ctx, tx.s.quota.Tasks, accountID, accountID, "scheduled tasks in this account",
		`tasks WHERE agent_id IN (SELECT id FROM agents WHERE account_id = $2 AND deleted_at = 0) AND deleted_at = 0`)
}

func (tx *Tx) embedQuota(ctx context.Context, e stoa.Embed) error {
	return tx.within(ctx, tx.s.quota.Embeds, e.AccountID, e.AgentID, "embeds that were created for this agent within 24 hours",
		`embeds WHERE agent_id = $2 AND kind IN ($3, $4) AND created_at > $5`, stoa.EmbedURL, stoa.EmbedSession, db.Micros(tx.Now.Add(-24*time.Hour)))
}

// dropVersions removes the versions of an agent beyond the quota, oldest first.
func (tx *Tx) dropVersions(ctx context.Context, agentID string, newest int64) error {
	if tx.s.quota.AgentVersions <= 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `DELETE FROM agent_versions WHERE agent_id = $1 AND version <= $2`, agentID, newest-int64(tx.s.quota.AgentVersions))
	return err
}
