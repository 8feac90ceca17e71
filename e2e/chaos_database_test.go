//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/storetest"
)

var chaosFor = flag.Duration("chaos", 0, "how long the test of a failing database goes on; 0: each fault once, as short as it can be")

// A cluster is three nodes, each with its own link to one PostgreSQL server, and the record
// of their faults.
type cluster struct {
	t     *testing.T
	db    *database
	nodes []*server
	links map[*server]*storetest.Link
	b     *balancer
	front *server
	l     *load

	probing *account // pays the calls of serves

	ending  atomic.Bool
	running sync.WaitGroup // supervisors

	mu      sync.Mutex
	done    map[string]int
	excused map[*server]int // nodes that were killed, paused or cut off may end, and need not serve
	pauses  [][2]time.Time  // of nodes, whose callers wait for the same time
	exits   []string        // nodes that were serving and ended without cause
	starts  int             // failed starts
	slowest map[string]time.Duration
}

// newCluster starts a database and three nodes before it.
func newCluster(t *testing.T, v *vendor, deaf bool) *cluster {
	t.Helper()
	c := &cluster{
		t: t, db: newDatabase(t, 120), links: map[*server]*storetest.Link{},
		done: map[string]int{}, excused: map[*server]int{}, slowest: map[string]time.Duration{},
	}
	for range 3 {
		l, notices := storetest.NewLink(t, c.db.url("node", "stoa")), storetest.NewLink(t, c.db.url("node", "stoa"))
		notices.Deaf.Store(deaf)
		n := newServer(t, v.url, "drain: 3s\ndatabaseListen: \""+notices.URL+"\"\n")
		n.postgres = l.URL
		c.links[n] = l
		c.nodes = append(c.nodes, n)
	}
	c.front, c.b = newBalancer(t, v.url, c.nodes)
	for _, n := range c.nodes {
		c.running.Go(func() { c.supervise(n) })
	}
	for _, n := range c.nodes {
		n.ready(t)
	}
	return c
}

// supervise restarts a node whenever it ends, as a service manager would.
func (c *cluster) supervise(n *server) {
	for !c.ending.Load() {
		p := n.spawn()
		<-p.ended
		c.mu.Lock()
		served := false
		select {
		case <-p.ready:
			served = true
		default:
			c.starts++
		}
		if served && c.excused[n] == 0 && !c.ending.Load() {
			reason := ""
			for _, line := range p.tail(1000) {
				if !strings.Contains(line, "level=INFO") {
					reason += "\n" + line
				}
			}
			c.exits = append(c.exits, fmt.Sprintf("%s node %d: %v%s", time.Now().Format("15:04:05.000"), slices.Index(c.nodes, n), p.state, reason))
		}
		c.mu.Unlock()
	}
}

// end stops all nodes in good order.
func (c *cluster) end() {
	c.ending.Store(true)
	for _, n := range c.nodes {
		if code := n.stop(c.t); code != 0 {
			c.t.Errorf("a node exits with %d; its last lines: %q", code, n.current().tail(5))
		}
	}
	c.running.Wait()
}

// upset does something to a node that may end it, and waits until it serves again.
func (c *cluster) upset(n *server, how string, do func(p *process)) {
	c.mu.Lock()
	c.excused[n]++
	c.mu.Unlock()
	do(n.current())
	c.recovers(n, how)
	c.mu.Lock()
	c.excused[n]--
	c.mu.Unlock()
}

// slow keeps the longest of each kind of duration.
func (c *cluster) slow(what string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest[what] = max(c.slowest[what], d)
}

// serves returns after the node has served a call that began later. A waiting call does not
// block the next attempt.
func (c *cluster) serves(ctx context.Context, n *server) bool {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	served := make(chan struct{}, 1)
	for ctx.Err() == nil {
		calls.Go(func() {
			r := c.l.record(c.probing, "")
			s := n.ask(ctx, c.probing.key, "", object{"model": "beta-3.8-flash", "user": r.mark, "input": "mark: " + r.mark + "\ntokens: 1"}, nil)
			c.l.saw(r, s)
			if s.done() {
				select {
				case served <- struct{}{}:
				default:
				}
			}
		})
		next, over := context.WithTimeout(ctx, 100*time.Millisecond)
		select {
		case <-served:
			over()
			return true
		case <-next.Done():
			over()
		}
	}
	return false
}

