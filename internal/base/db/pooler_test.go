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
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"stoa/internal/base/db"
)

// throughPool returns the address of the test server through a pooler, which serve runs for each
// connection with the address of the server.
func throughPool(t *testing.T, parameters url.Values, serve func(c net.Conn, server string)) string {
	t.Helper()
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
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c, server)
		}
	}()
	u.Host = l.Addr().String()
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	for name, values := range parameters {
		query[name] = values
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // pgx keeps a plus
	return u.String()
}

// TestAPoolerTakesTheConnection checks that connections have no startup parameter that
// PgBouncer refuses, and nevertheless the settings that durability needs.
func TestAPoolerTakesTheConnection(t *testing.T) {
	t.Parallel()
	address := throughPool(t, nil, func(c net.Conn, server string) { pool(t, c, server, nil) })
	d := open(t, db.Config{PostgresURL: address})
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

// TestDroppedParametersAreNoticed connects through a pooler that drops parameters of the address, as
// PgBouncer does with those of ignore_startup_parameters.
func TestDroppedParametersAreNoticed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, told string }{
		{"search_path", "staging", `search_path to "staging"`},
		{"statement_timeout", "30000", `statement_timeout to "30000"`},
		{"options", `-c lock_timeout=5s --search_path=a,\ b`, `lock_timeout to "5s"`},
		{"application_name", "mine", ""}, // poolers change it on purpose
	} {
		for _, dropped := range []bool{true, false} {
			drop := []string{c.name}
			if !dropped {
				drop = []string{"none"}
			}
			address := throughPool(t, url.Values{c.name: {c.value}}, func(conn net.Conn, server string) { pool(t, conn, server, drop) })
			direct, err := db.OpenDirect(t.Context(), address, "", nil, nil)
			if err == nil {
				direct.Close()
			}
			switch {
			case !dropped || c.told == "":
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			case err == nil || !strings.Contains(err.Error(), c.told) || !strings.Contains(err.Error(), "PgBouncer"):
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestSharedConnectionsAreRefused locks a database through a pooler that lends its only connection to
// all clients, one transaction after the other.
func TestSharedConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	var one sync.Mutex
	var lent net.Conn
	connect := func() error {
		one.Lock()
		defer one.Unlock()
		if lent != nil {
			return nil
		}
		made, err := pgconn.Connect(context.Background(), os.Getenv("STOA_TEST_POSTGRES"))
		if err != nil {
			return err
		}
		raw, err := made.Hijack()
		if err != nil {
			return err
		}
		lent = raw.Conn
		return nil
	}
	address := throughPool(t, url.Values{"default_query_exec_mode": {"exec"}}, func(c net.Conn, server string) {
		defer c.Close()
		client := pgproto3.NewBackend(c, c)
		if _, err := client.ReceiveStartupMessage(); err != nil {
			return
		}
		if err := connect(); err != nil {
			t.Error(err)
			return
		}
		client.Send(&pgproto3.AuthenticationOk{})
		client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
		client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
		client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		held := false
		for client.Flush() == nil {
			message, err := client.Receive()
			if _, end := message.(*pgproto3.Terminate); err != nil || end {
				break
			}
			if !held {
				one.Lock()
				held = true
			}
			to := pgproto3.NewFrontend(lent, lent)
			to.Send(message)
			if err := to.Flush(); err != nil {
				break
			}
			_, query := message.(*pgproto3.Query)
			_, sync := message.(*pgproto3.Sync)
			for ready := !query && !sync; !ready; {
				answer, err := to.Receive()
				if err != nil {
					break
				}
				client.Send(answer)
				if r, ok := answer.(*pgproto3.ReadyForQuery); ok {
					ready = true
					if r.TxStatus == 'I' {
						one.Unlock()
						held = false
					}
				}
			}
		}
		if held {
			one.Unlock()
		}
	})
	direct, err := db.OpenDirect(t.Context(), address, "-test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if err := direct.Share(t.Context()); err == nil || !strings.Contains(err.Error(), "session mode") {
		t.Errorf("the locks of a shared connection: %v", err)
	}
}

// pool forwards a connection to a server unless its startup message has a parameter that
// PgBouncer does not know. With drop it forwards the message without these parameters instead.
func pool(t *testing.T, c net.Conn, server string, drop []string) {
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
	kept := message[:4:4] // the version of the protocol
	for i := 0; i+1 < len(pairs); i += 2 {
		if !slices.Contains(drop, pairs[i]) {
			kept = append(kept, pairs[i]+"\x00"+pairs[i+1]+"\x00"...)
		}
		if drop == nil && !slices.Contains([]string{"user", "database", "application_name", "client_encoding", "DateStyle", "TimeZone"}, pairs[i]) {
			t.Errorf("PgBouncer: unsupported startup parameter: %s", pairs[i])
			return
		}
	}
	message = append(kept, 0)
	binary.BigEndian.PutUint32(head, uint32(len(message)+4))
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
