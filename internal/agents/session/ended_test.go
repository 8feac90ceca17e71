package session_test

import (
	"context"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// Sessions that have ended are removed with everything but their receipts; those that wait or
// changed recently stay.
func TestOldSessionsGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		h := sessiontest.Build(t, db, sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
			if call.Messages[len(call.Messages)-1].Text() == "ask" {
				sessiontest.Say(yield, "", stoa.ToolCall{ID: "1", Name: "ask_user", Arguments: `{"question":"Why?"}`})
				return
			}
			sessiontest.Say(yield, "yes")
		}))
		a, r := h.Agent(), h.Service()
		sessiontest.Run(t, r)
		old := h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
		waiting := h.Until(r, h.Begin(r, a, "ask"), stoa.SessionWaiting)
		recent := h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE sessions SET updated_at = 1 WHERE id IN ($1, $2)", old.ID, waiting.ID)
			return err
		})
		if n, err := r.RemoveEnded(t.Context(), time.Now().Add(-time.Hour)); err != nil || n != 1 {
			t.Fatalf("%d sessions were removed: %v", n, err)
		}
		for id, want := range map[string]stoa.Code{old.ID: stoa.CodeSessionNotFound, waiting.ID: "", recent.ID: ""} {
			if _, err := r.Get(t.Context(), h.Account.ID, a.ID, id); stoa.CodeOf(err) != want {
				t.Errorf("%s: %v, want %q", id, err, want)
			}
		}
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			_, found, err := tx.Books().ChargeByID(ctx, stoa.StepID(old.ID, 1, 1))
			if err == nil && !found {
				t.Error("the receipt of the removed session is gone")
			}
			return err
		})
	})
}
