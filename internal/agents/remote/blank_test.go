package remote

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestSecretsAreBlankedHoweverSpelled(t *testing.T) {
	t.Parallel()
	const value = `s3cr/t"<&>\x+=é-0123456789`
	for _, c := range []Credential{{Header: "Authorization", Value: "Bearer " + value}, {Header: "X-Key", Value: value}, {Query: "key", Value: value}} {
		quoted, _ := json.Marshal(value)
		twice, _ := json.Marshal(string(quoted))
		for _, echo := range []string{
			value, c.Value, string(quoted), string(twice), strings.ReplaceAll(string(quoted), "/", `\/`), url.QueryEscape(value), url.PathEscape(value),
			base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(c.Value)), value + value,
		} {
			got := string(c.Blank([]byte(`before ` + echo + ` after`)))
			for _, part := range []string{"s3cr", "0123456789", base64.StdEncoding.EncodeToString([]byte(value))[4:20]} {
				if strings.Contains(got, part) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || !strings.Contains(got, blankedAs) {
					t.Errorf("%s: %s", echo, got)
				}
			}
		}
	}
}

// TestSecretsAreBlankedWithinOtherText checks texts that a server encodes as a whole, so that
// the secret begins anywhere in them, and more than once.
func TestSecretsAreBlankedWithinOtherText(t *testing.T) {
	t.Parallel()
	const value = `a b/s3cr%+"=\&<z\"0123456789`
	inner := strings.TrimSpace(value[2:])
	for _, c := range []Credential{{Header: "Authorization", Value: "Bearer " + inner}, {Header: "X-Key", Value: inner}, {Query: "key", Value: inner}, {Header: "X-Key", Value: value}} {
		secret := strings.TrimPrefix(c.Value, "Bearer ")
		for _, whole := range []string{secret, "x" + secret + "y", "xy" + secret, "xyz" + secret + "yz"} {
			quoted, _ := json.Marshal(whole)
			twice, _ := json.Marshal(string(quoted))
			thrice, _ := json.Marshal(string(twice))
			for name, echo := range map[string]string{
				"JSON": string(quoted), "JSON in JSON": string(twice), "JSON in JSON in JSON": string(thrice),
				"an address": url.QueryEscape(whole), "an address in an address": url.QueryEscape(url.QueryEscape(whole)), "a path in an address": url.QueryEscape(url.PathEscape(whole)),
				"base64": base64.StdEncoding.EncodeToString([]byte(whole)), "base64 of addresses": base64.RawURLEncoding.EncodeToString([]byte(whole)),
				"base64 in an address": url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(whole))),
			} {
				got := string(c.Blank([]byte(echo)))
				left := strings.ReplaceAll(got, blankedAs, "")
				if !strings.Contains(got, blankedAs) || len(left) > 24 || strings.Contains(left, "s3cr") || strings.Contains(left, "2345") {
					t.Errorf("%s of %q: %s", name, whole, got)
				}
			}
		}
	}
}

