package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
)

const (
	// discoveryLife is the lifetime of an identity provider's document.
	discoveryLife = time.Hour
	RequestTime   = 10 * time.Second
	// stepTime is the timeout of all requests in one step of a sign-in, because a person waits.
	stepTime = 20 * time.Second
	// leeway is the tolerated difference between the clocks.
	leeway = time.Minute
	// MaxReply is the maximum size of an identity provider's reply, in bytes.
	MaxReply = 1 << 20
)

type provider struct {
	config.OIDC
	redirect string
	client   *http.Client

	flight singleflight.Group // shares a discovery among sign-ins

	mu   sync.Mutex
	read time.Time // time of the document
	doc  *oidc.Provider
}

func newProvider(p config.OIDC, publicURL string, client http.RoundTripper) *provider {
	return &provider{
		OIDC: p, redirect: publicURL + "/signin/" + p.Name + "/callback",
		client: &http.Client{Transport: client, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// document returns the endpoints and keys of the provider. If a newer document cannot be read, it returns the
// known one, so that a failure of the provider does not end sign-ins.
func (p *provider) document(ctx context.Context) (*oidc.Provider, error) {
	known, read := p.known()
	if known != nil && time.Since(read) < discoveryLife {
		return known, nil
	}
	// One request serves all waiting sign-ins, so that a provider that is down does not queue them.
	found, err, _ := p.flight.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RequestTime)
		defer cancel()
		doc, err := p.discover(ctx)
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.doc, p.read = doc, time.Now()
		}
		return doc, err
	})
	switch {
	case err == nil:
		return found.(*oidc.Provider), nil
	case known == nil:
		return nil, stoa.Errorf(stoa.CodeUpstream, "The discovery document of the identity provider cannot be read. Try again later, or ask the operator of this service.").Because(err)
	}
	return known, nil
}

// known returns the latest document and its time; nil if there is none.
func (p *provider) known() (*oidc.Provider, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doc, p.read
}

// discover reads the discovery document. Its error omits the provider's reply; see [withoutReply].
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	doc, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		err = withoutReply(err)
	}
	return doc, err
}

// Check returns the error of an identity provider: of its issuer, according to its discovery document, or of the
// first request of a sign-in, with the client, the scopes and the redirect address. Nobody signs in.
func Check(ctx context.Context, p config.OIDC, publicURL string, client http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	of := newProvider(p, publicURL, client)
	doc, err := of.discover(ctx)
	if err != nil {
		return err
	}
	settings := of.oauth(doc)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, settings.AuthCodeURL("check", oidc.Nonce("check"), oauth2.S256ChallengeOption(oauth2.GenerateVerifier())), nil)
	if err != nil {
		return errors.New("its authorization endpoint is not an address")
	}
	res, err := client.RoundTrip(req)
	if err != nil {
		return nil // not an error, because only browsers must reach it
	}
	defer res.Body.Close()
	location, err := res.Location()
	if err != nil || !strings.HasPrefix(location.String(), of.redirect) { // the provider's page for the sign-in, or for errors
		return nil
	}
	if code := location.Query().Get("error"); code != "" {
		return fmt.Errorf("the provider refuses sign-ins with the scopes %q: %s %s", strings.Join(settings.Scopes, " "), clean(code, 100), clean(location.Query().Get("error_description"), 300))
	}
	return nil
}

// withoutReply returns an error without an identity provider's reply, because that could contain tokens. Errors
// of the connection stay.
func withoutReply(err error) error {
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		found, hint := clean(mismatch.Discovered, 200), ""
		if strings.TrimSuffix(found, "/") == strings.TrimSuffix(mismatch.Provided, "/") {
			hint = ", with a different end: the final slash counts"
		}
		return fmt.Errorf("the issuer is configured as %q, but the provider's is %q%s", mismatch.Provided, found, hint)
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if refused.Response != nil {
			return fmt.Errorf("the token endpoint answered %d", refused.Response.StatusCode)
		}
		return errors.New("the token endpoint refused")
	}
	var failed interface{ Timeout() bool }
	if errors.As(err, &failed) { // *url.Error
		return err
	}
	text := err.Error()
	if len(text) >= 4 && text[3] == ' ' && strings.Trim(text[:3], "0123456789") == "" {
		return errors.New("it answered " + text[:3])
	}
	return errors.New("its reply is invalid")
}

// oauth returns the settings of requests to the provider. It requests the scope groups only if the provider
// announces it, because some refuse unknown scopes. The client authenticates as the document says, because the library
// would otherwise try two ways, and the first could use up the code.
func (p *provider) oauth(doc *oidc.Provider) *oauth2.Config {
	endpoint := doc.Endpoint()
	var d struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Scopes  []string `json:"scopes_supported"`
	}
	_ = doc.Claims(&d) // an error is ignored, because the library has read the document
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if p.Secret() == "" || len(d.Methods) > 0 && !slices.Contains(d.Methods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID, "email", "profile"}
	if len(p.Groups) > 0 && slices.Contains(d.Scopes, "groups") {
		scopes = append(scopes, "groups")
	}
	for _, scope := range p.Scopes {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.Secret(), RedirectURL: p.redirect, Endpoint: endpoint, Scopes: scopes}
}

