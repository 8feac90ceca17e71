package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"stoa/internal/testkit/fakemcp"
)

// TestNoApprovalIsUsedTwiceThroughKills kills the server while it requests approvals, while
// they are given on the command line, and while the calls are carried out. The tool server is
// not killed and counts: nothing is sent before its approval, nothing twice for one approval,
// and a call that has not begun needs no second approval.
func TestNoApprovalIsUsedTwiceThroughKills(t *testing.T) { approvalsThroughKills(t, "") }

func TestNoApprovalIsUsedTwiceThroughKillsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	approvalsThroughKills(t, aPostgres(t))
}

func approvalsThroughKills(t *testing.T, postgres string) {
	h, _ := newActingServer(t, postgres, "")
	h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	far := fakemcp.Start(t)
	agent := h.newToolAgent(t, a, far, "always")
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	// The process dies in the middle of a call, in the rounds that say so.
	var mu sync.Mutex
	fatal, again := false, make(chan struct{})
	far.OnCall(func(fakemcp.Call) {
		mu.Lock()
		now, gone := fatal, again
		fatal = false
		mu.Unlock()
		if now {
			h.kill()
			close(gone)
		}
	})
	type row struct {
		ID, SessionID, Status, Outcome, Effects string
		Attempts                                int
		Approval                                *struct{ Decision string }
	}
	here := "/api-agents/" + agent + "/sessions/"
	waits := func(id string) (calls []string, unsure bool) {
		t.Helper()
		for ctx.Err() == nil {
			var s struct {
				Status       string
				PendingInput *struct {
					Kind  string
					Calls []struct{ CallID, Status, PreviousOutcome string }
				}
			}
			h.get(t, a.key, here+id+"?waitSeconds=20", &s)
			if s.Status != "waiting_for_input" && s.Status != "completed" {
				continue
			}
			if in := s.PendingInput; in != nil {
				for _, c := range in.Calls {
					if c.Status == "waiting" {
						calls = append(calls, c.CallID)
						unsure = unsure || c.PreviousOutcome == "unknown"
					}
				}
			}
			return calls, unsure
		}
		t.Fatalf("session %s does not stop", id)
		return nil, false
	}
	try := func(args ...string) (string, int) {
		t.Helper()
		out, errOut, code := runWith(t, []string{"STOA_BASE_URL=" + h.url, "STOA_API_KEY=" + a.key}, append([]string{"tools"}, args...)...)
		return out + errOut, code
	}
	stoa := func(args ...string) {
		t.Helper()
		if said, code := try(args...); code != 0 {
			t.Fatalf("stoa tools %v: %d %s", args, code, said)
		}
	}
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	asked := map[string]int{} // number of requests, by call
	unsure := 0
	var sessions []string
	for round := range rounds {
		var s struct{ ID string }
		message := fmt.Sprintf("call: far__act {\"key\":\"%d a\"}\ncall: far__put {\"key\":\"%d b\"}", round, round)
		if code, err := h.call(ctx, http.MethodPost, a.key, here[:len(here)-1], object{"message": message}, &s); err != nil || code != http.StatusAccepted {
			t.Fatalf("%d %v", code, err)
		}
		sessions = append(sessions, s.ID)
		aMoment(100_000)
		h.kill() // before or after it requests approvals
		h.start()
		calls, _ := waits(s.ID)
		if n := len(far.Calls()); len(calls) != 2 || n != len(far.EffectsByKey()) {
			t.Fatalf("it waits for %v after %d requests", calls, n)
		}
		mu.Lock()
		fatal, again = round%2 == 0, make(chan struct{})
		dies, gone := fatal, again
		mu.Unlock()
		for _, id := range calls {
			asked[id]++
		}
		sent := len(far.Calls())
		stoa(append([]string{"approve"}, calls[:1]...)...)
		if n := len(far.Calls()); n != sent {
			t.Errorf("%d requests with one of two decisions", n-sent)
		}
		_, code := try("approve", calls[1]) // it may not receive the confirmation
		if dies {
			<-gone
		} else {
			aMoment(30_000)
			h.kill() // before a call is begun, in it, or after it
		}
		h.start()
		if code != 0 {
			if said, again := try("approve", calls[1]); again != 0 && !strings.Contains(said, "--again") {
				t.Errorf("the same decision again: %d %s", again, said)
			}
		}
		for {
			open, again := waits(s.ID)
			if len(open) == 0 {
				break
			}
			if !again {
				t.Fatalf("people are asked again about %v, which was not begun", open)
			}
			unsure++
			for _, id := range open {
				asked[id]++
			}
			stoa(append([]string{"reject", "--comment", "it was seen there"}, open...)...)
		}
	}
	times := map[string]int{}
	for _, c := range far.Calls() {
		times[c.ID]++
	}
	outcomes := map[string]int{}
	for _, id := range sessions {
		var list struct{ Data []row }
		h.get(t, a.key, here+url.PathEscape(id)+"/tool-calls", &list)
		for _, c := range list.Data {
			outcomes[c.Outcome]++
			switch {
			case c.Status != "done" || c.Approval == nil || times[c.ID] > 1 || far.Effects(c.ID) > 1:
				t.Errorf("%+v was sent %d times", c, times[c.ID])
			case c.Outcome == "ok" && (asked[c.ID] != 1 || times[c.ID] != 1 || far.Effects(c.ID) != 1 || c.Approval.Decision != "approve"):
				t.Errorf("%+v: asked %d times, sent %d times", c, asked[c.ID], times[c.ID])
			case c.Outcome == "unknown" && (asked[c.ID] != 2 || c.Approval.Decision != "reject"):
				t.Errorf("%+v: asked %d times", c, asked[c.ID])
			case c.Outcome != "ok" && c.Outcome != "unknown":
				t.Errorf("%+v", c)
			}
		}
	}
	if n := outcomes["ok"] + outcomes["unknown"]; n != 2*rounds || unsure == 0 || outcomes["ok"] == 0 {
		t.Errorf("%d calls, %v, asked again %d times", n, outcomes, unsure)
	}
	t.Logf("%d sessions, %d requests, outcomes %v; people were asked again %d times", len(sessions), len(far.Calls()), outcomes, unsure)
}
