package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

const (
	defaultPlan  = "free"
	firstKeyName = "first key"
)

// createAccount serves POST /api/v1/accounts.
func (s *Server) createAccount(ctx context.Context, tx *store.Tx, in Request[none, contract.CreateAccount]) (Reply[contract.AccountWithKey], error) {
	var reply Reply[contract.AccountWithKey]
	plan := orElse(orZero(in.Body.Plan), defaultPlan)
	if err := s.knowsPlan(plan); err != nil {
		return reply, err
	}
	a, err := tx.InsertAccount(ctx, stoa.Account{Name: in.Body.Name, Email: orZero(in.Body.Email), Plan: plan})
	if err != nil {
		return reply, err
	}
	space, err := tx.DefaultSpace(ctx, a.ID)
	if err != nil {
		return reply, err
	}
	a.DefaultSpaceID = space.ID
	amount := stoa.Credits(orZero(in.Body.GrantMicro))
	if amount > 0 {
		if _, _, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{AccountID: a.ID, Amount: amount, Reason: "first grant"}); err != nil {
			return reply, err
		}
	}
	key, err := s.insertKey(ctx, tx, in.Caller.Key, stoa.Key{AccountID: a.ID, Name: firstKeyName, Scopes: []string{stoa.ScopeAll}})
	c := contractAccount(a)
	reply = created(prefix+"/accounts/"+a.ID, contract.AccountWithKey{
		ID: c.ID, Name: c.Name, Email: c.Email, Plan: c.Plan, Suspended: c.Suspended, DefaultSpaceID: c.DefaultSpaceID, CreatedAt: c.CreatedAt,
		Credits: contractCredits(stoa.Balance{Available: amount, Granted: amount}), Key: key.Body,
	})
	reply.Secret = true
	return reply, err
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

// listAccounts serves GET /api/v1/accounts.
func (s *Server) listAccounts(ctx context.Context, in Request[contract.ListAccountsParams, none]) (Reply[page[contract.Account]], error) {
	p, err := newPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "accounts")
	if err != nil {
		return Reply[page[contract.Account]]{}, err
	}
	return readPage(ctx, s, p, func(tx *store.Tx) ([]stoa.Account, bool, error) {
		return tx.Accounts(ctx, p.page)
	}, contractAccount, func(a stoa.Account) place { return place{a.CreatedAt, a.ID} })
}

// getAccount serves GET /api/v1/accounts/{id}.
func (s *Server) getAccount(ctx context.Context, in Request[byID, none]) (Reply[contract.AccountWithCredits], error) {
	a, err := read(ctx, s, func(tx *store.Tx) (stoa.Account, error) { return tx.Account(ctx, in.Params.ID) })
	if err != nil {
		return Reply[contract.AccountWithCredits]{}, err
	}
	return s.accountWithCredits(ctx, a)
}

// updateAccount serves PATCH /api/v1/accounts/{id}.
func (s *Server) updateAccount(ctx context.Context, in Request[byID, contract.UpdateAccount]) (Reply[contract.AccountWithCredits], error) {
	b := in.Body
	if b.Plan != "" {
		if err := s.knowsPlan(b.Plan); err != nil {
			return Reply[contract.AccountWithCredits]{}, err
		}
	}
	if b.Suspended != nil && *b.Suspended && in.Params.ID == in.Caller.Account.ID {
		return Reply[contract.AccountWithCredits]{}, stoa.Errorf(stoa.CodeInvalidValue, "This is the account of the key in use; suspended, it could not lift that again.").At("suspended")
	}
	a, err := write(ctx, s, func(tx *store.Tx) (stoa.Account, error) {
		a, err := tx.Account(ctx, in.Params.ID)
		if err != nil {
			return a, err
		}
		if b.Name != "" {
			a.Name = b.Name
		}
		patch(&a.Email, b.Email, same)
		if b.Plan != "" {
			a.Plan = b.Plan
		}
		if b.Suspended != nil {
			a.Suspended = *b.Suspended
		}
		s.Keys.ForgetAfter(tx)
		return a, tx.UpdateAccount(ctx, a)
	})
	if err != nil {
		return Reply[contract.AccountWithCredits]{}, err
	}
	return s.accountWithCredits(ctx, a)
}

// createGrant serves POST /api/v1/accounts/{id}/grants.
func (s *Server) createGrant(ctx context.Context, tx *store.Tx, in Request[byID, contract.CreateGrant]) (Reply[contract.Grant], error) {
	g, isNew, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{
		AccountID: in.Params.ID, Amount: stoa.Credits(in.Body.AmountMicro), Reason: orZero(in.Body.Reason), ExternalRef: orZero(in.Body.ExternalRef),
	})
	reply := Reply[contract.Grant]{Body: contract.Grant{
		ID: g.ID, AccountID: g.AccountID, AmountMicro: int64(g.Amount), Reason: unlessZero(g.Reason), ExternalRef: unlessZero(g.ExternalRef),
		CreatedAt: contract.Time(g.CreatedAt),
	}}
	if isNew {
		reply.Status = http.StatusCreated
	}
	return reply, err
}

// createAccountKey serves POST /api/v1/accounts/{id}/keys. An operator hands
// out whatever that account may do; only the scope "operator" itself is not
// passed on by default. For a key of the operator's own account, or with that
// scope, the rules of [auth.Within] hold.
func (s *Server) createAccountKey(ctx context.Context, tx *store.Tx, in Request[byID, contract.CreateKey]) (Reply[contract.KeyWithSecret], error) {
	from := stoa.Key{Scopes: []string{stoa.ScopeAll}}
	if in.Params.ID == in.Caller.Account.ID {
		from = in.Caller.Key
	}
	k, err := newKey(in.Params.ID, &in.Body, from)
	if err != nil {
		return Reply[contract.KeyWithSecret]{}, err
	}
	if _, err := tx.Account(ctx, in.Params.ID); err != nil {
		return Reply[contract.KeyWithSecret]{}, err
	}
	return s.insertKey(ctx, tx, in.Caller.Key, k)
}

func (s *Server) accountWithCredits(ctx context.Context, a stoa.Account) (Reply[contract.AccountWithCredits], error) {
	balance, err := s.Ledger.Balance(ctx, a.ID)
	c := contractAccount(a)
	return Reply[contract.AccountWithCredits]{Body: contract.AccountWithCredits{
		ID: c.ID, Name: c.Name, Email: c.Email, Plan: c.Plan, Suspended: c.Suspended, DefaultSpaceID: c.DefaultSpaceID, CreatedAt: c.CreatedAt,
		Credits: contractCredits(balance),
	}}, err
}

func contractAccount(a stoa.Account) contract.Account {
	return contract.Account{
		ID: a.ID, Name: a.Name, Email: unlessZero(a.Email), Plan: a.Plan, Suspended: a.Suspended,
		DefaultSpaceID: unlessZero(a.DefaultSpaceID), CreatedAt: contract.Time(a.CreatedAt),
	}
}