func (p *provider) address(ctx context.Context, a attempt, ask bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	doc, err := p.document(ctx)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)}
	if ask { // asked, because the provider's own session would sign the next person in as the one before
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	if p.MaxAge > 0 {
		options = append(options, oauth2.SetAuthURLParam("max_age", strconv.FormatInt(int64(p.MaxAge/time.Second), 10)))
	}
	return p.oauth(doc).AuthCodeURL(a.State, options...), nil
}

type identity struct {
	Subject, Email, Name string
	Groups               []string
}

// claims are the claims of a token that the library does not check.
type claims struct {
	Email         string            `json:"email"`
	EmailVerified any               `json:"email_verified"` // any, because some providers send a text
	Name          string            `json:"name"`
	Username      string            `json:"preferred_username"`
	AuthTime      float64           `json:"auth_time"`
	Party         string            `json:"azp"`
	Elsewhere     map[string]string `json:"_claim_names"`
}

// rejected returns the error for a token that does not confirm the sign-in.
func rejected(cause string, args ...any) error {
	return stoa.Errorf(stoa.CodeUnauthorized, "The identity provider's confirmation of the sign-in is not valid. Begin again, or ask the operator of this service.").Because(fmt.Errorf(cause, args...))
}

// verify checks a token. The provider's clock may be behind by leeway, because a correct token would otherwise be
// refused.
func (p *provider) verify(ctx context.Context, doc *oidc.Provider, raw string) (*oidc.IDToken, error) {
	return doc.Verifier(&oidc.Config{ClientID: p.ClientID, Now: func() time.Time { return time.Now().Add(-leeway) }}).Verify(ctx, raw)
}

// againAfter is the minimum time between two readings of a discovery document, because anybody can make a
// provider's token be refused.
const againAfter = time.Minute

// again reads the discovery document again; it returns nil within [againAfter] or after an error.
func (p *provider) again(ctx context.Context) *oidc.Provider {
	p.mu.Lock()
	due := time.Since(p.read) >= againAfter
	if due {
		p.read = time.Time{}
	}
	p.mu.Unlock()
	if !due {
		return nil
	}
	doc, err := p.document(ctx)
	if err != nil {
		return nil
	}
	return doc
}

// identify exchanges a code for a token and returns the person that it names. The library checks signature,
// algorithm, issuer, audience and expiry.
func (p *provider) identify(ctx context.Context, a attempt, code string) (identity, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	doc, err := p.document(ctx)
	if err != nil {
		return identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(doc).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return identity{}, rejected("the code was not exchanged: %w", withoutReply(err))
	}
	raw, _ := token.Extra("id_token").(string)
	verified, err := p.verify(ctx, doc, raw)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); err != nil && !expired {
		// The document may be out of date, because providers change their algorithms and keys.
		if newer := p.again(ctx); newer != nil {
			doc = newer
			verified, err = p.verify(ctx, doc, raw)
		}
	}
	if err != nil {
		return identity{}, rejected("the token is not valid: %s", tokenFault(err))
	}
	if verified.Nonce != a.Nonce {
		return identity{}, rejected("the token has another nonce")
	}
	var c claims
	all := map[string]json.RawMessage{}
	if verified.Claims(&c) != nil || verified.Claims(&all) != nil {
		return identity{}, rejected("the claims of the token cannot be read")
	}
	if c.Party != "" && c.Party != p.ClientID || c.Party == "" && len(verified.Audience) > 1 {
		return identity{}, rejected("the token was issued to another client")
	}
	if p.MaxAge > 0 && time.Since(time.Unix(int64(c.AuthTime), 0)) > p.MaxAge+leeway {
		return identity{}, rejected("the sign-in at the provider is older than maxAge, or the token has no auth_time")
	}
	if verified.Subject == "" || len(verified.Subject) > 255 {
		return identity{}, rejected("the subject of the token has %d bytes; it has 1 to 255", len(verified.Subject))
	}
	if err := p.complete(ctx, doc, token, verified.Subject, &c, all); err != nil {
		return identity{}, err
	}
	who := identity{Subject: verified.Subject, Name: clean(c.Name, 200)}
	if who.Name == "" {
		who.Name = clean(c.Username, 200)
	}
	if c.EmailVerified == true || c.EmailVerified == "true" {
		who.Email = clean(c.Email, 320)
	}
	if len(p.Groups) > 0 {
		who.Groups, err = p.groups(doc, c, all)
	}
	return who, err
}

