package config

import (
	"strings"
	"testing"
)

func TestHeloIsANameWithADomain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ settings, public, want string }{
		"a setting":          {", helo: relay.example.net", "https://stoa.example.com", "relay.example.net"},
		"publicUrl":          {"", "https://stoa.example.com:8443", "stoa.example.com"},
		"localhost":          {"", "http://localhost:8080", "example.org"},
		"a name below it":    {"", "http://stoa.localhost:8080", "example.org"},
		"an address":         {"", "http://192.0.2.7:8080", "example.org"},
		"an IPv6 address":    {"", "http://[2001:db8::7]:8080", "example.org"},
		"a short name":       {"", "http://stoa", "example.org"},
		"not ASCII":          {"", "https://stöa.example.com", "example.org"},
		"nothing":            {"", "", "example.org"},
		"an address literal": {", helo: '[192.0.2.7]'", "", "[192.0.2.7]"},
		"a bad setting":      {", helo: 'a b'", "", "mail.smtp.helo"},
	} {
		file := "publicUrl: " + c.public + "\nmail: {smtp: {host: smtp.example.com, from: Stoa <stoa@example.org>" + c.settings + "}}"
		got, err := Load(Flags{Config: "stoa.yaml"}, func(string) string { return "" }, func(string) ([]byte, error) { return []byte(file), nil })
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if helo := got.Mail.SMTP.HeloName(); helo != c.want {
			t.Errorf("%s: %s, want %s", name, helo, c.want)
		}
	}
}

func TestReplyToIsAnAddress(t *testing.T) {
	t.Parallel()
	for address, problem := range map[string]string{"Help <help@example.com>": "", "help": "mail.smtp.replyTo"} {
		file := "mail: {smtp: {host: smtp.example.com, from: stoa@example.com, replyTo: " + address + "}}"
		_, err := Load(Flags{Config: "stoa.yaml"}, func(string) string { return "" }, func(string) ([]byte, error) { return []byte(file), nil })
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
