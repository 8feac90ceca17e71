package api

import (
	"context"

	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// CreateSpace serves POST /api/v1/spaces.
func (s *Server) CreateSpace(ctx context.Context, in contract.CreateSpaceRequestObject) (contract.CreateSpaceResponseObject, error) {
	space := stoa.Space{
		AccountID: caller(ctx).Account.ID, Name: in.Body.Name, Description: orZero(in.Body.Description),
		ExternalID: orZero(in.Body.ExternalID), Metadata: orZero(in.Body.Metadata),
	}
	if err := s.checkSpace(space); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.CreateSpaceResponseObject.VisitCreateSpaceResponse, func(tx *store.Tx) (contract.CreateSpaceResponseObject, error) {
		made, err := tx.InsertSpace(ctx, space)
		return contract.CreateSpace201JSONResponse{
			Headers: contract.CreateSpace201ResponseHeaders{Location: prefix + "/spaces/" + made.ID, ETag: revisionETag(made.Revision)},
			Body:    contractSpace(made),
		}, err
	})
}

func (s *Server) checkSpace(space stoa.Space) error {
	if err := checkLengths(
		lengthLimit{"name", space.Name, s.Limits.NameCharacters},
		lengthLimit{"description", space.Description, s.Limits.DescriptionCharacters},
	); err != nil {
		return err
	}
	return checkMetadata(space.Metadata)
}

// ListSpaces serves GET /api/v1/spaces.
func (s *Server) ListSpaces(ctx context.Context, in contract.ListSpacesRequestObject) (contract.ListSpacesResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "spaces", accountID, q.ExternalID)
	if err != nil {
		return nil, err
	}
	if _, err := s.defaultSpace(ctx, accountID); err != nil {
		return nil, err
	}
	out := contract.ListSpaces200JSONResponse{Data: []contract.Space{}, NextCursor: noCursor()}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		list, more, err := tx.Spaces(ctx, accountID, q.ExternalID, p.page)
		for _, space := range list {
			out.Data = append(out.Data, contractSpace(space))
			out.NextCursor = p.next(more, space.CreatedAt, space.ID)
		}
		out.HasMore = more
		return err
	})
	return out, err
}

// GetSpace serves GET /api/v1/spaces/{id}.
func (s *Server) GetSpace(ctx context.Context, in contract.GetSpaceRequestObject) (contract.GetSpaceResponseObject, error) {
	var space stoa.Space
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		space, err = tx.Space(ctx, caller(ctx).Account.ID, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	etag := revisionETag(space.Revision)
	if hasTag(in.Params.IfNoneMatch, revisionTag(space.Revision)) {
		return contract.GetSpace304Response{Headers: contract.GetSpace304ResponseHeaders{ETag: etag}}, nil
	}
	return contract.GetSpace200JSONResponse{Headers: contract.GetSpace200ResponseHeaders{ETag: etag}, Body: contractSpace(space)}, nil
}

// UpdateSpace serves PATCH /api/v1/spaces/{id}.
func (s *Server) UpdateSpace(ctx context.Context, in contract.UpdateSpaceRequestObject) (contract.UpdateSpaceResponseObject, error) {
	var space stoa.Space
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		space, err = tx.EditSpace(ctx, caller(ctx).Account.ID, in.ID, func(space *stoa.Space) error {
			if err := ifCurrent(in.Params.IfMatch, space.Revision); err != nil {
				return err
			}
			if in.Body.Name != "" {
				space.Name = in.Body.Name
			}
			patch(&space.Description, in.Body.Description, same)
			patch(&space.ExternalID, in.Body.ExternalID, same)
			if err := mergeMetadata(&space.Metadata, in.Body.Metadata); err != nil {
				return err
			}
			return s.checkSpace(*space)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return contract.UpdateSpace200JSONResponse{
		Headers: contract.UpdateSpace200ResponseHeaders{ETag: revisionETag(space.Revision)}, Body: contractSpace(space),
	}, nil
}

func same[T any](v T) T { return v }

// DeleteSpace serves DELETE /api/v1/spaces/{id}.
func (s *Server) DeleteSpace(ctx context.Context, in contract.DeleteSpaceRequestObject) (contract.DeleteSpaceResponseObject, error) {
	accountID := caller(ctx).Account.ID
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		if in.Params.IfMatch != "" {
			space, err := tx.Space(ctx, accountID, in.ID)
			if stoa.CodeOf(err) == stoa.CodeSpaceNotFound {
				return nil
			}
			if err == nil {
				err = ifCurrent(in.Params.IfMatch, space.Revision)
			}
			if err != nil {
				return err
			}
		}
		return s.Sessions.DeleteSpace(ctx, tx, accountID, in.ID, in.Params.Force)
	})
	return contract.DeleteSpace204Response{}, err
}

// ListSpaceAgents serves GET /api/v1/spaces/{id}/agents.
func (s *Server) ListSpaceAgents(ctx context.Context, in contract.ListSpaceAgentsRequestObject) (contract.ListSpaceAgentsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "space agents", accountID, in.ID, q.ExternalID)
	if err != nil {
		return nil, err
	}
	var list contract.AgentList
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := tx.Space(ctx, accountID, in.ID); err != nil {
			return err
		}
		list, err = agentList(ctx, tx, accountID, store.AgentFilter{SpaceID: in.ID, ExternalID: q.ExternalID}, p)
		return err
	})
	return contract.ListSpaceAgents200JSONResponse(list), err
}

func contractSpace(s stoa.Space) contract.Space {
	return contract.Space{
		ID: s.ID, Name: s.Name, Description: unlessZero(s.Description), ExternalID: unlessZero(s.ExternalID),
		Metadata: contractMetadata(s.Metadata), CreatedAt: contract.Time(s.CreatedAt), UpdatedAt: contract.Time(s.UpdatedAt),
	}
}
