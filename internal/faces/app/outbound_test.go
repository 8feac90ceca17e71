package app

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/outbound"
	"stoa/internal/testkit/fakeidp"
	"stoa/internal/testkit/fakesmtp"
	"stoa/internal/testkit/fakestripe"
)

func TestTheServiceNeverCallsItself(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for name, c := range map[string]struct {
		parts Parts
		want  outbound.Reason
	}{
		"another server":     {Parts{Address: "127.0.0.1:1"}, ""},
		"its listener":       {Parts{Address: address, Config: config.Config{PublicURL: "https://stoa.example.com"}}, outbound.NotAllowed},
		"its admin listener": {Parts{Address: "127.0.0.1:1", Admin: address}, outbound.NotAllowed},
		"its origin":         {Parts{Address: "127.0.0.1:1", Config: config.Config{PublicURL: server.URL}}, outbound.NotAllowed},
	} {
		c.parts.Config.Outbound.Allow = []string{"127.0.0.0/8"}
		n, err := newNetwork(c.parts, c.parts.Config.Outbound.Allow)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.Client(outbound.Limits{Body: 1}).Exchange(req)
		failed, _ := errors.AsType[*outbound.Error](err)
		if c.want == "" && err != nil || c.want != "" && (failed == nil || failed.Reason != c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckOnlineNamesAFinalSlash(t *testing.T) {
	t.Parallel()
	idp := fakeidp.New(t)
	check := func(issuer string) error {
		cfg := config.Defaults()
		cfg.SignIn.OIDC = []config.OIDC{{Name: "corp", Issuer: issuer, ClientID: fakeidp.ClientID}}
		return CheckOnline(t.Context(), cfg, func(string) {})
	}
	if err := check(idp.Issuer); err != nil {
		t.Error(err)
	}
	if err := check(strings.TrimSuffix(idp.Issuer, "/")); err == nil || !strings.Contains(err.Error(), "signIn.oidc[0].issuer") || !strings.Contains(err.Error(), "final slash") {
		t.Errorf("without the final slash: %v", err)
	}
	idp.Misbehave(fakeidp.Down)
	if err := check(idp.Issuer); err == nil || !strings.Contains(err.Error(), "502") || strings.Contains(err.Error(), fakeidp.Secret) {
		t.Errorf("a provider that is down: %v", err)
	}
}

// TestCheckOnlineTriesEverything has one server for each thing that the service connects to.
func TestCheckOnlineTriesEverything(t *testing.T) {
	t.Parallel()
	idp, stripe, mails := fakeidp.New(t), fakestripe.New(t), fakesmtp.New(t, true)
	var requests atomic.Value
	requests.Store("")
	refuses := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			requests.Store(requests.Load().(string) + r.Method + " ")
		}
		switch {
		case refuses.Load():
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("<Error><Code>InvalidAccessKeyId</Code></Error>"))
		case r.URL.Path == "/v1/models":
			_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
		}
	}))
	defer server.Close()
	variables := map[string]string{"KEY": fakestripe.Key, "SECRET": fakestripe.Secret, "MAIL": fakesmtp.Password}
	load := func() config.Config {
		file := fmt.Sprintf(`publicUrl: http://127.0.0.1:1
drive: {store: {s3: {endpoint: %q, bucket: files, accessKey: key, secretKey: s3cret}}}
mail: {smtp: {host: %s, port: %d, from: stoa@example.com, tls: none, user: %s, passwordEnv: MAIL}}
signIn: {oidc: [{name: corp, issuer: %q, clientId: %q}]}
payments:
  stripe: {keyEnv: KEY, api: %q, webhookSecrets: [{env: SECRET}]}
  packs: {small: {name: 10 credits, price: 1000, currency: eur, creditsMicro: 10000000}}
providers: [{name: own, wire: chat, baseURL: %q}]
`, server.URL, mails.Host, mails.Port, fakesmtp.User, idp.Issuer, fakeidp.ClientID, stripe.URL, server.URL+"/v1")
		cfg, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(name string) string { return variables[name] }, func(string) ([]byte, error) { return []byte(file), nil })
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	var usable []string
	noted := func(path string) { usable = append(usable, path) }
	if err := CheckOnline(t.Context(), load(), noted); err != nil || strings.Join(usable, " ") != "drive.store.s3 mail.smtp signIn.oidc[0].issuer payments.stripe providers[0]" {
		t.Errorf("%v; usable are %q", err, usable)
	}
	if requests.Load() != "PUT DELETE " || len(mails.Mails()) != 0 {
		t.Errorf("the bucket received %q, the mail server %d mails", requests.Load(), len(mails.Mails()))
	}
	idp.Misbehave(fakeidp.Down)
	refuses.Store(true)
	variables["KEY"], variables["MAIL"] = "rk_test_other", "wrong"
	usable = nil
	err := CheckOnline(t.Context(), load(), noted)
	if err == nil || usable != nil {
		t.Fatalf("%v; usable are %q", err, usable)
	}
	lines := strings.Split(err.Error(), "\n")
	for i, parts := range [][]string{
		{"drive.store.s3", "InvalidAccessKeyId", "files", "drive.store.s3.accessKey"},
		{"mail.smtp", "login", "535"},
		{"signIn.oidc[0].issuer", "502"},
		{"payments.stripe", "401"},
		{"providers[0]", "403"},
	} {
		for _, part := range parts {
			if len(lines) != 5 || !strings.Contains(lines[i], part) {
				t.Errorf("line %d has no %s:\n%v", i+1, part, err)
			}
		}
	}
	for _, secret := range []string{"s3cret", "wrong", "rk_test_other"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s in %v", secret, err)
		}
	}
	cfg := config.Defaults()
	cfg.Database = "postgres://u:p@127.0.0.1:1/d?connect_timeout=2"
	if err := CheckOnline(t.Context(), cfg, func(string) {}); err == nil || !strings.HasPrefix(err.Error(), "database: ") {
		t.Errorf("a database that is down: %v", err)
	}
}

