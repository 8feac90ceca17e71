package agent_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// traces counts the statements of transactions.
type traces struct {
	mu                        sync.Mutex
	writes, statements, trips int
}

func (c *traces) add(tr db.Trace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tr.Write {
		c.writes++
		c.statements += tr.Statements
		c.trips += tr.Trips
	}
}

func (c *traces) reset() (writes, statements, trips int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	writes, statements, trips = c.writes, c.statements, c.trips
	c.writes, c.statements, c.trips = 0, 0, 0
	return writes, statements, trips
}

const (
	mostStatements = 35 // on SQLite; one of them adds the charge to the sums of its hour
	mostTrips      = 22
	// On PostgreSQL a lease is a part of the balance, extended about once a second
	// under load and so at most once in this test.
	extensions        = 1
	mostOfAnExtension = 12 // statements
)

// TestASessionTakesFewTransactions bounds the writes of a session of one step: its start, its
// claim, the beginning of its step, and its charge with its end.
func TestASessionTakesFewTransactions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var count traces
		home.Config.Trace = count.add
		h := sessiontest.Build(t, home, sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
			sessiontest.Say(yield, "yes")
		}))
		a, r := h.Agent(), h.Service()
		sessiontest.Run(t, r)
		h.Until(r, h.Begin(r, a, "the first one leases credits"), stoa.SessionCompleted)
		count.reset()
		const sessions = 4
		for range sessions {
			h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
		}
		writes, statements, trips := count.reset()
		extended := 0
		if home.Config.PostgresURL != "" {
			extended = extensions
		}
		if writes > 4*sessions+extended {
			t.Errorf("%d sessions took %d transactions that write; at most 4 each", sessions, writes)
		}
		if statements > mostStatements*sessions+mostOfAnExtension*extended {
			t.Errorf("%d sessions took %d statements in them; at most %d each", sessions, statements, mostStatements)
		}
		if trips > mostTrips*sessions {
			t.Errorf("%d sessions took %d round trips to PostgreSQL in them; at most %d each", sessions, trips, mostTrips)
		}
		t.Logf("%d transactions, %d statements, %d round trips", writes, statements, trips)
	})
}

// TestAccountsTakeTurnsInOneClaim checks to which accounts the slots go, and that an
// account's limit holds within one claim.
func TestAccountsTakeTurnsInOneClaim(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		for _, c := range []struct {
			slots, limit int
			want         string // messages of the sessions that begin
		}{
			{slots: 3, limit: 0, want: "long long short"},
			{slots: 9, limit: 2, want: "long long short"},
			{slots: 9, limit: 1, want: "long short"},
			{slots: 9, limit: 0, want: "long long long short"},
		} {
			begun, goOn := make(chan string, 4), make(chan struct{})
			h := sessiontest.Build(t, home, sessiontest.Blocking(begun, goOn))
			r := h.Service(func(cfg *sessiontest.Config) {
				cfg.Workers = c.slots
				cfg.Plans = func(id string) stoa.Plan { return stoa.Plan{ID: id, GatedModels: true, ActiveSessions: c.limit} }
			})
			a := h.Agent()
			sessions := []stoa.Session{h.Begin(r, a, "long"), h.Begin(r, a, "long"), h.Begin(r, a, "long")}
			h.Account = storetest.Account(t, h.Store, stoa.Credit)
			sessions = append(sessions, h.Begin(r, h.Agent(), "short"))
			sessiontest.Run(t, r)
			var got []string
			for range strings.Fields(c.want) {
				got = append(got, <-begun)
			}
			slices.Sort(got)
			running := 0
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Get(ctx, `SELECT COUNT(*) FROM sessions WHERE status = 'running'`, nil, &running)
				return err
			})
			if text := strings.Join(got, " "); text != c.want || running != len(got) {
				t.Errorf("%d slots, limit %d: begun %q, running %d", c.slots, c.limit, text, running)
			}
			close(goOn)
			for _, s := range sessions {
				h.Account.ID = s.AccountID
				h.Until(r, s, stoa.SessionCompleted)
			}
			h.Close()
		}
	})
}

// TestAnAccountLeavesWorkersForOthers has an account queue more sessions than there are
// workers, without a limit of its plan.
func TestAnAccountLeavesWorkersForOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		begun, goOn := make(chan string, 40), make(chan struct{})
		h := sessiontest.Build(t, home, sessiontest.Blocking(begun, goOn))
		const workers, share = 17, 16
		r := h.Service(func(cfg *sessiontest.Config) {
			cfg.Workers = workers
			cfg.Plans = func(id string) stoa.Plan { return stoa.Plan{ID: id, GatedModels: true} }
		})
		a := h.Agent()
		var sessions []stoa.Session
		for range workers + 3 {
			sessions = append(sessions, h.Begin(r, a, "many"))
		}
		sessiontest.Run(t, r)
		for range share {
			if got := <-begun; got != "many" {
				t.Errorf("begun %q", got)
			}
		}
		h.Account = storetest.Account(t, h.Store, stoa.Credit)
		sessions = append(sessions, h.Begin(r, h.Agent(), "one"))
		if got := <-begun; got != "one" {
			t.Errorf("begun %q beyond the share of its account", got)
		}
		close(goOn)
		for _, s := range sessions {
			h.Account.ID = s.AccountID
			h.Until(r, s, stoa.SessionCompleted)
		}
		h.Close()
	})
}
