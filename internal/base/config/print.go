package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Print writes the effective settings as YAML that [Load] can read. It masks secrets and prints a
// key's variable or file instead of the key, so that the output can be sent to others.
func (c Config) Print(w io.Writer) error {
	c.Providers = slices.Clone(c.Providers)
	for i, p := range c.Providers {
		p.Dialect, p.BaseURL = p.dialect(), p.baseURL()
		d := DefaultTimeouts()
		p.WholeReplies = cmp.Or(p.WholeReplies, "auto")
		p.Caching = cmp.Or(p.Caching, "auto")
		p.MaxInFlight = cmp.Or(p.MaxInFlight, DefaultInFlight)
		p.Timeouts.FirstByte = cmp.Or(p.Timeouts.FirstByte, d.FirstByte)
		p.Timeouts.Idle = cmp.Or(p.Timeouts.Idle, d.Idle)
		p.Timeouts.Whole = cmp.Or(p.Timeouts.Whole, d.Whole)
		p.Timeouts.Total = cmp.Or(p.Timeouts.Total, d.Total)
		c.Providers[i] = p
	}
	// A Secret is masked as a whole, but of a URL only the password, because operators need to see the host.
	text, err := yaml.MarshalWithOptions(c, yaml.IndentSequence(true),
		yaml.CustomMarshaler(func(s Secret) ([]byte, error) {
			if s != "" && (s == c.Database || s == c.DatabaseListen || s == c.Outbound.Proxy) {
				return yaml.Marshal(maskURL(string(s)))
			}
			return yaml.Marshal(s.String())
		}),
		yaml.CustomMarshaler(func(s Size) ([]byte, error) { return []byte(s.String()), nil }),
		yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return []byte(durationText(d)), nil }))
	if err != nil {
		return fmt.Errorf("print the settings: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// Hash returns a short hash, including secrets, of the settings that all nodes of a database should
// share, so that a difference is noticed. It excludes those that may differ: the listen addresses, log,
// telemetry, database and the first key.
func (c Config) Hash() string {
	c.Listen, c.Data, c.Database, c.Durability, c.Log, c.BootstrapKey = "", "", "", "", Log{}, ""
	c.AdminListen, c.Telemetry = "", Telemetry{}
	sum := sha256.New()
	text, err := yaml.MarshalWithOptions(c, yaml.CustomMarshaler(func(s Secret) ([]byte, error) {
		return yaml.Marshal(hex.EncodeToString(hashOf(string(s))))
	}))
	if err != nil { // cannot happen; see Print
		return ""
	}
	sum.Write(text)
	for _, p := range c.Providers {
		if p.key != nil {
			sum.Write(hashOf(*p.key))
		}
	}
	for _, p := range c.Providers {
		for _, k := range p.Keys {
			sum.Write(hashOf(or(k.key)))
		}
	}
	for _, k := range c.Secrets.Keys {
		sum.Write(hashOf(k.Value()))
	}
	sum.Write(hashOf(c.Mail.SMTP.Password()))
	for _, secret := range append(c.Payments.Stripe.Secrets(), c.Payments.Stripe.Key()) {
		sum.Write(hashOf(secret))
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

func hashOf(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// durationText omits zero units at the end: 15m, not 15m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
