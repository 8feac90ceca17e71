//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"stoa/internal/testkit/storetest"
)

// A movingName leads connections to one of several servers, as a name does that is moved in a failover.
type movingName struct {
	address string

	mu   sync.Mutex
	to   string
	open map[net.Conn]bool
}

func newMovingName(t *testing.T, to string) *movingName {
	m := &movingName{to: to, open: map[net.Conn]bool{}}
	m.address = storetest.Listen(t, func(c net.Conn) { go m.relay(c) })
	t.Cleanup(func() { m.move("") })
	return m
}

// move leads new connections to another server and breaks the others.
func (m *movingName) move(to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = to
	for c := range m.open {
		c.Close()
	}
}

func (m *movingName) relay(c net.Conn) {
	defer c.Close()
	m.mu.Lock()
	far, err := net.Dial("tcp", m.to)
	if err == nil {
		m.open[far] = true
	}
	m.mu.Unlock()
	if err != nil {
		return
	}
	defer func() {
		far.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, far)
	}()
	go func() {
		io.Copy(far, c)
		far.Close()
	}()
	io.Copy(c, far)
}

// answeredCalls are those of one node that were answered 200.
type answeredCalls struct {
	mu    sync.Mutex
	marks map[string]bool
}

// more waits until n further calls are answered.
func (a *answeredCalls) more(t *testing.T, what string, n int) {
	t.Helper()
	a.mu.Lock()
	enough := len(a.marks) + n
	a.mu.Unlock()
	await(t, what, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.marks) >= enough
	})
}

// TestNightlyStandbyKeepsOneLedger promotes a standby under load and starts the old primary again without a rewind, as a
// machine does that reboots. Two nodes name both servers, the old primary first; the third uses a name that moves to
// the new primary, back to the old one, and to the new one again. The charges in the new primary are the calls that
// were answered, and nothing is written to the old one.
func TestNightlyStandbyKeepsOneLedger(t *testing.T) {
	t.Parallel()
	onlyNightly(t)
	old := newDatabase(t, 100)
	promoted := old.standby(t)
	// A commit that was confirmed is on both servers; otherwise a failover loses the newest.
	old.stop()
	old.more = []string{"-c", "synchronous_standby_names=*"}
	old.start()
	address := func(d *database) string { return fmt.Sprintf("127.0.0.1:%d", d.port) }
	name := newMovingName(t, address(old))
	const options = "/stoa?sslmode=disable&target_session_attrs=read-write&connect_timeout=2"
	v := newVendor(t, nil)
	var nodes []*server
	for _, hosts := range []string{address(old) + "," + address(promoted), address(old) + "," + address(promoted), name.address} {
		n := newServer(t, v.url, "")
		n.postgres = "postgres://node@" + hosts + options
		n.start()
		nodes = append(nodes, n)
	}
	a := nodes[0].newAccount(t, "pro", 1_000_000_000)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers sync.WaitGroup
	answered := make([]*answeredCalls, len(nodes))
	for i, n := range nodes {
		answered[i] = &answeredCalls{marks: map[string]bool{}}
		for c := range 3 {
			callers.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					mark := fmt.Sprintf("n%d-%d-%d", i, c, k)
					n.await(ctx)
					if s := n.ask(context.WithoutCancel(ctx), a.key, "", object{"model": "alpha-haiku-4-5", "user": mark, "stream": k%2 == 0, "input": "mark: " + mark + "\nsay: done"}, nil); s.done() {
						answered[i].mu.Lock()
						answered[i].marks[mark] = true
						answered[i].mu.Unlock()
					}
				}
			})
		}
	}
	all := func(when string) {
		t.Helper()
		for i := range nodes {
			answered[i].more(t, fmt.Sprintf("calls of node %d %s", i, when), 20)
		}
	}
	all("at first")

	old.stop()
	if out, err := promoted.command("pg_ctl", "-D", filepath.Join(promoted.dir, "data"), "-w", "promote").CombinedOutput(); err != nil {
		t.Fatalf("promote: %v\n%s", err, out)
	}
	name.move(address(promoted))
	all("after the promotion")

	old.more = nil
	old.start()
	before := charged(t, old)
	refused := nodes[2].current().logs("a connection to another PostgreSQL server was refused")
	name.move(address(old))
	wait(t, "the refusal of the name that moved back", refused)
	// Each connection is a new one, and the old primary is the first host.
	promoted.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'")
	for i := range 2 {
		answered[i].more(t, fmt.Sprintf("calls of node %d beside the old primary", i), 20)
	}
	name.move(address(promoted))
	all("with the name at the new primary again")
	if code := nodes[1].stop(t); code != 0 {
		t.Errorf("a node exits with %d", code)
	}
	nodes[1].start() // it has no data directory that could name the newest timeline
	all("after a restart")
	stop()
	callers.Wait()
	for i, n := range nodes {
		if code := n.stop(t); code != 0 {
			t.Errorf("node %d exits with %d: %q", i, code, n.current().tail(5))
		}
	}

	if after := charged(t, old); len(after) != len(before) {
		t.Errorf("the old primary has %d charges, %d before the nodes could reach it", len(after), len(before))
	}
	if writes := number(t, old, "SELECT COALESCE(SUM(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables"); writes != 0 {
		t.Errorf("%d rows were written to the old primary", writes)
	}
	marks := charged(t, promoted)
	for mark, times := range marks {
		if times > 1 {
			t.Errorf("%s is charged %d times", mark, times)
		}
	}
	calls := 0
	for i := range nodes {
		for mark := range answered[i].marks {
			if calls++; marks[mark] == 0 {
				t.Errorf("%s was answered and is not charged", mark)
			}
		}
	}
	t.Logf("%d calls were answered, %d are charged in the new primary, %d of them in the old one", calls, len(marks), len(before))
	if len(marks) != calls {
		t.Errorf("%d calls were answered and %d are charged", calls, len(marks))
	}
	h := newServer(t, v.url, "")
	h.postgres = promoted.url("node", "stoa")
	h.verify(t)
}

// charged returns how often each call is charged in a database.
func charged(t *testing.T, d *database) map[string]int {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.url("admin", "stoa"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), "SELECT end_user FROM charges")
	if err != nil {
		t.Fatal(err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, mark := range marks {
		all[strings.TrimSpace(mark)]++
	}
	return all
}

func number(t *testing.T, d *database, query string) (n int64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.url("admin", "stoa"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
