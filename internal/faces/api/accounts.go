package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	defaultPlan  = "free"
	firstKeyName = "first key"
)

func (s *People) createAccount(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateAccount]) (rest.Reply[contract.AccountWithKey], error) {
	var reply rest.Reply[contract.AccountWithKey]
	plan := orElse(orZero(in.Body.Plan), defaultPlan)
	if err := s.checkPlanExists(plan); err != nil {
		return reply, err
	}
	a, err := s.newAccount(ctx, tx, stoa.Account{Name: in.Body.Name, Email: orZero(in.Body.Email), Plan: plan}, stoa.Credits(orZero(in.Body.GrantMicro)), "")
	if err != nil {
		return reply, err
	}
	funds, err := tx.Books().Funds(ctx, a.ID)
	if err != nil {
		return reply, err
	}
	key, err := s.insertKey(ctx, tx, in.Caller.Key, stoa.Key{AccountID: a.ID, Name: firstKeyName, Scopes: []string{stoa.ScopeAll}})
	body := extend[contract.AccountWithKey](contractAccount(store.AccountRow{Account: a}, s.Ledger.BalanceOf(a.ID, funds)))
	body.Key = key.Body
	reply = rest.Created(rest.Prefix+"/accounts/"+a.ID, body)
	reply.Secret = true
	return reply, err
}

// newAccount inserts an account with its space and its first credits. ref is the reference of their
// grant; it may be empty.
func (s *People) newAccount(ctx context.Context, tx *store.Tx, a stoa.Account, amount stoa.Credits, ref string) (stoa.Account, error) {
	a, err := tx.Books().InsertAccount(ctx, a)
	if err != nil {
		return a, err
	}
	space, err := tx.Setup().DefaultSpace(ctx, a.ID)
	if err != nil {
		return a, err
	}
	a.DefaultSpaceID = space.ID
	if amount > 0 {
		if _, _, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{AccountID: a.ID, Amount: amount, Reason: "first grant", ExternalRef: ref}); err != nil {
			return a, err
		}
	}
	return a, s.grantPlan(ctx, tx, a)
}

// grantPlan grants the credits that the plan of an account includes for the present month. It grants nothing to a
// suspended account, or to one that got them before.
func (s *People) grantPlan(ctx context.Context, tx *store.Tx, a stoa.Account) error {
	if s.Plans == nil || a.Suspended {
		return nil
	}
	for _, p := range s.Plans() {
		if p.ID == a.Plan {
			return s.Ledger.GrantPlanIn(ctx, tx, a.ID, p, tx.Now)
		}
	}
	return nil
}

func (s *People) checkPlanExists(id string) error {
	var known []string
	if s.Plans != nil {
		for _, p := range s.Plans() {
			known = append(known, p.ID)
		}
	}
	if !slices.Contains(known, id) {
		return stoa.Errorf(stoa.CodeInvalidValue, "Unknown plan. The plans are %s.", strings.Join(known, ", ")).At("plan")
	}
	return nil
}

func (s *People) listAccounts(ctx context.Context, in rest.Request[contract.ListAccountsParams, rest.None]) (rest.Reply[rest.Page[contract.Account]], error) {
	q := in.Params
	p := rest.NewSortedPager(q.Limit, q.Cursor, string(q.Sort), string(q.Order), "accounts", q.Q, strconv.FormatInt(q.UnspentBelowMicro, 10))
	filter := store.AccountFilter{Text: q.Q, Below: stoa.Credits(q.UnspentBelowMicro)}
	var byDay map[string][]int64
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]store.AccountRow, store.Cursor, error) {
		rows, next, err := tx.Books().Accounts(ctx, filter, p.Page)
		if err == nil {
			byDay, err = tx.Books().SpentByDay(ctx, rows)
		}
		return rows, next, err
	}, func(a store.AccountRow) contract.Account {
		out := contractAccount(a, s.Ledger.BalanceOf(a.ID, a.Funds))
		out.SpentByDayMicro = byDay[a.ID]
		return out
	})
}

func (s *core) requestedAccount(ctx context.Context, c stoa.Caller, asked string) (string, error) {
	switch {
	case asked == "" || asked == c.Account.ID:
		return c.Account.ID, nil
	case !c.Key.Has(stoa.ScopeOperatorRead):
		return "", stoa.Errorf(stoa.CodeScope, "Reading other accounts requires a key with the scope %q. Omit \"accountId\" for your own account.", stoa.ScopeOperatorRead).At("accountId")
	}
	_, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Account, error) { return tx.Books().Account(ctx, asked) })
	if stoa.CodeOf(err) == stoa.CodeNotFound {
		err = stoa.Errorf(stoa.CodeInvalidValue, "There is no account %q. Use an id from GET /api/v1/accounts.", rest.ShortName(asked)).At("accountId")
	}
	return asked, err
}

func (s *People) getAccount(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.AccountWithCredits], error) {
	return s.accountWithCredits(ctx, in.Params.ID)
}

