// Package oauth is a client for authorization servers: it finds the server that a tool server
// trusts, registers the service there, and gets tokens for a code, a refresh token, or the
// client itself.
//
// Every request goes through package outbound, is bounded, and follows no redirect. Servers
// without PKCE (S256) are refused, and so is metadata whose issuer differs from the requested
// one, or with endpoints at foreign sites. The package stores nothing. Its errors are [*Error],
// whose texts are for owners of connections and contain no token.
//
// See docs/decisions/0050-implement-the-oauth-exchanges-ourselves.md. Start with [Client.Discover],
// [Client.AuthorizeURL] and [Client.Token].
package oauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"stoa/internal/base/outbound"
)

// Limits of exchanges with authorization servers. Fetches are limited because a hostile server
// names the addresses that are requested next.
const (
	MaxDocument = 64 << 10 // bytes of a reply
	MaxFetches  = 6        // requests of one discovery
	Timeout     = 15 * time.Second
	maxToken    = 16 << 10 // bytes
	maxScopes   = 50
	maxText     = 200 // characters of a server's text in an error
)

// An Error is a failed exchange, or an unusable server.
type Error struct {
	Message string
	Code    string // such as invalid_grant; empty if the server sent none
	Status  int    // HTTP status of an unsuccessful answer; 0 for other errors
	Reason  outbound.Reason
	Err     error // for logs
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Refused reports whether the server will never accept the sent data again: the person must
// authorize again.
func (e *Error) Refused() bool {
	return slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "access_denied"}, e.Code)
}

// Unexplained reports whether the server refused the sent data without a readable reason. One
// such answer does not end an authorization, because any proxy in between may have sent it.
func (e *Error) Unexplained() bool {
	return e.Code == "" && e.Status/100 == 4 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

func failed(format string, args ...any) *Error { return &Error{Message: fmt.Sprintf(format, args...)} }

// A Client sends the requests.
type Client struct {
	http  *outbound.Client
	check func(context.Context, *url.URL) error
}

// New returns a client for a network.
func New(n *outbound.Network) *Client {
	return &Client{http: n.Client(outbound.Limits{Body: MaxDocument, ErrorBody: 8 << 10, Total: Timeout}), check: n.Check}
}

// A Server is the metadata of an authorization server (RFC 8414).
type Server struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Grants        []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	SaysIssuer    bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	TakesDocument bool     `json:"client_id_metadata_document_supported"`

	assumed bool // the server publishes no metadata
}

// A Found is the result of a discovery.
type Found struct {
	Resource string // for which tokens are requested (RFC 8707)
	Scopes   []string
	Server   Server
}

// fetches counts the requests of one discovery.
type fetches struct {
	c    *Client
	left int
}

// get reads a JSON document into v. It reports false if the server does not have it.
func (f *fetches) get(ctx context.Context, address string, v any) (bool, error) {
	if f.left--; f.left < 0 {
		return false, failed("Discovering the authorization server needs more than %d requests.", MaxFetches)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, failed("The server names an invalid address.")
	}
	req.Header.Set("Accept", "application/json")
	reply, err := f.c.exchange(req)
	if err != nil {
		return false, err
	}
	kind, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type"))
	return reply.Status == http.StatusOK && kind == "application/json" && json.Unmarshal(reply.Body, v) == nil, nil
}

func (c *Client) exchange(req *http.Request) (*outbound.Reply, error) {
	req.Header.Set("User-Agent", "stoa")
	reply, err := c.http.Exchange(req)
	if err == nil {
		return reply, nil
	}
	e := &Error{Message: "The authorization server cannot be reached: " + err.Error() + ".", Err: err}
	if network, ok := errors.AsType[*outbound.Error](err); ok {
		if e.Reason = network.Reason; e.Reason == outbound.NotAllowed {
			e.Message = "The authorization uses an address that must not be accessed from this service. Its operator can allow it (outbound.allow), unless it is an address of this service itself."
		}
	}
	return nil, e
}