func TestCheckOnlineAsksForTheScopes(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/authorize" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q}`, server.URL, server.URL+"/authorize", server.URL+"/token", server.URL+"/keys")
			return
		}
		to := "https://id.example.com/page"
		if strings.Contains(r.FormValue("scope"), "teams") {
			to = r.FormValue("redirect_uri") + "?error=invalid_scope&error_description=no+teams"
		}
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer server.Close()
	cfg := config.Defaults()
	cfg.SignIn.OIDC = []config.OIDC{{Name: "corp", Issuer: server.URL, ClientID: "c"}}
	if err := CheckOnline(t.Context(), cfg, func(string) {}); err != nil {
		t.Error(err)
	}
	cfg.SignIn.OIDC[0].Scopes = []string{"teams"}
	if err := CheckOnline(t.Context(), cfg, func(string) {}); err == nil || !strings.Contains(err.Error(), "openid email profile teams") || !strings.Contains(err.Error(), "invalid_scope no teams") {
		t.Errorf("an unknown scope: %v", err)
	}
}

func TestAStartLogsServersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	mails := fakesmtp.New(t, true)
	var log bytes.Buffer
	s := &Service{log: slog.New(slog.NewTextHandler(&log, nil))}
	s.config.Mail.SMTP = config.SMTP{Host: mails.Host, Port: mails.Port, From: "stoa@example.com", TLS: config.MailPlain}
	s.tryNeighbours(t.Context())
	if log.Len() != 0 {
		t.Errorf("a good one: %s", log.String())
	}
	mails.Close()
	s.tryNeighbours(t.Context())
	if got := log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "setting=mail.smtp") || !strings.Contains(got, "unreachable") {
		t.Errorf("one that is down: %s", got)
	}
}
