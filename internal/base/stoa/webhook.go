package stoa

import (
	"strings"
	"time"
)

// A Webhook is an address to which the events of an account are sent.
type Webhook struct {
	ID            string    `db:"id"`
	AccountID     string    `db:"account_id"`
	KeyID         string    `db:"key_id"`       // key with which it ends
	URL           string    `db:"url"`          // empty means that its events are kept for polling
	Service       bool      `db:"service"`      // it receives the service's alerts, not the account's events
	Events        []string  `db:"events,words"` // types, or only "*"
	SpaceIDs      []string  `db:"spaces,words"` // spaces whose events it receives; empty means all
	Description   string    `db:"description"`
	CreditsLow    Credits   `db:"credits_low"` // threshold of the event credits.low; 0 means the default
	Sealed        string    `db:"sealed"`
	SecretVersion int64     `db:"secret_version"`
	Disabled      string    `db:"disabled"` // the reason why it is disabled; empty if enabled
	FailingSince  time.Time `db:"failing_since"`
	Failed        int       `db:"failed"`          // deliveries given up since the newest success
	LastSuccessAt time.Time `db:"last_success_at"` // zero means never
	EnabledAt     time.Time `db:"enabled_at"`
	Revision      int64     `db:"revision"`
	CreatedAt     time.Time `db:"created_at"`
	UpdatedAt     time.Time `db:"updated_at"`
}

// MailAddress returns the mail address to which the events are sent, and whether there is one.
func (w Webhook) MailAddress() (string, bool) { return strings.CutPrefix(w.URL, "mailto:") }

// IsEmail reports whether text is a bare email address. It refuses characters that would end the
// address in a link, so that callers can put the address into one.
func IsEmail(text string) bool {
	name, host, ok := strings.Cut(text, "@")
	return ok && name != "" && host != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("?&#%<>\"\\,;:", r) || r == 0x7f }) && !strings.Contains(host, "@")
}

// The reasons why a webhook is disabled, besides the end of its key.
const (
	WebhookDisabledByUser     = "user"
	WebhookDisabledByFailures = "failures"
	WebhookDisabledGone       = "gone"              // its address answered 410
	WebhookDisabledScope      = "scope_removed"     // its key may no longer receive the service's alerts
	WebhookDisabledRecipient  = "recipient_removed" // its mail address does not belong to a member
)
