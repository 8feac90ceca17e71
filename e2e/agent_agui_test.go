package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/testkit/fakeup"
)

// TestARunOfAFrontEndOutlivesKills kills the server while it streams runs of AG-UI. The same run attaches to the same turn,
// its usage is that of the receipts, and no step is charged twice.
func TestARunOfAFrontEndOutlivesKills(t *testing.T) {
	t.Parallel()
	h := newServer(t, fakeup.Start(t).URL, "")
	h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	h.newAgent(t, a)
	agent := "/api-agents/" + a.agent
	if _, err := h.call(t.Context(), http.MethodPatch, a.key, agent, object{"description": "Repeats.", "expose": []string{"agui"}}, nil); err != nil {
		t.Fatal(err)
	}
	rounds := max(*kills/4, 6)
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		words := fmt.Sprint("one two three four ", i)
		body, _ := json.Marshal(object{"threadId": "t", "runId": fmt.Sprint(i), "messages": []object{
			{"id": "m", "role": "user", "content": fmt.Sprintf("mark: %d\nslow: 5ms\nrounds: 2\ncall: drive_list {}\nsay: %s", i, words)},
		}})
		ended := make(chan error, 1)
		var end runEnd
		run := func() (err error) {
			end, err = runOnce(h.url+"/api/v1"+agent+"/ag-ui", a.key, string(body))
			return err
		}
		go func() { ended <- run() }()
		aMoment(1 + rand.IntN(200_000))
		h.kill()
		h.start()
		for err := <-ended; err != nil; err = run() {
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		var sessions struct {
			Data []struct {
				ID   string
				Turn struct{ Number int }
			}
		}
		h.get(t, a.key, agent+"/sessions?limit=100", &sessions)
		if end.Type != "RUN_FINISHED" || !strings.HasSuffix(end.text, words) || len(sessions.Data) != 1 || sessions.Data[0].Turn.Number != i+1 {
			t.Fatalf("run %d ended with %+v; the sessions are %+v", i, end, sessions.Data)
		}
		var receipts struct {
			Data []struct{ Usage struct{ TotalTokens int64 } }
		}
		h.get(t, a.key, agent+"/sessions/"+sessions.Data[0].ID+"/receipts?limit=100&order=desc", &receipts)
		charged := int64(0)
		for _, r := range receipts.Data[:3] {
			charged += r.Usage.TotalTokens
		}
		if len(receipts.Data) != 3*(i+1) || end.Usage[0].TotalTokens != charged {
			t.Errorf("run %d: usage %+v; %d receipts, the newest three have %d tokens", i, end.Usage, len(receipts.Data), charged)
		}
	}
	if code := h.stop(t); code != 0 {
		t.Errorf("the last process exits with %d", code)
	}
	h.verify(t)
}

// A runEnd is the last event of a run, with all of its texts.
type runEnd struct {
	Type  string
	Usage []struct{ TotalTokens int64 }
	text  string
}

// runOnce runs an agent. A run without an end, or one whose stream the service ended, is an error.
func runOnce(url, key, body string) (end runEnd, err error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return end, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return end, err
	}
	defer reply.Body.Close()
	stream, err := io.ReadAll(reply.Body)
	text := ""
	for line := range strings.SplitSeq(string(stream), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || err != nil {
			continue
		}
		var delta struct{ Type, Delta string }
		end = runEnd{}
		if err = json.Unmarshal([]byte(data), &end); err == nil {
			err = json.Unmarshal([]byte(data), &delta)
		}
		if delta.Type == "TEXT_MESSAGE_CONTENT" {
			text += delta.Delta
		}
	}
	if end.text = text; err == nil && end.Type != "RUN_FINISHED" {
		err = fmt.Errorf("%d: %s", reply.StatusCode, stream)
	}
	return end, err
}
