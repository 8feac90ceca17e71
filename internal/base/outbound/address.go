package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// MaxDestinations is the maximum number of destinations in a list of an operator.
const MaxDestinations = 200

// A Destination is a destination that an operator allows or denies: addresses, or a host by
// its name.
type Destination struct {
	addresses netip.Prefix // if not valid, host is set
	host      string       // in lower case, without a trailing dot
	port      string       // empty means every port
}

// ParseDestinations parses a list of an operator. Each entry is a block of addresses
// (10.20.0.0/16), an address or a name (10.20.0.7, mcp.internal), the latter two with or
// without a port (mcp.internal:8000, [fd00::1]:443).
func ParseDestinations(list []string) ([]Destination, error) {
	if len(list) > MaxDestinations {
		return nil, fmt.Errorf("there are %d destinations; the maximum is %d", len(list), MaxDestinations)
	}
	var all []Destination
	for _, text := range list {
		d, err := parseDestination(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not a destination; write a block of addresses such as 10.20.0.0/16, or a host such as mcp.internal:8000", text)
		}
		all = append(all, d)
	}
	return all, nil
}

func parseDestination(text string) (Destination, error) {
	if block, err := netip.ParsePrefix(text); err == nil {
		if a := block.Addr(); a.Is4In6() && block.Bits() >= 96 {
			block = netip.PrefixFrom(a.Unmap(), block.Bits()-96)
		}
		return Destination{addresses: block.Masked()}, nil
	}
	host, port := text, ""
	if h, p, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return Destination{}, errors.New("no port")
		}
		host, port = h, p
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = embedded(a)
		return Destination{addresses: netip.PrefixFrom(a, a.BitLen()), port: port}, nil
	}
	host = canonical(host)
	if !isName(host) {
		return Destination{}, errors.New("no name")
	}
	return Destination{host: host, port: port}, nil
}

// matches reports whether a list contains a host with a port; the unmapped address counts
// too, if it is known.
func matches(list []Destination, host, port string, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(d Destination) bool {
		if d.port != "" && d.port != port {
			return false
		}
		if d.addresses.IsValid() {
			return d.addresses.Contains(a)
		}
		return d.host == canonical(host)
	})
}

// canonical returns a host in the form in which names are compared.
func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// isName reports whether a host in canonical form has the form of a name.
func isName(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	for l := range strings.SplitSeq(host, ".") {
		if l == "" || len(l) > 63 || strings.ContainsFunc(l, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
		}) {
			return false
		}
	}
	return true
}

// IsPublicName reports whether a host is a name, rather than an address in any
// spelling, that is not reserved for private networks.
func IsPublicName(host string) bool {
	host = canonical(host)
	dot := strings.LastIndexByte(host, '.')
	if dot < 0 || !isName(host) {
		return false
	}
	switch last := host[dot+1:]; last {
	case "localhost", "local", "internal", "localdomain", "lan", "home", "intranet", "corp", "private", "arpa", "test", "invalid", "example", "onion":
		return false
	default: // because the parts of an address are numbers, decimal or hexadecimal
		if _, err := strconv.ParseUint(last, 0, 64); err == nil || last[0] >= '0' && last[0] <= '9' {
			return false
		}
	}
	return true
}

// reserved are the blocks of addresses that are not public.
var reserved = func() (out []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"168.63.129.16/32", // the host of virtual machines in one cloud
		"2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

var (
	global6 = netip.MustParsePrefix("2000::/3") // all assigned addresses
	sixTo4  = netip.MustParsePrefix("2002::/16")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

// embedded returns the IPv4 address that an IPv6 address leads to, if it does, otherwise the
// address itself, without a zone.
func embedded(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	switch b := a.As16(); {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

// IsPublic reports whether an address may be on the public Internet, in any form: an IPv4
// address inside an IPv6 one counts as itself. An address with a zone is not public.
func IsPublic(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = embedded(a)
	if a.Is6() && !global6.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

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
