// Package outbound is the only way out for requests to addresses that callers choose: images,
// tool servers, webhooks. It never reaches an address of a private network that the operator
// has not allowed, nor the service itself, regardless of DNS answers and their changes: the
// address is checked when connecting.
//
// It follows no redirect, reads no proxy from the environment, keeps no cookie and no
// connection, and does not decompress; every request has limits of time and size. Its errors
// describe the failure for callers, without details of the network, and say whether the
// server may have received the request.
//
// Start with [Network] and [Client.Exchange]. Requests to providers, which the operator
// configures, go through package upstream.
package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// Settings determine where requests may go.
type Settings struct {
	// Allow are destinations that may be reached although they are not public, and without
	// TLS. Deny are destinations that must not be reached; it takes precedence.
	Allow, Deny []Destination
	// Proxy, if set, makes the connections. It then resolves names itself, so only the names
	// are checked.
	Proxy *url.URL
	// Own are the host:port of the service's listeners and of its origin, which are never
	// reached.
	Own []string

	// The network, which tests replace. Nil means that of the machine, and its certificates.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	TLS     *tls.Config
}

// A Network is the network that [Settings] allow requests to reach.
type Network struct {
	s     Settings
	own   []Destination
	ports []string // of listeners on every address of this machine
}

// New returns the network for the settings.
func New(s Settings) *Network {
	n := &Network{s: s}
	if s.Resolve == nil {
		n.s.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if s.Dial == nil {
		n.s.Dial = (&net.Dialer{}).DialContext
	}
	for _, address := range s.Own {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		a, err := netip.ParseAddr(host)
		if host == "" || err == nil && a.IsUnspecified() {
			n.ports = append(n.ports, port)
		} else if d, err := parseDestination(address); err == nil {
			n.own = append(n.own, d)
		}
	}
	return n
}

// HostPort returns the host and port of a URL.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

var errNotAllowed = errors.New("the address is not allowed")

// permits reports whether a host may be reached at an address.
func (n *Network) permits(t target, host, port string, a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	real := embedded(a)
	if n.refuses(host, port, real) {
		return false
	}
	return !t.public && matches(n.s.Allow, host, port, real) || !t.plain && IsPublic(a)
}

// refuses reports whether no address could make a host allowed. The address is invalid if it
// is not known.
func (n *Network) refuses(host, port string, a netip.Addr) bool {
	if matches(n.s.Deny, host, port, a) || matches(n.own, host, port, a) {
		return true
	}
	return a.IsValid() && slices.Contains(n.ports, port) && isLocal(a)
}

// isLocal reports whether an address belongs to this machine.
func isLocal(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(i net.Addr) bool {
		p, err := netip.ParsePrefix(i.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}

// A target describes the purpose of a connection. It is in the context of its request.
type target struct {
	plain   bool // without TLS
	public  bool // ignore the additional destinations that the operator allows
	connect time.Duration
}

type targetKey struct{}

// connect resolves a name and connects to a checked address. A name with any address that
// must not be reached is refused entirely, because the next answer may contain the addresses in
// another order.
func (n *Network) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	t, _ := ctx.Value(targetKey{}).(target)
	ctx, cancel := context.WithTimeout(ctx, t.connect)
	defer cancel()
	if n.s.Proxy != nil { // the address is the proxy's
		return n.s.Dial(ctx, network, address)
	}
	all, err := n.s.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if !n.permits(t, host, port, a) {
			return nil, errNotAllowed
		}
	}
	err = errors.New("no address")
	for i, a := range all {
		var conn net.Conn
		if conn, err = n.dialOne(ctx, network, net.JoinHostPort(a.Unmap().String(), port), len(all)-i); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// dialOne connects to the first of several addresses, using its share of the remaining time.
func (n *Network) dialOne(ctx context.Context, network, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return n.s.Dial(ctx, network, address)
}

// check refuses a request that can be refused without a connection.
func (n *Network) check(u *url.URL, t target) error {
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "" {
		return errNotAllowed
	}
	host, port, err := net.SplitHostPort(HostPort(u))
	if err != nil {
		return errNotAllowed
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if !n.permits(t, host, port, a) {
			return errNotAllowed
		}
		return nil
	}
	if n.refuses(host, port, netip.Addr{}) {
		return errNotAllowed
	}
	if n.s.Proxy != nil && (t.plain || !IsPublicName(host)) && (t.public || !matches(n.s.Allow, host, port, netip.Addr{})) {
		return errNotAllowed // no later check covers the addresses
	}
	return nil
}

// transport returns the transport for the requests: HTTP/1.1, and a connection for each.
//
// No connection is kept idle, and the transport itself sends nothing twice, because a server or load
// balancer may close an idle connection just when the next request is sent, and then it is unknown
// whether it was received.
func (n *Network) transport(connect time.Duration) *http.Transport {
	settings := n.s.TLS.Clone()
	if settings == nil {
		settings = &tls.Config{}
	}
	settings.MinVersion = tls.VersionTLS12
	t := &http.Transport{
		DialContext: n.connect, TLSClientConfig: settings, TLSHandshakeTimeout: connect,
		DisableKeepAlives: true, MaxResponseHeaderBytes: MaxHeader,
	}
	if n.s.Proxy != nil {
		t.Proxy = http.ProxyURL(n.s.Proxy)
	}
	return t
}
