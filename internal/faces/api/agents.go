package api

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
)

const (
	defaultModel       = catalog.Auto
	defaultDriveAccess = stoa.DriveReadOnly
	defaultVisitors    = stoa.VisitorDriveRead
	defaultEmbed       = true
	defaultTimezone    = "UTC"
)

func (s *Agents) createAgent(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateAgent]) (rest.Reply[contract.Agent], error) {
	agent := stoa.Agent{
		AccountID: in.Caller.Account.ID, EmbedEnabled: defaultEmbed, Metadata: orZero(in.Body.Metadata),
		AgentSettings: stoa.AgentSettings{DriveAccess: defaultDriveAccess, VisitorDrive: defaultVisitors, Timezone: defaultTimezone},
	}
	set := extend[contract.UpdateAgent](in.Body)
	set.Model = nullable.NewNullableWithValue(valueOr(set.Model, defaultModel))
	if err := s.patchAgent(&agent, &set); err != nil {
		return rest.Reply[contract.Agent]{}, err
	}
	made, err := tx.Setup().InsertAgent(ctx, agent)
	if err == nil {
		err = tool.CheckTools(ctx, tx, agent.AccountID, agent.SpaceID, agent.AgentSettings)
	}
	return createdAgent(made), err
}

func createdAgent(a stoa.Agent) rest.Reply[contract.Agent] {
	reply := rest.Created(agentPath(a.ID), contractAgent(a))
	reply.ETag = revisionETag(a.Revision)
	return reply
}

func agentPath(id string) string { return rest.Prefix + "/api-agents/" + id }

func valueOr[T any](n nullable.Nullable[T], other T) T {
	if v, err := n.Get(); err == nil {
		return v
	}
	return other
}

func (s *Agents) checkAgent(a stoa.Agent) error {
	if err := checkLengths(
		lengthLimit{"name", a.Name, s.Limits.NameCharacters},
		lengthLimit{"description", a.Description, s.Limits.DescriptionCharacters},
		lengthLimit{"instructions", a.Instructions, s.Limits.InstructionsCharacters},
	); err != nil {
		return err
	}
	if len(a.Expose) > 0 && a.Description == "" {
		return stoa.Errorf(stoa.CodeMissingParameter, "An agent that is exposed needs a \"description\", which tells programs and people what it is for.").At("description")
	}
	if slices.Contains(a.Expose, stoa.ExposeSkills) && !slices.Contains(a.Expose, stoa.ExposeMCP) {
		return stoa.Errorf(stoa.CodeInvalidValue, "\"skills\" has an effect only with \"mcp\": expose both.").At("expose")
	}
	if err := session.CheckTimezone(a.Timezone); err != nil {
		return err
	}
	if a.CompactAt > 0 && a.CompactAt < config.MinCompactAt {
		return stoa.Errorf(stoa.CodeInvalidValue, "compactAt must be from %d to %d, or 0 for never.", config.MinCompactAt, config.MaxCompactAt).At("compactAt")
	}
	if err := checkMemory(a); err != nil {
		return err
	}
	return checkMetadata(a.Metadata)
}

// compactAt returns the stored form of an agent's compactAt: null is 0, and 0, which means never, is -1.
func compactAt(n nullable.Nullable[int]) int {
	if n.IsSpecified() && !n.IsNull() && n.MustGet() == 0 {
		return -1
	}
	return valueOr(n, 0)
}

func (s *Agents) listAgents(ctx context.Context, in rest.Request[contract.ListAgentsParams, rest.None]) (rest.Reply[rest.Page[contract.Agent]], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	p := rest.NewSortedPager(q.Limit, q.Cursor, string(q.Sort), string(q.Order), "agents", accountID, q.SpaceID, q.ExternalID, q.Q)
	return s.agentPage(ctx, p, accountID, store.AgentFilter{SpaceID: q.SpaceID, ExternalID: q.ExternalID, Text: q.Q}, nil)
}

// agentPage returns a page of agents with the names of their spaces and the times of their newest sessions. before,
// unless nil, runs first in the same transaction.
func (s *Agents) agentPage(ctx context.Context, p rest.Pager, accountID string, f store.AgentFilter, before func(*store.Tx) error) (rest.Reply[rest.Page[contract.Agent]], error) {
	n := namesOf(accountID)
	var newest map[string]time.Time
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Agent, store.Cursor, error) {
		if before != nil {
			if err := before(tx); err != nil {
				return nil, store.Cursor{}, err
			}
		}
		list, next, err := tx.Setup().Agents(ctx, accountID, f, p.Page)
		ids := make([]any, len(list))
		for i, a := range list {
			n.add(store.NamedSpaces, a.SpaceID)
			ids[i] = a.ID
		}
		if err == nil {
			newest, err = tx.Setup().NewestSessions(ctx, accountID, ids)
		}
		return list, next, n.read(ctx, tx, err)
	}, func(a stoa.Agent) contract.Agent {
		out := contractAgent(a)
		out.SpaceName, out.LastSessionAt = n.of(store.NamedSpaces, a.SpaceID), contract.Time(newest[a.ID])
		return out
	})
}

