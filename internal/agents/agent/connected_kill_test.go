package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// one is a model that calls one tool of the connection far: the message contains the name and
// the arguments.
func one(results *told) sessiontest.Script {
	return callers(results, func(message string) []stoa.ToolCall {
		name, arguments, _ := strings.Cut(message, " ")
		return []stoa.ToolCall{call("1", name, arguments)}
	})
}

// calledTimes waits until a tool of a fake has been called n times.
func calledTimes(f *fakemcp.Server, name string, times int) {
	f.Await(func(calls []fakemcp.Call) bool {
		n := 0
		for _, c := range calls {
			if c.Tool == name {
				n++
			}
		}
		return n >= times
	})
}

// A worker loses its lease while its calls are at their server, as if its process had died.
// The next worker acts according to the effects of each call. Later results of the first
// worker are ignored.
func TestALostWorkersCallsAreJudged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, one(&results))
		f := fakemcp.Start(t)
		a := h.Agent(using(connect(h, f, "far")))
		first, second, third := h.Service(shared), h.Service(shared), h.Service(shared)
		stopFirst := sessiontest.Run(t, first)
		f.Next("tools/call", "hold", "hold", "hold")
		all := map[string]stoa.Session{}
		for i, name := range []string{fakemcp.Read, fakemcp.Put, fakemcp.Act} {
			all[name] = h.Begin(first, a, name+` {"key":"`+name+`"}`)
			f.Await(func(calls []fakemcp.Call) bool { return len(calls) == i+1 })
		}
		f.Next("tools/call", "hold") // of the second attempt to read
		h.Write(endRunners)
		stopSecond := sessiontest.Run(t, second)
		act := h.Until(second, all[fakemcp.Act], stoa.SessionCompleted)
		calledTimes(f, fakemcp.Read, 2)
		calledTimes(f, fakemcp.Put, 2)
		h.Write(endRunners)
		sessiontest.Run(t, third)
		outcomes := map[string]string{}
		for name, s := range all {
			got := h.Until(third, s, stoa.SessionCompleted)
			row := callsOf(h, third, s)[0]
			outcomes[name] = fmt.Sprint(row.Outcome, " ", row.Attempts, " ", row.Lost)
			if name == fakemcp.Act && got.LastSeq != act.LastSeq {
				t.Errorf("somebody wrote after the end of %s", s.ID)
			}
			h.CheckBooks(third, got)
		}
		f.Release()
		stopFirst()
		stopSecond()
		for name, want := range map[string][]string{
			fakemcp.Read: {"ok 2 1", "unknown 2 2"}, fakemcp.Put: {"ok 2 1", "unknown 2 2"}, fakemcp.Act: {"unknown 1 1"},
		} {
			if got := outcomes[name]; got != want[0] && got != want[len(want)-1] {
				t.Errorf("%s: %s", name, got)
			}
		}
		keys, ids := map[string]int{}, map[string]map[string]bool{}
		for _, c := range f.Calls() {
			keys[c.Key]++
			if ids[c.Key] == nil {
				ids[c.Key] = map[string]bool{}
			}
			ids[c.Key][c.ID] = true
		}
		if keys[fakemcp.Act] != 1 || keys[fakemcp.Put] != 2 || len(ids[fakemcp.Put]) != 1 || f.EffectsByKey()[fakemcp.Put] != 1 || f.EffectsByKey()[fakemcp.Act] != 1 {
			t.Errorf("requests %v under the ids %v, effects %v", keys, ids, f.EffectsByKey())
		}
		if outcomes[fakemcp.Read] == "ok 2 1" && outcomes[fakemcp.Put] == "ok 2 1" {
			t.Error("no call was lost twice")
		}
		if got := results.of(`act {"key":"act"}`); len(got) != 1 || !got[0].IsError || !strings.HasPrefix(got[0].Content, "It is not known whether this was done.") {
			t.Errorf("the model was told %+v", got)
		}
	})
}

// Planned calls that have not begun continue, once each; finished calls are not repeated.
func TestPlannedCallsGoOnOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall {
			return []stoa.ToolCall{call("1", fakemcp.Act, `{"key":"a"}`), call("2", fakemcp.Put, `{"key":"b","order":"hold"}`), call("3", fakemcp.Act, `{"key":"c"}`)}
		}))
		f := fakemcp.Start(t)
		a := h.Agent(using(connect(h, f, "far")))
		first, second := h.Service(shared), h.Service(shared)
		stop := sessiontest.Run(t, first)
		s := h.Begin(first, a, "go")
		calledTimes(f, fakemcp.Put, 1)
		h.Write(endRunners)
		sessiontest.Run(t, second)
		calledTimes(f, fakemcp.Put, 2)
		f.Release()
		got := h.Until(second, s, stoa.SessionCompleted)
		stop()
		if want := "map[a:1 b:1 c:1]"; fmt.Sprint(f.EffectsByKey()) != want || len(results.of("go")) != 3 {
			t.Errorf("effects are %v, results %+v", f.EffectsByKey(), results.of("go"))
		}
		h.CheckBooks(second, got)
	})
}

