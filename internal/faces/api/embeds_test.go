package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

const site = "https://www.example.com"

// A visit is a chat in a page of an example's.
type visit struct {
	*apitest.Client
	author author
	embed  contract.EmbedSessionWithToken
	chat   string // path
}

// newVisit makes an embed session of an agent and its page.
func newVisit(t *testing.T, a author, more object) visit {
	t.Helper()
	body := object{"allowedOrigins": []string{site}}
	for k, v := range more {
		body[k] = v
	}
	v := visit{author: a}
	r := a.Want(201, "POST", a.agent+"/embed-sessions", body).JSON(&v.embed)
	if r.Header.Get("Location") != a.agent+"/embed-sessions/"+v.embed.ID {
		t.Errorf("it is at %q", r.Header.Get("Location"))
	}
	v.Client = a.h.ClientWith(t, v.embed.Token).With("Origin", site)
	v.chat = "/api/v1/embed/chat-sessions/" + v.embed.ChatSessionID
	return v
}

func (v visit) say(text string) contract.EmbedChat {
	var chat contract.EmbedChat
	v.Want(202, "POST", v.chat+"/messages", object{"message": text}).JSON(&chat)
	return chat
}

// until waits for the chat to stop, by its events, and reads it.
func (v visit) until(t *testing.T, status string) contract.EmbedChat {
	t.Helper()
	v.With("Accept", "text/event-stream").Want(200, "GET", v.chat+"/events", nil)
	var chat contract.EmbedChat
	v.Want(200, "GET", v.chat, nil).JSON(&chat)
	if chat.Status != status {
		t.Fatalf("the chat is %s, want %s: %+v", chat.Status, status, chat)
	}
	return chat
}

// link makes an embed URL and gives its id and its ticket.
func link(t *testing.T, a author, more object) (made contract.EmbedURLWithLink, exchange object) {
	t.Helper()
	body := object{"allowedOrigins": []string{site}}
	for k, v := range more {
		body[k] = v
	}
	a.Want(201, "POST", a.agent+"/embed-urls", body).JSON(&made)
	address, ticket, ok := strings.Cut(made.URL, "#t=")
	if !ok || address != a.h.URL+"/embed/"+made.ID || len(ticket) != 43 {
		t.Fatalf("the link is %q", made.URL)
	}
	return made, object{"embedUrlId": made.ID, "ticket": ticket}
}

func texts(chat contract.EmbedChat) (list []string) {
	for _, m := range chat.Messages {
		list = append(list, m.Role+" "+m.Kind+": "+m.Text)
	}
	return list
}

