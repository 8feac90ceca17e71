package api

import (
	"context"
	"net/http"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/operate/payment"
)

func (s *Books) sales() (*payment.Sales, error) {
	if s.Sales == nil {
		return nil, stoa.Errorf(stoa.CodeNotFound, "This service does not sell credits. See \"contact\" in GET /api/v1/meta.")
	}
	return s.Sales, nil
}

// beginPayment prepares POST /api/v1/payments: it creates the page on which the person pays.
func (s *Books) beginPayment(ctx context.Context, in rest.Request[rest.None, contract.CreatePayment]) (stoa.Payment, error) {
	sales, err := s.sales()
	if err != nil {
		return stoa.Payment{}, err
	}
	key, err := rest.IdempotencyKey(in.HTTP)
	if err != nil {
		return stoa.Payment{}, err
	}
	return sales.Begin(ctx, in.Caller, in.Body.Pack, key)
}

func (s *Books) createPayment(ctx context.Context, tx *store.Tx, _ rest.Request[rest.None, contract.CreatePayment], p stoa.Payment) (rest.Reply[contract.Payment], error) {
	p, err := s.Sales.Open(ctx, tx, p)
	return rest.Created(rest.Prefix+"/payments/"+p.ID, contractPayment(p)), err
}

func (s *Books) listPayments(ctx context.Context, in rest.Request[contract.ListPaymentsParams, rest.None]) (rest.Reply[rest.Page[contract.Payment]], error) {
	if _, err := s.sales(); err != nil {
		return rest.Reply[rest.Page[contract.Payment]]{}, err
	}
	accountID, err := s.requestedAccount(ctx, in.Caller, in.Params.AccountID)
	if err != nil {
		return rest.Reply[rest.Page[contract.Payment]]{}, err
	}
	p := rest.NewPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "payments", accountID)
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Payment, bool, error) {
		return tx.Books().Payments(ctx, accountID, p.Page)
	}, contractPayment, func(p stoa.Payment) store.Cursor { return store.Cursor{At: p.CreatedAt, ID: p.ID} })
}

func (s *Books) getPayment(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Payment], error) {
	if _, err := s.sales(); err != nil {
		return rest.Reply[contract.Payment]{}, err
	}
	p, err := tx.Books().Payment(ctx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.Payment]{Body: contractPayment(p)}, err
}

func (s *Books) listPacks(context.Context, rest.Request[rest.None, rest.None]) (rest.Reply[rest.Page[contract.Pack]], error) {
	sales, err := s.sales()
	if err != nil {
		return rest.Reply[rest.Page[contract.Pack]]{}, err
	}
	page := rest.Whole(sales.Packs(), func(p payment.Pack) contract.Pack {
		return contract.Pack{ID: p.ID, Name: p.Name, Amount: p.Price, Currency: p.Currency, CreditsMicro: int64(p.CreditsMicro)}
	})
	return rest.Reply[rest.Page[contract.Pack]]{Body: page}, nil
}

func contractPayment(p stoa.Payment) contract.Payment {
	return contract.Payment{
		ID: p.ID, AccountID: p.AccountID, Pack: p.Pack, Name: p.Name, Amount: p.Amount, Currency: p.Currency, CreditsMicro: int64(p.Credits), Live: p.Live,
		State: string(p.State), CheckoutURL: nullIfZero(p.CheckoutURL), RefundedAmount: p.Refunded, Disputed: p.Disputed, WithdrawnMicro: int64(p.Withdrawn),
		KeyID: p.MadeBy, CreatedAt: contract.Time(p.CreatedAt), PaidAt: nullIfNever(p.PaidAt),
	}
}

// StripeHook serves POST /hooks/stripe, where Stripe sends its events. It replies 200 only once an event
// is recorded, because Stripe repeats the others.
func (s *Books) StripeHook() http.Handler {
	return s.Outside(payment.MaxEvent, func(x *rest.Exchange) error {
		body, err := s.ReadBody(x, x.HTTP)
		if err != nil {
			return err
		}
		header := x.HTTP.Header.Get("Stripe-Signature")
		if err := payment.CheckSignature(header, body, s.Sales.Settings.Stripe.Secrets(), time.Now()); err != nil {
			return s.WrongSecret(x.HTTP, err)
		}
		if err := s.Sales.Notified(x.Context(), body); err != nil {
			return err
		}
		x.WriteHeader(http.StatusOK)
		return nil
	})
}
