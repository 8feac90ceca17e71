// Package payment sells packs of credits through Checkout of Stripe: it begins payments, and books their state at
// Stripe.
//
// A notification is only a hint. It is recorded, and then the session, the payment and its refunds and
// disputes are read from Stripe, and the difference from the booked state is booked. So the order of
// notifications and their repetition do not matter, and [Sales.Run] replaces a lost one by reading
// payments again. One node at a time reads and books a payment, and each booking commits together with
// the payment's revision, so that it happens once. Cards, taxes and invoices stay at Stripe.
//
// The package never grants anything because of the content of a notification, nor for a session that it did not
// create. stripe.go talks to Stripe. Start at [Sales.Begin] and [Sales.Notified].
package payment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
)

const (
	sweepEvery    = time.Minute
	sweepTogether = 50 // payments in a query
	// maxRounds is the maximum number of consecutive bookings of a payment; the sweep does the rest.
	maxRounds = 5
	// unlinkedLife is the time after which a payment without a session ends, because nobody has its address.
	unlinkedLife = time.Hour
	// A payment is read again when its age has doubled, within these limits, until it is as old as watchedFor, so that
	// refunds and disputes with lost notifications are found.
	minReread        = 10 * time.Minute
	maxRereadPending = 6 * time.Hour
	watchedFor       = 180 * 24 * time.Hour
)

// Sales sells packs. All fields are required and must not change after the first call.
type Sales struct {
	Store     *store.Store
	Ledger    *billing.Ledger
	Client    *outbound.Client // client with the limits [RequestTime] and [MaxReply]
	Settings  config.Payments
	PublicURL string // origin to which people return
	Logger    *slog.Logger

	step func(name string) error // lets tests end the process at a step
}

// A Pack is a pack with its id.
type Pack struct {
	ID string
	config.Pack
}

// Packs returns the packs, the cheapest of each currency first.
func (s *Sales) Packs() (list []Pack) {
	for id, p := range s.Settings.Packs {
		list = append(list, Pack{id, p})
	}
	slices.SortFunc(list, func(a, b Pack) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Price, b.Price), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Begin stores a pending payment and creates its Checkout Session. With the caller's idempotency key, a repeated
// call continues the same payment. The caller must not hand out the session's address before [Sales.Open] is
// committed, because a payment without a session is never booked.
func (s *Sales) Begin(ctx context.Context, c stoa.Caller, pack, idempotencyKey string) (stoa.Payment, error) {
	of, found := s.Settings.Packs[pack]
	if !found {
		return stoa.Payment{}, stoa.Errorf(stoa.CodeInvalidValue, "Unknown pack. The packs are %s.", strings.Join(slices.Sorted(maps.Keys(s.Settings.Packs)), ", ")).At("pack")
	}
	p := stoa.Payment{
		ID: paymentID(c.Account.ID, idempotencyKey), AccountID: c.Account.ID, MadeBy: c.Key.ID, Pack: pack, Name: of.Name,
		Amount: of.Price, Currency: of.Currency, Credits: of.CreditsMicro, Live: s.Settings.Stripe.Live(),
	}
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		p.DueAt = tx.Now.Add(unlinkedLife)
		return tx.Books().InsertPayment(ctx, p)
	})
	if err != nil {
		return p, err
	}
	p, err = store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Payment, error) { return tx.Books().Payment(ctx, c.Account.ID, p.ID) })
	switch {
	case err != nil || p.CheckoutID != "":
		return p, err
	case p.Pack != pack:
		return p, stoa.Errorf(stoa.CodeIdempotencyReused, "This Idempotency-Key was used to buy another pack. Use a new one.").At("Idempotency-Key")
	case p.State != stoa.PaymentPending:
		return p, stoa.Errorf(stoa.CodeConflict, "The payment of this Idempotency-Key has ended before a session was created. Use a new one.").At("Idempotency-Key")
	}
	if err := s.at("inserted"); err != nil {
		return p, err
	}
	made, err := s.createSession(ctx, p)
	if err != nil {
		return p, err
	}
	if err := s.at("created"); err != nil {
		return p, err
	}
	if made.ID == "" || made.URL == "" || made.Live != p.Live || made.Metadata["payment"] != p.ID {
		return p, unavailable(fmt.Errorf("the session %q that Stripe created is not the requested one", made.ID))
	}
	p.CheckoutID, p.CheckoutURL = made.ID, made.URL
	return p, nil
}

// Open links a payment of [Sales.Begin] to its session, in the transaction that answers the caller.
func (s *Sales) Open(ctx context.Context, tx *store.Tx, p stoa.Payment) (stoa.Payment, error) {
	p.DueAt = nextReading(p, tx.Now)
	if _, err := tx.Books().OpenCheckout(ctx, p); err != nil {
		return p, err
	}
	stored, err := tx.Books().Payment(ctx, p.AccountID, p.ID)
	if err == nil && stored.CheckoutID != p.CheckoutID {
		err = stoa.Errorf(stoa.CodeConflict, "The payment has ended before its session was created. Begin another one.")
	}
	return stored, err
}