func TestAVisitorTalksToTheAgent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"name": "Guide", "instructions": "A secret instruction."})
	a.file("secret/path.md", "The stoa opens at dawn.")
	v := newVisit(t, a, object{"externalUserId": "u1", "greeting": "Welcome.", "theme": "dark", "maxMessages": 3})
	if v.embed.Status != "active" || !strings.HasPrefix(v.embed.Token, "est_") || v.embed.Object != "embed_session" {
		t.Errorf("it is %+v", v.embed)
	}
	var empty contract.EmbedChat
	v.Want(200, "GET", v.chat, nil).JSON(&empty)
	if empty.Status != "completed" || len(empty.Messages) != 0 || orNone(empty.Greeting) != "Welcome." || empty.Theme != "dark" || empty.Agent.Name != "Guide" || empty.Remaining.Messages != 3 {
		t.Errorf("before the first message it is %+v", empty)
	}
	v.Want(200, "GET", v.chat+"/events", nil)
	v.With("Accept", "text/event-stream").Want(200, "GET", v.chat+"/events", nil)
	v.Want(200, "POST", v.chat+"/cancel", nil)
	v.WantError(stoa.CodeSessionFinished, "POST", v.chat+"/retry", nil)
	v.WantError(stoa.CodeSessionNotFound, "POST", v.chat+"/input", object{"inputId": "inp_x", "answer": "a"})

	v.say("When does the stoa open?")
	chat := v.until(t, "completed")
	if len(chat.Messages) != 2 || !strings.Contains(chat.Messages[1].Text, "at dawn") || chat.Remaining.Messages != 2 {
		t.Errorf("the chat is %+v", chat)
	}
	// The owner sees a normal session.
	var s contract.Session
	a.Want(200, "GET", a.agent+"/sessions/"+v.embed.ChatSessionID, nil).JSON(&s)
	if s.Trigger.Type != "embed" || orNone(s.Trigger.ID) != v.embed.ID || orNone(s.ExternalUserID) != "u1" || s.Usage.CreditsMicro == 0 {
		t.Errorf("the session is %+v", s)
	}
	// Neither the chat nor its events tell of the inside.
	raw := string(v.Want(200, "GET", v.chat, nil).Body) + string(v.Want(200, "GET", v.chat+"/events?limit=1000", nil).Body)
	for _, secret := range []string{"secret instruction", "alpha", "drive.", "usage", "creditsMicro", "arguments", "stepId", "statusReason"} {
		if strings.Contains(raw, secret) {
			t.Errorf("%q is told: %s", secret, raw)
		}
	}
	stream := v.With("Accept", "text/event-stream").Want(200, "GET", v.chat+"/events", nil)
	if got := apitest.Join(stream.Log, chat.Messages[1].ID); got != chat.Messages[1].Text {
		t.Errorf("the pieces make %q, the message is %q", got, chat.Messages[1].Text)
	}
	// Resumed from any point it is the same.
	for i, ev := range stream.Log {
		rest := v.With("Accept", "text/event-stream").With("Last-Event-ID", fmt.Sprint(ev.Seq)).Want(200, "GET", v.chat+"/events", nil).Log
		if diff := cmp.Diff(append([]apitest.LogEvent(nil), stream.Log[i+1:]...), append([]apitest.LogEvent(nil), rest...)); diff != "" {
			t.Fatalf("after %d (-want +got):\n%s", ev.Seq, diff)
		}
	}

	v.say("ask: Which colour? | red | blue")
	chat = v.until(t, "waiting_for_input")
	pending := orNone(chat.PendingInput)
	if pending.Kind != "choice" || len(pending.Options) != 2 {
		t.Fatalf("it waits for %+v", pending)
	}
	v.WantError(stoa.CodeNotFound, "POST", v.chat+"/input", object{"inputId": "inp_x", "choice": "red"})
	v.WantError(stoa.CodeInvalidValue, "POST", v.chat+"/input", object{"inputId": pending.ID, "choice": "green"})
	v.Want(202, "POST", v.chat+"/input", object{"inputId": pending.ID, "choice": "blue"})
	chat = v.until(t, "completed")
	if chat.Remaining.Messages != 0 || !chat.Remaining.LimitReached {
		t.Errorf("three were sent, and there remains %+v", chat.Remaining)
	}
	v.WantError(stoa.CodeInputAnswered, "POST", v.chat+"/input", object{"inputId": pending.ID, "choice": "blue"})
	if e := v.WantError(stoa.CodeEmbedLimit, "POST", v.chat+"/messages", object{"message": "more"}); e.Retryable {
		t.Error("a limit that stays is not worth a retry")
	}
	var seen contract.EmbedSession
	a.Want(200, "GET", a.agent+"/embed-sessions/"+v.embed.ID, nil).JSON(&seen)
	if seen.MessagesSent != 3 || orNone(seen.LastMessageAt) == (contract.Time{}) {
		t.Errorf("its owner sees %+v", seen)
	}
}

func TestALinkWorksOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	anyone := h.ClientWith(t, "")
	made, exchange := link(t, a, nil)
	if made.Status != "pending" {
		t.Errorf("it is %s", made.Status)
	}
	one := anyone.WantError(stoa.CodeUnauthorized, "POST", "/api/v1/embed/exchange", object{"embedUrlId": made.ID, "ticket": "wrong"})
	two := anyone.WantError(stoa.CodeUnauthorized, "POST", "/api/v1/embed/exchange", object{"embedUrlId": stoa.NewID("emu"), "ticket": exchange["ticket"]})
	if one.Message != two.Message {
		t.Error("whether there is such a link is told")
	}
	for name, value := range map[string]string{"Origin": site, "Sec-Fetch-Site": "cross-site"} {
		anyone.With(name, value).WantError(stoa.CodeOriginNotAllowed, "POST", "/api/v1/embed/exchange", exchange)
	}
	// Of many at the same time, one succeeds.
	const n = 8
	statuses := make(chan int, n)
	tokens := make(chan contract.EmbedToken, n)
	for range n {
		go func() {
			r, err := h.ClientWith(t, "").With("Origin", h.URL).Try(context.Background(), "POST", "/api/v1/embed/exchange", exchange)
			if err != nil {
				t.Error(err)
				statuses <- 0
				return
			}
			if r.Status == 200 {
				var token contract.EmbedToken
				r.JSON(&token)
				tokens <- token
			}
			statuses <- r.Status
		}()
	}
	count := map[int]int{}
	for range n {
		count[<-statuses]++
	}
	if diff := cmp.Diff(map[int]int{200: 1, 409: n - 1}, count); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	token := <-tokens
	if token.ChatSessionID != made.ChatSessionID {
		t.Errorf("the chat is %s, want %s", token.ChatSessionID, made.ChatSessionID)
	}
	if e := anyone.WantError(stoa.CodeEmbedUsed, "POST", "/api/v1/embed/exchange", exchange); e.Retryable {
		t.Error("a used link stays used")
	}
	page := h.ClientWith(t, token.Token)
	chat := "/api/v1/embed/chat-sessions/" + token.ChatSessionID
	page.Want(200, "GET", chat, nil)
	page.With("Origin", h.URL).With("Sec-Fetch-Site", "same-origin").Want(202, "POST", chat+"/messages", object{"message": "say: hello"})
	page.With("Origin", site).WantError(stoa.CodeOriginNotAllowed, "GET", chat, nil)
	page.With("Sec-Fetch-Site", "same-site").WantError(stoa.CodeOriginNotAllowed, "GET", chat, nil)
	var seen contract.EmbedURL
	a.Want(200, "GET", a.agent+"/embed-urls/"+made.ID, nil).JSON(&seen)
	if seen.Status != "active" || seen.RefusedRequests != 4 || len(seen.RefusedOrigins) == 0 || seen.MessagesSent != 1 {
		t.Errorf("its owner sees %+v", seen)
	}
	var second contract.EmbedToken
	page.Want(200, "POST", "/api/v1/embed/refresh", nil).JSON(&second)
	if second.Token == token.Token {
		t.Error("the token was not renewed")
	}
	h.ClientWith(t, second.Token).Want(200, "GET", chat, nil)
	page.Want(200, "GET", chat, nil)
	a.Want(204, "DELETE", a.agent+"/embed-urls/"+made.ID, nil)
	a.Want(204, "DELETE", a.agent+"/embed-urls/"+made.ID, nil)
	page.WantError(stoa.CodeUnauthorized, "GET", chat, nil)
	h.ClientWith(t, second.Token).WantError(stoa.CodeUnauthorized, "GET", chat, nil)
	anyone.WantError(stoa.CodeUnauthorized, "POST", "/api/v1/embed/exchange", exchange)

	_, late := link(t, a, object{"expiresInSeconds": 1})
	eventually(t, "the link expires", func() bool {
		var seen contract.EmbedURL
		a.Want(200, "GET", a.agent+"/embed-urls/"+fmt.Sprint(late["embedUrlId"]), nil).JSON(&seen)
		return seen.Status == "expired"
	})
	anyone.WantError(stoa.CodeEmbedExpired, "POST", "/api/v1/embed/exchange", late)
}

