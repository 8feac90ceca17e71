package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var (
	agents        = newTable[stoa.Agent]("agents")
	agentVersions = newTable[stoa.AgentVersion]("agent_versions")
)

// InsertAgent adds an agent to a space, and its first version. It fills in an empty ID,
// VisitorDrive and Timezone, and sets version, revision and times. It fails with CodeSpaceNotFound if
// the account does not have the space, and with CodeConflict if the external id is in use.
func (tx Setup) InsertAgent(ctx context.Context, a stoa.Agent) (stoa.Agent, error) {
	if _, err := tx.space(ctx, a.AccountID, a.SpaceID, tx.ForShare()); err != nil {
		return a, err
	}
	if err := tx.agentQuota(ctx, a.AccountID); err != nil {
		return a, err
	}
	if a.ID == "" {
		a.ID = stoa.NewID("agt")
	}
	a.VisitorDrive, a.Timezone = cmp.Or(a.VisitorDrive, stoa.VisitorDriveRead), cmp.Or(a.Timezone, "UTC")
	a.Version, a.Revision, a.CreatedAt, a.UpdatedAt = 1, 1, tx.Now, tx.Now
	n, err := agents.insert(ctx, tx.Tx, &a, ` ON CONFLICT (account_id, external_id) DO NOTHING`, "deleted_at", 0)
	if err != nil {
		return a, err
	}
	if n == 0 {
		return a, externalIDTaken("agent", a.ExternalID)
	}
	return a, tx.freeze(ctx, a)
}

// freeze records the agent's current version, because sessions pin versions, and drops the oldest
// ones beyond the quota.
func (tx Setup) freeze(ctx context.Context, a stoa.Agent) error {
	v := stoa.AgentVersion{AgentID: a.ID, Version: a.Version, AgentSettings: a.AgentSettings, CreatedAt: tx.Now}
	if _, err := agentVersions.insert(ctx, tx.Tx, &v, ""); err != nil {
		return err
	}
	return tx.dropVersions(ctx, a.ID, a.Version)
}

// Agent returns an account's agent, or CodeAgentNotFound if it does not exist or has been
// deleted.
func (tx Setup) Agent(ctx context.Context, accountID, id string) (stoa.Agent, error) {
	return tx.agent(ctx, accountID, id, "")
}

// AgentForShare is [Setup.Agent], and locks the row so that the agent is not changed or deleted
// before the commit.
func (tx Setup) AgentForShare(ctx context.Context, accountID, id string) (stoa.Agent, error) {
	return tx.agent(ctx, accountID, id, tx.ForShare())
}

func (tx Setup) agent(ctx context.Context, accountID, id, lock string) (stoa.Agent, error) {
	return agents.one(ctx, tx.Tx, noAgent(), `account_id = $1 AND id = $2 AND deleted_at = 0`+lock, accountID, id)
}

func noAgent() error {
	return stoa.Errorf(stoa.CodeAgentNotFound, "There is no such agent.").At("agentId")
}

// An AgentFilter narrows a list of agents. Empty members match all.
type AgentFilter struct {
	SpaceID, ExternalID string
	Text                string // a part of the name, the description, the external id or the id, ignoring case
}

