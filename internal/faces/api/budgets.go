package api

import (
	"context"
	"slices"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
)

func (s *Books) createBudget(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateBudget]) (rest.Reply[contract.Budget], error) {
	return s.insertBudget(ctx, tx, in.Caller.Account.ID, false, in.Body)
}

// createAccountBudget serves POST /api/v1/accounts/{id}/budgets.
func (s *Books) createAccountBudget(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateBudget]) (rest.Reply[contract.Budget], error) {
	if _, err := tx.Books().LiveAccount(ctx, in.Params.ID); err != nil {
		return rest.Reply[contract.Budget]{}, err
	}
	return s.insertBudget(ctx, tx, in.Params.ID, in.Params.ID != in.Caller.Account.ID, in.Body)
}

func (s *Books) insertBudget(ctx context.Context, tx *store.Tx, accountID string, byOperator bool, body contract.CreateBudget) (rest.Reply[contract.Budget], error) {
	b := stoa.Budget{
		AccountID: accountID, ByOperator: byOperator, Scope: stoa.BudgetScope(body.Scope), Subject: orZero(body.Subject), Period: stoa.BudgetPeriod(body.Period),
		TimeZone: orElse(orZero(body.TimeZone), "UTC"), Limit: stoa.Credits(body.LimitMicro), EffectiveAt: tx.Now.Add(s.Ledger.BudgetDelay()),
	}
	setBudget(&b, body.AtCap, body.NotifyAt)
	if _, err := stoa.LoadZone(b.TimeZone); err != nil {
		return rest.Reply[contract.Budget]{}, stoa.Errorf(stoa.CodeInvalidTimezone, "There is no time zone %q. Send an IANA name such as Europe/Vienna.", b.TimeZone).At("timeZone")
	}
	if err := s.checkSubject(ctx, tx, &b); err != nil {
		return rest.Reply[contract.Budget]{}, err
	}
	b, err := tx.Books().InsertBudget(ctx, b)
	if err != nil {
		return rest.Reply[contract.Budget]{}, err
	}
	shown, err := s.showBudget(ctx, tx, b)
	return rest.Created(rest.Prefix+"/budgets/"+b.ID, shown), err
}

// readBudget returns the account of a budget that a caller may read: any with the scope operator:read, otherwise the caller's.
func readBudget(ctx context.Context, tx *store.Tx, c stoa.Caller, id string) (accountID string, err error) {
	if c.Key.Has(stoa.ScopeOperatorRead) {
		return tx.Books().AccountOfBudget(ctx, id)
	}
	return c.Account.ID, nil
}

// changedBudget returns the account of a budget that a caller may change: any with the scope operator, otherwise one of the caller's
// account that no operator has set.
func changedBudget(ctx context.Context, tx *store.Tx, c stoa.Caller, id string) (accountID string, err error) {
	if c.Key.Has(stoa.ScopeOperator) {
		return tx.Books().AccountOfBudget(ctx, id)
	}
	b, err := tx.Books().Budget(ctx, c.Account.ID, id)
	if err == nil && b.ByOperator {
		err = stoa.Errorf(stoa.CodeScope, "The operator of this service set this budget. Ask them to change it.")
	}
	return c.Account.ID, err
}

func setBudget(b *stoa.Budget, atCap nullable.Nullable[string], notifyAt nullable.Nullable[[]int]) {
	patch(&b.AtCap, atCap, func(s string) stoa.AtCap { return stoa.AtCap(s) })
	if b.AtCap == "" {
		b.AtCap = stoa.CapShortens
	}
	patch(&b.NotifyAt, notifyAt, func(marks []int) []int { return slices.Sorted(slices.Values(marks)) })
}