// A cancel, the end of a turn's time and the end of a process meet a call at its server.
func TestACallEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), one(&results))
	f := fakemcp.Start(t)
	a := h.Agent(using(connect(h, f, "far")))
	for _, name := range []string{fakemcp.Act, fakemcp.Put, fakemcp.Read} {
		want := stoa.OutcomeUnknown
		if name == fakemcp.Read {
			want = stoa.OutcomeCancelled
		}
		t.Run(name, func(t *testing.T) {
			h.T = t
			r := h.Service()
			stop := sessiontest.Run(t, r)
			before := len(f.Calls())
			s := h.Begin(r, a, name+` {"order":"hang"}`)
			f.Await(func(calls []fakemcp.Call) bool { return len(calls) > before })
			if _, err := r.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
				t.Fatal(err)
			}
			got := h.Until(r, s, stoa.SessionCancelled)
			if row := callsOf(h, r, s)[0]; row.Outcome != want || row.Status != stoa.CallDone {
				t.Errorf("after a cancel the call is %+v", row)
			}
			h.CheckBooks(r, got)
			log := h.Log(r, s)
			if strings.Count(log, "tool.called") != 1 || strings.Count(log, "tool.completed") != 1 {
				t.Errorf("the log is\n%s", log)
			}
			stop()
		})
	}
	t.Run("time", func(t *testing.T) {
		h.T = t
		r := h.Service()
		sessiontest.Run(t, r)
		s := h.Begin(r, a, `act {"order":"hang"}`, func(req *session.StartRequest) { req.Limits.Timeout = 3 * time.Second })
		got := h.Until(r, s, stoa.SessionCompleted)
		if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeUnknown || !row.FinishedAt.Before(got.Turn.DeadlineAt) {
			t.Errorf("before the end of its time the call is %+v", row)
		}
	})
}

// A process that shuts down begins no call, and waits for the current ones until its grace is
// over. Repeatable calls are left to the next process.
func TestAStoppingProcessHandsCallsBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, one(&results))
		f := fakemcp.Start(t)
		a := h.Agent(using(connect(h, f, "far")))
		first := h.Service(shared, func(c *sessiontest.Config) { c.Grace = -1 })
		stop := sessiontest.Run(t, first)
		all := map[string]stoa.Session{}
		for i, name := range []string{fakemcp.Read, fakemcp.Put, fakemcp.Act} {
			f.Next("tools/call", "hang")
			all[name] = h.Begin(first, a, name+` {"key":"`+name+`"}`)
			f.Await(func(calls []fakemcp.Call) bool { return len(calls) == i+1 })
		}
		stop()
		second := h.Service(shared)
		sessiontest.Run(t, second)
		for name, want := range map[string]string{fakemcp.Read: "ok 2 0", fakemcp.Put: "ok 2 0", fakemcp.Act: "unknown 1 0"} {
			got := h.Until(second, all[name], stoa.SessionCompleted)
			if row := callsOf(h, second, all[name])[0]; fmt.Sprint(row.Outcome, " ", row.Attempts, " ", row.Lost) != want {
				t.Errorf("%s is %s after %d attempts, %d lost; want %s", name, row.Outcome, row.Attempts, row.Lost, want)
			}
			if got.Turn.Attempt != 1 {
				t.Errorf("%s took %d attempts", name, got.Turn.Attempt)
			}
			h.CheckBooks(second, got)
		}
		if fmt.Sprint(f.EffectsByKey()) != "map[act:1 put:1]" {
			t.Errorf("effects are %v", f.EffectsByKey())
		}
	})
}

// A call that may have been carried out and needs an approval is shown to a person again, who
// may have it repeated, or not.
func TestAnUnknownCallIsAskedAbout(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), one(&results))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	approve(h, c, "always")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	caller := h.Caller()
	caller.Key.Scopes = []string{session.ScopeApprovals}
	decide := func(s stoa.Session, decision string) {
		t.Helper()
		if _, err := r.Answer(t.Context(), caller, a.ID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Decision: decision}); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []string{"approve", "reject"} {
		f.Next("tools/call", "500")
		before := len(f.Calls())
		s := h.Until(r, h.Begin(r, a, `act {"key":"`+again+`"}`), stoa.SessionWaiting)
		if s.Pending.Kind != stoa.InputToolApproval || s.Pending.Calls[0].PreviousOutcome != "" || len(f.Calls()) != before {
			t.Fatalf("it waits for %+v after %d calls", s.Pending, len(f.Calls()))
		}
		decide(s, "approve")
		s = h.Until(r, s, stoa.SessionWaiting)
		if s.Pending.Kind != stoa.InputToolApproval || s.Pending.Calls[0].PreviousOutcome != stoa.OutcomeUnknown {
			t.Fatalf("after the failure it waits for %+v", s.Pending)
		}
		decide(s, again)
		h.Until(r, s, stoa.SessionCompleted)
		row := callsOf(h, r, s)[0]
		want, made := stoa.OutcomeOK, 2
		if again == "reject" {
			want, made = stoa.OutcomeUnknown, 1
		}
		if row.Outcome != want || len(f.Calls())-before != made {
			t.Errorf("%s: the call is %+v after %d requests", again, row, len(f.Calls())-before)
		}
	}
}

// An approved call that has not begun needs no second approval; one that was begun by a dead
// process does, regardless of its effects.
func TestAnApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), one(&results))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	approve(h, c, "always")
	a := h.Agent(using(c))
	first, second := h.Service(shared), h.Service(shared)
	stop := sessiontest.Run(t, first)
	caller := h.Caller()
	caller.Key.Scopes = []string{session.ScopeApprovals}
	s := h.Until(first, h.Begin(first, a, `put {"order":"hold"}`), stoa.SessionWaiting)
	if _, err := first.Answer(t.Context(), caller, a.ID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Decision: "approve"}); err != nil {
		t.Fatal(err)
	}
	calledTimes(f, fakemcp.Put, 1)
	h.Write(endRunners)
	sessiontest.Run(t, second)
	s = h.Until(second, s, stoa.SessionWaiting)
	if s.Pending.Kind != stoa.InputToolApproval || s.Pending.Calls[0].PreviousOutcome != stoa.OutcomeUnknown || len(f.Calls()) != 1 {
		t.Errorf("it waits for %+v after %d calls", s.Pending, len(f.Calls()))
	}
	f.Release()
	stop()
}
