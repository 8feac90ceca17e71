package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestAnEventStartsOneTurnThroughKills delivers each event several times at once and kills the server in
// the middle. The sender retries until it has an answer.
func TestAnEventStartsOneTurnThroughKills(t *testing.T) {
	t.Parallel()
	eventsThroughKills(t, "")
}

func TestAnEventStartsOneTurnThroughKillsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	eventsThroughKills(t, aPostgres(t))
}

func eventsThroughKills(t *testing.T, postgres string) {
	v := newVendor(t, func() {})
	h := newServer(t, v.url, actingSettings(t, ""))
	h.postgres = postgres
	h.start()
	a := h.newAccount(t, "pro", 500_000_000)
	h.newAgent(t, a)
	var hook struct{ ID, Secret string }
	if status, err := h.call(t.Context(), http.MethodPost, a.key, "/api-agents/"+a.agent+"/hooks", object{"name": "x", "signature": object{"kind": "github"}, "turnsPerDay": 1000}, &hook); status != 201 {
		t.Fatalf("%d %v", status, err)
	}
	// deliver sends an event until it is accepted.
	deliver := func(ctx context.Context, event int) {
		body := fmt.Sprintf(`{"event": %d}`, event)
		mac := hmac.New(sha256.New, []byte(hook.Secret))
		mac.Write([]byte(body))
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/api/v1/hooks/"+hook.ID, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
			req.Header.Set("X-GitHub-Delivery", fmt.Sprint(event))
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				continue // the server is being killed or started
			}
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err == nil && res.StatusCode == 200 {
				return
			}
			if err == nil && res.StatusCode < 429 {
				t.Errorf("event %d: %d", event, res.StatusCode)
				return
			}
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), safetyNet)
	defer stop()
	const rounds, each = 5, 8
	for round := range rounds {
		var all sync.WaitGroup
		var once sync.Once
		accepted := make(chan struct{})
		for i := range each {
			for range 3 {
				all.Go(func() {
					deliver(ctx, round*each+i)
					once.Do(func() { close(accepted) })
				})
			}
		}
		<-accepted
		h.kill()
		h.start()
		all.Wait()
	}
	count := map[string]int{}
	cursor := ""
	for {
		var list struct {
			Data       []struct{ ID string }
			NextCursor *string
		}
		if status, err := h.call(t.Context(), http.MethodGet, a.key, "/api-agents/"+a.agent+"/sessions?trigger=hook&limit=100"+cursor, nil, &list); status != 200 {
			t.Fatalf("%d %v", status, err)
		}
		for _, s := range list.Data {
			var messages struct{ Data []struct{ Role, Text string } }
			if status, err := h.call(t.Context(), http.MethodGet, a.key, "/api-agents/"+a.agent+"/sessions/"+s.ID+"/messages", nil, &messages); status != 200 {
				t.Fatalf("%d %v", status, err)
			}
			for _, m := range messages.Data {
				if m.Role == "user" {
					count[m.Text]++
				}
			}
		}
		if list.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *list.NextCursor
	}
	if len(count) != rounds*each {
		t.Errorf("%d of %d events started a turn", len(count), rounds*each)
	}
	for text, n := range count {
		if n != 1 {
			t.Errorf("%s started %d turns", text, n)
		}
	}
}
