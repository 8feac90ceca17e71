package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// SignIn are the settings for people who sign in to the console.
type SignIn struct {
	Session time.Duration `yaml:"session" env:"STOA_SIGN_IN_SESSION"` // maximum duration of a session
	// KeysPauseAfter is the time since a member's latest sign-in after which the keys that the member created
	// are refused, because the identity provider may have removed the person; 0 means never.
	KeysPauseAfter time.Duration `yaml:"keysPauseAfter,omitempty"`
	OIDC           []OIDC        `yaml:"oidc,omitempty"`
}

// OIDC is an identity provider with OpenID Connect.
type OIDC struct {
	Name             string `yaml:"name"`                       // part of the address /signin/{name}
	Issuer           string `yaml:"issuer"`                     // issuer byte for byte as in tokens, because OpenID Connect requires them to be equal
	ClientID         string `yaml:"clientId"`                   // id of this service
	ClientSecretEnv  string `yaml:"clientSecretEnv,omitempty"`  // variable with the secret; set one of these two, or none for a public client
	ClientSecretFile string `yaml:"clientSecretFile,omitempty"` // file with the secret
	// MaxAge is the maximum age of the person's sign-in at the provider; 0 means no maximum.
	MaxAge      time.Duration `yaml:"maxAge,omitempty"`
	Scopes      []string      `yaml:"scopes,omitempty"`
	GroupsClaim string        `yaml:"groupsClaim,omitempty"` // claim that contains a person's groups; empty means groups
	Groups      []GroupRule   `yaml:"groups,omitempty"`
	// NewAccounts creates an account for each person who is not a member of one. If nil, these people
	// are refused, because otherwise everybody at the provider could use the service.
	NewAccounts *NewAccounts `yaml:"newAccounts,omitempty"`

	secret *string // secret from one of the two; a pointer for the reason in Provider
}

// Secret returns the client secret; empty for a public client.
func (p OIDC) Secret() string { return or(p.secret) }

// NewAccounts contains the plan and the first credits of accounts that sign-ins create.
type NewAccounts struct {
	Plan       string       `yaml:"plan,omitempty"` // empty means free
	GrantMicro stoa.Credits `yaml:"grantMicro,omitempty"`
}

// A GroupRule is a membership for the people in a group.
type GroupRule struct {
	Group    string `yaml:"group"`
	Account  string `yaml:"account,omitempty"`  // id; empty means the operator's account
	Role     string `yaml:"role,omitempty"`     // role of [stoa.Roles]; empty means viewer, with Operator
	Operator string `yaml:"operator,omitempty"` // role of [stoa.OperatorRoles]; empty means none
}

const (
	maxIdentityProviders = 20
	maxGroupRules        = 1000
	maxScopes            = 20 // maximum of an identity provider, besides the three that are always requested
)

