// Package fakeidp is an identity provider of OpenID Connect for tests: with discovery, the
// authorization code flow with PKCE, signed tokens and userinfo. It answers in the form of recorded replies of
// real providers, which differ in where they put claims: see [Style]. It misbehaves on request: see [Fault].
package fakeidp

import (
	"cmp"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"embed"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/testkit/shape"
)

// ClientID is the client that the provider knows.
const ClientID = "stoa"

// A Fault is a way to misbehave.
type Fault string

// The faults.
const (
	None            Fault = ""
	WrongIssuer     Fault = "iss"
	WrongAudience   Fault = "aud"
	MoreAudiences   Fault = "more audiences" // without azp
	WrongParty      Fault = "azp"
	WrongNonce      Fault = "nonce"
	NoNonce         Fault = "no nonce"
	AlgNone         Fault = "alg none"
	AlgHS256        Fault = "alg HS256" // signed with the public key as the secret
	Expired         Fault = "exp"
	Foreign         Fault = "signature" // of a key that is not published
	NoSubject       Fault = "no sub"
	NoToken         Fault = "no id_token"
	Overage         Fault = "overage" // groups are elsewhere, as Entra has it
	OldSignIn       Fault = "auth_time"
	RefuseCode      Fault = "token endpoint refuses"
	CallbackIssuer  Fault = "iss of the callback"
	DiscoveryIssuer Fault = "issuer of the discovery document"
	Down            Fault = "down"
	UserinfoFails   Fault = "userinfo fails"
	UserinfoHuge    Fault = "userinfo is huge"
	UserinfoSubject Fault = "sub of userinfo"
)

// A Style is how a provider answers. The zero value is panva's oidc-provider with all claims in the ID token.
type Style struct {
	// Thin gives the claims of scopes at userinfo only, as oidc-provider does by default.
	Thin bool
	// Zitadel is the library of Zitadel: thin, with a list of audiences and neither iss in the callback nor
	// JSON in the errors of userinfo.
	Zitadel bool
	// GroupsScope is the scope that the claim groups requires; empty means that none is required.
	GroupsScope string
	// NoUserinfo leaves the userinfo endpoint out.
	NoUserinfo bool
	// Alg signs with RS512 instead of RS256.
	Alg string
	// Behind is how far the provider's clock is behind.
	Behind time.Duration
}

// Secret is in every reply of the provider that must not be repeated.
const Secret = "body-of-the-identity-provider"

//go:embed testdata/*.txtar
var recordings embed.FS

// sample returns the recorded reply of a provider of the style.
func (p *Provider) sample(name string) shape.Sample {
	file := "oidc-provider-claims.txtar"
	switch {
	case p.style.Zitadel:
		file = "zitadel.txtar"
	case p.style.Thin:
		file = "oidc-provider.txtar"
	}
	recording, err := recordings.ReadFile("testdata/" + file)
	if err != nil {
		panic(err) // it is embedded
	}
	return shape.Find(recording, name)
}

// A Provider is a running identity provider. Its fields may be changed between sign-ins.
type Provider struct {
	Issuer string

	mu      sync.Mutex
	claims  map[string]any
	fault   Fault
	style   Style
	granted map[string]string // scope by access token
	key     *rsa.PrivateKey
	kid     string
	codes   map[string]request // by code
	served  map[string]int     // requests by path
}

// A request is an authorization request.
type request struct {
	nonce, challenge, redirect, scope string
	maxAge                            bool
}

// New starts a provider. It stops when the test ends.
func New(t testing.TB) *Provider {
	p := &Provider{codes: map[string]request{}, served: map[string]int{}, granted: map[string]string{}, claims: map[string]any{"sub": "ada", "name": "Ada", "email": "ada@example.com", "email_verified": true}}
	p.Rotate(t)
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.Close)
	p.Issuer = server.URL + "/"
	return p
}

// foreign returns a key that no provider publishes.
var foreign = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// Rotate replaces the key.
func (p *Provider) Rotate(t testing.TB) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
}

// Set sets claims of the next tokens; nil removes one.
func (p *Provider) Set(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, value := range claims {
		if value == nil {
			delete(p.claims, name)
		} else {
			p.claims[name] = value
		}
	}
}

// Misbehave sets the fault of the next sign-ins.
func (p *Provider) Misbehave(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Behave sets the style of the provider.
func (p *Provider) Behave(s Style) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.style = s
}

