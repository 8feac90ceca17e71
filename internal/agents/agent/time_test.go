package agent_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// The tests of this file run in a bubble, where time advances when all goroutines wait.

func TestAQuestionThatNobodyAnswersExpires(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		arguments string
		want      stoa.SessionStatus
		reply     string
		code      stoa.Code
	}{
		"without a default the turn fails": {`{"question":"Why?"}`, stoa.SessionFailed, "", "input_expired"},
		"with one it goes on":              {`{"question":"Why?","defaultAnswer":"never mind"}`, stoa.SessionCompleted, `{"answer":"never mind","note":"The user did not answer in time; this is your default answer."}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
					if last := call.Messages[len(call.Messages)-1]; len(sessiontest.Results(last)) > 0 {
						sessiontest.Say(yield, sessiontest.Results(last)[0].Content)
						return
					}
					sessiontest.Say(yield, "", stoa.ToolCall{ID: "c", Name: "ask_user", Arguments: tt.arguments})
				}))
				a, r := h.Agent(), h.Service()
				sessiontest.Run(t, r)
				s := h.Begin(r, a, "hello")
				s = h.Until(r, s, stoa.SessionWaiting)
				in := s.Pending
				if d := in.ExpiresAt.Sub(in.CreatedAt); d != 7*24*time.Hour {
					t.Errorf("it expires after %v", d)
				}
				<-time.After(time.Until(in.ExpiresAt) - time.Second)
				synctest.Wait()
				if got, _ := r.Get(t.Context(), h.Account.ID, a.ID, s.ID); got.Status != stoa.SessionWaiting {
					t.Errorf("a second early it is %s", got.Status)
				}
				<-time.After(3 * time.Second)
				got := h.Until(r, s, tt.want)
				if got.Reply != tt.reply {
					t.Errorf("the reply is %q", got.Reply)
				}
				if f := got.Turn.Failure; tt.code != "" && (f == nil || f.Code != tt.code) {
					t.Errorf("it failed with %+v", f)
				}
				_, err := r.Answer(t.Context(), h.Caller(), a.ID, s.ID, session.AnswerRequest{InputID: in.ID, Answer: "late"})
				if stoa.CodeOf(err) != stoa.CodeNotWaiting {
					t.Errorf("a late answer: %v", err)
				}
				h.CheckBooks(r, got)
			})
		})
	}
}

func TestATurnEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan string)
		h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Blocking(begun, nil))
		a := h.Agent(func(a *stoa.Agent) { a.Limits.Timeout = 30 * time.Second })
		r := h.Service()
		sessiontest.Run(t, r)
		s := h.Begin(r, a, "hello")
		<-begun
		at := time.Now()
		got := untilLong(h, r, s, stoa.SessionFailed)
		if d := time.Since(at); d < 29*time.Second || d > 31*time.Second {
			t.Errorf("it ended after %v", d)
		}
		if got.Turn.Failure.Code != "turn_timeout" || !got.Turn.FinishedAt.Before(got.Turn.DeadlineAt.Add(10*time.Second)) || got.Spent == 0 {
			t.Errorf("%+v, finished %v, deadline %v, spent %d", got.Turn.Failure, got.Turn.FinishedAt, got.Turn.DeadlineAt, got.Spent)
		}
		h.CheckBooks(r, got)
	})
}

// A worker that does not react must not keep its session.
func TestTheSweepEndsWhatItsWorkerDoesNot(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]bool{"a deadline": false, "a cancel": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deaf, begun := make(chan struct{}), make(chan struct{})
				h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
					yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil)
					close(begun)
					<-deaf
					sessiontest.Say(yield, "too late")
				}))
				a := h.Agent(func(a *stoa.Agent) { a.Limits.Timeout = 30 * time.Second })
				r := h.Service()
				sessiontest.Run(t, r)
				s := h.Begin(r, a, "hello")
				<-begun
				want, within := stoa.SessionFailed, 40*time.Second
				if cancel {
					want, within = stoa.SessionCancelled, 6*time.Second
					if _, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
						t.Fatal(err)
					}
				}
				at := time.Now()
				got := untilLong(h, r, s, want)
				if d := time.Since(at); d > within {
					t.Errorf("it ended after %v", d)
				}
				close(deaf)
				synctest.Wait()
				after, err := r.Get(t.Context(), h.Account.ID, a.ID, s.ID)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(got, after); diff != "" {
					t.Errorf("a worker without a lease has written:\n%s", diff)
				}
				if balance, _ := h.Ledger.Balance(t.Context(), h.Account.ID); balance.Spent != 0 || balance.Held != 0 {
					t.Errorf("spent %d, held %d", balance.Spent, balance.Held)
				}
				h.CheckBooks(r, after)
			})
		})
	}
}

func TestATurnThatFindsNoPlaceFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(ctx context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
			select {
			case <-time.After(9 * time.Minute):
				sessiontest.Say(yield, "done")
			case <-ctx.Done():
				yield(nil, ctx.Err())
			}
		}))
		a := h.Agent()
		full := h.Config()
		full.Plans = func(id string) stoa.Plan { return stoa.Plan{ID: id, ActiveSessions: 1} }
		r := sessiontest.NewService(full)
		sessiontest.Run(t, r)
		h.Begin(r, a, "long")
		synctest.Wait() // it has the only slot
		waiting := h.Begin(r, a, "hello", func(req *session.StartRequest) { req.Limits.Timeout = time.Minute })
		for range 7 { // sixty-three minutes, one after the other
			h.Begin(r, a, "long")
		}
		// The queue is served in order, so hello is next; put it behind the others.
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			row, err := tx.Work().LockSession(ctx, h.Account.ID, a.ID, waiting.ID)
			if err != nil {
				return err
			}
			row.WakeAt = tx.Now.Add(2 * time.Second)
			return tx.Work().SaveSession(ctx, &row)
		})
		got := untilLong(h, r, waiting, stoa.SessionFailed)
		if got.Turn.Failure.Code != "queue_timeout" || got.Turn.FinishedAt.Sub(got.CreatedAt) > time.Hour+2*time.Second {
			t.Errorf("%+v after %v", got.Turn.Failure, got.Turn.FinishedAt.Sub(got.CreatedAt))
		}
	})
}

func TestPassingFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]stoa.SessionStatus{0: stoa.SessionCompleted, 2: stoa.SessionCompleted, 3: stoa.SessionFailed} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
					if n++; n <= failures {
						yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil)
						yield(&stoa.Event{Kind: stoa.Delta, Text: "half a sen"}, nil)
						yield(nil, stoa.Errorf(stoa.CodeOverloaded, "busy").After(time.Second))
						return
					}
					sessiontest.Say(yield, "at last")
				}))
				a, r := h.Agent(), h.Service()
				sessiontest.Run(t, r)
				s := h.Begin(r, a, "hello")
				got := untilLong(h, r, s, want)
				if attempts := min(failures+1, 3); got.Turn.Attempt != attempts || n != attempts {
					t.Errorf("attempt %d, %d calls, want %d", got.Turn.Attempt, n, attempts)
				}
				if want == stoa.SessionFailed && (got.Turn.Failure.Code != stoa.CodeOverloaded || !got.Turn.Failure.Retryable || got.Spent != 0) {
					t.Errorf("%+v, spent %d", got.Turn.Failure, got.Spent)
				}
				h.CheckBooks(r, got)
			})
		})
	}
}

func TestAStopHandsTurnsBackWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan string)
		h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Blocking(begun, nil))
		a, r := h.Agent(), h.Service()
		stop := sessiontest.Run(t, r)
		s := h.Begin(r, a, "hello")
		<-begun
		at := time.Now()
		stop()
		if d := time.Since(at); d > 6*time.Second {
			t.Errorf("stopping took %v", d)
		}
		got, err := r.Get(t.Context(), h.Account.ID, a.ID, s.ID)
		if err != nil || got.Status != stoa.SessionQueued || got.Turn.Reason != "handed_back" || got.Spent != 0 {
			t.Fatalf("%s (%s), spent %d, %v", got.Status, got.Turn.Reason, got.Spent, err)
		}
		goOn := make(chan struct{}, 1)
		goOn <- struct{}{}
		h.Gateway.Pool = sessiontest.Blocking(begun, goOn)
		next := h.Service()
		sessiontest.Run(t, next)
		<-begun
		got = h.Until(next, s, stoa.SessionCompleted)
		if got.Turn.Attempt != 1 || got.Reply != "begun and done: hello" {
			t.Errorf("attempt %d: %q", got.Turn.Attempt, got.Reply)
		}
		h.CheckBooks(next, got)
	})
}

func TestRecoverEndsWhatIsOverdueBeforeAnybodyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := sessiontest.Build(t, storetest.SQLite(t), nil)
		a, r := h.Agent(), h.Service()
		running, fresh, queued := h.Begin(r, a, "one"), h.Begin(r, a, "two"), h.Begin(r, a, "three")
		h.Write(func(ctx context.Context, tx *store.Tx) error { // the state that a killed process leaves
			for id, d := range map[string]time.Duration{running.ID: time.Minute, fresh.ID: 3 * time.Hour} {
				row, err := tx.Work().LockSession(ctx, h.Account.ID, a.ID, id)
				if err != nil {
					return err
				}
				row.Status, row.Turn.Status, row.Owner, row.Fence = stoa.SessionRunning, stoa.SessionRunning, "runner_dead", 1
				row.Turn.StartedAt, row.Turn.DeadlineAt = tx.Now, tx.Now.Add(d)
				row.DueAt = row.Turn.DeadlineAt
				if err := tx.Work().SaveSession(ctx, &row); err != nil {
					return err
				}
			}
			return nil
		})
		<-time.After(2 * time.Hour)
		if err := r.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, s := range map[string]stoa.Session{"overdue": running, "not yet": fresh, "queued too long": queued} {
			s, err := r.Get(t.Context(), h.Account.ID, a.ID, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			got[name] = string(s.Status) + " " + s.Turn.Reason
		}
		want := map[string]string{"overdue": "failed turn_timeout", "not yet": "queued worker_lost", "queued too long": "failed queue_timeout"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// untilLong is until with a limit of a day, for bubbles.
func untilLong(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, want stoa.SessionStatus) stoa.Session {
	h.T.Helper()
	got, err := r.Wait(context.Background(), h.Account.ID, s.AgentID, s.ID, 24*time.Hour)
	if err != nil || got.Status != want {
		h.T.Fatalf("the session is %s (%s), want %s; %v\n%s", got.Status, got.Turn.Reason, want, err, h.Log(r, s))
	}
	return got
}
