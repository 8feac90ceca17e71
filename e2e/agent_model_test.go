package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"stoa/internal/testkit/fakeup"
)

// TestACallOfAnAgentOutlivesKills kills the server while it answers calls of an agent as a model. The same request continues
// the same turn, its usage is that of the receipts, and no step is charged twice.
func TestACallOfAnAgentOutlivesKills(t *testing.T) {
	t.Parallel()
	h := newServer(t, fakeup.Start(t).URL, "")
	agentOutlivesKills(t, h)
}

func TestACallOfAnAgentOutlivesKillsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	h := newServer(t, fakeup.Start(t).URL, "")
	h.postgres = aPostgres(t)
	agentOutlivesKills(t, h)
}

func agentOutlivesKills(t *testing.T, h *server) {
	h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	h.newAgent(t, a)
	agent := "/api-agents/" + a.agent
	if _, err := h.call(t.Context(), http.MethodPatch, a.key, agent, object{"description": "Repeats.", "expose": []string{"responses"}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.call(t.Context(), http.MethodPut, a.key, agent+"/drive/files", object{"path": "a.txt", "content": "text"}, nil); err != nil {
		t.Fatal(err)
	}
	rounds := max(*kills/2, 6)
	if testing.Short() {
		rounds = 3
	}
	sessions := map[string]bool{}
	for i := range rounds {
		// Two rounds of calls, so that a turn has three steps.
		call := object{"model": "agent/agent", "input": fmt.Sprintf("mark: %d\nslow: 5ms\nrounds: 2\ncall: drive_list {}\nsay: one two three four %d", i, i)}
		var got struct {
			Conversation struct{ ID string }
			Output       []struct{ Content []struct{ Text string } }
			Usage        struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			}
		}
		ended := make(chan error, 1)
		answered := func() error {
			_, err := h.callOnce(context.Background(), http.MethodPost, a.key, fmt.Sprint("k", i), "/responses", call, &got)
			return err
		}
		go func() { ended <- answered() }()
		aMoment(1 + rand.IntN(200_000))
		h.kill()
		h.start()
		for err := <-ended; err != nil; err = answered() { // refused while the first one runs, or cut off
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		if sessions[got.Conversation.ID] {
			t.Errorf("call %d was answered by the session of another one", i)
		}
		sessions[got.Conversation.ID] = true
		var list struct {
			Data []struct {
				ID    string
				Usage struct{ InputTokens, OutputTokens int64 }
			}
		}
		h.get(t, a.key, agent+"/sessions/"+got.Conversation.ID+"/receipts?limit=100", &list)
		in, out, seen := int64(0), int64(0), map[string]bool{}
		for _, r := range list.Data {
			in, out = in+r.Usage.InputTokens, out+r.Usage.OutputTokens
			if seen[r.ID] {
				t.Errorf("call %d: the step %s is charged twice", i, r.ID)
			}
			seen[r.ID] = true
		}
		if len(list.Data) != 3 || got.Usage.Input != in || got.Usage.Output != out || len(got.Output) != 1 {
			t.Errorf("call %d: %d steps, usage %+v, receipts %d and %d, output %+v", i, len(list.Data), got.Usage, in, out, got.Output)
		}
	}
	var all struct{ Data []struct{ ID string } }
	h.get(t, a.key, agent+"/sessions?limit=100", &all)
	if len(all.Data) != rounds {
		t.Errorf("%d calls began %d sessions", rounds, len(all.Data))
	}
	if code := h.stop(t); code != 0 {
		t.Errorf("the last process exits with %d", code)
	}
	h.verify(t)
}
