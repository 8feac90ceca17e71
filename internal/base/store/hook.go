package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxHooks is the maximum number of hooks of an account.
const MaxHooks = 100

// HookDisabledByUser is the reason why a hook is disabled, besides keyRevoked.
const HookDisabledByUser = "user"

// HookEventKept is the time for which an event of a hook starts no other turn.
const HookEventKept = 7 * 24 * time.Hour

var hooks = newTable[stoa.Hook]("hooks")

// InsertHook adds a hook. Times and revision are set.
func (tx Work) InsertHook(ctx context.Context, h stoa.Hook) (stoa.Hook, error) {
	if err := tx.within(ctx, MaxHooks, "", h.AccountID, h.AccountID, "hooks in this account", `hooks WHERE account_id = $2`); err != nil {
		return h, err
	}
	h.CreatedAt, h.UpdatedAt, h.Revision = tx.Now, tx.Now, 1
	_, err := hooks.insert(ctx, tx.Tx, &h, "")
	return h, err
}

// Hook returns a hook of an account's agent, or CodeNotFound.
func (tx Work) Hook(ctx context.Context, accountID, agentID, id string) (stoa.Hook, error) {
	return tx.hook(ctx, accountID, agentID, id, "")
}

func (tx Work) hook(ctx context.Context, accountID, agentID, id, lock string) (stoa.Hook, error) {
	return hooks.one(ctx, tx.Tx, noHook(), `account_id = $1 AND agent_id = $2 AND id = $3`+lock, accountID, agentID, id)
}

func noHook() error {
	return stoa.Errorf(stoa.CodeNotFound, "This agent has no such hook.").At("hookId")
}

// HookByID returns a hook of any account, because a request names only its id. lock locks the row
// until the commit, so that the events of a hook are counted one after another.
func (tx Work) HookByID(ctx context.Context, id string, lock bool) (stoa.Hook, bool, error) {
	suffix := ""
	if lock {
		suffix = tx.ForUpdate()
	}
	return hooks.first(ctx, tx.Tx, `id = $1`+suffix, id)
}

// Hooks lists the hooks of an agent. A text in the name or the id narrows it (see [Setup.Agents]).
func (tx Work) Hooks(ctx context.Context, accountID, agentID, text string, p Page) ([]stoa.Hook, Cursor, error) {
	return hooks.search(ctx, tx.Tx, p, filtered{
		from: `FROM hooks WHERE account_id = $1 AND agent_id = $2`, args: []any{accountID, agentID},
		search: textSearch{text, []string{"name", "id"}},
	})
}

// EditHook lets fn change a hook and writes the result. It locks the row while fn runs, so that fn
// can compare revisions. If fn fails, it returns the error and writes nothing.
func (tx Work) EditHook(ctx context.Context, accountID, agentID, id string, fn func(*stoa.Hook) error) (stoa.Hook, error) {
	h, err := tx.hook(ctx, accountID, agentID, id, tx.ForUpdate())
	if err != nil {
		return h, err
	}
	return hooks.edit(ctx, tx.Tx, accountID, id, h, fn)
}

// DeleteHook removes a hook; [Work.PurgeHookEvents] removes its events. A missing hook is CodeNotFound.
func (tx Work) DeleteHook(ctx context.Context, accountID, agentID, id string) error {
	n, err := tx.Exec(ctx, `DELETE FROM hooks WHERE account_id = $1 AND agent_id = $2 AND id = $3`, accountID, agentID, id)
	if err == nil && n == 0 {
		err = noHook()
	}
	return err
}

// DeleteHooksOf removes the hooks of an agent.
func (tx Work) DeleteHooksOf(ctx context.Context, accountID, agentID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM hooks WHERE account_id = $1 AND agent_id = $2`, accountID, agentID)
	return err
}

// InsertHookEvent records an event of a hook, and reports whether it is new.
func (tx Work) InsertHookEvent(ctx context.Context, h stoa.Hook, event string) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO hook_events (account_id, hook_id, event, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (account_id, hook_id, event) DO NOTHING`,
		h.AccountID, h.ID, event, db.Micros(tx.Now))
	return n > 0, err
}

// HookEvents counts the events of a hook since a time, up to limit.
func (tx Work) HookEvents(ctx context.Context, h stoa.Hook, since time.Time, limit int) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM hook_events WHERE account_id = $1 AND hook_id = $2 AND created_at > $3 LIMIT $4) found`,
		[]any{h.AccountID, h.ID, db.Micros(since), limit}, &n)
	return n, err
}

// PurgeHookEvents removes at most limit events that are older than [HookEventKept].
func (tx Work) PurgeHookEvents(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM hook_events WHERE (account_id, hook_id, event) IN (SELECT account_id, hook_id, event FROM hook_events WHERE created_at < $1 ORDER BY created_at LIMIT $2)`,
		db.Micros(tx.Now.Add(-HookEventKept)), limit)
}

// HookSession returns the id of a hook's session with an external id; empty if there is none.
func (tx Work) HookSession(ctx context.Context, h stoa.Hook, externalID string) (id string, err error) {
	_, err = tx.Get(ctx, `SELECT id FROM sessions WHERE account_id = $1 AND external_id = $2 AND agent_id = $3 AND trigger_type = $4 AND trigger_id = $5`,
		[]any{h.AccountID, externalID, h.AgentID, stoa.TriggerHook, h.ID}, &id)
	return id, err
}

// DisableHooksOf disables at most limit hooks of a key, and returns their number.
func (tx People) DisableHooksOf(ctx context.Context, accountID, keyID string, which KeyObjects, limit int) (int, error) {
	return tx.disableOf(ctx, "hooks", "hook.disabled", accountID, keyID, which, limit)
}
