package remote

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// minBlanked is the length of the shortest secret that is blanked: a shorter one could
// be any word.
const minBlanked = 8

// blankedAs stands where a secret was.
const blankedAs = "[secret]"

// Blank takes the secret out of what a server sent: servers repeat headers. It finds
// it in plain, in base64, with the escapes of JSON, in JSON within a text of JSON too,
// and with those of addresses.
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

// blanked returns the texts that would give a secret away: what follows the scheme of
// the header, and all of it in base64.
func blanked(secret string) (all []string) {
	value := secret
	if _, after, found := strings.Cut(secret, " "); found && len(after) >= minBlanked {
		value = after
	}
	if len(value) < minBlanked {
		return nil
	}
	all = []string{value}
	for _, s := range []string{value, secret} {
		all = append(all, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(s)), "="), strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(s)), "="))
	}
	return all
}

// spelled returns how many bytes of the beginning of data spell a secret; 0: it does
// not begin with it.
func spelled(data []byte, secret string) int {
	if len(data) >= len(secret) && string(data[:len(secret)]) == secret {
		return len(secret)
	}
	at := 0
	for i := range len(secret) {
		n := spelledByte(data[at:], secret[i])
		if n == 0 {
			return 0
		}
		at += n
	}
	return at
}

// spelledByte returns how many bytes of the beginning of data spell one: itself, %41,
// \u0041, or itself after a backslash. JSON within a text of JSON has more backslashes
// than one.
func spelledByte(data []byte, c byte) int {
	if len(data) == 0 {
		return 0
	}
	if data[0] == '%' && hexIs(data[1:], 2, c) {
		return 3
	}
	slashes := 0
	for slashes < min(len(data), 8) && data[slashes] == '\\' {
		slashes++
	}
	rest := data[slashes:]
	switch {
	case slashes > 0 && len(rest) > 0 && rest[0] == 'u' && hexIs(rest[1:], 4, c):
		return slashes + 5
	case c == '\\':
		return slashes
	case slashes > 0 && c != '/' && c != '"':
		return 0
	case len(rest) > 0 && rest[0] == c:
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
