package signin

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"stoa/internal/base/audit"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/operate/member"
)

const (
	// attemptLife is the time within which a person must return from an identity provider.
	attemptLife = 10 * time.Minute
	// maxCallback is the maximum length of a callback parameter, in bytes.
	maxCallback = 8 << 10
	// startsPerMinute is the maximum number of sign-ins that an address begins in a minute. It is high, because the
	// people of one office may share an address.
	startsPerMinute = 120
)

// An attempt is the state of a sign-in while the person is at the identity provider. The browser keeps it,
// sealed, so that any node can finish the sign-in.
type attempt struct {
	Provider  string    `json:"provider"`
	State     string    `json:"state"`
	Nonce     string    `json:"nonce"`
	Verifier  string    `json:"verifier"`
	Link      string    `json:"link"` // hash of the opened invitation's token; empty for none
	ExpiresAt time.Time `json:"expiresAt"`
}

// attemptRef binds the state of an attempt to its use, so that no other sealed text passes as one.
var attemptRef = vault.Ref{AccountID: audit.Service, Kind: "sign_in"}

// start serves GET /signin/{name}, which sends the person to the identity provider.
func (s *Server) start(x *rest.Exchange) error {
	p, err := s.provider(x.HTTP)
	if err != nil {
		return err
	}
	location, err := s.depart(x, p, "")
	if err != nil {
		s.refuse(x, err)
		return nil
	}
	http.Redirect(x, x.HTTP, location, http.StatusSeeOther)
	return nil
}

// provider returns the identity provider of a path. It refuses HEAD, because programs send it to inspect a link
// and both paths have effects.
func (s *Server) provider(r *http.Request) (*provider, error) {
	if p := s.providers[r.PathValue("name")]; p != nil && r.Method == http.MethodGet {
		return p, nil
	}
	return nil, stoa.Errorf(stoa.CodeNotFound, "There is no identity provider with this name.")
}

// depart sets the cookie of an attempt and returns the address at the identity provider. link is the hash of an
// invitation's token, or empty.
func (s *Server) depart(x *rest.Exchange, p *provider, link string) (location string, err error) {
	if wait, ok := s.starts.Allow(s.AddressSlot(x.HTTP), startsPerMinute, time.Now()); !ok && !s.LimitsOff() {
		return "", stoa.Errorf(stoa.CodeRateLimit, "Too many sign-ins were begun from this address. Try again in %d seconds.", wait/time.Second).After(wait)
	}
	a := attempt{
		Provider: p.Name, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Link: link, ExpiresAt: time.Now().Add(attemptLife),
	}
	_, unset := x.HTTP.Cookie(rest.SignedOutCookie)
	if location, err = p.address(x.Context(), a, unset == nil); err != nil {
		return "", err
	}
	text, err := jsonx.Marshal(a)
	if err != nil {
		return "", err
	}
	sealed, err := s.Vault.Seal(attemptRef, text)
	if err != nil {
		return "", err
	}
	http.SetCookie(x, s.attemptCookie(sealed, int(attemptLife/time.Second)))
	return location, nil
}

// attemptCookie returns the cookie of an attempt. It is Lax, because the identity provider sends the person
// back from its own site.
func (s *Server) attemptCookie(sealed string, seconds int) *http.Cookie {
	name := "stoa-sign-in"
	if s.SecureCookies() {
		name = "__Host-stoa-sign-in"
	}
	return &http.Cookie{Name: name, Value: sealed, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.SecureCookies(), SameSite: http.SameSiteLaxMode}
}

func (s *Server) returned(r *http.Request, p *provider) (a attempt, ok bool) {
	cookies := r.CookiesNamed(s.attemptCookie("", 0).Name)
	if len(cookies) != 1 {
		return a, false
	}
	text, err := s.Vault.Open(attemptRef, cookies[0].Value)
	if err != nil || jsonx.Unmarshal(text, &a) != nil {
		return a, false
	}
	state := r.URL.Query().Get("state")
	return a, a.Provider == p.Name && time.Now().Before(a.ExpiresAt) && subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}

