package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// The catalog of a server that no longer recognizes a tool, or has changed its version, is
// refreshed before its hour is over, but not repeatedly.
func TestADoubtfulCatalogIsReadAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, one(&results))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		a, r := h.Agent(using(c)), h.Service()
		sessiontest.Run(t, r)
		lists := func() (n int) {
			for _, m := range f.Requests() {
				n += strings.Count(m, "tools/list")
			}
			return n
		}
		// age sets the time of the connection's last refresh to ago before now, and its next
		// refresh to an hour from now.
		age := func(ago time.Duration) {
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE connections SET checked_at = $1, refresh_at = $2`, tx.Now.Add(-ago).UnixMicro(), tx.Now.Add(time.Hour).UnixMicro())
				return err
			})
		}
		for _, d := range []struct {
			name, order string
			ago         time.Duration
			change      func()
			outcome     stoa.CallOutcome
			asked       int
		}{
			{"nothing is in doubt", `act {"order":"422"}`, time.Hour, func() {}, stoa.OutcomeError, 0},
			{"a moment ago", `act {"order":"-32602"}`, time.Minute, func() {}, stoa.OutcomeError, 0},
			{"wrong arguments", `act {"order":"-32602"}`, 11 * time.Minute, func() {}, stoa.OutcomeError, 1},
			{"an error of the server", `read {"order":"-32601"}`, time.Hour, func() {}, stoa.OutcomeError, 0},
			{"the older era", `act {}`, time.Hour, func() { f.SetLegacy(true) }, stoa.OutcomeOK, 1},
			{"the same", `act {}`, time.Hour, func() {}, stoa.OutcomeOK, 0},
			{"the newer era", `act {}`, time.Hour, func() { f.SetLegacy(false) }, stoa.OutcomeOK, 1},
			{"no such tool", `act {}`, time.Hour, func() { f.SetTools(fakemcp.Tools()[0]) }, stoa.OutcomeError, 1},
		} {
			d.change()
			age(d.ago)
			before, calls := lists(), len(f.Calls())
			s := h.Until(r, h.Begin(r, a, d.order), stoa.SessionCompleted)
			row := callsOf(h, r, s)[0]
			if row.Outcome != d.outcome || row.Attempts != 1 || len(f.Calls()) != calls+1 || row.Outcome == stoa.OutcomeOK && f.Effects(row.ID) != 1 {
				t.Errorf("%s: %s after %d attempts, %d calls: %s", d.name, row.Outcome, row.Attempts, len(f.Calls())-calls, row.Result)
			}
			for range 2 {
				if err := h.Tools.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := lists() - before; n != d.asked {
				t.Errorf("%s: the server was asked %d times", d.name, n)
			}
		}
		if s := h.Until(r, h.Begin(r, a, `read {}`), stoa.SessionCompleted); len(s.Withheld) != 3 || s.Withheld[0].Reason != stoa.WithheldMissing {
			t.Errorf("withheld are %+v", s.Withheld)
		}
	})
}

// The validity that a server specifies for its catalog is honoured within limits.
func TestACatalogIsReadAgainWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, one(new(told)))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		for _, d := range []struct {
			ms     string
			within time.Duration // time until the next refresh
		}{
			{"1", 10 * time.Minute},
			{"1800000", 30 * time.Minute},
			{"1.8e6", 30 * time.Minute},
			{"1e300", 24 * time.Hour},
			{"-5", 0},
			{"0", 0},
			{"1e999", 0},
			{`"soon"`, 0},
			{`{"a":[1]}`, 0},
		} {
			f.SetTTL(d.ms)
			var before, after, checked int64
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Get(ctx, `SELECT refresh_at FROM connections WHERE id = $1`, []any{c.ID}, &before)
				return err
			})
			if _, err := h.Tools.Refresh(t.Context(), h.Account.ID, c.ID); err != nil {
				t.Fatal(err)
			}
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Get(ctx, `SELECT refresh_at, checked_at FROM connections WHERE id = $1`, []any{c.ID}, &after, &checked)
				return err
			})
			if d.within == 0 && after != before || d.within != 0 && after != checked+d.within.Microseconds() {
				t.Errorf("ttlMs %s: asked again after %s", d.ms, time.Duration(after-checked)*time.Microsecond)
			}
		}
	})
}
