//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A database is a separate PostgreSQL server for one test, which may restart, stop and fill
// it with connections. It ends with the test, even if the test is killed.
type database struct {
	t     testing.TB
	bin   string // directory of its programs
	dir   string
	port  int
	owner *syscall.SysProcAttr // it must not run as root
	most  int                  // max_connections
	more  []string             // arguments of the next start

	mu    sync.Mutex
	shell *exec.Cmd
	stdin io.Closer // of the shell; when closed, the server stops immediately
}

// newDatabase starts a server with a role and a database for nodes. The test is skipped if
// PostgreSQL is not installed.
func newDatabase(t testing.TB, connections int) *database {
	t.Helper()
	d := stoppedDatabase(t, connections)
	if out, err := d.command("initdb", "-D", filepath.Join(d.dir, "data"), "-U", "admin", "-A", "trust", "-E", "UTF8", "--locale=C").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	d.start()
	t.Cleanup(d.stop)
	d.admin("CREATE ROLE node LOGIN")
	d.admin("CREATE DATABASE stoa OWNER node")
	return d
}

// standby starts a server that follows d.
func (d *database) standby(t testing.TB) *database {
	t.Helper()
	s := stoppedDatabase(t, d.most)
	if out, err := s.command("pg_basebackup", "-D", filepath.Join(s.dir, "data"), "-R", "-c", "fast", "-d", d.url("admin", "postgres")).CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// stoppedDatabase returns a server without data.
func stoppedDatabase(t testing.TB, connections int) *database {
	t.Helper()
	d := &database{t: t, port: freePort(t), most: connections}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil && len(found) == 0 {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL's initdb is not installed")
	}
	slices.Sort(found)
	d.bin = filepath.Dir(found[len(found)-1])
	var err error
	if d.dir, err = os.MkdirTemp("", "stoa-postgres-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d.dir) })
	if os.Getuid() == 0 {
		d.owner = &syscall.SysProcAttr{Credential: d.postgres()}
		if err := os.Chown(d.dir, int(d.owner.Credential.Uid), int(d.owner.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// postgres returns the user of the PostgreSQL installation.
func (d *database) postgres() *syscall.Credential {
	u, err := user.Lookup("postgres")
	if err != nil {
		d.t.Skip("there is no user postgres, and PostgreSQL does not run as root")
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (d *database) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.bin, program), args...)
	cmd.Dir, cmd.SysProcAttr = d.dir, d.owner
	return cmd
}

// start starts the server and waits until it accepts connections.
func (d *database) start() {
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("sh", append([]string{
		"-c", `"$@" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server`, "sh",
		filepath.Join(d.bin, "postgres"), "-D", filepath.Join(d.dir, "data"), "-p", strconv.Itoa(d.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "shared_buffers=64MB", "-c", "max_connections=" + strconv.Itoa(d.most),
	}, d.more...)...)
	cmd.Dir, cmd.SysProcAttr = d.dir, d.owner
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.shell, d.stdin = cmd, stdin
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), safetyNet)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, d.url("admin", "postgres"))
		if err == nil {
			c.Close(ctx)
			return
		}
		if ctx.Err() != nil {
			text, _ := os.ReadFile(log.Name())
			d.t.Fatalf("PostgreSQL does not start: %v\n%s", err, text)
		}
		pass(ctx, 20*time.Millisecond)
	}
}

// stop stops the server immediately, like pg_ctl stop -m immediate: nothing is finished, and
// nothing more is written.
func (d *database) stop() {
	d.signal(syscall.SIGCONT, d.pid())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shell != nil {
		d.stdin.Close()
		d.shell.Wait()
		d.shell = nil
	}
}

// url returns the server's address for a role and a database.
func (d *database) url(role, name string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", role, d.port, name)
}

// admin runs a statement as superuser, for whom connections are reserved.
func (d *database) admin(statement string, args ...any) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), safetyNet)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, d.url("admin", "postgres"))
		if err == nil {
			_, err = c.Exec(ctx, statement, args...)
			c.Close(ctx)
		}
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			d.t.Errorf("%s: %v", statement, err)
			return
		}
		pass(ctx, 20*time.Millisecond)
	}
}

// pid returns the id of the server's first process; 0 if unknown.
func (d *database) pid() int {
	text, err := os.ReadFile(filepath.Join(d.dir, "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

// children returns the ids of the server's other processes: one for each connection, and the
// writers.
func (d *database) children() (pids []int) {
	parent := d.pid()
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// pid (name) state ppid: the name may have spaces.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && parent > 0 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (d *database) signal(s syscall.Signal, pids ...int) {
	for _, pid := range pids {
		if pid > 0 {
			syscall.Kill(pid, s) // it may have ended
		}
	}
}

// fill uses all remaining connections, ends those of the nodes, and uses these as well, until
// ctx ends.
func (d *database) fill(ctx context.Context) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var taken []*pgx.Conn
			for ctx.Err() == nil {
				c, err := pgx.Connect(ctx, d.url("node", "stoa")+"&application_name=other")
				if err != nil {
					pass(ctx, 10*time.Millisecond)
					continue
				}
				taken = append(taken, c)
			}
			for _, c := range taken {
				c.Close(context.Background())
			}
		})
	}
	d.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node' AND application_name <> 'other'")
	all.Wait()
}
