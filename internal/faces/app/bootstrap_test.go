package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/testkit/storetest"
)

// A node on PostgreSQL may have no data directory. Its first start then fails before it
// creates an account whose key nobody could read, and says what is needed.
func TestTheFirstKeyNeedsAPlace(t *testing.T) {
	t.Parallel()
	home := storetest.New(t)
	if home.Config.PostgresURL == "" {
		t.Skip("SQLite always has a data directory")
	}
	cfg := in(home, withoutKey(t))
	cfg.Data = filepath.Join(t.TempDir(), "data")
	err := Run(t.Context(), Options{Config: cfg})
	if err == nil || !strings.Contains(err.Error(), "STOA_BOOTSTRAP_KEY") || !strings.Contains(err.Error(), "--data") {
		t.Fatalf("it ended with %v", err)
	}
	if err := os.Mkdir(cfg.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cfg.Data, ownerKeyFile)
	said := startOnce(t, cfg)
	if _, err := os.Stat(file); err != nil || !strings.Contains(said, file) || strings.Contains(said, "sk_") {
		t.Errorf("%v; it said:\n%s", err, said)
	}
	// Later starts need no place, and say that a chosen key has no effect.
	if err := os.RemoveAll(cfg.Data); err != nil {
		t.Fatal(err)
	}
	if said := startOnce(t, cfg); strings.Contains(said, "key") {
		t.Errorf("a later start said:\n%s", said)
	}
	cfg.BootstrapKey = testKey
	if said := startOnce(t, cfg); !strings.Contains(said, "warning  STOA_BOOTSTRAP_KEY") {
		t.Errorf("a later start said:\n%s", said)
	}
}

// withoutKey returns default settings without a first key.
func withoutKey(t *testing.T) config.Config {
	t.Helper()
	cfg := loaded(t, "adminListen: off")
	cfg.BootstrapKey = ""
	return cfg
}

// startOnce starts and stops a service, and returns what it printed.
func startOnce(t *testing.T, cfg config.Config) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out bytes.Buffer
	if err := Run(ctx, Options{Config: cfg, Out: &out, Ready: func(string) { stop() }}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
