package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxPendingPayments is the maximum number of pending payments of an account, since an abandoned checkout
// stays pending until it expires.
const MaxPendingPayments = 20

// PaymentClaim is the time for which a node claims a payment. It is longer than the node needs to read and
// book it, so that no other node does too. The claim of a node that has died ends with the node.
const PaymentClaim = 2 * time.Minute

var payments = newTable[stoa.Payment]("payments")

// InsertPayment adds a pending payment without a checkout session, unless there is one with its id.
// More than [MaxPendingPayments] of an account are CodeLimitReached.
func (tx Books) InsertPayment(ctx context.Context, p stoa.Payment) error {
	if err := tx.lockText(ctx, "payments "+p.AccountID); err != nil {
		return err
	}
	_, found, err := payments.first(ctx, tx.Tx, `account_id = $1 AND id = $2`, p.AccountID, p.ID)
	if err != nil || found {
		return err
	}
	var pending int
	if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM payments WHERE account_id = $1 AND state = 'pending'`, []any{p.AccountID}, &pending); err != nil {
		return err
	}
	if pending >= MaxPendingPayments {
		return stoa.Errorf(stoa.CodeLimitReached, "The account has %d payments that are not completed, which is the maximum. Complete one, or wait: they end after a day.", pending)
	}
	p.State, p.CreatedAt = stoa.PaymentPending, tx.Now
	_, err = payments.insert(ctx, tx.Tx, &p, "")
	return err
}

// Payment returns a payment of an account, or CodeNotFound.
func (tx Books) Payment(ctx context.Context, accountID, id string) (stoa.Payment, error) {
	return payments.one(ctx, tx.Tx, stoa.Errorf(stoa.CodeNotFound, "There is no payment %q.", id), `account_id = $1 AND id = $2`, accountID, id)
}

// Payments lists the payments of an account.
func (tx Books) Payments(ctx context.Context, accountID string, p Page) ([]stoa.Payment, bool, error) {
	return payments.page(ctx, tx.Tx, p, `account_id = $1`, accountID)
}

// OpenCheckout stores the checkout session of a pending payment, and reports whether the payment was
// pending without one.
func (tx Books) OpenCheckout(ctx context.Context, p stoa.Payment) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE payments SET checkout_id = $3, checkout_url = $4, due_at = $5
		WHERE account_id = $1 AND id = $2 AND state = 'pending' AND checkout_id IS NULL`, p.AccountID, p.ID, p.CheckoutID, p.CheckoutURL, db.Micros(p.DueAt))
	return n > 0, err
}

// HintPayment records a notification about the payment with that checkout session or payment intent, which
// is due now. It returns the payment, and whether there is one.
func (tx Books) HintPayment(ctx context.Context, checkoutID, intent string) (p stoa.Payment, found bool, err error) {
	p, found, err = payments.first(ctx, tx.Tx, `checkout_id = $1`+tx.ForUpdate(), checkoutID)
	if err == nil && !found && intent != "" {
		p, found, err = payments.first(ctx, tx.Tx, `payment_intent = $1 AND payment_intent <> ''`+tx.ForUpdate(), intent)
	}
	if err == nil && found {
		_, err = tx.Exec(ctx, `UPDATE payments SET hints = hints + 1, due_at = $3 WHERE account_id = $1 AND id = $2`, p.AccountID, p.ID, db.Micros(tx.Now))
	}
	return p, found, err
}

// DuePayments lists payments of a mode that are due and not claimed, the earliest first.
func (tx Books) DuePayments(ctx context.Context, live bool, limit int) ([]stoa.Payment, error) {
	return list(ctx, tx.Tx, payments.scan, `SELECT `+payments.columns+` FROM payments WHERE due_at > 0 AND due_at <= $1 AND claimed_until <= $1 AND live = $2 ORDER BY due_at LIMIT $3`,
		db.Micros(tx.Now), db.Bit(live), limit)
}

// ClaimPayment claims a due payment, and returns it as it is then. The claim is needed because nodes that
// book it together would take credits from each other's holds.
func (tx Books) ClaimPayment(ctx context.Context, accountID, id string) (stoa.Payment, bool, error) {
	n, err := tx.Exec(ctx, `UPDATE payments SET claimed_until = $3, claimed_by = $5 WHERE account_id = $1 AND id = $2 AND due_at > 0 AND due_at <= $4 AND claimed_until <= $4`,
		accountID, id, db.Micros(tx.Now.Add(PaymentClaim)), db.Micros(tx.Now), tx.s.node)
	if err != nil || n == 0 {
		return stoa.Payment{}, false, err
	}
	p, err := tx.Payment(ctx, accountID, id)
	return p, true, err
}

// BookPayment writes the state of a payment that was claimed, and ends the claim. If a notification has
// arrived since, the payment is due immediately, because the state may be outdated. A payment that another
// node has booked since is CodeConflict.
func (tx Books) BookPayment(ctx context.Context, p stoa.Payment) error {
	if p.State != stoa.PaymentPending {
		p.CheckoutURL = ""
	}
	read := p.Revision
	p.Revision, p.ClaimedUntil, p.ClaimedBy = read+1, time.Time{}, ""
	n, err := payments.change(ctx, tx.Tx, &p, "state checkout_url payment_intent refunded disputed withdrawn paid_at revision due_at claimed_until claimed_by", `account_id = $1 AND id = $2 AND revision = $3`, p.AccountID, p.ID, read)
	if err == nil && n == 0 {
		err = stoa.Errorf(stoa.CodeConflict, "The payment %s was booked in the meantime.", p.ID)
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE payments SET due_at = $4 WHERE account_id = $1 AND id = $2 AND hints <> $3`, p.AccountID, p.ID, p.Hints, db.Micros(tx.Now))
	return err
}

// PostponePayment ends the claim of a payment that could not be read or booked.
func (tx Books) PostponePayment(ctx context.Context, p stoa.Payment) error {
	_, err := tx.Exec(ctx, `UPDATE payments SET due_at = $3, claimed_until = 0, claimed_by = '' WHERE account_id = $1 AND id = $2 AND claimed_until = $4`, p.AccountID, p.ID, db.Micros(p.DueAt), db.Micros(p.ClaimedUntil))
	return err
}
