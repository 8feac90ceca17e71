package rest

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

func TestAddressesComeFromPeersOrProxies(t *testing.T) {
	t.Parallel()
	b := &Base{Logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		peer, forwarded, want string
	}{
		{"203.0.113.7:1234", "", "203.0.113.7"},
		{"203.0.113.7:1234", "198.51.100.1", "203.0.113.7"}, // a client's own header
		{"127.0.0.1:1234", "", ""},
		{"127.0.0.1:1234", "198.51.100.1", "198.51.100.1"},
		{"127.0.0.1:1234", "192.0.2.9, 198.51.100.1", "198.51.100.1"},
		{"10.0.0.3:1234", "192.0.2.9, 198.51.100.1 , 10.0.0.2", "198.51.100.1"},
		{"10.0.0.3:1234", "10.0.0.9", ""},
		{"[::1]:1234", "nonsense, 198.51.100.1", "198.51.100.1"},
		{"[::1]:1234", "198.51.100.1, nonsense", ""},
		{"[::ffff:127.0.0.1]:1", "198.51.100.1", "198.51.100.1"},
		{"[2001:db8:1:2:3:4:5:6]:1234", "", "2001:db8:1:2::/64"},
		{"[::ffff:203.0.113.7]:1", "", "203.0.113.7"},
		{"@", "198.51.100.1", ""}, // a socket in the file system
		{"127.0.0.1:1234", "192.0.2.9, 198.51.100.1:5678", "198.51.100.1"},
		{"127.0.0.1:1234", "[2001:db8:1:2::5]:5678", "2001:db8:1:2::/64"},
		{"127.0.0.1:1234", "[2001:db8:1:2::5]", "2001:db8:1:2::/64"},
		{"127.0.0.1:1234", "198.51.100.1, [2001:db8::5", ""},
		{"100.64.7.7:1234", "192.0.2.9, 198.51.100.1, 100.64.1.1", "198.51.100.1"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := b.ClientAddress(r); got != c.want {
			t.Errorf("from %s for %q: %q, want %q", c.peer, c.forwarded, got, c.want)
		}
	}
}

// With trusted proxies the client is the last address that none of them has, even a private
// one: clients of an intranet do not choose theirs.
func TestOnlyTrustedProxiesNameTheirClients(t *testing.T) {
	t.Parallel()
	trusted, err := stoa.ParseProxies([]string{"10.0.0.0/24", "203.0.113.9", "2001:db8:f::/48"})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	b := &Base{Proxies: trusted, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct {
		peer, forwarded, want string
	}{
		{"10.0.0.3:1", "198.51.100.1, 192.168.7.7", "192.168.7.7"},
		{"10.0.0.3:1", "198.51.100.1, 192.168.7.7, 10.0.0.9:80, 203.0.113.9", "192.168.7.7"},
		{"10.0.0.3:1", "10.0.0.9", ""},
		{"10.0.0.3:1", "", ""},
		{"10.0.1.3:1", "198.51.100.1", "10.0.1.3"},
		{"127.0.0.1:1", "198.51.100.1", "127.0.0.1"},
		{"203.0.113.9:1", "198.51.100.1", "198.51.100.1"},
		{"[2001:db8:f::1]:1", "[fd00:0:0:7::5]:1", "fd00:0:0:7::/64"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := b.ClientAddress(r); got != c.want {
			t.Errorf("from %s for %q: %q, want %q", c.peer, c.forwarded, got, c.want)
		}
	}
	if log.Len() > 0 || b.UnreadForwarded() {
		t.Errorf("the log has %s", &log)
	}
	for range 3 { // a proxy with another format is reported once
		r := &http.Request{RemoteAddr: "10.0.0.3:1", Header: http.Header{"X-Forwarded-For": {"198.51.100.1, _hidden\n"}}}
		if got := b.ClientAddress(r); got != "" {
			t.Errorf("an address is %q", got)
		}
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 || !b.UnreadForwarded() {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
	for _, wrong := range []string{"0.0.0.0/0", "::/0", "proxy.internal", "10.0.0.0/33", "fe80::1%eth0/64", ""} {
		if _, err := stoa.ParseProxies([]string{wrong}); err == nil {
			t.Errorf("%q is a block", wrong)
		}
	}
}
