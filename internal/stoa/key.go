package stoa

import (
	"slices"
	"strings"
	"time"
)

// A Key is an API key as the service keeps it: never its secret, only what is
// needed to recognise and to judge it.
type Key struct {
	ID                string
	AccountID         string
	Name              string
	Hint              string    // first and last four characters of the secret
	Scopes            []string  // see [Scopes]
	RequestsPerMinute int       // 0: the plan's limit alone
	MaxCreditsPerDay  Credits   // 0: no cap of the key's own
	ExpiresAt         time.Time // zero: never
	RevokedAt         time.Time // zero: in force
	LastUsedAt        time.Time // zero: never; kept to the minute
	CreatedAt         time.Time
}

// Scopes are the things a key may be allowed to do. The scope "*" stands for
// all of them but [ScopeOperator].
var Scopes = []string{
	"responses",
	"agents:read", "agents:write",
	"sessions:read", "sessions:write",
	"drive:read", "drive:write",
	"schedules:read", "schedules:write",
	"embeds:write",
	"keys:write",
	"usage:read",
}

// ScopeAll is every scope of [Scopes]; ScopeOperator is the right to run the
// house itself: accounts, grants, other accounts' keys.
const (
	ScopeAll      = "*"
	ScopeOperator = "operator"
)

// Has reports whether the key carries the scope.
func (k Key) Has(scope string) bool {
	return slices.Contains(k.Scopes, scope) ||
		scope != ScopeOperator && slices.Contains(k.Scopes, ScopeAll)
}

// MayGrant reports whether a key with these scopes may hand out the scope: a key
// never grants more than it has.
func (k Key) MayGrant(scope string) bool {
	if scope == ScopeAll {
		return slices.Contains(k.Scopes, ScopeAll)
	}
	return k.Has(scope)
}

// A Caller is who is asking: an account, its plan, and the key that was shown.
// It is an argument, never a global.
type Caller struct {
	Account Account
	Plan    Plan
	Key     Key
}

// Hint shortens a secret to what may be shown: its first and last four
// characters.
func Hint(secret string) string {
	if len(secret) < 12 {
		return strings.Repeat("*", len(secret))
	}
	return secret[:4] + "…" + secret[len(secret)-4:]
}
