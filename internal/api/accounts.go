package api

import (
	"context"
	"slices"
	"strings"

	"stoa/internal/auth"
	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

const (
	defaultPlan  = "free"
	firstKeyName = "first key"
)

// CreateAccount serves POST /api/v1/accounts.
func (s *Server) CreateAccount(ctx context.Context, in contract.CreateAccountRequestObject) (contract.CreateAccountResponseObject, error) {
	plan := orElse(orZero(in.Body.Plan), defaultPlan)
	if err := s.knowsPlan(plan); err != nil {
		return nil, err
	}
	secret := auth.Mint()
	return makeOnce(ctx, s, true, contract.CreateAccountResponseObject.VisitCreateAccountResponse, func(tx *store.Tx) (contract.CreateAccountResponseObject, error) {
		a, err := tx.InsertAccount(ctx, stoa.Account{Name: in.Body.Name, Email: orZero(in.Body.Email), Plan: plan})
		if err != nil {
			return nil, err
		}
		space, err := tx.DefaultSpace(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		a.DefaultSpaceID = space.ID
		amount := stoa.Credits(orZero(in.Body.GrantMicro))
		if amount > 0 {
			if _, _, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{AccountID: a.ID, Amount: amount, Reason: "first grant"}); err != nil {
				return nil, err
			}
		}
		k, err := s.Keys.Create(ctx, tx, stoa.Key{AccountID: a.ID, Name: firstKeyName, Scopes: []string{stoa.ScopeAll}}, secret)
		c := contractAccount(a)
		return contract.CreateAccount201JSONResponse{
			Headers: contract.CreateAccount201ResponseHeaders{Location: prefix + "/accounts/" + a.ID},
			Body: contract.AccountWithKey{
				ID: c.ID, Name: c.Name, Email: c.Email, Plan: c.Plan, Suspended: c.Suspended, DefaultSpaceID: c.DefaultSpaceID, CreatedAt: c.CreatedAt,
				Credits: contractCredits(stoa.Balance{Available: amount, Granted: amount}), Key: keyWithSecret(k, secret),
			},
		}, err
	})
}

// knowsPlan refuses a plan that is not configured.
func (s *Server) knowsPlan(id string) error {
	var known []string
	if s.Plans != nil {
		for _, p := range s.Plans() {
			known = append(known, p.ID)
		}
	}
	if !slices.Contains(known, id) {
		return stoa.Errorf(stoa.CodeInvalidValue, "There is no such plan. The plans are %s.", strings.Join(known, ", ")).At("plan")
	}
	return nil
}

// ListAccounts serves GET /api/v1/accounts.
func (s *Server) ListAccounts(ctx context.Context, in contract.ListAccountsRequestObject) (contract.ListAccountsResponseObject, error) {
	p, err := newPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "accounts")
	if err != nil {
		return nil, err
	}
	out := contract.ListAccounts200JSONResponse{Data: []contract.Account{}, NextCursor: noCursor()}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		list, more, err := tx.Accounts(ctx, p.page)
		for _, a := range list {
			out.Data = append(out.Data, contractAccount(a))
			out.NextCursor = p.next(more, a.CreatedAt, a.ID)
		}
		out.HasMore = more
		return err
	})
	return out, err
}

