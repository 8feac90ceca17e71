package api

import (
	"context"
	"strconv"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/catalog"
	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// What an agent has that names none.
const (
	defaultModel       = catalog.Auto
	defaultDriveAccess = stoa.DriveReadOnly
	defaultEmbed       = true
)

// CreateAgent serves POST /api/v1/api-agents.
func (s *Server) CreateAgent(ctx context.Context, in contract.CreateAgentRequestObject) (contract.CreateAgentResponseObject, error) {
	b := in.Body
	agent := stoa.Agent{
		AccountID: caller(ctx).Account.ID, SpaceID: b.SpaceID, Name: b.Name, Description: orZero(b.Description), ExternalID: orZero(b.ExternalID),
		Instructions: b.Instructions, Model: valueOr(b.Model, defaultModel), DriveAccess: driveAccess(b.DriveAccess),
		EmbedEnabled: valueOr(b.EmbedEnabled, defaultEmbed), Metadata: orZero(b.Metadata),
	}
	err := s.mergeLimits(&agent.Limits, b.Limits)
	if err == nil {
		err = s.checkAgent(agent)
	}
	if err == nil {
		err = s.knowsModel(agent.Model)
	}
	if err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.CreateAgentResponseObject.VisitCreateAgentResponse, func(tx *store.Tx) (contract.CreateAgentResponseObject, error) {
		made, err := tx.InsertAgent(ctx, agent)
		return contract.CreateAgent201JSONResponse{
			Headers: contract.CreateAgent201ResponseHeaders{Location: agentPath(made.ID), ETag: revisionETag(made.Revision)},
			Body:    contractAgent(made),
		}, err
	})
}

func agentPath(id string) string { return prefix + "/api-agents/" + id }

func driveAccess(n nullable.Nullable[string]) stoa.DriveAccess {
	return stoa.DriveAccess(valueOr(n, string(defaultDriveAccess)))
}

// valueOr is the value of a member; other where it is absent or null.
func valueOr[T any](n nullable.Nullable[T], other T) T {
	if v, err := n.Get(); err == nil {
		return v
	}
	return other
}

func (s *Server) checkAgent(a stoa.Agent) error {
	if err := checkLengths(
		lengthLimit{"name", a.Name, s.Limits.NameCharacters},
		lengthLimit{"description", a.Description, s.Limits.DescriptionCharacters},
		lengthLimit{"instructions", a.Instructions, s.Limits.InstructionsCharacters},
	); err != nil {
		return err
	}
	return checkMetadata(a.Metadata)
}

// ListAgents serves GET /api/v1/api-agents.
func (s *Server) ListAgents(ctx context.Context, in contract.ListAgentsRequestObject) (contract.ListAgentsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "agents", accountID, q.SpaceID, q.ExternalID)
	if err != nil {
		return nil, err
	}
	var list contract.AgentList
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		list, err = agentList(ctx, tx, accountID, store.AgentFilter{SpaceID: q.SpaceID, ExternalID: q.ExternalID}, p)
		return err
	})
	return contract.ListAgents200JSONResponse(list), err
}

func agentList(ctx context.Context, tx *store.Tx, accountID string, f store.AgentFilter, p pager) (contract.AgentList, error) {
	out := contract.AgentList{Data: []contract.Agent{}, NextCursor: noCursor()}
	list, more, err := tx.Agents(ctx, accountID, f, p.page)
	for _, a := range list {
		out.Data = append(out.Data, contractAgent(a))
		out.NextCursor = p.next(more, a.CreatedAt, a.ID)
	}
	out.HasMore = more
	return out, err
}

