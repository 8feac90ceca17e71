package db_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// TestAddressesThatCannotBeUsedSayWhy has addresses that fail before a connection. No error has a piece of
// the password.
func TestAddressesThatCannotBeUsedSayWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"postgres://u:s3cr@t/w:rd#1@127.0.0.1:1/d":                                                       "write @ as %40",
		"postgres://u:s3cr/t@127.0.0.1:1/d":                                                              "write @ as %40",
		"postgres://u:s3cr%t@127.0.0.1:1/d":                                                              "write @ as %40",
		"postgres://u:s3crt@127.0.0.1:1/d?sslmode=verify-full&sslrootcert=" + dir + "/none":              "open " + dir + "/none: no such file",
		"postgres://u:s3crt@127.0.0.1:1/d?sslmode=verify-full&sslrootcert=" + empty:                      "sslrootcert contains no certificate",
		"postgres://u:s3crt@127.0.0.1:1/d?sslmode=require&sslcert=" + empty + "&sslkey=" + dir + "/none": "open " + dir + "/none: no such file",
		"postgres://u:s3crt@127.0.0.1:1/d?sslmode=sometimes":                                             "the PostgreSQL address is invalid",
	} {
		for name, open := range map[string]func() error{
			"a pool": func() error { _, err := db.Open(t.Context(), db.Config{PostgresURL: address}); return err },
			"direct": func() error { _, err := db.OpenDirect(t.Context(), address, "", nil, nil); return err },
		} {
			if err := open(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr") || strings.Contains(err.Error(), "w:rd") {
				t.Errorf("%s, %s: %v", name, address, err)
			}
		}
	}
}

// TestTargetsThatCannotBeUsedSayWhy has servers that answer but are of no use to the service.
func TestTargetsThatCannotBeUsedSayWhy(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) string {
		query := u.Query()
		query.Set(name, value)
		return u.Scheme + "://" + u.User.String() + "@" + u.Host + u.Path + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
	}
	missing, readOnly := strings.ToLower(stoa.NewID("none")), with("default_transaction_read_only", "on")
	for address, want := range map[string]string{with("search_path", missing): "search_path " + missing, readOnly: "read-only"} {
		if _, err := db.Open(t.Context(), db.Config{PostgresURL: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a pool: %v, want %s", err, want)
		}
		d, err := db.OpenDirect(t.Context(), address, "", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Share(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a node: %v, want %s", err, want)
		}
		d.Close()
	}
	open(t, db.Config{PostgresURL: readOnly, ReadOnly: true})
}
