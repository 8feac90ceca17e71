package stoa

import (
	"slices"
	"strings"
	"time"
)

// A Key is an API key as stored: without its secret.
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
// service itself: accounts, grants, keys of other accounts.
const (
	ScopeAll      = "*"
	ScopeOperator = "operator"
)

// Has reports whether the key carries the scope.
func (k Key) Has(scope string) bool {
	return slices.Contains(k.Scopes, scope) ||
		scope != ScopeOperator && slices.Contains(k.Scopes, ScopeAll)
}

// MayGrant reports whether the key may give the scope to another key: only a
// scope that it has itself.
func (k Key) MayGrant(scope string) bool {
	if scope == ScopeAll {
		return slices.Contains(k.Scopes, ScopeAll)
	}
	return k.Has(scope)
}

// A Caller is an authenticated caller: the account, its plan, and the key. It is
// passed as an argument.
type Caller struct {
	Account Account
	Plan    Plan
	Key     Key
}

// Hint returns the part of a secret that may be shown: its first and last four
// characters.
func Hint(secret string) string {
	if len(secret) < 12 {
		return strings.Repeat("*", len(secret))
	}
	return secret[:4] + "…" + secret[len(secret)-4:]
}