// GetAgent serves GET /api/v1/api-agents/{id}.
func (s *Server) GetAgent(ctx context.Context, in contract.GetAgentRequestObject) (contract.GetAgentResponseObject, error) {
	var agent stoa.Agent
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		agent, err = tx.Agent(ctx, caller(ctx).Account.ID, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	etag := revisionETag(agent.Revision)
	if hasTag(in.Params.IfNoneMatch, revisionTag(agent.Revision)) {
		return contract.GetAgent304Response{Headers: contract.GetAgent304ResponseHeaders{ETag: etag}}, nil
	}
	return contract.GetAgent200JSONResponse{Headers: contract.GetAgent200ResponseHeaders{ETag: etag}, Body: contractAgent(agent)}, nil
}

// UpdateAgent serves PATCH /api/v1/api-agents/{id}.
func (s *Server) UpdateAgent(ctx context.Context, in contract.UpdateAgentRequestObject) (contract.UpdateAgentResponseObject, error) {
	var agent stoa.Agent
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		agent, err = tx.EditAgent(ctx, caller(ctx).Account.ID, in.ID, func(a *stoa.Agent) error {
			if err := ifCurrent(in.Params.IfMatch, a.Revision); err != nil {
				return err
			}
			return s.patchAgent(a, in.Body)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return contract.UpdateAgent200JSONResponse{
		Headers: contract.UpdateAgent200ResponseHeaders{ETag: revisionETag(agent.Revision)}, Body: contractAgent(agent),
	}, nil
}

func (s *Server) patchAgent(a *stoa.Agent, b *contract.UpdateAgent) error {
	for _, m := range []struct {
		into *string
		text string
	}{{&a.SpaceID, b.SpaceID}, {&a.Name, b.Name}, {&a.Instructions, b.Instructions}} {
		if m.text != "" { // null and empty texts are refused by the contract
			*m.into = m.text
		}
	}
	patch(&a.Description, b.Description, same)
	patch(&a.ExternalID, b.ExternalID, same)
	if b.Model.IsSpecified() { // one that stays may have left the catalog
		a.Model = valueOr(b.Model, defaultModel)
		if err := s.knowsModel(a.Model); err != nil {
			return err
		}
	}
	if b.DriveAccess.IsSpecified() {
		a.DriveAccess = driveAccess(b.DriveAccess)
	}
	if b.EmbedEnabled.IsSpecified() {
		a.EmbedEnabled = valueOr(b.EmbedEnabled, defaultEmbed)
	}
	if err := s.mergeLimits(&a.Limits, b.Limits); err != nil {
		return err
	}
	if err := mergeMetadata(&a.Metadata, b.Metadata); err != nil {
		return err
	}
	return s.checkAgent(*a)
}

// DeleteAgent serves DELETE /api/v1/api-agents/{id}. Whoever comes after it finds
// no such agent; what it had is swept away in the background.
func (s *Server) DeleteAgent(ctx context.Context, in contract.DeleteAgentRequestObject) (contract.DeleteAgentResponseObject, error) {
	accountID := caller(ctx).Account.ID
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		if in.Params.IfMatch != "" {
			agent, err := tx.Agent(ctx, accountID, in.ID)
			if stoa.CodeOf(err) == stoa.CodeAgentNotFound {
				return nil
			}
			if err == nil {
				err = ifCurrent(in.Params.IfMatch, agent.Revision)
			}
			if err != nil {
				return err
			}
		}
		return s.Sessions.DeleteAgent(ctx, tx, accountID, in.ID)
	})
	return contract.DeleteAgent204Response{}, err
}

// ListAgentVersions serves GET /api/v1/api-agents/{id}/versions.
func (s *Server) ListAgentVersions(ctx context.Context, in contract.ListAgentVersionsRequestObject) (contract.ListAgentVersionsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "versions", accountID, in.ID)
	if err != nil {
		return nil, err
	}
	out := contract.ListAgentVersions200JSONResponse{Data: []contract.AgentVersion{}, NextCursor: noCursor()}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		list, more, err := tx.AgentVersions(ctx, accountID, in.ID, p.number(), p.page.Limit, p.page.Asc)
		for _, v := range list {
			out.Data = append(out.Data, contractVersion(v))
			out.NextCursor = p.nextNumber(more, v.Version)
		}
		out.HasMore = more
		return err
	})
	return out, err
}

