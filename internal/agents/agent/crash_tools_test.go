package agent_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// crashTools marks a child process whose sessions call tools: the id of their account.
const crashTools = "STOA_RUNNER_CRASH_TOOLS"

// crashPrints guards the lines that a child prints.
var crashPrints sync.Mutex

// mayDie marks a point from which the process may be killed, and lets other goroutines run,
// so that the kill happens anywhere.
func mayDie() {
	crashPrints.Lock()
	fmt.Println("call")
	crashPrints.Unlock()
	for range rand.IntN(20_000) {
		runtime.Gosched()
	}
}

// crashToolModel calls two tools, twice, and then repeats the results.
func crashToolModel(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
	mayDie()
	if n := len(call.Messages); n < 5 {
		sessiontest.Say(yield, "", order(fmt.Sprint(n, "a")), order(fmt.Sprint(n, "b")))
		return
	}
	var told []string
	for _, m := range call.Messages {
		for _, r := range sessiontest.Results(m) {
			told = append(told, r.Content)
		}
	}
	sessiontest.Say(yield, strings.Join(told, " "))
}

// crashExecutor returns the outputs of all calls, one by one and in random order. Each output
// is different, so that an output that was stored twice would be noticed.
func crashExecutor(ctx context.Context, r *sessiontest.Service, accountID string) {
	caller := stoa.Caller{Account: stoa.Account{ID: accountID}}
	for {
		list, _, err := r.OpenInputs(ctx, accountID, store.InputFilter{}, store.Page{Limit: 5, Asc: true}, time.Hour)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, in := range list {
			for _, i := range rand.Perm(len(in.Calls)) {
				if !in.Calls[i].Open() {
					continue
				}
				mayDie()
				_, err := r.Answer(ctx, caller, in.AgentID, in.SessionID, session.AnswerRequest{InputID: in.ID, Outputs: []session.Output{
					{CallID: in.Calls[i].ID, Text: fmt.Sprintf("%s:%d", in.Calls[i].ID, rand.Uint32())},
				}})
				if err != nil {
					fmt.Println(err)
				}
				mayDie()
			}
		}
	}
}

// Processes are killed at random moments while sessions call tools and a program returns
// their outputs. In the end every call has one row and one output, and the model received
// exactly that output.
func TestKilledAtAnyMomentEachCallHasOneOutput(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	const sessions = 20
	home := storetest.New(t)
	dir := cmp.Or(home.Config.Dir, t.TempDir())
	h, err := sessiontest.Open(home.Config, sessiontest.Script(nil))
	if err != nil {
		t.Fatal(err)
	}
	h.T = t
	h.Account = storetest.Account(t, h.Store, 1_000_000*stoa.Credit)
	a, r := h.Agent(withTools()), h.Service()
	all := startMany(h, r, a, 0, sessions)
	account := h.Account
	h.Close()
	kills := 0
	limit, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for done := false; !done; kills++ {
		if limit.Err() != nil {
			t.Fatal("the sessions do not come to an end")
		}
		done = runAndKill(limit, t, home, dir, rand.IntN(40), crashTools+"="+account.ID, nil)
	}
	if h, err = sessiontest.Open(home.Config, sessiontest.Script(nil)); err != nil {
		t.Fatal(err)
	}
	h.T, h.Account = t, account
	defer h.Close()
	r = h.Service()
	for _, s := range all {
		got, err := r.Get(t.Context(), account.ID, a.ID, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == stoa.SessionFailed && got.Turn.Reason == "worker_lost" {
			continue
		}
		var told []string
		for _, c := range callsOf(h, r, s) {
			told = append(told, c.Result)
			if c.Status != stoa.CallDone || c.Outcome != stoa.OutcomeOK || !strings.HasPrefix(c.Result, c.ID+":") {
				t.Errorf("%s: the call is %+v", s.ID, c)
			}
		}
		if got.Status != stoa.SessionCompleted || got.Reply != strings.Join(told, " ") || len(told) != 4 || got.ToolCalls != 4 {
			t.Errorf("%s is %s after %d calls (%d rows): %q, and the rows say %q", s.ID, got.Status, got.ToolCalls, len(told), got.Reply, told)
		}
		h.CheckBooks(r, got)
	}
	t.Logf("%d kills", kills-1)
	if differences, err := h.Ledger.Verify(t.Context()); err != nil || len(differences) > 0 {
		t.Errorf("the books differ: %+v, %v", differences, err)
	}
}