// Discover finds the authorization server that a server with tools trusts (RFC 9728), by a
// request without a token and by well-known addresses, and reads its metadata. A server that
// does not name one is assumed to be its own authorization server.
func (c *Client) Discover(ctx context.Context, address string, mcp bool) (*Found, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, failed("The address of the connection is invalid.")
	}
	f := &fetches{c, MaxFetches}
	origin := &url.URL{Scheme: u.Scheme, Host: u.Host}
	var about struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	places, scopes, refused, err := f.challenge(ctx, address, mcp)
	if err != nil {
		return nil, err
	}
	if len(places) == 0 {
		const known = "/.well-known/oauth-protected-resource"
		if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
			places = append(places, origin.String()+known+path)
		}
		places = append(places, origin.String()+known)
	}
	found := &Found{Resource: canonical(u), Scopes: scopes}
	issuer := origin.String()
	for _, place := range places {
		there, err := f.get(ctx, place, &about)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		if !Covers(about.Resource, address) {
			return nil, failed("The server identifies itself as the resource %s, which differs from the connection's.", cut(about.Resource))
		}
		if len(about.Servers) == 0 {
			return nil, failed("The server names no authorization server.")
		}
		found.Resource, issuer = about.Resource, about.Servers[0]
		if len(found.Scopes) == 0 && len(about.Scopes) <= maxScopes {
			found.Scopes = about.Scopes
		}
		break
	}
	found.Server, err = f.server(ctx, issuer)
	if err == errNone && refused && len(about.Servers) == 0 {
		found.Server, err = assumed(origin.String()), nil
	}
	return found, err
}

// challenge sends a request without a token to the server with tools, and returns the
// addresses of its metadata and the required scopes according to its refusal, if it refuses.
func (f *fetches) challenge(ctx context.Context, address string, mcp bool) (places, scopes []string, refused bool, err error) {
	f.left--
	method, body := http.MethodGet, []byte(nil)
	if mcp {
		method, body = http.MethodPost, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, false, failed("The address of the connection is invalid.")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if mcp {
		req.Header.Set("Content-Type", "application/json")
	}
	reply, err := f.c.exchange(req)
	if e, ok := errors.AsType[*Error](err); ok && e.Reason != outbound.NotAllowed && e.Reason != outbound.Unreachable {
		return nil, nil, false, nil // since the reply may be an endless stream, and the well-known addresses may still work
	}
	if err != nil || reply.Status != http.StatusUnauthorized {
		return nil, nil, false, err
	}
	for _, c := range bearer(reply.Header.Values("WWW-Authenticate")) {
		if at := c["resource_metadata"]; at != "" && places == nil {
			places = []string{at}
		}
		if scope := c["scope"]; scope != "" && scopes == nil {
			scopes = strings.Fields(scope)
		}
	}
	return places, scopes[:min(len(scopes), maxScopes)], true, nil
}

// bearer returns the parameters of the challenges for a token in headers.
func bearer(headers []string) (all []map[string]string) {
	for _, header := range headers {
		challenges, _ := oauthex.ParseWWWAuthenticate([]string{header}) // each alone, so that an unreadable one does not affect the others
		for _, c := range challenges {
			if c.Scheme == "bearer" {
				all = append(all, c.Params)
			}
		}
	}
	return all
}

// Lacking returns the scopes that a server requires for a request, according to the headers
// WWW-Authenticate of its refusal; nil if it does not refuse the request for its scopes.
func Lacking(headers []string) []string {
	for _, c := range bearer(headers) {
		if c["error"] == "insufficient_scope" && plain(strings.ReplaceAll(c["scope"], " ", "")) {
			return Join(nil, strings.Fields(c["scope"]))
		}
	}
	return nil
}

// Join returns the scopes of both lists, each once, at most maxScopes.
func Join(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) && len(all) < maxScopes {
			all = append(all, s)
		}
	}
	return all
}

// server reads the metadata of an authorization server, at the places of RFC 8414 and of OpenID
// Connect, since a server may publish only one.
func (f *fetches) server(ctx context.Context, issuer string) (s Server, err error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return s, failed("The server names an authorization server with an invalid address.")
	}
	origin := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		s = Server{}
		there, err := f.get(ctx, place, &s)
		if err != nil {
			return s, err
		}
		if !there {
			continue
		}
		if s.Issuer != issuer { // RFC 8414, 3.3
			return s, failed("The authorization server %s identifies itself as %s.", cut(issuer), cut(s.Issuer))
		}
		if s.Token == "" {
			return s, failed("The authorization server does not have a token endpoint.")
		}
		return s, nil
	}
	return s, errNone
}

var errNone = failed("No authorization server was found for the server: it may require another kind of secret.")

// assumed returns the authorization server at an origin without metadata, because version
// 2025-03-26 of the protocol defines these endpoints for such a server.
func assumed(origin string) Server {
	return Server{
		Issuer: origin, Authorization: origin + "/authorize", Token: origin + "/token", Registration: origin + "/register",
		Challenges: []string{"S256"}, assumed: true,
	}
}