// eventually repeats a request until it shows what it waits for.
func eventually(t *testing.T, what string, shows func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !shows() {
		if ctx.Err() != nil {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

func TestATokenIsGoodForOneChatAndNothingElse(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.RateLimited = func() bool { return false } }}) // of wrong keys
	a := newAuthor(t, h, h.Client(t), nil)
	v, other := newVisit(t, a, nil), newVisit(t, a, nil)
	v.say("say: hello")
	other.say("say: hello")
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		r := op.Sample(v.embed.ChatSessionID)
		if op.Tags[0] == "embeds" && op.Security != nil {
			if strings.Contains(op.Path, "{chatId}") {
				r = op.Sample(other.embed.ChatSessionID)
				v.SendForError("Unauthorized", r)
				h.ClientWith(t, h.Key).With("Origin", site).SendForError("Unauthorized", r)
			}
			return
		}
		if op.Security == nil {
			v.SendForError("Unauthorized", r)
		}
	})
	for _, header := range []string{"", "Bearer", "Bearer est_", "Bearer " + v.embed.Token + "x", "Basic " + v.embed.Token, v.embed.Token} {
		v.With("Authorization", header).WantError(stoa.CodeUnauthorized, "GET", v.chat, nil)
	}
	v.With("Authorization", "bearer  "+v.embed.Token).Want(200, "GET", v.chat, nil)

	short := newVisit(t, a, object{"expiresInSeconds": 1, "chatExpiresInSeconds": 600})
	eventually(t, "the token expires", func() bool { // polling the chat itself would exceed its rate limit
		now, err := http.ParseTime(a.Want(200, "GET", "/api/v1/health", nil).Header.Get("Date"))
		return err == nil && now.After(short.embed.ExpiresAt.Time())
	})
	short.WantError(stoa.CodeUnauthorized, "GET", short.chat, nil)
	short.WantError(stoa.CodeUnauthorized, "POST", "/api/v1/embed/refresh", nil)
	var again contract.EmbedSessionWithToken
	a.Want(200, "POST", a.agent+"/embed-sessions/"+short.embed.ID+"/refresh", nil).JSON(&again)
	h.ClientWith(t, again.Token).With("Origin", site).Want(200, "GET", short.chat, nil)

	over := newVisit(t, a, object{"expiresInSeconds": 1, "chatExpiresInSeconds": 1})
	eventually(t, "the chat is over", func() bool {
		r := a.Do("POST", a.agent+"/embed-sessions/"+over.embed.ID+"/refresh", nil)
		return r.Status != 200 && r.Error().Code == string(stoa.CodeEmbedExpired)
	})
	over.WantError(stoa.CodeUnauthorized, "GET", over.chat, nil)
}

func TestOriginsAreChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"allowedOrigins": []string{site, "https://*.shop.example.com", "http://localhost:3000", "HTTPS://UPPER.example.com:443"}})
	if diff := cmp.Diff([]string{site, "https://*.shop.example.com", "http://localhost:3000", "https://upper.example.com"}, v.embed.AllowedOrigins); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, origin := range []string{site, "https://a.shop.example.com", "https://b.a.shop.example.com", "http://localhost:3000", "https://upper.example.com"} {
		r := v.With("Origin", origin).Want(200, "GET", v.chat, nil)
		if got := r.Header.Get("Access-Control-Allow-Origin"); got != origin || r.Header.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(r.Header.Get("Vary"), "Origin") {
			t.Errorf("%s may read the reply: %q", origin, r.Header)
		}
		pre := preflight(t, h, v.chat+"/messages", origin)
		if pre.StatusCode != 204 || pre.Header.Get("Access-Control-Allow-Origin") != origin || pre.Header.Get("Access-Control-Allow-Methods") != "GET, POST, PUT, DELETE" ||
			pre.Header.Get("Access-Control-Allow-Headers") != "Authorization, Content-Type, Idempotency-Key, Last-Event-ID" {
			t.Errorf("the preflight of %s: %d %v", origin, pre.StatusCode, pre.Header)
		}
		if pre := preflight(t, h, "/api/v1/embed/refresh", origin); pre.StatusCode != 204 {
			t.Errorf("the preflight of a refresh: %d", pre.StatusCode)
		}
	}
	wrong := []string{
		"", "null", "https://evil.example", "http://www.example.com", "https://www.example.com:8443", "https://shop.example.com", "https://www.example.com.evil.example",
		"https://xshop.example.com", "http://localhost:3001", "https://www.example.com/", "*", "https://a.shop.example.com:444",
	}
	for _, origin := range wrong {
		r := v.With("Origin", origin).Do("GET", v.chat, nil)
		if r.Error().Code != "origin_not_allowed" || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %d %v", origin, r.Status, r.Header)
		}
		if origin == "" {
			continue
		}
		if pre := preflight(t, h, v.chat+"/messages", origin); pre.StatusCode != 403 || pre.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("the preflight of %q: %d %v", origin, pre.StatusCode, pre.Header)
		}
	}
	// A page that is listed reads why its token is refused.
	if r := v.With("Authorization", "Bearer est_wrong").Do("GET", v.chat, nil); r.Status != 401 || r.Header.Get("Access-Control-Allow-Origin") != site {
		t.Errorf("a refusal has %v", r.Header)
	}
	if pre := preflight(t, h, "/api/v1/embed/exchange", site); pre.StatusCode != 403 {
		t.Errorf("a foreign page may exchange: %d", pre.StatusCode)
	}
	if pre := preflight(t, h, a.agent, site); pre.StatusCode != 405 || pre.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("the rest of the API answers preflights: %d", pre.StatusCode)
	}
	var seen contract.EmbedSession
	a.Want(200, "GET", a.agent+"/embed-sessions/"+v.embed.ID, nil).JSON(&seen)
	if want := int64(2*len(wrong) - 1); seen.RefusedRequests != want || len(seen.RefusedOrigins) < 8 {
		t.Errorf("%d refusals, want %d: %+v", seen.RefusedRequests, want, seen.RefusedOrigins)
	}
	// Revoked, it answers no preflight.
	a.Want(204, "DELETE", a.agent+"/embed-sessions/"+v.embed.ID, nil)
	if pre := preflight(t, h, v.chat, site); pre.StatusCode != 403 {
		t.Errorf("after the end: %d", pre.StatusCode)
	}
}

