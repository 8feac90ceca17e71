package stoa

import (
	"slices"
	"time"
)

// A Person signs in to the console: with an identity provider, or with links.
type Person struct {
	ID        string    `db:"id"`
	Issuer    string    `db:"issuer"`  // URL of the identity provider; empty for a person who signs in with links
	Subject   string    `db:"subject"` // id at the issuer; own id for a person who signs in with links
	Email     string    `db:"email"`   // address from the issuer, or of the invitation, to which sign-in links are sent; it does not identify the person, because addresses can change hands
	Name      string    `db:"name"`    // only for display
	CreatedAt time.Time `db:"created_at"`
}

// A Member is the membership of a person in an account.
type Member struct {
	AccountID    string    `db:"account_id"`
	PersonID     string    `db:"person_id"`
	Role         string    `db:"role"`
	OperatorRole string    `db:"operator_role"` // empty for none
	Source       string    `db:"source"`        // [SourceInvited] or [SourceGroup]
	KeyID        string    `db:"key_id"`
	KeptSince    time.Time `db:"kept_since"` // time since which groups no longer make this last owner one; zero if they do
	CreatedAt    time.Time `db:"created_at"`
}

// The sources of a membership.
const (
	SourceInvited = "invited"
	SourceGroup   = "group" // derived from an identity provider's groups at each sign-in
)

// An Invitation is a link that is used once: to become a member of an account, or, if PersonID
// is set, to sign in as that person.
type Invitation struct {
	ID           string `db:"id"`
	AccountID    string `db:"account_id"`
	PersonID     string `db:"person_id"`
	Role         string `db:"role"`
	OperatorRole string `db:"operator_role"`
	Name         string `db:"name"`    // name of the invited person; may be empty
	Email        string `db:"email"`   // address to which the link is sent; may be empty
	MadeBy       string `db:"made_by"` // id of a key

	// AccountName, if set, is the name of an account that is created when the invitation is accepted, on Plan
	// and with the credits Grant. AccountID is then the account of MadeBy.
	AccountName string  `db:"account_name"`
	Plan        string  `db:"plan"`
	Grant       Credits `db:"grant_micro"`

	CreatedAt time.Time `db:"created_at"`
	ExpiresAt time.Time `db:"expires_at"`
	UsedAt    time.Time `db:"used_at"` // zero before its use
}

// The roles of members, and those of operators, which only members of the operator's account
// have.
const (
	RoleOwner  = "owner"
	RoleMember = "member"
	RoleViewer = "viewer"

	OperatorAdmin   = "admin"
	OperatorBilling = "billing"
	OperatorSupport = "support"
)

// Roles and OperatorRoles are the names of all roles, from highest to lowest.
var (
	Roles         = []string{RoleOwner, RoleMember, RoleViewer}
	OperatorRoles = []string{OperatorAdmin, OperatorBilling, OperatorSupport}
)

var roleScopes = map[string][]string{
	RoleOwner: {ScopeAll, ScopeAccountRead, ScopeAccountWrite},
	RoleMember: {
		"responses", "agents:read", "agents:write", "sessions:read", "sessions:write", "drive:read", "drive:write",
		"schedules:read", "schedules:write", "embeds:write", "approvals:write", "connections:read", "webhooks:read", "keys:write", "usage:read",
	},
	RoleViewer:      {"agents:read", "sessions:read", "drive:read", "schedules:read", "connections:read", "webhooks:read", "usage:read"},
	OperatorAdmin:   {ScopeOperator},
	OperatorBilling: {ScopeOperatorRead, ScopeOperatorBilling},
	OperatorSupport: {ScopeOperatorRead},
}

// ScopesOf returns the scopes of a member with these roles.
func ScopesOf(role, operatorRole string) []string {
	return append(slices.Clone(roleScopes[role]), roleScopes[operatorRole]...)
}

// Common returns the scopes that keys with the scopes a and b can both grant.
func Common(a, b []string) []string {
	first, second := Key{Scopes: a}, Key{Scopes: b}
	var both []string
	for _, scope := range append(slices.Clone(a), b...) {
		if first.MayGrant(scope) && second.MayGrant(scope) && !slices.Contains(both, scope) {
			both = append(both, scope)
		}
	}
	return both
}
