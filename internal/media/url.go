package media

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// A Policy says what becomes of an address in a request.
type Policy string

// The policies.
const (
	Pass   Policy = "pass"   // the vendor fetches it
	Fetch  Policy = "fetch"  // it is fetched here
	Refuse Policy = "refuse" // only data URLs are taken
)

// maxURL is the length of an address in bytes.
const maxURL = 4_096

// CheckURL checks an address: https at the usual port, with a name for a host that
// may be public, no user and no fragment.
func CheckURL(address string) error {
	if len(address) > maxURL {
		return invalid("The URL is longer than %d characters.", maxURL)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "" || strings.ContainsAny(address, "\\ \t\r\n"):
		return invalid("The URL cannot be read. Send an https URL, or a data URL.")
	case u.Scheme != "https":
		return invalid("The URL must begin with https:// or data:.")
	case u.User != nil:
		return invalid("The URL must not have a user or a password.")
	case u.Fragment != "" || strings.Contains(address, "#"):
		return invalid("The URL must not have a fragment.")
	case u.Port() != "" && u.Port() != "443" || strings.HasSuffix(u.Host, ":"):
		return invalid("The URL must not have a port other than 443.")
	case !isPublicName(u.Hostname()):
		return invalid("The host of the URL must be a public name.")
	}
	return nil
}

// isPublicName reports whether a host is a name, rather than an address in any
// spelling, that is not reserved for private networks.
func isPublicName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(host) > 253 {
		return false
	}
	labels := strings.Split(host, ".")
	if len(labels) < 2 {
		return false
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.ContainsFunc(l, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
		}) {
			return false
		}
	}
	switch last := labels[len(labels)-1]; last {
	case "localhost", "local", "internal", "localdomain", "lan", "home", "intranet", "corp", "private", "arpa", "test", "invalid", "example", "onion":
		return false
	default: // the parts of an address are numbers, decimal or hexadecimal
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
		"168.63.129.16/32", // the host of virtual machines at one cloud
		"2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

var (
	global6 = netip.MustParsePrefix("2000::/3") // all that is assigned
	sixTo4  = netip.MustParsePrefix("2002::/16")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

// IsPublic reports whether an address may be on the public Internet, whatever form
// it has: an IPv4 address inside an IPv6 one counts as itself.
func IsPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		b := a.As16()
		switch {
		case nat64.Contains(a):
			return IsPublic(netip.AddrFrom4([4]byte(b[12:])))
		case sixTo4.Contains(a):
			return IsPublic(netip.AddrFrom4([4]byte(b[2:6])))
		case !global6.Contains(a):
			return false
		}
	}
	if !a.IsValid() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