func preflight(t *testing.T, h *apitest.Service, path, origin string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "OPTIONS", h.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", origin)
	req.Header.Set("Access-Control-Request-Method", "POST")
	req.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

func TestWhatAnEmbedMayBe(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	for _, kind := range []string{"/embed-urls", "/embed-sessions"} {
		for _, origins := range []any{nil, []string{}, []string{"*"}, []string{site, "https://*"}} {
			a.WantError(stoa.CodeOriginsRequired, "POST", a.agent+kind, object{"allowedOrigins": origins})
		}
		a.WantError(stoa.CodeOriginsRequired, "POST", a.agent+kind, object{})
		for _, origin := range []string{"http://www.example.com", "https://*.com", "https://a.*.example.com", "https://www.example.com/path", "www.example.com", "https://", "ftp://example.com", "https://user@example.com", "https://exam ple.com", "https://example.com:x", "https://ex'; script-src *", "null", "https://[::1]", "http://*.localhost"} {
			if e := a.WantError(stoa.CodeInvalidValue, "POST", a.agent+kind, object{"allowedOrigins": []string{origin}}); orNone(param(e)) != "allowedOrigins" {
				t.Errorf("%s: %+v", origin, e)
			}
		}
		for member, value := range map[string]any{"expiresInSeconds": 0, "chatExpiresInSeconds": 86401, "messagesPerMinute": 0, "maxMessages": 1001, "theme": "pink", "maxCreditsMicro": 0, "maxMessageChars": 0} {
			a.WantError(stoa.CodeInvalidValue, "POST", a.agent+kind, object{"allowedOrigins": []string{site}, member: value})
		}
		a.WantError(stoa.CodeAgentNotFound, "POST", "/api/v1/api-agents/agt_none"+kind, object{"allowedOrigins": []string{site}})
		a.WantError(stoa.CodeAgentNotFound, "GET", "/api/v1/api-agents/agt_none"+kind, nil)
		a.WantError(stoa.CodeAgentNotFound, "GET", "/api/v1/api-agents/agt_none"+kind+"/x", nil)
		a.WantError(stoa.CodeNotFound, "GET", a.agent+kind+"/x", nil)
		a.WantError(stoa.CodeSessionNotFound, "POST", a.agent+kind, object{"allowedOrigins": []string{site}, "chatSessionId": stoa.NewID("ses")})
		a.WantError(stoa.CodeInvalidValue, "GET", a.agent+kind+"?limit=0", nil)

		// Once under a key, with the secret in the reply of both.
		once := a.With("Idempotency-Key", "k")
		body := object{"allowedOrigins": []string{site}}
		first := once.Want(201, "POST", a.agent+kind, body)
		again := once.Want(201, "POST", a.agent+kind, body)
		if string(first.Body) != string(again.Body) || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Error("it was made twice")
		}
		once.WantError(stoa.CodeIdempotencyReused, "POST", a.agent+kind, object{"allowedOrigins": []string{site}, "theme": "dark"})
		a.Want(201, "POST", a.agent+kind, body)
		var list contract.EmbedURLList
		a.Want(200, "GET", a.agent+kind+"?limit=1", nil).JSON(&list)
		if len(list.Data) != 1 || !list.HasMore {
			t.Fatalf("the first page is %+v", list)
		}
		a.Want(200, "GET", a.agent+kind+"?limit=1&cursor="+orNone(list.NextCursor), nil).JSON(&list)
		if len(list.Data) != 1 || list.HasMore {
			t.Errorf("the second page is %+v", list)
		}
		// Another account cannot read it.
		id := list.Data[0].ID
		other := customer(t, h)
		other.WantError(stoa.CodeAgentNotFound, "GET", a.agent+kind+"/"+id, nil)
		other.WantError(stoa.CodeNotFound, "DELETE", a.agent+kind+"/"+id, nil)
		a.WantError(stoa.CodeNotFound, "DELETE", a.agent+kind+"/x", nil)
		var still contract.EmbedURL
		if a.Want(200, "GET", a.agent+kind+"/"+id, nil).JSON(&still); still.Status == "revoked" {
			t.Error("another account revoked it")
		}
	}
	a.WantError(stoa.CodeNotFound, "POST", a.agent+"/embed-sessions/x/refresh", nil)
	v := newVisit(t, a, nil)
	a.With("Idempotency-Key", "r").Want(200, "POST", a.agent+"/embed-sessions/"+v.embed.ID+"/refresh", nil)
	a.With("Idempotency-Key", "bad key").WantError(stoa.CodeInvalidValue, "POST", a.agent+"/embed-sessions/"+v.embed.ID+"/refresh", nil)
}

func param(e contract.ErrorBody) getter[string] { return pointed{e.Param} }

type pointed struct{ p *string }

func (p pointed) Get() (string, error) {
	if p.p == nil {
		return "", fmt.Errorf("none")
	}
	return *p.p, nil
}

// customer is a client of another account.
func customer(t *testing.T, h *apitest.Service) *apitest.Client {
	t.Helper()
	var made contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Other"}).JSON(&made)
	return h.ClientWith(t, made.Key.Secret)
}

