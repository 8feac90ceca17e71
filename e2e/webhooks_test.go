package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stoa/internal/testkit/fakemcp"
)

// TestEveryEndIsSentThroughKills kills the server around commits and requests: every ended
// session was reported, each time under the same id and with a signature. Every other session
// calls tools of a server that is not killed: calls that may happen once have not happened
// twice.
func TestEveryEndIsSentThroughKills(t *testing.T) { hooksThroughKills(t, "") }

func TestEveryEndIsSentThroughKillsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	hooksThroughKills(t, aPostgres(t))
}

func hooksThroughKills(t *testing.T, postgres string) {
	h, _ := newActingServer(t, postgres, "")
	var mu sync.Mutex
	secret, events, requests := "", map[string]map[string]bool{}, 0 // ids of events, by session
	refused := map[string]bool{}
	news := make(chan struct{}, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		requests++
		check, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = check.Verify(body, r.Header)
		}
		var e struct {
			ID   string
			Data struct{ SessionID string }
		}
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		if err != nil || e.ID != r.Header.Get("webhook-id") {
			t.Errorf("%v: %s", err, body)
		}
		if !refused[e.ID] && rand.IntN(4) == 0 {
			refused[e.ID] = true
			w.WriteHeader(http.StatusServiceUnavailable) // five seconds later it is sent again
			return
		}
		if events[e.Data.SessionID] == nil {
			events[e.Data.SessionID] = map[string]bool{}
		}
		events[e.Data.SessionID][e.ID] = true
		select {
		case news <- struct{}{}:
		default:
		}
	}))
	defer receiver.Close()
	h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	h.newAgent(t, a)
	var made struct{ Secret string }
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	if code, err := h.call(ctx, "POST", a.key, "/webhooks", object{"url": receiver.URL, "events": []string{"session.completed", "session.failed", "session.cancelled"}}, &made); err != nil || code != http.StatusCreated {
		t.Fatalf("%d %v", code, err)
	}
	mu.Lock()
	secret = made.Secret
	mu.Unlock()
	far := fakemcp.Start(t)
	tools := h.newToolAgent(t, a, far, "never")
	rounds, each := 6, 10
	if testing.Short() {
		rounds = 2
	}
	var sessions []string
	for range rounds {
		for i := range each {
			var s struct{ ID string }
			agent, message := a.agent, fmt.Sprintf("say: %d", i)
			if n := len(sessions); n%2 == 0 {
				agent, message = tools, fmt.Sprintf("call: far__act {\"key\":\"%d a\"}\ncall: far__put {\"key\":\"%d b\"}\ncall: far__act {\"key\":\"%d c\"}", n, n, n)
			}
			if code, err := h.call(ctx, "POST", a.key, "/api-agents/"+agent+"/sessions", object{"message": message, "mode": "once"}, &s); err != nil || code != http.StatusAccepted {
				t.Fatalf("%d %v", code, err)
			}
			sessions = append(sessions, s.ID)
		}
		aMoment(300_000)
		h.kill()
		h.start()
	}
	missing := func() (ids []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range sessions {
			if len(events[id]) == 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for len(missing()) > 0 {
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("nobody was told of %s", strings.Join(missing(), ", "))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for id, ids := range events {
		if len(ids) != 1 {
			t.Errorf("session %s ended once, and its events have the ids %v", id, ids)
		}
	}
	effects := far.EffectsByKey()
	for key, n := range effects {
		if n > 1 {
			t.Errorf("%q was done %d times", key, n)
		}
	}
	outcomes := map[string]int{}
	for i, id := range sessions {
		if i%2 > 0 {
			continue
		}
		var list struct {
			Data []struct{ Effects, Status, Outcome string }
		}
		h.get(t, a.key, "/api-agents/"+tools+"/sessions/"+id+"/tool-calls", &list)
		if len(list.Data) != 3 {
			t.Errorf("session %s has %d calls", id, len(list.Data))
		}
		for _, c := range list.Data {
			outcomes[c.Effects+" "+c.Outcome]++
		}
	}
	if outcomes["once ok"] == 0 || outcomes["idempotent ok"] == 0 || outcomes["once ok"]+outcomes["idempotent ok"] > len(effects) {
		t.Errorf("%d effects of calls that ended so: %v", len(effects), outcomes)
	}
	t.Logf("%d sessions, %d requests, %d calls of tools: %v", len(sessions), requests, len(far.Calls()), outcomes)
}
