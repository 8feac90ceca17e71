package outbound

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// SiteOf returns the registrable domain of a host. For an address by number and for a name
// that is a public suffix or has one part, it is the host.
func SiteOf(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// InPublicDomain reports whether a host is a name in a domain in which anyone can register
// names. Names of one part, localhost and those of private networks are not.
func InPublicDomain(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return false
	}
	suffix, icann := publicsuffix.PublicSuffix(host)
	return icann || strings.Contains(suffix, ".") // without a dot it is in no list
}