// complete reads the claims that the ID token lacks from userinfo, because with the flow code a provider may return
// those of the scopes profile and email, and groups, only there (OpenID Connect Core 5.4). If it fails, so does the
// sign-in, because a person without a name, an address or groups would lose the stored ones.
func (p *provider) complete(ctx context.Context, doc *oidc.Provider, token *oauth2.Token, subject string, c *claims, all map[string]json.RawMessage) error {
	var missing []string
	groups := p.groupsClaim()
	for claim, found := range map[string]bool{"name": c.Name != "", "email": c.Email != "", groups: len(p.Groups) == 0 || isRead(claimAt(all, groups)) || c.Elsewhere[groups] != ""} {
		if !found {
			missing = append(missing, claim)
		}
	}
	if len(missing) == 0 || doc.UserInfoEndpoint() == "" {
		return nil
	}
	slices.Sort(missing)
	var more claims
	others := map[string]json.RawMessage{}
	info, err := doc.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err == nil && info.Subject != subject {
		return rejected("userinfo is about another subject")
	}
	if err == nil {
		err = errors.Join(info.Claims(&more), info.Claims(&others))
	}
	if err != nil {
		return stoa.Errorf(stoa.CodeUpstream, "The identity provider does not say who you are. Try again later, or ask the operator of this service.").
			Because(fmt.Errorf("userinfo was not read, and the ID token lacks %s: %w", strings.Join(missing, ", "), withoutReply(err)))
	}
	c.Name, c.Username = cmp.Or(c.Name, more.Name), cmp.Or(c.Username, more.Username)
	if c.Email == "" { // taken together, because the verification belongs to the address
		c.Email, c.EmailVerified = more.Email, more.EmailVerified
	}
	if !isRead(claimAt(all, groups)) {
		all[groups] = claimAt(others, groups)
	}
	if c.Elsewhere == nil {
		c.Elsewhere = more.Elsewhere
	}
	return nil
}

func (p *provider) groupsClaim() string { return cmp.Or(p.GroupsClaim, "groups") }

// claimAt returns a claim by its name or, if there is none, by a path such as realm_access.roles, because Keycloak
// nests its roles. The name comes first, because names may contain dots themselves, as Auth0's do.
func claimAt(all map[string]json.RawMessage, name string) json.RawMessage {
	if value, ok := all[name]; ok {
		return value
	}
	first, rest, nested := strings.Cut(name, ".")
	var inner map[string]json.RawMessage
	if !nested || json.Unmarshal(all[first], &inner) != nil {
		return nil
	}
	return claimAt(inner, rest)
}

// isRead reports whether a claim has a value. It ignores null, because some providers send that instead of omitting a
// claim.
func isRead(claim json.RawMessage) bool { return len(claim) > 0 && string(claim) != "null" }

// tokenFault returns why the library rejects a token, without its contents.
func tokenFault(err error) string {
	if _, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return "it has expired"
	}
	for part, fault := range map[string]string{
		"different provider": "it has another issuer", "expected audience": "it has another audience",
		"verify signature": "its signature cannot be verified", "malformed jwt": "it is malformed, or its algorithm is not allowed", "not before": "it is not valid yet",
	} {
		if strings.Contains(err.Error(), part) {
			return fault
		}
	}
	return "it cannot be read"
}

// groups returns the groups of a person. A missing claim is an error, because it says nothing about the person's
// groups, and with an empty list the person would lose the memberships from them.
func (p *provider) groups(doc *oidc.Provider, c claims, all map[string]json.RawMessage) ([]string, error) {
	name := p.groupsClaim()
	value := claimAt(all, name)
	ok := isRead(value)
	if !ok && c.Elsewhere[name] != "" {
		return nil, stoa.Errorf(stoa.CodeScope, "You are in too many groups for the identity provider to list them. The operator of this service can use app roles instead: assign them to people, and set groupsClaim to roles.")
	}
	if !ok {
		lack := fmt.Errorf("neither the ID token nor userinfo has the claim %q", name)
		if doc.UserInfoEndpoint() == "" {
			lack = fmt.Errorf("the ID token lacks the claim %q, and the provider has no userinfo_endpoint", name)
		}
		return nil, stoa.Errorf(stoa.CodeScope, "The identity provider has not said which groups you are in, so you are not signed in, and nothing was changed. Ask the operator of this service.").
			Because(fmt.Errorf("%w; let the provider send it, also for people without groups, or set signIn.oidc[].scopes or groupsClaim (requested: %s)", lack, strings.Join(p.oauth(doc).Scopes, " ")))
	}
	var list []string
	var one string
	switch {
	case json.Unmarshal(value, &list) == nil:
	case json.Unmarshal(value, &one) == nil:
		list = []string{one}
	default:
		return nil, rejected("the claim %q is not a list of texts", name)
	}
	return list, nil
}
