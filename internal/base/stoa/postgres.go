package stoa

import (
	"regexp"
	"strings"
)

// UnescapedAddress says how to correct an address for which [IsUnescaped] is true.
const UnescapedAddress = "a character in its password (or its user or database) ends that part of the address; write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23 and % as %25"

var (
	badEscape = regexp.MustCompile(`%(?:[^0-9a-fA-F]|.[^0-9a-fA-F]|.?$)`)
	badPort   = regexp.MustCompile(`:[^0-9:,\]@][^,\]]*$|:\d+[^0-9:,\]][^,\]]*$`)
)

// IsUnescaped reports whether the URL of a PostgreSQL database seems to contain a password whose
// special characters are not percent-encoded. Such URLs must be refused, since the rest of the password would
// otherwise be taken as a host, sent to the name servers and printed in errors.
func IsUnescaped(address string) bool {
	_, rest, _ := strings.Cut(address, "://")
	if strings.Contains(rest, "#") || badEscape.MatchString(rest) { // unescaped, because these addresses have no fragment
		return true
	}
	path, query, _ := strings.Cut(rest, "?")
	hosts, database, _ := strings.Cut(path, "/")
	if strings.Count(hosts, "@") > 1 || strings.Contains(database, "@") {
		return true
	}
	if strings.Contains(hosts, "@") {
		return false
	}
	name, _, _ := strings.Cut(query, "=")
	return strings.Contains(name, "@") || badPort.MatchString(hosts)
}
