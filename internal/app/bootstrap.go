package app

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// bootstrap creates the owner and first key of an empty store, and prints the key and the
// running parts.
func (s *Service) bootstrap(ctx context.Context, opts Options, address string) error {
	cfg := s.config
	_, _, secret, created, err := s.Keys.Bootstrap(ctx, string(cfg.BootstrapKey), cfg.FirstGrant, "pro")
	if err != nil {
		return err
	}
	out := opts.Out
	if out == nil {
		out = io.Discard
	}
	base := cfg.BaseURL(address)
	place := cfg.Data + " (SQLite)"
	if cfg.Database != "" {
		place = "PostgreSQL"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Stoa %s is listening on %s\n\n", opts.Version, base)
	fmt.Fprintf(&b, "  data     %s\n", place)
	for _, line := range s.catalog.Load().Serving() {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "  console  %s/console\n", base)
	for _, w := range cfg.Warnings {
		fmt.Fprintf(&b, "  warning  %s\n", w)
	}
	switch {
	case !created:
	case cfg.BootstrapKey != "":
		fmt.Fprintf(&b, "\nThe owner account has %s credits and the key from STOA_BOOTSTRAP_KEY.\n", cfg.FirstGrant)
	default:
		fmt.Fprintf(&b, "\nThe owner account has %s credits. Its first key, shown only now:\n\n  %s\n", cfg.FirstGrant, secret)
		fmt.Fprintf(&b, "\nOpen the console with it, or log in from the command line (it asks for the key):\n\n  %s/console#key=%s\n  stoa login %s\n", base, secret, base)
		fmt.Fprintf(&b, "\nTry it:\n\n  curl %s/api/v1/responses \\\n    -H 'Authorization: Bearer %s' \\\n    -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"auto\",\"input\":\"Hello\"}'\n", base, secret)
	}
	fmt.Fprintln(&b)
	_, err = io.WriteString(out, b.String())
	return err
}