func TestOtherTextIsNotBlanked(t *testing.T) {
	t.Parallel()
	for _, c := range []Credential{{}, {Header: "X-Key", Value: "short"}, {Header: "Authorization", Value: "Bearer 0123456789abcdef"}} {
		for _, text := range []string{"", "short", "Bearer 0123456789abcdeg", `\`, `\u004`, `%4`, "Bearer Bearer 01234567"} {
			if got := string(c.Blank([]byte(text))); got != text {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
}

// lines breaks a text after the given number of columns, as encoders of mail and of
// certificates do.
func lines(text, with string, columns int) string {
	var b strings.Builder
	for len(text) > columns {
		b.WriteString(text[:columns] + with)
		text = text[columns:]
	}
	return b.String() + text
}

// encoders are the forms in which servers repeat a secret, and pieces that must not remain.
var encoders = map[string]func(string) string{
	"plain":                 func(s string) string { return s },
	"base64":                func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64url":             func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64url, no padding": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 of 76":          func(s string) string { return lines(base64.StdEncoding.EncodeToString([]byte(s)), "\r\n", 76) },
	"base64 of 64":          func(s string) string { return lines(base64.StdEncoding.EncodeToString([]byte(s)), "\n", 64) },
	"base64 of 5":           func(s string) string { return lines(base64.URLEncoding.EncodeToString([]byte(s)), "\n\t", 5) },
	"hex":                   func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":                   func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex of 64":             func(s string) string { return lines(hex.EncodeToString([]byte(s)), "\n", 64) },
	"%XX":                   func(s string) string { return each(s, "%%%02X") },
	"%xx":                   func(s string) string { return each(s, "%%%02x") },
	`\uXXXX`:                func(s string) string { return each(s, `\u%04X`) },
	`\uxxxx`:                func(s string) string { return each(s, `\u%04x`) },
	`\xXX`:                  func(s string) string { return each(s, `\x%02x`) },
}

func each(text, format string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, format, text[i])
	}
	return b.String()
}

// wraps are texts that contain such a form.
var wraps = map[string]func(string) string{
	"as it is":           func(s string) string { return s },
	"JSON":               quoted,
	"JSON in JSON":       func(s string) string { return quoted(quoted(s)) },
	"an address":         url.QueryEscape,
	"an address in JSON": func(s string) string { return quoted(url.QueryEscape(s)) },
	"JSON in an address": func(s string) string { return url.PathEscape(quoted(s)) },
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// TestSecretsAreBlankedInEveryForm nests the forms of the table, for a text with the secret
// at any position. Only characters shared with neighbours may remain.
func TestSecretsAreBlankedInEveryForm(t *testing.T) {
	t.Parallel()
	value := "Zq7/+w9-" + strings.Repeat("Kx3_%v&", 12) + "~last"
	for form, encode := range encoders {
		for in, wrap := range wraps {
			for before := range 3 {
				for _, c := range []Credential{{Header: "X-Key", Value: value}, {Header: "Authorization", Value: "Bearer " + value}, {Header: "Authorization", Value: "Basic x", Parts: []string{value}}} {
					whole := strings.Repeat("\x01", before) + value + "\x02\x03\x04"
					got := string(c.Blank([]byte(wrap(encode(whole)))))
					left := len(strings.ReplaceAll(got, blankedAs, ""))
					if most := len(wrap(encode("\x01\x02\x03\x04\x05\x06\x07\x08"))) + 8; !strings.Contains(got, blankedAs) || left > most {
						t.Errorf("%s in %s, %d before: %d bytes are left of %s", form, in, before, left, got)
					}
				}
			}
		}
	}
}

// TestBlankedTextIsStillJSON checks that a secret that begins after an escape, or ends before
// one, is removed together with it.
func TestBlankedTextIsStillJSON(t *testing.T) {
	t.Parallel()
	if got := (Credential{Header: "X-Key", Value: "n012345678"}).Blank([]byte(quoted("\n012345678"))); !json.Valid(got) {
		t.Errorf("%s", got)
	}
	for _, value := range []string{`n012345678`, `012345678\`, `u0041bcdefg`, `\n01234567`, `"012345678"`} {
		for _, text := range []string{value, "\n" + value + "\n", `\` + value + `\`, "\"" + value + "\""} {
			for _, data := range []string{quoted(text), quoted(quoted(text))} {
				got := Credential{Header: "X-Key", Value: value}.Blank([]byte(data))
				if !json.Valid(got) || !strings.Contains(string(got), blankedAs) {
					t.Errorf("%q in %s: %s", value, data, got)
				}
			}
		}
	}
}

func FuzzBlankedFormsHaveNoSecret(f *testing.F) {
	f.Add("before", "0123456789", "after", uint8(3), uint8(2))
	f.Add(`\`, `012345\n"%41`, `n`, uint8(9), uint8(1))
	forms, ways := slices.Sorted(maps.Keys(encoders)), slices.Sorted(maps.Keys(wraps))
	f.Fuzz(func(t *testing.T, before, secret, after string, form, way uint8) {
		if strings.ContainsFunc(before+secret+after, func(r rune) bool { return r < ' ' || r > '~' }) || strings.Contains(secret, " ") || len(secret) < minBlanked {
			return
		}
		c := Credential{Header: "X-Key", Value: secret}
		encode, wrap := encoders[forms[int(form)%len(forms)]], wraps[ways[int(way)%len(ways)]]
		if got := string(c.Blank([]byte(wrap(encode(before + secret + after))))); !strings.Contains(got, blankedAs) {
			t.Errorf("%q as %s in %s: %s", secret, forms[int(form)%len(forms)], ways[int(way)%len(ways)], got)
		}
	})
}

func FuzzBlankedTextHasNoSecret(f *testing.F) {
	f.Add(`a0123456789b`, "0123456789")
	f.Add(`\\0123456\`, `\\012345`)
	f.Fuzz(func(t *testing.T, text, secret string) {
		c := Credential{Header: "X-Key", Value: secret}
		got := string(c.Blank([]byte(text + secret)))
		if len(secret) >= minBlanked && !strings.Contains(secret, "\x00") && strings.Contains(strings.ReplaceAll(got, blankedAs, "\x00"), secret) {
			t.Errorf("%q in %q", secret, got)
		}
	})
}
