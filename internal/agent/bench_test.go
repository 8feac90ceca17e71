package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
)

// BenchmarkSessions is what a session of one step costs from its start to its
// answer, with many of them under way.
func BenchmarkSessions(b *testing.B) {
	h := build(b, storetest.New(b), script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(stoa.Event, error) bool) {
		say(yield, "yes")
	}))
	h.account.Plan = "pro"
	a := h.agent()
	r := h.runner(func(c *config) {
		c.Limits.Queued = b.N + 1
		c.Plans = func(id string) stoa.Plan { return stoa.Plan{ID: id, GatedModels: true, ActiveSessions: 64} }
	})
	start(b, r)
	b.ResetTimer()
	sem := make(chan struct{}, 64)
	for range b.N {
		sem <- struct{}{}
		go func() {
			defer func() { <-sem }()
			s, err := r.Start(context.Background(), h.caller(), session.StartRequest{AgentID: a.ID, Message: "hello"})
			if err == nil {
				_, err = r.Wait(context.Background(), h.account.ID, a.ID, s.ID, time.Minute)
			}
			if err != nil {
				b.Error(err)
			}
		}()
	}
	for range cap(sem) {
		sem <- struct{}{}
	}
}

// BenchmarkLook is what the look at the queue costs in a house with many
// sessions, most of them long over.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{100, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			home := storetest.New(b)
			h := build(b, home, nil)
			a := h.agent()
			r := h.runner(func(c *config) { c.Limits.Queued = n + 1 })
			h.write(func(ctx context.Context, tx *store.Tx) error {
				for i := range n {
					s, err := r.Sessions.Start(ctx, tx, h.caller(), session.StartRequest{AgentID: a.ID, Message: "hello"})
					if err != nil {
						return err
					}
					status := "completed"
					if i%2 == 0 {
						continue // queued
					}
					if _, err := tx.Exec(ctx, `UPDATE sessions SET status = $2, due_at = 0 WHERE id = $1`, s.ID, status); err != nil {
						return err
					}
				}
				return nil
			})
			b.ResetTimer()
			for b.Loop() {
				err := h.st.Read(context.Background(), func(tx *store.Tx) error {
					if _, err := tx.PendingWork(context.Background()); err != nil {
						return err
					}
					if _, _, err := tx.NextQueuedAccount(context.Background(), ""); err != nil {
						return err
					}
					_, err := tx.AccountQueue(context.Background(), h.account.ID, 1)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
