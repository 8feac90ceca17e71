package tool

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"stoa/internal/agents/oauth"
	"stoa/internal/agents/remote"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
)

// StateTime is the time within which a person must complete an authorization.
const StateTime = store.AuthorizationTime

// The paths of the service that authorization servers use.
const (
	CallbackPath = "/oauth/callback"
	DocumentPath = "/oauth/client.json"
)

const clientName = "Stoa"

// An Authorization is a started authorization.
type Authorization struct {
	ID        string
	URL       string // for a person to open
	Issuer    string
	SignIn    string // origin of URL
	TokenFrom string // origin that issues the token
	ExpiresAt time.Time
}

// A plan is the stored state of an authorization until its answer arrives.
type plan struct {
	ID                         string
	Issuer, Resource, Endpoint string // Endpoint is the token endpoint
	SignIn                     string // origin where the person signs in
	SaysIssuer                 bool
	Origin                     string // origin of the connection
	Client                     oauth.ClientID
	ClientSecretID             string // replaces the secret of Client
	RedirectURI, Verifier      string
	Scopes                     []string
	Code                       string // empty until the answer arrives
}

// A holding is the sealed part of the tokens of a connection.
type holding struct {
	Endpoint       string
	Origin         string // the access token is sent to this origin only
	Client         oauth.ClientID
	ClientSecretID string
	Scopes         []string
	Access         string
	Refresh        string
}

