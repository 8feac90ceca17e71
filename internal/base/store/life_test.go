package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stoa/internal/base/cluster"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// brisk is the life of a node that renews often and finds out soon.
var brisk = cluster.Times{Every: 10 * time.Millisecond, Expiry: time.Hour, Death: time.Minute}

// logged collects the log of a store.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// outside runs a statement outside the stores and returns its number.
func outside(t *testing.T, database storetest.Database, statement string, args ...any) (n int) {
	t.Helper()
	c := outsider(t, database)
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, statement, args...).Scan(&n); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return n
}

func outsider(t *testing.T, database storetest.Database) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, database.Config.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const forget = "UPDATE nodes SET seen_at = 0 WHERE id = $1 RETURNING 1"

// until repeats a check until it succeeds; otherwise the test ends by its timeout.
func until(look func() bool) {
	for !look() {
		runtime.Gosched()
	}
}

// keyOf claims an idempotency key for a store's node.
func keyOf(t *testing.T, st *store.Store, accountID, key string) error {
	t.Helper()
	return st.Write(ctx, func(tx *store.Tx) error {
		_, _, claimed, err := tx.ClaimKey(ctx, store.IdempotencyKey{AccountID: accountID, Method: "POST", Path: "/x", Key: key}, "h")
		if err == nil && !claimed {
			t.Errorf("%s was not claimed", key)
		}
		return err
	})
}

// Two nodes declare a third one dead: its resources are released once, and those of the
// others stay.
func TestDeathIsDeclaredOnce(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = storetest.Still
	dead := database.Open()
	var log logged
	database.Config.Life, database.Config.Logger = brisk, log.logger()
	peers := []*store.Store{database.Open(), database.Open()}
	accounts := map[*store.Store]string{}
	for _, st := range []*store.Store{dead, peers[0], peers[1]} {
		a := storetest.Account(t, st, 100)
		accounts[st] = a.ID
		charge(t, st, receipt(a.ID, "resp_"+a.ID, 30))
		if err := keyOf(t, st, a.ID, "k"); err != nil {
			t.Fatal(err)
		}
		write(t, st, func(tx *store.Tx) error { return tx.Work().BeginRunner(ctx, "runner_"+st.Node()) })
	}
	outside(t, database, forget, dead.Node())
	until(func() bool { return log.count("was declared dead") > 0 })
	seen := func() int {
		return outside(t, database, "SELECT SUM(seen_at % 1000000000)::bigint FROM nodes WHERE alive = 1")
	}
	for range 3 { // both have checked their peers since
		before := seen()
		until(func() bool { return seen() != before })
	}
	if n := log.count("was declared dead"); n != 1 {
		t.Errorf("it was declared dead %d times", n)
	}
	read(t, peers[0], func(tx *store.Tx) error {
		all, err := tx.Operations().Alerts(ctx, 10)
		if len(all) != 1 || all[0].Kind != "node.lost" || all[0].Subject != dead.Node() || !strings.Contains(all[0].Data, `"nodeId":"`+dead.Node()+`","address":`) {
			t.Errorf("its alert is %+v", all)
		}
		return err
	})
	for st, want := range map[*store.Store]store.Funds{dead: {Granted: 100, Balance: 70}, peers[0]: {Granted: 100, Leased: 70}, peers[1]: {Granted: 100, Leased: 70}} {
		read(t, peers[0], func(tx *store.Tx) error {
			f, err := tx.Books().Funds(ctx, accounts[st])
			if f != want {
				t.Errorf("dead %v: funds %+v, want %+v", st == dead, f, want)
			}
			alive, err2 := tx.Work().RunnerAlive(ctx, "runner_"+st.Node())
			if alive != (st != dead) {
				t.Errorf("dead %v: its runner is alive: %v", st == dead, alive)
			}
			return errors.Join(err, err2)
		})
		err := keyOf(t, peers[0], accounts[st], "k")
		if (st == dead) != (err == nil) || err != nil && stoa.CodeOf(err) != stoa.CodeIdempotencyRunning {
			t.Errorf("dead %v: its key: %v", st == dead, err)
		}
	}
	wantInOrder(t, peers[1])
}