// SignIn sends an authorization request, as a person who signs in and returns: it returns the address of the
// callback.
func (p *Provider) SignIn(t testing.TB, location string) string {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(httptest.NewRequest(http.MethodGet, location, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		t.Fatalf("the authorization request %s was answered %d", location, res.StatusCode)
	}
	return back.String()
}

// authorize redirects to the client, with a code or an error.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("redirect_uri") == "" {
		http.Error(w, Secret, http.StatusBadRequest)
		return
	}
	back, name := url.Values{"state": q["state"], "iss": {p.Issuer}}, "authorize"
	switch {
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "":
		name = "authorize: response_type"
	case q.Get("prompt") == "none":
		name = "authorize: prompt=none"
	default:
		code := rand.Text()
		back.Set("code", code)
		// Like oidc-provider, it omits scopes that it does not have.
		scope := slices.DeleteFunc(strings.Fields(q.Get("scope")), func(s string) bool { return !slices.Contains(p.scopes(), s) })
		p.codes[code] = request{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri"), strings.Join(scope, " "), q.Has("max_age")}
	}
	sample := p.sample(name)
	recorded, _ := url.Parse(sample.Header.Get("Location"))
	if p.fault == CallbackIssuer {
		back.Set("iss", "https://other.example.com")
		if !recorded.Query().Has("iss") {
			recorded.RawQuery += "&iss="
		}
	}
	var parameters []string
	for pair := range strings.SplitSeq(recorded.RawQuery, "&") { // in their order, which url.Values does not keep
		name, value, _ := strings.Cut(pair, "=")
		if back.Has(name) {
			value = url.QueryEscape(back.Get(name))
		}
		parameters = append(parameters, name+"="+value)
	}
	w.Header().Set("Location", q.Get("redirect_uri")+"?"+strings.Join(parameters, "&"))
	sample.Answer(w, nil)
}

// Served returns the number of requests to a path.
func (p *Provider) Served(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served[path]
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served[r.URL.Path]++
	switch {
	case p.fault == Down:
		http.Error(w, Secret, http.StatusBadGateway)
	case r.URL.Path == "/.well-known/openid-configuration":
		sample := p.sample("discovery")
		sample.Body = regexp.MustCompile(`http://issuer.example.com/?`).ReplaceAll(sample.Body, []byte(p.Issuer))
		document := shape.Members(sample.Body)
		maps.Copy(document, map[string]any{
			"issuer": p.Issuer, "authorization_endpoint": p.Issuer + "authorize", "token_endpoint": p.Issuer + "token", "jwks_uri": p.Issuer + "keys",
			"id_token_signing_alg_values_supported": []string{p.alg(), "HS256", "none"}, "scopes_supported": p.scopes(), "userinfo_endpoint": p.Issuer + "me",
		})
		if p.fault == DiscoveryIssuer {
			document["issuer"] = p.Issuer[:len(p.Issuer)-1]
		}
		if p.style.NoUserinfo {
			delete(document, "userinfo_endpoint")
		}
		sample.Answer(w, document)
	case r.URL.Path == "/authorize":
		p.authorize(w, r)
	case r.URL.Path == "/keys":
		sample := p.sample("keys")
		var keys struct{ Keys []json.RawMessage }
		_ = json.Unmarshal(sample.Body, &keys) // it was recorded
		key := shape.Order(keys.Keys[0], map[string]any{
			"kty": "RSA", "use": "sig", "alg": p.alg(), "kid": p.kid, "n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
		})
		sample.Answer(w, map[string]any{"keys": []any{key}})
	case r.URL.Path == "/token" && r.Method == http.MethodPost:
		p.token(w, r)
	case r.URL.Path == "/me" && r.Method == http.MethodGet:
		p.userinfo(w, r)
	default:
		http.NotFound(w, r)
	}
}

// token exchanges a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	client, _, basic := r.BasicAuth()
	if !basic {
		client = r.PostFormValue("client_id")
	}
	switch {
	case client != ClientID:
		p.refuse(w, "token: invalid_client")
		return
	case r.PostFormValue("grant_type") != "authorization_code":
		p.refuse(w, "token: grant_type")
		return
	}
	code := r.PostFormValue("code")
	asked, ok := p.codes[code]
	delete(p.codes, code)
	proof := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || p.fault == RefuseCode || encode(proof[:]) != asked.challenge || r.PostFormValue("redirect_uri") != asked.redirect {
		p.refuse(w, "token: invalid_grant")
		return
	}
	access := Secret + rand.Text()
	p.granted[access] = asked.scope
	reply := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 60, "scope": asked.scope}
	if p.fault != NoToken {
		reply["id_token"] = p.sign(asked, access, code)
	}
	p.sample("token").Answer(w, reply)
}