func (s *Agents) getAgent(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.GetAgentParams], rest.None]) (rest.Reply[contract.Agent], error) {
	agent, err := tx.Setup().Agent(ctx, in.Caller.Account.ID, in.Params.ID)
	return unlessCurrent(in.Params.Query.IfNoneMatch, revisionTag(agent.Revision), contractAgent(agent)), err
}

func (s *Agents) updateAgent(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.UpdateAgentParams], contract.UpdateAgent]) (rest.Reply[contract.Agent], error) {
	agent, err := tx.Setup().EditAgent(ctx, in.Caller.Account.ID, in.Params.ID, func(a *stoa.Agent) error {
		if err := ifCurrent(in.Params.Query.IfMatch, a.Revision); err != nil {
			return err
		}
		if err := s.patchAgent(a, &in.Body); err != nil {
			return err
		}
		if !in.Body.Tools.IsSpecified() && in.Body.SpaceID == "" && !in.Body.ToolSearch.IsSpecified() { // because the checked settings are unchanged
			return nil
		}
		return tool.CheckTools(ctx, tx, a.AccountID, a.SpaceID, a.AgentSettings)
	})
	return rest.Reply[contract.Agent]{ETag: revisionETag(agent.Revision), Body: contractAgent(agent)}, err
}

func (s *Agents) patchAgent(a *stoa.Agent, b *contract.UpdateAgent) error {
	for _, m := range []struct {
		into *string
		text string
	}{{&a.SpaceID, b.SpaceID}, {&a.Name, b.Name}, {&a.Instructions, b.Instructions}} {
		if m.text != "" { // because the contract rejects null and empty texts
			*m.into = m.text
		}
	}
	patch(&a.Description, b.Description, same)
	patch(&a.ExternalID, b.ExternalID, same)
	if b.Model.IsSpecified() { // because the catalog may have lost an unchanged model
		a.Model = valueOr(b.Model, defaultModel)
		if err := s.checkModelExists(a.Model); err != nil {
			return err
		}
	}
	patchOr(&a.DriveAccess, b.DriveAccess, defaultDriveAccess, func(text string) stoa.DriveAccess { return stoa.DriveAccess(text) })
	patchOr(&a.VisitorDrive, b.VisitorDrive, defaultVisitors, func(text string) stoa.VisitorDrive { return stoa.VisitorDrive(text) })
	patchOr(&a.Timezone, b.Timezone, defaultTimezone, same)
	patch(&a.Expose, b.Expose, same)
	patchOr(&a.EmbedEnabled, b.EmbedEnabled, defaultEmbed, same)
	patch(&a.Tables, b.Tables, same)
	if b.Tools.IsSpecified() {
		var err error
		if a.Tools, err = agentTools(orZero(b.Tools)); err != nil {
			return err
		}
	}
	if err := patchCalls(a, b); err != nil {
		return err
	}
	if b.CompactAt.IsSpecified() {
		a.CompactAt = compactAt(b.CompactAt)
	}
	if err := s.mergeLimits(&a.Limits, b.Limits); err != nil {
		return err
	}
	if err := mergeMetadata(&a.Metadata, b.Metadata); err != nil {
		return err
	}
	return s.checkAgent(*a)
}

// patchCalls changes the settings of an agent's model calls.
func patchCalls(a *stoa.Agent, b *contract.UpdateAgent) (err error) {
	c := a.CallSettings()
	if b.ReplySchema.IsSpecified() {
		if c.ReplySchema, err = session.ReadReplySchema(orZero(b.ReplySchema), "replySchema"); err != nil {
			return err
		}
	}
	if b.Reasoning.IsSpecified() {
		c.Effort = orZero(orZero(b.Reasoning).Effort)
	}
	if b.Temperature.IsSpecified() {
		c.Temperature = nil
		if t, err := b.Temperature.Get(); err == nil {
			c.Temperature = &t
		}
	}
	patch(&c.ToolSearch, b.ToolSearch, same)
	patch(&c.Memory, b.Memory, func(text string) string { return strings.TrimPrefix(text, memoryNone) })
	a.SetCallSettings(c)
	return nil
}