func (t *Tools) redirectURI() (string, error) {
	u, err := url.Parse(t.PublicURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && !oauth.Loopback(u) {
		return "", stoa.Errorf(stoa.CodePublicURLRequired, "An authorization needs an https address of this service to return to. Its operator can set publicUrl.")
	}
	return strings.TrimSuffix(t.PublicURL, "/") + CallbackPath, nil
}

// ClientDocument returns the service's Client ID Metadata Document for authorization servers.
func (t *Tools) ClientDocument() (map[string]any, error) {
	redirect, err := t.redirectURI()
	if err != nil {
		return nil, err
	}
	d := oauth.Document(clientName, redirect)
	d["client_id"] = strings.TrimSuffix(redirect, CallbackPath) + DocumentPath
	return d, nil
}

func stateRef(accountID, hash string) vault.Ref {
	return vault.Ref{AccountID: accountID, ID: hash, Kind: "oauth_state", Version: 1}
}

func clientRef(c store.OAuthClient) vault.Ref {
	return vault.Ref{AccountID: c.AccountID, ID: c.ID, Kind: "oauth_client", Origin: c.Issuer, Version: c.Version}
}

func tokensRef(t store.Tokens) vault.Ref {
	return vault.Ref{AccountID: t.AccountID, ID: t.ConnectionID, Kind: "oauth", Origin: t.Issuer + " " + t.Resource, Version: t.Version}
}

func (t *Tools) sealJSON(r vault.Ref, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return t.Vault.Seal(r, text)
}

func (t *Tools) openJSON(r vault.Ref, sealed string, v any) error {
	text, err := t.Vault.Open(r, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// refusedBy returns the caller's error for a failed exchange with an authorization server.
func refusedBy(err error) error {
	e, ok := errors.AsType[*oauth.Error](err)
	if !ok {
		return err
	}
	code := stoa.CodeToolServer
	if e.Reason == "not_allowed" {
		code = stoa.CodeAddressNotAllowed
	}
	return stoa.Errorf(code, "%s", e.Message).Because(e.Err)
}

func (t *Tools) connection(ctx context.Context, accountID, id string) (store.Connection, error) {
	return store.Read(ctx, t.Store, func(tx *store.Tx) (store.Connection, error) { return tx.Setup().Connection(ctx, accountID, id) })
}

// Authorize begins the authorization of a connection by a person, who must open the returned
// address.
func (t *Tools) Authorize(ctx context.Context, accountID, id string) (out Authorization, err error) {
	c, err := t.connection(ctx, accountID, id)
	if err != nil {
		return out, err
	}
	if c.OAuth == nil || c.OAuth.Grant != store.GrantCode {
		return out, stoa.Errorf(stoa.CodeNotToAuthorize, "The connection is not authorized by a person. Give it auth of the type oauth with the grant authorization_code.")
	}
	redirect, err := t.redirectURI()
	if err != nil {
		return out, err
	}
	done, err := t.enter(accountID)
	if err != nil {
		return out, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, RefreshTime)
	defer cancel()
	caller := oauth.New(t.Network)
	found, err := caller.Discover(ctx, c.URL, c.Kind == store.KindMCP)
	if err != nil {
		return out, refusedBy(err)
	}
	p := plan{
		ID: stoa.NewID("aut"), Issuer: found.Server.Issuer, Resource: found.Resource, Endpoint: found.Server.Token, SaysIssuer: found.Server.SaysIssuer, Origin: Origin(c.URL, false),
		ClientSecretID: c.ClientSecretID, RedirectURI: redirect, Verifier: random(), Scopes: found.Scopes,
	}
	p.Scopes = scopesOf(c, p.Scopes)
	out.Issuer = p.Issuer
	out.SignIn, out.TokenFrom = found.Server.Places()
	p.SignIn = out.SignIn
	state := random()
	asked := oauth.Request{RedirectURI: redirect, Resource: p.Resource, State: state, Verifier: p.Verifier, Scopes: p.Scopes, ClientID: "x"}
	if _, err := caller.AuthorizeURL(ctx, found.Server, asked); err != nil { // so that no client is registered at an unusable server
		return out, refusedBy(err)
	}
	if p.Client, err = t.client(ctx, caller, c, found.Server, redirect); err != nil {
		return out, refusedBy(err)
	}
	if _, err := t.clientSecret(ctx, accountID, p.ClientSecretID, p.Endpoint); err != nil {
		return out, err
	}
	asked.ClientID = p.Client.ID
	address, err := caller.AuthorizeURL(ctx, found.Server, asked)
	if err != nil {
		return out, refusedBy(err)
	}
	row := store.OAuthState{Hash: hashed("state", state), AccountID: accountID, ConnectionID: id}
	if row.Sealed, err = t.sealJSON(stateRef(accountID, row.Hash), p); err != nil {
		return out, err
	}
	err = t.Store.Write(ctx, func(tx *store.Tx) error {
		now, err := tx.Setup().Connection(ctx, accountID, id)
		if err != nil {
			return err
		}
		if !SameTarget(now, c) {
			return stoa.Errorf(stoa.CodeNotToAuthorize, "The connection was changed in the meantime. Authorize it again.")
		}
		row.ExpiresAt = tx.Now.Add(StateTime)
		if err := tx.Setup().InsertOAuthState(ctx, row); err != nil {
			return err
		}
		return tx.Setup().BeginAuthorization(ctx, accountID, id, p.ID)
	})
	out.ID, out.URL, out.ExpiresAt = p.ID, address, row.ExpiresAt
	return out, err
}

// scopesOf returns the scopes that are requested for a connection: its own, or else those that
// its server suggests, and those that its server required for calls.
func scopesOf(c store.Connection, suggested []string) []string {
	if len(c.OAuth.Scopes) > 0 {
		suggested = c.OAuth.Scopes
	}
	return oauth.Join(suggested, c.OAuth.Lacking)
}

// stepUp records the scopes that a server requires for a request, if it refused the request
// for its scopes. The next authorization requests them; a client that acts for itself gets a
// new token with them immediately. Other tools may still work, so none is withheld.
func (t *Tools) stepUp(ctx context.Context, c store.Connection, failure error) {
	lacking := lackingOf(failure)
	if c.OAuth == nil || len(lacking) == 0 {
		return
	}
	err := t.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		_, err := tx.Setup().EditConnection(ctx, c.AccountID, c.ID, func(now *store.Connection) error {
			if !SameTarget(*now, c) {
				return nil
			}
			o := *now.OAuth
			o.Lacking = oauth.Join(o.Lacking, lacking)
			now.OAuth = &o
			if o.Grant == store.GrantClient {
				return tx.Setup().ForgetTokens(ctx, c.AccountID, c.ID)
			}
			if now.ErrorCode == "" {
				now.ErrorCode, now.ErrorMessage = string(stoa.CodeToolServer), lackingText(lacking)
			}
			return nil
		})
		return err
	})
	if err != nil && stoa.CodeOf(err) != stoa.CodeConnectionNotFound {
		t.logger().WarnContext(ctx, "that a connection lacks scopes could not be stored", "account", c.AccountID, "connection", c.ID, "error", err)
	}
}

// lackingOf returns the scopes for whose lack a server has refused a request.
func lackingOf(failure error) []string {
	if failed, _ := errors.AsType[*remote.Error](failure); failed != nil && failed.Status == http.StatusForbidden {
		return oauth.Lacking(failed.Challenges)
	}
	return nil
}

func lackingText(scopes []string) string {
	return "The server requires more permissions (scopes: " + shown(strings.Join(scopes, " ")) + "). Authorize the connection again; they are then requested."
}

// SameTarget reports whether two states of a connection have the same authorization.
func SameTarget(a, b store.Connection) bool {
	return a.URL == b.URL && a.ClientSecretID == b.ClientSecretID && (a.OAuth == nil) == (b.OAuth == nil) &&
		(a.OAuth == nil || a.OAuth.ClientID == b.OAuth.ClientID && a.OAuth.Grant == b.OAuth.Grant && slices.Equal(a.OAuth.Scopes, b.OAuth.Scopes))
}

func random() string {
	var raw [32]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// client returns the service's client at an authorization server: the connection's, the
// service's own document, or a newly registered one. A registered client is stored only for
// its issuer.
func (t *Tools) client(ctx context.Context, caller *oauth.Client, c store.Connection, s oauth.Server, redirect string) (id oauth.ClientID, err error) {
	if c.OAuth.ClientID != "" {
		return oauth.ClientID{ID: c.OAuth.ClientID, Method: method(s)}, nil
	}
	if s.TakesDocument && strings.HasPrefix(redirect, "https://") {
		return oauth.ClientID{ID: strings.TrimSuffix(redirect, CallbackPath) + DocumentPath}, nil
	}
	kept, err := store.Read(ctx, t.Store, func(tx *store.Tx) (*store.OAuthClient, error) {
		return tx.Setup().OAuthClient(ctx, c.AccountID, s.Issuer, redirect)
	})
	if err != nil {
		return id, err
	}
	if kept != nil && t.openJSON(clientRef(*kept), kept.Sealed, &id) == nil {
		return id, nil
	}
	if id, err = caller.Register(ctx, s, clientName, redirect); err != nil {
		return id, err
	}
	row := store.OAuthClient{ID: stoa.NewID("ocl"), AccountID: c.AccountID, Issuer: s.Issuer, RedirectURI: redirect, Version: 1}
	if row.Sealed, err = t.sealJSON(clientRef(row), id); err != nil {
		return id, err
	}
	return id, t.Store.Write(ctx, func(tx *store.Tx) error { return tx.Setup().PutOAuthClient(ctx, row) })
}

// method returns how a client of the connection authenticates at a server.
func method(s oauth.Server) string {
	if slices.Contains(s.AuthMethods, "client_secret_post") && !slices.Contains(s.AuthMethods, "client_secret_basic") {
		return "client_secret_post"
	}
	return "client_secret_basic"
}

// clientSecret returns the stored secret of a client, which may only be sent to its token
// endpoint; empty if it does not have one.
func (t *Tools) clientSecret(ctx context.Context, accountID, id, endpoint string) (string, error) {
	if id == "" {
		return "", nil
	}
	s, err := store.Read(ctx, t.Store, func(tx *store.Tx) (store.Secret, error) { return tx.Setup().Secret(ctx, accountID, id) })
	if err != nil {
		return "", err
	}
	if origin := Origin(endpoint, false); s.Kind != store.SecretToken || s.Origin != origin {
		return "", stoa.Errorf(stoa.CodeSecretOrigin, "The secret of the client must have the kind token and the origin %s, which issues tokens.", origin).At("auth.clientSecretId")
	}
	value, err := t.Vault.Open(ref(s), s.Sealed)
	if err != nil {
		return "", stoa.Errorf(stoa.CodeSecretsKeyMissing, "The secret of the client can no longer be decrypted. Set its value again.").Because(err)
	}
	return string(value), nil
}

// exchange exchanges a code for tokens and stores them, if the connection is still the
// authorized one.
func (t *Tools) exchange(ctx context.Context, c store.Connection, p plan, code string) error {
	if c.OAuth == nil || p.Origin != Origin(c.URL, false) || !oauth.Covers(p.Resource, c.URL) {
		return stoa.Errorf(stoa.CodeNotToAuthorize, "The connection was changed in the meantime.")
	}
	h := holding{Endpoint: p.Endpoint, Origin: p.Origin, Client: p.Client, ClientSecretID: p.ClientSecretID, Scopes: p.Scopes}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.RedirectURI}, "code_verifier": {p.Verifier}, "resource": {p.Resource}}
	got, err := t.request(ctx, c, h, form)
	if err != nil {
		return err
	}
	h.Access, h.Refresh = got.Access, got.Refresh
	return t.keep(ctx, c, store.Tokens{AccountID: c.AccountID, ConnectionID: c.ID, Issuer: p.Issuer, Resource: p.Resource, Version: time.Now().UnixMicro(), ExpiresAt: expiry(got)}, h, p.ID)
}

