package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/storetest"
)

// A life is a running service.
type life struct {
	t     *testing.T
	url   string
	stop  context.CancelFunc
	ended chan error
}

// in returns the settings of a service with the given store.
func in(home storetest.Database, cfg config.Config) config.Config {
	cfg.Data, cfg.Database = home.Config.Dir, config.Secret(home.Config.PostgresURL)
	return cfg
}

func live(t *testing.T, cfg config.Config) *life {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &life{t: t, stop: stop, ended: make(chan error, 1)}
	ready := make(chan string, 1)
	go func() {
		l.ended <- Run(ctx, Options{Config: cfg, Ready: func(url string) { ready <- url }})
	}()
	select {
	case l.url = <-ready:
	case err := <-l.ended:
		t.Fatalf("it did not start: %v", err)
	}
	return l
}

func (l *life) end() {
	l.t.Helper()
	l.stop()
	if err := <-l.ended; err != nil {
		l.t.Errorf("it ended with %v", err)
	}
}

// ask sends a request and reads the reply.
func (l *life) ask(method, path, body string, into any) {
	l.t.Helper()
	req, err := http.NewRequest(method, l.url+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		l.t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			l.t.Fatal(err)
		}
	}
}

const testKey = "sk_0123456789abcdefghijklmnopqrstuvwxyz"

// TestASessionOutlivesItsService stops the service in the middle of a session, in good order,
// and starts it again: the session continues without a lost attempt, and a stream that was
// watching ended immediately.
func TestASessionOutlivesItsService(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the grace of a step")
	}
	cfg := config.Defaults()
	cfg = in(storetest.New(t), cfg)
	cfg.Listen, cfg.AdminListen, cfg.Durability = "127.0.0.1:0", "", "process"
	cfg.BootstrapKey, cfg.FirstGrant = testKey, stoa.Credit
	first := live(t, cfg)
	var me struct{ DefaultSpaceID string }
	first.ask("GET", "/users/me", "", &me)
	var agent, session struct{ ID string }
	first.ask("POST", "/api-agents", fmt.Sprintf(`{"spaceId":%q,"name":"n","instructions":"i"}`, me.DefaultSpaceID), &agent)
	sessions := "/api-agents/" + agent.ID + "/sessions"
	first.ask("POST", sessions, `{"message":"tokens: 140\nslow: 50ms"}`, &session)

	req, err := http.NewRequest("GET", first.url+"/api/v1"+sessions+"/"+session.ID+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Accept", "text/event-stream")
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	seen := ""
	for buf := make([]byte, 4096); !strings.Contains(seen, "message.delta"); {
		n, err := stream.Body.Read(buf)
		seen += string(buf[:n])
		if err != nil {
			t.Fatalf("the stream ended early: %v\n%s", err, seen)
		}
	}
	first.stop()
	rest, err := io.ReadAll(stream.Body)
	if err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	if strings.Contains(string(rest), "message.completed") {
		t.Errorf("the stream went on until the session had ended: %s", rest)
	}
	first.end()

	second := live(t, cfg)
	var done struct {
		Status string
		Reply  string
		Turn   struct{ Attempt int }
	}
	second.ask("GET", sessions+"/"+session.ID+"?waitSeconds=60", "", &done)
	if done.Status != "completed" || done.Turn.Attempt != 1 || len(strings.Fields(done.Reply)) != 140 {
		t.Errorf("it is %+v", done)
	}
	var books struct{ Balanced bool }
	second.ask("GET", "/usage/reconcile", "", &books)
	if !books.Balanced {
		t.Error("the books do not balance")
	}
	second.end()
}
