package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var kills = flag.Int("kills", 15, "how often the crash test kills the server; CI: 50")

const callers = 12

// TestBooksAreExactThroughKills kills the server at random moments under a mixed
// load and starts it again. At the end all seven invariants of the books are
// checked from outside.
func TestBooksAreExactThroughKills(t *testing.T) {
	t.Parallel()
	n := *kills
	if testing.Short() {
		n = min(n, 5)
	}
	crash(t, "", "", n)
}

// TestBooksAreExactThroughKillsWithoutSync uses durability "process", which has the same
// guarantee as long as the machine runs.
func TestBooksAreExactThroughKillsWithoutSync(t *testing.T) {
	t.Parallel()
	n := max(*kills/5, 5)
	if testing.Short() {
		n = 2
	}
	crash(t, "", "durability: process\n", n)
}

func TestBooksAreExactThroughKillsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	postgres := aPostgres(t)
	n := max(*kills/5, 5)
	if testing.Short() {
		n = 2
	}
	crash(t, postgres, "", n)
}

func crash(t *testing.T, postgres, settings string, kills int) {
	var l *load
	v := newVendor(t, func() { l.happened() })
	h := newServer(t, v.url, settings)
	h.postgres = postgres
	l = newLoad(h, v)
	h.start()
	l.accounts = []*account{
		h.newAccount(t, "pro", 500_000_000),
		h.newAccount(t, "pro", 500_000_000),
		h.newAccount(t, "free", 500_000_000),
		h.newAccount(t, "pro", 30_000), // so little that it depends on top-ups
	}
	h.newCappedKey(t, l.accounts[1], 6_000)
	h.newAgent(t, l.accounts[0])
	h.newAgent(t, l.accounts[2])

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx, callers)
	}()

	var early []receipt // as listed at a moment in between
	started := time.Now()
	for i := range kills {
		if i%10 == 9 { // some die before they accept their first request
			h.kill()
			h.spawn()
			aMoment(400_000)
		} else {
			l.happens(t, 1+rand.IntN(300))
			aMoment(20_000)
		}
		if i == kills/2 {
			// The settled charges may all belong to other accounts.
			for range 1000 {
				if early = h.receipts(t, l.accounts[0].key); len(early) > 0 {
					break
				}
				l.happens(t, 1)
			}
			h.verify(t) // while the server runs
		}
		h.kill()
		h.start()
	}
	took := time.Since(started)
	stop()
	<-ended

	audit := l.finish(t)
	t.Logf("%d kills in %v; %s", kills, took.Round(time.Millisecond), l.tally())
	checkUnchanged(t, early, audit.receipts[l.accounts[0]])
	if code := h.stop(t); code != 0 {
		t.Errorf("the last process exits with %d", code)
	}
	h.verify(t)
}

// checkUnchanged checks that receipts are never rewritten (invariant 7).
func checkUnchanged(t *testing.T, early, late []receipt) {
	t.Helper()
	now := map[string]receipt{}
	for _, r := range late {
		now[r.ID] = r
	}
	for _, r := range early {
		if d := cmp.Diff(r, now[r.ID]); d != "" {
			t.Errorf("the receipt %s has changed:\n%s", r.ID, d)
		}
	}
	if len(early) == 0 {
		t.Error("no receipt was there half-way: the load is broken")
	}
}

// happens waits for n more events at the callers or the provider.
func (l *load) happens(t testing.TB, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	for len(l.events) > 0 { // earlier ones
		<-l.events
	}
	for range n {
		select {
		case <-l.events:
		case <-ctx.Done():
			t.Fatalf("the load has stalled; %s", l.h.describe())
		}
	}
}

// describe returns the state of a server that does not answer.
func (h *server) describe() string {
	l := h.current()
	if l == nil {
		return "no server runs"
	}
	return fmt.Sprintf("the server's last lines: %q", l.tail(5))
}

// aMoment yields to the scheduler up to yields times, so that a kill happens at a random
// moment. It does not wait for anything.
func aMoment(yields int) {
	for range rand.IntN(yields) {
		runtime.Gosched()
	}
}
