package stoa

import (
	"math/bits"
	"time"
)

// A Payment is the purchase of a pack of credits. Its credits were granted if PaidAt is set.
type Payment struct {
	ID        string  `db:"id"`
	AccountID string  `db:"account_id"`
	MadeBy    string  `db:"made_by"` // the key that began it
	Pack      string  `db:"pack"`
	Name      string  `db:"name"`     // of the pack
	Amount    int64   `db:"amount"`   // in the smallest unit of the currency
	Currency  string  `db:"currency"` // in small letters
	Credits   Credits `db:"credits"`
	Live      bool    `db:"live"` // money moves, unlike in the test mode

	State         PaymentState `db:"state"`
	CheckoutID    string       `db:"checkout_id,null"`
	CheckoutURL   string       `db:"checkout_url"` // where the person pays; empty unless the state is PaymentPending
	PaymentIntent string       `db:"payment_intent"`
	Refunded      int64        `db:"refunded"`  // in the smallest unit of the currency
	Disputed      bool         `db:"disputed"`  // a dispute is open or was lost
	Withdrawn     Credits      `db:"withdrawn"` // of the credits, because of refunds and disputes; also what is owed
	CreatedAt     time.Time    `db:"created_at"`
	PaidAt        time.Time    `db:"paid_at"`

	// Revision counts the readings of the payment at its processor that were booked.
	Revision int64 `db:"revision"`
	// Hints counts the notifications about the payment.
	Hints int64 `db:"hints"`
	// DueAt is when the payment is read again; zero means never without a notification.
	DueAt time.Time `db:"due_at"`
	// ClaimedUntil is the time until which only the node that claimed the payment reads it.
	ClaimedUntil time.Time `db:"claimed_until"`
	ClaimedBy    string    `db:"claimed_by"` // the node, with which the claim ends; empty without one
}

// A PaymentState is the state of a payment.
type PaymentState string

// The states of payments.
const (
	PaymentPending  PaymentState = "pending"
	PaymentPaid     PaymentState = "paid"     // also after refunds
	PaymentExpired  PaymentState = "expired"  // nobody paid in time
	PaymentFailed   PaymentState = "failed"   // the payment did not succeed
	PaymentRejected PaymentState = "rejected" // it succeeded with another amount, currency or mode; nothing was granted
)

// Due returns the part of the credits that is withdrawn: the refunded share, rounded down, or all
// of them while a dispute is open or lost.
func (p Payment) Due() Credits {
	switch {
	case p.Disputed || p.Refunded >= p.Amount:
		return p.Credits
	case p.Refunded <= 0:
		return 0
	}
	hi, lo := bits.Mul64(uint64(p.Credits), uint64(p.Refunded))
	share, _ := bits.Div64(hi, lo, uint64(p.Amount)) // below p.Credits
	return Credits(share)
}
