package media

import (
	"net/url"
	"strings"

	"stoa/internal/outbound"
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
	case !outbound.IsPublicName(u.Hostname()):
		return invalid("The host of the URL must be a public name.")
	}
	return nil
}
