package embed

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"stoa/internal/base/stoa"
)

const (
	maxOrigin = 300 // bytes
	maxLabels = 10  // labels of a host, since each adds an entry to look up
)

var (
	hostLabels = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	portDigits = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)
)

// ParseOrigin parses an origin as an owner lists it: https and a host, or http and the local
// host, both with a port if it is not the default one. https://*.example.com matches every
// host below example.com at any depth, but not example.com itself. The result has the
// spelling that browsers send.
func ParseOrigin(text string) (string, error) {
	wrong := func(why string) error {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q is not an origin that can be allowed: %s. Write it as https://www.example.com, https://*.example.com or http://localhost:3000.", shorten(text), why)
	}
	if len(text) > maxOrigin {
		return "", wrong("it is too long")
	}
	scheme, rest, ok := strings.Cut(strings.ToLower(text), "://")
	if !ok || scheme != "https" && scheme != "http" {
		return "", wrong("it must begin with https://, or with http:// for this machine")
	}
	host, port, hasPort := strings.Cut(rest, ":")
	name, wild := strings.CutPrefix(host, "*.")
	switch {
	case !hostLabels.MatchString(name) || len(name) > 253:
		return "", wrong("it must have only a scheme, a host and a port; other alphabets as xn--…")
	case hasPort && !portDigits.MatchString(port):
		return "", wrong("the port is not a number")
	case strings.Count(host, ".") >= maxLabels:
		return "", wrong("its host has more than 10 names")
	case wild && !strings.Contains(name, "."):
		return "", wrong("the part after *. must have at least two names")
	case wild && isPublicSuffix(name):
		return "", wrong("anyone can register a host below " + name)
	case scheme == "http" && (wild || !(name == "localhost" || strings.HasSuffix(name, ".localhost") || name == "127.0.0.1")):
		return "", wrong("without TLS only this machine is allowed")
	}
	if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		hasPort = false
	}
	out := scheme + "://" + host
	if hasPort {
		out += ":" + port
	}
	return out, nil
}

// isPublicSuffix reports whether anyone can register a host below name, such as co.uk and
// github.io. A wildcard there is refused, because it would allow everyone's pages.
func isPublicSuffix(name string) bool {
	suffix, _ := publicsuffix.PublicSuffix(name)
	return suffix == name
}

// Patterns returns the list entries that would allow an origin in the spelling of browsers:
// the origin, then each wildcard above it. It returns none if the text is not an origin, or
// its host has more names than can be listed.
func Patterns(origin string) []string {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host || len(origin) > maxOrigin || strings.Count(u.Host, ".") >= maxLabels {
		return nil
	}
	list := []string{origin}
	if u.Scheme != "https" {
		return list
	}
	name, port := u.Hostname(), ""
	if u.Port() != "" {
		port = ":" + u.Port()
	}
	for {
		_, above, ok := strings.Cut(name, ".")
		if !ok || !strings.Contains(above, ".") {
			return list
		}
		list = append(list, "https://*."+above+port)
		name = above
	}
}

// Lists reports whether a list of allowed origins matches an origin in the spelling of
// browsers.
func Lists(allowed []string, origin string) bool {
	for _, p := range Patterns(origin) {
		for _, a := range allowed {
			if a == p {
				return true
			}
		}
	}
	return false
}

func shorten(text string) string {
	if r := []rune(text); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return text
}

// ParseOrigins parses the list of an owner; see [ParseOrigin]. An empty list, or one that allows every
// page, is CodeOriginsRequired.
func ParseOrigins(list []string) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, text := range list {
		if _, host, ok := strings.Cut(text, "://"); strings.Trim(text, "*:/. ") == "" || ok && strings.Trim(host, "*:/. ") == "" && host != "" {
			return nil, originsRequired()
		}
		origin, err := ParseOrigin(text)
		if err != nil {
			return nil, stoa.AsError(err).At("allowedOrigins")
		}
		if !slices.Contains(out, origin) {
			out = append(out, origin)
		}
	}
	if len(out) == 0 {
		return nil, originsRequired()
	}
	return out, nil
}

func originsRequired() error {
	return stoa.Errorf(stoa.CodeOriginsRequired, "Name the pages that can show the agent, such as https://www.example.com. Allowing every page is not possible.").At("allowedOrigins")
}