func (t *Tools) request(ctx context.Context, c store.Connection, h holding, form url.Values) (oauth.Tokens, error) {
	client := h.Client
	if h.ClientSecretID != "" {
		secret, err := t.clientSecret(ctx, c.AccountID, h.ClientSecretID, h.Endpoint)
		if err != nil {
			return oauth.Tokens{}, err
		}
		client.Secret = secret
	}
	return oauth.New(t.Network).Token(ctx, oauth.Grant{Endpoint: h.Endpoint, Client: client, Form: form})
}

func expiry(t oauth.Tokens) time.Time {
	if t.ExpiresIn == 0 {
		return time.Time{}
	}
	return time.Now().Add(t.ExpiresIn)
}

// keep stores new tokens of a connection, whose catalog is then refreshed, and ends the
// authorization that they come from; empty if none.
func (t *Tools) keep(ctx context.Context, c store.Connection, row store.Tokens, h holding, authorization string) (err error) {
	if row.Sealed, err = t.sealJSON(tokensRef(row), h); err != nil {
		return err
	}
	return t.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Setup().EditConnection(ctx, c.AccountID, c.ID, func(now *store.Connection) error {
			if !SameTarget(*now, c) {
				return stoa.Errorf(stoa.CodeNotToAuthorize, "The connection was changed in the meantime.")
			}
			if now.ErrorCode == NeedsAuthorization {
				now.ErrorCode, now.ErrorMessage = "", ""
			}
			if err := tx.Setup().PutTokens(ctx, row); err != nil || authorization == "" {
				return err
			}
			tx.AuditAutomatic(c.AccountID, "connection.authorized", c.ID, "signed_in")
			return tx.Setup().EndAuthorization(ctx, c.AccountID, c.ID, authorization, store.AuthorizationDone, "")
		})
		return err
	})
}

// Deauthorize deletes the tokens of a connection, and its pending authorizations.
func (t *Tools) Deauthorize(ctx context.Context, accountID, id string) (store.Connection, error) {
	return store.Write(ctx, t.Store, func(tx *store.Tx) (store.Connection, error) {
		return tx.Setup().EditConnection(ctx, accountID, id, func(*store.Connection) error { return tx.Setup().ForgetTokens(ctx, accountID, id) })
	})
}
