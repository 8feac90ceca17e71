package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// restart ends a fake with all its connections and sessions and starts it again at the same
// address.
func restart(t *testing.T, f *fakemcp.Server) {
	t.Helper()
	f.Stop()
	f.Forget()
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
}

// A server is restarted in the middle of a call: its effects determine the outcome of the
// call, and the turn continues with working calls. In the era with sessions the next call
// opens a new session.
func TestAServerRestartsWithinACall(t *testing.T) {
	t.Parallel()
	for era, legacy := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(era, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, home storetest.Database) {
				var results told
				h := sessiontest.Build(t, home, callers(&results, func(message string) []stoa.ToolCall {
					return []stoa.ToolCall{call("1", fakemcp.Act, `{"key":"before"}`), call("2", message, `{"key":"within"}`), call("3", fakemcp.Act, `{"key":"after"}`)}
				}))
				f := fakemcp.Start(t, fakemcp.Options{Legacy: legacy})
				a, r := h.Agent(using(connect(h, f, "far"))), h.Service()
				stop := sessiontest.Run(t, r)
				for _, c := range []struct {
					tool, want string
					requests   int
				}{{fakemcp.Read, "ok 2", 2}, {fakemcp.Put, "ok 2", 2}, {fakemcp.Act, "unknown 1", 1}} {
					effects, calls, asked := f.EffectsByKey(), len(f.Calls()), len(f.Requests())
					f.Next("tools/call", "", "hang")
					s := h.Begin(r, a, c.tool)
					f.Await(func(all []fakemcp.Call) bool { return len(all) == calls+2 })
					restart(t, f)
					got, rows := h.Until(r, s, stoa.SessionCompleted), callsOf(h, r, s)
					if len(rows) != 3 || rows[0].Outcome != stoa.OutcomeOK || fmt.Sprint(rows[1].Outcome, " ", rows[1].Attempts) != c.want || rows[2].Outcome != stoa.OutcomeOK {
						t.Errorf("%s: %+v", c.tool, rows)
						continue
					}
					ids := map[string]int{}
					for _, seen := range f.Calls()[calls:] {
						ids[seen.ID]++
					}
					if ids[rows[0].ID] != 1 || ids[rows[1].ID] != c.requests || ids[rows[2].ID] != 1 || len(ids) != 3 {
						t.Errorf("%s: requests by call: %v", c.tool, ids)
					}
					now := f.EffectsByKey()
					if within := map[string]int{fakemcp.Put: 1, fakemcp.Act: 1}[c.tool]; now["before"]-effects["before"] != 1 || now["within"]-effects["within"] != within || now["after"]-effects["after"] != 1 {
						t.Errorf("%s: effects were %v and are %v", c.tool, effects, now)
					}
					opened := 0
					for _, m := range f.Requests()[asked:] {
						opened += strings.Count(m, "POST initialize")
					}
					if want := map[bool]int{true: 2}[legacy]; opened != want {
						t.Errorf("%s: %d sessions were opened at the server, want %d: %q", c.tool, opened, want, f.Requests()[asked:])
					}
					if told := results.of(c.tool); len(told) != 3 || told[1].IsError != (c.tool == fakemcp.Act) || told[1].IsError && !strings.HasPrefix(told[1].Content, "It is not known whether this was done.") {
						t.Errorf("%s: the model was told %+v", c.tool, told)
					}
					h.CheckBooks(r, got)
				}
				stop()
				if _, open := f.Sessions(); open != 0 {
					t.Errorf("%d sessions are open at the server", open)
				}
			})
		})
	}
}

// A server, or a proxy in front of it, closes idle connections. A call that may happen only
// once has its own connection, so that it never uses one that is about to be closed.
func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	for era, legacy := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(era, func(t *testing.T) {
			var results told
			const times = 10
			h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) (list []stoa.ToolCall) {
				for i := range times {
					list = append(list, call(fmt.Sprint(i), fakemcp.Act, `{}`))
				}
				return list
			}))
			f := fakemcp.Start(t, fakemcp.Options{Legacy: legacy, CloseIdle: true})
			a, r := h.Agent(using(connect(h, f, "far"))), h.Service()
			sessiontest.Run(t, r)
			s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionCompleted)
			rows := callsOf(h, r, s)
			for _, row := range rows {
				if row.Outcome != stoa.OutcomeOK || row.Attempts != 1 || f.Effects(row.ID) != 1 {
					t.Errorf("%s after %d attempts: %s", row.Outcome, row.Attempts, row.Result)
				}
			}
			if len(rows) != times || slices.ContainsFunc(f.Calls(), func(c fakemcp.Call) bool { return c.Connection != 1 }) {
				t.Errorf("%d calls, %d requests", len(rows), len(f.Calls()))
			}
		})
	}
}

// The kinds without a tool protocol are called over connections that are used once, too.
func TestIdleConnectionsOfHTTPAreClosed(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(message string) (list []stoa.ToolCall) {
		for i := range 5 {
			list = append(list, stoa.ToolCall{ID: fmt.Sprint(i), Name: message + "__order", Arguments: `{}`})
		}
		return list
	}))
	closing, keeping := shop(t, true), shop(t, false)
	r := h.Service()
	sessiontest.Run(t, r)
	for kind, site := range map[string]*seller{store.KindHTTP: closing, store.KindOpenAPI: keeping} {
		c := site.connect(h, kind)
		a := h.Agent(ordering(c))
		s := h.Until(r, h.Begin(r, a, c.Name), stoa.SessionCompleted)
		rows := callsOf(h, r, s)
		for _, row := range rows {
			if row.Outcome != stoa.OutcomeOK || row.Attempts != 1 {
				t.Errorf("%s: %s after %d attempts: %s", kind, row.Outcome, row.Attempts, row.Result)
			}
		}
		if n, most := site.seen(); len(rows) != 5 || n != 5 || most != 1 {
			t.Errorf("%s: %d calls, %d requests, up to %d on a connection", kind, len(rows), n, most)
		}
	}
}