// No write of a dead node is committed, even if the node does not yet know of its death.
func TestADeadNodeWritesNothing(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = storetest.Still
	dead := database.Open()
	a := storetest.Account(t, dead, 100)
	charge(t, dead, receipt(a.ID, "resp_1", 30))
	outside(t, database, forget, dead.Node())
	next := database.Open()
	for name, verb := range map[string]func(tx *store.Tx) error{
		"an account": func(tx *store.Tx) error {
			_, err := tx.Books().InsertAccount(ctx, stoa.Account{Name: "x", Plan: "pro"})
			return err
		},
		"a runner": func(tx *store.Tx) error { return tx.Work().BeginRunner(ctx, "runner_1") },
		"a late statement alone": func(tx *store.Tx) error {
			return tx.Later(ctx, "UPDATE accounts SET name = 'y'")
		},
		"what is swallowed": func(tx *store.Tx) error {
			tx.Books().InsertAccount(ctx, stoa.Account{Name: "x", Plan: "pro"})
			return nil
		},
	} {
		if err := dead.Write(ctx, verb); !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
		if err := dead.WriteWait(ctx, verb); !errors.Is(err, store.ErrLost) {
			t.Errorf("%s, patiently: %v", name, err)
		}
	}
	<-dead.Lost()
	if n := outside(t, database, "SELECT COUNT(*) FROM accounts WHERE name = 'test'"); n != 1 {
		t.Errorf("%d accounts are as they were", n)
	}
	if err := dead.Close(); err != nil {
		t.Errorf("its end: %v", err)
	}
	read(t, next, func(tx *store.Tx) error {
		nodes, err := tx.Operations().Nodes(ctx)
		if len(nodes) != 1 || nodes[0].ID != next.Node() {
			t.Errorf("the nodes are %+v", nodes)
		}
		return err
	})
	wantInOrder(t, next)
}

func TestARenewalDoesNotRevive(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = brisk
	st := database.Open()
	outside(t, database, "UPDATE nodes SET alive = 0 RETURNING 1")
	<-st.Lost()
	if n := outside(t, database, "SELECT alive FROM nodes WHERE id = $1", st.Node()); n != 0 {
		t.Error("it lives again")
	}
}

// stall keeps every node from renewing until the returned function is called.
func stall(t *testing.T, database storetest.Database) (end func()) {
	t.Helper()
	c := outsider(t, database)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE nodes IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		tx.Rollback(ctx)
		c.Close(ctx)
	})
}