// signIn checks the identity providers. It sends no request, so that the service starts without them.
func (c *checker) signIn() {
	if s := c.SignIn.Session; s < 5*time.Minute || s > 30*24*time.Hour {
		c.problem("signIn.session", "%v is out of range; use 5m to 30d", s)
	}
	if p := c.SignIn.KeysPauseAfter; p != 0 && (p < 24*time.Hour || p > 730*24*time.Hour) {
		c.problem("signIn.keysPauseAfter", "%v is out of range; use 24h to 730d, or 0 so that no key pauses", p)
	}
	if len(c.SignIn.OIDC) == 0 {
		return
	}
	if c.PublicURL == "" {
		c.problem("publicUrl", "identity providers redirect people to this address; set it")
	}
	if c.Database != "" && len(c.Secrets.Keys) == 0 {
		c.problem("secrets.keys", "a sign-in that begins on one node may end on another; set a key, which encrypts its state")
	}
	if n := len(c.SignIn.OIDC); n > maxIdentityProviders {
		c.problem("signIn.oidc", "%d are too many; use up to %d", n, maxIdentityProviders)
	}
	seen := map[string]bool{}
	for i, p := range c.SignIn.OIDC {
		path := fmt.Sprintf("signIn.oidc[%d]", i)
		switch {
		case !isName(p.Name):
			c.problem(path+".name", "%q is not a valid name; use lowercase letters, digits, - and _", p.Name)
		case seen[p.Name]:
			c.problem(path+".name", "there are two identity providers named %q; rename one", p.Name)
		}
		seen[p.Name] = true
		if message := issuerProblem(p.Issuer); message != "" {
			c.problem(path+".issuer", "%s", message)
		}
		if p.ClientID == "" {
			c.problem(path+".clientId", "the client id is missing; set the one that the identity provider has given this service")
		}
		if p.ClientSecretEnv != "" && p.ClientSecretFile != "" {
			c.problem(path, "clientSecretEnv and clientSecretFile are set; keep one of them")
		}
		if p.MaxAge != 0 && (p.MaxAge < time.Minute || p.MaxAge > 365*24*time.Hour) {
			c.problem(path+".maxAge", "%v is out of range; use 1m or more, or 0 for no limit", p.MaxAge)
		}
		if n := len(p.Scopes); n > maxScopes {
			c.problem(path+".scopes", "%d are too many; use up to %d", n, maxScopes)
		}
		for j, scope := range p.Scopes {
			if scope == "" || len(scope) > 200 || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
				c.problem(fmt.Sprintf("%s.scopes[%d]", path, j), "%q is not a scope; a scope has 1 to 200 printable ASCII characters, without spaces, quotes and backslashes", scope)
			}
		}
		c.groups(path+".groups", p.Groups)
		if n := p.NewAccounts; n != nil {
			if _, known := c.Plans[n.Plan]; n.Plan != "" && !known {
				c.problem(path+".newAccounts.plan", "there is no plan %q; use one of %s", n.Plan, strings.Join(slices.Sorted(maps.Keys(c.Plans)), ", "))
			}
			if n.GrantMicro < 0 || n.GrantMicro > maxIncluded {
				c.problem(path+".newAccounts.grantMicro", "%d is not between 0 and %d micro-credits", int64(n.GrantMicro), int64(maxIncluded))
			}
		}
	}
}

func (c *checker) groups(path string, rules []GroupRule) {
	if n := len(rules); n > maxGroupRules {
		c.problem(path, "%d are too many; use up to %d", n, maxGroupRules)
	}
	for i, g := range rules {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case g.Group == "":
			c.problem(at+".group", "name the group, as it is in the claim")
		case g.Role == "" && g.Operator == "":
			c.problem(at+".role", "a group gives a role; use one of %s", strings.Join(stoa.Roles, ", "))
		case g.Role != "" && !slices.Contains(stoa.Roles, g.Role):
			c.problem(at+".role", "%q is not one of %s", g.Role, strings.Join(stoa.Roles, ", "))
		case g.Operator != "" && !slices.Contains(stoa.OperatorRoles, g.Operator):
			c.problem(at+".operator", "%q is not one of %s", g.Operator, strings.Join(stoa.OperatorRoles, ", "))
		case g.Operator != "" && g.Account != "":
			c.problem(at+".operator", "operators are members of the operator's account; remove account")
		case g.Operator == "" && g.Account == "":
			c.problem(at+".account", "name the account by its id, such as acc_…")
		}
	}
}

// issuerProblem returns the error of an issuer; empty if there is none.
func issuerProblem(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && !isLocalHTTP(u) {
		return fmt.Sprintf("%q is not an issuer; write its https address as in its discovery document, such as https://id.example.com/", issuer)
	}
	tenant, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if strings.HasPrefix(u.Hostname(), "login.microsoftonline.") && slices.Contains([]string{"common", "organizations", "consumers"}, tenant) {
		return fmt.Sprintf("%q accepts people of every tenant, and its tokens have other issuers; use that of your tenant, https://%s/TENANT-ID/v2.0", issuer, u.Host)
	}
	return ""
}

// isLocalHTTP reports whether a URL has a loopback address and no TLS.
func isLocalHTTP(u *url.URL) bool {
	return u.Scheme == "http" && isLocal(u.Hostname())
}

func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
