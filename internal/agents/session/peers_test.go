package session_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// background runs fn until the test ends.
func background(t *testing.T, fn func(ctx context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fn(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// Followers on another node get every event, by hints or by polling, and read the
// rows once for all of them.
func TestFollowersOnAnotherNode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hints bool
		poll  time.Duration
	}{
		"hints":            {true, time.Hour},
		"every hint lost":  {false, 10 * time.Millisecond},
		"hints and a poll": {true, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			database := storetest.Postgres(t)
			begun, goOn := make(chan string, 1), make(chan struct{})
			h := sessiontest.Build(t, database, sessiontest.Blocking(begun, goOn))
			a, r := h.Agent(), h.Service()
			sessiontest.Run(t, r)

			var reads atomic.Int64 // of event rows on the other node
			database.Config.Observe = func(query string) {
				if strings.Contains(query, "FROM session_events") {
					reads.Add(1)
				}
			}
			other := database.Open()
			peer := session.New(session.Config{Store: other, Limits: session.LimitsOf(config.Defaults().Limits)})
			background(t, func(ctx context.Context) { peer.FollowPeers(ctx, test.poll) })
			if test.hints {
				listening := make(chan struct{}, 1)
				other.OnListening(func() { listening <- struct{}{} })
				background(t, func(ctx context.Context) { _ = other.Listen(ctx, "") })
				background(t, func(ctx context.Context) { _ = h.Store.Listen(ctx, "") })
				<-listening
			}

			s := h.Begin(r, a, "go on")
			<-begun
			const followers = 200
			var first, all sync.WaitGroup
			first.Add(followers)
			for i := range followers {
				all.Go(func() {
					rd := &reader{text: map[string]string{}}
					for e, err := range peer.Events(t.Context(), request(h, s, 0)) {
						if err != nil {
							t.Errorf("follower %d: %v", i, err)
							return
						}
						if rd.join(t, e); rd.after == 1 {
							first.Done()
						}
					}
				})
			}
			first.Wait()
			before := reads.Load()
			close(goOn)
			all.Wait()
			h.Until(r, s, stoa.SessionCompleted)
			if n := reads.Load() - before; n > followers {
				t.Errorf("%d followers read the rows %d times after their first", followers, n)
			}
		})
	}
}

// A follower on another node observes a deletion, even if its events came from memory and not
// from the rows.
func TestADeletedSessionEndsItsFollowersElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("read from rows", func(t *testing.T) { followDeleted(t, false) })
	t.Run("heard while it ran", func(t *testing.T) { followDeleted(t, true) })
}

func followDeleted(t *testing.T, whileItRuns bool) {
	database := storetest.Postgres(t)
	begun, goOn := make(chan string, 1), make(chan struct{})
	h := sessiontest.Build(t, database, sessiontest.Blocking(begun, goOn))
	a, r := h.Agent(), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "hello")
	<-begun
	finish := func() {
		close(goOn)
		h.Until(r, s, stoa.SessionCompleted)
	}
	if !whileItRuns {
		finish()
	}
	other := database.Open()
	peer := session.New(session.Config{Store: other, Limits: session.LimitsOf(config.Defaults().Limits)})
	listening := make(chan struct{}, 1)
	other.OnListening(func() { listening <- struct{}{} })
	background(t, func(ctx context.Context) { peer.FollowPeers(ctx, time.Hour) })
	background(t, func(ctx context.Context) { _ = other.Listen(ctx, "") })
	background(t, func(ctx context.Context) { _ = h.Store.Listen(ctx, "") })
	<-listening
	req := request(h, s, 0)
	req.Follow = true
	deleted := false
	for e, err := range peer.Events(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if whileItRuns && e.Type == session.EventDelta && strings.Contains(string(e.Data), "begun") {
			finish()
		}
		if e.Type == session.EventStatus && !deleted && strings.Contains(string(e.Data), "completed") {
			deleted = true
			if err := r.Sessions.Delete(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}
