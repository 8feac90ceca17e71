package api

import (
	"context"
	"strings"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Books) getCredits(ctx context.Context, in rest.Request[rest.None, rest.None]) (rest.Reply[contract.Credits], error) {
	balance, err := s.Ledger.Balance(ctx, in.Caller.Account.ID)
	return rest.Reply[contract.Credits]{Body: contractCredits(balance)}, err
}

func contractCredits(b stoa.Balance) contract.Credits {
	return contract.Credits{
		AvailableMicro: int64(b.Available), HeldMicro: int64(b.Held), GrantedMicro: int64(b.Granted), SpentMicro: int64(b.Spent),
		OwedMicro: int64(b.Owed),
	}
}

func (s *Books) listLedger(ctx context.Context, in rest.Request[contract.ListLedgerParams, rest.None]) (rest.Reply[rest.Page[contract.LedgerEntry]], error) {
	accountID, err := s.requestedAccount(ctx, in.Caller, in.Params.AccountID)
	if err != nil {
		return rest.Reply[rest.Page[contract.LedgerEntry]]{}, err
	}
	p := rest.NewPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "ledger", accountID)
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]store.Entry, bool, error) {
		return tx.Books().Entries(ctx, accountID, p.Page)
	}, contractEntry, func(e store.Entry) store.Cursor { return store.Cursor{At: e.CreatedAt, ID: e.ID} })
}

func contractEntry(e store.Entry) contract.LedgerEntry {
	kind := string(e.Kind)
	if e.Kind == store.EntryGrant && e.Effect < 0 {
		kind = "adjust"
	}
	return contract.LedgerEntry{
		ID: e.ID, Type: kind, AmountMicro: int64(e.Effect), Ref: nullIfZero(e.Ref), Reason: nullIfZero(e.Reason), CreatedAt: contract.Time(e.CreatedAt),
	}
}

func (s *Books) listReceipts(ctx context.Context, in rest.Request[contract.ListReceiptsParams, rest.None]) (rest.Reply[rest.Page[contract.Receipt]], error) {
	q := in.Params
	accountID, err := s.receiptsOf(ctx, in.Caller, q)
	if err != nil {
		return rest.Reply[rest.Page[contract.Receipt]]{}, err
	}
	n := namesOf(accountID)
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "receipts", accountID, q.Model, q.KeyID, q.AgentID, q.SpaceID, q.SessionID, q.EndUser, q.From.String(), q.To.String())
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]store.Receipt, store.Cursor, error) {
		read := tx.Books().Receipts
		if accountID == "" {
			read = func(ctx context.Context, _ string, f store.ReceiptFilter, p store.Page) ([]store.Receipt, store.Cursor, error) {
				return tx.Books().ReceiptsOfAll(ctx, f, p)
			}
		}
		list, next, err := read(ctx, accountID, receiptFilter(q), p.Page)
		for _, r := range list {
			n.addOfReceipt(r)
			if accountID == "" {
				n.add(store.NamedAccounts, r.AccountID)
			}
		}
		return list, next, n.read(ctx, tx, err)
	}, func(r store.Receipt) contract.Receipt {
		out := n.receipt(r)
		if accountID == "" {
			out.AccountID, out.AccountName = r.AccountID, n.of(store.NamedAccounts, r.AccountID)
		}
		return out
	})
}

// receiptsOf returns the account whose receipts the caller lists; empty means all.
func (s *Books) receiptsOf(ctx context.Context, c stoa.Caller, q contract.ListReceiptsParams) (string, error) {
	if q.AccountID != allAccounts || !c.Key.Has(stoa.ScopeOperatorRead) {
		return s.requestedAccount(ctx, c, q.AccountID)
	}
	for _, f := range []struct{ name, value string }{{"agentId", q.AgentID}, {"spaceId", q.SpaceID}, {"sessionId", q.SessionID}, {"endUser", q.EndUser}} {
		if f.value != "" {
			return "", stoa.Errorf(stoa.CodeInvalidValue, "%q is a filter within one account: name it in \"accountId\".", f.name).At(f.name)
		}
	}
	return "", nil
}

func receiptFilter(q contract.ListReceiptsParams) store.ReceiptFilter {
	return store.ReceiptFilter{
		Served: q.Model, KeyID: q.KeyID, AgentID: q.AgentID, SpaceID: q.SpaceID, SessionID: q.SessionID, EndUser: q.EndUser,
		From: q.From.Time(), To: q.To.Time(),
	}
}

func (n *names) addOfReceipt(r store.Receipt) {
	n.add(store.NamedKeys, r.KeyID)
	n.add(store.NamedAgents, r.AgentID)
}

func (n *names) receipt(r store.Receipt) contract.Receipt {
	out := contractReceipt(r)
	out.KeyName, out.AgentName = n.of(store.NamedKeys, r.KeyID), n.of(store.NamedAgents, r.AgentID)
	return out
}