// checkSubject rejects the subject of a budget if the account has no such object, and replaces a
// key by the root of its family. It does not check members, because they may have left, and embeds,
// because their links and sessions are removed with time.
func (s *Books) checkSubject(ctx context.Context, tx *store.Tx, b *stoa.Budget) error {
	switch {
	case b.Scope == stoa.BudgetOfAccount && b.Subject != "":
		return stoa.Errorf(stoa.CodeInvalidValue, "A budget of the scope account must not have a subject. Omit it.").At("subject")
	case b.Scope == stoa.BudgetOfAccount, b.Subject == stoa.EachSubject:
		return nil
	case b.Subject == "":
		return stoa.Errorf(stoa.CodeMissingParameter, `"subject" is missing. Send the id that the budget limits, or "*" to limit each one separately.`).At("subject")
	}
	var err error
	switch b.Scope {
	case stoa.BudgetOfKey:
		var k stoa.Key
		k, err = s.Keys.Get(ctx, tx, b.AccountID, b.Subject)
		b.Subject = k.Root()
	case stoa.BudgetOfAgent:
		_, err = tx.Setup().Agent(ctx, b.AccountID, b.Subject)
	}
	if code := stoa.CodeOf(err); code == stoa.CodeNotFound || code == stoa.CodeAgentNotFound {
		return stoa.Errorf(stoa.CodeInvalidValue, "This account has no such %s. Send the id of one, or \"*\" to limit each one separately.", b.Scope).At("subject")
	}
	return err
}

func (s *Books) showBudget(ctx context.Context, tx *store.Tx, b stoa.Budget) (contract.Budget, error) {
	var use billing.BudgetUse
	var err error
	if b.Subject == stoa.EachSubject {
		use.Starts, use.Ends, err = billing.CurrentWindow(b, tx.Now)
	} else {
		use, err = s.Ledger.BudgetUse(ctx, tx, b, b.Subject)
	}
	return contractBudget(b, use), err
}

func contractBudget(b stoa.Budget, use billing.BudgetUse) contract.Budget {
	micro := func(c stoa.Credits) nullable.Nullable[int64] {
		return nullUnless(b.Subject != stoa.EachSubject, int64(c))
	}
	return contract.Budget{
		ID: b.ID, Scope: string(b.Scope), Subject: nullIfZero(b.Subject), Period: string(b.Period), TimeZone: b.TimeZone,
		LimitMicro: int64(b.Limit), AtCap: string(b.AtCap), NotifyAt: append([]int{}, b.NotifyAt...), SetByOperator: b.ByOperator, EffectiveAt: contract.Time(b.EffectiveAt),
		StartsAt: nullIfNever(use.Starts), ResetsAt: nullIfNever(use.Ends),
		SpentMicro: micro(use.Spent), HeldMicro: micro(use.Held), OpeningMicro: micro(use.Opening),
		CreatedAt: contract.Time(b.CreatedAt), UpdatedAt: contract.Time(b.UpdatedAt),
	}
}

func (s *Books) listBudgets(ctx context.Context, in rest.Request[contract.ListBudgetsParams, rest.None]) (rest.Reply[rest.Page[contract.Budget]], error) {
	return s.budgetsOf(ctx, in.Caller.Account.ID, in.Params)
}

// listAccountBudgets serves GET /api/v1/accounts/{id}/budgets.
func (s *Books) listAccountBudgets(ctx context.Context, in rest.Request[idAnd[contract.ListAccountBudgetsParams], rest.None]) (rest.Reply[rest.Page[contract.Budget]], error) {
	if err := s.Store.Read(ctx, func(tx *store.Tx) error {
		_, err := tx.Books().LiveAccount(ctx, in.Params.ID)
		return err
	}); err != nil {
		return rest.Reply[rest.Page[contract.Budget]]{}, err
	}
	return s.budgetsOf(ctx, in.Params.ID, contract.ListBudgetsParams(in.Params.Query))
}

func (s *Books) budgetsOf(ctx context.Context, accountID string, q contract.ListBudgetsParams) (rest.Reply[rest.Page[contract.Budget]], error) {
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "budgets", accountID, q.Q)
	n := namesOf(accountID)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]shownBudget, store.Cursor, error) {
		all, next, err := tx.Books().Budgets(ctx, accountID, q.Q, p.Page)
		shown := make([]shownBudget, len(all))
		for i, b := range all {
			if err != nil {
				break
			}
			shown[i].row = b
			shown[i].shown, err = s.showBudget(ctx, tx, b)
			n.add(namedSubjects[b.Scope], b.Subject)
		}
		return shown, next, n.read(ctx, tx, err)
	}, func(b shownBudget) contract.Budget {
		b.shown.SubjectName = n.of(namedSubjects[b.row.Scope], b.row.Subject)
		return b.shown
	})
}

var namedSubjects = map[stoa.BudgetScope]string{stoa.BudgetOfMember: store.NamedMembers, stoa.BudgetOfKey: store.NamedKeys, stoa.BudgetOfAgent: store.NamedAgents}

