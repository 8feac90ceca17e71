package rest

import (
	"net/http"
	"strings"

	"stoa/internal/base/stoa"
)

const (
	secureCookie = "__Host-stoa"
	plainCookie  = "stoa-session"
	// accountHeader names the account of a console request. Its presence proves the origin, because no reply allows pages
	// of other origins to set it.
	accountHeader = "Stoa-Account"
)

// cookieName returns the name of the console's cookie. With https it begins with __Host-, because browsers then
// accept it only from this host over TLS, so that no other host of the domain can set it.
func (b *Base) cookieName() string {
	if b.SecureCookies() {
		return secureCookie
	}
	return plainCookie
}

// SecureCookies reports whether the public URL has https. It ignores headers of proxies, because clients can send them.
func (b *Base) SecureCookies() bool { return strings.HasPrefix(b.PublicURL, "https://") }

// SessionCookie returns the cookie of the console with a secret.
func (b *Base) SessionCookie(secret string) *http.Cookie {
	return &http.Cookie{Name: b.cookieName(), Value: secret, Path: "/", HttpOnly: true, Secure: b.SecureCookies(), SameSite: http.SameSiteStrictMode}
}

// Session returns the secret of a request's console session; "" if there is none. It rejects two cookies, because
// one of them may come from elsewhere.
func (b *Base) Session(r *http.Request) string {
	if cookies := r.CookiesNamed(b.cookieName()); len(cookies) == 1 {
		return cookies[0].Value
	}
	return ""
}

// accountOfSession returns the console session that authenticates a request, and the named account; "" if a key is
// expected instead. A request with a key never uses the cookie, so that programs in the console's
// origin, such as the explorer, act as the key that they send.
func (b *Base) accountOfSession(r *http.Request) (session, account string) {
	accounts := r.Header[accountHeader]
	if len(r.Header["Authorization"]) > 0 || len(r.Header["X-Api-Key"]) > 0 || len(r.Header["X-Goog-Api-Key"]) > 0 || len(accounts) != 1 {
		return "", ""
	}
	return b.Session(r), accounts[0]
}

// Verify identifies the caller of a request by its key or console session, without counting it.
func (b *Base) Verify(r *http.Request) (stoa.Caller, error) {
	if session, account := b.accountOfSession(r); session != "" {
		if err := b.SameOrigin(r); err != nil {
			return stoa.Caller{}, err
		}
		c, _, err := b.Keys.VerifySession(r.Context(), session, account)
		return c, err
	}
	headers := r.Header["Authorization"]
	if keys := r.Header["X-Api-Key"]; len(headers) == 0 && len(keys) == 1 && b.takesBareKey(r.URL.Path) {
		headers = []string{"Bearer " + keys[0]} // Anthropic's clients send x-api-key instead of Authorization
	}
	if b.takesGoogleKey(r.URL.Path) && len(headers) == 0 {
		switch keys := r.Header["X-Goog-Api-Key"]; {
		case len(keys) == 1:
			headers = []string{"Bearer " + keys[0]} // Google's clients send x-goog-api-key instead of Authorization
		case len(keys) == 0 && r.URL.Query().Has("key"):
			return stoa.Caller{}, stoa.Errorf(stoa.CodeUnauthorized, "A key in the address (?key=) is not accepted, because proxies log addresses. Send it in the header x-goog-api-key, and rotate it.")
		}
	}
	if len(headers) != 1 { // two keys are rejected, because they may name two callers
		headers = []string{""}
	}
	return b.Keys.Verify(r.Context(), headers[0])
}

// SameOrigin returns CodeCrossOrigin if a page of another origin sent the request. It checks reads as well,
// because [http.CrossOriginProtection.Check] lets them pass and the cookie would authenticate them.
func (b *Base) SameOrigin(r *http.Request) error {
	asWrite := *r
	asWrite.Method = http.MethodPost
	if err := b.origins.Check(&asWrite); err != nil {
		return stoa.Errorf(stoa.CodeCrossOrigin, "A page of another origin sent this request with the cookie of the console. Send an API key instead.").Because(err)
	}
	return nil
}

// secretOf returns the secret that authenticates a request: a key with its scheme, or a session's.
func (b *Base) secretOf(r *http.Request) string {
	if session, _ := b.accountOfSession(r); session != "" {
		return session
	}
	return r.Header.Get("Authorization")
}

// Outside returns a handler for a path outside of the contract. Errors become replies as on the API's paths,
// and no reply is cached. maxBody limits [Base.ReadBody], in bytes.
func (b *Base) Outside(maxBody int64, h func(*Exchange) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		x := w.(*Exchange)
		x.maxBody = maxBody
		x.Header()["Cache-Control"], x.Header()["Content-Security-Policy"] = noStore, contentPolicy
		if err := h(x); err != nil {
			b.fail(x, err)
		}
	})
}

// SignedOutCookie is the name of a cookie that a sign-out sets, so that the next sign-in makes the identity provider
// ask for the person: the provider may still have a session.
const SignedOutCookie = "stoa-signed-out"

// SignedOut returns the cookie [SignedOutCookie], or the one that removes it.
func (b *Base) SignedOut(out bool) *http.Cookie {
	c := &http.Cookie{Name: SignedOutCookie, Value: "1", Path: "/", MaxAge: 30 * 24 * 60 * 60, HttpOnly: true, Secure: b.SecureCookies(), SameSite: http.SameSiteLaxMode}
	if !out {
		c.Value, c.MaxAge = "", -1
	}
	return c
}
