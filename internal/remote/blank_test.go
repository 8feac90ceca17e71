package remote

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestSecretsAreBlankedHoweverSpelled(t *testing.T) {
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

// TestSecretsAreBlankedWithinOtherText: what a server repeats is encoded as a whole, so
// that the secret begins anywhere in it, and more than once.
func TestSecretsAreBlankedWithinOtherText(t *testing.T) {
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
	for _, c := range []Credential{{}, {Header: "X-Key", Value: "short"}, {Header: "Authorization", Value: "Bearer 0123456789abcdef"}} {
		for _, text := range []string{"", "short", "Bearer 0123456789abcdeg", `\`, `\u004`, `%4`, "Bearer Bearer 01234567"} {
			if got := string(c.Blank([]byte(text))); got != text {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
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
