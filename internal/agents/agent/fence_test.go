package agent_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

func shared(c *sessiontest.Config) { c.Shared = true }

// endRunners ends all workers, as the death of their nodes does.
func endRunners(ctx context.Context, tx *store.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM runners")
	return err
}

// A worker without its lease may continue at any time, with an answer that it received:
// nothing of it may be written.
func TestAWorkerWithoutItsLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ tool, text, alone bool }{
		"an answer":                 {},
		"a tool's result":           {tool: true},
		"more text":                 {text: true},
		"an answer, in one process": {alone: true},
		"more text, in one process": {text: true, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, home storetest.Database) {
				begun, wake := make(chan struct{}), make(chan struct{})
				var n atomic.Int64
				h := sessiontest.Build(t, home, sessiontest.Script(func(ctx context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
					if n.Add(1) > 1 {
						sessiontest.Say(yield, "from the second worker")
						return
					}
					yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil)
					yield(&stoa.Event{Kind: stoa.Delta, Text: "from the first worker, who goes on for much longer"}, nil)
					close(begun)
					<-wake
					if tt.text { // its first delta that cannot be written ends the call
						yield(&stoa.Event{Kind: stoa.Delta, Text: ", or so it thinks"}, nil)
						<-ctx.Done() // the call is stopped, or the test ends by its timeout
						yield(nil, ctx.Err())
						return
					}
					if tt.tool {
						yield(&stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: "1", Name: "drive_write", Arguments: `{"path":"a","content":"first"}`}}, nil)
					}
					yield(&stoa.Event{Kind: stoa.Finished, Stop: stoa.StopEnd, HasUsage: true, Usage: stoa.Usage{InputTokens: 5, OutputTokens: 5}}, nil)
				}))
				release := sync.OnceFunc(func() { close(wake) })
				defer release()
				a := h.Agent(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite })
				first, second := h.Service(), h.Service(shared)
				if tt.alone { // the first worker's process claims the session once more
					first = second
				}
				stopFirst := sessiontest.Run(t, first)
				s := h.Begin(first, a, "hello")
				<-begun
				// The first worker's row is removed, as if its process had died.
				h.Write(endRunners)
				if !tt.alone {
					sessiontest.Run(t, second)
				}
				got := h.Until(second, s, stoa.SessionCompleted)
				if got.Reply != "from the second worker" || got.Turn.Attempt != 2 {
					t.Errorf("attempt %d: %q", got.Turn.Attempt, got.Reply)
				}
				release()
				stopFirst()
				after, err := second.Get(t.Context(), h.Account.ID, a.ID, s.ID)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(got, after); diff != "" {
					t.Errorf("the first worker has written:\n%s", diff)
				}
				if after.Steps != 1 {
					t.Errorf("%d steps are counted", after.Steps)
				}
				h.CheckBooks(second, after)
			})
		})
	}
}

func TestAnotherProcessTakesOver(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		begun := make(chan string)
		goOn := make(chan struct{}, 1)
		h := sessiontest.Build(t, home, sessiontest.Blocking(begun, goOn))
		a := h.Agent()
		r := h.Service(shared)
		s := h.Begin(r, a, "hello")
		h.Write(func(ctx context.Context, tx *store.Tx) error { // another process had claimed it
			if err := tx.Work().BeginRunner(ctx, "runner_other"); err != nil {
				return err
			}
			row, err := tx.Work().LockSession(ctx, h.Account.ID, a.ID, s.ID)
			if err != nil {
				return err
			}
			row.Status, row.Turn.Status, row.Owner, row.Fence = stoa.SessionRunning, stoa.SessionRunning, "runner_other", 1
			row.Turn.Attempt, row.Turn.StartedAt, row.Turn.DeadlineAt = 1, tx.Now, tx.Now.Add(time.Minute)
			row.DueAt = row.Turn.DeadlineAt
			return tx.Work().SaveSession(ctx, &row)
		})
		sessiontest.Run(t, r)
		other := h.Begin(r, a, "another") // the worker that runs this has processed the first
		<-begun
		goOn <- struct{}{}
		h.Until(r, other, stoa.SessionCompleted)
		if got, err := r.Get(t.Context(), h.Account.ID, a.ID, s.ID); err != nil || got.Turn.Attempt != 1 {
			t.Fatalf("it was taken from a living worker: attempt %d, %v", got.Turn.Attempt, err)
		}
		h.Write(func(ctx context.Context, tx *store.Tx) error { return tx.Work().EndRunner(ctx, "runner_other") })
		<-begun
		goOn <- struct{}{}
		if got := h.Until(r, s, stoa.SessionCompleted); got.Turn.Attempt != 2 {
			t.Errorf("attempt %d", got.Turn.Attempt)
		}
	})
}

// A cancellation at another process reaches the worker within its polling interval.
func TestACancelReachesAnotherProcess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		begun := make(chan string)
		h := sessiontest.Build(t, home, sessiontest.Blocking(begun, nil))
		a := h.Agent()
		worker, other := h.Service(shared), h.Service(shared)
		sessiontest.Run(t, worker)
		s := h.Begin(worker, a, "hello")
		<-begun
		asked := time.Now()
		if _, err := other.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
			t.Fatal(err)
		}
		got := h.Until(worker, s, stoa.SessionCancelled)
		if d := time.Since(asked); d > 4*time.Second || got.Spent == 0 {
			t.Errorf("it took %v, spent %d", d, got.Spent)
		}
		h.CheckBooks(worker, got)
	})
}

// A claim whose commit seemed to fail, or an end that could not be written, leaves a session
// that is assigned to this process but does not run.
func TestASessionThatNobodyRunsIsTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := sessiontest.Build(t, storetest.SQLite(t), nil)
		a, r := h.Agent(), h.Service()
		sessiontest.Run(t, r)
		h.Until(r, h.Begin(r, a, "say: one"), stoa.SessionCompleted)
		other := h.Begin(r, a, "ask: Well?")
		h.Until(r, other, stoa.SessionWaiting)
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			row, err := tx.Work().LockSession(ctx, h.Account.ID, a.ID, other.ID)
			if err != nil {
				return err
			}
			var owner string
			if _, err := tx.Get(ctx, `SELECT id FROM runners`, nil, &owner); err != nil {
				return err
			}
			row.Status, row.Turn.Status, row.Owner, row.DueAt = stoa.SessionRunning, stoa.SessionRunning, owner, tx.Now.Add(time.Hour)
			row.Turn.DeadlineAt, row.Pending = row.DueAt, nil
			return tx.Work().SaveSession(ctx, &row)
		})
		at := time.Now()
		untilLong(h, r, other, stoa.SessionWaiting) // it asks again, for the call is still open
		if d := time.Since(at); d > 20*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}
