package stoa

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A Key is an API key as stored: without its secret.
type Key struct {
	ID                string    `db:"id"`
	AccountID         string    `db:"account_id"`
	Name              string    `db:"name"`
	Hint              string    `db:"hint"`          // first and last four characters of the secret
	Scopes            []string  `db:"scopes,fields"` // see [Scopes]
	RequestsPerMinute int       `db:"rpm"`           // 0 means only the plan's limit
	MaxCreditsPerDay  Credits   `db:"max_per_day"`   // 0 means no cap of the key's own
	ExpiresAt         time.Time `db:"expires_at"`    // zero means never
	RevokedAt         time.Time `db:"revoked_at"`    // zero means in force
	LastUsedAt        time.Time `db:"last_used_at"`  // zero means never; kept to the minute
	CreatedAt         time.Time `db:"created_at"`
	RootID            string    `db:"root_id"`         // key whose limits it shares, so that they do not multiply; empty means its own
	MadeBy            string    `db:"made_by"`         // id of the creating key; empty if there is none or if it is unknown
	KeepsMade         bool      `db:"keeps_made"`      // its objects continue to work after its revocation
	Kind              string    `db:"kind"`            // [KeyOfMember], or empty for a key with a secret
	MemberID          string    `db:"member_id"`       // id of its person; empty if it belongs to the account
	SignedInAt        time.Time `db:"signed_in_at"`    // the latest sign-in of its member; zero if it belongs to the account
	Models            []string  `db:"models,fields"`   // ids, or patterns such as alpha-*; empty means all
	Networks          []string  `db:"networks,fields"` // permitted CIDR blocks; empty means all
	RequireEndUser    bool      `db:"require_end_user"`
}

// KeyOfMember is the kind of a key through which a member acts in the console. It has no secret.
const KeyOfMember = "console"

// PausesAt returns the time from which a member's key is refused because the member has not
// signed in for the duration after; zero means never.
func (k Key) PausesAt(after time.Duration) time.Time {
	if after == 0 || k.Kind == KeyOfMember || k.MemberID == "" {
		return time.Time{}
	}
	return k.SignedInAt.Add(after)
}

// Root returns the id of the key that counts requests, event streams and daily credits: its own, or
// that of the key that it was rotated from or created with, so that limits do not multiply.
func (k Key) Root() string { return cmp.Or(k.RootID, k.ID) }

// Limited reports whether the key has its own limit.
func (k Key) Limited() bool { return k.RequestsPerMinute > 0 || k.MaxCreditsPerDay > 0 }

// Limits of the lists of a key.
const (
	MaxKeyModels   = 32
	MaxKeyNetworks = 32
)

// AllowsModel reports whether the key may use the model with that id.
func (k Key) AllowsModel(id string) bool {
	return len(k.Models) == 0 || slices.ContainsFunc(k.Models, func(pattern string) bool { return covers(pattern, id) })
}

// covers reports whether a pattern includes everything that another one includes, or an id.
func covers(pattern, other string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == other || open && strings.HasPrefix(other, prefix)
}

// AllowsAddress reports whether the key may be used from that address. The zero address is
// unknown, so that a key with networks refuses it.
func (k Key) AllowsAddress(a netip.Addr) bool { return InNetworks(k.Networks, a) }

// InNetworks reports whether an address is in one of the CIDR blocks, of which none means all.
func InNetworks(networks []string, a netip.Addr) bool {
	return len(networks) == 0 || a.IsValid() && slices.ContainsFunc(networks, func(text string) bool {
		block, err := netip.ParsePrefix(text)
		return err == nil && block.Contains(a.Unmap().WithZone(""))
	})
}

// ModelsWithin reports whether the key may use no model that by may not use.
func (k Key) ModelsWithin(by Key) bool {
	return len(by.Models) == 0 || len(k.Models) > 0 && !slices.ContainsFunc(k.Models, func(pattern string) bool {
		return !slices.ContainsFunc(by.Models, func(wider string) bool { return covers(wider, pattern) })
	})
}

