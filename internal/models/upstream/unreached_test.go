package upstream

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// TestAnUnreachedProviderSaysWhy checks what the status of a provider says about a connection
// that could not be made.
func TestAnUnreachedProviderSaysWhy(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler()) // with a certificate of its own
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = nil
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for want, address := range map[string]string{
		`The name "nowhere.invalid" of the provider could not be resolved.`: "http://nowhere.invalid",
		"The provider's address refuses connections.":                       "http://" + closed.Addr().String(),
		"The provider's certificate was not accepted.":                      secure.URL,
		"No TLS connection to the provider could be made.":                  strings.Replace(plain.URL, "http:", "https:", 1),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			pr := stoa.Provider{Name: "a", Wire: "messages", BaseURL: address, APIKey: "secret-1234567890"}
			p := open(t, quick(pr))
			collect(t.Context(), p, at("claude-sonnet-5-5", pr), ask("hi")).expect(t, stoa.CodeUpstream)
			if got := p.Stats().Providers[0].Routes[0].LastFailureText; got != want {
				t.Errorf("the status says %q", got)
			}
		})
	}
}
