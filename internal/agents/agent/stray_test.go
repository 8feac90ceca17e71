package agent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestACallWithoutToolsIsAnswered lets every wire call a tool in a session that offers none:
// the model receives the error that the tool does not exist, continues, and both steps are
// charged.
func TestACallWithoutToolsIsAnswered(t *testing.T) {
	t.Parallel()
	for name, tt := range vendors {
		h, vendor := onVendor(t, name)
		a := h.Agent(func(a *stoa.Agent) { a.Model = tt.model })
		r := h.Service()
		sessiontest.Run(t, r)
		got := h.Until(r, h.Begin(r, a, "stray\ncall: rm {}\nsay: some text", func(q *session.StartRequest) { q.Mode = stoa.ModeOnce }), stoa.SessionCompleted)
		if got.Reply != "some text" || len(vendor.Served()) != 2 || got.Steps != 2 || got.Spent <= 0 {
			t.Errorf("%s: %q after %d requests, %d steps, spent %d", name, got.Reply, len(vendor.Served()), got.Steps, got.Spent)
		}
		checkAccepted(t, vendor)
		h.CheckBooks(r, got)
	}
}

// TestACallThatCannotBeReadIsTriedAgain ends a step at a call that its vendor could not read:
// the step is free and repeated.
func TestACallThatCannotBeReadIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
			if n++; n == 1 {
				sessiontest.Say(yield, "Let me see", stoa.ToolCall{})
				return
			}
			sessiontest.Say(yield, "at last")
		}))
		a, r := h.Agent(), h.Service()
		sessiontest.Run(t, r)
		got := untilLong(h, r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
		if got.Reply != "at last" || n != 2 || got.Turn.Attempt != 2 {
			t.Errorf("%q after %d calls, attempt %d", got.Reply, n, got.Turn.Attempt)
		}
		h.CheckBooks(r, got)
	})
}