// callback serves GET /signin/{name}/callback, to which the identity provider sends the person back.
func (s *Server) callback(x *rest.Exchange) error {
	p, err := s.provider(x.HTTP)
	if err != nil {
		return err
	}
	if err := s.CheckWrong(x.HTTP); err != nil {
		s.refuse(x, s.Failed(x.HTTP, err))
		return nil
	}
	a, ok := s.returned(x.HTTP, p)
	http.SetCookie(x, s.attemptCookie("", -1))
	if ok {
		// The row counts and not the cookie, because a browser can keep a copy of that: each state costs the identity
		// provider at most one request.
		if err := s.Store.Write(x.Context(), func(tx *store.Tx) (err error) {
			ok, err = tx.People().UseSignInState(x.Context(), a.State, a.ExpiresAt)
			return err
		}); err != nil {
			s.refuse(x, err)
			return nil
		}
	}
	if !ok {
		s.refuse(x, s.Failed(x.HTTP, stoa.Errorf(stoa.CodeUnauthorized, "This sign-in was not begun in this browser, was used before, or took longer than 10 minutes. Begin again.")))
		return nil
	}
	q := x.HTTP.URL.Query()
	code := q.Get("code")
	if q.Has("error") {
		s.refuse(x, s.Failed(x.HTTP, refusalOf(q.Get("error"), q.Get("error_description"))))
		return nil
	}
	if issuer := q.Get("iss"); code == "" || len(code) > maxCallback || issuer != "" && issuer != p.Issuer {
		s.refuse(x, s.Failed(x.HTTP, stoa.Errorf(stoa.CodeUnauthorized, "The identity provider has not confirmed the sign-in. Begin again.")))
		return nil
	}
	who, err := p.identify(x.HTTP.Context(), a, code)
	if err == nil {
		var secret string
		if secret, err = s.admit(x, p, who, a.Link); err == nil {
			s.Begin(x, secret)
			http.SetCookie(x, s.SignedOut(false))
			http.Redirect(x, x.HTTP, "/console", http.StatusSeeOther)
			return nil
		}
	}
	if err == errNotMember && len(p.Groups) > 0 {
		e := *errNotMember // a copy, because the error is shared
		err = e.Because(fmt.Errorf("the claim %q has %d groups, and no rule gives one of them a membership", p.groupsClaim(), len(who.Groups)))
	}
	s.refuse(x, s.Failed(x.HTTP, err))
	return nil
}

// refusals are the errors of OAuth 2.0 (RFC 6749, 4.1.2.1) and OpenID Connect (Core, 3.1.2.6). Others are not
// logged, because anybody can call the address with any text.
var refusals = []string{
	"access_denied", "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "server_error", "temporarily_unavailable",
	"interaction_required", "login_required", "account_selection_required", "consent_required", "invalid_request_uri", "invalid_request_object",
	"request_not_supported", "request_uri_not_supported", "registration_not_supported",
}

// entraCode is the number by which Microsoft Entra explains an error.
var entraCode = regexp.MustCompile(`AADSTS[0-9]{4,8}\b`)

func refusalOf(code, description string) error {
	text := "The identity provider has not confirmed the sign-in. Begin again, or ask the operator of this service."
	switch code {
	case "access_denied":
		text = "The sign-in was refused at the identity provider: by you, or because you are not allowed to use this service. Begin again, or ask the operator."
	case "server_error", "temporarily_unavailable":
		text = "The identity provider cannot confirm the sign-in at the moment. Try again later."
	}
	if !slices.Contains(refusals, code) {
		code = "an unknown error"
	}
	if number := entraCode.FindString(description); number != "" {
		code += " " + number
	}
	return stoa.Errorf(stoa.CodeUnauthorized, "%s", text).Because(fmt.Errorf("the identity provider answered %s", code))
}

// refuse shows why a person is not signed in. Only the log shows the cause.
func (s *Server) refuse(x *rest.Exchange, err error) {
	x.Log.Failed(err)
	e := stoa.AsError(err)
	s.Page(x, contract.Code(e.Code).Status, "Not signed in", e.Message)
}

// admit makes the changes of a sign-in: it stores the person, changes the memberships from groups, accepts an
// invitation, and begins a session, whose secret it returns.
func (s *Server) admit(x *rest.Exchange, p *provider, who identity, link string) (secret string, err error) {
	ctx := x.Context()
	var synced member.Synced
	var personID string
	removed := false // the person is no longer a member of any account
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		removed = false
		person, err := tx.People().PersonOf(ctx, stoa.Person{Issuer: p.Issuer, Subject: who.Subject, Email: who.Email, Name: who.Name})
		if err != nil {
			return err
		}
		personID = person.ID
		if synced, err = s.Members.Sync(ctx, tx, person, p.grants(who.Groups)); err != nil {
			return err
		}
		if link != "" {
			if _, err := s.Members.Accept(ctx, tx, link, person); err != nil {
				return err
			}
		}
		secret, err = s.begin(ctx, tx, x.HTTP, x.Log.ID, person.ID, p.Name)
		if n := p.NewAccounts; err == errNotMember && n != nil && len(synced.EndedKeys) == 0 {
			if err = s.Members.SignUp(ctx, tx, person, cmp.Or(n.Plan, "free"), n.GrantMicro); err == nil {
				secret, err = s.begin(ctx, tx, x.HTTP, x.Log.ID, person.ID, p.Name)
			}
		}
		if removed = err == errNotMember && len(synced.EndedKeys) > 0; removed {
			return nil // no error, so that the end of the memberships is committed
		}
		return err
	})
	for _, account := range synced.Kept {
		s.Logger.WarnContext(ctx, "the groups of an identity provider no longer make a member an owner, who stays one because the account has no other", "account", account, "member", personID)
	}
	for _, key := range synced.EndedKeys {
		if err == nil {
			err = s.EndObjects(ctx, key.AccountID, key.ID)
		}
	}
	if err == nil && removed {
		err = errNotMember
	}
	return secret, err
}

func (p *provider) grants(groups []string) (grants []member.Grant) {
	has := map[string]bool{}
	for _, g := range groups {
		has[g] = true
	}
	for _, rule := range p.Groups {
		if has[rule.Group] {
			role := rule.Role
			if role == "" {
				role = stoa.RoleViewer
			}
			grants = append(grants, member.Grant{AccountID: rule.Account, Role: role, OperatorRole: rule.Operator})
		}
	}
	return grants
}
