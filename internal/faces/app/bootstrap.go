package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"stoa/internal/base/auth"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// ownerKeyFile is the file in the data directory with the first key, unless that is printed.
const ownerKeyFile = "owner.key"

// bootstrap creates the owner and first key of an empty store, and prints the running parts. It prints the key on a
// terminal only and otherwise writes it to a file, because service managers and containers keep other output, and
// more people read that.
func (s *Service) bootstrap(ctx context.Context, opts Options, address string) error {
	cfg := s.config
	secret, file := string(cfg.BootstrapKey), ""
	if secret == "" && !opts.Terminal {
		var err error
		if secret, file, err = s.keyFile(ctx); err != nil {
			return err
		}
	}
	_, _, secret, created, err := s.Keys.Bootstrap(ctx, secret, cfg.FirstGrant, "pro")
	if err != nil {
		return err
	}
	if !created && file != "" { // another node was faster
		if _, err := s.Keys.Verify(ctx, "Bearer "+secret); err != nil {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
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
	case !created && cfg.BootstrapKey != "":
		fmt.Fprint(&b, "  warning  STOA_BOOTSTRAP_KEY has no effect after the first start; remove it from the environment\n")
	case !created:
	case cfg.BootstrapKey != "":
		fmt.Fprintf(&b, "\nThe owner account has %s credits and the key from STOA_BOOTSTRAP_KEY.\n", cfg.FirstGrant)
	case file != "":
		fmt.Fprintf(&b, "\nThe owner account has %s credits. Its first key is in a file; store it in a safe place and delete the file:\n\n  %s\n", cfg.FirstGrant, file)
		fmt.Fprintf(&b, "\nOpen the console with it, or log in from the command line (it asks for the key):\n\n  stoa login %s\n", base)
		b.WriteString(example(base, `"Authorization: Bearer $(cat '`+file+`')"`))
	default:
		fmt.Fprintf(&b, "\nThe owner account has %s credits. Its first key, shown only now:\n\n  %s\n", cfg.FirstGrant, secret)
		fmt.Fprintf(&b, "\nOpen the console with it, or log in from the command line (it asks for the key):\n\n  %s/console#key=%s\n  stoa login %s\n", base, secret, base)
		b.WriteString(example(base, "'Authorization: Bearer "+secret+"'"))
	}
	fmt.Fprintln(&b)
	_, err = io.WriteString(out, b.String())
	return err
}

// example returns a first call for a shell; authorization is quoted.
func example(base, authorization string) string {
	return fmt.Sprintf("\nTry it:\n\n  curl %s/api/v1/responses \\\n    -H %s \\\n    -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"auto\",\"input\":\"Hello\"}'\n", base, authorization)
}

// keyFile returns the first key of an empty store and its file in the data directory; both are empty if the store
// contains an account. The file is written first, so that the key of a committed account is never lost. A start that
// died in between left it behind.
func (s *Service) keyFile(ctx context.Context) (secret, path string, err error) {
	exists, err := store.Read(ctx, s.Store, func(tx *store.Tx) (bool, error) { return tx.Books().HasAccounts(ctx) })
	if err != nil || exists {
		return "", "", err
	}
	path = filepath.Join(s.config.Data, ownerKeyFile)
	if text, err := os.ReadFile(path); err == nil {
		secret = strings.TrimSpace(string(text))
		if err := auth.CheckBootstrap(secret); err != nil {
			return "", "", fmt.Errorf("%s: %s Delete the file to get another key", path, stoa.AsError(err).Message)
		}
		return secret, path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	secret = auth.Mint()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", "", fmt.Errorf("the first key cannot be written to a file: %w; set STOA_BOOTSTRAP_KEY, or --data to a directory of this process, for the first start", err)
	}
	_, err = f.WriteString(secret + "\n")
	return secret, path, errors.Join(err, f.Sync(), f.Close())
}
