package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/config"
	"stoa/internal/outbound"
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