// recovered waits until each node serves again, except those that something else has happened
// to.
func (c *cluster) recovered(what string) {
	var all sync.WaitGroup
	for _, n := range c.nodes {
		c.mu.Lock()
		busy := c.excused[n] > 0
		c.mu.Unlock()
		if !busy {
			all.Go(func() { c.recovers(n, what) })
		}
	}
	all.Wait()
}

// recovers waits until a node serves.
func (c *cluster) recovers(n *server, what string) {
	ctx, cancel := context.WithTimeout(c.t.Context(), safetyNet)
	defer cancel()
	began := time.Now()
	if c.serves(ctx, n) {
		c.slow("recovery after "+what, time.Since(began))
	} else {
		c.t.Errorf("after %s node %d does not serve again; %s", what, slices.Index(c.nodes, n), n.describe())
	}
}

// A fault is something that happens to nodes or to PostgreSQL for a while.
type fault struct {
	name string
	do   func(c *cluster, within func(short, long time.Duration) time.Duration)
}

// between returns a random duration.
func between(short, long time.Duration) time.Duration {
	return short + time.Duration(rand.Int64N(int64(long-short)+1))
}

func (c *cluster) any() *server { return c.nodes[rand.IntN(len(c.nodes))] }

// cut waits until a COMMIT of a node was cut.
func (c *cluster) cut(n *server, how storetest.Cut, then func()) {
	cut := make(chan struct{})
	c.links[n].CutNext(how, func() {
		then()
		close(cut)
	})
	select {
	case <-cut:
	case <-c.t.Context().Done():
	}
}

var faults = []fault{
	{"kill -9 of a node", func(c *cluster, _ func(short, long time.Duration) time.Duration) {
		c.upset(c.any(), "kill -9", func(p *process) {
			p.cmd.Process.Kill()
			<-p.ended
		})
	}},
	{"stop of a node", func(c *cluster, _ func(short, long time.Duration) time.Duration) {
		c.upset(c.any(), "a stop", func(p *process) {
			p.cmd.Process.Signal(syscall.SIGTERM)
			<-p.ended
		})
	}},
	{"pause of a node", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		n := c.any()
		c.upset(n, "a pause", func(p *process) {
			c.b.pause(n, true)
			began := time.Now()
			p.cmd.Process.Signal(syscall.SIGSTOP)
			pass(c.t.Context(), within(3*time.Second, 30*time.Second))
			p.cmd.Process.Signal(syscall.SIGCONT)
			c.b.pause(n, false)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.pauses = append(c.pauses, [2]time.Time{began, time.Now()})
		})
	}},
	{"restart of PostgreSQL", func(c *cluster, _ func(short, long time.Duration) time.Duration) {
		c.db.stop()
		c.db.start()
		c.recovered("a restart")
	}},
	{"PostgreSQL away", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		c.db.stop()
		pass(c.t.Context(), within(2*time.Second, 15*time.Second))
		c.db.start()
		c.recovered("PostgreSQL was away")
	}},
	{"stopped processes of PostgreSQL", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		stopped := c.db.children()
		if rand.IntN(2) == 0 { // no new connection either
			stopped = append(stopped, c.db.pid())
		}
		c.db.signal(syscall.SIGSTOP, stopped...)
		pass(c.t.Context(), within(3*time.Second, 15*time.Second))
		c.db.signal(syscall.SIGCONT, stopped...)
		c.recovered("stopped processes")
	}},
	{"no connection left", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		ctx, cancel := context.WithTimeout(c.t.Context(), within(3*time.Second, 15*time.Second))
		defer cancel()
		c.db.fill(ctx)
		c.recovered("no connection")
	}},
	{"slow network", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		delay := between(100*time.Millisecond, 1500*time.Millisecond)
		for _, l := range c.links {
			l.Delay.Store(int64(delay))
		}
		pass(c.t.Context(), within(2*time.Second, 15*time.Second))
		for _, l := range c.links {
			l.Delay.Store(0)
		}
		c.recovered("a slow network")
	}},
	{"silent network of a node", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		n := c.any()
		c.upset(n, "a silent network", func(*process) {
			free := c.links[n].Hold()
			pass(c.t.Context(), within(2*time.Second, 20*time.Second))
			free()
		})
	}},
	{"COMMIT without an answer", func(c *cluster, _ func(short, long time.Duration) time.Duration) {
		c.cut(c.any(), storetest.CutAfter, func() {})
	}},
	{"cut COMMIT", func(c *cluster, _ func(short, long time.Duration) time.Duration) {
		c.cut(c.any(), storetest.CutInside, func() {})
	}},
	{"COMMIT without an answer, then no network", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		n := c.any()
		c.upset(n, "a network cut in a COMMIT", func(*process) {
			c.cut(n, storetest.CutAfter, c.links[n].Leave)
			pass(c.t.Context(), within(6*time.Second, 15*time.Second))
			c.links[n].Return()
		})
	}},
	{"restart of PostgreSQL in a COMMIT", func(c *cluster, within func(short, long time.Duration) time.Duration) {
		c.cut(c.any(), []storetest.Cut{storetest.CutAfter, storetest.CutInside}[rand.IntN(2)], func() {})
		c.db.stop()
		c.db.start()
		c.recovered("a restart")
	}},
}

