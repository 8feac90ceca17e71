package api

import (
	"context"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/store"
)

func (s *Agents) authorizeConnection(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.AuthorizationStart], error) {
	a, err := s.Tools.Authorize(ctx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.AuthorizationStart]{Body: contract.AuthorizationStart{ID: a.ID, AuthorizeURL: a.URL, Issuer: a.Issuer, SignInOrigin: a.SignIn, TokenOrigin: a.TokenFrom, ExpiresAt: contract.Time(a.ExpiresAt)}}, err
}

func (s *Agents) deauthorizeConnection(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.Connection], error) {
	if _, err := s.Tools.Deauthorize(ctx, in.Caller.Account.ID, in.Params.ID); err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	out, err := read(ctx, s.Store, func(tx *store.Tx) (shownConnection, error) {
		return showConnection(ctx, tx, in.Caller.Account.ID, in.Params.ID)
	})
	return rest.Reply[contract.Connection]{ETag: revisionETag(out.revision), Body: out.Connection}, err
}
