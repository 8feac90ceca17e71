package outbound

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// Check returns an [*Error] if requests to an address would be refused, as far as that can be
// determined in advance: a name is resolved, within 2 s, and an unresolvable one is only an
// error without TLS and if no destination that the operator allows could match. The address
// is checked again with every request.
func (n *Network) Check(ctx context.Context, u *url.URL) error {
	t := target{plain: u.Scheme != "https"}
	if err := n.check(u, t); err != nil {
		return &Error{Reason: NotAllowed, cause: err}
	}
	host, port, err := net.SplitHostPort(HostPort(u))
	if err != nil {
		return nil
	}
	if t.plain && !slices.ContainsFunc(n.s.Allow, func(d Destination) bool {
		return (d.port == "" || d.port == port) && (d.addresses.IsValid() || d.host == canonical(host))
	}) {
		return &Error{Reason: NotAllowed, cause: errNotAllowed}
	}
	if n.s.Proxy != nil {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // because it was checked
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	all, err := n.s.Resolve(ctx, host)
	if err != nil {
		return nil
	}
	for _, a := range all {
		if !n.permits(t, host, port, a) {
			return &Error{Reason: NotAllowed, cause: errNotAllowed}
		}
	}
	return nil
}
