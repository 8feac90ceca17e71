package api

import (
	"context"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
)

func (s *Status) getMe(ctx context.Context, in rest.Request[rest.None, rest.None]) (rest.Reply[contract.User], error) {
	c := in.Caller
	balance, err := s.Ledger.Balance(ctx, c.Account.ID)
	if err != nil {
		return rest.Reply[contract.User]{}, err
	}
	var spent stoa.Credits
	if c.Key.MaxCreditsPerDay > 0 {
		if spent, err = s.Ledger.SpentToday(ctx, c.Key); err != nil {
			return rest.Reply[contract.User]{}, err
		}
	}
	space, err := s.defaultSpace(ctx, in.Log, c.Account.ID)
	return rest.Reply[contract.User]{Body: contract.User{
		ID: c.Account.ID, Name: c.Account.Name, Email: nullIfZero(c.Account.Email),
		Plan:           contract.Plan{ID: c.Plan.ID, Name: c.Plan.Name, GatedModels: c.Plan.GatedModels},
		Credits:        contract.UserCredits{AvailableMicro: int64(balance.Available), HeldMicro: int64(balance.Held)},
		DefaultSpaceID: nullIfZero(space),
		Key: contract.KeyOfCaller{
			ID: c.Key.ID, Name: c.Key.Name, Hint: c.Key.Hint, Scopes: append([]string{}, c.Key.Scopes...), ExpiresAt: nullIfNever(c.Key.ExpiresAt),
			MaxCreditsMicroPerDay: nullIfZero(int64(c.Key.MaxCreditsPerDay)), SpentTodayMicro: nullUnless(c.Key.MaxCreditsPerDay != 0, int64(spent)),
		},
		CreatedAt: contract.Time(c.Account.CreatedAt),
	}}, err
}