// canonical returns the resource of an address. RFC 8707 forbids a fragment, and a query should
// not be part of it.
func canonical(u *url.URL) string {
	c := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	return strings.TrimSuffix(c.String(), "/")
}

// Covers reports whether a resource is an address, or a parent of it.
func Covers(resource, address string) bool {
	r, err := url.Parse(resource)
	u, err2 := url.Parse(address)
	if err != nil || err2 != nil || r.User != nil || r.Fragment != "" || r.RawQuery != "" {
		return false
	}
	if !strings.EqualFold(r.Scheme, u.Scheme) || outbound.HostPort(lower(r)) != outbound.HostPort(lower(u)) {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/")
	return u.EscapedPath() == path || strings.HasPrefix(u.EscapedPath(), path+"/") || path == ""
}

func lower(u *url.URL) *url.URL {
	return &url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host)}
}

// A Request is an authorization request.
type Request struct {
	ClientID, RedirectURI, Resource string
	State, Verifier                 string
	Scopes                          []string
}

// AuthorizeURL returns the address that a person opens to authorize. The server must support
// PKCE with S256 (RFC 7636), because otherwise a stolen code could be used. The address must be
// https, or http if the network allows that or the host is this machine.
func (c *Client) AuthorizeURL(ctx context.Context, s Server, r Request) (string, error) {
	if !slices.Contains(s.Challenges, "S256") {
		return "", failed("The authorization server does not support PKCE with S256, without which a stolen code could be used. It is not used.")
	}
	u, err := url.Parse(s.Authorization)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", failed("The authorization server does not have an authorization endpoint.")
	}
	if u.Scheme == "http" && !Loopback(u) && c.check(ctx, u) != nil {
		return "", failed("The authorization endpoint does not use TLS. It is not used.")
	}
	if err := s.checkSite(s.Authorization); err != nil {
		return "", err
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": r.ClientID, "redirect_uri": r.RedirectURI, "state": r.State, "resource": r.Resource,
		"code_challenge": Challenge(r.Verifier), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if len(r.Scopes) > 0 {
		q.Set("scope", strings.Join(r.Scopes, " "))
	}
	u.RawQuery, u.Fragment = q.Encode(), ""
	return u.String(), nil
}

// Loopback reports whether the host of an address is a name of this machine.
func Loopback(u *url.URL) bool {
	host := u.Hostname()
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// Challenge returns the S256 challenge of a verifier.
func Challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// CheckIssuer refuses a redirect whose issuer differs from the requested one, or is missing
// although the server always sends it. The names are compared exactly, because RFC 9207
// requires that.
func CheckIssuer(issuer string, says bool, got url.Values) error {
	iss, named := got["iss"]
	switch {
	case len(iss) > 1:
		return failed("The answer names several authorization servers, but %s was expected. Nothing was authorized.", cut(issuer))
	case named && iss[0] != issuer:
		return failed("The answer comes from the authorization server %s, but %s was expected. Nothing was authorized.", cut(iss[0]), cut(issuer))
	case says && !named:
		return failed("The answer does not name its authorization server (iss), but %s always does. Nothing was authorized.", cut(issuer))
	}
	return nil
}

// A ClientID is the identity of a client at an authorization server.
type ClientID struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Method string `json:"token_endpoint_auth_method,omitempty"`
}

// Document returns the service's client metadata, for its own address and for registrations.
// Its application_type depends on the redirect address, because an authorization server refuses
// one on this machine for the type web.
func Document(name, redirectURI string) map[string]any {
	kind := "web"
	if u, err := url.Parse(redirectURI); err == nil && Loopback(u) {
		kind = "native"
	}
	return map[string]any{
		"application_type": kind, "client_name": name, "redirect_uris": []string{redirectURI}, "grant_types": []string{"authorization_code", "refresh_token"},
		"response_types": []string{"code"}, "token_endpoint_auth_method": "none",
	}
}

