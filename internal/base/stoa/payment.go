package stoa

import (
	"math/bits"
	"time"
)

// A Payment is the purchase of a pack of credits. Its credits were granted if PaidAt is set.
type Payment struct {
	ID        string  `db:"id"`
	AccountID string  `db:"account_id"`
	MadeBy    string  `db:"made_by"` // key that began it
	Pack      string  `db:"pack"`
	Name      string  `db:"name"`
	Amount    int64   `db:"amount"`   // price in the smallest unit of the currency
	Currency  string  `db:"currency"` // ISO code in lower case
	Credits   Credits `db:"credits"`
	Live      bool    `db:"live"` // false in the processor's test mode, where no money moves

	State         PaymentState `db:"state"`
	CheckoutID    string       `db:"checkout_id,null"`
	CheckoutURL   string       `db:"checkout_url"` // page where the person pays; empty unless the state is PaymentPending
	PaymentIntent string       `db:"payment_intent"`
	Refunded      int64        `db:"refunded"`  // in the smallest unit of the currency, like Amount
	Disputed      bool         `db:"disputed"`  // a dispute is open or was lost
	Withdrawn     Credits      `db:"withdrawn"` // credits that refunds and disputes take back, including those still owed
	CreatedAt     time.Time    `db:"created_at"`
	PaidAt        time.Time    `db:"paid_at"`

	// Revision counts the readings of the payment at its processor that were recorded.
	Revision int64 `db:"revision"`
	// Hints counts the notifications about the payment.
	Hints int64 `db:"hints"`
	// DueAt is the time of the next reading; zero means that only a notification causes one.
	DueAt time.Time `db:"due_at"`
	// ClaimedUntil is the time until which only the claiming node reads the payment, so that nodes do not read it twice.
	ClaimedUntil time.Time `db:"claimed_until"`
	ClaimedBy    string    `db:"claimed_by"` // claiming node, so that its claims end with it; empty without a claim
}

// A PaymentState is the state of a payment.
type PaymentState string

// The states of payments.
const (
	PaymentPending  PaymentState = "pending"
	PaymentPaid     PaymentState = "paid" // final state, also after refunds
	PaymentExpired  PaymentState = "expired"
	PaymentFailed   PaymentState = "failed"
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
	share, _ := bits.Div64(hi, lo, uint64(p.Amount)) // fits, because it is below p.Credits
	return Credits(share)
}