// TestBooksOutliveAFailingDatabase runs three nodes under a mixed load, with sessions,
// schedules and embeds, on a PostgreSQL server that is restarted, stopped, slowed down,
// filled with connections and cut off in the middle of COMMIT, while nodes are killed,
// stopped and paused and no notices reach them. At the end all invariants of the books hold,
// every session has stopped once, and every task has run once.
func TestBooksOutliveAFailingDatabase(t *testing.T) {
	t.Parallel()
	var l *load
	v := newVendor(t, func() { l.happened() })
	c := newCluster(t, v, true)
	l = newLoad(c.front, v)
	c.l = l
	l.accounts = []*account{
		c.front.newAccount(t, "pro", 500_000_000),
		c.front.newAccount(t, "pro", 500_000_000),
		c.front.newAccount(t, "free", 500_000_000),
		c.front.newAccount(t, "pro", 30_000), // so little that it depends on top-ups
		c.front.newAccount(t, "pro", 2_000),
	}
	c.front.newAgent(t, l.accounts[0])
	c.front.newAgent(t, l.accounts[2])
	c.probing = c.front.newAccount(t, "pro", 500_000_000)
	aside := newAside(t, c.front)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working sync.WaitGroup
	working.Go(func() { l.run(ctx, callers) })
	working.Go(func() { aside.schedule(ctx) })
	working.Go(func() { aside.chat(ctx) })
	c.recovered("the start")
	c.slowest = map[string]time.Duration{}

	l.accounts = append(l.accounts[:len(l.accounts):len(l.accounts)], c.probing) // is checked too
	if *chaosFor == 0 {
		for _, i := range rand.Perm(len(faults)) {
			c.strike(faults[i], func(short, _ time.Duration) time.Duration { return short })
		}
	} else {
		limit, cancel := context.WithTimeout(ctx, *chaosFor)
		defer cancel()
		for limit.Err() == nil {
			l.happens(t, 1+rand.IntN(300))
			var at sync.WaitGroup
			first := rand.IntN(len(faults))
			at.Go(func() { c.strike(faults[first], between) })
			if rand.IntN(4) == 0 { // a node dies or stops in the meantime
				at.Go(func() { c.strike(faults[rand.IntN(3)], between) })
			}
			at.Wait()
		}
	}
	c.recovered("everything")
	stop()
	working.Wait()
	audit := l.finish(t)
	aside.finish()
	c.report(audit.served)
	for _, a := range l.accounts {
		c.stopOnce(a)
	}
	c.end()
	c.front.postgres = c.db.url("node", "stoa")
	c.front.verify(t)
}

