package fakeidp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"stoa/internal/testkit/shape"
)

// A client is what the requests of a recording are made with.
type client struct {
	id, secret string
	// authorize sends an authorization request, signs a person in where a page asks for it, and returns the
	// reply that redirects to the client, or another final one.
	authorize func(location string) *http.Response
}

const redirect = "http://127.0.0.1:1/callback"

// replies makes the requests of a sign-in, and some that are refused.
func replies(t *testing.T, issuer string, c client) (all []shape.Reply) {
	add := func(name string, res *http.Response, headers ...string) []byte {
		r := shape.HTTP(t, name, res, append([]string{"Cache-Control"}, headers...)...)
		all = append(all, r)
		_, body, _ := strings.Cut(r.Text, "\n\n")
		return []byte(body)
	}
	do := func(res *http.Response, err error) *http.Response {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	var doc struct {
		Authorization string `json:"authorization_endpoint"`
		Token         string `json:"token_endpoint"`
		Userinfo      string `json:"userinfo_endpoint"`
		Keys          string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(add("discovery", do(http.Get(issuer+"/.well-known/openid-configuration"))), &doc); err != nil {
		t.Fatal(err)
	}
	add("keys", do(http.Get(doc.Keys)))

	verifier := oauth2.GenerateVerifier()
	request := func(more ...string) string {
		q := url.Values{
			"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {redirect}, "scope": {"openid email profile"}, "state": {"the-state"}, "nonce": {"the-nonce"},
			"code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)}, "code_challenge_method": {"S256"},
		}
		for i := 0; i < len(more); i += 2 {
			q.Set(more[i], more[i+1])
		}
		return doc.Authorization + "?" + q.Encode()
	}
	callback := func(name string, more ...string) url.Values {
		res := c.authorize(request(more...))
		to, err := res.Location()
		if err != nil {
			t.Fatalf("%s: %d, %v", name, res.StatusCode, err)
		}
		res.Body = http.NoBody // a page for people
		res.Header.Del("Content-Type")
		add(name, res, "Location")
		return to.Query()
	}
	callback("authorize: prompt=none", "prompt", "none")
	callback("authorize: response_type", "response_type", "odd")
	code := callback("authorize").Get("code")

	token := func(name string, form url.Values, id, secret string) []byte {
		req, err := http.NewRequest(http.MethodPost, doc.Token, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(id, secret)
		return add(name, do(http.DefaultClient.Do(req)))
	}
	exchange := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}}
	token("token: invalid_client", exchange, "unknown", c.secret)
	var granted struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
	}
	if err := json.Unmarshal(token("token", exchange, c.id, c.secret), &granted); err != nil {
		t.Fatal(err)
	}
	for i, part := range []string{"header", "claims"} {
		text, err := base64.RawURLEncoding.DecodeString(strings.Split(granted.ID, ".")[i])
		if err != nil {
			t.Fatal(err)
		}
		add("id token: "+part, &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(text)))})
	}
	userinfo := func(name, access string) {
		req, err := http.NewRequest(http.MethodGet, doc.Userinfo, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+access)
		add(name, do(http.DefaultClient.Do(req)), "Www-Authenticate")
	}
	userinfo("userinfo", granted.Access)
	userinfo("userinfo: invalid_token", "unknown")
	token("token: invalid_grant", exchange, c.id, c.secret)
	token("token: grant_type", url.Values{"grant_type": {"odd"}}, c.id, c.secret)
	return all
}

var (
	form   = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// browser returns a client that signs in at the pages of a provider.
func browser(t *testing.T, person, password string) func(string) *http.Response {
	return func(location string) *http.Response {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(r.URL.String(), redirect) {
				return http.ErrUseLastResponse
			}
			return nil
		}}
		res, err := b.Get(location)
		for range 5 {
			if err != nil {
				t.Fatal(err)
			}
			page, _ := io.ReadAll(res.Body)
			res.Body.Close()
			action := form.FindSubmatch(page)
			if action == nil {
				break
			}
			values := url.Values{"login": {person}, "username": {person}, "password": {password}}
			for _, f := range hidden.FindAllSubmatch(page, -1) {
				values.Set(string(f[1]), html.UnescapeString(string(f[2])))
			}
			to, _ := res.Request.URL.Parse(html.UnescapeString(string(action[1])))
			res, err = b.PostForm(to.String(), values)
		}
		return res
	}
}

// panva records oidc-provider. thin is its default: the claims of scopes are at userinfo only.
func panva(thin bool) func(*testing.T, string) (string, []shape.Reply) {
	return func(t *testing.T, programs string) (string, []shape.Reply) {
		port := shape.Run(t, programs, nil, "node", "identity.mjs", "PORT", redirect, fmt.Sprint(thin))
		return shape.NPM(t, programs, "oidc-provider"), replies(t, "http://localhost:"+port, client{"stoa", "the-secret-of-the-client", browser(t, "ada", "any")})
	}
}

// zitadel records the example server of zitadel/oidc.
func zitadel(t *testing.T, programs string) (string, []shape.Reply) {
	port := shape.Run(t, programs, []string{"REDIRECT_URI=" + redirect}, filepath.Join(programs, "bin", "server"))
	return shape.Go(t, programs, "server"), replies(t, "http://localhost:"+port, client{"web", "secret", browser(t, "test-user@localhost", "verysecure")})
}

func TestRecordedProviders(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		record func(*testing.T, string) (string, []shape.Reply)
		style  Style
		person map[string]any
	}{
		"oidc-provider.txtar":        {panva(true), Style{Thin: true}, nil},
		"oidc-provider-claims.txtar": {panva(false), Style{}, nil},
		"zitadel.txtar":              {zitadel, Style{Zitadel: true}, map[string]any{"given_name": "Ada", "family_name": "L", "locale": "en", "preferred_username": "ada"}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			p := New(t)
			p.Behave(c.style)
			p.Set(c.person)
			answered := replies(t, strings.TrimSuffix(p.Issuer, "/"), client{ClientID, "", func(location string) *http.Response {
				res, err := http.DefaultTransport.RoundTrip(httptest.NewRequest(http.MethodGet, location, nil))
				if err != nil {
					t.Fatal(err)
				}
				return res
			}})
			shape.Recording{File: file, Record: c.record, Random: map[string]string{
				`localhost(:|%3A)\d+`: "issuer.example.com",
				`"(access_token|id_token|kid|n|at_hash|c_hash)": "[^"]+"`: `"$1": "random"`,
				`"(exp|iat|auth_time)": \d+`:                              `"$1": 1700000000`,
				`code=[^&]+`:                                              "code=random",
			}}.Compare(t, answered)
		})
	}
}
