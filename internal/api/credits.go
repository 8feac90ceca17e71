package api

import (
	"context"
	"time"

	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// GetCredits serves GET /api/v1/credits.
func (s *Server) GetCredits(ctx context.Context, _ contract.GetCreditsRequestObject) (contract.GetCreditsResponseObject, error) {
	balance, err := s.Ledger.Balance(ctx, caller(ctx).Account.ID)
	return contract.GetCredits200JSONResponse(contractCredits(balance)), err
}

func contractCredits(b stoa.Balance) contract.Credits {
	return contract.Credits{
		AvailableMicro: int64(b.Available), HeldMicro: int64(b.Held), GrantedMicro: int64(b.Granted), SpentMicro: int64(b.Spent),
	}
}

// ListLedger serves GET /api/v1/credits/ledger.
func (s *Server) ListLedger(ctx context.Context, in contract.ListLedgerRequestObject) (contract.ListLedgerResponseObject, error) {
	accountID := caller(ctx).Account.ID
	p, err := newPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "ledger", accountID)
	if err != nil {
		return nil, err
	}
	out := contract.ListLedger200JSONResponse{Data: []contract.LedgerEntry{}, NextCursor: noCursor()}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		entries, more, err := tx.Entries(ctx, accountID, p.page)
		for _, e := range entries {
			kind := string(e.Kind)
			if e.Kind == store.EntryGrant && e.Effect < 0 {
				kind = "adjust" // a correction
			}
			out.Data = append(out.Data, contract.LedgerEntry{
				ID: e.ID, Type: kind, AmountMicro: int64(e.Effect), Ref: unlessZero(e.Ref), Reason: unlessZero(e.Reason), CreatedAt: contract.Time(e.CreatedAt),
			})
			out.NextCursor = p.next(more, e.CreatedAt, e.ID)
		}
		out.HasMore = more
		return err
	})
	return out, err
}

// ListReceipts serves GET /api/v1/receipts.
func (s *Server) ListReceipts(ctx context.Context, in contract.ListReceiptsRequestObject) (contract.ListReceiptsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "receipts", accountID, q.Model, q.KeyID, q.AgentID, q.SpaceID, q.SessionID, q.EndUser, q.From.String(), q.To.String())
	if err != nil {
		return nil, err
	}
	filter := store.ReceiptFilter{
		Served: q.Model, KeyID: q.KeyID, AgentID: q.AgentID, SpaceID: q.SpaceID, SessionID: q.SessionID, EndUser: q.EndUser,
		From: q.From.Time(), To: q.To.Time(),
	}
	out := contract.ListReceipts200JSONResponse{Data: []contract.Receipt{}, NextCursor: noCursor()}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		list, more, err := tx.Receipts(ctx, accountID, filter, p.page)
		for _, r := range list {
			out.Data = append(out.Data, contractReceipt(r))
			out.NextCursor = p.next(more, r.CreatedAt, r.ID)
		}
		out.HasMore = more
		return err
	})
	return out, err
}

// GetReceipt serves GET /api/v1/receipts/{id}.
func (s *Server) GetReceipt(ctx context.Context, in contract.GetReceiptRequestObject) (contract.GetReceiptResponseObject, error) {
	var r store.Receipt
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		r, err = tx.Receipt(ctx, caller(ctx).Account.ID, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return contract.GetReceipt200JSONResponse(contractReceipt(r)), nil
}

func contractReceipt(r store.Receipt) contract.Receipt {
	return contract.Receipt{
		ID:    r.ID,
		Model: contract.ReceiptModel{Requested: r.Asked, Served: r.Served, FallbackReason: unlessZero(r.Reason)},
		Usage: contract.ReceiptUsage{
			InputTokens: r.Usage.InputTokens, CachedInputTokens: r.Usage.CachedTokens, CacheWriteTokens: r.Usage.CacheWriteTokens,
			OutputTokens: r.Usage.OutputTokens, ReasoningTokens: r.Usage.ReasoningTokens, TotalTokens: r.Usage.Total(),
		},
		Price: contract.Price{
			InputMicroPerMillion: int64(r.Price.Input), CachedInputMicroPerMillion: int64(r.Price.CachedInput),
			OutputMicroPerMillion: int64(r.Price.Output), Version: r.Price.Version,
		},
		CreditsMicro: int64(r.Amount), Estimated: r.Estimated, Clamped: r.Clamped, Capped: r.Capped, WrittenOffMicro: int64(r.WrittenOff),
		Status: r.State, KeyID: r.KeyID,
		EndUser: unlessZero(r.EndUser), SpaceID: unlessZero(r.SpaceID), AgentID: unlessZero(r.AgentID), SessionID: unlessZero(r.SessionID),
		StartedAt: contract.Time(r.StartedAt), TimeToFirstTokenMilliseconds: unlessZero(milliseconds(r.FirstToken)),
		DurationMilliseconds: milliseconds(r.Duration), CreatedAt: contract.Time(r.CreatedAt),
	}
}

// milliseconds rounds up, so that what took time never shows none.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
