package db_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// commit is the beginning of the message with which a connection runs COMMIT: a Bind of
// pgx's prepared statement, named by its hash.
var commit = func() []byte {
	sum := sha256.Sum256([]byte("COMMIT"))
	return fmt.Appendf(nil, "\x00stmtcache_%x\x00", sum[:24])
}()

// A link relays connections to PostgreSQL and can break them.
type link struct {
	address  string      // of the database through the link
	loseNext atomic.Bool // the answer to the next COMMIT is lost with its connection
	listener net.Listener
	server   string // network and address of PostgreSQL
	done     sync.WaitGroup
}

func newLink(t *testing.T, address string) *link {
	t.Helper()
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	network, server := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	l := &link{server: network + " " + server}
	l.listen(t, "127.0.0.1:0")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.listener.Addr().String()
	l.address = u.String()
	t.Cleanup(func() {
		l.listener.Close()
		l.done.Wait()
	})
	return l
}

// listen accepts connections until the listener is closed.
func (l *link) listen(t *testing.T, at string) {
	t.Helper()
	var err error
	if l.listener, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	listener := l.listener
	l.done.Go(func() {
		var open []net.Conn
		for {
			from, err := listener.Accept()
			if err != nil {
				for _, c := range open {
					c.Close()
				}
				return
			}
			open = append(open, from)
			l.done.Go(func() { l.relay(from) })
		}
	})
}

func (l *link) relay(from net.Conn) {
	network, server, _ := strings.Cut(l.server, " ")
	to, err := net.Dial(network, server)
	if err != nil {
		from.Close()
		return
	}
	var lose atomic.Bool
	l.done.Go(func() {
		defer from.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := to.Read(buf)
			if err != nil || lose.Load() { // lost: the server has answered, so it has committed
				return
			}
			if _, err := from.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], commit) && l.loseNext.Swap(false) {
			lose.Store(true)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// committing returns the configuration of a database whose probe writes a row.
func committing(address string) db.Config {
	ctx := context.Background()
	return db.Config{PostgresURL: address, Connections: 4, Migrations: migrations, Probe: func(_ context.Context, tx *db.Tx) error {
		if err := put(tx, "probe", 1); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM things WHERE id = 'probe'")
		return err
	}}
}

func TestBrokenWriteRunsAgain(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	cfg := committing(address)
	probes := 0
	probe := cfg.Probe
	cfg.Probe = func(ctx context.Context, tx *db.Tx) error { probes++; return probe(ctx, tx) }
	d := open(t, cfg)
	ctx := context.Background()
	for _, swallow := range []bool{false, true} {
		runs, after := 0, 0
		id := map[bool]string{false: "a", true: "b"}[swallow]
		err := d.Write(ctx, func(tx *db.Tx) error {
			tx.AfterCommit(func() { after++ })
			if err := put(tx, id, 1); err != nil {
				return err
			}
			if runs++; runs > 1 {
				return nil
			}
			var pid int
			if _, err := tx.Get(ctx, "SELECT pg_backend_pid()", nil, &pid); err != nil {
				return err
			}
			query(t, address, "SELECT COUNT(pg_terminate_backend($1))::int", pid)
			err := put(tx, id+"2", 1)
			if err == nil {
				t.Error("the connection was not cut")
			}
			if swallow {
				return nil
			}
			return err
		})
		if err != nil || runs != 2 || after != 1 {
			t.Errorf("swallowed %v: %v after %d runs, %d hooks", swallow, err, runs, after)
		}
	}
	if got := ids(t, d); got != "a b" {
		t.Errorf("stored: %s", got)
	}
	if err := d.Usable(ctx); err != nil || probes != 0 {
		t.Errorf("after one broken connection: %v, %d probes", err, probes)
	}
}

func TestLostAnswerToACommitIsTold(t *testing.T) {
	t.Parallel()
	l := newLink(t, postgresSchema(t))
	d := open(t, committing(l.address))
	ctx := context.Background()
	runs := 0
	l.loseNext.Store(true)
	err := d.Write(ctx, func(tx *db.Tx) error { runs++; return put(tx, "a", 1) })
	if runs != 1 || stoa.CodeOf(err) != stoa.CodeOverloaded || !db.IsPassing(err) || !strings.Contains(err.Error(), "may have been made") {
		t.Errorf("%v after %d runs", err, runs)
	}
	if err := d.Usable(ctx); err != nil {
		t.Errorf("one broken connection refuses all work: %v", err)
	}
	// It was committed; repeating it by its key finds the row.
	if got := ids(t, d); got != "a" {
		t.Errorf("stored: %s", got)
	}
	if err := d.Write(ctx, func(tx *db.Tx) error { return put(tx, "a", 1) }); !db.IsUnique(err) {
		t.Errorf("the same key again: %v", err)
	}
}

func TestUnreachableDatabaseRefusesWork(t *testing.T) {
	t.Parallel()
	l := newLink(t, postgresSchema(t))
	d := open(t, committing(l.address))
	ctx := context.Background()
	exec(t, d, "INSERT INTO things (id, n) VALUES ('a', 1)")
	at := l.listener.Addr().String()
	l.listener.Close()
	l.done.Wait()
	err := d.Write(ctx, func(tx *db.Tx) error { return put(tx, "b", 1) })
	if stoa.CodeOf(err) != stoa.CodeOverloaded || errors.Is(err, context.Canceled) {
		t.Errorf("a write without a database: %v", err)
	}
	if err := d.Usable(ctx); stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Errorf("without a database: %v", err)
	}
	l.listen(t, at)
	for d.Usable(ctx) != nil { // until the next probe is due
	}
	if got := ids(t, d); got != "a" {
		t.Errorf("stored: %s", got)
	}
}

// TestAReadOnlyServerIsNamed writes as to a standby.
func TestAReadOnlyServerIsNamed(t *testing.T) {
	t.Parallel()
	d := open(t, committing(postgresSchema(t)))
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(context.Background(), "SET TRANSACTION READ ONLY"); err != nil {
			return err
		}
		return put(tx, "a", 1)
	})
	if e := stoa.AsError(err); e.Code != stoa.CodeOverloaded || !strings.Contains(e.Message, "read-only at the moment, as a standby is") {
		t.Errorf("%v", err)
	}
}