// strike lets a fault happen and counts it.
func (c *cluster) strike(f fault, within func(short, long time.Duration) time.Duration) {
	c.mu.Lock()
	c.done[f.name]++
	c.mu.Unlock()
	began := time.Now()
	f.do(c, within)
	c.t.Logf("%s %s, %v", began.Format("15:04:05.000"), f.name, time.Since(began).Round(time.Millisecond))
}

// report logs the faults and their durations.
func (c *cluster) report(served map[string][]fakeup.Served) {
	var waits []time.Duration
	var worst []string
	began := 0 // calls that got a 503 although a vendor had begun to serve them
	for _, r := range c.l.records {
		for _, s := range r.attempts {
			if s.status != http.StatusServiceUnavailable || c.paused(s) {
				continue
			}
			if len(served[r.mark]) > 0 {
				began++
				c.slowest["wait of a call that could not be charged"] = max(c.slowest["wait of a call that could not be charged"], s.took)
			} else {
				waits = append(waits, s.took)
				if s.took.Seconds() > 2.5 {
					worst = append(worst, fmt.Sprintf("%s %s %v", r.mark, s.began.Format("15:04:05.000"), s.took))
				}
			}
		}
	}
	slices.Sort(waits)
	if n := len(waits); n > 0 {
		c.slowest["wait before a 503"] = waits[n-1]
		c.t.Logf("%d new calls got 503: half of them after %v, 99 of 100 after %v, the last after %v; %d after more than 2.5 s: %q; %d more were begun and could not be charged", n, waits[n/2], waits[n*99/100], waits[n-1], len(worst), worst[:min(10, len(worst))], began)
	}
	var cuts int64
	for _, l := range c.links {
		cuts += l.Cuts.Load()
	}
	c.t.Logf("%v; %d COMMITs cut; %s", c.done, cuts, c.l.tally())
	for what, d := range c.slowest {
		c.t.Logf("the longest %s: %v", what, d.Round(time.Millisecond))
	}
	c.t.Logf("%d starts failed; %d nodes ended by themselves", c.starts, len(c.exits))
	for _, e := range c.exits {
		c.t.Logf("ended by itself: %s", e)
	}
}

// paused reports whether a node was paused while a call waited: it may have been this
// one.
func (c *cluster) paused(s seen) bool {
	return slices.ContainsFunc(c.pauses, func(p [2]time.Time) bool {
		return s.began.Before(p[1]) && s.began.Add(s.took).After(p[0])
	})
}

// stopOnce checks that every session of the account's agent has stopped, once.
func (c *cluster) stopOnce(a *account) {
	if a.agent != "" {
		c.front.stoppedOnce(c.t, a, a.agent)
	}
}

