package oauth

import (
	"strings"
	"testing"

	"stoa/internal/base/outbound"
)

// A hostile server has a person sign in at an honest one, and gets the code with its verifier.
func TestSignInsAtForeignSitesAreRefused(t *testing.T) {
	t.Parallel()
	c := New(outbound.New(outbound.Settings{}))
	for _, s := range []struct {
		issuer, authorization, token string
		ok                           bool
	}{
		{"https://id.example.com", "https://login.example.com/authorize", "https://api.example.com/token", true},
		{"https://accounts.google.com", "https://accounts.google.com/o/oauth2/v2/auth", "https://oauth2.googleapis.com/token", true},
		{"https://cognito-idp.us-east-1.amazonaws.com/us-east-1_x", "https://shop.auth.us-east-1.amazoncognito.com/oauth2/authorize", "https://shop.auth.us-east-1.amazoncognito.com/oauth2/token", true},
		{"https://127.0.0.1:1", "https://127.0.0.1:2/authorize", "https://127.0.0.1:1/token", true},
		{"https://Keycloak", "https://keycloak.:8443/authorize", "https://keycloak/token", true},
		{"https://evil.example.net", "https://login.example.com/authorize", "https://evil.example.net/token", false},
		{"https://evil.github.io", "https://good.github.io/authorize", "https://evil.github.io/token", false},
		{"https://a.co.uk", "https://b.co.uk/authorize", "https://a.co.uk/token", false},
		{"https://127.0.0.1", "https://127.0.0.2/authorize", "https://127.0.0.1/token", false},
		{"https://evil.example.net", "https://example.net.evil.com/authorize", "https://evil.example.net/token", false},
	} {
		server := Server{Issuer: s.issuer, Authorization: s.authorization, Token: s.token, Registration: s.authorization, Challenges: []string{"S256"}}
		_, err := c.AuthorizeURL(t.Context(), server, Request{ClientID: "x"})
		if (err == nil) != s.ok || err != nil && !strings.Contains(err.Error(), "Check the connection's address") {
			t.Errorf("%s at %s: %v", s.authorization, s.issuer, err)
		}
		if s.ok {
			continue // a registration would be sent
		}
		if _, err := c.Register(t.Context(), server, "x", "https://stoa.example.com"); err == nil || !strings.Contains(err.Error(), "neither at its own site") {
			t.Errorf("registration %s at %s: %v", s.authorization, s.issuer, err)
		}
	}
}