type shownBudget struct {
	row   stoa.Budget
	shown contract.Budget
}

func (s *Books) getBudget(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Budget], error) {
	accountID, err := readBudget(ctx, tx, in.Caller, in.Params.ID)
	if err != nil {
		return rest.Reply[contract.Budget]{}, err
	}
	b, err := tx.Books().Budget(ctx, accountID, in.Params.ID)
	if err != nil {
		return rest.Reply[contract.Budget]{}, err
	}
	shown, err := s.showBudget(ctx, tx, b)
	return rest.Reply[contract.Budget]{Body: shown}, err
}

func (s *Books) updateBudget(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.UpdateBudget]) (rest.Reply[contract.Budget], error) {
	accountID, err := changedBudget(ctx, tx, in.Caller, in.Params.ID)
	if err != nil {
		return rest.Reply[contract.Budget]{}, err
	}
	b, err := tx.Books().EditBudget(ctx, accountID, in.Params.ID, func(b *stoa.Budget) error {
		if in.Body.LimitMicro > 0 {
			b.Limit = stoa.Credits(in.Body.LimitMicro)
		}
		setBudget(b, in.Body.AtCap, in.Body.NotifyAt)
		return nil
	})
	if err != nil {
		return rest.Reply[contract.Budget]{}, err
	}
	shown, err := s.showBudget(ctx, tx, b)
	return rest.Reply[contract.Budget]{Body: shown}, err
}

// windowBatch limits the windows that one transaction removes, so that others do not wait long for it.
const windowBatch = 500

func (s *Books) deleteBudget(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[rest.None], error) {
	accountID, err := store.Write(ctx, s.Store, func(tx *store.Tx) (string, error) {
		accountID, err := changedBudget(ctx, tx, in.Caller, in.Params.ID)
		if err != nil {
			return "", err
		}
		return accountID, tx.Books().DeleteBudget(ctx, accountID, in.Params.ID)
	})
	if err != nil {
		return rest.NoContent(), err
	}
	for n := int64(windowBatch); n == windowBatch; {
		var err error
		if n, err = store.Write(ctx, s.Store, func(tx *store.Tx) (int64, error) { return tx.Books().PurgeDeletedBudgets(ctx, accountID, windowBatch) }); err != nil {
			return rest.NoContent(), err
		}
	}
	return rest.NoContent(), nil
}

func (s *Books) listBudgetWindows(ctx context.Context, in rest.Request[idAnd[contract.ListBudgetWindowsParams], rest.None]) (rest.Reply[rest.Page[contract.BudgetWindow]], error) {
	q := in.Params.Query
	accountID, err := store.Read(ctx, s.Store, func(tx *store.Tx) (string, error) { return readBudget(ctx, tx, in.Caller, in.Params.ID) })
	if err != nil {
		return rest.Reply[rest.Page[contract.BudgetWindow]]{}, err
	}
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "budget windows", accountID, in.Params.ID)
	n, kind := namesOf(accountID), ""
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]shownWindow, bool, error) {
		b, err := tx.Books().Budget(ctx, accountID, in.Params.ID)
		if err != nil {
			return nil, false, err
		}
		kind = namedSubjects[b.Scope]
		all, more, err := tx.Books().BudgetWindows(ctx, accountID, in.Params.ID, tx.Now, p.Page)
		shown := make([]shownWindow, len(all))
		for i, w := range all {
			if err != nil {
				break
			}
			var held stoa.Credits
			held, err = s.Ledger.HeldOf(ctx, tx, w)
			n.add(kind, w.Subject)
			shown[i] = shownWindow{w, contract.BudgetWindow{
				Subject: nullIfZero(w.Subject), StartsAt: nullIfNever(w.StartsAt), ResetsAt: nullIfNever(w.EndsAt),
				LimitMicro: int64(b.Limit), SpentMicro: int64(w.Used()), HeldMicro: int64(held), OpeningMicro: int64(w.Opening),
			}}
		}
		return shown, more, n.read(ctx, tx, err)
	}, func(w shownWindow) contract.BudgetWindow {
		w.shown.SubjectName = n.of(kind, w.row.Subject)
		return w.shown
	}, func(w shownWindow) store.Cursor { return store.Cursor{At: w.row.CreatedAt, ID: w.row.ID} })
}

type shownWindow struct {
	row   store.BudgetWindow
	shown contract.BudgetWindow
}
