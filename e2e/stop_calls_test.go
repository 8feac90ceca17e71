package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/storetest"
)

// TestAStopEndsCallsOfServers stops the server by SIGTERM while calls are at a server that
// does not answer: after the drain a call that may happen once has an unknown outcome, and is
// not sent again; a repeatable one is repeated by the next process, with the same id.
func TestAStopEndsCallsOfServers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		h, _ := newActingServer(t, database.Config.PostgresURL, "drain: 300ms\n")
		h.start()
		a := h.newAccount(t, "pro", 500_000_000)
		far := fakemcp.Start(t)
		agent := h.newToolAgent(t, a, far, "never")
		here := "/api-agents/" + agent + "/sessions"
		begun := map[string]string{} // sessions by tool
		for i, tool := range []string{fakemcp.Act, fakemcp.Put} {
			var s struct{ ID string }
			far.Next("tools/call", "hang")
			message := fmt.Sprintf("call: far__%s {\"key\":%q}", tool, tool)
			if code, err := h.call(t.Context(), http.MethodPost, a.key, here, object{"message": message}, &s); err != nil || code != http.StatusAccepted {
				t.Fatalf("%d %v", code, err)
			}
			begun[tool] = s.ID
			far.Await(func(all []fakemcp.Call) bool { return len(all) == i+1 })
		}
		if code := h.stop(t); code != 0 {
			t.Errorf("the server exits with %d; its last lines: %q", code, h.current().tail(5))
		}
		if n := len(far.Calls()); n != 2 {
			t.Errorf("%d requests before the restart", n)
		}
		h.start()
		for tool, want := range map[string]string{fakemcp.Act: "completed unknown 1", fakemcp.Put: "completed ok 2"} {
			var s struct{ Status string }
			for s.Status != "completed" && s.Status != "failed" && s.Status != "cancelled" {
				h.get(t, a.key, here+"/"+begun[tool]+"?waitSeconds=20", &s)
			}
			var list struct {
				Data []struct {
					ID, Outcome string
					Attempts    int
				}
			}
			h.get(t, a.key, here+"/"+begun[tool]+"/tool-calls", &list)
			if len(list.Data) != 1 {
				t.Fatalf("%s: %+v", tool, list.Data)
			}
			c := list.Data[0]
			sent := 0
			for _, seen := range far.Calls() {
				if seen.ID == c.ID {
					sent++
				}
			}
			if got := fmt.Sprint(s.Status, " ", c.Outcome, " ", c.Attempts); got != want || sent != c.Attempts || far.Effects(c.ID) != 1 {
				t.Errorf("%s: %s after %d requests and %d effects, want %s", tool, got, sent, far.Effects(c.ID), want)
			}
		}
		if n := len(far.Calls()); n != 3 {
			t.Errorf("%d requests in all", n)
		}
		h.stop(t)
		h.verify(t)
	})
}
