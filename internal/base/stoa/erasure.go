package stoa

import "time"

// An Erasure is the removal of the data of a customer's account, or of an end user.
type Erasure struct {
	ID          string      `db:"id"`
	AccountID   string      `db:"account_id"` // account that began it
	Kind        ErasureKind `db:"kind"`
	Target      string      `db:"target"`      // account whose data is removed
	Subject     string      `db:"subject"`     // external id of the end user; empty when the erasure is completed
	Replacement string      `db:"replacement"` // random id in place of the end user's, in receipts that stay

	Sessions     int64     `db:"sessions"`
	Drives       int64     `db:"drives"`        // drives and uploads
	Removed      int64     `db:"removed"`       // other rows
	Receipts     int64     `db:"receipts"`      // receipts whose end user was replaced
	AuditEntries int64     `db:"audit_entries"` // entries whose texts were removed
	CreatedAt    time.Time `db:"created_at"`
	CompletedAt  time.Time `db:"completed_at"`
	AgainAt      time.Time `db:"again_at"` // time of the next pass; zero if there is none
	ClaimedUntil time.Time `db:"claimed_until"`
}

// An ErasureKind is what an erasure removes.
type ErasureKind string

// The kinds of erasures.
const (
	EraseAccount ErasureKind = "account"
	EraseEndUser ErasureKind = "end_user"
)
