package db_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	osexec "os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"stoa/internal/base/db"
)

// A cluster is a separate PostgreSQL server.
type cluster struct {
	dir, port string
	run       func(program string, args ...string)
}

// newCluster returns a stopped server that begin fills, and skips the test without PostgreSQL's programs.
func newCluster(t *testing.T, begin func(c cluster)) cluster {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_basebackup")
	if len(found) == 0 || testing.Short() {
		t.Skip("the programs of PostgreSQL are not installed, or the tests have to be short")
	}
	dir, err := os.MkdirTemp("", "stoa-lineage-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attributes := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // PostgreSQL does not run as root
		owner, err := user.Lookup("postgres")
		if err != nil {
			t.Skip(err)
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := cluster{dir: filepath.Join(dir, "data"), port: strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}
	c.run = func(program string, args ...string) {
		t.Helper()
		cmd := osexec.Command(filepath.Join(filepath.Dir(found[len(found)-1]), program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attributes
		var said bytes.Buffer
		if program != "pg_ctl" { // its server would keep the pipe open
			cmd.Stdout, cmd.Stderr = &said, &said
		}
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, said.String())
		}
	}
	begin(c)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(c.dir, "postmaster.pid")); err == nil {
			c.stop()
		}
	})
	return c
}

func initialized(c cluster) {
	c.run("initdb", "-D", c.dir, "-U", "stoa", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

func (c cluster) start() {
	c.run("pg_ctl", "-D", c.dir, "-l", c.dir+".log", "-w", "-o", "-c listen_addresses=127.0.0.1 -c port="+c.port+" -c unix_socket_directories= -c shared_buffers=16MB -c fsync=off", "start")
}

func (c cluster) stop() { c.run("pg_ctl", "-D", c.dir, "-m", "immediate", "-w", "stop") }

func address(clusters ...cluster) string {
	var hosts []string
	for _, c := range clusters {
		hosts = append(hosts, "127.0.0.1:"+c.port)
	}
	return "postgres://stoa@" + strings.Join(hosts, ",") + "/postgres?sslmode=disable&target_session_attrs=read-write"
}

// caughtUp waits until a standby has the first row of things.
func caughtUp(t *testing.T, standby cluster) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), "postgres://stoa@127.0.0.1:"+standby.port+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for n := 0; n == 0; {
		if err := c.QueryRow(t.Context(), "SELECT count(*) FROM things").Scan(&n); err != nil && !strings.Contains(err.Error(), "does not exist") {
			t.Fatal(err)
		}
	}
}

// TestOldPrimaryGetsNoWrites promotes a standby and starts the old primary again, as a machine does that
// reboots. The old primary is the first host of the address, so new connections reach it first.
func TestOldPrimaryGetsNoWrites(t *testing.T) {
	t.Parallel()
	a := newCluster(t, initialized)
	a.start()
	b := newCluster(t, func(b cluster) {
		b.run("pg_basebackup", "-D", b.dir, "-R", "-c", "fast", "-h", "127.0.0.1", "-p", a.port, "-U", "stoa", "--no-sync")
	})
	b.start()
	dir := t.TempDir()
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	lineage := db.NewLineage(dir, logger)
	d := open(t, db.Config{PostgresURL: address(a, b), Connections: 8, Lineage: lineage})
	exec(t, d, "CREATE TABLE things (n bigint)")
	exec(t, d, "INSERT INTO things VALUES (1)")
	direct, err := db.OpenDirect(t.Context(), address(a, b), "-test", lineage, logger)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	caughtUp(t, b)
	a.stop()
	b.run("pg_ctl", "-D", b.dir, "-w", "promote")
	exec(t, d, "INSERT INTO things VALUES (2)")
	if strings.Contains(log.String(), `"ERROR"`) {
		t.Errorf("an error of a failover: %s", log.String())
	}
	a.start()
	// Many transactions at the same time need new connections.
	var writers sync.WaitGroup
	release := make(chan struct{})
	for i := range 8 {
		writers.Go(func() {
			if err := d.Write(context.Background(), func(tx *db.Tx) error {
				_, err := tx.Exec(context.Background(), "INSERT INTO things VALUES ($1)", 3+i)
				if i == 7 {
					close(release)
				}
				<-release
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	_, _ = direct.Exec(t.Context(), "SELECT 1") // its connection broke
	if _, err := direct.Exec(t.Context(), "INSERT INTO things VALUES (100)"); err != nil {
		t.Error(err)
	}
	count := func(c cluster) (n int64) {
		t.Helper()
		plain := open(t, db.Config{PostgresURL: address(c)})
		if err := plain.Read(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Get(t.Context(), "SELECT COUNT(*) FROM things", nil, &n)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := count(a); got > 1 {
		t.Errorf("%d rows were written to the old primary", got-1)
	}
	if got := count(b); got != 11 {
		t.Errorf("the new primary has %d rows of 11", got)
	}
	if got := strings.Count(log.String(), `"ERROR"`); got != 1 || !strings.Contains(log.String(), "timeline 1, but the service has used timeline 2") {
		t.Errorf("%d errors in the log: %s", got, log.String())
	}

	// A restart knows it as well, until the file is removed.
	restart := func() error {
		again, err := db.Open(t.Context(), db.Config{PostgresURL: address(a), Lineage: db.NewLineage(dir, logger)})
		if err == nil {
			again.Close()
		}
		return err
	}
	file := filepath.Join(dir, db.LineageFile)
	if err := restart(); err == nil || !strings.Contains(err.Error(), "remove "+file) {
		t.Errorf("a start with the old primary: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := restart(); err != nil {
		t.Error(err)
	}

	// Without the file, the servers of the address are compared.
	forgetful := open(t, db.Config{PostgresURL: address(a, b), Lineage: db.NewLineage("", logger)})
	exec(t, forgetful, "INSERT INTO things VALUES (200)")
	if old, renewed := count(a), count(b); old != 1 || renewed != 12 {
		t.Errorf("after a start without the file the old primary has %d rows, the new one %d; want 1 and 12", old, renewed)
	}

	// Another system is possible at a start, and impossible later.
	c := newCluster(t, initialized)
	c.start()
	moved, err := db.Open(t.Context(), db.Config{PostgresURL: address(c, a), Lineage: db.NewLineage(dir, logger)})
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
	if !strings.Contains(log.String(), "on another PostgreSQL server than at the last start") {
		t.Errorf("no line about the other server: %s", log.String())
	}
	c.stop()
	if err := moved.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(t.Context(), "INSERT INTO things VALUES (0)"); return err }); err == nil {
		t.Error("one process has used two systems")
	}
}

// TestServerWithoutIdentity connects as a user who may not read the identity of the server.
func TestServerWithoutIdentity(t *testing.T) {
	t.Parallel()
	c := newCluster(t, initialized)
	c.start()
	d := open(t, db.Config{PostgresURL: address(c)})
	exec(t, d, "CREATE ROLE guest LOGIN")
	exec(t, d, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
	var log bytes.Buffer
	lineage := db.NewLineage(t.TempDir(), slog.New(slog.NewJSONHandler(&log, nil)))
	for range 2 {
		guest := open(t, db.Config{PostgresURL: strings.Replace(address(c), "stoa@", "guest@", 1), Lineage: lineage})
		if err := guest.Read(t.Context(), func(tx *db.Tx) error { _, err := tx.Get(t.Context(), "SELECT 1", nil, new(int)); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(strings.Count(log.String(), `"WARN"`), strings.Count(log.String(), `"ERROR"`)); got != "1 0" {
		t.Errorf("warnings and errors: %s\n%s", got, log.String())
	}
}
