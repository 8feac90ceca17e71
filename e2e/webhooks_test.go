package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stoa/internal/store/storetest"
)

// TestEveryEndIsSentThroughKills kills the server around commits and requests: every
// session that has ended was told of, each time under the same id and with a signature.
func TestEveryEndIsSentThroughKills(t *testing.T) { hooksThroughKills(t, "") }

func TestEveryEndIsSentThroughKillsOnPostgreSQL(t *testing.T) {
	if os.Getenv(storetest.Env) == "" {
		t.Skip(storetest.Env + " is not set")
	}
	hooksThroughKills(t, storetest.Postgres(t).Config.PostgresURL)
}

func hooksThroughKills(t *testing.T, postgres string) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := newVendor(t, nil)
	h := newServer(t, v.url, fmt.Sprintf("outbound: {allow: [127.0.0.0/8]}\nsecrets: {keys: [{id: a, file: %q}]}\n", key))
	h.postgres = postgres
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
			w.WriteHeader(http.StatusServiceUnavailable) // five seconds later it comes again
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
	rounds, each := 6, 10
	if testing.Short() {
		rounds = 2
	}
	var sessions []string
	for range rounds {
		for i := range each {
			var s struct{ ID string }
			if code, err := h.call(ctx, "POST", a.key, "/api-agents/"+a.agent+"/sessions", object{"message": fmt.Sprintf("say: %d", i), "mode": "once"}, &s); err != nil || code != http.StatusAccepted {
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
	t.Logf("%d sessions, %d requests", len(sessions), requests)
}