func (h *server) stoppedOnce(t testing.TB, a *account, agent string) (completed int) {
	t.Helper()
	sessions := "/api-agents/" + agent + "/sessions"
	cursor := ""
	for {
		var page struct {
			Data []struct {
				ID, Status string
			}
			NextCursor *string
			HasMore    bool
		}
		h.get(t, a.key, sessions+"?limit=100"+cursor, &page)
		for _, s := range page.Data {
			if s.Status == "completed" {
				completed++
			} else {
				var all json.RawMessage
				h.get(t, a.key, sessions+"/"+s.ID, &all)
				t.Logf("session %s is %s: %s", s.ID, s.Status, all)
			}
			var stops []string
			for after, more := int64(0), true; more; {
				var events struct {
					Data []struct {
						Seq          int64
						Type, Status string
						Data         struct{ Status string }
					}
					HasMore bool
				}
				h.get(t, a.key, fmt.Sprintf("%s/%s/events?limit=100&after=%d", sessions, s.ID, after), &events)
				for _, e := range events.Data {
					after = e.Seq
					for _, status := range []string{e.Status, e.Data.Status} {
						if e.Type == "session.status" && slices.Contains([]string{"completed", "failed", "cancelled"}, status) {
							stops = append(stops, status)
						}
					}
				}
				more = events.HasMore
			}
			if len(stops) != 1 || stops[0] != s.Status {
				t.Errorf("session %s is %s and has stopped as %q", s.ID, s.Status, stops)
			}
		}
		if !page.HasMore {
			return completed
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// An aside runs schedules and embeds alongside the load, each with a separate account.
type aside struct {
	t              testing.TB
	h              *server
	tasks, embeds  *account
	made, answered int // tasks, chats
}

func newAside(t testing.TB, h *server) *aside {
	a := &aside{t: t, h: h, tasks: h.newAccount(t, "pro", 500_000_000), embeds: h.newAccount(t, "pro", 500_000_000)}
	h.newAgent(t, a.tasks)
	h.newAgent(t, a.embeds)
	return a
}

// until repeats a request until it succeeds; it reports whether it did before ctx
// ended.
func (a *aside) until(ctx context.Context, method, key, idempotencyKey, path, origin string, body, into any) bool {
	for ctx.Err() == nil {
		status, err := a.h.request(ctx, method, key, idempotencyKey, path, origin, body, into)
		if err == nil {
			return true
		}
		if status != 0 && status < 500 && status != http.StatusConflict && status != http.StatusTooManyRequests {
			if !strings.Contains(err.Error(), "This time has passed") { // before any node could create the task
				a.t.Errorf("%s %s: %v", method, path, err)
			}
			return false
		}
		pass(ctx, retryAfter)
	}
	return false
}

// schedule makes tasks that fall due soon until ctx ends.
func (a *aside) schedule(ctx context.Context) {
	for ctx.Err() == nil {
		at := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano)
		key := fmt.Sprint("task-", a.made)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), safetyNet)
		var task struct{ ID string }
		if a.until(limit, http.MethodPost, a.tasks.key, key, "/api-agents/"+a.tasks.agent+"/scheduled-tasks", "",
			object{"name": key, "message": "say: hi", "schedule": object{"type": "once", "runAt": at}}, &task) {
			a.made++
		}
		cancel()
		pass(ctx, 2*time.Second)
	}
}

// chat lets visitors of an embed send a message each until ctx ends.
func (a *aside) chat(ctx context.Context) {
	const origin = "http://localhost:3000"
	for i := 0; ctx.Err() == nil; i++ {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), safetyNet)
		var embed struct{ Token, ChatSessionID string }
		key := fmt.Sprint("chat-", i)
		if a.until(limit, http.MethodPost, a.embeds.key, key, "/api-agents/"+a.embeds.agent+"/embed-sessions", "",
			object{"allowedOrigins": []string{origin}, "externalUserId": key}, &embed) {
			var view struct{ Status string }
			path := "/embed/chat-sessions/" + embed.ChatSessionID
			if a.until(limit, http.MethodPost, embed.Token, key, path+"/messages", origin, object{"message": "say: hello"}, &view) {
				a.answered++
			}
		}
		cancel()
		pass(ctx, 2*time.Second)
	}
}

// finish waits until everything has ended, and compares it with the receipts.
func (a *aside) finish() {
	t := a.t
	for what, of := range map[string]struct {
		account *account
		begun   int
	}{"tasks": {a.tasks, a.made}, "chats": {a.embeds, a.answered}} {
		ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
		n := 0
		for n < of.begun && ctx.Err() == nil {
			n = a.h.sessions(t, of.account)
		}
		cancel()
		charges := a.h.checkConservation(t, of.account)
		completed := a.h.stoppedOnce(t, of.account, of.account.agent)
		if n = a.h.sessions(t, of.account); n != of.begun || len(charges) != completed {
			t.Errorf("%d %s have %d sessions, of which %d completed, and %d charges", of.begun, what, n, completed, len(charges))
		}
		t.Logf("%d %s, %d completed", of.begun, what, completed)
	}
}

// sessions counts the sessions of the account's agent.
func (h *server) sessions(t testing.TB, a *account) (n int) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Data       []any
			NextCursor *string
			HasMore    bool
		}
		h.get(t, a.key, "/api-agents/"+a.agent+"/sessions?limit=100"+cursor, &page)
		n += len(page.Data)
		if !page.HasMore {
			return n
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}