// refuse answers with a recorded error, whose description must not be repeated.
func (p *Provider) refuse(w http.ResponseWriter, name string) {
	sample := p.sample(name)
	if !json.Valid(sample.Body) {
		sample.Body = []byte(Secret)
		sample.Answer(w, nil)
		return
	}
	failure := shape.Members(sample.Body)
	if _, found := failure["error_description"]; found {
		failure["error_description"] = Secret
	}
	sample.Answer(w, failure)
}

// scopes returns the scopes of the discovery document.
func (p *Provider) scopes() []string {
	scopes := []string{"openid", "offline_access", "email", "profile"}
	if p.style.GroupsScope != "" {
		scopes = append(scopes, p.style.GroupsScope)
	}
	return scopes
}

// claimsOf returns the claims that a granted scope gives.
func (p *Provider) claimsOf(scope string) map[string]any {
	needs := map[string]string{"name": "profile", "preferred_username": "profile", "email": "email", "email_verified": "email", "groups": p.style.GroupsScope}
	claims := map[string]any{}
	for name, value := range p.claims {
		if s := needs[name]; s == "" || slices.Contains(strings.Fields(scope), s) {
			claims[name] = value
		}
	}
	return claims
}

// userinfo returns the claims of the person of an access token.
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	scope, ok := p.granted[access]
	claims := p.claimsOf(scope)
	switch {
	case !ok:
		p.refuse(w, "userinfo: invalid_token")
		return
	case p.fault == UserinfoFails:
		http.Error(w, Secret, http.StatusInternalServerError)
		return
	case p.fault == UserinfoHuge:
		claims["bio"] = strings.Repeat(Secret, 2<<20/len(Secret))
	case p.fault == Overage:
		delete(claims, "groups")
	case p.fault == UserinfoSubject:
		claims["sub"] = "another"
	}
	p.sample("userinfo").Answer(w, claims)
}

// sign returns a token for a request.
func (p *Provider) sign(asked request, access, code string) string {
	now := time.Now().Add(-p.style.Behind)
	claims := p.claimsOf(asked.scope)
	if p.style.Thin || p.style.Zitadel {
		claims = map[string]any{"sub": claims["sub"]}
	}
	maps.Copy(claims, map[string]any{"iss": p.Issuer, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": asked.nonce})
	if p.style.Zitadel || asked.maxAge {
		claims["auth_time"] = now.Unix()
	}
	if p.style.Zitadel {
		half := func(of string) string {
			sum := sha256.Sum256([]byte(of))
			return encode(sum[:16])
		}
		maps.Copy(claims, map[string]any{"aud": []string{ClientID}, "azp": ClientID, "client_id": ClientID, "amr": []string{"pwd"}, "at_hash": half(access), "c_hash": half(code)})
	}
	header := shape.Members(p.sample("id token: header").Body)
	header["alg"], header["kid"] = p.alg(), p.kid
	key := p.key
	switch p.fault {
	case WrongIssuer:
		claims["iss"] = p.Issuer + "other"
	case WrongAudience:
		claims["aud"] = "another"
	case MoreAudiences:
		claims["aud"] = []string{ClientID, "another"}
		delete(claims, "azp")
	case WrongParty:
		claims["azp"] = "another"
	case WrongNonce:
		claims["nonce"] = rand.Text()
	case NoNonce:
		delete(claims, "nonce")
	case Expired:
		claims["exp"] = now.Add(-2 * time.Minute).Unix()
	case NoSubject:
		delete(claims, "sub")
	case Foreign:
		key = foreign()
	case OldSignIn:
		claims["auth_time"] = now.Add(-24 * time.Hour).Unix()
	case Overage:
		delete(claims, "groups")
		claims["_claim_names"] = map[string]string{"groups": "src1"}
		claims["_claim_sources"] = map[string]any{"src1": map[string]string{"endpoint": "https://graph.example.com/groups"}}
	case AlgNone:
		header["alg"] = "none"
	case AlgHS256:
		header["alg"] = "HS256"
	}
	text := encode(shape.Order(p.sample("id token: header").Body, header)) + "." + encode(shape.Order(p.sample("id token: claims").Body, claims))
	var signature []byte
	switch p.fault {
	case AlgNone:
	case AlgHS256:
		mac := hmac.New(sha256.New, p.key.N.Bytes())
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	default:
		if p.alg() == "RS512" {
			sum := sha512.Sum512([]byte(text))
			signature, _ = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA512, sum[:])
			break
		}
		sum := sha256.Sum256([]byte(text))
		signature, _ = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]) // 2048 bits are enough
	}
	return text + "." + encode(signature)
}

func (p *Provider) alg() string { return cmp.Or(p.style.Alg, "RS256") }

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