// Agents lists an account's agents, also by name, by the charges of 30 days (SortSpent) or their newest session (SortUsed), and returns the cursor of the next page, or the
// zero cursor. With a text, or by name with another filter, a page may be short or empty although
// there is a next one, because no index serves these and it reads at most 2,000 agents.
func (tx Setup) Agents(ctx context.Context, accountID string, f AgentFilter, p Page) ([]stoa.Agent, Cursor, error) {
	q := filtered{
		from: `FROM agents WHERE account_id = $1 AND deleted_at = 0`, args: []any{accountID},
		search: textSearch{f.Text, []string{"name", "description", "external_id", "id"}},
	}
	if p.ByName { // the index of names does not contain spaces
		q.rest = []string{"space_id", f.SpaceID, "external_id", f.ExternalID}
	} else {
		args, cond := narrow(q.args, "space_id", f.SpaceID, "external_id", f.ExternalID)
		q.from, q.args = q.from+cond, args
	}
	from := strings.Replace(q.from, `FROM agents`, `FROM (SELECT a.*, COALESCE(%s, 0) AS sort_key FROM agents a) agents`, 1)
	switch p.By {
	case SortUsed:
		q = q.sorted(fmt.Sprintf(from, `(SELECT MAX(s.created_at) FROM sessions s WHERE s.account_id = a.account_id AND s.agent_id = a.id)`), q.args...)
	case SortSpent:
		sum := fmt.Sprintf(`(SELECT CAST(SUM(d.amount) AS BIGINT) FROM charge_days d WHERE d.account_id = a.id AND d.day >= $%d)`, len(q.args)+1)
		q = q.sorted(fmt.Sprintf(from, sum), append(slices.Clip(q.args), tx.Books().spentSince())...)
	}
	return agents.search(ctx, tx.Tx, p, q)
}

// NewestSessions returns the time at which the newest session of each of these agents was created.
// It omits agents without sessions. There are at most 512 ids.
func (tx Setup) NewestSessions(ctx context.Context, accountID string, agentIDs []any) (map[string]time.Time, error) {
	newest := map[string]time.Time{}
	if len(agentIDs) == 0 {
		return newest, nil
	}
	in, args := inList([]any{accountID}, agentIDs)
	return newest, tx.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var at sql.NullInt64
		err := rows.Scan(&id, &at)
		if at.Valid {
			newest[id] = db.Time(at.Int64)
		}
		return err
	}, `SELECT a.id, (SELECT MAX(s.created_at) FROM sessions s WHERE s.account_id = a.account_id AND s.agent_id = a.id)
		FROM agents a WHERE a.account_id = $1 AND a.id IN (`+in+`) LIMIT 512`, args...)
}

// A WithheldSkills is an agent whose newest session does not use all of its skills.
type WithheldSkills struct {
	AgentID, Name string
	Skills        []string
	At            time.Time // the start of that session
}

// WithheldSkills returns the agents with settings of calls whose newest session is on their present version and does not use
// all of its skills. A review makes a new version.
func (tx Setup) WithheldSkills(ctx context.Context, accountID string, limit int) ([]WithheldSkills, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (w WithheldSkills, err error) {
		var withheld string
		var at int64
		var all []stoa.Withheld
		err = rows.Scan(&w.AgentID, &w.Name, &withheld, &at)
		if err = errors.Join(err, readOptional(withheld, &all)); err != nil {
			return w, err
		}
		for _, one := range all {
			if one.Skill != "" {
				w.Skills = append(w.Skills, one.Skill)
			}
		}
		w.At = db.Time(at)
		return w, nil
	}, `SELECT a.id, a.name, s.withheld, s.created_at FROM agents a JOIN sessions s ON s.account_id = a.account_id AND s.id =
			(SELECT n.id FROM sessions n WHERE n.account_id = a.account_id AND n.agent_id = a.id ORDER BY n.created_at DESC, n.id DESC LIMIT 1)
		WHERE a.account_id = $1 AND a.deleted_at = 0 AND a.call_settings <> '' AND s.agent_version = a.version AND s.withheld LIKE '%"skill":"%'
		ORDER BY a.created_at, a.id LIMIT $2`, accountID, limit)
}

// maxAgentModels is the maximum number of names that [Setup.AgentsByModel] returns, since agents may
// name any model.
const maxAgentModels = 10_000

