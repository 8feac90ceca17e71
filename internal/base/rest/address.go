package rest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// ClientAddress returns the address of the client that sent a request, or "" if it is unknown. An
// IPv6 address is reduced to its /64 network, because that usually belongs to one customer of a
// provider.
//
// A trusted proxy forwards the requests of others. For its connection the result is the last address in
// X-Forwarded-For that is not a trusted proxy's, because proxies append the address of their peer and a client
// can forge only the addresses before it.
func (b *Base) ClientAddress(r *http.Request) string {
	if a := b.ClientAddr(r); a.IsValid() {
		p := stoa.NetworkOf(a)
		if p.IsSingleIP() {
			return p.Addr().String()
		}
		return p.String()
	}
	return ""
}

// ClientAddr returns the whole address for [Base.ClientAddress]; the zero value is unknown.
func (b *Base) ClientAddr(r *http.Request) (unknown netip.Addr) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return unknown
	}
	if !b.Proxies.Trusts(peer.Addr()) {
		return peer.Addr()
	}
	headers := r.Header.Values("X-Forwarded-For")
	if len(headers) == 0 {
		return unknown
	}
	for _, text := range slices.Backward(strings.Split(strings.Join(headers, ","), ",")) {
		addr, ok := stoa.ParseAddress(strings.TrimSpace(text))
		if !ok {
			if !b.unread.Swap(true) {
				b.Logger.WarnContext(r.Context(), "an address in X-Forwarded-For cannot be read, so limits per address do not apply to such requests", "value", text[:min(len(text), 64)], "peer", peer.Addr().String())
			}
			return unknown
		}
		if !b.Proxies.Trusts(addr) {
			return addr
		}
	}
	return unknown
}

// LoggedAddress returns the address of a request's client for the logs, or "" unless the
// configuration enables addresses.
func (b *Base) LoggedAddress(r *http.Request) string {
	if b.RequestLog == nil || !b.RequestLog().Addresses {
		return ""
	}
	return b.ClientAddress(r)
}

// UnreadForwarded reports whether an address in X-Forwarded-For could not be read.
func (b *Base) UnreadForwarded() bool { return b.unread.Load() }