// Register registers the service as a client dynamically (RFC 7591).
func (c *Client) Register(ctx context.Context, s Server, name, redirectURI string) (id ClientID, err error) {
	if s.Registration == "" {
		return id, failed("The authorization server does not allow dynamic registration. Register a client there with the redirect address %s, and set auth.clientId.", redirectURI)
	}
	if err := s.checkSite(s.Registration); err != nil {
		return id, err
	}
	body, err := json.Marshal(Document(name, redirectURI))
	if err != nil {
		return id, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Registration, bytes.NewReader(body))
	if err != nil {
		return id, failed("The authorization server names an invalid registration endpoint.")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	reply, err := c.exchange(req)
	if err != nil {
		return id, err
	}
	if reply.Status/100 != 2 && s.assumed {
		return id, errNone
	}
	if reply.Status/100 != 2 {
		return id, refusal("The authorization server did not register the service", reply)
	}
	if json.Unmarshal(reply.Body, &id) != nil || !plain(id.ID) || id.Secret != "" && !plain(id.Secret) {
		return id, failed("The authorization server's answer to a registration cannot be read.")
	}
	if id.Method == "" && id.Secret != "" {
		id.Method = "client_secret_basic"
	}
	return id, nil
}

// A Grant contains the parameters of a token request.
type Grant struct {
	Endpoint string
	Client   ClientID
	Form     url.Values // grant_type and its parameters
}

// Tokens are the tokens in a server's answer.
type Tokens struct {
	Access, Refresh string
	ExpiresIn       time.Duration // 0 if unknown
}

// Token requests tokens.
func (c *Client) Token(ctx context.Context, g Grant) (t Tokens, err error) {
	form := url.Values{}
	for name, values := range g.Form {
		form[name] = values
	}
	basic := g.Client.Secret != "" && g.Client.Method != "client_secret_post"
	if !basic {
		form.Set("client_id", g.Client.ID)
		if g.Client.Secret != "" {
			form.Set("client_secret", g.Client.Secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return t, failed("The authorization server names an invalid token endpoint.")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		req.SetBasicAuth(url.QueryEscape(g.Client.ID), url.QueryEscape(g.Client.Secret)) // RFC 6749, 2.3.1
	}
	reply, err := c.exchange(req)
	if err != nil {
		return t, err
	}
	if reply.Status/100 != 2 {
		return t, refusal("The authorization server did not issue a token", reply)
	}
	var answer struct {
		Access  string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Refresh string      `json:"refresh_token"`
		Expires json.Number `json:"expires_in"`
	}
	if json.Unmarshal(reply.Body, &answer) != nil || !plain(answer.Access) || answer.Refresh != "" && !plain(answer.Refresh) || !strings.EqualFold(cmp.Or(answer.Type, "Bearer"), "Bearer") {
		return t, failed("The authorization server's answer does not contain a usable token.")
	}
	t.Access, t.Refresh = answer.Access, answer.Refresh
	if seconds, err := answer.Expires.Float64(); err == nil && seconds > 0 {
		t.ExpiresIn = time.Duration(min(seconds, 10*365*86400)) * time.Second // to avoid an overflow
	}
	return t, nil
}

// refusal returns the error for an unsuccessful reply. It contains only the server's error
// code, because the rest may repeat the sent data.
func refusal(what string, reply *outbound.Reply) *Error {
	var answer struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(reply.Body, &answer) // since a proxy may have answered
	e := failed("%s: it answered with the status %d.", what, reply.Status)
	e.Status = reply.Status
	if code := answer.Error; code != "" && len(code) <= 64 && !strings.ContainsFunc(code, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) {
		e.Code, e.Message = code, fmt.Sprintf("%s: %s.", what, code)
	}
	return e
}

// plain reports whether a text of a server can be sent back in a header.
func plain(text string) bool {
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

func cut(text string) string {
	quoted := fmt.Sprintf("%q", text)
	return quoted[:min(len(quoted), maxText)]
}

// checkSite refuses an endpoint that is neither at the site of the issuer nor at that of the
// token endpoint. A hostile server could otherwise have a person sign in at an honest one and
// redeem the code itself (RFC 9700, 4.4).
func (s Server) checkSite(endpoint string) error {
	if at := siteOf(endpoint); at == siteOf(s.Issuer) || at == siteOf(s.Token) {
		return nil
	}
	return failed("The authorization server %s refers to %s, which is neither at its own site nor at that of its token endpoint. "+
		"It is not used, because it could obtain tokens that are meant for others. Check the connection's address. If it is right, "+
		"store a token as the connection's secret, or ask the server's operator for endpoints at one site.", cut(s.Issuer), cut(place(endpoint)))
}

// place returns the origin of an address, or the address if it has none.
func place(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

func siteOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return outbound.SiteOf(u.Hostname())
}

// Places returns the origins at which a person signs in and from which tokens come.
func (s Server) Places() (signIn, token string) { return place(s.Authorization), place(s.Token) }