func paymentID(accountID, idempotencyKey string) string {
	if idempotencyKey == "" {
		return stoa.NewID("pay")
	}
	sum := sha256.Sum256([]byte(accountID + "\x00" + idempotencyKey))
	return "pay_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Notified processes a notification, whose signature the caller has checked. When it returns without an error, the
// notification is recorded or does not concern a payment of this service, so that Stripe need not repeat it; the
// payment itself may be booked later.
func (s *Sales) Notified(ctx context.Context, body []byte) error {
	var e event
	if err := jsonx.Unmarshal(body, &e); err != nil || e.Object != "event" || e.Live == nil {
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body is not an event of Stripe.").Because(err)
	}
	checkout, intent := e.about()
	if *e.Live != s.Settings.Stripe.Live() || checkout == "" && intent == "" {
		return nil
	}
	var p stoa.Payment
	found := false
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		p, found, err = tx.Books().HintPayment(ctx, checkout, intent)
		return err
	})
	if err != nil || !found || p.Live != *e.Live {
		return err
	}
	if err := s.at("hinted"); err != nil {
		return err
	}
	s.settle(ctx, p)
	return nil
}

// Check returns an error if Stripe cannot be reached or refuses the key. It reads a session that does not exist,
// because that changes nothing.
func (s *Sales) Check(ctx context.Context) error {
	_, err := s.readSession(ctx, "cs_check")
	if errors.Is(err, errAbsent) {
		return nil
	}
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// Run reads due payments until ctx ends, because notifications can fail or get lost.
func (s *Sales) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("payments could not be read; it is tried again", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Sweep reads and books the due payments. Several nodes may do so at the same time.
func (s *Sales) Sweep(ctx context.Context) error {
	for {
		due, err := store.Read(ctx, s.Store, func(tx *store.Tx) ([]stoa.Payment, error) {
			return tx.Books().DuePayments(ctx, s.Settings.Stripe.Live(), sweepTogether)
		})
		if err != nil {
			return err
		}
		for _, p := range due {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.settle(ctx, p)
		}
		if len(due) < sweepTogether {
			return nil
		}
	}
}

// settle reads and books a payment until nothing is due. The sweep repeats failures.
func (s *Sales) settle(ctx context.Context, p stoa.Payment) {
	for range maxRounds {
		claimed := false
		err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
			p, claimed, err = tx.Books().ClaimPayment(ctx, p.AccountID, p.ID)
			return err
		})
		if err == nil && !claimed {
			return // nothing is due, or another node books it and sees the hint
		}
		if err == nil {
			err = s.at("claimed")
		}
		if err == nil {
			err = s.read(ctx, p)
		}
		if err == nil {
			continue
		}
		s.Logger.Warn("a payment could not be booked; it is tried again", "payment", p.ID, "account", p.AccountID, "error", err)
		if errors.Is(err, errKilled) {
			return
		}
		err = s.Store.Write(ctx, func(tx *store.Tx) error {
			p.DueAt = tx.Now.Add(min(max(tx.Now.Sub(p.CreatedAt)/4, time.Minute), maxRereadPending))
			return tx.Books().PostponePayment(ctx, p)
		})
		if err != nil {
			s.Logger.Warn("a payment could not be postponed", "payment", p.ID, "account", p.AccountID, "error", err)
		}
		return
	}
}

// read reads a claimed payment from Stripe and books one difference. The payment is due again if there may be
// another one.
func (s *Sales) read(ctx context.Context, p stoa.Payment) error {
	if p.CheckoutID == "" {
		p.State, p.DueAt = stoa.PaymentFailed, time.Time{}
		return s.book(ctx, p, "payment.failed")
	}
	session, err := s.readSession(ctx, p.CheckoutID)
	if err != nil {
		return err
	}
	p.PaymentIntent = cmp.Or(session.Intent.ID, p.PaymentIntent)
	now := time.Now()
	if p.PaidAt.IsZero() {
		return s.readUnpaid(ctx, p, session, now)
	}
	if p.Refunded, p.Disputed, err = s.reversed(ctx, p); err != nil {
		return err
	}
	p.DueAt = nextReading(p, now)
	ref := fmt.Sprintf("stripe:%s:%d", p.ID, p.Revision)
	due, before := p.Due(), p.Withdrawn
	p.Withdrawn = due
	if err := s.at("read"); err != nil {
		return err
	}
	switch {
	case due > before:
		_, created, err := s.Ledger.Withdraw(ctx, stoa.Withdrawal{
			AccountID: p.AccountID, Amount: due - before, Reason: "refund or dispute of the payment " + p.ID, ExternalRef: ref, Kind: stoa.Refund,
		}, true, func(ctx context.Context, tx *store.Tx, _ stoa.Withdrawal) error {
			return s.bookIn(ctx, tx, p, "payment.withdrawn")
		})
		if err != nil || created {
			return err
		}
		return s.book(ctx, p, "") // an operator has used the reference, so that nothing more is granted
	case due < before:
		return s.Store.Write(ctx, func(tx *store.Tx) error {
			if _, _, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{
				AccountID: p.AccountID, Amount: before - due, Reason: "end of a dispute or refund of the payment " + p.ID, ExternalRef: ref, Kind: stoa.RefundReversal,
			}); err != nil {
				return err
			}
			return s.bookIn(ctx, tx, p, "payment.returned")
		})
	}
	return s.book(ctx, p, "")
}

