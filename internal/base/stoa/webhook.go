package stoa

import (
	"strings"
	"time"
)

// A Webhook is an address to which the events of an account are sent.
type Webhook struct {
	ID            string    `db:"id"`
	AccountID     string    `db:"account_id"`
	KeyID         string    `db:"key_id"`       // that it ends with
	URL           string    `db:"url"`          // empty means its events are kept to be read
	Service       bool      `db:"service"`      // it receives the alerts of the service, not the events of the account
	Events        []string  `db:"events,words"` // types, or only "*"
	SpaceIDs      []string  `db:"spaces,words"` // whose events it gets; empty means of all
	Description   string    `db:"description"`
	CreditsLow    Credits   `db:"credits_low"`    // of the event credits.low; 0 means the default
	Sealed        string    `db:"sealed"`         // its secrets, encrypted
	SecretVersion int64     `db:"secret_version"` // counts their changes
	Disabled      string    `db:"disabled"`       // the reason why it is disabled; empty if enabled
	FailingSince  time.Time `db:"failing_since"`
	Failed        int       `db:"failed"`          // deliveries given up since the newest success
	LastSuccessAt time.Time `db:"last_success_at"` // zero means never
	EnabledAt     time.Time `db:"enabled_at"`
	Revision      int64     `db:"revision"`
	CreatedAt     time.Time `db:"created_at"`
	UpdatedAt     time.Time `db:"updated_at"`
}

// MailAddress returns the address of mail to which the events are sent, and whether it is one.
func (w Webhook) MailAddress() (string, bool) { return strings.CutPrefix(w.URL, "mailto:") }

// IsEmail reports whether text is a bare email address that can be part of a link.
func IsEmail(text string) bool {
	name, host, ok := strings.Cut(text, "@")
	return ok && name != "" && host != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("?&#%<>\"\\,;:", r) || r == 0x7f }) && !strings.Contains(host, "@")
}

// Why a webhook is disabled.
const (
	WebhookDisabledByUser     = "user"
	WebhookDisabledByKey      = "key_revoked" // with the key that it belonged to
	WebhookDisabledByFailures = "failures"
	WebhookDisabledGone       = "gone"              // its address answered 410
	WebhookDisabledScope      = "scope_removed"     // its key may no longer receive the alerts of the service
	WebhookDisabledRecipient  = "recipient_removed" // its address of mail does not belong to a member
)