func (s *People) updateAccount(ctx context.Context, in rest.Request[byID, contract.UpdateAccount]) (rest.Reply[contract.AccountWithCredits], error) {
	b := in.Body
	if err := mayUpdateAccount(in.Caller.Key, &b); err != nil {
		return rest.Reply[contract.AccountWithCredits]{}, err
	}
	if b.Plan != "" {
		if err := s.checkPlanExists(b.Plan); err != nil {
			return rest.Reply[contract.AccountWithCredits]{}, err
		}
	}
	if b.Suspended != nil && *b.Suspended && in.Params.ID == in.Caller.Account.ID {
		return rest.Reply[contract.AccountWithCredits]{}, stoa.Errorf(stoa.CodeInvalidValue, "This is the account of the key in use; a suspended account could not resume itself.").At("suspended")
	}
	_, err := store.Write(ctx, s.Store, func(tx *store.Tx) (stoa.Account, error) {
		a, err := tx.Books().LiveAccount(ctx, in.Params.ID)
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
		if err := tx.Books().UpdateAccount(ctx, a); err != nil {
			return a, err
		}
		return a, s.grantPlan(ctx, tx, a)
	})
	if err != nil {
		return rest.Reply[contract.AccountWithCredits]{}, err
	}
	return s.accountWithCredits(ctx, in.Params.ID)
}

func mayUpdateAccount(k stoa.Key, b *contract.UpdateAccount) error {
	param := ""
	switch {
	case k.Has(stoa.ScopeOperator):
	case b.Name != "":
		param = "name"
	case b.Email.IsSpecified():
		param = "email"
	case b.Suspended != nil:
		param = "suspended"
	}
	if param == "" {
		return nil
	}
	return stoa.Errorf(stoa.CodeScope, "Changing %q requires a key with the scope %q; yours can change the plan.", param, stoa.ScopeOperator).At(param)
}

func (s *People) createGrant(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateGrant]) (rest.Reply[contract.Grant], error) {
	if _, err := tx.Books().LiveAccount(ctx, in.Params.ID); err != nil {
		return rest.Reply[contract.Grant]{}, err
	}
	g, isNew, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{
		AccountID: in.Params.ID, Amount: stoa.Credits(in.Body.AmountMicro), Reason: orZero(in.Body.Reason), ExternalRef: orZero(in.Body.ExternalRef),
	})
	reply := rest.Reply[contract.Grant]{Body: contract.Grant{
		ID: g.ID, AccountID: g.AccountID, AmountMicro: int64(g.Amount), Reason: nullIfZero(g.Reason), ExternalRef: nullIfZero(g.ExternalRef),
		CreatedAt: contract.Time(g.CreatedAt),
	}}
	if isNew {
		reply.Status = http.StatusCreated
	}
	return reply, err
}

// createWithdrawal serves POST /api/v1/accounts/{id}/withdrawals. It does not run in the transaction of an
// idempotency key, because leases must return their credits first; the externalRef makes it safe to repeat.
func (s *People) createWithdrawal(ctx context.Context, in rest.Request[byID, contract.CreateWithdrawal]) (rest.Reply[contract.Withdrawal], error) {
	if err := s.Store.Read(ctx, func(tx *store.Tx) error {
		_, err := tx.Books().LiveAccount(ctx, in.Params.ID)
		return err
	}); err != nil {
		return rest.Reply[contract.Withdrawal]{}, err
	}
	w, isNew, err := s.Ledger.Withdraw(ctx, stoa.Withdrawal{
		AccountID: in.Params.ID, Amount: stoa.Credits(in.Body.AmountMicro), Reason: orZero(in.Body.Reason), ExternalRef: in.Body.ExternalRef, Kind: stoa.Withdrawn,
	}, true, nil)
	reply := rest.Reply[contract.Withdrawal]{Body: contract.Withdrawal{
		ID: w.ID, AccountID: w.AccountID, AmountMicro: int64(w.Amount), TakenMicro: int64(w.Taken), OwedMicro: int64(w.Owed()),
		Reason: nullIfZero(w.Reason), ExternalRef: w.ExternalRef, CreatedAt: contract.Time(w.CreatedAt),
	}}
	if isNew {
		reply.Status = http.StatusCreated
	}
	return reply, err
}

// createAccountKey serves POST /api/v1/accounts/{id}/keys. An operator can grant every permission
// of that account; only the scope "operator" is not granted by default. The rules of [auth.Within]
// apply to a key of the operator's own account, or with that scope.
func (s *People) createAccountKey(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateKey]) (rest.Reply[contract.KeyWithSecret], error) {
	from := stoa.Key{Scopes: []string{stoa.ScopeAll}}
	if in.Params.ID == in.Caller.Account.ID {
		from = in.Caller.Key
	}
	k, err := newKey(in.Params.ID, &in.Body, from)
	if err != nil {
		return rest.Reply[contract.KeyWithSecret]{}, err
	}
	if _, err := tx.Books().LiveAccount(ctx, in.Params.ID); err != nil {
		return rest.Reply[contract.KeyWithSecret]{}, err
	}
	return s.insertKey(ctx, tx, in.Caller.Key, k)
}

func (s *People) accountWithCredits(ctx context.Context, id string) (rest.Reply[contract.AccountWithCredits], error) {
	balance, err := s.Ledger.Balance(ctx, id)
	if err != nil {
		return rest.Reply[contract.AccountWithCredits]{}, err
	}
	a, err := store.Read(ctx, s.Store, func(tx *store.Tx) (store.AccountRow, error) { return tx.Books().AccountRow(ctx, id) })
	return rest.Reply[contract.AccountWithCredits]{Body: extend[contract.AccountWithCredits](contractAccount(a, balance))}, err
}

func contractAccount(a store.AccountRow, b stoa.Balance) contract.Account {
	return contract.Account{
		ID: a.ID, Name: a.Name, Email: nullIfZero(a.Email), Plan: a.Plan, Suspended: a.Suspended,
		DefaultSpaceID: nullIfZero(a.DefaultSpaceID), CreatedAt: contract.Time(a.CreatedAt),
		Credits: contractCredits(b), SpentLast30DaysMicro: int64(a.Spent), LastUsedAt: nullIfNever(a.LastUsed),
	}
}
