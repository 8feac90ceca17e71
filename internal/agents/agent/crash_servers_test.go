package agent_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// crashServers marks a child process whose sessions call tools of a connection.
const crashServers = "STOA_RUNNER_CRASH_SERVERS"

var (
	crashServerSessions = flag.Int("crash.servers.sessions", 10, "how many sessions with tools of connections the crash test runs")
	crashServerKills    = flag.Int("crash.servers.kills", 10, "how many processes it kills at least")
)

// crashServerModel calls tools of every class, twice, and then repeats the results.
func crashServerModel(_ context.Context, _ stoa.Model, c stoa.Call, yield func(*stoa.Event, error) bool) {
	mayDie()
	if n := len(c.Messages); n < 5 {
		var calls []stoa.ToolCall
		for i, name := range []string{fakemcp.Read, fakemcp.Act, fakemcp.Put, fakemcp.Act} {
			calls = append(calls, call(fmt.Sprint(n, "-", i), name, fmt.Sprintf(`{"key":"%s, %d.%d"}`, c.Messages[0].Text(), n, i)))
		}
		sessiontest.Say(yield, "", calls...)
		return
	}
	var told []string
	for _, m := range c.Messages {
		for _, r := range sessiontest.Results(m) {
			told = append(told, r.Content)
		}
	}
	sessiontest.Say(yield, strings.Join(told, "\n"))
}

// A killer kills a process when a fake has received a given number of further calls: before
// it answers, or a little later.
type killer struct {
	mu   sync.Mutex
	left int
	kill func()
}

func (k *killer) aim(calls int, kill func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.kill = calls, kill
}

func (k *killer) called(fakemcp.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left--; k.left != 0 || k.kill == nil {
		return
	}
	if rand.IntN(2) == 0 {
		k.kill()
		return
	}
	kill := k.kill
	go func() {
		for range rand.IntN(20_000) {
			runtime.Gosched()
		}
		kill()
	}()
}

