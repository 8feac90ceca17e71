package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestAWrongClockEndsNoTurn checks that a turn continues if another node has a wrong clock, or if the
// clock of its own node is changed, so that the deadline of the turn seems to have passed.
func TestAWrongClockEndsNoTurn(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"of another node": true, "of its node": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, goOn := make(chan string), make(chan struct{})
				h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Blocking(begun, goOn))
				a, r := h.Agent(), h.Service()
				sessiontest.Run(t, r)
				s := h.Begin(r, a, "hello")
				<-begun
				h.Write(func(ctx context.Context, tx *store.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE sessions SET due_at = 1")
					return err
				})
				if other {
					sessiontest.Run(t, h.Service())
				}
				time.Sleep(30 * time.Second) // both have swept
				close(goOn)
				h.CheckBooks(r, h.Until(r, s, stoa.SessionCompleted))
			})
		})
	}
}
