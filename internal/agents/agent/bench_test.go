package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// BenchmarkSessions measures the cost of a session of one step from its start to its answer,
// with many sessions in progress.
func BenchmarkSessions(b *testing.B) {
	h := sessiontest.Build(b, storetest.New(b), sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
		sessiontest.Say(yield, "yes")
	}))
	h.Account.Plan = "pro"
	a := h.Agent()
	r := h.Service(func(c *sessiontest.Config) {
		c.Limits.Queued = b.N + 1
		c.Plans = func(id string) stoa.Plan { return stoa.Plan{ID: id, GatedModels: true, ActiveSessions: 64} }
	})
	sessiontest.Run(b, r)
	b.ResetTimer()
	sem := make(chan struct{}, 64)
	for range b.N {
		sem <- struct{}{}
		go func() {
			defer func() { <-sem }()
			s, err := r.Start(context.Background(), h.Caller(), session.StartRequest{AgentID: a.ID, Message: "hello"})
			if err == nil {
				_, err = r.Wait(context.Background(), h.Account.ID, a.ID, s.ID, time.Minute)
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

// BenchmarkLook measures the cost of reading the queue of a store with many sessions, most of
// them long over.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{100, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			home := storetest.New(b)
			h := sessiontest.Build(b, home, nil)
			a := h.Agent()
			r := h.Service(func(c *sessiontest.Config) { c.Limits.Queued = n + 1 })
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				for i := range n {
					s, err := r.Sessions.Start(ctx, tx, h.Caller(), session.StartRequest{AgentID: a.ID, Message: "hello"})
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
				err := h.Store.Read(context.Background(), func(tx *store.Tx) error {
					if _, err := tx.Work().PendingWork(context.Background()); err != nil {
						return err
					}
					if _, _, err := tx.Work().NextQueuedAccount(context.Background(), ""); err != nil {
						return err
					}
					_, err := tx.Work().AccountQueue(context.Background(), h.Account.ID, 1)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkManyTools measures how long each turn of an agent with 300 tools takes to decide what it offers.
func BenchmarkManyTools(b *testing.B) {
	h := sessiontest.Build(b, storetest.New(b), nil)
	c, names := catalogOf(h, "things", elsewhere, things(50))
	a := h.Agent(searching(c, names))
	for b.Loop() {
		err := h.Store.Read(b.Context(), func(tx *store.Tx) error {
			_, _, err := tool.Offer(b.Context(), tx, tool.Audience{AccountID: a.AccountID, SpaceID: a.SpaceID, Search: true}, a.Tools, nil)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
