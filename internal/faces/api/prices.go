package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
)

func (s *Providers) previewPrices(ctx context.Context, in rest.Request[rest.None, contract.PreviewPrices]) (rest.Reply[contract.PricesPreview], error) {
	var reply rest.Reply[contract.PricesPreview]
	month, ok := stoa.ParseMonth(in.Body.Month)
	if !ok || month > stoa.MonthOf(time.Now()) {
		return reply, stoa.Errorf(stoa.CodeInvalidValue, "Use a month such as %s that is not in the future.", stoa.MonthOf(time.Now())).At("month")
	}
	settings := in.Body.Settings
	if len(settings) == 0 {
		settings = []byte("{}")
	}
	cat, err := s.Managed.Priced(settings)
	if err != nil {
		return reply, err
	}
	by := orZero(in.Body.GroupBy)
	if len(by) == 0 {
		by = []string{"model"}
	}
	groups := store.PreviewGroups{Account: slices.Contains(by, "account"), Model: slices.Contains(by, "model"), Plan: slices.Contains(by, "plan")}
	price := pricing(cat, s.Catalog.Load())
	rows, err := report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) ([]store.PreviewRow, error) {
		return tx.Books().PreviewCharges(ctx, month, groups, price)
	})
	if err != nil {
		return reply, err
	}
	slices.SortFunc(rows, func(a, b store.PreviewRow) int {
		return cmp.Or(cmp.Compare(a.AccountName, b.AccountName), cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Model, b.Model))
	})
	out := contract.PricesPreview{Month: string(month), GroupBy: by, Data: []contract.PricesPreviewRow{}}
	for _, r := range rows {
		row := contract.PricesPreviewRow{
			AccountID: r.AccountID, AccountName: r.AccountName, Plan: r.Plan, Model: r.Model,
			Calls: r.Calls, ChargedMicro: int64(r.Charged), NewMicro: int64(r.New), DifferenceMicro: int64(r.New - r.Charged),
		}
		out.Data = append(out.Data, row)
		t := &out.Totals
		t.Calls, t.ChargedMicro, t.NewMicro, t.DifferenceMicro = t.Calls+row.Calls, t.ChargedMicro+row.ChargedMicro, t.NewMicro+row.NewMicro, t.DifferenceMicro+row.DifferenceMicro
	}
	reply.Body = out
	return reply, nil
}

// pricing returns the function that computes what a call costs with the prices of a catalog, or of present if it
// has no such model. A call of a model that neither has costs what was charged.
func pricing(cat, present *catalog.Catalog) func(stoa.Charge) stoa.Credits {
	model := func(id string) (stoa.Model, bool) {
		if m, ok := cat.Model(id); ok {
			return m, true
		}
		return present.Model(id)
	}
	return func(c stoa.Charge) stoa.Credits {
		served, ok := model(c.Served)
		if !ok {
			return c.Amount
		}
		// The request to the vendor began at most seconds after the call.
		price := served.Price.At(c.Usage.InputTokens, c.StartedAt)
		amount := price.Cost(c.Usage)
		if asked, ok := model(cat.Identifier(c.Asked)); ok && asked.ID != served.ID {
			amount, _ = price.Charge(c.Usage, asked.Price.At(c.Usage.InputTokens, c.StartedAt))
		}
		if c.Clamped {
			amount = min(amount, c.Amount)
		}
		return amount
	}
}