// Processes are killed at random moments while sessions call tools of a server that counts
// the calls that it carried out. In the end no call that may happen once has happened or was
// sent twice; each repeatable one has had its effect once, under one id; every call recorded
// as done was done; and every session has stopped and is charged for its steps.
func TestKilledAtAnyMomentNothingIsDoneTwice(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	home := storetest.New(t)
	dir := cmp.Or(home.Config.Dir, t.TempDir())
	f := fakemcp.Start(t)
	var hunter killer
	f.OnCall(hunter.called)
	var account stoa.Account
	var agents []stoa.Agent
	var all []stoa.Session
	open := func() (*sessiontest.Fixture, *sessiontest.Service) {
		h, err := sessiontest.Open(home.Config, sessiontest.Script(nil))
		if err != nil {
			t.Fatal(err)
		}
		h.T, h.Account = t, account
		return h, h.Service(func(c *sessiontest.Config) { c.Limits.Queued = *crashServerSessions + 1 })
	}
	begin := func() {
		h, r := open()
		defer h.Close()
		if len(agents) == 0 {
			account = storetest.Account(t, h.Store, 1_000_000*stoa.Credit)
			h.Account = account
			agents = append(agents, h.Agent(using(connect(h, f, "far"))))
		}
		all = append(all, startMany(h, r, agents[0], len(all), *crashServerSessions)...)
	}
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	kills := 0
	for len(all) == 0 || kills < *crashServerKills {
		begin()
		for done := false; !done; {
			if limit.Err() != nil {
				t.Fatal("the sessions do not come to an end")
			}
			models, servers := 0, 0
			if rand.IntN(3) == 0 {
				models = rand.IntN(20)
			} else {
				models, servers = 1<<30, 1+rand.IntN(20)
			}
			if done = runAndKill(limit, t, home, dir, models, crashServers+"=1", func(kill func()) { hunter.aim(servers, kill) }); !done {
				kills++
			}
		}
		hunter.aim(0, nil)
	}
	h, r := open()
	defer h.Close()
	ids, times := map[string]map[string]bool{}, map[string]int{}
	for _, c := range f.Calls() {
		if ids[c.Key] == nil {
			ids[c.Key] = map[string]bool{}
		}
		ids[c.Key][c.ID] = true
		times[c.ID]++
	}
	for key, list := range ids {
		if len(list) != 1 {
			t.Errorf("%s was sent with the ids %v", key, list)
		}
	}
	effects := f.EffectsByKey()
	outcomes, lost, repeated, unsure := map[string]int{}, 0, 0, 0
	for _, s := range all {
		got, err := r.Get(t.Context(), account.ID, agents[0].ID, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		calls := callsOf(h, r, s)
		for _, c := range calls {
			outcomes[string(c.Effects)+" "+string(c.Outcome)]++
			had, sent := f.Effects(c.ID), times[c.ID]
			switch {
			case c.Status != stoa.CallDone:
				t.Errorf("%s: %s is %s", s.ID, c.ID, c.Status)
			case c.Effects == stoa.EffectsOnce && (had > 1 || sent > 1):
				t.Errorf("%s: %s was sent %d times and had %d effects", s.ID, c.ID, sent, had)
			case c.Effects == stoa.EffectsIdempotent && had > 1, c.Effects == stoa.EffectsRead && had > 0:
				t.Errorf("%s: %s, which is %s, had %d effects", s.ID, c.ID, c.Effects, had)
			case c.Outcome == stoa.OutcomeOK && sent == 0, c.Outcome == stoa.OutcomeOK && c.Effects != stoa.EffectsRead && had != 1:
				t.Errorf("%s: %s is %s after %d requests and %d effects", s.ID, c.ID, c.Outcome, sent, had)
			case c.Outcome == stoa.OutcomeCancelled && got.Status == stoa.SessionFailed:
				if sent > 0 && c.Effects == stoa.EffectsOnce {
					t.Errorf("%s: %s was sent, and is %s", s.ID, c.ID, c.Outcome)
				}
			case c.Outcome != stoa.OutcomeOK && c.Outcome != stoa.OutcomeUnknown:
				t.Errorf("%s: %s is %s: %s %s", s.ID, c.ID, c.Outcome, c.ErrorCode, c.Result)
			case sent > int(c.Attempts) || c.Attempts > 3:
				t.Errorf("%s: %s was sent %d times in %d attempts", s.ID, c.ID, sent, c.Attempts)
			}
			if sent > 1 {
				repeated++
			}
			if c.Outcome == stoa.OutcomeUnknown && had == 0 && c.Effects == stoa.EffectsOnce {
				unsure++
			}
		}
		switch {
		case got.Status == stoa.SessionFailed && got.Turn.Reason == "worker_lost":
			lost++
		case got.Status != stoa.SessionCompleted || len(calls) != 8 || got.ToolCalls != 8:
			t.Errorf("%s is %s after %d calls (%d rows)", s.ID, got.Status, got.ToolCalls, len(calls))
		}
		h.CheckBooks(r, got)
	}
	for key, n := range effects {
		if n > 1 {
			t.Errorf("%s had %d effects", key, n)
		}
	}
	if differences, err := h.Ledger.Verify(t.Context()); err != nil || len(differences) > 0 {
		t.Errorf("the books differ: %+v, %v", differences, err)
	}
	t.Logf("%d sessions (%d given up), %d kills, %d requests; outcomes %v; %d calls were repeated, %d of the unknown ones had not happened",
		len(all), lost, kills, len(f.Calls()), outcomes, repeated, unsure)
}

// A process is killed in the middle of a call of each class: a call that may happen once
// becomes unknown and is never sent again, a repeatable one is repeated with the same id.
func TestAProcessIsKilledInEachCall(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	home := storetest.New(t)
	dir := cmp.Or(home.Config.Dir, t.TempDir())
	f := fakemcp.Start(t)
	h, err := sessiontest.Open(home.Config, sessiontest.Script(nil))
	if err != nil {
		t.Fatal(err)
	}
	h.T, h.Account = t, storetest.Account(t, h.Store, 1_000_000*stoa.Credit)
	account := h.Account
	a := h.Agent(using(connect(h, f, "far")))
	s := startMany(h, h.Service(), a, 0, 1)[0]
	h.Close()

	// The calls are read, act, put, act, twice. Requests: read 1 (killed), read 2, act 3
	// (killed), put 4 (killed), put 5, act 6 …
	var mu sync.Mutex
	var kill func()
	dead := make(chan struct{})
	n := 0
	f.OnCall(func(fakemcp.Call) {
		mu.Lock()
		n++
		fatal, end, gone := n == 1 || n == 3 || n == 4, kill, dead
		mu.Unlock()
		if fatal {
			end()
			<-gone // it gets no reply
		}
	})
	for lives := 1; ; lives++ {
		done := runAndKill(t.Context(), t, home, dir, 1<<30, crashServers+"=1", func(end func()) {
			mu.Lock()
			defer mu.Unlock()
			kill, dead = end, make(chan struct{})
		})
		close(dead)
		if done {
			if lives != 4 {
				t.Errorf("the session took %d processes", lives)
			}
			break
		}
	}
	if h, err = sessiontest.Open(home.Config, sessiontest.Script(nil)); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.T, h.Account = t, account
	r := h.Service()
	got, err := r.Get(t.Context(), account.ID, a.ID, s.ID)
	if err != nil || got.Status != stoa.SessionCompleted {
		t.Fatalf("it is %s, %v", got.Status, err)
	}
	sent := map[string]int{}
	for _, c := range f.Calls() {
		sent[c.ID]++
	}
	var rows []string
	for _, c := range callsOf(h, r, s) {
		rows = append(rows, fmt.Sprintf("%s %s: %d requests, %d effects", c.Effects, c.Outcome, sent[c.ID], f.Effects(c.ID)))
	}
	want := []string{
		"read ok: 2 requests, 0 effects", "once unknown: 1 requests, 1 effects", "idempotent ok: 2 requests, 1 effects", "once ok: 1 requests, 1 effects",
		"read ok: 1 requests, 0 effects", "once ok: 1 requests, 1 effects", "idempotent ok: 1 requests, 1 effects", "once ok: 1 requests, 1 effects",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("%s", strings.Join(rows, "\n"))
	}
	if !strings.Contains(got.Reply, "It is not known whether this was done") {
		t.Errorf("the model was told %q", got.Reply)
	}
	h.CheckBooks(r, got)
}

// A worker without its lease receives the reply of a server late: nothing of it is written,
// and the records of the next worker stay.
func TestALateReplyOfAServerIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome  stoa.CallOutcome
		requests int
	}{fakemcp.Act: {stoa.OutcomeUnknown, 1}, fakemcp.Put: {stoa.OutcomeOK, 2}, fakemcp.Read: {stoa.OutcomeOK, 2}} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, home storetest.Database) {
				var results told
				h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall { return []stoa.ToolCall{call("1", name, `{}`)} }))
				f := fakemcp.Start(t)
				f.Next("tools/call", "hold")
				defer f.Release()
				a := h.Agent(using(connect(h, f, "far")))
				first, second := h.Service(), h.Service(shared)
				stopFirst := sessiontest.Run(t, first)
				s := h.Begin(first, a, "go")
				f.Await(func(all []fakemcp.Call) bool { return len(all) == 1 })
				h.Write(endRunners)
				sessiontest.Run(t, second)
				got, rows := h.Until(second, s, stoa.SessionCompleted), callsOf(h, second, s)
				f.Release()
				stopFirst()
				if len(rows) != 1 || rows[0].Outcome != c.outcome || len(f.Calls()) != c.requests || f.Effects(rows[0].ID) > 1 {
					t.Errorf("%+v after %d requests and %d effects", rows, len(f.Calls()), f.Effects(rows[0].ID))
				}
				after, err := second.Get(t.Context(), h.Account.ID, a.ID, s.ID)
				if err != nil || !reflect.DeepEqual(got, after) || !reflect.DeepEqual(rows, callsOf(h, second, s)) {
					t.Errorf("the first worker has written: %+v, %v; it was %+v", after, err, got)
				}
				h.CheckBooks(second, after)
			})
		})
	}
}