// readUnpaid books the state of a payment that was not paid before.
func (s *Sales) readUnpaid(ctx context.Context, p stoa.Payment, session session, now time.Time) error {
	p.DueAt = time.Time{}
	action := ""
	switch intent := session.Intent; {
	case session.PaymentStatus == "paid" && !ours(p, session):
		s.Logger.Error("a payment differs from what was requested; nothing was granted", "payment", p.ID, "account", p.AccountID, "checkout", session.ID)
		p.State, action = stoa.PaymentRejected, "payment.rejected"
	case session.PaymentStatus == "paid":
		p.State, p.PaidAt, p.DueAt = stoa.PaymentPaid, now, now // due now, because refunds are booked next
		return s.Store.Write(ctx, func(tx *store.Tx) error {
			if _, _, err := s.Ledger.GrantIn(ctx, tx, stoa.Grant{
				AccountID: p.AccountID, Amount: p.Credits, Reason: "bought: " + p.Name, ExternalRef: "stripe:" + p.ID, Kind: stoa.Purchase,
			}); err != nil {
				return err
			}
			return s.bookIn(ctx, tx, p, "payment.paid")
		})
	case session.Status == "expired":
		p.State, action = stoa.PaymentExpired, "payment.expired"
	case session.Status == "complete" && (intent.Status == "canceled" || intent.Status == "requires_payment_method"):
		p.State, action = stoa.PaymentFailed, "payment.failed"
	default:
		p.State, p.DueAt = stoa.PaymentPending, nextReading(p, now)
	}
	return s.book(ctx, p, action)
}

// ours reports whether a session was created for a payment, with its amount and mode. Other sessions must never
// grant credits.
func ours(p stoa.Payment, of session) bool {
	return of.ID == p.CheckoutID && of.Metadata["payment"] == p.ID && of.Mode == "payment" && of.Live == p.Live && of.Amount == p.Amount && of.Currency == p.Currency && of.Intent.ID != ""
}

// reversed returns the refunded amount of a payment, and whether a dispute of it is open or was lost. An inquiry is
// not a dispute, because it takes no money.
func (s *Sales) reversed(ctx context.Context, p stoa.Payment) (refunded int64, disputed bool, err error) {
	refunds, err := s.readReversals(ctx, "refunds", p.PaymentIntent)
	if err != nil {
		return 0, false, err
	}
	for _, r := range refunds {
		if r.Status == "succeeded" {
			refunded += r.Amount
		}
	}
	disputes, err := s.readReversals(ctx, "disputes", p.PaymentIntent)
	for _, d := range disputes {
		if d.Status != "won" && d.Status != "prevented" && !strings.HasPrefix(d.Status, "warning_") {
			disputed = true
		}
	}
	return min(refunded, p.Amount), disputed, err
}

func (s *Sales) book(ctx context.Context, p stoa.Payment, action string) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error { return s.bookIn(ctx, tx, p, action) })
}

// bookIn stores the state of a payment, and the action in the audit log unless it is empty.
func (s *Sales) bookIn(ctx context.Context, tx *store.Tx, p stoa.Payment, action string) error {
	if err := tx.Books().BookPayment(ctx, p); err != nil {
		return err
	}
	if action != "" {
		tx.AuditAutomatic(p.AccountID, action, p.ID, p.Pack)
	}
	return s.at("booking")
}

// nextReading returns the time of the next reading without a notification; zero means never.
func nextReading(p stoa.Payment, now time.Time) time.Time {
	age := now.Sub(p.CreatedAt)
	if age > watchedFor {
		return time.Time{}
	}
	wait := max(age, minReread)
	if p.State == stoa.PaymentPending {
		wait = min(wait, maxRereadPending)
	}
	return now.Add(wait)
}

// errKilled is the error of a step at which a test ends the process: nothing runs after it.
var errKilled = errors.New("the process ended here")

func (s *Sales) at(name string) error {
	if s.step == nil {
		return nil
	}
	return s.step(name)
}
