package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A Quota limits the number of objects of each kind, except deleted ones. Zero means no limit. It is
// enforced where rows are added, so that no caller can bypass it.
type Quota struct {
	Keys          int // valid keys of an account
	EndedKeys     int // revoked, rotated or expired keys of an account; the oldest are removed
	Spaces        int // spaces of an account
	Agents        int // agents of an account
	AgentVersions int // versions of an agent; the oldest are removed
	Tasks         int // tasks of an account
	Embeds        int // embeds of an agent that were created within 24 hours
}

func (tx *Tx) keyQuota(ctx context.Context, accountID string) error {
	err := tx.within(ctx, tx.s.quota.Keys, "limits.keysPerAccount", accountID, accountID, "keys in force in this account",
		`keys WHERE account_id = $2 AND kind = '' AND revoked_at = 0 AND (expires_at = 0 OR expires_at > $3)`, db.Micros(tx.Now))
	if err != nil {
		return err
	}
	return tx.dropEndedKeys(ctx, accountID)
}

const (
	// EndedKeyKept is the minimum time for which an ended key stays, because the charges of its day count
	// for its root, and its embeds may live for another two days.
	EndedKeyKept = 7 * 24 * time.Hour
	endedKeys    = 100 // removed at a time
)

// dropEndedKeys removes the oldest ended keys of an account if it has the maximum number.
// If none has ended long enough ago, it fails with CodeLimitReached.
func (tx *Tx) dropEndedKeys(ctx context.Context, accountID string) error {
	limit := tx.s.quota.EndedKeys
	full, err := tx.full(ctx, limit, accountID, accountID, `keys WHERE account_id = $2 AND (revoked_at > 0 OR expires_at > 0 AND expires_at <= $3)`, db.Micros(tx.Now))
	if err != nil || !full {
		return err
	}
	n, err := tx.Exec(ctx, `DELETE FROM keys WHERE account_id = $1 AND id IN (SELECT id FROM keys WHERE account_id = $1
		AND (revoked_at > 0 AND revoked_at < $2 OR expires_at > 0 AND expires_at < $2) ORDER BY created_at, id LIMIT $3)`,
		accountID, db.Micros(tx.Now.Add(-EndedKeyKept)), endedKeys)
	if err == nil && n == 0 {
		err = stoa.Errorf(stoa.CodeLimitReached, "%d keys of this account were revoked, rotated or have expired within %d days, which is the limit of this service. Create fewer keys with a longer validity.",
			limit, int(EndedKeyKept.Hours()/24))
	}
	return err
}

func (tx *Tx) spaceQuota(ctx context.Context, accountID string) error {
	return tx.within(ctx, tx.s.quota.Spaces, "", accountID, accountID, "spaces in this account", `spaces WHERE account_id = $2`)
}

func (tx *Tx) agentQuota(ctx context.Context, accountID string) error {
	return tx.within(ctx, tx.s.quota.Agents, "limits.agentsPerAccount", accountID, accountID, "agents in this account", `agents WHERE account_id = $2 AND deleted_at = 0`)
}

func (tx *Tx) taskQuota(ctx context.Context, accountID string) error {
	return tx.within(ctx, tx.s.quota.Tasks, "limits.schedulesPerAccount", accountID, accountID, "scheduled tasks in this account",
		`tasks WHERE agent_id IN (SELECT id FROM agents WHERE account_id = $2 AND deleted_at = 0) AND deleted_at = 0`)
}

// embedQuota does not count the embeds of script tags, because strangers create them; see
// [Setup.BeginTagChat].
func (tx *Tx) embedQuota(ctx context.Context, e stoa.Embed) error {
	if e.TagID != "" {
		return nil
	}
	return tx.within(ctx, tx.s.quota.Embeds, "limits.embedsPerDay", e.AccountID, e.AgentID, "embeds that were created for this agent within 24 hours",
		`embeds WHERE account_id = $3 AND agent_id = $2 AND kind IN ($4, $5) AND created_at > $6 AND tag_id = ''`, e.AccountID, stoa.EmbedURL, stoa.EmbedSession, db.Micros(tx.Now.Add(-24*time.Hour)))
}

func (tx *Tx) dropVersions(ctx context.Context, agentID string, newest int64) error {
	if tx.s.quota.AgentVersions <= 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `DELETE FROM agent_versions WHERE agent_id = $1 AND version <= $2`, agentID, newest-int64(tx.s.quota.AgentVersions))
	return err
}
