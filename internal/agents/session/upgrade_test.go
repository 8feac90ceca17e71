package session_test

import (
	"context"
	"strings"
	"testing"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestAChatMovesToTheNewestVersion checks that a chat keeps its agent's version until it is
// moved, and that only a chat that has stopped is moved.
func TestAChatMovesToTheNewestVersion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		h := sessiontest.Build(t, database, sessiontest.Script(func(_ context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
			if call.Messages[len(call.Messages)-1].Text() == "ask" {
				sessiontest.Say(yield, "", stoa.ToolCall{ID: "1", Name: "ask_user", Arguments: `{"question":"Why?"}`})
				return
			}
			sessiontest.Say(yield, m.ID+": "+strings.SplitN(call.Instructions, "\n", 2)[0])
		}))
		a, r := h.Agent(func(a *stoa.Agent) { a.Instructions, a.Model = "Old.", "alpha-haiku-4-5" }), h.Service()
		sessiontest.Run(t, r)
		s := h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
		once := h.Until(r, h.Begin(r, a, "hello", func(req *session.StartRequest) { req.Mode = stoa.ModeOnce }), stoa.SessionCompleted)
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Setup().EditAgent(ctx, h.Account.ID, a.ID, func(a *stoa.Agent) error {
				a.Instructions, a.Model, a.Limits.MaxSteps = "New.", "alpha-sonnet-5-5", 2
				return nil
			})
			return err
		})
		send := func(text string, want stoa.SessionStatus) stoa.Session {
			t.Helper()
			if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: text}); err != nil {
				t.Fatal(err)
			}
			return h.Until(r, s, want)
		}
		upgrade := func(id string) (out stoa.Session, err error) {
			err = h.Store.Write(t.Context(), func(tx *store.Tx) (err error) {
				out, err = r.Sessions.Upgrade(t.Context(), tx, h.Caller(), a.ID, id)
				return err
			})
			return out, err
		}
		if got := send("again", stoa.SessionCompleted); got.Reply != "alpha-haiku-4-5: Old." || got.AgentVersion != 1 {
			t.Errorf("before: %q of version %d", got.Reply, got.AgentVersion)
		}
		send("ask", stoa.SessionWaiting)
		if _, err := upgrade(s.ID); stoa.CodeOf(err) != stoa.CodeSessionBusy {
			t.Errorf("a waiting session: %v", err)
		}
		send("because", stoa.SessionCompleted)
		for range 2 { // a second request changes nothing
			got, err := upgrade(s.ID)
			if err != nil || got.AgentVersion != 2 || got.Limits.MaxSteps != 2 {
				t.Errorf("version %d with %d steps: %v", got.AgentVersion, got.Limits.MaxSteps, err)
			}
		}
		if got := send("now", stoa.SessionCompleted); got.Reply != "alpha-sonnet-5-5: New." || got.AgentVersion != 2 {
			t.Errorf("after: %q of version %d", got.Reply, got.AgentVersion)
		}
		if n := strings.Count(h.Log(r, s), session.EventUpgraded); n != 1 {
			t.Errorf("%d events of the move", n)
		}
		if _, err := upgrade(once.ID); stoa.CodeOf(err) != stoa.CodeSessionFinished {
			t.Errorf("a session of mode once: %v", err)
		}
		if _, err := upgrade("ses_none"); stoa.CodeOf(err) != stoa.CodeSessionNotFound {
			t.Errorf("an unknown session: %v", err)
		}
	})
}
