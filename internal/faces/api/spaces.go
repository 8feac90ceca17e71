package api

import (
	"context"
	"net/http"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Agents) createSpace(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateSpace]) (rest.Reply[contract.Space], error) {
	space := stoa.Space{
		AccountID: in.Caller.Account.ID, Name: in.Body.Name, Description: orZero(in.Body.Description),
		ExternalID: orZero(in.Body.ExternalID), Metadata: orZero(in.Body.Metadata),
	}
	if err := s.checkSpace(space); err != nil {
		return rest.Reply[contract.Space]{}, err
	}
	made, err := tx.Setup().InsertSpace(ctx, space)
	return rest.Reply[contract.Space]{
		Status: http.StatusCreated, Location: rest.Prefix + "/spaces/" + made.ID, ETag: revisionETag(made.Revision), Body: contractSpace(made),
	}, err
}

func (s *Agents) checkSpace(space stoa.Space) error {
	if err := checkLengths(
		lengthLimit{"name", space.Name, s.Limits.NameCharacters},
		lengthLimit{"description", space.Description, s.Limits.DescriptionCharacters},
	); err != nil {
		return err
	}
	return checkMetadata(space.Metadata)
}

func (s *Agents) listSpaces(ctx context.Context, in rest.Request[contract.ListSpacesParams, rest.None]) (rest.Reply[rest.Page[contract.Space]], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "spaces", accountID, q.ExternalID, q.Q)
	if p.Err != nil {
		return rest.Reply[rest.Page[contract.Space]]{}, p.Err
	}
	if _, err := s.defaultSpace(ctx, in.Log, accountID); err != nil {
		return rest.Reply[rest.Page[contract.Space]]{}, err
	}
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Space, store.Cursor, error) {
		return tx.Setup().Spaces(ctx, accountID, q.ExternalID, q.Q, p.Page)
	}, contractSpace)
}

func (s *Agents) getSpace(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.GetSpaceParams], rest.None]) (rest.Reply[contract.Space], error) {
	space, err := tx.Setup().Space(ctx, in.Caller.Account.ID, in.Params.ID)
	return unlessCurrent(in.Params.Query.IfNoneMatch, revisionTag(space.Revision), contractSpace(space)), err
}

func (s *Agents) updateSpace(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.UpdateSpaceParams], contract.UpdateSpace]) (rest.Reply[contract.Space], error) {
	space, err := tx.Setup().EditSpace(ctx, in.Caller.Account.ID, in.Params.ID, func(space *stoa.Space) error {
		if err := ifCurrent(in.Params.Query.IfMatch, space.Revision); err != nil {
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
	return rest.Reply[contract.Space]{ETag: revisionETag(space.Revision), Body: contractSpace(space)}, err
}

func same[T any](v T) T { return v }

func (s *Agents) deleteSpace(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.DeleteSpaceParams], rest.None]) (rest.Reply[rest.None], error) {
	accountID, id := in.Caller.Account.ID, in.Params.ID
	if in.Params.Query.IfMatch != "" {
		space, err := tx.Setup().Space(ctx, accountID, id)
		if err == nil {
			err = ifCurrent(in.Params.Query.IfMatch, space.Revision)
		}
		if err != nil {
			return rest.NoContent(), err
		}
	}
	return rest.NoContent(), s.Sessions.DeleteSpace(ctx, tx, accountID, id, in.Params.Query.Force)
}

func (s *Agents) listSpaceAgents(ctx context.Context, in rest.Request[idAnd[contract.ListSpaceAgentsParams], rest.None]) (rest.Reply[rest.Page[contract.Agent]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "space agents", accountID, in.Params.ID, q.ExternalID)
	return s.agentPage(ctx, p, accountID, store.AgentFilter{SpaceID: in.Params.ID, ExternalID: q.ExternalID}, func(tx *store.Tx) error {
		_, err := tx.Setup().Space(ctx, accountID, in.Params.ID)
		return err
	})
}

func contractSpace(s stoa.Space) contract.Space {
	return contract.Space{
		ID: s.ID, Name: s.Name, Description: nullIfZero(s.Description), ExternalID: nullIfZero(s.ExternalID),
		Metadata: contractMetadata(s.Metadata), CreatedAt: contract.Time(s.CreatedAt), UpdatedAt: contract.Time(s.UpdatedAt),
	}
}
