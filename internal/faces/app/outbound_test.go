package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/outbound"
	"stoa/internal/testkit/fakeidp"
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
		return CheckOnline(t.Context(), cfg)
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
