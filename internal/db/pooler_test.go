package db_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"stoa/internal/db"
)

// TestAPoolerTakesTheConnection checks that connections have no startup parameter that
// PgBouncer refuses, and nevertheless the settings that durability needs.
func TestAPoolerTakesTheConnection(t *testing.T) {
	t.Parallel()
	address := os.Getenv("STOA_TEST_POSTGRES")
	if address == "" {
		t.Skip("STOA_TEST_POSTGRES is not set")
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	if host := u.Query().Get("host"); host != "" {
		server = net.JoinHostPort(host, u.Query().Get("port"))
		if strings.HasPrefix(host, "/") {
			t.Skip("the test server has no address")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go pool(t, c, server)
		}
	}()
	u.Host = l.Addr().String()
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	d := open(t, db.Config{PostgresURL: u.String()})
	for setting, want := range map[string]string{"synchronous_commit": "on", "default_transaction_isolation": "read committed"} {
		var got string
		if err := d.Read(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Get(context.Background(), "SELECT setting FROM pg_settings WHERE name = $1", []any{setting}, &got)
			return err
		}); err != nil || got != want {
			t.Errorf("%s is %q, want %q: %v", setting, got, want, err)
		}
	}
}

// pool forwards a connection to a server unless its startup message has a parameter that
// PgBouncer does not know.
func pool(t *testing.T, c net.Conn, server string) {
	defer c.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	message := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(c, message); err != nil {
		return
	}
	pairs := strings.Split(strings.TrimRight(string(message[4:]), "\x00"), "\x00")
	for i := 0; i+1 < len(pairs); i += 2 {
		if !slices.Contains([]string{"user", "database", "application_name", "client_encoding", "DateStyle", "TimeZone"}, pairs[i]) {
			t.Errorf("PgBouncer: unsupported startup parameter: %s", pairs[i])
			return
		}
	}
	s, err := net.Dial("tcp", server)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	if _, err := s.Write(append(head, message...)); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(s, c)
		s.Close()
	}()
	_, _ = io.Copy(c, s)
}