// AgentsByModel returns the number of agents of all accounts by the name of their model, the most used
// ones first.
func (tx Setup) AgentsByModel(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{}
	return counts, tx.Query(ctx, func(rows *sql.Rows) error {
		var model string
		var n int64
		err := rows.Scan(&model, &n)
		counts[model] = n
		return err
	}, `SELECT model, COUNT(*) FROM agents WHERE deleted_at = 0 GROUP BY model ORDER BY 2 DESC, model LIMIT $1`, maxAgentModels)
}

// maxExposed is the maximum number of agents that [Setup.ExposedAgents] returns, because lists of models and of tools have no
// pages.
const maxExposed = 200

// ExposedAgents lists the agents that an account offers through a protocol, by name, with their ids, names, descriptions,
// access to drives, tools and settings of calls only. If named is not empty, it lists those with that name or id.
func (tx Setup) ExposedAgents(ctx context.Context, accountID, protocol, named string) ([]stoa.Agent, error) {
	all, err := list(ctx, tx.Tx, func(rows *sql.Rows) (a stoa.Agent, err error) {
		var expose string
		var tools, calls string
		if err = rows.Scan(&a.ID, &a.Name, &a.Description, &expose, &a.DriveAccess, &tools, &calls); err == nil {
			a.AccountID = accountID
			err = errors.Join(readOptional(expose, &a.Expose), readOptional(tools, &a.Tools), readOptional(calls, &a.Calls))
		}
		return a, err
	}, `SELECT id, name, description, expose, drive_access, tools, call_settings FROM agents
		WHERE account_id = $1 AND expose <> '' AND deleted_at = 0 AND ($2 = '' OR name = $2 OR id = $2) ORDER BY name, id LIMIT $3`, accountID, named, maxExposed)
	return slices.DeleteFunc(all, func(a stoa.Agent) bool { return !slices.Contains(a.Expose, protocol) }), err
}

// EditAgent lets fn change an agent and writes the result. It locks the agent while fn runs, so
// that fn can compare revisions. If fn fails, it returns the error and writes nothing. It increases
// and freezes the version if a setting has changed. fn must not change ids, version and times.
func (tx Setup) EditAgent(ctx context.Context, accountID, id string, fn func(*stoa.Agent) error) (stoa.Agent, error) {
	before, err := tx.agent(ctx, accountID, id, tx.ForUpdate())
	if err != nil {
		return before, err
	}
	a := before
	if err := fn(&a); err != nil {
		return a, err
	}
	if a.SpaceID != before.SpaceID {
		if _, err := tx.space(ctx, accountID, a.SpaceID, tx.ForShare()); err != nil {
			return a, err
		}
	}
	if !a.AgentSettings.Equal(before.AgentSettings) {
		a.Version++
		if err := tx.freeze(ctx, a); err != nil {
			return a, err
		}
	}
	err = agents.update(ctx, tx.Tx, accountID, id, &a)
	if db.IsUnique(err) {
		err = externalIDTaken("agent", a.ExternalID)
	}
	return a, err
}

// RollbackAgent restores the configuration of an earlier version. It adds a new version, unless
// nothing differs, since versions never change.
func (tx Setup) RollbackAgent(ctx context.Context, accountID, id string, version int64) (stoa.Agent, error) {
	return tx.EditAgent(ctx, accountID, id, func(a *stoa.Agent) error {
		v, err := tx.AgentVersion(ctx, accountID, id, version)
		a.AgentSettings = v.AgentSettings
		return err
	})
}

// DuplicateAgent adds an agent with the same configuration, but without drive, sessions, exposure and
// external id, which must be unique. Empty name and space are those of the original.
func (tx Setup) DuplicateAgent(ctx context.Context, accountID, id, name, spaceID string) (stoa.Agent, error) {
	a, err := tx.Agent(ctx, accountID, id)
	if err != nil {
		return a, err
	}
	a.ID, a.ExternalID, a.Expose = "", "", nil
	if name != "" {
		a.Name = name
	}
	if spaceID != "" {
		a.SpaceID = spaceID
	}
	return tx.InsertAgent(ctx, a)
}