// GetAgentVersion serves GET /api/v1/api-agents/{id}/versions/{version}.
func (s *Server) GetAgentVersion(ctx context.Context, in contract.GetAgentVersionRequestObject) (contract.GetAgentVersionResponseObject, error) {
	number, err := strconv.ParseInt(in.Version, 10, 64)
	if err != nil {
		number = 0 // which is the number of none
	}
	var v stoa.AgentVersion
	err = s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if _, err := tx.Agent(ctx, caller(ctx).Account.ID, in.ID); err != nil {
			return err
		}
		v, err = tx.AgentVersion(ctx, caller(ctx).Account.ID, in.ID, number)
		return err
	})
	if err != nil {
		return nil, err
	}
	return contract.GetAgentVersion200JSONResponse(contractVersion(v)), nil
}

// RollbackAgent serves POST /api/v1/api-agents/{id}/rollback.
func (s *Server) RollbackAgent(ctx context.Context, in contract.RollbackAgentRequestObject) (contract.RollbackAgentResponseObject, error) {
	accountID := caller(ctx).Account.ID
	return makeOnce(ctx, s, false, contract.RollbackAgentResponseObject.VisitRollbackAgentResponse, func(tx *store.Tx) (contract.RollbackAgentResponseObject, error) {
		agent, err := tx.EditAgent(ctx, accountID, in.ID, func(a *stoa.Agent) error {
			if err := ifCurrent(in.Params.IfMatch, a.Revision); err != nil {
				return err
			}
			v, err := tx.AgentVersion(ctx, accountID, in.ID, in.Body.Version)
			if err != nil {
				return err
			}
			a.Instructions, a.Model, a.DriveAccess, a.Limits = v.Instructions, v.Model, v.DriveAccess, v.Limits
			return s.knowsModel(a.Model) // it may have left the catalog since
		})
		return contract.RollbackAgent200JSONResponse{
			Headers: contract.RollbackAgent200ResponseHeaders{ETag: revisionETag(agent.Revision)}, Body: contractAgent(agent),
		}, err
	})
}

// DuplicateAgent serves POST /api/v1/api-agents/{id}/duplicate.
func (s *Server) DuplicateAgent(ctx context.Context, in contract.DuplicateAgentRequestObject) (contract.DuplicateAgentResponseObject, error) {
	var name, spaceID string
	if in.Body != nil {
		name, spaceID = orZero(in.Body.Name), orZero(in.Body.SpaceID)
	}
	if err := checkLengths(lengthLimit{"name", name, s.Limits.NameCharacters}); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.DuplicateAgentResponseObject.VisitDuplicateAgentResponse, func(tx *store.Tx) (contract.DuplicateAgentResponseObject, error) {
		made, err := tx.DuplicateAgent(ctx, caller(ctx).Account.ID, in.ID, name, spaceID)
		return contract.DuplicateAgent201JSONResponse{
			Headers: contract.DuplicateAgent201ResponseHeaders{Location: agentPath(made.ID), ETag: revisionETag(made.Revision)},
			Body:    contractAgent(made),
		}, err
	})
}

func contractAgent(a stoa.Agent) contract.Agent {
	return contract.Agent{
		ID: a.ID, SpaceID: a.SpaceID, Name: a.Name, Description: unlessZero(a.Description), Instructions: a.Instructions, Model: a.Model,
		DriveAccess: string(a.DriveAccess), Limits: contractLimits(a.Limits), EmbedEnabled: a.EmbedEnabled, ExternalID: unlessZero(a.ExternalID),
		Metadata: contractMetadata(a.Metadata), Version: a.Version, CreatedAt: contract.Time(a.CreatedAt), UpdatedAt: contract.Time(a.UpdatedAt),
	}
}

func contractVersion(v stoa.AgentVersion) contract.AgentVersion {
	return contract.AgentVersion{
		AgentID: v.AgentID, Version: v.Version, Instructions: v.Instructions, Model: v.Model, DriveAccess: string(v.DriveAccess),
		Limits: contractLimits(v.Limits), CreatedAt: contract.Time(v.CreatedAt),
	}
}
