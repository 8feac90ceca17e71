package remote

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// minBlanked is the length of the shortest secret that is blanked: a shorter one could
// be any word.
const minBlanked = 8

// blankedAs stands where a secret was.
const blankedAs = "[secret]"

// Blank takes the secret out of what a server sent: servers repeat headers. It finds
// it in plain, in base64, also of a longer text, with the escapes of JSON and with those
// of addresses, and where such a text is within another one of its kind, up to three deep.
func (c Credential) Blank(data []byte) []byte {
	secrets := blanked(c.Value)
	for _, part := range c.Parts {
		secrets = append(secrets, blanked(part)...)
	}
	if len(secrets) == 0 {
		return data
	}
	var out []byte
	kept := 0 // up to where data is in out
	for i := 0; i < len(data); {
		n := 0
		for _, secret := range secrets {
			if n = spelled(data[i:], secret); n > 0 {
				break
			}
		}
		if n == 0 {
			i++
			continue
		}
		out = append(append(out, data[kept:i]...), blankedAs...)
		i += n
		kept = i
	}
	if kept == 0 {
		return data
	}
	return append(out, data[kept:]...)
}

// blanked returns the texts that would give a secret away: itself, without the scheme of
// the header, and what base64 makes of it wherever it begins in a text.
func blanked(secret string) (all []string) {
	value := secret
	if scheme, after, found := strings.Cut(secret, " "); found && len(after) >= minBlanked {
		value = after
		if scheme != "Bearer" && scheme != "Basic" { // it may be no scheme, but part of the secret
			all = append(all, secret)
		}
	}
	if len(value) < minBlanked {
		return nil
	}
	all = append(all, value)
	for _, s := range slices.Clone(all) {
		for before := range 3 {
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				text := e.EncodeToString([]byte("   "[:before] + s))
				all = append(all, text[(8*before+5)/6:8*(before+len(s))/6]) // without what it shares with its neighbours
			}
		}
	}
	return all
}

// deepest is how many texts of JSON or addresses may be one in the other.
const deepest = 3

// spelled returns how many bytes of the beginning of data spell a secret; 0: it does
// not begin with it.
func spelled(data []byte, secret string) int {
	if len(data) >= len(secret) && string(data[:len(secret)]) == secret {
		return len(secret)
	}
	for json := range depths(secret, '\\') {
		for address := range depths(secret, '%') {
			if n := spelledAt(data, secret, json, address); n > 0 {
				return n
			}
		}
	}
	return 0
}

// depths returns how many depths of texts have to be tried, since a byte of the secret
// is itself what others are escaped with.
func depths(secret string, escape byte) int {
	if strings.IndexByte(secret, escape) < 0 {
		return 1
	}
	return deepest + 1
}

// spelledAt is spelled in so many texts of JSON, each within the next, or so many
// addresses.
func spelledAt(data []byte, secret string, json, address int) int {
	at := 0
	for i := range len(secret) {
		n := spelledByte(data[at:], secret[i], json, address)
		if n == 0 {
			return 0
		}
		at += n
	}
	return at
}

// spelledByte returns how many bytes of the beginning of data spell one: itself, %41,
// %2541 and so on, \u0041, or itself after a backslash. JSON within a text of JSON has
// more backslashes than one; a backslash and a % are as long as the depths say.
func spelledByte(data []byte, c byte, json, address int) int {
	if len(data) == 0 {
		return 0
	}
	if data[0] == '%' {
		if c == '%' {
			if n := 1 + 2*address; strings.HasPrefix("%"+strings.Repeat("25", deepest), string(data[:min(n, len(data))])) && len(data) >= n {
				return n
			}
			return 0
		}
		rest := data[1:]
		for range deepest {
			if hexIs(rest, 2, c) {
				return len(data) - len(rest) + 2
			}
			if !hexIs(rest, 2, '%') {
				break
			}
			rest = rest[2:]
		}
	}
	slashes := 0
	for slashes < min(len(data), 1<<deepest) && data[slashes] == '\\' {
		slashes++
	}
	rest := data[slashes:]
	switch {
	case slashes > 0 && len(rest) > 0 && rest[0] == 'u' && hexIs(rest[1:], 4, c):
		return slashes + 5
	case c == '\\' && slashes >= 1<<json:
		return 1 << json
	case c == '\\' || slashes > 0 && c != '/' && c != '"':
		return 0
	case len(rest) > 0 && (rest[0] == c || c == ' ' && rest[0] == '+'):
		return slashes + 1
	}
	return 0
}

// hexIs reports whether data begins with so many hexadecimal digits for a byte.
func hexIs(data []byte, digits int, c byte) bool {
	if len(data) < digits {
		return false
	}
	n, err := strconv.ParseUint(string(data[:digits]), 16, 32)
	return err == nil && n == uint64(c)
}
