package agent_test

import (
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestAServersSessionMayOutliveATurn has a stateful server whose sessions last as long as a
// turn, or as long as the agent's session. When one was lost, the next result says so, once.
func TestAServersSessionMayOutliveATurn(t *testing.T) {
	t.Parallel()
	for _, lasts := range []string{store.SessionsTurn, store.SessionsSession} {
		storetest.Each(t, func(t *testing.T, home storetest.Database) {
			var results told
			h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall {
				return []stoa.ToolCall{call("1", fakemcp.Read, `{}`), call("2", fakemcp.Act, `{}`)}
			}))
			f := fakemcp.Start(t, fakemcp.Options{Legacy: true})
			c := connect(h, f, "far", func(c *store.Connection) { c.Sessions = lasts })
			a, r := h.Agent(using(c)), h.Service()
			sessiontest.Run(t, r)
			before, _ := f.Sessions()
			s := h.Until(r, h.Begin(r, a, "first"), stoa.SessionCompleted)
			turn := func(message string) {
				t.Helper()
				if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
					t.Fatal(err)
				}
				h.Until(r, s, stoa.SessionCompleted)
			}
			turn("second")
			kept := lasts == store.SessionsSession
			if opened, _ := f.Sessions(); opened-before != map[bool]int{true: 1, false: 2}[kept] {
				t.Errorf("%s: %d sessions were opened", lasts, opened-before)
			}
			f.Forget() // as a server that restarts
			turn("third")
			other := h.Until(r, h.Begin(r, a, "other"), stoa.SessionCompleted)
			for message, lost := range map[string]bool{"first": false, "second": !kept, "third": true, "other": false} {
				got := results.of(message)
				if len(got) != 2 || strings.Contains(got[0].Content, "session is new") != lost || strings.Contains(got[1].Content, "session is new") {
					t.Errorf("%s, %s: %+v", lasts, message, got)
				}
			}
			// Unused sessions and those of a deleted session are ended.
			if err := r.Sessions.Delete(t.Context(), h.Caller(), a.ID, other.ID); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				after time.Duration
				open  int
			}{{0, 1}, {tool.KeptIdle - time.Minute, 1}, {tool.KeptIdle + time.Minute, 0}} {
				if !kept {
					step.open = 0
				}
				for open := -1; open != step.open; _, open = f.Sessions() { // a turn releases its session after its end
					if err := h.Tools.EndKept(t.Context(), time.Now().Add(step.after)); err != nil {
						t.Fatal(err)
					}
					if _, open := f.Sessions(); open < step.open {
						t.Fatalf("after %s: %d are open, want %d", step.after, open, step.open)
					}
				}
			}
		})
	}
}
