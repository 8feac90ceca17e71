package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestEveryCancelIsSentThroughKills cancels sessions that run, are queued or wait for their
// user, and kills the server at any moment around it: every accepted cancellation and every
// cancelled session was reported, each time under the same id and with a signature.
func TestEveryCancelIsSentThroughKills(t *testing.T) { cancelsThroughKills(t, "") }

func TestEveryCancelIsSentThroughKillsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	cancelsThroughKills(t, aPostgres(t))
}

func cancelsThroughKills(t *testing.T, postgres string) {
	h, _ := newActingServer(t, postgres, "")
	var mu sync.Mutex
	secret, events, refused := "", map[string]map[string]bool{}, map[string]bool{} // ids of events, by session
	news := make(chan struct{}, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		check, failed := standardwebhooks.NewWebhook(secret)
		if failed == nil {
			failed = check.Verify(body, r.Header)
		}
		var e struct {
			ID, Type string
			Data     struct{ SessionID string }
		}
		err = errors.Join(err, failed, json.Unmarshal(body, &e))
		if err != nil || e.ID != r.Header.Get("webhook-id") || e.Type != "session.cancelled" {
			t.Errorf("%v: %s", err, body)
		}
		if events[e.Data.SessionID] == nil {
			events[e.Data.SessionID] = map[string]bool{}
		}
		events[e.Data.SessionID][e.ID] = true
		if !refused[e.ID] && rand.IntN(4) == 0 {
			refused[e.ID] = true
			w.WriteHeader(http.StatusServiceUnavailable) // five seconds later it is sent again
			delete(events[e.Data.SessionID], e.ID)
			return
		}
		select {
		case news <- struct{}{}:
		default:
		}
	}))
	defer receiver.Close()
	h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	h.newAgent(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	var made struct{ Secret string }
	if code, err := h.call(ctx, "POST", a.key, "/webhooks", object{"url": receiver.URL, "events": []string{"session.cancelled"}}, &made); err != nil || code != http.StatusCreated {
		t.Fatalf("%d %v", code, err)
	}
	mu.Lock()
	secret = made.Secret
	mu.Unlock()
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	found := map[string]int{} // cancelled sessions, by their previous status
	var sessions []string
	path := func(id string) string { return "/api-agents/" + a.agent + "/sessions/" + id }
	type state struct{ ID, Status string }
	begin := func(message string, until ...string) string {
		t.Helper()
		var s state
		if code, err := h.call(ctx, "POST", a.key, "/api-agents/"+a.agent+"/sessions", object{"message": message, "mode": "chat"}, &s); err != nil || code != http.StatusAccepted {
			t.Fatalf("%d %v", code, err)
		}
		sessions = append(sessions, s.ID)
		for len(until) > 0 && s.Status != until[0] && ctx.Err() == nil {
			h.get(t, a.key, path(s.ID), &s)
		}
		return s.ID
	}
	for range rounds {
		var now []string
		for range 2 {
			now = append(now, begin(`call: ask_user {"question":"Well?"}`, "waiting_for_input"))
		}
		now = append(now, begin("wait: 10m", "running"))
		for range 22 { // more than an account may run at the same time
			now = append(now, begin("wait: 10m"))
		}
		for _, id := range now {
			var s state
			h.get(t, a.key, path(id), &s)
			found[s.Status]++
		}
		var asked sync.WaitGroup
		for _, id := range now {
			asked.Go(func() { // the process may die before it answers
				_, _ = h.call(ctx, "POST", a.key, path(id)+"/cancel", nil, nil)
			})
		}
		aMoment(300_000)
		h.kill()
		asked.Wait()
		h.start()
		for _, id := range now { // refused cancellations are repeated
			asked.Go(func() {
				if code, err := h.call(ctx, "POST", a.key, path(id)+"/cancel", nil, nil); err != nil || code >= 300 {
					t.Errorf("%d %v", code, err)
				}
			})
		}
		asked.Wait()
	}
	missing := func() (ids []string) {
		var list []string
		for _, id := range sessions {
			var s state
			if h.get(t, a.key, path(id), &s); s.Status != "completed" { // a queued one may have completed before its cancellation arrived
				list = append(list, id)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range list {
			if len(events[id]) == 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for left := missing(); len(left) > 0; left = missing() {
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("nobody was told of %s", strings.Join(left, ", "))
		}
	}
	cancelled := 0
	for _, id := range sessions {
		var s state
		h.get(t, a.key, path(id), &s)
		mu.Lock()
		if got := len(events[id]); s.Status == "cancelled" && got != 1 || s.Status != "cancelled" && (s.Status != "completed" || got != 0) {
			t.Errorf("session %s is %s, and its events are %v", id, s.Status, events[id])
		}
		mu.Unlock()
		if s.Status == "cancelled" {
			cancelled++
		}
	}
	for _, status := range []string{"running", "queued", "waiting_for_input"} {
		if found[status] == 0 {
			t.Errorf("none was %s: %v", status, found)
		}
	}
	if cancelled < rounds*6 {
		t.Errorf("%d of %d sessions are cancelled", cancelled, len(sessions))
	}
	t.Logf("%d sessions, %d of them cancelled, that were %v; %d events were refused", len(sessions), cancelled, found, len(refused))
}
