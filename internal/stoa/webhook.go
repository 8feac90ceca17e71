package stoa

import "time"

// A Webhook is an address to which the events of an account are sent.
type Webhook struct {
	ID, AccountID string
	KeyID         string   // that it ends with
	URL           string   // empty: its events are kept to be read
	Events        []string // types, or "*" alone
	SpaceIDs      []string // whose events it gets; empty: of all
	Description   string
	CreditsLow    Credits // of the event credits.low; 0: the default
	Sealed        string  // its secrets, encrypted
	SecretVersion int64   // counts their changes
	Disabled      string  // why nothing is sent; empty: it is
	FailingSince  time.Time
	Failed        int       // deliveries given up since the newest success
	LastSuccessAt time.Time // zero: never
	EnabledAt     time.Time
	Revision      int64
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// Why a webhook is disabled.
const (
	WebhookDisabledByUser     = "user"
	WebhookDisabledByKey      = "key_revoked" // with the key that it belonged to
	WebhookDisabledByFailures = "failures"
	WebhookDisabledGone       = "gone" // its address answered 410
)