func (s *Books) getReceiptSummary(ctx context.Context, in rest.Request[contract.GetReceiptSummaryParams, rest.None]) (rest.Reply[contract.UsageSums], error) {
	q := extend[contract.ListReceiptsParams](in.Params)
	accountID, err := s.receiptsOf(ctx, in.Caller, q)
	if err != nil {
		return rest.Reply[contract.UsageSums]{}, err
	}
	filter := receiptFilter(q)
	filter.All = accountID == ""
	u, err := report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) (store.UsageRow, error) {
		return tx.Books().SumReceipts(ctx, accountID, filter)
	})
	return rest.Reply[contract.UsageSums]{Body: usageSums(u)}, err
}

func (s *Books) getReceipt(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Receipt], error) {
	n := namesOf(in.Caller.Account.ID)
	r, err := tx.Books().Receipt(ctx, in.Caller.Account.ID, in.Params.ID)
	n.addOfReceipt(r)
	err = n.read(ctx, tx, err)
	return rest.Reply[contract.Receipt]{Body: n.receipt(r)}, err
}

func contractReceipt(r store.Receipt) contract.Receipt {
	return contract.Receipt{
		ID:    r.ID,
		Model: contract.ReceiptModel{Requested: r.Asked, Served: r.Served, FallbackReason: nullIfZero(r.Reason)},
		Route: contract.ReceiptRoute{Provider: r.Provider, Key: nullIfZero(r.RouteKey), Reason: nullIfZero(string(r.Route))},
		Usage: contract.ReceiptUsage{
			InputTokens: r.Usage.InputTokens, CachedInputTokens: r.Usage.CachedTokens, CacheWriteTokens: r.Usage.CacheWriteTokens,
			CacheWriteLongTokens: r.Usage.CacheWriteLongTokens,
			OutputTokens:         r.Usage.OutputTokens, ReasoningTokens: r.Usage.ReasoningTokens, TotalTokens: r.Usage.Total(),
		},
		Price:        contractPrice(r.Price),
		Cache:        contract.ReceiptCache{Marks: nullIfZero(string(r.MarkedBy)), SavedMicro: int64(r.Price.Saved(r.Usage)), Broke: nullIfZero(string(r.Broke))},
		CreditsMicro: int64(r.Amount), Estimated: r.Estimated, Clamped: r.Clamped, Capped: r.Capped, WrittenOffMicro: int64(r.WrittenOff),
		Status: r.State, KeyID: r.KeyID,
		EndUser: nullIfZero(r.EndUser), SpaceID: nullIfZero(r.SpaceID), AgentID: nullIfZero(r.AgentID), SessionID: nullIfZero(r.SessionID),
		MemberID: nullIfZero(r.MemberID), EmbedID: nullIfZero(r.EmbedID),
		StartedAt: contract.Time(r.StartedAt), TimeToFirstTokenMilliseconds: nullIfZero(milliseconds(r.FirstToken)),
		DurationMilliseconds: milliseconds(r.Duration), Adjustments: r.Adjustments.Names(), Ignored: lines(r.Ignored), CreatedAt: contract.Time(r.CreatedAt),
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func contractPrice(p stoa.Price) contract.Price {
	return contract.Price{
		InputMicroPerMillion: int64(p.Input), CachedInputMicroPerMillion: int64(p.CachedInput),
		CacheWriteMicroPerMillion: int64(p.CacheWrite), CacheWriteLongMicroPerMillion: int64(p.CacheWriteLong),
		OutputMicroPerMillion: int64(p.Output), Version: p.Version, Band: nullIfZero(p.Band),
	}
}

func contractTariff(t *stoa.Tariff) contract.Price {
	return contract.Price{
		InputMicroPerMillion: int64(t.Input), CachedInputMicroPerMillion: int64(t.CachedInput),
		CacheWriteMicroPerMillion: int64(t.CacheWrite), CacheWriteLongMicroPerMillion: int64(t.CacheWriteLong),
		OutputMicroPerMillion: int64(t.Output), Version: t.Version, Above: contractLongInput(t.Above), Hours: contractHours(t.Hours),
	}
}

func contractLongInput(a *stoa.LongInput) contract.LongInput {
	if a == nil {
		return contract.LongInput{}
	}
	return contract.LongInput{Tokens: a.Tokens, Input: a.Input, Output: a.Output}
}

func contractHours(hours []stoa.PriceHours) (list []contract.PriceHours) {
	for _, h := range hours {
		list = append(list, contract.PriceHours{Zone: h.Zone, Days: h.Days, From: h.From, To: h.To, Factor: h.Factor})
	}
	return list
}

// milliseconds rounds up, so that a positive duration is never shown as 0.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
