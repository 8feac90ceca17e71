package stoa

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// MaxProxies is the maximum number of blocks of trusted proxies.
const MaxProxies = 100

// Proxies are the addresses of trusted reverse proxies, which name their client in
// X-Forwarded-For. The zero value trusts loopback, private and link-local addresses.
type Proxies struct{ blocks []netip.Prefix }

// ParseProxies parses blocks of addresses and single addresses.
func ParseProxies(list []string) (p Proxies, err error) {
	if len(list) > MaxProxies {
		return p, fmt.Errorf("there are %d blocks; the maximum is %d", len(list), MaxProxies)
	}
	for _, text := range list {
		text = strings.TrimSpace(text)
		block, err := netip.ParsePrefix(text)
		if addr, single := netip.ParseAddr(text); single == nil && addr.Zone() == "" {
			block, err = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
		}
		switch {
		case err != nil || block.Addr().Is4In6() || block.Addr().Zone() != "":
			return p, fmt.Errorf("%q is not a block of addresses; write one such as 10.20.0.0/16 or 2001:db8::/48, or an address", text)
		case block.Bits() == 0:
			return p, fmt.Errorf("%q contains every address, so that callers could choose theirs; write the addresses of your proxies", text)
		}
		p.blocks = append(p.blocks, block.Masked())
	}
	return p, nil
}

// shared is the network between a provider and its customers (RFC 6598). It is trusted because
// clouds use it for their load balancers.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// Trusts reports whether an address is that of a trusted proxy.
func (p Proxies) Trusts(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if p.blocks == nil {
		return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || shared.Contains(a)
	}
	return slices.ContainsFunc(p.blocks, func(b netip.Prefix) bool { return b.Contains(a) })
}

// Network returns the network that limits count an address in, with or without a port: an IPv4
// address itself, or the first 64 bits of an IPv6 address, because one client usually controls all of
// those. It returns the zero prefix for a trusted proxy and for a text that is not an address.
func (p Proxies) Network(address string) netip.Prefix {
	a, ok := ParseAddress(address)
	if !ok || p.Trusts(a) {
		return netip.Prefix{}
	}
	return NetworkOf(a)
}

// NetworkOf returns the network for which an address counts; see [Proxies.Network].
func NetworkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // cannot fail, because both lengths are valid for their addresses
	return p
}

// ParseAddress parses an address with or without a port; an IPv6 address may be in brackets.
func ParseAddress(text string) (netip.Addr, bool) {
	if both, err := netip.ParseAddrPort(text); err == nil {
		return both.Addr(), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(text)
	return a, err == nil
}
