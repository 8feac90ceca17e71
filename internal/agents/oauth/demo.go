package oauth

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Demo is a small authorization server, in front of a server that requires its tokens, to
// try authorizations with. It authorizes every request, and keeps everything in memory, at
// most 1,000 of each. Tests use it too.
type Demo struct {
	Origin string        // its own, such as http://127.0.0.1:8099
	Life   time.Duration // lifetime of access tokens
	Next   http.Handler  // receives requests with a valid token

	// Hooks for tests. Metadata may change the metadata before it is sent, Redirect the
	// answer of an authorization.
	Metadata func(map[string]any)
	Redirect func(url.Values)

	mu      sync.Mutex
	codes   map[string]demoCode
	refresh map[string]bool
	access  map[string]time.Time // expiry of each token
	asked   map[string]int       // number of requests for tokens, by grant
}

const maxDemo = 1000

type demoCode struct{ challenge, client, redirect, resource string }

// Asked returns the number of requests for tokens with a grant.
func (d *Demo) Asked(grant string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[grant]
}

// Revoke invalidates every access token; refresh tokens too if all is true.
func (d *Demo) Revoke(all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.access = nil
	if all {
		d.refresh = nil
	}
}

// ServeHTTP answers as the authorization server, or passes the request on.
func (d *Demo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/.well-known/oauth-protected-resource"):
		reply(w, 200, map[string]any{"resource": d.Origin, "authorization_servers": []string{d.Origin}, "scopes_supported": []string{"notes"}})
	case path == "/.well-known/oauth-authorization-server":
		m := map[string]any{
			"issuer": d.Origin, "authorization_endpoint": d.Origin + "/authorize", "token_endpoint": d.Origin + "/token", "registration_endpoint": d.Origin + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		}
		if d.Metadata != nil {
			d.Metadata(m)
		}
		reply(w, 200, m)
	case strings.HasPrefix(path, "/.well-known/"):
		http.NotFound(w, r)
	case path == "/register" && r.Method == http.MethodPost:
		d.register(w, r)
	case path == "/authorize":
		d.authorize(w, r)
	case path == "/token" && r.Method == http.MethodPost:
		d.token(w, r)
	default:
		d.mu.Lock()
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		ok = ok && time.Now().Before(d.access[token])
		d.mu.Unlock()
		if ok {
			d.Next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+d.Origin+`/.well-known/oauth-protected-resource", scope="notes"`)
		reply(w, 401, map[string]any{"error": "invalid_token"})
	}
}

func (d *Demo) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || to.Scheme != "https" && !Loopback(to) || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		http.Error(w, "this is not a request of a client", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	d.mu.Lock()
	if d.codes == nil || len(d.codes) >= maxDemo {
		d.codes = map[string]demoCode{}
	}
	d.codes[code] = demoCode{q.Get("code_challenge"), q.Get("client_id"), q.Get("redirect_uri"), q.Get("resource")}
	d.mu.Unlock()
	answer := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {d.Origin}}
	if d.Redirect != nil {
		d.Redirect(answer)
	}
	to.RawQuery = answer.Encode()
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

func (d *Demo) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxDocument)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked == nil {
		d.asked = map[string]int{}
	}
	grant := r.PostFormValue("grant_type")
	if len(d.asked) < maxDemo {
		d.asked[grant]++
	}
	switch grant {
	case "authorization_code":
		c, known := d.codes[r.PostFormValue("code")]
		delete(d.codes, r.PostFormValue("code"))
		if !known || Challenge(r.PostFormValue("code_verifier")) != c.challenge || r.PostFormValue("redirect_uri") != c.redirect || r.PostFormValue("client_id") != c.client ||
			r.PostFormValue("resource") != c.resource {
			reply(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
	case "refresh_token":
		// A second use revokes the token family, because many servers do so (RFC 9700, 4.14.2).
		if !d.refresh[r.PostFormValue("refresh_token")] {
			d.refresh = nil
			reply(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		delete(d.refresh, r.PostFormValue("refresh_token"))
	case "client_credentials":
		if id, secret, ok := r.BasicAuth(); !ok || id != "demo" || secret != "demo-secret" {
			reply(w, 401, map[string]any{"error": "invalid_client"})
			return
		}
	default:
		reply(w, 400, map[string]any{"error": "unsupported_grant_type"})
		return
	}
	if d.refresh == nil || len(d.refresh) >= maxDemo {
		d.refresh = map[string]bool{}
	}
	if d.access == nil || len(d.access) >= maxDemo {
		d.access = map[string]time.Time{}
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	d.access[access] = time.Now().Add(d.Life)
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(d.Life / time.Second)}
	if grant != "client_credentials" {
		d.refresh[refresh] = true
		answer["refresh_token"] = refresh
	}
	reply(w, 200, answer)
}

// register registers a client. Like strict servers, it refuses a client whose
// application_type does not fit its redirect address.
func (d *Demo) register(w http.ResponseWriter, r *http.Request) {
	var client struct {
		Kind      string   `json:"application_type"`
		Redirects []string `json:"redirect_uris"`
	}
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxDocument)).Decode(&client) != nil || len(client.Redirects) != 1 {
		reply(w, 400, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	u, err := url.Parse(client.Redirects[0])
	if err != nil || client.Kind != map[bool]string{true: "native", false: "web"}[Loopback(u)] {
		reply(w, 400, map[string]any{"error": "invalid_redirect_uri"})
		return
	}
	reply(w, 201, map[string]any{"client_id": "demo-" + rand.Text(), "token_endpoint_auth_method": "none"})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
