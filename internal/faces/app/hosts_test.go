package app

import (
	"net/http"
	"strings"
	"testing"

	"stoa/internal/base/config"
)

// A page whose own name resolves to this machine reads nothing: neither the metrics nor the
// replies of a service that only listens here.
func TestForeignNamesAreRefused(t *testing.T) {
	t.Parallel()
	url, _, _ := operate(t, loaded(t, "adminListen: off"))
	_, admin, _ := operate(t, loaded(t, "adminListen: 127.0.0.1:0\npublicUrl: https://stoa.example.com"))
	get := func(base, path, host string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "localhost:9090": 200, "stoa": 200, "stoa.monitoring.svc:9090": 200,
		"stoa.example.com": 200, "STOA.example.com.": 200, "node1.example.com:9090": 200,
		"evil.test.com": 403, "evil.com:9090": 403, "127.0.0.1.nip.io": 403, "example.com.evil.com": 403, "evil.github.io": 403,
	} {
		if got := get(admin, "/metrics", host); got != want {
			t.Errorf("the metrics as %s: %d, want %d", host, got, want)
		}
		if strings.HasSuffix(strings.Trim(strings.ToLower(host), ".:0123456789"), "example.com") {
			want = 403 // it has no public name
		}
		for _, path := range []string{"/api/v1/health", "/console"} {
			if got := get(url, path, host); got != want {
				t.Errorf("%s as %s: %d, want %d", path, host, got, want)
			}
		}
	}
}

// A service that others reach accepts every name: its operator's proxies choose them.
func TestOtherListenersTakeEveryName(t *testing.T) {
	t.Parallel()
	for listen, checked := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:8080": true, "[::1]:8080": true, ":8080": false, "0.0.0.0:8080": false, "10.0.0.7:8080": false,
	} {
		if got := serviceHosts(config.Config{Listen: listen}) != nil; got != checked {
			t.Errorf("%s is checked: %v", listen, got)
		}
	}
}
