package e2e

import (
	"context"
	"encoding/json"
	"errors"
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

// TestEveryWaitIsSentThroughKills kills the server around commits and requests, while
// sessions begin to wait: for their user, for an approval, and for a program of the account.
// Every wait was reported, each time under the same id and with the same body, with a
// signature that the published library accepts; after the rotation of the secret, by either
// secret.
func TestEveryWaitIsSentThroughKills(t *testing.T) { waitsThroughKills(t, "") }

func TestEveryWaitIsSentThroughKillsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	waitsThroughKills(t, aPostgres(t))
}

// A waitReceiver receives the events of waiting sessions.
type waitReceiver struct {
	t       *testing.T
	news    chan struct{}
	mu      sync.Mutex
	secrets []string                     // with which every request must be signed
	events  map[string]map[string]string // bodies by the id of the event, by session
	inputs  map[string]string            // ids of the pending inputs, by session
	refused map[string]bool
	asked   int
}

func (w *waitReceiver) sign(secrets ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = secrets
}

// ServeHTTP receives an event, or refuses it the first time.
func (w *waitReceiver) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	for _, secret := range w.secrets {
		check, failed := standardwebhooks.NewWebhook(secret)
		if failed == nil {
			failed = check.Verify(body, r.Header)
		}
		err = errors.Join(err, failed)
	}
	var e struct {
		ID, Type string
		Data     struct {
			SessionID    string
			PendingInput struct{ ID, Kind string }
		}
	}
	err = errors.Join(err, json.Unmarshal(body, &e))
	if err != nil || e.ID != r.Header.Get("webhook-id") || e.Type != "session.waiting_for_input" || e.Data.PendingInput.ID == "" {
		w.t.Errorf("%v: %s", err, body)
	}
	of := w.events[e.Data.SessionID]
	if of == nil {
		of = map[string]string{}
		w.events[e.Data.SessionID] = of
	}
	if was, again := of[e.ID]; again && was != string(body) {
		w.t.Errorf("the event %s was %s and is %s", e.ID, was, body)
	}
	of[e.ID] = string(body)
	if !w.refused[e.ID] && rand.IntN(4) == 0 {
		w.refused[e.ID] = true
		out.WriteHeader(http.StatusServiceUnavailable) // five seconds later it is sent again
		return
	}
	w.inputs[e.Data.SessionID] = e.Data.PendingInput.Kind + " " + e.Data.PendingInput.ID
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func waitsThroughKills(t *testing.T, postgres string) {
	h, _ := newActingServer(t, postgres, "")
	w := &waitReceiver{t: t, news: make(chan struct{}, 1), events: map[string]map[string]string{}, inputs: map[string]string{}, refused: map[string]bool{}}
	receiver := httptest.NewServer(w)
	defer receiver.Close()
	h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	post := func(path string, body, into any, want int) {
		t.Helper()
		if code, err := h.call(ctx, http.MethodPost, a.key, path, body, into); err != nil || code != want {
			t.Fatalf("%s: %d %v", path, code, err)
		}
	}
	var hook struct{ ID, Secret string }
	post("/webhooks", object{"url": receiver.URL, "events": []string{"session.waiting_for_input"}}, &hook, http.StatusCreated)
	w.sign(hook.Secret)
	far := fakemcp.Start(t)
	approved := h.newToolAgent(t, a, far, "always")
	var space struct{ Data []struct{ ID string } }
	h.get(t, a.key, "/spaces", &space)
	var client struct{ ID string }
	post("/api-agents", object{"spaceId": space.Data[0].ID, "name": "asks", "instructions": "Ask.", "model": "alpha-haiku-4-5", "tools": []object{{
		"type": "client", "name": "lookup", "description": "Looks up.", "parameters": object{"type": "object"},
	}}}, &client, http.StatusCreated)
	kinds := []struct{ kind, agent, message string }{
		{"tool_approval", approved, `call: far__act {"key":"a"}`}, {"tool_call", client.ID, "call: lookup {}"}, {"question", client.ID, `call: ask_user {"question":"Well?"}`},
	}
	rounds, each := 6, 9
	if testing.Short() {
		rounds = 2
	}
	wants := map[string]string{} // the kind, by session
	for round := range rounds {
		for i := range each {
			k := kinds[i%len(kinds)]
			var s struct{ ID string }
			post("/api-agents/"+k.agent+"/sessions", object{"message": k.message, "mode": "chat"}, &s, http.StatusAccepted)
			wants[s.ID] = k.kind
		}
		if round == rounds/2 {
			w.sign() // requests in flight may only have the previous signature
			var rotated struct{ Secret string }
			post("/webhooks/"+hook.ID+"/rotate-secret", object{}, &rotated, http.StatusCreated)
			h.kill()
			receiver.CloseClientConnections()
			w.sign(hook.Secret, rotated.Secret)
			h.start()
			continue
		}
		aMoment(300_000)
		h.kill()
		h.start()
	}
	missing := func() (ids []string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for id := range wants {
			if w.inputs[id] == "" {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for len(missing()) > 0 {
		select {
		case <-w.news:
		case <-ctx.Done():
			t.Fatalf("nobody was told of %s", strings.Join(missing(), ", "))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, kind := range wants {
		if len(w.events[id]) != 1 {
			t.Errorf("session %s waits once, and its events are %v", id, w.events[id])
		}
		var s struct {
			Status       string
			PendingInput struct{ ID, Kind string }
		}
		agent := client.ID
		if kind == "tool_approval" {
			agent = approved
		}
		h.get(t, a.key, "/api-agents/"+agent+"/sessions/"+id, &s)
		if s.Status != "waiting_for_input" || s.PendingInput.Kind != kind || w.inputs[id] != fmt.Sprint(kind, " ", s.PendingInput.ID) {
			t.Errorf("session %s is %+v; the event says %s", id, s, w.inputs[id])
		}
	}
	if len(w.events) != len(wants) || len(far.Calls()) != 0 {
		t.Errorf("%d sessions were told of, of %d; %d calls that nobody approved", len(w.events), len(wants), len(far.Calls()))
	}
	t.Logf("%d sessions, %d requests, %d of them refused", len(wants), w.asked, len(w.refused))
}
