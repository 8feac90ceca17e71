package stoa

import "time"

// A ConsoleSession is a sign-in to the console, as stored: without the secret of its cookie. It
// belongs to a person or to a key: exactly one of PersonID and KeyID is set.
type ConsoleSession struct {
	Hash      string    `db:"hash"` // SHA-256 of the secret, in hex
	PersonID  string    `db:"person_id"`
	KeyID     string    `db:"key_id"`
	CreatedAt time.Time `db:"created_at"`
	SeenAt    time.Time `db:"seen_at"` // time of last use; kept to the minute
	ExpiresAt time.Time `db:"expires_at"`
}
