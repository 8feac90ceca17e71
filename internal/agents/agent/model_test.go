package agent_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// moody is a model that does anything a model may do, and records which steps it completed:
// no step may be completed twice.
type moody struct {
	seed atomic.Uint64
}

func (m *moody) script(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
	rnd := rand.New(rand.NewPCG(m.seed.Add(1), 7))
	pause := func() bool {
		select {
		case <-time.After(time.Duration(rnd.IntN(4)) * time.Millisecond):
			return true
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return false
		}
	}
	if !pause() || !yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil) {
		return
	}
	for range rnd.IntN(4) {
		if !yield(&stoa.Event{Kind: stoa.Delta, Text: fmt.Sprintf("größer %d ", rnd.IntN(100))}, nil) || !pause() {
			return
		}
	}
	stop, steps := stoa.StopEnd, len(call.Messages)
	switch n := rnd.IntN(10); {
	case n == 0:
		yield(nil, stoa.Errorf(stoa.CodeInvalidPrompt, "no"))
		return
	case n == 1:
		yield(nil, stoa.Errorf(stoa.CodeOverloaded, "busy"))
		return
	case n <= 3 && steps < 12:
		stop = stoa.StopToolCalls
		for i := range 1 + rnd.IntN(2) {
			yield(&stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: fmt.Sprint(i), Name: "drive_search", Arguments: `{"query":"x"}`}}, nil)
		}
	case n <= 5 && steps < 12:
		stop = stoa.StopToolCalls
		yield(&stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: "q", Name: "ask_user", Arguments: `{"question":"Well?"}`}}, nil)
	}
	yield(&stoa.Event{Kind: stoa.Finished, Stop: stop, HasUsage: true, Usage: stoa.Usage{InputTokens: 5, OutputTokens: 5}}, nil)
}

// A plan describes a random test: a number of sessions, and the verbs of several concurrent
// users.
type plan struct {
	seed     uint64
	sessions int
	verbs    [][]int
}

// Claims, cancellations, messages, answers, retries and vanishing workers happen to sessions
// concurrently: each turn stops exactly once, the books agree, and the log joins to the
// messages.
//
// On SQLite it runs in a bubble, where pauses cost nothing. Sockets are not available there,
// so that on PostgreSQL several plays run at a time, each with its own database: they mostly
// wait.
func TestNothingThatHappensTogetherBreaksASession(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		storetest.OnlySQLite(t) // a bubble has no sockets
		checkPlans(t, func(t *testing.T, p plan) {
			synctest.Test(t, func(t *testing.T) { p.play(t, storetest.SQLite(t)) })
		})
	})
	t.Run("postgres", func(t *testing.T) {
		const parts = 4
		shareChecks(t, parts)
		for n := range parts {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				database := storetest.Postgres(t) // for consecutive plays: each has its own account and nodes
				checkPlans(t, func(t *testing.T, p plan) { p.play(t, database) })
			})
		}
	})
}

// shareChecks divides the checks of rapid among the given number of parts of a test.
func shareChecks(t *testing.T, parts int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	all, err := strconv.Atoi(checks.Value.String())
	if err != nil {
		t.Fatal(err)
	}
	set := func(n int) {
		if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
			t.Error(err)
		}
	}
	set((all + parts - 1) / parts)
	t.Cleanup(func() { set(all) })
}

// checkPlans plays plans at random.
func checkPlans(t *testing.T, play func(t *testing.T, p plan)) {
	rapid.Check(t, func(rt *rapid.T) {
		play(t, plan{
			seed:     rapid.Uint64().Draw(rt, "seed"),
			sessions: rapid.IntRange(1, 4).Draw(rt, "sessions"),
			verbs:    rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 7), 1, 12), 1, 4).Draw(rt, "verbs of each user"),
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func (p plan) play(t *testing.T, home storetest.Database) {
	model := &moody{}
	model.seed.Store(p.seed)
	h := sessiontest.Build(t, home, sessiontest.Script(model.script))
	defer h.Close()
	a := h.Agent(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite })
	quick := func(c *sessiontest.Config) { c.Shared, c.Grace = true, -1 }
	begin := func() (*sessiontest.Service, func()) {
		r := h.Service(quick)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		return r, func() { cancel(); <-ended }
	}
	var current atomic.Pointer[sessiontest.Service] // readers of a stopped runner receive nothing
	first, stop := begin()
	current.Store(first)
	restart := make(chan struct{}, 1)
	var all []stoa.Session
	for range p.sessions {
		all = append(all, h.Begin(first, a, "hello"))
	}
	ctx := context.Background()
	var users sync.WaitGroup
	for u, list := range p.verbs {
		users.Go(func() {
			for i, verb := range list {
				s, r := all[(u+i)%len(all)], current.Load()
				var err error
				switch verb {
				case 0, 1:
					_, err = r.Send(ctx, h.Caller(), a.ID, s.ID, session.SendRequest{Message: "more"})
				case 2:
					_, err = r.Cancel(ctx, h.Caller(), a.ID, s.ID)
				case 3:
					_, err = r.Retry(ctx, h.Caller(), a.ID, s.ID)
				case 4, 5:
					var now stoa.Session
					if now, err = r.Wait(ctx, h.Account.ID, a.ID, s.ID, 20*time.Millisecond); err == nil && now.Pending != nil {
						_, err = r.Answer(ctx, h.Caller(), a.ID, s.ID, session.AnswerRequest{InputID: now.Pending.ID, Answer: "fine"})
					}
				case 6: // a worker is stopped, and another begins
					restart <- struct{}{}
					stop()
					next, end := begin()
					stop = end
					current.Store(next)
					<-restart
				case 7: // all leases are lost
					err = h.Store.Write(ctx, func(tx *store.Tx) error { return endRunners(ctx, tx) })
				}
				if stoa.CodeOf(err) == stoa.CodeInternal {
					t.Errorf("verb %d: %v", verb, err)
				}
			}
		})
	}
	users.Wait()
	r := current.Load()
	for _, s := range all { // let everything reach its end
		for {
			now, err := r.Wait(ctx, h.Account.ID, a.ID, s.ID, time.Minute)
			if err != nil || !now.Status.Stopped() {
				t.Errorf("%s is %s (%s): %v\n%s", s.ID, now.Status, now.Turn.Reason, err, h.Log(r, s))
				break
			}
			if now.Status != stoa.SessionWaiting {
				break
			}
			if _, err := r.Answer(ctx, h.Caller(), a.ID, s.ID, session.AnswerRequest{InputID: now.Pending.ID, Answer: "fine"}); err != nil && stoa.CodeOf(err) != stoa.CodeInputAnswered {
				t.Error(err)
			}
		}
	}
	stop()
	for _, s := range all {
		now, err := r.Get(ctx, h.Account.ID, a.ID, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		h.CheckBooks(r, now)
	}
	balance, err := h.Ledger.Balance(ctx, h.Account.ID)
	if err != nil || balance.Held != 0 {
		t.Errorf("%d are held when all is quiet, %v", balance.Held, err)
	}
}
