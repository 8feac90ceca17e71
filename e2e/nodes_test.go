package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stoa/internal/testkit/storetest"
)

// nodes starts servers on one new PostgreSQL database, all at the same time; more is YAML to append
// to their settings.
func nodes(t *testing.T, vendorURL string, n int, more ...string) (storetest.Database, []*server) {
	t.Helper()
	database := storetest.Postgres(t)
	all := make([]*server, n)
	for i := range all {
		all[i] = newServer(t, vendorURL, "drain: 2s\n"+strings.Join(more, ""))
		all[i].postgres = database.Config.PostgresURL
	}
	var starting sync.WaitGroup
	for _, h := range all {
		p := h.spawn()
		starting.Go(func() {
			select {
			case <-p.ready:
			case <-p.ended:
				t.Errorf("a node did not start: %q", p.tail(5))
			}
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return database, all
}

// TestAPausedNodeWritesNothing stops a node in the middle of a reply, for longer than a node
// lives without a renewal. The provider ends the reply in the meantime, so that all of it is
// available when the node continues: it must not charge the reply, and must end.
func TestAPausedNodeWritesNothing(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	database, servers := nodes(t, v.url, 2)
	paused, other := servers[0], servers[1]
	a := other.newAccount(t, "pro", 100_000_000)
	call := object{"model": "beta-3.8-flash", "user": "paused", "stream": true, "input": "mark: paused\nslow: 20ms\ntokens: 20"}
	result := make(chan seen, 1)
	go func() { result <- paused.ask(context.Background(), a.key, "a-key", call, nil) }()
	v.WaitDeltas(t, 3)
	p := paused.current()
	p.signal(t, syscall.SIGSTOP)
	declared := other.current().logs("a node was declared dead")
	database.Expire() // as if it had been stopped for longer
	wait(t, "the declaration of death", declared)

	// Its idempotency key and credits are free.
	again := other.ask(t.Context(), a.key, "a-key", call, nil)
	if !again.done() || again.replayed {
		t.Errorf("the same request at the other node: %+v", again)
	}
	p.signal(t, syscall.SIGCONT)
	if s := <-result; s.done() {
		t.Errorf("a dead node finished a reply: %+v", s)
	}
	if code := p.exit(t); code == 0 {
		t.Errorf("a dead node exits with 0: %q", p.tail(5))
	}
	if all := other.checkConservation(t, a); len(all) != 1 || all[0].ID != again.id {
		t.Errorf("charged: %+v; want the one of the other node", all)
	}
	other.verify(t)
}

// TestAShortPauseEndsNothing checks that a node that was stopped but is not dead continues,
// and that the reply it was sending is complete and charged once.
func TestAShortPauseEndsNothing(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	_, servers := nodes(t, v.url, 2)
	h := servers[0]
	a := h.newAccount(t, "pro", 100_000_000)
	result := make(chan seen, 1)
	go func() {
		result <- h.ask(context.Background(), a.key, "", object{"model": "beta-3.8-flash", "user": "short", "stream": true, "input": "mark: short\nslow: 20ms\ntokens: 20"}, nil)
	}()
	v.WaitDeltas(t, 3)
	h.current().signal(t, syscall.SIGSTOP)
	servers[1].call(t.Context(), http.MethodGet, "", "/health", nil, nil)
	h.current().signal(t, syscall.SIGCONT)
	if s := <-result; !s.done() {
		t.Errorf("it was not finished: %+v", s)
	}
	if all := servers[1].checkConservation(t, a); len(all) != 1 {
		t.Errorf("charged: %+v", all)
	}
	for _, h := range servers {
		if code := h.stop(t); code != 0 {
			t.Errorf("a node exits with %d: %q", code, h.current().tail(5))
		}
	}
	h.verify(t)
}

// TestSessionsOutliveTheirNode kills one of two nodes that run sessions: all sessions finish,
// and each step is charged once.
func TestSessionsOutliveTheirNode(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	database, servers := nodes(t, v.url, 2)
	killed, other := servers[0], servers[1]
	a := other.newAccount(t, "pro", 100_000_000)
	other.newAgent(t, a)
	sessions := "/api-agents/" + a.agent + "/sessions"
	var ids []string
	for i := range 8 {
		var made struct{ ID string }
		if _, err := servers[i%2].call(t.Context(), http.MethodPost, a.key, sessions, object{"message": "slow: 20ms\ntokens: 40", "mode": "once"}, &made); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	v.WaitDeltas(t, 10)
	killed.kill()
	database.Expire()
	for _, id := range ids {
		var s struct{ Status, Reply string }
		for s.Status != "completed" {
			other.get(t, a.key, sessions+"/"+id+"?waitSeconds=10", &s)
			if s.Status == "failed" || s.Status == "cancelled" {
				t.Fatalf("a session is %s", s.Status)
			}
		}
		if n := len(strings.Fields(s.Reply)); n != 40 {
			t.Errorf("a reply has %d words", n)
		}
	}
	if all := other.checkConservation(t, a); len(all) != len(ids) {
		t.Errorf("%d charges for %d steps", len(all), len(ids))
	}
	if code := other.stop(t); code != 0 {
		t.Errorf("the other node exits with %d", code)
	}
	other.verify(t)
}

// TestTasksRunOnceOnThreeNodes checks that due tasks run once each, regardless of the nodes
// that start and run them.
func TestTasksRunOnceOnThreeNodes(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	_, servers := nodes(t, v.url, 3)
	h := servers[0]
	a := h.newAccount(t, "pro", 100_000_000)
	h.newAgent(t, a)
	tasks := "/api-agents/" + a.agent + "/scheduled-tasks"
	at := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano)
	const n = 6
	for i := range n {
		if _, err := servers[i%3].call(t.Context(), http.MethodPost, a.key, tasks,
			object{"name": fmt.Sprint("task ", i), "message": "say: hi", "schedule": object{"type": "once", "runAt": at}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var list struct {
		Data []struct {
			ID       string
			Counters struct{ Completed int }
		}
	}
	for completed := 0; completed < n; {
		h.get(t, a.key, tasks, &list)
		completed = 0
		for _, task := range list.Data {
			completed += task.Counters.Completed
		}
	}
	for _, h := range servers {
		if code := h.stop(t); code != 0 {
			t.Errorf("a node exits with %d", code)
		}
	}
	last := servers[2]
	last.start()
	var sessions struct{ Data []struct{ Status string } }
	last.get(t, a.key, "/api-agents/"+a.agent+"/sessions", &sessions)
	if len(sessions.Data) != n {
		t.Errorf("%d sessions of %d tasks", len(sessions.Data), n)
	}
	if all := last.checkConservation(t, a); len(all) != n {
		t.Errorf("%d charges of %d tasks", len(all), n)
	}
	last.verify(t)
}
