package upstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

func TestModelsOfAServer(t *testing.T) {
	t.Parallel()
	var asked []string
	status, reply := http.StatusOK, `{"data":[{"id":"m"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		w.WriteHeader(status)
		fmt.Fprint(w, reply)
	}))
	t.Cleanup(server.Close)
	p := New(Config{})
	read := func(wire, base string) string {
		models, local, err := p.Models(t.Context(), stoa.Provider{Wire: wire, BaseURL: server.URL + base, APIKey: "secret"})
		return fmt.Sprint(models, local, err)
	}
	for wire, want := range map[string]string{"chat": "GET /v1/models Bearer secret", "responses": "GET /v1/models Bearer secret", "messages": "GET /v1/models?limit=1000 secret"} {
		asked = nil
		if got := read(wire, "/v1"); got != "[{m 0 false}] true <nil>" || len(asked) != 1 || asked[0] != want {
			t.Errorf("%s: %s after %q, want %q", wire, got, asked, want)
		}
	}
	for _, tt := range []struct {
		status      int
		reply, want string
	}{
		{401, "secret", "status 401"},
		{200, "<html>", "not a list"},
		{200, `{"data":[` + strings.Repeat(" ", maxListBytes) + "]}", "more than 4 MiB"},
	} {
		status, reply = tt.status, tt.reply
		if got := read("chat", ""); !strings.Contains(got, tt.want) || strings.Contains(got, "secret") || strings.Contains(got, "127.0.0.1") {
			t.Errorf("%d: %s, want %s", tt.status, got, tt.want)
		}
	}
	server.Close()
	if got := read("chat", ""); !strings.Contains(got, "could not be reached") {
		t.Errorf("a closed server: %s", got)
	}
	if got := read("gemini", ""); !strings.Contains(got, "has no list") {
		t.Errorf("a wire without lists: %s", got)
	}
}

func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://127.0.0.1:1/v1": true, "http://localhost:1": true, "http://[::1]:1": true, "http://10.1.2.3": true, "http://192.168.0.9": true, "http://[fd00::1]": true, "http://[::ffff:10.0.0.1]": true,
		"https://8.8.8.8": false, "http://[2001:db8::1]": false, "http://100.64.0.1": false, "http://169.254.1.1": false, "http://0.0.0.0": false, "https://no-such-host.invalid": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := isLocal(t.Context(), u); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