func TestAChatIsGoneOnWith(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"externalUserId": "u1"})
	chat := v.embed.ChatSessionID
	make := func(user any) object {
		return object{"allowedOrigins": []string{site}, "chatSessionId": chat, "externalUserId": user}
	}
	a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/embed-sessions", make("u2"))
	v.say("say: one")
	v.until(t, "completed")
	a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/embed-sessions", make("u2"))
	again := newVisit(t, a, make(nil))
	again.say("say: two")
	got := again.until(t, "completed")
	if diff := cmp.Diff([]string{"user message: say: one", "assistant reply: one", "user message: say: two", "assistant reply: two"}, texts(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if orNone(again.embed.ExternalUserID) != "u1" || got.Remaining.Messages != 49 {
		t.Errorf("the second embed is %+v, %+v", again.embed, got.Remaining)
	}
	other := newAuthor(t, h, a.Client, nil)
	other.WantError(stoa.CodeSessionNotFound, "POST", other.agent+"/embed-sessions", make(nil))
	s, _ := a.begin(t, "say: x", object{"mode": "once"})
	a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/embed-sessions", object{"allowedOrigins": []string{site}, "chatSessionId": s.ID})

	// A chat that its owner deletes is gone, and does not come back.
	a.Want(204, "DELETE", a.agent+"/sessions/"+chat, nil)
	v.WantError(stoa.CodeSessionNotFound, "GET", v.chat, nil)
	v.WantError(stoa.CodeSessionNotFound, "GET", v.chat+"/events", nil)
	v.WantError(stoa.CodeSessionNotFound, "POST", v.chat+"/messages", object{"message": "more"})
	v.WantError(stoa.CodeSessionNotFound, "POST", v.chat+"/cancel", nil)
	v.WantError(stoa.CodeSessionNotFound, "POST", v.chat+"/retry", nil)
	a.WantError(stoa.CodeSessionNotFound, "POST", a.agent+"/embed-sessions", make(nil))
}

func TestAnEmbedHasCaps(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"messagesPerMinute": 2, "maxMessageChars": 20})
	e := v.WantError(stoa.CodeInvalidValue, "POST", v.chat+"/messages", object{"message": strings.Repeat("ü", 21)})
	if orNone(param(e)) != "message" {
		t.Errorf("it is about %v", e.Param)
	}
	v.say("say: " + strings.Repeat("ü", 15))
	v.say("say: two")
	r := v.Do("POST", v.chat+"/messages", object{"message": "three"})
	if e := r.Error(); e.Code != "embed_limit_reached" || !e.Retryable || r.Header.Get("Retry-After") == "" {
		t.Errorf("the third in a minute: %d %v %s", r.Status, r.Header, r.Body)
	}
	v.until(t, "completed")

	v = newVisit(t, a, object{"messagesPerMinute": 1})
	v.say("fail: 400")
	v.until(t, "failed")
	v.WantError(stoa.CodeEmbedLimit, "POST", v.chat+"/retry", nil)

	v = newVisit(t, a, object{"maxCreditsMicro": 500})
	v.say("tokens: 2000")
	chat := v.until(t, "completed")
	var s contract.Session
	a.Want(200, "GET", a.agent+"/sessions/"+chat.ID, nil).JSON(&s)
	if s.Usage.CreditsMicro > 500 || s.Usage.CreditsMicro == 0 || orNone(s.StatusReason) != "length" {
		t.Errorf("it came to %d, %s", s.Usage.CreditsMicro, orNone(s.StatusReason))
	}
	for range 3 { // a few may still be paid; then it is over
		if r := v.Do("POST", v.chat+"/messages", object{"message": "tokens: 2000"}); r.Status != 202 {
			break
		}
		v.With("Accept", "text/event-stream").Want(200, "GET", v.chat+"/events", nil)
	}
	a.Want(200, "GET", a.agent+"/sessions/"+chat.ID, nil).JSON(&s)
	if s.Usage.CreditsMicro > 500 {
		t.Errorf("the cap is 500, and %d were spent", s.Usage.CreditsMicro)
	}

	// A visitor only learns that the answer failed.
	v = newVisit(t, a, nil)
	v.say("fail: 400")
	chat = v.until(t, "failed")
	failure := orNone(chat.Error)
	if failure.Message == "" || strings.Contains(failure.Message, "400") || strings.Contains(failure.Message, "sandbox") {
		t.Errorf("it says %+v", failure)
	}
	v.Want(202, "POST", v.chat+"/retry", nil)
	v.until(t, "failed")
	v.say("say: well")
	v.until(t, "completed")
	v.WantError(stoa.CodeSessionFinished, "POST", v.chat+"/retry", nil)
}

