package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// reader assembles a session's answer as a client does.
type reader struct {
	after int64
	text  map[string]string
}

func (r *reader) join(t testing.TB, e stoa.SessionEvent) {
	t.Helper()
	if e.Seq != r.after+1 {
		t.Errorf("event %d follows event %d", e.Seq, r.after)
	}
	r.after = e.Seq
	if e.Type != session.EventDelta {
		return
	}
	d := sessiontest.Decode[session.DeltaData](t, e)
	have := []rune(r.text[d.MessageID])
	r.text[d.MessageID] = string(have[:d.Offset]) + d.Text
}

func request(h *sessiontest.Fixture, s stoa.Session, after int64) session.EventsRequest {
	return session.EventsRequest{AccountID: h.Account.ID, AgentID: s.AgentID, SessionID: s.ID, After: after}
}

// A reader that is cut off after any event and reconnects ends up with the same text.
func TestAReaderMayBeCutOffAfterEveryEvent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		a, r := h.Agent(), h.Service()
		sessiontest.Run(t, r)
		s := h.Begin(r, a, "slow: 20ms\nsay: one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty größer 漢字 🙂 end")
		cut := &reader{text: map[string]string{}}
		for done := false; !done; { // one event per connection
			done = true
			for e, err := range r.Events(t.Context(), request(h, s, cut.after)) {
				if err != nil {
					t.Fatal(err)
				}
				cut.join(t, e)
				done = false
				break
			}
		}
		got := h.Until(r, s, stoa.SessionCompleted)
		whole := &reader{text: map[string]string{}}
		for e, err := range r.Events(t.Context(), request(h, s, 0)) { // after the end
			if err != nil {
				t.Fatal(err)
			}
			whole.join(t, e)
		}
		for name, rd := range map[string]*reader{"cut off": cut, "afterwards": whole} {
			if rd.after != got.LastSeq {
				t.Errorf("%s: %d of %d events", name, rd.after, got.LastSeq)
			}
			joined := ""
			for _, text := range rd.text {
				joined += text
			}
			if joined != got.Reply {
				t.Errorf("%s: %q, want %q", name, joined, got.Reply)
			}
		}
		deltas := strings.Count(h.Log(r, s), " message.delta ")
		if took := got.FinishedAt.Sub(got.StartedAt); deltas < 2 || deltas > 2+int(took/(time.Second/3)) {
			t.Errorf("%d deltas in %v", deltas, took)
		}
		// A repeated step first tells readers to truncate.
		for after := int64(1); after <= got.LastSeq; after++ {
			n := after
			for e := range r.Events(t.Context(), request(h, s, after)) {
				if n++; e.Seq != n {
					t.Fatalf("from %d: event %d, want %d", after, e.Seq, n)
				}
			}
			if n != got.LastSeq {
				t.Fatalf("from %d it ends at %d", after, n)
			}
		}
	})
}

func TestAFollowerSeesTheNextTurnAndAnOtherDoesNot(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	a, r := h.Agent(), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "say: one")
	h.Until(r, s, stoa.SessionCompleted)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := request(h, s, 0)
	req.Follow, req.Heartbeat = true, time.Millisecond
	turns, beats := int64(0), 0
	for e, err := range r.Events(ctx, req) {
		if err != nil {
			break
		}
		if e.Seq == 0 {
			if beats++; beats == 1 {
				if _, err := r.Send(ctx, h.Caller(), a.ID, s.ID, session.SendRequest{Message: "say: two"}); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if e.Type == session.EventStatus {
			d := sessiontest.Decode[session.StatusData](t, e)
			if turns = d.Turn; d.Turn == 2 && d.Status == "completed" {
				cancel()
			}
		}
	}
	if turns != 2 || beats == 0 {
		t.Errorf("saw turn %d and %d beats", turns, beats)
	}
	if err := r.Sessions.Delete(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Events(t.Context(), request(h, s, 0)) {
		if stoa.CodeOf(err) != stoa.CodeSessionNotFound {
			t.Errorf("a deleted session: %v", err)
		}
	}
}

func TestFiveHundredWatchersOfOneSession(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	a, r := h.Agent(), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "wait: 500ms\nslow: 5ms\ntokens: 200")
	const watchers = 500
	texts := make([]string, watchers)
	var all sync.WaitGroup
	for i := range watchers {
		all.Go(func() {
			rd := &reader{text: map[string]string{}}
			for e, err := range r.Events(t.Context(), request(h, s, 0)) {
				if err != nil {
					t.Errorf("watcher %d: %v", i, err)
					return
				}
				rd.join(t, e)
			}
			for _, text := range rd.text {
				texts[i] += text
			}
		})
	}
	all.Wait()
	got := h.Until(r, s, stoa.SessionCompleted)
	for i, text := range texts {
		if text != got.Reply {
			t.Fatalf("watcher %d has %d of %d bytes", i, len(text), len(got.Reply))
		}
	}
}

func TestASlowReaderMissesNothing(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		if len(call.Messages) < 400 { // far more events than stay in memory
			sessiontest.Say(yield, "", stoa.ToolCall{ID: fmt.Sprint(len(call.Messages)), Name: "nothing", Arguments: "{}"})
			return
		}
		sessiontest.Say(yield, "done")
	}))
	a, r := h.Agent(), h.Service(func(c *sessiontest.Config) { c.Limits.Steps = 400 })
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "go")
	rd := &reader{text: map[string]string{}}
	for e, err := range r.Events(t.Context(), request(h, s, 0)) {
		if err != nil {
			t.Fatal(err)
		}
		if rd.join(t, e); e.Seq == 5 { // asleep until everything is over
			h.Until(r, s, stoa.SessionCompleted)
		}
	}
	if got := h.Until(r, s, stoa.SessionCompleted); rd.after != got.LastSeq || got.LastSeq < 600 {
		t.Errorf("%d of %d events", rd.after, got.LastSeq)
	}
}
