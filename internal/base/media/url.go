package media

import (
	"net/url"
	"strings"

	"stoa/internal/base/outbound"
)

// A Policy says how addresses in a request are handled.
type Policy string

// The policies.
const (
	Pass   Policy = "pass"   // the vendor fetches it
	Fetch  Policy = "fetch"  // the service fetches it
	Refuse Policy = "refuse" // only data URLs are accepted
)

// maxURL is the maximum length of an address in bytes.
const maxURL = 4_096

// CheckURL checks an address: https at the default port, with a host name that may be public,
// without a user and a fragment.
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
	case !outbound.IsPublicName(u.Hostname()):
		return invalid("The host of the URL must be a public name.")
	}
	return nil
}
