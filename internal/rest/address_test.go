package rest

import (
	"net/http"
	"testing"
)

func TestAddressesComeFromPeersOrProxies(t *testing.T) {
	t.Parallel()
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
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := ClientAddress(r); got != c.want {
			t.Errorf("from %s for %q: %q, want %q", c.peer, c.forwarded, got, c.want)
		}
	}
}