func TestANodeThatCannotRenewRefusesWork(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = cluster.Times{Every: 10 * time.Millisecond, Expiry: 2 * time.Second, Death: time.Hour, GiveUp: time.Hour}
	st := database.Open()
	expired := make(chan struct{}, 10)
	st.OnExpiry(func() { expired <- struct{}{} })
	write := func() error {
		return st.WriteWait(ctx, func(tx *store.Tx) error { return tx.Work().BeginRunner(ctx, "runner_1") })
	}
	for range 2 {
		end := stall(t, database)
		defer end()
		<-expired
		for _, err := range []error{st.Usable(ctx), st.Health(ctx), write()} {
			if stoa.CodeOf(err) != stoa.CodeOverloaded || errors.Is(err, store.ErrLost) {
				t.Errorf("while it cannot renew: %v", err)
			}
		}
		end()
		until(func() bool { return st.Usable(ctx) == nil })
		if err := write(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	if len(expired) > 0 {
		t.Error("what is under way was ended twice")
	}
}

func TestANodeThatCannotRenewGivesUp(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = cluster.Times{Every: 10 * time.Millisecond, Expiry: 2 * time.Second, Death: time.Hour, GiveUp: 3 * time.Second}
	st := database.Open()
	end := stall(t, database)
	<-st.Lost()
	end()
	if err := st.Write(ctx, func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrLost) {
		t.Errorf("a write: %v", err)
	}
	if n := outside(t, database, "SELECT alive FROM nodes WHERE id = $1", st.Node()); n != 1 {
		t.Error("it has declared itself dead, which it could not")
	}
}

// All nodes are late together when PostgreSQL was unavailable: the first one that recovers
// declares no other dead.
func TestNobodyIsDeclaredDeadAfterAnOutage(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = cluster.Times{Every: 10 * time.Millisecond, Expiry: 2 * time.Second, Death: time.Minute}
	first := database.Open()
	interrupted := make(chan struct{}, 1)
	first.OnExpiry(func() { interrupted <- struct{}{} })
	database.Config.Life = storetest.Still
	slow := database.Open()
	end := stall(t, database)
	<-interrupted
	end()
	until(func() bool { return first.Usable(ctx) == nil })
	outside(t, database, forget, slow.Node())
	seen := func() int { return outside(t, database, "SELECT seen_at FROM nodes WHERE id = $1", first.Node()) }
	for range 5 {
		before := seen()
		until(func() bool { return seen() != before })
	}
	if n := outside(t, database, "SELECT alive FROM nodes WHERE id = $1", slow.Node()); n != 1 {
		t.Error("a node that had no time to come back was declared dead")
	}
}

// A node that has just started does not know whether PostgreSQL was unavailable before: it
// declares no node dead that may still recover.
func TestAStartLeavesOthersTimeToComeBack(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = storetest.Still
	late, gone := database.Open(), database.Open()
	outside(t, database, "UPDATE nodes SET seen_at = seen_at - 120000000 WHERE id = $1 RETURNING 1", late.Node())
	outside(t, database, forget, gone.Node())
	database.Config.Life = cluster.Times{Every: 10 * time.Millisecond, Expiry: time.Hour, Death: time.Minute}
	st := database.Open()
	seen := func() int { return outside(t, database, "SELECT seen_at FROM nodes WHERE id = $1", st.Node()) }
	for range 5 {
		before := seen()
		until(func() bool { return seen() != before })
	}
	for of, want := range map[*store.Store]int{late: 1, gone: 0} {
		if n := outside(t, database, "SELECT alive FROM nodes WHERE id = $1", of.Node()); n != want {
			t.Errorf("late %v: alive is %d", of == late, n)
		}
	}
}

func TestNodesStartTogether(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Connections = 2
	var wg sync.WaitGroup
	stores := make([]*store.Store, 4)
	for i := range stores {
		wg.Go(func() {
			cfg := database.Config
			cfg.Node = cluster.NodeInfo{Version: "v", Address: "here", ConfigHash: "h"}
			var err error
			if stores[i], err = store.Open(ctx, cfg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, st := range stores {
		read(t, st, func(tx *store.Tx) error {
			nodes, err := tx.Operations().Nodes(ctx)
			if len(nodes) != len(stores)-i {
				t.Errorf("%d nodes live after %d have ended", len(nodes), i)
			}
			for _, n := range nodes {
				if n.Version != "v" || n.Address != "here" || n.ConfigHash != "h" || n.StartedAt.IsZero() || n.SeenAt.Before(n.StartedAt) {
					t.Errorf("a node is %+v", n)
				}
			}
			return err
		})
		a := storetest.Account(t, st, 50)
		charge(t, st, receipt(a.ID, "resp_"+a.ID, 30))
		if err := st.Close(); err != nil { // releases its resources immediately
			t.Error(err)
		}
		if n := outside(t, database, "SELECT balance FROM accounts WHERE id = $1", a.ID); n != 20 {
			t.Errorf("the balance is %d after a clean end", n)
		}
	}
}

// A transaction of a process that was stopped in the middle keeps its locks for a
// bounded time.
func TestAnIdleTransactionEnds(t *testing.T) {
	t.Parallel()
	st := storetest.Postgres(t).Open()
	write(t, st, func(tx *store.Tx) error {
		var limit string
		_, err := tx.Get(ctx, "SELECT current_setting('idle_in_transaction_session_timeout')", nil, &limit)
		if limit != "10s" {
			t.Errorf("it may be idle for %s", limit)
		}
		return err
	})
}

func TestOtherSettingsAreWarnedOfOnce(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Node.ConfigHash = "one"
	database.Open()
	var log logged
	database.Config.Life, database.Config.Logger, database.Config.Node.ConfigHash = brisk, log.logger(), "two"
	st := database.Open()
	seen := func() int { return outside(t, database, "SELECT seen_at FROM nodes WHERE id = $1", st.Node()) }
	for range 3 {
		before := seen()
		until(func() bool { return seen() != before })
	}
	if n := log.count("another node has other settings"); n != 1 {
		t.Errorf("warned %d times", n)
	}
	st.SetConfigHash("three")
	until(func() bool { return log.count("ownConfigHash=three") == 1 })
	st.CountCalls(func() int64 { return 7 })
	until(func() bool {
		return outside(t, database, "SELECT COUNT(*) FROM nodes WHERE calls = 7 AND config_hash = 'three'") == 1
	})
}

// A start warns when the nodes that live could use up PostgreSQL's connections.
func TestAStartCountsTheConnections(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Life = storetest.Still
	first := database.Open()
	var log logged
	database.Config.Logger = log.logger()
	database.Open()
	const warning = "the nodes may need more connections than PostgreSQL has"
	if n := log.count(warning); n != 0 {
		t.Errorf("two nodes: %d warnings", n)
	}
	most := outside(t, database, "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int")
	nodes := most / 36         // with the next one they need more
	for i := range nodes - 2 { // two live
		outside(t, database, "INSERT INTO nodes (id, alive, started_at, seen_at) SELECT $1, 1, started_at, seen_at FROM nodes WHERE id = $2 RETURNING 1", fmt.Sprint("node_", i), first.Node())
	}
	database.Open()
	if n := log.count(fmt.Sprintf("%s; raise its max_connections\" nodes=%d connections=%d maxConnections=%d", warning, nodes+1, 36*(nodes+1), most)); n != 1 {
		t.Errorf("%d nodes and %d connections: %s", nodes+1, most, log.text.String())
	}
}
