package rest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddress returns the address of the client that sent a request, or "" if it is
// not known. An IPv6 address is reduced to its /64 network, which usually belongs to
// one customer of a provider.
//
// A connection from a loopback or private address may be a reverse proxy. Then it is
// the last address in X-Forwarded-For that is not private: proxies append the address
// of their peer, and a client can forge only the addresses before it.
func ClientAddress(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	if !isPrivate(peer.Addr()) {
		return network(peer.Addr())
	}
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(forwarded) {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			return ""
		}
		if !isPrivate(addr) {
			return network(addr)
		}
	}
	return ""
}

func isPrivate(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
}

func network(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Masked().String()
		}
	}
	return a.String()
}
