package agent_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// gate reserves all slots of a process for calls of a connection, so that each other call
// waits right before its intent is written.
func gate(h *sessiontest.Fixture, tools *tool.Tools, c store.Connection) (leave func()) {
	h.T.Helper()
	var to tool.Target
	err := h.Store.Read(h.T.Context(), func(tx *store.Tx) error {
		who := tool.Audience{AccountID: h.Account.ID, SpaceID: c.SpaceID}
		offered, _, err := tool.Offer(h.T.Context(), tx, who, []stoa.AgentTool{{Type: stoa.ToolConnection, ConnectionID: c.ID, Allow: []string{fakemcp.Act}}}, nil)
		if err != nil {
			return err
		}
		o := offered[0]
		planned := stoa.ExternalCall{DefinitionSHA256: o.SHA256, Effects: o.Effects, Approval: o.Approval}
		to, _, err = tools.Target(h.T.Context(), tx, who, o, planned)
		return err
	})
	if err != nil {
		h.T.Fatal(err)
	}
	var all []func()
	for range c.Limits.MaxConcurrent {
		leave, refused, err := tools.Enter(h.T.Context(), to)
		if err != nil || refused != "" {
			h.T.Fatal(refused, err)
		}
		all = append(all, leave)
	}
	return func() {
		for _, leave := range all {
			leave()
		}
	}
}

// after waits until a session has an event of a type for the nth time.
func after(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, kind, with string, n int) {
	h.T.Helper()
	for e, err := range r.Events(h.T.Context(), session.EventsRequest{AccountID: h.Account.ID, AgentID: s.AgentID, SessionID: s.ID, Follow: true}) {
		if err != nil {
			h.T.Fatal(err)
		}
		if e.Type != kind || !strings.Contains(e.Data, with) {
			continue
		}
		if n--; n == 0 {
			return
		}
	}
	h.T.Fatalf("%s has no %s", s.ID, kind)
}

// Two processes have the same planned calls, and both are about to begin them: the first has
// lost its lease without noticing. One of them begins each call, and the server is called
// once. On PostgreSQL they are two stores with separate connections; on SQLite, whose
// directory has one process, they are two workers of one.
func TestTwoProcessesRaceForOneCall(t *testing.T) {
	t.Parallel()
	rounds, each := 5, 8
	if testing.Short() {
		rounds = 1
	}
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		script := callers(&results, func(message string) []stoa.ToolCall {
			return []stoa.ToolCall{call("1", fakemcp.Act, fmt.Sprintf(`{"key":%q}`, message))}
		})
		h := sessiontest.Build(t, home, script)
		other := h
		if home.Config.PostgresURL != "" {
			var err error
			if other, err = sessiontest.Open(home.Config, script); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(other.Close)
			other.T, other.Account = t, h.Account
		}
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		a := h.Agent(using(c))
		process := func(of *sessiontest.Fixture, change ...func(*sessiontest.Config)) (r *sessiontest.Service, open func()) {
			tools := &tool.Tools{Store: of.Store, Vault: of.Tools.Vault, Network: of.Tools.Network, Emit: of.Tools.Emit}
			return of.Service(append(change, func(c *sessiontest.Config) { c.Tools = tools })...), gate(of, tools, c)
		}
		for round := range rounds {
			first, openFirst := process(h)
			second, openSecond := process(other, shared)
			stopFirst := sessiontest.Run(t, first)
			var all []stoa.Session
			for i := range each {
				all = append(all, h.Begin(first, a, fmt.Sprint(round, ".", i)))
			}
			for _, s := range all {
				after(h, first, s, session.EventStepDone, "", 1) // the call is planned
			}
			h.Write(endRunners)
			stopSecond := sessiontest.Run(t, second)
			for _, s := range all {
				after(h, second, s, session.EventStatus, `"running"`, 2)
			}
			var both sync.WaitGroup
			both.Go(openFirst)
			both.Go(openSecond)
			both.Wait()
			for i, s := range all {
				got, rows := h.Until(second, s, stoa.SessionCompleted), callsOf(h, second, s)
				log := h.Log(second, s)
				if len(rows) != 1 || rows[0].Attempts != 1 || rows[0].Outcome != stoa.OutcomeOK || strings.Count(log, "tool.called") != 1 || got.Turn.Attempt != 2 {
					t.Errorf("%d.%d, attempt %d of the turn: %+v\n%s", round, i, got.Turn.Attempt, rows, log)
				}
				h.CheckBooks(second, got)
			}
			stopFirst()
			stopSecond()
		}
		keys := map[string]int{}
		for _, seen := range f.Calls() {
			if keys[seen.Key]++; keys[seen.Key] > 1 {
				t.Errorf("%s was asked for %d times", seen.Key, keys[seen.Key])
			}
		}
		if len(keys) != rounds*each {
			t.Errorf("%d of %d calls were made", len(keys), rounds*each)
		}
	})
}