// NetworksWithin reports whether the key may be used from no network from which by may not.
func (k Key) NetworksWithin(by Key) bool {
	inside := func(text string) bool {
		block, err := netip.ParsePrefix(text)
		return err == nil && slices.ContainsFunc(by.Networks, func(wider string) bool {
			w, err := netip.ParsePrefix(wider)
			return err == nil && w.Bits() <= block.Bits() && w.Contains(block.Addr())
		})
	}
	return len(by.Networks) == 0 || len(k.Networks) > 0 && !slices.ContainsFunc(k.Networks, func(text string) bool { return !inside(text) })
}

// Limits of the keys of package seal. The configuration contains these keys.
const (
	SealKeyBytes = 32
	MaxSealKeys  = 8 // several are in use only while the first replaces the others
)

// Scopes are the permissions of a key, except [ScopeAll] and [ScopeOperator].
var Scopes = []string{
	"responses",
	"agents:read", "agents:write",
	"sessions:read", "sessions:write",
	"drive:read", "drive:write",
	"schedules:read", "schedules:write",
	"embeds:write",
	"approvals:write",
	"connections:read", "connections:write",
	"secrets:write",
	"webhooks:read", "webhooks:write",
	"keys:write",
	"usage:read",
	ScopeAccountRead, ScopeAccountWrite,
	ScopeOperatorRead, ScopeOperatorBilling,
}

// ScopeOperator permits to run the service: accounts, grants, keys of other accounts. It
// includes [ofOperator]. ScopeAll includes every other scope of [Scopes], but not those,
// because keys with "*" did not have them when they were created.
const (
	ScopeAll             = "*"
	ScopeOperator        = "operator"
	ScopeAccountRead     = "account:read"     // members, budgets and the audit log
	ScopeAccountWrite    = "account:write"    // members, invitations and budgets
	ScopeOperatorRead    = "operator:read"    // read access to the service and to the data of all accounts
	ScopeOperatorBilling = "operator:billing" // grants, plans, invitations to all accounts
)

// ofOperator are the scopes that only ScopeOperator includes.
var ofOperator = []string{ScopeAccountRead, ScopeAccountWrite, ScopeOperatorRead, ScopeOperatorBilling}

// Has reports whether the key carries the scope.
func (k Key) Has(scope string) bool {
	switch {
	case slices.Contains(k.Scopes, scope):
		return true
	case scope == ScopeOperator:
		return false
	case slices.Contains(ofOperator, scope):
		return slices.Contains(k.Scopes, ScopeOperator)
	}
	return slices.Contains(k.Scopes, ScopeAll)
}

// MayGrant reports whether the key may give the scope to another key. It must have the scope
// itself, since a caller could otherwise create a key with more rights than its own.
func (k Key) MayGrant(scope string) bool {
	if scope == ScopeAll {
		return slices.Contains(k.Scopes, ScopeAll)
	}
	return k.Has(scope)
}

// OfService reports whether a scope is a right in the whole service, not in one account.
func OfService(scope string) bool {
	return scope == ScopeOperator || scope == ScopeOperatorRead || scope == ScopeOperatorBilling
}

// Manages reports whether the key may see and change another key of its account. A member's key
// manages only the keys of that member, unless it has [ScopeAccountWrite].
func (k Key) Manages(other Key) bool {
	return k.MemberID == "" || k.MemberID == other.MemberID || k.Has(ScopeAccountWrite)
}

// A Caller is an authenticated caller: the account, its plan, and the key.
type Caller struct {
	Account Account
	Plan    Plan
	Key     Key
}

// Hint returns the part of a secret that may be shown: its first and last four characters. It
// returns only asterisks for a short secret, since those eight would be most of it.
func Hint(secret string) string {
	if len(secret) < 12 {
		return strings.Repeat("*", len(secret))
	}
	return secret[:4] + "…" + secret[len(secret)-4:]
}