// deleteAgent serves DELETE /api/v1/api-agents/{id}. The agent's data is removed in the background.
func (s *Agents) deleteAgent(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.DeleteAgentParams], rest.None]) (rest.Reply[rest.None], error) {
	accountID, id := in.Caller.Account.ID, in.Params.ID
	if in.Params.Query.IfMatch != "" {
		agent, err := tx.Setup().Agent(ctx, accountID, id)
		if err == nil {
			err = ifCurrent(in.Params.Query.IfMatch, agent.Revision)
		}
		if err != nil {
			return rest.NoContent(), err
		}
	}
	return rest.NoContent(), s.Sessions.DeleteAgent(ctx, tx, accountID, id)
}

func (s *Agents) listAgentVersions(ctx context.Context, in rest.Request[idAnd[contract.ListAgentVersionsParams], rest.None]) (rest.Reply[rest.Page[contract.AgentVersion]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "versions", accountID, in.Params.ID)
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.AgentVersion, bool, error) {
		return tx.Setup().AgentVersions(ctx, accountID, in.Params.ID, p.Number(), p.Page.Limit, p.Page.Asc)
	}, contractVersion, func(v stoa.AgentVersion) store.Cursor { return rest.Numbered(v.Version) })
}

type getAgentVersionParams struct {
	byID
	Version string `path:"version"`
}

func (s *Agents) getAgentVersion(ctx context.Context, tx *store.Tx, in rest.Request[getAgentVersionParams, rest.None]) (rest.Reply[contract.AgentVersion], error) {
	number, err := strconv.ParseInt(in.Params.Version, 10, 64)
	if err != nil {
		number = 0 // not a valid version number
	}
	accountID := in.Caller.Account.ID
	if _, err := tx.Setup().Agent(ctx, accountID, in.Params.ID); err != nil {
		return rest.Reply[contract.AgentVersion]{}, err
	}
	v, err := tx.Setup().AgentVersion(ctx, accountID, in.Params.ID, number)
	return rest.Reply[contract.AgentVersion]{Body: contractVersion(v)}, err
}

func (s *Agents) rollbackAgent(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.RollbackAgentParams], contract.RollbackAgent]) (rest.Reply[contract.Agent], error) {
	accountID, id := in.Caller.Account.ID, in.Params.ID
	agent, err := tx.Setup().EditAgent(ctx, accountID, id, func(a *stoa.Agent) error {
		if err := ifCurrent(in.Params.Query.IfMatch, a.Revision); err != nil {
			return err
		}
		v, err := tx.Setup().AgentVersion(ctx, accountID, id, in.Body.Version)
		if err != nil {
			return err
		}
		a.AgentSettings = v.AgentSettings
		return s.checkModelExists(a.Model) // because the catalog may have lost it since
	})
	return rest.Reply[contract.Agent]{ETag: revisionETag(agent.Revision), Body: contractAgent(agent)}, err
}

func (s *Agents) duplicateAgent(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.DuplicateAgent]) (rest.Reply[contract.Agent], error) {
	name := orZero(in.Body.Name)
	if err := checkLengths(lengthLimit{"name", name, s.Limits.NameCharacters}); err != nil {
		return rest.Reply[contract.Agent]{}, err
	}
	made, err := tx.Setup().DuplicateAgent(ctx, in.Caller.Account.ID, in.Params.ID, name, orZero(in.Body.SpaceID))
	return createdAgent(made), err
}

func contractAgent(a stoa.Agent) contract.Agent {
	calls := a.CallSettings()
	return contract.Agent{
		ID: a.ID, SpaceID: a.SpaceID, Name: a.Name, Description: nullIfZero(a.Description), Instructions: a.Instructions, Model: a.Model,
		DriveAccess: string(a.DriveAccess), VisitorDrive: string(a.VisitorDrive), Tools: contractTools(a.Tools), Limits: contractLimits(a.Limits), Timezone: a.Timezone, CompactAt: nullUnless(a.CompactAt != 0, max(a.CompactAt, 0)), Tables: a.Tables, Memory: cmp.Or(calls.Memory, memoryNone), EmbedEnabled: a.EmbedEnabled, Expose: append([]string{}, a.Expose...), ExternalID: nullIfZero(a.ExternalID),
		ReplySchema: nullIfEmpty(contract.ReplySchema(calls.ReplySchema)), Skills: contractPins(calls.Skills), Temperature: nullIfNil(calls.Temperature, same), ToolSearch: calls.ToolSearch,
		Reasoning: nullUnless(calls.Effort != "", contract.AgentReasoning{Effort: nullIfZero(calls.Effort)}),
		Metadata:  contractMetadata(a.Metadata), Version: a.Version, CreatedAt: contract.Time(a.CreatedAt), UpdatedAt: contract.Time(a.UpdatedAt),
	}
}

func contractVersion(v stoa.AgentVersion) contract.AgentVersion {
	c := extend[contract.AgentVersion](contractAgent(stoa.Agent{AgentSettings: v.AgentSettings, Version: v.Version, CreatedAt: v.CreatedAt}))
	c.AgentID = v.AgentID
	return c
}
