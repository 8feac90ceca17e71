package contract

import (
	"fmt"
	"time"
)

const timeForm = "2006-01-02T15:04:05.000Z"

// A Time is an instant in the contract's form: RFC 3339 in UTC with milliseconds. It reads any RFC 3339 time.
type Time time.Time

// Time returns the instant.
func (t Time) Time() time.Time { return time.Time(t) }

// String writes the instant as JSON does, without quotes.
func (t Time) String() string { return time.Time(t).UTC().Format(timeForm) }

// MarshalText writes the instant.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads any RFC 3339 time.
func (t *Time) UnmarshalText(b []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 time such as 2026-11-20T12:00:00Z", b)
	}
	*t = Time(at.UTC())
	return nil
}

// IsZero reports whether the time was never set, so that omitzero omits it.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }
