package api_test

import (
	"context"
	"database/sql"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/agents/embed"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// eachVisitorOperation runs fn for what a visitor's page may ask, with a request
// about a chat.
func eachVisitorOperation(t *testing.T, v visit, fn func(t *testing.T, op apitest.Operation, r apitest.Request)) {
	t.Helper()
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if op.VisitorOnly() {
			fn(t, op, op.Sample(v.embed.ChatSessionID))
		}
	})
}

func TestAVisitorIsRefusedEverywhereAlike(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, nil)
	eachVisitorOperation(t, v, func(t *testing.T, op apitest.Operation, r apitest.Request) {
		v.With("Origin", "https://evil.example").SendForError("origin_not_allowed", r)
		v.With("Origin", "").SendForError("origin_not_allowed", r)
		v.With("Authorization", "Bearer est_x").SendForError("Unauthorized", r)
		if !op.TakesJSON() {
			return
		}
		for code, body := range map[string]string{"invalid_json": "{", "unknown_field": `{"message":"x","inputId":"x","extra":1}`, "request_too_large": strings.Repeat(" ", 17<<20)} {
			bad := r
			bad.Body = body
			if code == "unknown_field" {
				bad.Body = strings.Replace(body, map[bool]string{true: `"inputId":"x",`, false: `"message":"x",`}[strings.HasSuffix(op.Path, "/messages")], "", 1)
			}
			v.SendForError(code, bad)
		}
		v.With("Content-Type", "text/plain").SendForError("unsupported_media_type", r)
	})
	once := v.With("Idempotency-Key", "bad key")
	once.WantError(stoa.CodeInvalidValue, "POST", v.chat+"/retry", nil)
	v.WantError(stoa.CodeInvalidValue, "GET", v.chat+"/events?limit=0", nil)
	once = v.With("Idempotency-Key", "k")
	once.Want(202, "POST", v.chat+"/messages", object{"message": "ask: Well?"})
	once.WantError(stoa.CodeIdempotencyReused, "POST", v.chat+"/messages", object{"message": "say: other"})
	chat := v.until(t, "waiting_for_input")
	once.Want(202, "POST", v.chat+"/input", object{"inputId": orNone(chat.PendingInput).ID, "answer": "well"})
	once.WantError(stoa.CodeIdempotencyReused, "POST", v.chat+"/input", object{"inputId": "inp_x", "answer": "well"})
	v.until(t, "completed")

	// Ten streams of one chat, and no eleventh.
	for range 10 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+v.chat+"/events?follow=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + v.embed.Token}, "Origin": {site}, "Accept": {"text/event-stream"}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	v.With("Accept", "text/event-stream").WantError(stoa.CodeRateLimit, "GET", v.chat+"/events?follow=true", nil)

	// After very many requests in a minute there is a pause.
	busy := newVisit(t, a, nil)
	for range 300 {
		if r := busy.Do("GET", busy.chat, nil); r.Status != 200 {
			break
		}
	}
	eachVisitorOperation(t, busy, func(t *testing.T, _ apitest.Operation, r apitest.Request) {
		busy.SendForError("rate_limit_exceeded", r)
	})

	// The switch of the agent is for all of them.
	other := newVisit(t, a, nil)
	made, exchange := link(t, a, nil)
	a.Want(200, "PATCH", a.agent, object{"embedEnabled": false})
	eachVisitorOperation(t, other, func(t *testing.T, _ apitest.Operation, r apitest.Request) {
		other.SendForError("embed_disabled", r)
	})
	h.ClientWith(t, "").WantError(stoa.CodeEmbedDisabled, "POST", "/api/v1/embed/exchange", exchange)
	a.Want(200, "PATCH", a.agent, object{"embedEnabled": true})
	h.ClientWith(t, "").Want(200, "POST", "/api/v1/embed/exchange", exchange)
	a.Want(200, "GET", a.agent+"/embed-urls/"+made.ID, nil)
}

func TestAChatTakesOnlySoManyMessagesAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	v := newVisit(t, newAuthor(t, h, h.Client(t), nil), object{"messagesPerMinute": 60})
	for range 11 {
		v.say("say: hello")
	}
	v.WantError(stoa.CodeSessionBusy, "POST", v.chat+"/messages", object{"message": "one more"})
	var chat contract.EmbedChat
	v.Want(200, "GET", v.chat, nil).JSON(&chat)
	if chat.Remaining.Messages != 39 {
		t.Errorf("a message that was refused was counted: %+v", chat.Remaining)
	}
}

func TestAStoreThatIsGoneIsToldToVisitors(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // on PostgreSQL it is a node that has ended
	h := start(t, apitest.Config{Idle: true})
	v := newVisit(t, newAuthor(t, h, h.Client(t), nil), nil)
	if err := h.Store.Close(); err != nil {
		t.Fatal(err)
	}
	eachVisitorOperation(t, v, func(t *testing.T, _ apitest.Operation, r apitest.Request) {
		v.SendForError("server_error", r)
	})
	h.ClientWith(t, "").WantError(stoa.CodeInternal, "POST", "/api/v1/embed/exchange", object{"embedUrlId": "emu_x", "ticket": "x"})
}

// TestAFullDiskIsToldToVisitorsToo fills the store and then tries every write of
// embeds.
func TestAFullDiskIsToldToVisitorsToo(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	long := strings.Repeat("x", 2000)
	more := object{"greeting": long, "messagesPerMinute": 60, "maxMessages": 1000}
	asked := newVisit(t, a, more)
	asked.say("ask: Which?")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Worker.Run(ctx) }()
	chat := asked.until(t, "waiting_for_input")
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	talk, cancelled := newVisit(t, a, more), []visit{}
	talk.say("say: hello")
	for range 30 {
		v := newVisit(t, a, more)
		v.say("say: hello")
		v.Want(200, "POST", v.chat+"/cancel", nil)
		cancelled = append(cancelled, v)
	}
	running := []visit{}
	for range 20 {
		v := newVisit(t, a, more)
		v.say("say: hello")
		v.say(long)
		v.say(long)
		running = append(running, v)
	}
	exchanges := []object{}
	for range 60 {
		_, exchange := link(t, a, more)
		exchanges = append(exchanges, exchange)
	}
	tag, tagPath, page := newTag(t, a, object{"greeting": long, "chatsPerDay": 10000})
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error { // no page more than there are
		return tx.Query(t.Context(), func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	body := object{"allowedOrigins": []string{site}, "greeting": long}
	for _, test := range []struct {
		operation string
		ask       func(i int) *apitest.Reply
	}{
		{"createEmbedURL", func(int) *apitest.Reply { return a.Do("POST", a.agent+"/embed-urls", body) }},
		{"createEmbedLogo", func(int) *apitest.Reply {
			return a.Do("POST", "/api/v1/embed-logos", object{"content": pngOf(8, 8, embed.MaxLogoBytes)})
		}},
		{"createEmbedTicket", func(int) *apitest.Reply { return page.Do("POST", shows(tag)+"/tickets", nil) }},
		{"createEmbedTag", func(i int) *apitest.Reply {
			return a.Do("POST", a.agent+"/embed-tags", object{"allowedOrigins": []string{site}, "greeting": long})
		}},
		{"updateEmbedTag", func(i int) *apitest.Reply {
			return a.Do("PATCH", tagPath, object{"greeting": strings.Repeat("ö", 2000-i)})
		}},
		{"createEmbedSession", func(int) *apitest.Reply { return a.Do("POST", a.agent+"/embed-sessions", body) }},
		{"sendEmbedMessage", func(int) *apitest.Reply { return talk.Do("POST", talk.chat+"/messages", object{"message": long}) }},
		{"answerEmbedInput", func(int) *apitest.Reply {
			return asked.Do("POST", asked.chat+"/input", object{"inputId": orNone(chat.PendingInput).ID, "answer": long})
		}},
		{"retryEmbedChat", func(i int) *apitest.Reply {
			return cancelled[i%30].Do("POST", cancelled[i%30].chat+"/retry", nil)
		}},
		{"cancelEmbedChat", func(i int) *apitest.Reply {
			return running[i%20].Do("POST", running[i%20].chat+"/cancel", nil)
		}},
		{"refreshEmbedToken", func(int) *apitest.Reply { return talk.Do("POST", "/api/v1/embed/refresh", nil) }},
		{"refreshEmbedSession", func(int) *apitest.Reply {
			return a.Do("POST", a.agent+"/embed-sessions/"+talk.embed.ID+"/refresh", nil)
		}},
		{"exchangeEmbedURL", func(i int) *apitest.Reply {
			return h.ClientWith(t, "").Do("POST", "/api/v1/embed/exchange", exchanges[i%60])
		}},
	} {
		full := false
		for i := 0; i < 250 && !full; i++ {
			full = test.ask(i).Status == 507
		}
		if !full {
			t.Errorf("%s: the disk never became full", test.operation)
		}
	}
}

// accepted sends messages of as many visits as it takes, until n were sent, and
// returns how many of them were accepted. Each visit is below its own limits.
func accepted(t *testing.T, a author, n int, more ...string) int {
	t.Helper()
	count := 0
	for n > 0 {
		v := newVisit(t, a, object{"messagesPerMinute": 60})
		for i := 0; i+1 < len(more); i += 2 {
			v.Client = v.With(more[i], more[i+1])
		}
		for range min(n, 11) { // one starts the session, ten wait in it
			n--
			r := v.Do("POST", v.chat+"/messages", object{"message": "say: x"})
			if r.Status == 202 {
				count++
			} else if e := r.Error(); e.Code != "embed_limit_reached" || !e.Retryable || r.Header.Get("Retry-After") == "" {
				t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
			}
		}
	}
	return count
}

func TestAgentsLimitAllVisitorsTogether(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	if got := accepted(t, a, 330); got != 300 {
		t.Errorf("%d of 330 messages were accepted, want 300", got)
	}
	newVisit(t, newAuthor(t, h, a.Client, nil), nil).say("say: another agent is not affected")
}

// TestOneVisitorNeverUsesUpTheOthersShare checks that messages which an embed's
// own caps refuse do not count for the agent, and that an address has a share.
func TestOneVisitorNeverUsesUpTheOthersShare(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"messagesPerMinute": 1, "maxMessages": 2})
	v.say("say: x")
	for range 299 {
		v.WantError(stoa.CodeEmbedLimit, "POST", v.chat+"/messages", object{"message": "say: x"})
	}
	newVisit(t, a, nil).say("say: the next visitor's first message")

	const header = "X-Forwarded-For"
	if got := accepted(t, a, 66, header, "198.51.100.1"); got != 60 {
		t.Errorf("%d of 66 messages from one address were accepted, want 60", got)
	}
	if got := accepted(t, a, 11, header, "198.51.100.1, 198.51.100.2"); got != 11 {
		t.Errorf("%d of 11 messages from another address were accepted", got)
	}
}

func TestAVisitorsStopThatItsWorkerHasYetToSee(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	v := newVisit(t, newAuthor(t, h, h.Client(t), nil), nil)
	v.say("say: x")
	// Another process has claimed it, and is busy.
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		row, err := tx.Work().LockSession(t.Context(), h.Account.ID, "", v.embed.ChatSessionID)
		if err != nil {
			return err
		}
		row.Status, row.Turn.Status, row.Owner = stoa.SessionRunning, stoa.SessionRunning, "runner_elsewhere"
		return tx.Work().SaveSession(t.Context(), &row)
	})
	if err != nil {
		t.Fatal(err)
	}
	var chat contract.EmbedChat
	if v.Want(202, "POST", v.chat+"/cancel", nil).JSON(&chat); chat.Status != "running" {
		t.Errorf("the chat is %s", chat.Status)
	}
}
