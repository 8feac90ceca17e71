package stoa

import "time"

// A ConsoleSession is a sign-in to the console. It stores a hash instead of the cookie's secret, so
// that a copy of the database signs nobody in. Exactly one of PersonID and KeyID is set.
type ConsoleSession struct {
	Hash      string    `db:"hash"` // SHA-256 of the secret, in hex
	PersonID  string    `db:"person_id"`
	KeyID     string    `db:"key_id"`
	CreatedAt time.Time `db:"created_at"`
	SeenAt    time.Time `db:"seen_at"` // latest use, to the minute
	ExpiresAt time.Time `db:"expires_at"`
}