func TestAVisitorStopsTheAgent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, nil)
	v.say("slow: 100ms\ntokens: 1000")
	v.WantError(stoa.CodeSessionBusy, "POST", v.chat+"/retry", nil)
	r := v.Do("POST", v.chat+"/cancel", nil)
	if r.Status != 200 && r.Status != 202 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	v.until(t, "cancelled")
	v.Want(200, "POST", v.chat+"/cancel", nil)
	once := v.With("Idempotency-Key", "again")
	once.Want(202, "POST", v.chat+"/retry", nil)
	if r := once.Want(202, "POST", v.chat+"/retry", nil); r.Header.Get("Idempotency-Replayed") != "true" {
		t.Error("it was done twice")
	}
	v.Do("POST", v.chat+"/cancel", nil)
}

// TestAnEndedEmbedClosesItsStreams ends embeds in every way while a page
// listens, before the first message and after it.
func TestAnEndedEmbedClosesItsStreams(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for name, end := range map[string]func(a author, v visit){
		"revoked":         func(a author, v visit) { a.Want(204, "DELETE", a.agent+"/embed-sessions/"+v.embed.ID, nil) },
		"switched off":    func(a author, v visit) { a.Want(200, "PATCH", a.agent, object{"embedEnabled": false}) },
		"agent deleted":   func(a author, v visit) { a.Want(204, "DELETE", a.agent, nil) },
		"session deleted": func(a author, v visit) { a.Want(204, "DELETE", a.agent+"/sessions/"+v.embed.ChatSessionID, nil) },
	} {
		for _, begun := range []bool{false, true} {
			if !begun && name == "session deleted" {
				continue
			}
			t.Run(fmt.Sprintf("%s, begun %v", name, begun), func(t *testing.T) {
				a := newAuthor(t, h, h.Client(t), nil)
				v := newVisit(t, a, nil)
				if begun {
					v.say("say: hello")
					v.until(t, "completed")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, "GET", h.URL+v.chat+"/events?follow=true", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+v.embed.Token)
				req.Header.Set("Origin", site)
				req.Header.Set("Accept", "text/event-stream")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.StatusCode != 200 || res.Header.Get("Access-Control-Allow-Origin") != site {
					t.Fatalf("%d %v", res.StatusCode, res.Header)
				}
				end(a, v)
				buf := make([]byte, 4096)
				for err == nil {
					_, err = res.Body.Read(buf)
				}
				if ctx.Err() != nil {
					t.Errorf("it never closed: %v", err)
				}
				r := v.Do("GET", v.chat, nil)
				want := map[string]string{"revoked": "Unauthorized", "switched off": "embed_disabled", "agent deleted": "Unauthorized", "session deleted": "session_not_found"}[name]
				if r.Error().Code != want {
					t.Errorf("afterwards it answers %s, want %s", r.Body, want)
				}
				if name == "switched off" {
					a.WantError(stoa.CodeEmbedDisabled, "POST", a.agent+"/embed-sessions", object{"allowedOrigins": []string{site}})
					a.WantError(stoa.CodeEmbedDisabled, "POST", a.agent+"/embed-urls", object{"allowedOrigins": []string{site}})
					a.WantError(stoa.CodeEmbedDisabled, "POST", a.agent+"/embed-sessions/"+v.embed.ID+"/refresh", nil)
				}
			})
		}
	}
}

func TestSecretsOfEmbedsAreNotStored(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, nil)
	_, exchange := link(t, a, nil)
	err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		for _, secret := range []string{v.embed.Token, exchange["ticket"].(string)} {
			var n int
			if _, err := tx.Get(t.Context(), `SELECT (SELECT count(*) FROM embed_tokens WHERE hash LIKE '%' || $1 || '%') + (SELECT count(*) FROM embeds WHERE ticket LIKE '%' || $1 || '%')`, []any{secret}, &n); err != nil {
				return err
			}
			if n != 0 {
				t.Error("a secret is stored")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