// GetAccount serves GET /api/v1/accounts/{id}.
func (s *Server) GetAccount(ctx context.Context, in contract.GetAccountRequestObject) (contract.GetAccountResponseObject, error) {
	var a stoa.Account
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		a, err = tx.Account(ctx, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := s.accountWithCredits(ctx, a)
	return contract.GetAccount200JSONResponse(c), err
}

// UpdateAccount serves PATCH /api/v1/accounts/{id}.
func (s *Server) UpdateAccount(ctx context.Context, in contract.UpdateAccountRequestObject) (contract.UpdateAccountResponseObject, error) {
	if in.Body.Plan != "" {
		if err := s.knowsPlan(in.Body.Plan); err != nil {
			return nil, err
		}
	}
	if in.Body.Suspended != nil && *in.Body.Suspended && in.ID == caller(ctx).Account.ID {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "This is the account of the key in use; suspended, it could not lift that again.").At("suspended")
	}
	var a stoa.Account
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.Account(ctx, in.ID); err != nil {
			return err
		}
		if in.Body.Name != "" {
			a.Name = in.Body.Name
		}
		patch(&a.Email, in.Body.Email, func(email string) string { return email })
		if in.Body.Plan != "" {
			a.Plan = in.Body.Plan
		}
		if in.Body.Suspended != nil {
			a.Suspended = *in.Body.Suspended
		}
		s.Keys.ForgetAfter(tx)
		return tx.UpdateAccount(ctx, a)
	})
	if err != nil {
		return nil, err
	}
	c, err := s.accountWithCredits(ctx, a)
	return contract.UpdateAccount200JSONResponse(c), err
}

// CreateGrant serves POST /api/v1/accounts/{id}/grants.
func (s *Server) CreateGrant(ctx context.Context, in contract.CreateGrantRequestObject) (contract.CreateGrantResponseObject, error) {
	return makeOnce(ctx, s, false, contract.CreateGrantResponseObject.VisitCreateGrantResponse, func(tx *store.Tx) (contract.CreateGrantResponseObject, error) {
		g, created, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{
			AccountID: in.ID, Amount: stoa.Credits(in.Body.AmountMicro), Reason: orZero(in.Body.Reason), ExternalRef: orZero(in.Body.ExternalRef),
		})
		body := contract.Grant{
			ID: g.ID, AccountID: g.AccountID, AmountMicro: int64(g.Amount), Reason: unlessZero(g.Reason), ExternalRef: unlessZero(g.ExternalRef),
			CreatedAt: contract.Time(g.CreatedAt),
		}
		if !created {
			return contract.CreateGrant200JSONResponse(body), err
		}
		return contract.CreateGrant201JSONResponse(body), err
	})
}

// CreateAccountKey serves POST /api/v1/accounts/{id}/keys. An operator hands
// out whatever that account may do; only "operator" itself has to be had.
func (s *Server) CreateAccountKey(ctx context.Context, in contract.CreateAccountKeyRequestObject) (contract.CreateAccountKeyResponseObject, error) {
	k, err := newKey(in.ID, in.Body, stoa.Key{Scopes: []string{stoa.ScopeAll}})
	if err != nil {
		return nil, err
	}
	secret := auth.Mint()
	return makeOnce(ctx, s, true, contract.CreateAccountKeyResponseObject.VisitCreateAccountKeyResponse, func(tx *store.Tx) (contract.CreateAccountKeyResponseObject, error) {
		if _, err := tx.Account(ctx, in.ID); err != nil {
			return nil, err
		}
		k, err := s.Keys.Create(ctx, tx, k, secret)
		return contract.CreateAccountKey201JSONResponse{
			Headers: contract.CreateAccountKey201ResponseHeaders{Location: prefix + "/keys/" + k.ID},
			Body:    keyWithSecret(k, secret),
		}, err
	})
}

func (s *Server) accountWithCredits(ctx context.Context, a stoa.Account) (contract.AccountWithCredits, error) {
	balance, err := s.Ledger.Balance(ctx, a.ID)
	c := contractAccount(a)
	return contract.AccountWithCredits{
		ID: c.ID, Name: c.Name, Email: c.Email, Plan: c.Plan, Suspended: c.Suspended, DefaultSpaceID: c.DefaultSpaceID, CreatedAt: c.CreatedAt,
		Credits: contractCredits(balance),
	}, err
}

func contractAccount(a stoa.Account) contract.Account {
	return contract.Account{
		ID: a.ID, Name: a.Name, Email: unlessZero(a.Email), Plan: a.Plan, Suspended: a.Suspended,
		DefaultSpaceID: unlessZero(a.DefaultSpaceID), CreatedAt: contract.Time(a.CreatedAt),
	}
}