// AgentVersion returns one version of an account's agent, or CodeNotFound. Versions of a
// deleted agent exist until its last turn has ended.
func (tx Setup) AgentVersion(ctx context.Context, accountID, id string, version int64) (stoa.AgentVersion, error) {
	return tx.version(ctx, accountID, id, version, `version = $3`)
}

// PinnedVersion returns the version that a session pinned. If that was removed because of the
// [Quota], it returns the oldest one that is left, so that the session can continue.
func (tx Setup) PinnedVersion(ctx context.Context, accountID, id string, version int64) (stoa.AgentVersion, error) {
	return tx.version(ctx, accountID, id, version, `version >= $3`)
}

func (tx Setup) version(ctx context.Context, accountID, id string, version int64, cond string) (stoa.AgentVersion, error) {
	missing := stoa.Errorf(stoa.CodeNotFound, "This agent has no version %d.", version).At("version")
	return agentVersions.one(ctx, tx.Tx, missing, `agent_id = $2 AND `+cond+`
		AND EXISTS (SELECT 1 FROM agents WHERE account_id = $1 AND id = $2) ORDER BY version LIMIT 1`, accountID, id, version)
}

// AgentVersions lists the versions of an account's agent by number, newest
// first unless asc. It starts after the version number after; 0 means at the start.
func (tx Setup) AgentVersions(ctx context.Context, accountID, id string, after int64, limit int, asc bool) ([]stoa.AgentVersion, bool, error) {
	if _, err := tx.Agent(ctx, accountID, id); err != nil {
		return nil, false, err
	}
	p := Page{Limit: limit}
	cond := ` AND (CAST($2 AS BIGINT) = 0 OR version < $2) ORDER BY version DESC`
	if asc {
		cond = ` AND version > $2 ORDER BY version`
	}
	return listPage(ctx, tx.Tx, p, agentVersions.scan, `SELECT `+agentVersions.columns+` FROM agent_versions WHERE agent_id = $1`+cond+` LIMIT $3`, id, after, p.limit()+1)
}

// HideAgent marks an agent as deleted, so that lists and queries no longer find it. The worker
// removes its rows later, because there may be very many. It fails with CodeAgentNotFound if the
// agent does not exist.
func (tx Setup) HideAgent(ctx context.Context, accountID, id string) error {
	n, err := tx.Exec(ctx, `UPDATE agents SET deleted_at = $3, external_id = NULL, instructions = '', metadata = 'null', revision = revision + 1
		WHERE account_id = $1 AND id = $2 AND deleted_at = 0`, accountID, id, db.Micros(tx.Now))
	if err == nil && n == 0 {
		err = noAgent()
	}
	return err
}

// A Ref names something that an account owns.
type Ref struct{ AccountID, ID string }

// HiddenAgents returns deleted agents whose rows still exist.
func (tx Setup) HiddenAgents(ctx context.Context, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM agents WHERE deleted_at > 0 ORDER BY deleted_at LIMIT $1`, limit)
}

// RemoveAgent removes the rows of a deleted agent and reports whether it did. It does nothing while
// sessions are left, because their last turns need the versions.
func (tx Setup) RemoveAgent(ctx context.Context, accountID, id string) (bool, error) {
	n, err := tx.Exec(ctx, `DELETE FROM agents WHERE account_id = $1 AND id = $2 AND deleted_at > 0
		AND NOT EXISTS (SELECT 1 FROM sessions WHERE account_id = $1 AND agent_id = $2)
		AND NOT EXISTS (SELECT 1 FROM memories WHERE account_id = $1 AND agent_id = $2)`, accountID, id)
	if err != nil || n == 0 {
		return false, err
	}
	if _, err = tx.Exec(ctx, `DELETE FROM tool_lists WHERE account_id = $1 AND agent_id = $2`, accountID, id); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `DELETE FROM agent_versions WHERE agent_id = $1`, id)
	return true, err
}
