package api

import (
	"context"

	"stoa/internal/contract"
)

// GetMe serves GET /api/v1/users/me.
func (s *Server) GetMe(ctx context.Context, _ contract.GetMeRequestObject) (contract.GetMeResponseObject, error) {
	c := caller(ctx)
	balance, err := s.Ledger.Balance(ctx, c.Account.ID)
	if err != nil {
		return nil, err
	}
	space, err := s.defaultSpace(ctx, c.Account.ID)
	if err != nil {
		return nil, err
	}
	return contract.GetMe200JSONResponse{
		ID: c.Account.ID, Name: c.Account.Name, Email: unlessZero(c.Account.Email),
		Plan:           contract.Plan{ID: c.Plan.ID, Name: c.Plan.Name, GatedModels: c.Plan.GatedModels},
		Credits:        contract.UserCredits{AvailableMicro: int64(balance.Available), HeldMicro: int64(balance.Held)},
		DefaultSpaceID: unlessZero(space),
		Key: contract.KeyOfCaller{
			ID: c.Key.ID, Name: c.Key.Name, Hint: c.Key.Hint, Scopes: append([]string{}, c.Key.Scopes...), ExpiresAt: unlessNever(c.Key.ExpiresAt),
		},
		CreatedAt: contract.Time(c.Account.CreatedAt),
	}, nil
}
