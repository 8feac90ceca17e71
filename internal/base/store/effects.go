package store

import (
	"context"
	"fmt"
	"strings"

	"stoa/internal/base/db"
)

// MaxEffects is the highest count of [People.Effects], so that a large account is counted as fast as a small one.
const MaxEffects = 1000

// An EffectScope selects the objects that [People.Effects] counts: by one member, or all of the account.
type EffectScope struct{ KeyID, MemberID, AgentID, SpaceID string }

// An Effect is a number of working objects of one kind.
type Effect struct {
	Kind  string
	Count int
}

// ofAgents are the tables of objects that belong to an agent, with the condition that one works. %[1]d is the current time.
var ofAgents = []struct{ kind, working string }{
	{"tasks", `enabled = 1 AND deleted_at = 0`},
	// The chats of a script tag are not embeds that anyone created.
	{"embeds", `revoked_at = 0 AND tag_id = '' AND (expires_at = 0 OR expires_at > $%[1]d)`},
	{"embed_tags", `disabled = ''`},
	{"hooks", `disabled = ''`},
	{"sessions", `length(agent_id) > 0 AND status IN ('queued', 'running', 'waiting_for_input')`},
}

// AccountsOnPlan counts the accounts on a plan that are not deleted, up to [MaxEffects].
func (tx Books) AccountsOnPlan(ctx context.Context, plan string) (n int, err error) {
	_, err = tx.Get(ctx, fmt.Sprintf(`SELECT COUNT(*) FROM (SELECT 1 FROM accounts WHERE plan = $1 AND deleted_at = 0 LIMIT %d) counted`, MaxEffects), []any{plan}, &n)
	return n, err
}

// Effects counts the working objects of an account that a change of the scope's object concerns, up to [MaxEffects] of each
// kind. Kinds without objects are left out. A key or a member has no sessions: those that it started continue.
func (tx People) Effects(ctx context.Context, accountID string, of EffectScope) (all []Effect, err error) {
	id := of.KeyID + of.MemberID + of.AgentID + of.SpaceID
	count := func(kind, table, cond string, args ...any) {
		if err != nil {
			return
		}
		if strings.Contains(cond, "%[1]d") {
			args = append(args, db.Micros(tx.Now))
			cond = fmt.Sprintf(cond, len(args))
		}
		n := 0
		_, err = tx.Get(ctx, fmt.Sprintf(`SELECT COUNT(*) FROM (SELECT 1 FROM %s WHERE account_id = $1 AND %s LIMIT %d) counted`, table, cond, MaxEffects), args, &n)
		if n > 0 {
			all = append(all, Effect{kind, n})
		}
	}
	const live = `(revoked_at = 0 OR revoked_at > $%[1]d) AND (expires_at = 0 OR expires_at > $%[1]d) AND kind = ''`
	agents, args := `deleted_at = 0`, []any{accountID}
	maker := `` // narrows objects by their key
	if id != "" {
		args = append(args, id)
	}
	switch {
	case of.KeyID != "":
		count("keys", "keys", `made_by = $2 AND `+live, args...)
		maker = `key_id = $2`
	case of.MemberID != "":
		count("keys", "keys", `member_id = $2 AND `+live, args...)
		maker = `key_id IN (SELECT id FROM keys WHERE account_id = $1 AND member_id = $2)`
	case of.SpaceID != "":
		agents += ` AND space_id = $2`
		count("agents", "agents", agents, args...)
		count("connections", "connections", `space_id = $2`, args...)
	case of.AgentID != "":
		agents += ` AND id = $2`
	default:
		count("keys", "keys", live, args...)
		count("members", "members", `1 = 1`, args...)
		count("agents", "agents", agents, args...)
	}
	for _, t := range ofAgents {
		cond := t.working + ` AND agent_id IN (SELECT id FROM agents WHERE account_id = $1 AND ` + agents + `)`
		switch {
		case maker == ``:
		case t.kind == "sessions":
			continue
		default:
			cond += ` AND ` + maker
		}
		count(t.kind, t.kind, cond, args...)
	}
	switch {
	case maker != ``:
		count("webhooks", "webhooks", `disabled = '' AND `+maker, args...)
	case id == "":
		count("webhooks", "webhooks", `disabled = ''`, args...)
	}
	return all, err
}
